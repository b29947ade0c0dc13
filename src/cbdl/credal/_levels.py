"""Where a Normal mixture crosses a level: every crossing, to full precision, and none lost.

The shape of the density comes first. On a grid of cells of half the local scale the signs of p' and
p'' show every turning point: a ripple that fits between two nodes has an amplitude below rounding, because
a mixture whose components have scales of at least s damps waves of length l by exp(-2 pi^2 s^2 / l^2).
Between turning points p is monotone, so each cell holds one crossing or none. Beyond the reach of all
components p is monotone, and in a gap between them p'' > 0: one cell each is enough there.

Levels are logarithms, so that they may be as low as the lower density of two modes 1e6 apart (-5e11).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal._mesh import Runs, cells, runs
from cbdl.credal._mixture import Derivatives, Mixtures, solve

CELL = 0.5
"""Width of a cell in units of the local scale."""

CACHE = 1 << 20
"""Bytes of one temporary when densities are evaluated on grids: small enough for the processor's cache."""


@dataclass(frozen=True)
class Grid:
    """Nodes high + low (B, N) in order, padded with the last one; `unit` is the local scale (inf inside gaps)."""

    high: Tensor
    low: Tensor
    unit: Tensor

    def between(self, owner: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(anchor, start, end, unit) of the cells between two columns: the ends are relative to the anchor.

        The anchor is that of the end with the finer local scale, so that narrow components keep their digits.
        """
        finer = self.unit[owner, left] <= self.unit[owner, right]
        anchor = torch.where(finer, self.high[owner, left], self.high[owner, right])
        unit = torch.minimum(self.unit[owner, left], self.unit[owner, right])
        start = (self.high[owner, left] - anchor) + self.low[owner, left]
        end = (self.high[owner, right] - anchor) + self.low[owner, right]
        return anchor, start, end, unit


@dataclass(frozen=True)
class Profile:
    """The shape of B mixtures: a grid that holds all turning points, with log p at its nodes (B, N)."""

    mix: Mixtures
    grid: Grid
    logp: Tensor

    @property
    def top(self) -> Tensor:
        """(B,): the largest value of log p, attained at a turning point."""
        return self.logp.amax(-1)


@dataclass(frozen=True)
class Crossings:
    """All points where mixtures cross their levels, flat, by owner and place; rising and falling alternate.

    Each point is high + low; `score` is p'/p there, `rising` its sign.
    """

    owner: Tensor
    high: Tensor
    low: Tensor
    rising: Tensor
    score: Tensor


def node_counts(found: Runs, sets: int) -> tuple[Tensor, Tensor]:
    """The number of cells of each run, and of nodes of each set."""
    pieces = cells(found, CELL)
    nodes = pieces + (found.gap > 0) + ((found.gap > 0) & torch.isfinite(found.gap))
    return pieces, torch.zeros(sets, dtype=torch.int64, device=nodes.device).index_add_(0, found.owner, nodes)


def grid_sizes(mix: Mixtures) -> Tensor:
    """(B,): the padded number of nodes of each mixture's grid; it depends on the mixture alone."""
    _, count = node_counts(runs(mix.loc, mix.scale, mix.active), len(mix))
    step = torch.exp2((count.to(torch.float64).log2().floor() - 2).clamp_min(3)).to(torch.int64)
    return (count + step - 1) // step * step


def make_grid(mix: Mixtures, size: int) -> Grid:
    """The graded grid of B mixtures, `size` nodes each."""
    found = runs(mix.loc, mix.scale, mix.active)
    pieces, count = node_counts(found, len(mix))
    nodes = pieces + (found.gap > 0) + ((found.gap > 0) & torch.isfinite(found.gap))
    run = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), nodes)
    place = torch.arange(len(run), device=nodes.device) - (nodes.cumsum(0) - nodes)[run]
    inside = place <= pieces[run]
    width = found.length / pieces.clamp_min(1)
    low = found.offset[run] + torch.where(place == pieces[run], found.length[run], place * width[run])
    middle = found.offset[run] + found.length[run] + 0.5 * found.gap[run]
    low = torch.where(inside, low, middle)
    unit = torch.where(inside, found.unit[run], math.inf)
    column = torch.minimum(torch.arange(size, device=nodes.device), count[:, None] - 1)
    index = (count.cumsum(0) - count)[:, None] + column
    return Grid(found.anchor[run][index], low[index], unit[index])


