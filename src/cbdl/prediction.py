"""What a prediction is: a credal set that knows its members and its Monte Carlo floor (Step 4 of Algorithm 1).

Monte Carlo noise must not pass for ignorance: upper minus lower entropy takes a maximum and a minimum, so noise in
the members always widens it. Members share their base draws (`bayes.draws`), and every prediction carries its *floor*:
the epistemic uncertainty that identical members with independent draws would show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from cbdl import memory
from cbdl.bayes._random import generator
from cbdl.bayes.cohort import Member
from cbdl.bayes.learned import Learned
from cbdl.bayes.predictive import averages, normals
from cbdl.credal import (
    CategoricalCredalSet,
    CredalSet,
    DiagonalNormalCredalSet,
    MixtureCredalSet,
    NormalCredalSet,
)

Form = Literal["mixture", "normal"]
"""How a member predicts one real number: the mixture of its draws' Normals, or the Normal of the same moments."""
DRAWS = 20
"""Draws of the parameters behind a prediction, unless the user asks for another number."""
FIRST = 16
"""Draws with which `samples="auto"` begins."""


@dataclass(frozen=True)
class Predictive:
    """The predictive distributions of m members for a batch of rows, and what reweighted draws make of them.

    numbers:  what the credal set is made of, each (rows, m, ...)
    replicas: the same numbers for W reweightings of the draws, each (rows, m, W, ...); for mixtures, whose draws
              are all in `numbers`, the reweightings themselves (W, components)
    draws:    behind every row
    floor:    (rows,) once it is known
    """

    kind: type[CredalSet]
    numbers: tuple[Tensor, ...]
    replicas: tuple[Tensor, ...]
    draws: int
    floor: Tensor | None = None

    def credal_set(self, members: tuple[Member, ...], device: torch.device | None) -> CredalSet:
        """The convex hull of the members: tensors on `device`, or numpy arrays if that is None."""
        arrays = (t.numpy() if device is None else t.to(device) for t in self.numbers)
        return self.kind(*arrays).with_origin(Draws(members, self))

    def with_floor(self) -> Predictive:
        """The same with its floor known, and without what it was computed from."""
        return replace(self, numbers=(), replicas=(), floor=_floor(self))

    def at(self, rows: Any) -> Predictive:
        """The rows that an index picks."""
        whole = self.kind is MixtureCredalSet
        return replace(
            self,
            numbers=tuple(t[rows] for t in self.numbers),
            replicas=self.replicas if whole else tuple(t[rows] for t in self.replicas),
            floor=None if self.floor is None else self.floor[rows],
        )


class Draws:
    """The origin of a prediction: its members, and the draws behind it until the floor is known."""

    def __init__(self, members: tuple[Member, ...], predictive: Predictive) -> None:
        self.members, self._predictive = members, predictive

    def floor(self, credal: CredalSet) -> Tensor:
        """(...,): the epistemic uncertainty (nats) that Monte Carlo noise alone would show; nan: unknown."""
        if self._predictive.floor is None:
            self._predictive = self._predictive.with_floor()  # the draws are no longer needed
        assert self._predictive.floor is not None
        return self._predictive.floor

    def at(self, index: tuple[Tensor, ...]) -> Draws:
        """The origin of the sets at `index` of the batch."""
        return Draws(self.members, self._predictive.at(index))


# --- from posteriors to numbers -----------------------------------------------------------------------------


def predict(
    learned: Learned,
    x: Tensor,
    samples: int | str = DRAWS,
    form: Form = "mixture",
    tolerance: float = 0.01,
    max_samples: int = 1280,
    max_memory: int | None = None,
) -> Predictive:
    """The predictive distributions of all members for standardised inputs x (rows, ...).

    From draws 0, ..., samples - 1 of the model's stream; with "auto" each row has twice as many every time until its
    floor is below `tolerance` or they are `max_samples`.
    """
    if form not in ("mixture", "normal"):
        raise ValueError(f'predictive is {form!r}; give "mixture" or "normal"')
    limit = memory.limit(max_memory)
    if samples == "auto":
        return _adaptive(learned, x, form, tolerance, max_samples, limit)
    if isinstance(samples, str) or int(samples) != samples or samples < 1:
        raise ValueError(f'samples is {samples!r}; give a whole number of at least 1, or "auto"')
    return _fixed(learned, x, form, int(samples), limit)


def _fixed(learned: Learned, x: Tensor, form: Form, draws: int, limit: int) -> Predictive:
    """All rows from the same number of draws."""
    m = len(learned.members)
    weights = _weightings(learned.seed, m, draws)
    if learned.space != "real":
        probs = averages(learned, x, weights, limit)
        return Predictive(CategoricalCredalSet, (probs[:, :, 0],), (probs[:, :, 1:],), draws)
    loc, scale = normals(learned, x, draws, limit)
    if form == "mixture" and loc.ndim == 3:
        return _mixture(loc, scale, weights, learned.noises)
    mean, deviation = (t.flatten(3) if loc.ndim > 3 else t for t in _moments(loc, scale, weights))
    kind = DiagonalNormalCredalSet if loc.ndim > 3 else NormalCredalSet
    return Predictive(kind, (mean[:, :, 0], deviation[:, :, 0]), (mean[:, :, 1:], deviation[:, :, 1:]), draws)


