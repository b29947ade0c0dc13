"""What an inference method is, and what it leaves behind: the two contracts of Step 3.

A `Method` is a frozen dataclass of settings with two verbs, `fit` and `from_state`. A `Posterior` is a frozen
dataclass of tensors that lead with the members' axis. Both are base classes one level deep: what every method must
say is abstract, every further ability is here with a default, so that nobody has to ask whether it exists.
`cbdl.bayes.methods.checks.check_method` puts a method through all of it.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypedDict

from torch import Tensor

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import TrainingData
from cbdl.bayes.forward import Buffers
from cbdl.bayes.priors import PriorLike
from cbdl.bayes.train import Record, Run

MOMENT_DRAWS = 64
"""Draws behind the moments of a posterior that has no closed ones."""


@dataclass(frozen=True, kw_only=True)
class Posterior(ABC):
    """What a method learned about a cohort: m members, P parameters, Q noise parameters.

    Every tensor (also those in a dict) leads with the members' axis; whatever else a posterior holds is shared by
    all of them.
    """

    seeds: tuple[int, ...]
    """One per member."""
    noise: Tensor
    """Parameters of the noise model (m, Q); their centre, where every draw has its own (`noises`)."""
    buffers: Buffers
    """Buffers of the networks; each leads with the members."""
    record: Record | None = None
    """How the training went; None for a posterior that was built from a state."""

    @abstractmethod
    def sample(self, draws: int, seed: int = 0, start: int = 0) -> Tensor:
        """theta (m, draws, P): draws number start, start + 1, ... of the stream `seed`.

        Members share their base draws (`cbdl.bayes.draws`) where the method has such, so that they differ by what
        they learned; draw i depends on (the member, seed, i) only.

        - `start`: the number of the first draw
        """

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """All that `Method.from_state` needs; every tensor leads with the members."""

    # --- abilities with a default ---------------------------------------------------------------------------

    def noises(self, draws: int, seed: int = 0, start: int = 0) -> Tensor:
        """The noise parameters (m, draws, Q) that belong to the draws of `sample` with the same arguments.

        - `draws`: how many
        - `seed`: of the stream
        - `start`: the number of the first draw
        """
        return self.noise.unsqueeze(1).expand(-1, draws, -1)

    @property
    def distinct(self) -> int | None:
        """How many draws differ: a number for finitely many points, which are independent of each other and come again
        after so many; None if draws have no end, and are the antithetic pairs of `cbdl.bayes.draws`.
        """
        return None

    @property
    def turns(self) -> int:
        """How many chains draws are taken from in turn; 1: they are independent, or pairs."""
        return 1

    @property
    def plain(self) -> bool:
        """Whether `outputs` are those of the draws' networks, and nothing else."""
        return True

    def outputs(self, cohort: Cohort, theta: Tensor, x: Tensor) -> Tensor:
        """What draws theta (m, draws, P) say about x: outputs (m, draws, batch, ...), here those of their networks.

        - `cohort`: the members, which share a network
        - `x`: inputs (batch, ...)
        """
        return cohort.forward(theta, x, self.buffers)

    def chains(self) -> tuple[Tensor, Tensor] | None:
        """All draws by chain, (m, chains, D, P), and their noise parameters (m, chains, D, Q); None without chains."""
        return None

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of every parameter, each (m, P): closed if a method knows them, else of draws."""
        theta = self.sample(MOMENT_DRAWS)
        return theta.mean(1), theta.std(1, correction=0)

    def centre(self) -> Tensor:
        """One network of every member (m, P) to start from again: a mean or mode if there is one, else a draw."""
        return self.sample(1)[:, 0]

    def kl(self, cohort: Cohort) -> Tensor | None:
        """KL(posterior || prior) of every member (m,); None where the posterior has no density.

        - `cohort`: the members, which share a network
        """
        return None

    def priors(self, cohort: Cohort) -> list[PriorLike] | None:
        """This posterior as the prior of each member, for learning from more data; None where it cannot be one.

        - `cohort`: the members, which share a network
        """
        return None

    def only(self, members: Sequence[int]) -> Self:
        """The posterior of some members, given by their places, in that order.

        - `members`: their places in the cohort
        """
        places = list(members)
        cut = {f.name: _cut(getattr(self, f.name), places) for f in fields(self)}
        cut["seeds"] = tuple(self.seeds[i] for i in places)
        return replace(self, **cut)

    def gather(self, groups: Sequence[Sequence[int]]) -> Self:
        """The posterior of a cohort from this one, whose members were chains: member i is made of groups[i].

        - `groups`: for each member the places of its chains
        """
        if any(len(group) != 1 for group in groups):
            raise NotImplementedError(f"{type(self).__name__} is not made of chains that are trained apart")
        return self.only([group[0] for group in groups])

    def by_chain(self) -> tuple[Self, int]:
        """Every chain of every member as a member of its own, those of a member side by side, and how many each has."""
        return self, 1

    def with_record(self, record: Record | None) -> Self:
        """The same posterior with another record.

        - `record`: what happened in training
        """
        other = copy.copy(self)
        object.__setattr__(other, "record", record)
        return other


def _cut(value: Any, places: list[int]) -> Any:
    """The members `places` of a tensor, a dict of tensors or a record; anything else is shared by all members."""
    if isinstance(value, Tensor):
        return value[places]
    if isinstance(value, dict):
        return {name: _cut(item, places) for name, item in value.items()}
    return value.only(places) if isinstance(value, Record) else value


class Method(ABC):
    """An inference method: settings (a frozen dataclass) with a verb."""

    @abstractmethod
    def fit(self, cohort: Cohort, data: TrainingData, run: Run) -> Posterior:
        """The posteriors of all members of the cohort, trained together.

        - `cohort`: the members, which share a network
        - `data`: the training rows
        - `run`: seed, output and checkpoints
        """

    @abstractmethod
    def from_state(self, cohort: Cohort, state: Mapping[str, Tensor]) -> Posterior:
        """The posterior that `state()` of another one describes.

        - `cohort`: the members, which share a network
        """

    @property
    def temperature(self) -> float:
        """T: the likelihood counts to the power 1 / T; 1 is Bayes' rule."""
        return 1.0

    def apart(self) -> tuple[Method, int]:
        """The method for one chain, and how many chains make up a posterior: an engine trains them apart, side by side,
        and `Posterior.gather` puts them together. 1: a posterior is trained as a whole."""
        return self, 1

    def effort(self, data: TrainingData) -> tuple[int, float]:
        """How many gradients a member asks for, and of how many rows in all; 0: better trained in one process, whatever
        the number.

        - `data`: the training rows
        """
        return 0, 0.0

    def brief(self) -> Method:
        """A shorter run that is enough to compare members, and to see how well they predict what they have not seen."""
        return self

    def spread(self, times: int) -> Method:
        """The method with so many times as many chains and about as many draws in all, each chain as long as before; a
        method without chains stays as it is.

        - `times`: at least 1
        """
        return self

    def continuing(self) -> Method:
        """The method with which a model learns from more data, after posteriors have become priors."""
        return self