def evaluate(mix: Mixtures, grid: Grid) -> Derivatives:
    """log p, p'/p and p''/p at the nodes (B, N), a cache-sized slice of the batch at a time."""
    step = max(1, CACHE // (8 * mix.loc.shape[1] * grid.high.shape[1]))
    parts = [
        mix[i : i + step].on(grid.high[i : i + step], grid.low[i : i + step])
        for i in range(0, len(mix), step)
    ]
    logp, score, bend = (torch.cat(column) for column in zip(*parts, strict=True))
    return logp, score, bend


def profile(mix: Mixtures, grid: Grid, values: Derivatives) -> Profile:
    """The grid with the turning points of p put in their places; `values` are those of `evaluate`."""
    owner, column, order, start, end, anchor, unit, sign = _brackets(mix, grid, values)

    def slope(rows: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        _, score, bend = mix.at(owner[rows], anchor[rows], x)
        # Newton's method squares the error: 1e-8 of the natural length is the last step.
        settled = 1e-8 * torch.minimum(unit[rows], bend.abs().rsqrt())
        return score, bend, torch.zeros_like(score), settled

    place, _ = solve(slope, start, end, 0.5 * (start + end), sign, unit)
    logp = mix.at(owner, anchor, place)[0]
    # Columns shift right by the number of turning points before them.
    extra = torch.zeros(grid.high.shape, dtype=torch.int64, device=logp.device)
    extra.index_put_((owner, column + 1), torch.ones_like(owner), accumulate=True)
    extra = extra.cumsum(-1)
    shift = int(extra[:, -1].max())
    new = torch.arange(extra.shape[1], device=logp.device) + extra
    target = column + 1 + order + torch.where(column > 0, extra[owner, column], 0)

    def merged(nodes: Tensor, points: Tensor) -> Tensor:
        wide = torch.cat([nodes, nodes[:, -1:].expand(-1, shift)], -1).scatter(-1, new, nodes)
        return wide.index_put((owner, target), points)

    both = Grid(merged(grid.high, anchor), merged(grid.low, place), merged(grid.unit, unit))
    return Profile(mix, both, merged(values[0], logp))


def _brackets(mix: Mixtures, grid: Grid, values: Derivatives) -> tuple[Tensor, ...]:
    """Intervals that hold one turning point each, in order of owner and place.

    (owner, column, order within the cell, start, end, anchor, unit, sign of p' at the end).
    """
    logp, score, _ = values
    up = score >= 0
    owner, column = (up[:, 1:] != up[:, :-1]).nonzero(as_tuple=True)
    anchor, start, end, unit = grid.between(owner, column, column + 1)
    zero = torch.zeros_like(owner)
    single = (owner, column, zero, start, end, anchor, unit, torch.where(up[owner, column + 1], 1.0, -1.0))
    owner, column, split = _hidden(mix, grid, values)
    anchor, start, end, unit = grid.between(owner, column, column + 1)
    sign = torch.where(up[owner, column], 1.0, -1.0)
    zero = torch.zeros_like(owner)
    left = (owner, column, zero, start, split, anchor, unit, -sign)
    right = (owner, column, zero + 1, split, end, anchor, unit, sign)
    columns = [torch.cat(parts) for parts in zip(single, left, right, strict=True)]
    key = (columns[0] * logp.shape[1] + columns[1]) * 2 + columns[2]
    rank = key.argsort()
    return tuple(c[rank].to(torch.float64) if c.is_floating_point() else c[rank] for c in columns)


def _hidden(mix: Mixtures, grid: Grid, values: Derivatives) -> tuple[Tensor, Tensor, Tensor]:
    """Cells at whose ends p' has the same sign but which hold a pair of turning points: (owner, column, split).

    |p'| must dip inside: p'' changes sign. Bisection on p'' runs into the dip and stops at the first point
    where p' has changed sign, which splits the pair.
    """
    logp, score, bend = values
    up = score >= 0
    left, right = bend[:, :-1], bend[:, 1:]
    dips = torch.where(up[:, :-1], (left < 0) & (right > 0), (left > 0) & (right < 0))
    owner, column = (dips & (up[:, 1:] == up[:, :-1])).nonzero(as_tuple=True)
    anchor, start, end, _ = grid.between(owner, column, column + 1)
    # The tangents of p' at both ends bound the dip; with doubled slopes, whatever the bend of p' between.
    top = torch.maximum(logp[owner, column], logp[owner, column + 1])
    p0, p1 = (logp[owner, column] - top).exp(), (logp[owner, column + 1] - top).exp()
    d0, d1 = (p0 * score[owner, column]).abs(), (p1 * score[owner, column + 1]).abs()
    k0, k1 = 2 * (p0 * bend[owner, column]).abs(), 2 * (p1 * bend[owner, column + 1]).abs()
    meet = ((d0 - d1 + k1 * (end - start)) / (k0 + k1)).clamp_min(0)
    near = d0 - k0 * meet <= 0
    owner, column, anchor, start, end = (t[near] for t in (owner, column, anchor, start, end))
    was_up = up[owner, column]
    split, found = 0.5 * (start + end), torch.zeros_like(was_up)
    rows = torch.arange(len(owner), device=owner.device)
    for _ in range(34):
        if len(rows) == 0:
            break
        x = 0.5 * (start[rows] + end[rows])
        _, s, b = mix.at(owner[rows], anchor[rows], x)
        flipped = (s >= 0) != was_up[rows]
        split[rows], found[rows] = x, flipped
        past = (b > 0) == was_up[rows]  # x lies beyond the bottom of the dip
        end[rows] = torch.where(past, x, end[rows])
        start[rows] = torch.where(past, start[rows], x)
        rows = rows[~flipped]
    return owner[found], column[found], split[found]


def crossings(shape: Profile, level: Tensor, rows: Tensor | None = None) -> Crossings:
    """All points where log p = level, for the mixtures `rows` (R,) with levels (R,); owners count in `rows`."""
    rows = torch.arange(len(shape.mix), device=level.device) if rows is None else rows
    mix, grid = shape.mix, shape.grid
    above = shape.logp[rows] >= level[:, None]
    last = above.shape[1] - 1
    change = torch.cat([above[:, :1], above[:, 1:] != above[:, :-1], above[:, -1:]], -1)
    owner, column = change.nonzero(as_tuple=True)
    row, wanted = rows[owner], level[owner]
    left, right = (column - 1).clamp_min(0), column.clamp_max(last)
    anchor, start, end, unit = grid.between(row, left, right)
    rising = torch.where(column <= last, above[owner, right], False)
    a, b = shape.logp[row, left], shape.logp[row, right]
    guess = start + (end - start) * ((wanted - a) / torch.where(a == b, 1.0, b - a)).clamp(0, 1)
    tail = (column == 0) | (column > last)
    if tail.any():
        reach = _beyond(mix, row[tail], anchor[tail], wanted[tail], column[tail] > last)
        start[tail] = torch.where(column[tail] == 0, reach, start[tail])
        end[tail] = torch.where(column[tail] == 0, end[tail], reach)
        guess[tail] = reach

    def excess(index: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        logp, score, bend = mix.at(row[index], anchor[index], x)
        # A step on the parabola cubes the error: 1e-6 of the natural length is the last step.
        settled = 1e-6 * torch.minimum(unit[index], 1 / score.abs())
        return logp - wanted[index], score, bend - score.square(), settled

    sign = torch.where(rising, 1.0, -1.0).to(torch.float64)
    place, score = solve(excess, start, end, guess, sign, unit)
    return Crossings(owner, anchor, place, rising, score)


def _beyond(mix: Mixtures, row: Tensor, anchor: Tensor, level: Tensor, right: Tensor) -> Tensor:
    """Points relative to the anchor, left or right of everything, where log p is certainly below the level."""
    height = mix.height[row] + math.log(mix.loc.shape[1])
    z = (2 * (height - level[:, None]).clamp_min(0)).sqrt() * (1 + 1e-9) + 1e-9
    centre, radius = mix.loc[row] - anchor[:, None], mix.scale[row] * z
    there = torch.isfinite(mix.height[row])
    low = torch.where(there, centre - radius, math.inf).amin(-1)
    high = torch.where(there, centre + radius, -math.inf).amax(-1)
    return torch.where(right, high, low)