def _mixture(
    loc: Tensor, scale: Tensor, weights: Tensor, noises: Sequence[tuple[Tensor, Tensor]]
) -> Predictive:
    """Mixtures of all draws (rows, m, draws), each draw's noise as the Normals that make it up."""
    most = max(len(w) for w, _ in noises)
    share, width = torch.zeros(len(noises), 1, most), torch.ones(len(noises), 1, most)
    share, width = share.double(), width.double()
    for i, (own, scales) in enumerate(noises):
        share[i, 0, : len(own)], width[i, 0, : len(own)] = own, scales
    rows, m, draws = loc.shape
    parts = (
        loc.unsqueeze(-1).expand(rows, m, draws, most),
        scale.unsqueeze(-1) * width,
        (weights[0].unsqueeze(-1) * share).expand(rows, m, draws, most),
    )
    numbers = tuple(t.flatten(2) for t in parts)
    return Predictive(MixtureCredalSet, numbers, (weights[1:].repeat_interleave(most, 1),), draws)


def _moments(loc: Tensor, scale: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (rows, m, W, *event) of the mixtures over draws (rows, m, draws, *event)."""
    centre = loc.mean(2, keepdim=True)  # deviations from it do not cancel
    off = loc - centre
    mean = torch.einsum("wd,rmd...->rmw...", weights, off)
    square = torch.einsum("wd,rmd...->rmw...", weights, scale.square() + off.square())
    return mean + centre, (square - mean.square()).sqrt()


# --- as many draws as each row needs ------------------------------------------------------------------------


def _adaptive(learned: Learned, x: Tensor, form: Form, tolerance: float, most: int, limit: int) -> Predictive:
    if not tolerance > 0:
        raise ValueError(f"tolerance is {tolerance}; it must be positive (nats)")
    rows, draws = torch.arange(x.shape[0]), min(FIRST, most)
    parts: list[tuple[Tensor, Predictive]] = []
    while len(rows):
        part = _fixed(learned, x[rows.to(x.device)], form, draws, limit)
        part = replace(part, replicas=(), floor=_floor(part))
        assert part.floor is not None
        done = (part.floor < tolerance) | (draws >= most)
        parts.append((rows[done], part.at(done)))
        rows, draws = rows[~done], min(2 * draws, most)
    return _joined(parts, x.shape[0])


def _joined(parts: Sequence[tuple[Tensor, Predictive]], rows: int) -> Predictive:
    """One prediction from rows with different numbers of draws; components that a row lacks have weight 0."""
    last = parts[-1][1]
    widest = [max(part.numbers[i].shape[2:] for _, part in parts) for i in range(len(last.numbers))]
    numbers = tuple(
        first.new_zeros((rows, first.shape[1], *wide))
        for first, wide in zip(last.numbers, widest, strict=True)
    )
    floor = torch.zeros(rows, dtype=torch.float64)
    for at, part in parts:
        assert part.floor is not None
        floor[at] = part.floor
        for i, (whole, own) in enumerate(zip(numbers, part.numbers, strict=True)):
            if last.kind is MixtureCredalSet:
                whole[at, :, : own.shape[2]] = own
                if i == 1:  # a scale is positive, also of a component that does not count
                    whole[at, :, own.shape[2] :] = 1.0
            else:
                whole[at] = own
    return Predictive(last.kind, numbers, (), max(part.draws for _, part in parts), floor)


# --- the floor ----------------------------------------------------------------------------------------------


def _weightings(seed: int, m: int, draws: int) -> Tensor:
    """(1 + m, draws): equal weights, then those of a Bayesian bootstrap of antithetic pairs."""
    pairs = [
        torch.empty(m).exponential_(generator=generator("cpu", seed, "bootstrap", i))
        for i in range((draws + 1) // 2)
    ]
    replicas = torch.stack(pairs, 1).repeat_interleave(2, 1)[:, :draws]
    weights = torch.cat([torch.ones(1, draws), replicas]).double()
    return weights / weights.sum(1, keepdim=True)


def _floor(predictive: Predictive) -> Tensor:
    """(rows,): the mean epistemic uncertainty of as many replicas of one member as there are members."""
    rows, m = predictive.numbers[0].shape[:2]
    if m == 1:
        return torch.zeros(rows, dtype=torch.float64)
    each = [torch.as_tensor(_copies(predictive, j).uncertainty().epistemic) for j in range(m)]
    # Weights of a Bayesian bootstrap vary (n - 1) / (n + 1) times as much as fresh draws would.
    pairs = max(predictive.draws / 2, 1.5)
    factor = float(((pairs + 1) / (pairs - 1)) ** 0.5)
    return torch.stack(each).mean(0) * factor


def _copies(predictive: Predictive, j: int) -> CredalSet:
    if predictive.kind is not MixtureCredalSet:
        return predictive.kind(*(t[:, j] for t in predictive.replicas))
    loc, scale, weights = (t[:, j : j + 1] for t in predictive.numbers)
    own = weights * predictive.replicas[0]
    return MixtureCredalSet(loc.expand_as(own), scale.expand_as(own), own / own.sum(-1, keepdim=True))