class Common(TypedDict):
    """The fields that all posteriors share, without the record."""

    seeds: tuple[int, ...]
    noise: Tensor
    buffers: Buffers


def common(cohort: Cohort, state: Mapping[str, Tensor]) -> Common:
    """The shared fields of the posterior that `state` describes."""
    return Common(seeds=cohort.seeds, noise=state["noise"], buffers=named(state, "buffer"))


def prefixed(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Tensors under the names that they have in a state: "buffer.<name>"."""
    return {f"{prefix}.{name}": x for name, x in tensors.items()}


def named(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The inverse of `prefixed`: the part of a state with that prefix."""
    start = f"{prefix}."
    return {name.removeprefix(start): x for name, x in state.items() if name.startswith(start)}


def methods_by_name() -> dict[str, type]:
    """The methods of this package by the names that users know."""
    from cbdl.bayes.methods import METHODS

    return {kind.__name__: kind for kind in METHODS}


def check_method_argument(method: object) -> None:
    """A TypeError that lists the methods unless `method` is one."""
    if isinstance(method, Method):
        return
    names = methods_by_name()
    if isinstance(method, type) and issubclass(method, Method):
        raise TypeError(f"method is the class {method.__name__}; give settings: cbdl.{method.__name__}()")
    near = [n for n in names if isinstance(method, str) and n.lower() == method.lower().replace("_", "")]
    hint = f"cbdl.{near[0]}()" if near else f"one of {', '.join(f'cbdl.{n}()' for n in names)}"
    raise TypeError(
        f"method is {method!r}; give {hint}, or a method of your own (a cbdl.bayes.methods.protocol.Method)"
    )


__all__ = [
    "Common",
    "Method",
    "Posterior",
    "check_method_argument",
    "common",
    "methods_by_name",
    "named",
    "prefixed",
]
