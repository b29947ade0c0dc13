"""Imprecise highest density regions on the line (definitions "ihdr-def" and "hdr-def").

Three regions R with lower probability min_j P_j(R) >= 1 - alpha:

- "union": the union of the highest density regions of the extremes, the paper's operative way;
- "lower-density": {y : min_j p_j(y) >= c} with the largest such c, the paper's conclusion;
- "minimal": the region of smallest measure, which is what the definition asks for (see `minimal`).

The paper expects "lower-density" to be tighter than "union". It need not be: for two Normals of scale 1 at -5
and 5 the union is two short intervals, while min_j p_j is largest between them, so that the lower-density
region is one long interval that fills the hole. "minimal" is never longer than either: its gap proves it, and where
the gap is too large for that (1 - alpha of 1e-11 and such) the shortest of the three is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._batch import MEMORY
from cbdl.credal._border import Array, ArrayLike, Border, float64
from cbdl.credal.answers import Region
from cbdl.credal.line import compiled
from cbdl.credal.line.ends import ends_of, excess
from cbdl.credal.line.hdr import hdr_at
from cbdl.credal.line.intervals import Intervals, covered, padded, union
from cbdl.credal.line.levels import Crossings, crossings, shape_of
from cbdl.credal.line.mesh import two_sum
from cbdl.credal.line.minimal import minimal_region
from cbdl.credal.line.mixture import EPS, Extremes
from cbdl.credal.line.survival import two_tailed_quantile
from cbdl.credal.solvers.roots import descend, last_nonnegative
from cbdl.credal.table import listed, region_columns

METHODS = ("union", "lower-density", "minimal")

SLACK = 32.0
"""Units of rounding by which the region of a level is wider: log p and log P(outside) are good to a few of them."""
PROVED = 1e-10
"""A minimal region with a gap of no more than so much of its measure is not compared with the others."""


@dataclass(frozen=True, repr=False)
class LineRegion(Region):
    """Unions of intervals, one for each set of a batch.

    intervals:         (..., R, 2) sorted, disjoint, closed; padded with nan
    measure:           (...,) total length
    lower_probability: (...,) min over the credal set of P(region): at least 1 - alpha
    upper_probability: (...,) max over the credal set of P(region)
    level:             (..., m) "union": the log density that bounds each extreme's region;
                       (..., 1) "lower-density": that of the lower density; (..., m) "minimal": log lambda
    gap:               (...,) how much longer than the shortest region it can be ("minimal"): a proof, by duality,
                       with lambda for witness; nan otherwise

    All but `intervals` are computed before the ends are rounded to float64, so they hold also for a scale of
    1e-8 at a location of 1e6.

    >>> from cbdl import NormalCredalSet
    >>> NormalCredalSet([-5.0, 5.0], [1.0, 1.0]).region(0.05).intervals.round(2)
    array([[-6.96, -3.04],
           [ 3.04,  6.96]])
    """

    intervals: Array
    measure: Array
    lower_probability: Array
    upper_probability: Array
    level: Array
    gap: Array
    _exact: Intervals
    _border: Border
    _batch: torch.Size

    def contains(self, y: ArrayLike) -> Array:
        """Whether outcomes lie in the region: y (...,) one for each set, or (..., n) several for each set.

        The leading dimensions of y broadcast against the batch. Shape: that of y broadcast.
        """
        points = float64(y, "y")
        if torch.isnan(points).any():
            raise ValueError("y holds nan; remove it before asking whether a region contains it")
        batch = self._batch
        single = points.ndim <= len(batch)
        points = points[..., None] if single else points
        try:
            shape = torch.Size(np.broadcast_shapes(points.shape[:-1], batch))
        except ValueError:
            raise ValueError(
                f"y has leading dimensions {tuple(points.shape[:-1])}, which do not fit the batch {tuple(batch)}"
            ) from None
        inside = self._inside(points.expand(*shape, points.shape[-1]), shape)
        inside = inside[..., 0] if single else inside
        return self._border.out(inside)

    def hull(self) -> tuple[Array, Array]:
        """(...,) twice: the ends of the smallest interval around the region."""
        ends = self._exact.rounded()
        lower = torch.where(torch.isnan(ends[..., 0]), math.inf, ends[..., 0]).amin(-1)
        upper = torch.where(torch.isnan(ends[..., 1]), -math.inf, ends[..., 1]).amax(-1)
        return self._border.out(lower.view(self._batch)), self._border.out(upper.view(self._batch))

    def columns(self) -> dict[str, list[Any]]:
        """ "lower" and "upper", the ends, "set", all intervals, and what all regions have."""
        batch = tuple(self._batch)
        lower, upper = self.hull()
        known = ([(a, b) for a, b in own if a == a] for own in listed(self.intervals, batch))
        ends = {"lower": listed(lower, batch), "upper": listed(upper, batch), "set": list(known)}
        return ends | region_columns(self, batch)

    def _picked(self, index: Any, batch: tuple[int, ...]) -> LineRegion:
        rows = np.asarray(np.arange(math.prod(batch)).reshape(batch)[index])
        exact = self._exact[torch.from_numpy(rows.reshape(-1))]
        # the exact ends count sets in one row, whatever the batch: they are picked by themselves
        own = {n: getattr(self, n)[index] for n in ("intervals", "measure", "level", "gap")}
        bounds = {n: getattr(self, n)[index] for n in ("lower_probability", "upper_probability")}
        return replace(self, **own, **bounds, _exact=exact, _batch=torch.Size(rows.shape))

    def _inside(self, y: Tensor, shape: torch.Size) -> Tensor:
        rows = torch.arange(math.prod(self._batch)).view(self._batch).expand(shape).reshape(-1)
        exact = Intervals(self._exact.high[rows], self._exact.low[rows])
        flat = y.reshape(-1, y.shape[-1]).to(exact.high.device)
        step = max(1, MEMORY // (64 * max(1, exact.high.shape[1]) * max(1, flat.shape[-1])))
        parts = [
            Intervals(exact.high[i : i + step], exact.low[i : i + step]).contains(flat[i : i + step])
            for i in range(0, len(flat), step)
        ]
        return torch.cat(parts).view(y.shape)


def line_region(sets: Extremes, alpha: float, method: str) -> tuple[Intervals, Tensor, Tensor]:
    """(intervals, level, gap) of the region of each set; see the module."""
    if method not in METHODS:
        names = ", ".join(f'"{name}"' for name in METHODS)
        raise ValueError(f"method is {method!r}; it must be one of {names}")
    if method == "union":
        return union_region(sets, sets.loc.new_full((len(sets),), math.log(alpha)))
    if method == "lower-density":
        return _lower_density_region(sets, alpha)
    return _shortest(sets, alpha, minimal_region(sets, alpha))


def _shortest(
    sets: Extremes, alpha: float, answer: tuple[Intervals, Tensor, Tensor]
) -> tuple[Intervals, Tensor, Tensor]:
    """The minimal region, or a shorter one of the other two where its gap leaves room for one."""
    intervals, level, gap = answer
    rows = (~(gap <= PROVED * intervals.measure)).nonzero()[:, 0]
    if len(rows) == 0:
        return answer
    part = sets[rows]
    own = Intervals(intervals.high[rows], intervals.low[rows])
    log_alpha = part.loc.new_full((len(part),), math.log(alpha))
    rivals = [own, union_region(part, log_alpha)[0], _lower_density_region(part, alpha)[0]]
    covers = torch.stack([_covers(part, region, alpha) for region in rivals])
    length = torch.where(covers, torch.stack([region.measure for region in rivals]), math.inf)
    best = length.argmin(0)
    stays = torch.ones(len(sets), dtype=torch.bool, device=rows.device)
    stays[rows] = False
    rest = stays.nonzero()[:, 0]
    parts = [(rest, Intervals(intervals.high[rest], intervals.low[rest]))] + [
        (rows[best == k], Intervals(region.high[best == k], region.low[best == k]))
        for k, region in enumerate(rivals)
    ]
    gap = gap.clone()
    gap[rows] = (gap[rows] - (own.measure - length.gather(0, best[None])[0])).clamp_min(0)
    return gathered(parts, len(sets)), level, gap


def _covers(sets: Extremes, region: Intervals, alpha: float) -> Tensor:
    """(B,): whether every extreme gives the region 1 - alpha, up to rounding."""
    return excess(sets, ends_of(region), alpha).amin(-1) >= -1e-12 * min(alpha, 1 - alpha)


def finished(
    sets: Extremes, intervals: Intervals, level: Tensor, gap: Tensor, border: Border, batch: torch.Size
) -> LineRegion:
    """A region with its probabilities, in the user's kind and shape."""
    probability = region_probabilities(sets, intervals)
    out = border.out
    return LineRegion(
        out(intervals.rounded().view(*batch, -1, 2)),
        out(intervals.measure.view(batch)),
        out(probability.amin(-1).view(batch)),
        out(probability.amax(-1).view(batch)),
        out(level.view(*batch, -1)),
        out(gap.view(batch)),
        intervals,
        border,
        batch,
    )


