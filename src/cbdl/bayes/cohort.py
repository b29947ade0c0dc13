"""A cohort: all members (prior k, likelihood s) of one likelihood, ready to be trained as one computation.

A cohort holds no result. What was learned is a `cbdl.bayes.methods.protocol.Posterior`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from ._random import mix
from .checkpoint import bytes_of
from .flat import Layout
from .forward import Buffers, Forward, Way, Weigh, cast
from .joint_prior import JointPrior, compile_priors
from .likelihoods import Likelihood
from .networks import output_shape, shared_network, start_of
from .priors import PriorLike
from .rows import Batch, Standard, TrainingData
from .wide import Space

Outputs: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(theta (members, draws, P), x (batch, ...)) -> outputs (members, draws, batch, *out)."""


@dataclass(frozen=True)
class Member:
    """One (prior k, likelihood s) pair, and the seed of everything random about it."""

    k: int
    """The place of its prior."""
    s: int
    """The place of its likelihood."""
    seed: int
    """Of everything random about it."""
    fold: int | None = None
    """The fold of the data that it does not see; None: it sees all."""
    chain: int = 0
    """Which of the chains that make up the pair's posterior, where they are trained apart."""

    @classmethod
    def of(cls, seed: int, k: int, s: int) -> Member:
        return cls(k, s, mix(seed, "member", k, s))

    def without(self, fold: int) -> Member:
        """The same pair, made to learn without one fold of the data."""
        return Member(self.k, self.s, mix(self.seed, "fold", fold), fold)

    def another(self, chain: int) -> Member:
        """A further chain of the same pair, without the same fold."""
        return self if chain == 0 else replace(self, seed=mix(self.seed, "chain", chain), chain=chain)

    def __str__(self) -> str:
        fold = "" if self.fold is None else f", without fold {self.fold}"
        return f"prior {self.k}, likelihood {self.s}{f', chain {self.chain}' if self.chain else ''}{fold}"


