"""Chains of draws: a posterior that is a set of them, and how well they have mixed: split R-hat and the effective
number of draws (Gelman et al., BDA3; Geyer 1992).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Self

import torch
from torch import Tensor

from cbdl.bayes._random import generator
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.train import Record

from .protocol import Posterior, common, prefixed

FAR = 0.25
"""Nats a row: a chain whose fit of the training rows is that far behind the best one of its member is stuck."""


@dataclass(frozen=True)
class ChainsPosterior(Posterior):
    """Equally likely networks of every member, each with its noise parameters, from several chains.

    points: (members, chains, D, P) and noise_points: (members, chains, D, Q), as the sampler's type has them
    """

    points: Tensor
    noise_points: Tensor

    def sample(self, draws: int, seed: int = 0, start: int = 0) -> Tensor:
        """theta (members, draws, P): the chains in turn, so that any few draws come from all of them; the draws of a
        chain in a random order, again and again if there are too few.
        """
        return self._picked(self.points, draws, seed, start)

    def noises(self, draws: int, seed: int = 0, start: int = 0) -> Tensor:
        return self._picked(self.noise_points, draws, seed, start)

    def _picked(self, points: Tensor, draws: int, seed: int, start: int) -> Tensor:
        _, chains, number, _ = points.shape
        rounds = -(-(start + draws) // (chains * number))

        def order(own: int) -> Tensor:
            source = generator("cpu", own, "sample", seed)
            each = torch.rand(rounds, chains, number, generator=source).argsort(-1)
            turns = (each + number * torch.arange(chains)[:, None]).mT
            return turns.flatten()[start : start + draws]

        index = torch.stack([order(own) for own in self.seeds]).to(points.device)
        return points.flatten(1, 2).take_along_dim(index.unsqueeze(-1), 1).to(self.noise.dtype)

    def chains(self) -> tuple[Tensor, Tensor]:
        """All draws by chain."""
        return self.points.to(self.noise.dtype), self.noise_points.to(self.noise.dtype)

    @property
    def distinct(self) -> int:
        return self.points.shape[1] * self.points.shape[2]

    @property
    def turns(self) -> int:
        return self.points.shape[1]

    def moments(self) -> tuple[Tensor, Tensor]:
        points = self.points.flatten(1, 2).to(self.noise.dtype)
        return points.mean(1), points.std(1, correction=0)

    def gather(self, groups: Sequence[Sequence[int]]) -> Self:
        """Chains that were members put together; one that failed, or that never came near the rows, gives way to a
        sibling that did."""
        chosen = [_healthy(group, _lost(self.record, group)) for group in groups]
        index = torch.tensor(chosen, device=self.points.device)
        firsts = [group[0] for group in groups]
        noises = self.noise_points[index].flatten(1, 2)
        gathered = replace(
            self.only(firsts),
            points=self.points[index].flatten(1, 2),
            noise_points=noises,
            noise=noises.mean((1, 2)).to(self.noise.dtype),
        )
        if not isinstance(self.record, ChainsRecord):
            return gathered
        return gathered.with_record(self.record.gather(groups, gathered.points))

    def by_chain(self) -> tuple[Self, int]:
        members, count = self.points.shape[:2]
        noises = self.noise_points.flatten(0, 1).unsqueeze(1)
        apart = replace(
            self.with_record(None).only([i for i in range(members) for _ in range(count)]),
            points=self.points.flatten(0, 1).unsqueeze(1),
            noise_points=noises,
            noise=noises.mean((1, 2)).to(self.noise.dtype),
        )
        return apart, count

    def state(self) -> dict[str, Tensor]:
        own = {"points": self.points, "noise_points": self.noise_points, "noise": self.noise}
        return {**own, **prefixed(self.buffers, "buffer")}

    @classmethod
    def from_state(cls, cohort: Cohort, state: Mapping[str, Tensor]) -> ChainsPosterior:
        """The posterior that `state()` of another one describes."""
        return cls(state["points"], state["noise_points"], **common(cohort, state))


def _lost(record: Record | None, group: Sequence[int]) -> set[int]:
    """The chains of a group that failed, or whose fit is far behind that of the best sibling."""
    if record is None:
        return set()
    lost = {i for i in group if i in record.failures}
    well = [i for i in group if i not in lost]
    if not isinstance(record, ChainsRecord) or not record.nll.numel() or not well:
        return lost
    nll = record.nll.mean(1)
    return lost | {i for i in well if float(nll[i]) > min(float(nll[j]) for j in well) + FAR}


def _healthy(group: Sequence[int], failed: set[int]) -> list[int]:
    """The chains of a group, with those that failed replaced in turn by those that did not."""
    well = [i for i in group if i not in failed] or list(group)
    spare = itertools.cycle(well)
    return [i if i in well else next(spare) for i in group]


@dataclass
class ChainsRecord(Record):
    """A record with what the chains say about themselves."""

    rhat: Tensor = field(default_factory=lambda: torch.empty(0))
    """Split R-hat of every parameter (members, P); symmetric networks have several modes and large values."""
    ess: Tensor = field(default_factory=lambda: torch.empty(0))
    """Effective number of draws of every parameter (members, P)."""
    nll: Tensor = field(default_factory=lambda: torch.empty(0))
    """Mean negative log density of a training row along every chain (members, chains), standardised units."""
    lost: Tensor = field(default_factory=lambda: torch.empty(0))
    """Chains that failed, or were far behind, and gave way to others (members,)."""

    def gather(self, groups: Sequence[Sequence[int]], points: Tensor) -> Self:
        """The record of members from that of their chains, which are now `points` (members, chains, D, P)."""
        index = torch.tensor([list(group) for group in groups])
        lost = torch.tensor([len(_lost(self, group)) for group in groups])
        # a member has failed if all its chains have
        failures = {
            j: self.failures[group[0]]
            for j, group in enumerate(groups)
            if all(i in self.failures for i in group)
        }
        own = {
            f.name: getattr(self, f.name)[index].flatten(1)
            for f in fields(self)
            if f.name not in (*SHARED, "failures") and getattr(self, f.name).numel()
        }
        return type(self)(
            loss=self.loss[:, index].mean(-1),
            score=self.score[:, index].mean(-1),
            failures=failures,
            stopped=self.stopped[index].amax(-1),
            **{**own, "rhat": rhat(points), "ess": ess(points), "lost": lost},
        )


SHARED = ("loss", "score", "stopped", "rhat", "ess", "lost")
"""Fields of a record that are not per chain."""


def split(chains: Tensor) -> Tensor:
    """Every chain as two halves: (..., chains, draws, P) -> (..., 2 chains, draws // 2, P)."""
    half = chains.shape[-2] // 2
    return torch.cat([chains[..., :half, :], chains[..., -half:, :]], -3)


def rhat(chains: Tensor) -> Tensor:
    """Split R-hat of every coordinate: (..., chains, draws, P) -> (..., P); 1 is mixed, NaN: under 4 draws."""
    if chains.shape[-2] < 4:
        return torch.full_like(chains[..., 0, 0, :], math.nan, dtype=torch.float64)
    parts = split(chains.double())
    n = parts.shape[-2]
    within = parts.var(-2).mean(-2)
    between = parts.mean(-2).var(-2)
    ratio = ((n - 1) / n + between / within).sqrt()
    # a coordinate that does not move at all, the same in every chain, has nothing left to mix
    return torch.where(within + between == 0, torch.ones_like(ratio), ratio)


def ess(chains: Tensor) -> Tensor:
    """The effective number of draws of every coordinate: (..., chains, draws, P) -> (..., P).

    Autocorrelations by FFT over split chains, summed by Geyer's initial monotone sequence; at most n log10 n.
    """
    if chains.shape[-2] < 4:
        return torch.full_like(chains[..., 0, 0, :], math.nan, dtype=torch.float64)
    parts = split(chains.double())
    m, n = parts.shape[-3], parts.shape[-2]
    centred = parts - parts.mean(-2, keepdim=True)
    spectrum = torch.fft.rfft(centred, 2 * n, dim=-2)
    autocovariance = torch.fft.irfft(spectrum.abs().square(), 2 * n, dim=-2)[..., :n, :].mean(-3) / n
    within = autocovariance[..., :1, :] * n / (n - 1)
    between = parts.mean(-2).var(-2).unsqueeze(-2)
    rho = 1 - (within - autocovariance) / (within * (n - 1) / n + between)
    even = n // 2 * 2
    pairs: Tensor = rho[..., 0:even:2, :] + rho[..., 1:even:2, :]
    positive = (pairs > 0).long().cumprod(-2)
    pairs = pairs.cummin(-2).values * positive
    time = (2 * pairs.sum(-2) - 1).clamp_min(1 / math.log10(max(m * n, 11)))
    return m * n / time
