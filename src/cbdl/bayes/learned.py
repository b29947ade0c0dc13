"""What Step 3 of Algorithm 1 left: for each likelihood its cohort, their posterior and the priors they were given.

The one home of what a model has learned. Predictions read it, `cbdl.store` writes and reads it, `CBDL` holds it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from cbdl.nets import Net

from .cohort import Cohort, Member
from .data import Standard, TrainingData
from .methods.protocol import Posterior
from .priors import Coordinates, PriorLike
from .tails import Tail

Chains = Literal["averaged", "extremes"]
"""Chains of one member are averaged, as Bayes' rule has it if they mix; or each is an extreme of its own: chains that
do not meet cannot tell how likely the modes are that they stay in, so all weightings of them are in the set."""


MEMBERS = ("member", "prior", "likelihood", "parameters")
"""What `Learned.described` says of every member."""


def check_chains(chains: str) -> None:
    """A ValueError unless `chains` is one of the words."""
    if chains not in ("averaged", "extremes"):
        raise ValueError(f'chains is {chains!r}; give "averaged" or "extremes"')


def in_order(members: Iterable[Member]) -> tuple[Member, ...]:
    """Members as they stand in a prediction: (k, s) -> k * S + s, and chains side by side."""
    return tuple(sorted(members, key=lambda m: (m.k, m.s, m.chain)))


@dataclass(frozen=True)
class Part:
    """One likelihood: its members, what they learned, and the priors that they learned from."""

    priors: tuple[PriorLike, ...]
    """One per prior k of the model: the user's own, or after an update the posteriors of before."""
    cohort: Cohort
    posterior: Posterior

    @property
    def continued(self) -> bool:
        """Whether the priors are what was learned before, coordinate by coordinate, as after an update."""
        return any(isinstance(prior, Coordinates) for prior in self.priors)