@dataclass(frozen=True)
class Cohort:
    """Members of one likelihood: priors as tensors, networks as one `Forward`, where they start."""

    members: tuple[Member, ...]
    likelihood: Likelihood
    layout: Layout
    prior: JointPrior
    forward: Forward
    initial: Tensor
    """Each member's own initialisation of the network (members, P)."""
    initial_noise: Tensor
    """(members, Q)"""
    initial_buffers: Buffers
    unit: Tensor
    """What one standardised unit of the targets is in the user's units (*event)."""

    @classmethod
    def of(
        cls,
        priors: Sequence[PriorLike],
        likelihood: Likelihood,
        data: TrainingData,
        *,
        seed: int = 0,
        s: int = 0,
        members: Sequence[Member] | None = None,
        trainable: str | Sequence[str] | None = None,
        way: Way | None = None,
    ) -> Cohort:
        """The cohort of likelihood number `s`: member (k, s) has priors[k]; `members` picks some of them.

        The frozen parameters and the initial buffers come from one network, made with the stream (seed, s);
        the trainable parameters of each member start at a network made with the member's own seed.
        """
        members = (
            tuple(Member.of(seed, k, s) for k in range(len(priors))) if members is None else tuple(members)
        )
        if not members:
            raise ValueError("priors is empty; give at least one")
        held = data.held
        device, dtype = held.x.device, data.inputs.loc.dtype
        network = shared_network(likelihood, mix(seed, "network", s), device, dtype, trainable)
        layout, seeds = Layout.of(network, trainable), tuple(m.seed for m in members)
        likelihood.check(held.y, whole=held.rows == data.rows)
        likelihood.check_outputs(output_shape(network, held.x), held.y)
        starts = [start_of(likelihood, layout, own, device, dtype) for own in seeds]
        return cls(
            members=members,
            likelihood=likelihood,
            layout=layout,
            prior=compile_priors([priors[m.k] for m in members], layout, device=device, dtype=dtype),
            forward=Forward.choose(network, layout, layout.constants(network), seeds, held.x[:3], way),
            initial=torch.stack(starts),
            initial_noise=_repeated(likelihood.noise(data.targets.scale), len(members)),
            initial_buffers={n: _repeated(b.detach(), len(members)) for n, b in network.named_buffers()},
            unit=data.targets.scale,
        )

    def answering(self, x: Tensor, work: int) -> Cohort:
        """The same cohort, whose networks are evaluated as is best for so many rows times draws of inputs like x."""
        forward = self.forward.answering(x, self.initial, work * self.size)
        return self if forward is self.forward else replace(self, forward=forward)

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(m.seed for m in self.members)

    def start(self, seed: int) -> Tensor:
        """The parameters (P,) of a further network from the factory, made with this seed."""
        return start_of(self.likelihood, self.layout, seed, self.initial.device, self.initial.dtype)

    def only(self, places: Sequence[int]) -> Cohort:
        """The cohort of the members `places` alone."""
        members = tuple(self.members[i] for i in places)
        return replace(
            self,
            members=members,
            prior=self.prior.only(places),
            forward=replace(self.forward, seeds=tuple(m.seed for m in members)),
            initial=self.initial[list(places)],
            initial_noise=self.initial_noise[list(places)],
            initial_buffers={n: b[list(places)] for n, b in self.initial_buffers.items()},
        )

    def to(self, dtype: torch.dtype) -> Cohort:
        """The same cohort with its real numbers as `dtype`."""
        if self.initial.dtype == dtype:
            return self
        return replace(
            self,
            prior=self.prior.to(dtype),
            forward=self.forward.to(dtype),
            initial=self.initial.to(dtype),
            initial_noise=self.initial_noise.to(dtype),
            initial_buffers=cast(self.initial_buffers, dtype),
            unit=self.unit.to(dtype),
        )

    def weights(self, batch: Batch, members: slice = slice(None)) -> Tensor:
        """What every row of the batch counts: (), (batch,), or (members, 1, batch) where they leave out folds."""
        if batch.folds is None:
            return batch.weight
        out = [-1 if m.fold is None else m.fold for m in self.members[members]]
        seen = batch.folds != torch.tensor(out, device=batch.folds.device).unsqueeze(1)
        return (seen * batch.weight).unsqueeze(1)

    def score(
        self,
        batch: Batch,
        out: Tensor,
        noise: Tensor,
        members: slice = slice(None),
        *,
        emphasised: bool = False,
        patient: bool = False,
    ) -> Tensor:
        """The weighted sum of the batch's negative log densities (members, draws), in standardised units.

        `out` and `noise` are those of `members`. `emphasised`: with the weights that the likelihood gives to rows in
        training; `patient`: with those while an optimisation begins.
        """
        density = self.likelihood.log_density(out, batch.y, noise, self.unit)
        emphasis = self.likelihood.emphasis(density.detach()) if emphasised else None
        if emphasis is not None:
            density = density * emphasis
        patience = self.patience(batch, out.detach(), noise.detach()) if patient else None
        if patience is not None:
            density = density * patience
        weight = self.weights(batch, members)
        return -(density.sum(-1) * weight if weight.ndim == 0 else (density * weight).sum(-1))

    def patience(self, batch: Batch, out: Tensor, noise: Tensor) -> Tensor | None:
        """The weights of the batch's rows (members, draws, batch) while an optimisation begins; None: all 1."""
        return self.likelihood.patience(out, batch.y, noise, self.unit)

    def scorer(self, batch: Batch, *, patient: bool = False) -> Scorer:
        """`score` for one batch, with its derivatives where the likelihood has them written out."""
        return Scorer(self, batch, patient)

    def gradient(
        self,
        theta: Tensor,
        noise: Tensor,
        batch: Batch,
        buffers: Buffers,
        weigh: Weigh | float,
        step: int = 0,
        *,
        training: bool = True,
        patient: bool = False,
        space: Space | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The batch's nll (members, draws) at theta (members, draws, P), and the gradients of (weight * nll).sum(draws)
        by theta (members, draws, P) and by noise (members, Q).

        `weigh`: the weight of each draw, one number for all or a function of the nll. In training mode `buffers` are
        updated in place. `patient`: an optimisation begins. `space`: memory to work in, of who calls often.
        """
        if not batch.checked:
            self.likelihood.check(batch.y, whole=False)
        score = self.scorer(batch, patient=patient)
        if not callable(weigh):
            number = weigh

            def weigh(nll: Tensor, rows: slice) -> Tensor:
                return torch.full_like(nll, number)

        try:
            return self.forward.gradient(
                theta,
                noise,
                batch.x,
                buffers,
                score,
                weigh,
                step,
                slope=score.slope,
                training=training,
                space=space,
            )
        except (IndexError, RuntimeError):
            # of a stream not all targets were seen before: if one of these is to blame, say which
            self.likelihood.check_outputs(output_shape(self.forward.network, batch.x), batch.y)
            raise

    def mean_nll(
        self,
        theta: Tensor,
        noise: Tensor,
        buffers: Buffers,
        data: TrainingData,
        batch_size: int | None = None,
        outputs: Outputs | None = None,
    ) -> Tensor:
        """The mean NLL over all rows of `data` (members, draws), in standardised units, evaluation mode.

        `outputs`: what the draws say, if it is not what their networks put out.
        """
        total = theta.new_zeros(theta.shape[:2])
        if batch_size is None:
            batch_size = self.forward.rows(theta.shape[0] * theta.shape[1], data.held.x)
        for batch in data.parts(batch_size):
            out = self.forward(theta, batch.x, buffers) if outputs is None else outputs(theta, batch.x)
            total += self.score(batch, out, noise)
        return total

    def describe(
        self,
        theta: Tensor,
        noise: Tensor,
        buffers: Buffers,
        x: Tensor,
        targets: Standard,
        outputs: Outputs | None = None,
    ) -> dict[str, Tensor]:
        """The predictive distributions for standardised inputs x in the user's units, each (members, draws, rows, ...).

        Classes: "probs" (..., J); real: "loc", "scale" (..., *event); counts: "rate". Rows go through in blocks.
        """
        size = self.forward.rows(theta.shape[0] * theta.shape[1], x)
        blocks = (
            self.forward(theta, rows, buffers) if outputs is None else outputs(theta, rows)
            for rows in torch.split(x, size)
        )
        parts = [self.likelihood.describe(out, noise, targets.loc, targets.scale) for out in blocks]
        return {name: torch.cat([part[name] for part in parts], 2) for name in parts[0]}

    def fingerprint(self) -> dict[str, str]:
        """What a checkpoint must agree with, part by part."""
        entries = [(e.name, e.shape) for e in self.layout.entries]
        constants = [self.forward.constants[n] for n in sorted(self.forward.constants)]
        return {
            "members": _digest(repr(self.members)),
            "network": _digest(repr(entries), self.initial, *constants, *self.initial_buffers.values()),
            "likelihood": _digest(_without_factory(self.likelihood)),
            "priors": _digest(
                *[t.family.name for t in self.prior.terms], *[v for t in self.prior.terms for v in t.values]
            ),
        }


@dataclass(frozen=True)
class Scorer:
    """(outputs, noise, which members) -> nll (members, draws) of one batch."""

    cohort: Cohort
    batch: Batch
    patient: bool = False

    def __call__(self, out: Tensor, noise: Tensor, members: slice = slice(None)) -> Tensor:
        return self.cohort.score(self.batch, out, noise, members, emphasised=True, patient=self.patient)

    def slope(self, out: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
        """nll (members, draws), its derivative by the outputs and by the noise (members, draws, Q), or None."""
        slope = self.cohort.likelihood.slope(out, self.batch.y, noise, self.cohort.unit)
        if slope is None:
            return None
        density, by_out, by_noise = slope
        patience = self.cohort.patience(self.batch, out, noise) if self.patient else None
        if patience is not None:
            density, by_noise = density * patience, by_noise * patience.unsqueeze(-1)
            by_out.mul_(patience.reshape(*patience.shape, *(1,) * (by_out.ndim - 3)))
        weight = self.cohort.weights(self.batch)
        if weight.ndim == 0:
            less = -float(weight)
            return density.sum(-1).mul_(less), by_out.mul_(less), by_noise.sum(2).mul_(less)
        by_out.mul_(-weight.reshape(*weight.shape, *(1,) * (by_out.ndim - 3)))
        return -(density * weight).sum(-1), by_out, -(by_noise * weight.unsqueeze(-1)).sum(2)


def _without_factory(likelihood: Likelihood) -> str:
    """The settings of the noise model; the factory's name may hold an address."""
    settings = {k: v for k, v in vars(likelihood).items() if k != "net"}
    return f"{type(likelihood).__name__}{sorted(settings.items())}"


def _digest(*parts: str | Tensor) -> str:
    sha = hashlib.sha256()
    for part in parts:
        if isinstance(part, Tensor):
            sha.update(f"{part.dtype}{tuple(part.shape)}".encode())
            sha.update(bytes_of(part))
        else:
            sha.update(part.encode())
    return sha.hexdigest()


def _repeated(x: Tensor, members: int) -> Tensor:
    """The same for every member, in memory of its own: (members, ...)."""
    return x.expand(members, *x.shape).clone()
