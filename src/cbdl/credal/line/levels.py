"""Where a Normal mixture crosses a level: every crossing, to full precision, and none lost.

The shape of the density comes first. On a grid of cells of 0.6 local scales the signs of p' and p'' at the
nodes show every turning point but those of ripples shorter than 0.8 scales. A mixture whose components have
scales of at least s damps waves of length l by exp(-2 pi^2 s^2 / l^2), so such ripples are below 4e-14 of p.
Between turning points p is monotone, so each cell holds one crossing or none. Beyond the reach of all
components p is monotone, and in a gap between them p'' > 0: one cell each is enough there.

Levels are logarithms, so that they may be as low as the lower density of two modes 1e6 apart (-5e11).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal.line.grids import Grid, sampled
from cbdl.credal.line.mixture import Derivatives, Mixtures, solve
from cbdl.credal.line.quintic import Node, quintic

SETTLED = 1e-5
"""After a step of so much of its natural length a crossing is known to full precision."""


@dataclass(frozen=True)
class Profile:
    """The shape of B mixtures: grids that hold all turning points, with log p and its derivatives at the nodes (T,)."""

    mix: Mixtures
    grid: Grid
    logp: Tensor
    slope: Tensor
    curve: Tensor

    def at(self, node: Tensor) -> Node:
        """What is known at nodes."""
        return self.logp[node], self.slope[node], self.curve[node]

    @property
    def top(self) -> Tensor:
        """(B,): the largest value of log p, attained at a turning point."""
        top = self.logp.new_full((len(self.mix),), -math.inf)
        return top.scatter_reduce(0, self.grid.owner, self.logp, "amax")


@dataclass(frozen=True)
class Crossings:
    """All points where mixtures cross their levels, flat, by owner and place; rising and falling alternate.

    Each point is high + low; `score` is p'/p there, `rising` its sign, `cell` the node at the left, where known.
    """

    owner: Tensor
    high: Tensor
    low: Tensor
    rising: Tensor
    score: Tensor
    cell: Tensor | None = None


def shape_of(mix: Mixtures) -> Profile:
    """The shape of B mixtures, on grids of their own."""
    return profile(mix, *sampled(mix))


def profile(mix: Mixtures, grid: Grid, values: Derivatives) -> Profile:
    """The grids with the turning points of p put in their places; `values` are those of `sampled`."""
    node, order, start, end, anchor, unit, sign, guess = _brackets(mix, grid, values)
    owner = grid.owner[node]
    logp = torch.empty_like(start)

    def slope(rows: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        value, score, bend = mix.at(owner[rows], anchor[rows], x)
        settled = SETTLED * torch.minimum(unit[rows], bend.abs().rsqrt())
        # Newton's method squares the error of the place; that of log p, with what the last step adds, is its cube.
        last = score.abs() <= settled * bend.abs()
        logp[rows] = torch.where(last, value - 0.5 * score * (score / bend), value)
        return score, bend, torch.zeros_like(score), settled

    place, bends = solve(slope, start, end, guess, sign, unit)
    # Nodes move up by the turning points before them, and by a node without density at both ends of each grid.
    extra = torch.zeros(len(grid.owner) + 1, dtype=torch.int64, device=logp.device)
    extra = extra.index_add_(0, node + 1, torch.ones_like(node)).cumsum(0)
    new = torch.arange(len(grid.owner), device=logp.device) + extra[:-1] + 2 * grid.owner + 1
    target = node + 2 + order + extra[node] + 2 * owner
    first = grid.first + extra[grid.first] + 2 * torch.arange(len(grid.first), device=logp.device)

    def merged(nodes: Tensor, points: Tensor, outer: float | None = None) -> Tensor:
        both = nodes.new_empty(len(nodes) + len(points) + 2 * len(mix))
        both[new], both[target] = nodes, points
        both[first[:-1]] = nodes[grid.first[:-1]] if outer is None else outer
        both[first[1:] - 1] = nodes[grid.first[1:] - 1] if outer is None else outer
        return both

    both = Grid(
        merged(grid.owner, owner),
        merged(grid.high, anchor),
        merged(grid.low, place),
        merged(grid.unit, unit, math.inf),
        first,
    )
    return Profile(
        mix,
        both,
        merged(values[0], logp, -math.inf),
        merged(values[1], torch.zeros_like(logp), 0.0),
        merged(values[2] - values[1].square(), bends, 0.0),
    )


def _brackets(mix: Mixtures, grid: Grid, values: Derivatives) -> tuple[Tensor, ...]:
    """Intervals that hold one turning point each, in order of place.

    (node at the left, order within the cell, start, end, anchor, unit, sign of p' at the end, first guess).
    """
    up = values[1] >= 0
    ends = grid.ends()[:-1]
    node = ((up[1:] != up[:-1]) & ~ends).nonzero()[:, 0]
    anchor, start, end, unit = grid.between(node, node + 1)
    sign = torch.where(up[node + 1], 1.0, -1.0).to(torch.float64)
    guess = start + (end - start) * _turn(values, node, end - start)
    single = (node, torch.zeros_like(node), start, end, anchor, unit, sign, guess)
    node, split = _hidden(mix, grid, values)
    anchor, start, end, unit = grid.between(node, node + 1)
    sign = torch.where(up[node], 1.0, -1.0).to(torch.float64)
    left = (node, torch.zeros_like(node), start, split, anchor, unit, -sign, 0.5 * (start + split))
    right = (node, torch.ones_like(node), split, end, anchor, unit, sign, 0.5 * (split + end))
    columns = [torch.cat(parts) for parts in zip(single, left, right, strict=True)]
    rank = (2 * columns[0] + columns[1]).argsort()
    return tuple(c[rank] for c in columns)


def _turn(values: Derivatives, node: Tensor, width: Tensor) -> Tensor:
    """Where in its cell (0 to 1) the polynomial of log p turns; p' changes sign there."""
    logp, score, bend = values
    left, right = ((logp[i], score[i], bend[i] - score[i].square()) for i in (node, node + 1))
    return quintic(width, left, right).turn().nan_to_num(0.5).clamp(0.001, 0.999)


def _hidden(mix: Mixtures, grid: Grid, values: Derivatives) -> tuple[Tensor, Tensor]:
    """Cells at whose ends p' has the same sign but which hold a pair of turning points: (left node, split).

    |p'| must dip inside: p'' changes sign. Bisection on p'' runs into the dip and stops at the first point
    where p' has changed sign, which splits the pair.
    """
    logp, score, bend = values
    up, above = score >= 0, bend > 0
    # Where p' > 0 it dips if p'' goes from below to above 0, and the other way round.
    dips = (up[1:] == up[:-1]) & (above[1:] != above[:-1]) & (above[1:] == up[1:]) & ~grid.ends()[:-1]
    node = dips.nonzero()[:, 0]
    anchor, start, end, _ = grid.between(node, node + 1)
    # The tangents of p' at both ends bound the dip; with doubled slopes, whatever the bend of p' between.
    top = torch.maximum(logp[node], logp[node + 1])
    p0, p1 = (logp[node] - top).exp(), (logp[node + 1] - top).exp()
    d0, d1 = (p0 * score[node]).abs(), (p1 * score[node + 1]).abs()
    k0, k1 = 2 * (p0 * bend[node]).abs(), 2 * (p1 * bend[node + 1]).abs()
    meet = ((d0 - d1 + k1 * (end - start)) / (k0 + k1)).clamp_min(0)
    near = ~(d0 - k0 * meet > 0)
    node, anchor, start, end = (t[near] for t in (node, anchor, start, end))
    was_up = up[node]
    split, pairs = 0.5 * (start + end), torch.zeros_like(was_up)
    steepest = torch.maximum(k0, k1)[near]
    unit = top[near]
    rows = torch.arange(len(node), device=node.device)
    for _ in range(34):
        if len(rows) == 0:
            break
        x = 0.5 * (start[rows] + end[rows])
        p, s, b = mix.at(grid.owner[node[rows]], anchor[rows], x)
        flipped = (s >= 0) != was_up[rows]
        split[rows], pairs[rows] = x, flipped
        past = (b > 0) == was_up[rows]  # x lies beyond the bottom of the dip
        end[rows] = torch.where(past, x, end[rows])
        start[rows] = torch.where(past, start[rows], x)
        # p' falls by no more than twice its slope at an end times what is left: too little to reach 0.
        size = (p - unit[rows]).exp()
        shallow = (size * s).abs() > steepest[rows] * (end[rows] - start[rows])
        rows = rows[~flipped & ~shallow]
    return node[pairs], split[pairs]


def crossings(
    shape: Profile,
    level: Tensor,
    rows: Tensor | None = None,
    near: Crossings | None = None,
    settled: float = SETTLED,
) -> Crossings:
    """All points where log p = level, for the mixtures `rows` (R,) with levels (R,); owners count in `rows`.

    `rows` may name a mixture several times, with different levels. `near`: points to start from, in increasing cells,
    where these are the same. `settled`: the last step, relative to the natural length; its cube is the error.
    """
    grid, mix = shape.grid, shape.mix
    if rows is None:
        rows = torch.arange(len(mix), device=level.device)
        above = shape.logp >= level[grid.owner]
        left = (above[1:] != above[:-1]).nonzero()[:, 0]
        owner, rising = grid.owner[left], above[left + 1]
    else:
        count = grid.count[rows]
        before = count.cumsum(0) - count
        owner = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), count)
        index = torch.arange(len(owner), device=rows.device) + (grid.first[rows] - before)[owner]
        above = shape.logp[index] >= level[owner]
        place = (above[1:] != above[:-1]).nonzero()[:, 0]
        left, owner, rising = index[place], owner[place], above[place + 1]
    return _refined(shape, rows[owner], owner, level[owner], left, rising, near, settled)


