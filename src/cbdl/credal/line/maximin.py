"""All maximisers of the lower density min_j p_j(y) on the line (the paper's modified Step 6).

{y : min_j p_j(y) >= c} shrinks to the set of maximisers as c grows. It is known exactly for every c; the
tangents of log p at the two ends of an interval meet near its maximiser, and the value there is a better c.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cbdl.credal.line.grids import of_each, sampled_each
from cbdl.credal.line.intervals import Intervals, covered, padded
from cbdl.credal.line.levels import Profile, crossings, profile
from cbdl.credal.line.mixture import Extremes
from cbdl.credal.line.regions import inside

TIE = 1e-12
"""Log densities that differ by less are equal."""


def maximisers(sets: Extremes) -> Tensor:
    """(B, R): all y that maximise min_j p_j(y), in order, padded with nan."""
    parts = [(rows, _group(sets[rows])) for rows in sets.chunks()]
    width = max(points.shape[1] for _, points in parts)
    answer = sets.loc.new_full((len(sets), width), math.nan)
    for rows, points in parts:
        answer[rows, : points.shape[1]] = points
    return answer


def _group(sets: Extremes) -> Tensor:
    grid, values = sampled_each(sets)
    shape = profile(sets.each(), *of_each(grid, values))
    # The lower density at the best node, to start from.
    level = sets.loc.new_full((len(sets),), -math.inf)
    level = level.scatter_reduce(0, grid.owner, values[0].amin(-1), "amax")
    rows = torch.arange(len(sets), device=level.device)
    for _ in range(100):
        region = _region(shape, sets.m, rows, level[rows])
        owner, high, low = _peaks(sets, rows, region)
        value = sets.densities(rows[owner], high, low).amin(-1)
        best = torch.full_like(level[rows], -math.inf).scatter_reduce(0, owner, value, "amax")
        rise = best - level[rows]
        level[rows] = torch.maximum(level[rows], best)
        rows = rows[rise > TIE * (1 + best.abs())]
        if len(rows) == 0:
            break
    rows = torch.arange(len(sets), device=level.device)
    level = level - 2 * TIE * (1 + level.abs())
    owner, high, low = _peaks(sets, rows, _region(shape, sets.m, rows, level))
    value = sets.densities(owner, high, low).amin(-1)
    keep = value >= level[owner]
    points = padded(owner[keep], (high[keep], low[keep]), (high[keep], low[keep]), len(sets))
    return points.rounded()[..., 0]


def _region(shape: Profile, m: int, rows: Tensor, level: Tensor) -> Intervals:
    each = (rows[:, None] * m + torch.arange(m, device=rows.device)).reshape(-1)
    return covered(inside(crossings(shape, level.repeat_interleave(m), each), len(rows), m), m)


def _peaks(sets: Extremes, rows: Tensor, region: Intervals) -> tuple[Tensor, Tensor, Tensor]:
    """One candidate for each interval of the sets `rows`: where the tangents at its ends meet; (owner, high, low)."""
    owner, column = region.valid.nonzero(as_tuple=True)
    high, low = region.high[owner, column], region.low[owner, column]
    anchor, length = high[:, 0], (high[:, 1] - high[:, 0]) + (low[:, 1] - low[:, 0])
    x = low[:, 0] + 0.5 * length
    left, rising = _steepest(sets, rows[owner], high[:, 0], low[:, 0], up=True)
    right, falling = _steepest(sets, rows[owner], high[:, 1], low[:, 1], up=False)
    meet = low[:, 0] + (right - left - falling * length) / (rising - falling)
    x = torch.where((meet >= low[:, 0]) & (meet <= low[:, 0] + length), meet, x)
    return owner, anchor, x


def _steepest(sets: Extremes, owner: Tensor, high: Tensor, low: Tensor, *, up: bool) -> tuple[Tensor, Tensor]:
    """The lowest log density at an end of an interval and its slope there (of equal ones the steepest)."""
    index = (owner[:, None] * sets.m + torch.arange(sets.m, device=owner.device)).view(-1)
    logp, score, _ = sets.each().at(index, high.repeat_interleave(sets.m), low.repeat_interleave(sets.m))
    logp, score = logp.view(-1, sets.m), score.view(-1, sets.m)
    lowest = logp.amin(-1, keepdim=True)
    ties = logp <= lowest + 1e-9 * (1 + lowest.abs())
    slope = torch.where(ties, score, -math.inf if up else math.inf)
    return lowest[:, 0], slope.amax(-1) if up else slope.amin(-1)