@dataclass(frozen=True)
class Learned:
    """The parts of all likelihoods, and the units of the data."""

    parts: Mapping[int, Part]
    """By the number s of the likelihood; a likelihood whose members were all dropped has none."""
    inputs: Standard
    targets: Standard
    row: tuple[int, ...]
    """The shape of one input."""
    seed: int
    size: float
    """N of the objective: training rows, or the sum of their weights."""
    integers: bool = False
    """Whether inputs are integers (tokens)."""
    sharpness: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """Of members (k, s): the power to which their class probabilities are raised (`bayes.sharpness`)."""
    tails: Mapping[tuple[int, int], Tail] = field(default_factory=dict)
    """Of members (k, s): how far off they may be of real outcomes (`bayes.tails`)."""

    @classmethod
    def of(cls, parts: Iterable[Part], data: TrainingData, seed: int) -> Learned:
        """The parts that were trained on `data`."""
        return cls(
            parts={part.cohort.members[0].s: part for part in parts},
            inputs=data.inputs,
            targets=data.targets,
            row=tuple(data.held.x.shape[1:]),
            seed=seed,
            size=data.size,
            integers=not data.held.x.is_floating_point(),
        )

    @property
    def space(self) -> str:
        """What is predicted: "classes", "real" or "counts"."""
        return next(iter(self.parts.values())).cohort.likelihood.space

    @property
    def members(self) -> tuple[Member, ...]:
        """All members in the order (k, s) -> k * S + s; chains that are members stand side by side."""
        return in_order(m for part in self.parts.values() for m in part.cohort.members)

    @property
    def distinct(self) -> int | None:
        """How many draws of every posterior differ, at least; None if they have no end: see the posterior's own."""
        ends = [part.posterior.distinct for part in self.parts.values()]
        return min((end for end in ends if end is not None), default=None)

    @property
    def chains(self) -> int:
        """How many chains the draws of every posterior are taken from in turn, at most."""
        return max(part.posterior.turns for part in self.parts.values())

    @property
    def noises(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """For real outcomes, the noise of every member as a mixture of Normals; for others nothing."""
        if self.space != "real":
            return ()
        normals = {
            m: part.cohort.likelihood.normals() for part in self.parts.values() for m in part.cohort.members
        }
        return tuple(normals[m] for m in self.members)

    @property
    def powers(self) -> Tensor:
        """The sharpness of `members`."""
        return torch.tensor([self.sharpness.get((m.k, m.s), 1.0) for m in self.members], dtype=torch.float64)

    def described(self) -> list[tuple[str, str, str, int]]:
        """Of every member in words: its name, its prior, its likelihood with its network, how many parameters."""
        rows = []
        for m in self.members:
            part = self.parts[m.s]
            likelihood = part.cohort.likelihood
            words = f"{type(likelihood).__name__}, {_net_name(likelihood.net)}"
            rows.append((str(m), _prior_name(part.priors[m.k]), words, part.cohort.layout.size))
        return rows

    def losses(self) -> dict[Member, Tensor]:
        """Of every member its loss by epoch, as long as it was trained; a ValueError if they are not known, as after
        loading."""
        curves: dict[Member, Tensor] = {}
        for part in self.parts.values():
            record = part.posterior.record
            if record is None or not record.loss.numel():
                raise ValueError("the losses are not known; a saved model does not keep them: fit it again")
            lengths = record.stopped.tolist() or [len(record.loss)] * part.cohort.size
            for i, member in enumerate(part.cohort.members):
                curves[member] = record.loss[: int(lengths[i]), i]
        return {member: curves[member] for member in self.members}

    def places(self, s: int) -> list[int]:
        """Where the members of likelihood `s` stand in `members`."""
        order = {member: i for i, member in enumerate(self.members)}
        return [order[member] for member in self.parts[s].cohort.members]

    def by_chain(self) -> Learned:
        """The same with every chain of every member as a member of its own; as it is where there are no chains."""
        parts = {}
        for s, part in self.parts.items():
            posterior, count = part.posterior.by_chain()
            if count == 1:
                parts[s] = part
                continue
            cohort = part.cohort.only([i for i in range(part.cohort.size) for _ in range(count)])
            members = (replace(m, chain=i % count) for i, m in enumerate(cohort.members))
            parts[s] = replace(part, cohort=replace(cohort, members=tuple(members)), posterior=posterior)
        return replace(self, parts=parts)

    def without(self, members: Collection[tuple[int, int]]) -> Learned:
        """The same without the members (k, s)."""
        known = {(m.k, m.s) for m in self.members}
        unknown = set(members) - known
        if unknown or set(members) >= known:
            raise ValueError(
                f"members is {sorted(members)}; the model has {sorted(known)}, and one must stay"
            )
        fewer = {}
        for s, part in self.parts.items():
            stay = [i for i, m in enumerate(part.cohort.members) if (m.k, m.s) not in members]
            if stay:
                cohort = part.cohort.only(stay)
                fewer[s] = replace(part, cohort=cohort, posterior=part.posterior.only(stay))
        sharpness = {pair: power for pair, power in self.sharpness.items() if pair not in members}
        tails = {pair: tail for pair, tail in self.tails.items() if pair not in members}
        return replace(self, parts=fewer, sharpness=sharpness, tails=tails)


def _prior_name(prior: PriorLike) -> str:
    """A prior as its class and settings; one per coordinate, as after an update, by its class alone."""
    if isinstance(prior, Coordinates):
        return "what was learned before"
    text = " ".join(repr(prior).split())
    return text if len(text) <= 90 else f"{text[:87]}..."


def _net_name(net: object) -> str:
    """A network by its name and settings, one of the user's own by the name of its factory."""
    if isinstance(net, Net):
        known = ((name, value) for name, value in net.settings if value is not None and name != "quantiles")
        settings = ", ".join(f"{name}={value}" for name, value in known)
        return f"{net.name}({settings})"
    return str(getattr(net, "__qualname__", type(net).__name__))