def region_probabilities(sets: Extremes, x: Intervals) -> Tensor:
    """(B, m): the probability of disjoint intervals under each extreme."""
    owner, column = x.valid.nonzero(as_tuple=True)
    start, end = ((x.high[owner, column, side], x.low[owner, column, side]) for side in (0, 1))
    if compiled.worth(sets.loc, counts=False):
        mass = compiled.interval_masses(sets, owner, start, end)
    else:
        mass = sets.loc.new_full((len(owner), sets.m), math.nan)
    rest = mass.isnan().any(-1).nonzero()[:, 0]
    for at in torch.split(rest, max(1, MEMORY // (80 * sets.loc[0].numel()))):
        ends = ((high[at], low[at]) for high, low in (start, end))
        mass[at] = sets.interval_masses(owner[at], *ends)
    total = sets.loc.new_zeros(len(sets), sets.m).index_add_(0, owner, mass)
    return total.clamp(0, 1)


def inside(ends: Crossings, sets: int, extremes: int = 1) -> Intervals:
    """The level sets {p >= c} between crossings, those of a set's extremes side by side."""
    high, low = ends.high.view(-1, 2), ends.low.view(-1, 2)
    return padded(ends.owner[::2] // extremes, (high[:, 0], low[:, 0]), (high[:, 1], low[:, 1]), sets)


def union_region(sets: Extremes, log_alpha: Tensor, slack: float = 0.0) -> tuple[Intervals, Tensor, Tensor]:
    """The union of the extremes' regions for one alpha per set, by its logarithm (B,); -inf: the whole line.

    With `slack`, every region is wider by so many units of rounding (see `hdr_at`).
    """
    nothing = sets.loc.new_full((len(sets),), math.nan)
    if sets.loc.shape[-1] == 1:
        z = two_tailed_quantile(log_alpha - slack * EPS * (1 + log_alpha.abs()))[:, None]
        loc, scale = sets.loc[..., 0], sets.scale[..., 0]
        level = -0.5 * z * z - scale.log() - 0.5 * math.log(2 * math.pi)
        each = [_end(loc, sign * z * scale) for sign in (-1, 1)]
        high, low = (torch.stack([e[i] for e in each], -1) for i in (0, 1))
        return union(Intervals(high, low)), level, nothing
    finite = torch.isfinite(log_alpha).nonzero()[:, 0]
    level = sets.loc.new_full((len(sets), sets.m), -math.inf)
    ends = sets.loc.new_tensor([-math.inf, math.inf]).expand(len(sets), 1, 2).clone()
    whole = Intervals(ends, torch.zeros_like(ends))
    if len(finite) == 0:
        return whole, level, nothing
    part = sets[finite]
    target = (log_alpha[finite] - slack * EPS * (1 + log_alpha[finite].abs())).repeat_interleave(sets.m)
    levels, ends_of_each = hdr_at(part.each(), target, slack)
    level[finite] = levels.view(len(part), sets.m)
    bounded = union(inside(ends_of_each, len(part), sets.m))
    rest = torch.isinf(log_alpha).nonzero()[:, 0]
    return gathered([(rest, whole[rest]), (finite, bounded)], len(sets)), level, nothing


def _end(loc: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    """loc + step as a pair; an infinite step has no rounding error."""
    high, low = two_sum(loc, step)
    return high, torch.where(torch.isfinite(step), low, 0.0)


def _lower_density_region(sets: Extremes, alpha: float) -> tuple[Intervals, Tensor, Tensor]:
    level = sets.loc.new_empty(len(sets))
    parts: list[tuple[Tensor, Intervals]] = []
    for rows in sets.chunks():
        level[rows], intervals = _lower_density_group(sets[rows], alpha)
        parts.append((rows, intervals))
    return gathered(parts, len(sets)), level[:, None], torch.full_like(level, math.nan)


def gathered(parts: list[tuple[Tensor, Intervals]], sets: int) -> Intervals:
    """Intervals of disjoint groups of sets as one batch."""
    width = max(part.high.shape[1] for _, part in parts)
    high = parts[0][1].high.new_full((sets, width, 2), math.inf)
    low = torch.zeros_like(high)
    for rows, part in parts:
        high[rows, : part.high.shape[1]] = part.high
        low[rows, : part.high.shape[1]] = part.low
    return Intervals(high, low)


def _lower_density_group(sets: Extremes, alpha: float) -> tuple[Tensor, Intervals]:
    m, device = sets.m, sets.loc.device
    mix = sets.each()
    shape = shape_of(mix)

    def region(rows: Tensor, u: Tensor) -> Intervals:
        each = (rows[:, None] * m + torch.arange(m, device=device)).reshape(-1)
        ends = crossings(shape, u.repeat_interleave(m), each)
        return covered(inside(ends, len(rows), m), m)

    def margin(rows: Tensor, u: Tensor) -> Tensor:
        # Relative to what may be missed or must be met: `last_nonnegative` stops at a few roundings of 1.
        return excess(sets[rows], ends_of(region(rows, u)), alpha).amin(-1) / min(alpha, 1 - alpha)

    rows = torch.arange(len(sets), device=device)
    top = shape.top.view(-1, m).amin(-1)
    low, at_low = descend(margin, top, 1.0, rows)
    level = last_nonnegative(margin, low, top, at_low, margin(rows, top), rows)
    return level, region(rows, level)