def _guess(
    shape: Profile, left: Tensor, start: Tensor, width: Tensor, level: Tensor, near: Crossings | None
) -> Tensor:
    """Where to look for the crossings first: where they were, or by the polynomials of their cells."""
    guess, new = start.clone(), torch.arange(len(left), device=left.device)
    if near is not None and near.cell is not None and len(near.cell):
        index = torch.searchsorted(near.cell, left).clamp_max_(len(near.cell) - 1)
        guess = torch.minimum(torch.maximum(near.low[index], start), start + width)
        new = (near.cell[index] != left).nonzero()[:, 0]
    if len(new):
        line = quintic(width[new], shape.at(left[new]), shape.at(left[new] + 1))
        zero = torch.zeros_like(level[new])
        guess[new] = start[new] + width[new] * line.root(level[new], zero, zero + 1)
    return guess


def _refined(
    shape: Profile,
    row: Tensor,
    owner: Tensor,
    level: Tensor,
    left: Tensor,
    rising: Tensor,
    near: Crossings | None,
    settled: float,
) -> Crossings:
    """The crossings in the cells that start at the nodes `left`, to full precision."""
    mix, grid = shape.mix, shape.grid
    anchor, start, end, unit = grid.between(left, left + 1)
    a, b = shape.logp[left], shape.logp[left + 1]
    guess = _guess(shape, left, start, end - start, level, near)
    tail = torch.isinf(a) | torch.isinf(b)
    if tail.any():
        outer = _beyond(mix, row[tail], anchor[tail], level[tail], torch.isinf(b[tail]))
        start[tail] = torch.where(torch.isinf(a[tail]), outer, start[tail])
        end[tail] = torch.where(torch.isinf(b[tail]), outer, end[tail])
        guess[tail] = outer

    def excess(index: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        logp, score, bend = mix.at(row[index], anchor[index], x)
        # A step on the parabola cubes the error.
        last = settled * torch.minimum(unit[index], 1 / score.abs())
        return logp - level[index], score, bend - score.square(), last

    sign = torch.where(rising, 1.0, -1.0).to(torch.float64)
    place, score = solve(excess, start, end, guess, sign, unit)
    return Crossings(owner, anchor, place, rising, score, left)


def _beyond(mix: Mixtures, row: Tensor, anchor: Tensor, level: Tensor, right: Tensor) -> Tensor:
    """Points relative to the anchor, left or right of everything, where log p is certainly below the level."""
    height = mix.height[row] + math.log(mix.loc.shape[1])
    z = (2 * (height - level[:, None]).clamp_min(0)).sqrt() * (1 + 1e-9) + 1e-9
    centre, radius = mix.loc[row] - anchor[:, None], mix.scale[row] * z
    there = torch.isfinite(mix.height[row])
    low = torch.where(there, centre - radius, math.inf).amin(-1)
    high = torch.where(there, centre + radius, -math.inf).amax(-1)
    return torch.where(right, high, low)
