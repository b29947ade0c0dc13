"""All maximisers of the lower density min_j p_j(y) on the line (the paper's modified Step 6).

{y : min_j p_j(y) >= c} shrinks to the set of maximisers as c grows. It is known exactly for every c; the
tangents of log p at the two ends of an interval meet near its maximiser, and the value there is a better c. The first c
comes from polynomials around the best node, which know no components: it is good to about 1e-6.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cbdl.credal.line.grids import Grid, of_each, sampled_each
from cbdl.credal.line.intervals import Intervals, covered, padded
from cbdl.credal.line.levels import Profile, crossings, profile
from cbdl.credal.line.mixture import Derivatives, Extremes
from cbdl.credal.line.quintic import Quintic, quintic
from cbdl.credal.line.regions import inside

TIE = 1e-12
"""Log densities that differ by less are equal."""

PLACES, ROUNDS = 17, 3
"""Places along a cell where polynomials are looked at, and how often, each time between the neighbours of the best."""


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
    level = first_level(sets, grid, values)
    rows = torch.arange(len(sets), device=level.device)
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for _ in range(100):
        below = level[rows] - 2 * TIE * (1 + level[rows].abs())
        owner, high, low, value = _peaks(sets, rows, _region(shape, sets.m, rows, below))
        best = torch.full_like(below, -math.inf).scatter_reduce(0, owner, value, "amax")
        more = best - level[rows] > TIE * (1 + best.abs())
        keep = (value >= below[owner]) & ~more[owner]
        parts.append((rows[owner[keep]], high[keep], low[keep]))
        level[rows] = torch.maximum(level[rows], best)
        rows = rows[more]
        if len(rows) == 0:
            break
    owner, high, low = (torch.cat(column) for column in zip(*parts, strict=True))
    order = owner.argsort(stable=True)
    point = high[order], low[order]
    return padded(owner[order], point, point, len(sets)).rounded()[..., 0]


def first_level(sets: Extremes, grid: Grid, values: Derivatives) -> Tensor:
    """(B,): a lower density that is attained, at the best node or nearly at the best place in the cells beside it."""
    lower = values[0].amin(-1)
    level = lower.new_full((len(sets),), -math.inf).scatter_reduce(0, grid.owner, lower, "amax")
    top = (lower == level[grid.owner]).nonzero()[:, 0]
    node = torch.zeros_like(grid.count).scatter_(0, grid.owner[top], top)
    first, last = grid.first[:-1], grid.first[1:] - 1
    cell = torch.cat([(node - 1).clamp(first, last - 1), node.clamp(first, last - 1)])
    width = (grid.high[cell + 1] - grid.high[cell]) + (grid.low[cell + 1] - grid.low[cell])
    logp, score, bend = values
    ends = [(logp[i], score[i], bend[i] - score[i].square()) for i in (cell, cell + 1)]
    value, place, *pair = (t.view(2, len(sets)) for t in _highest(quintic(width[:, None], ends[0], ends[1])))
    better = value.argmax(0)[None]
    cell, width, place, one, other = (t.view(2, -1).gather(0, better)[0] for t in (cell, width, place, *pair))
    high, low = grid.high[cell], grid.low[cell] + place * width
    for _ in range(2):  # from 1e-3 of a cell to rounding
        low = low + _step(sets, one, other, high, low).clamp(-width, width)
    value = sets.densities(grid.owner[cell], high, low).amin(-1)
    return torch.where(value > level, value, level)


def _highest(lines: Quintic) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The highest that the least of the polynomials (6, R, m) is from 0 to 1, about where, and which two meet there."""
    wide = Quintic(lines.coefficients[..., None])
    low = torch.zeros_like(lines.coefficients[0, :, 0])
    high = torch.ones_like(low)
    share = torch.linspace(0, 1, PLACES, dtype=low.dtype, device=low.device)
    for _ in range(ROUNDS):
        t = low[:, None] + (high - low)[:, None] * share
        value, best = wide.value(t[:, None]).amin(1).max(-1, keepdim=True)
        low = t.gather(-1, (best - 1).clamp_min(0))[:, 0]
        high = t.gather(-1, (best + 1).clamp_max(PLACES - 1))[:, 0]
    one, other = (lines.value(t[:, None]).argmin(-1) for t in (low, high))
    return value[:, 0], 0.5 * (low + high), one, other


def _step(sets: Extremes, one: Tensor, other: Tensor, high: Tensor, low: Tensor) -> Tensor:
    """(B,): from a point of each set to the peak of an extreme, or where two of them are equal, by Newton's method."""
    first = torch.arange(len(sets), device=one.device) * sets.m
    index = torch.cat([first + one, first + other])
    logp, score, bend = (t.view(2, -1) for t in sets.each().at(index, high.repeat(2), low.repeat(2)))
    peak = -score[0] / (bend[0] - score[0].square())
    meet = -(logp[0] - logp[1]) / (score[0] - score[1])
    return torch.where(one == other, peak, meet).nan_to_num(0, 0, 0)


def _region(shape: Profile, m: int, rows: Tensor, level: Tensor) -> Intervals:
    each = (rows[:, None] * m + torch.arange(m, device=rows.device)).reshape(-1)
    return covered(inside(crossings(shape, level.repeat_interleave(m), each), len(rows), m), m)


def _peaks(sets: Extremes, rows: Tensor, region: Intervals) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One candidate for each interval of the sets `rows`: where the tangents at its ends meet, or its middle if that is
    better, as it is where extremes nearly tie at an end; (owner, high, low, lower log density)."""
    owner, column = region.valid.nonzero(as_tuple=True)
    high, low = region.high[owner, column], region.low[owner, column]
    anchor, length = high[:, 0], (high[:, 1] - high[:, 0]) + (low[:, 1] - low[:, 0])
    middle = low[:, 0] + 0.5 * length
    left, rising = _steepest(sets, rows[owner], high[:, 0], low[:, 0], up=True)
    right, falling = _steepest(sets, rows[owner], high[:, 1], low[:, 1], up=False)
    meet = low[:, 0] + (right - left - falling * length) / (rising - falling)
    meet = torch.where((meet >= low[:, 0]) & (meet <= low[:, 0] + length), meet, middle)
    both = sets.densities(rows[owner].repeat(2), anchor.repeat(2), torch.cat([meet, middle])).amin(-1)
    at_meet, at_middle = both.view(2, -1)
    return owner, anchor, torch.where(at_middle > at_meet, middle, meet), torch.maximum(at_meet, at_middle)


def _steepest(sets: Extremes, owner: Tensor, high: Tensor, low: Tensor, *, up: bool) -> tuple[Tensor, Tensor]:
    """The lowest log density at an end of an interval and its slope there (of equal ones the steepest)."""
    index = (owner[:, None] * sets.m + torch.arange(sets.m, device=owner.device)).view(-1)
    logp, score, _ = sets.each().at(index, high.repeat_interleave(sets.m), low.repeat_interleave(sets.m))
    logp, score = logp.view(-1, sets.m), score.view(-1, sets.m)
    lowest = logp.amin(-1, keepdim=True)
    ties = logp <= lowest + 1e-9 * (1 + lowest.abs())
    slope = torch.where(ties, score, -math.inf if up else math.inf)
    return lowest[:, 0], slope.amax(-1) if up else slope.amin(-1)
