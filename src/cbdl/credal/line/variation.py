"""Total variation between mixtures on the line, exact: the sign of p_i - p_j is known between its roots."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cbdl.credal.line.grids import Grid, graded, values_of_each
from cbdl.credal.line.mixture import Extremes, Mixtures, masses, solve


def maximal_imprecision(sets: Extremes) -> Tensor:
    """(B,): sup over events A of upperP(A) - lowerP(A) = max over pairs of TV(P_i, P_j)."""
    B, m = len(sets), sets.m
    if m == 1:
        return sets.loc.new_zeros(B)
    i, j = torch.triu_indices(m, m, 1, device=sets.loc.device)
    answer = sets.loc.new_empty(B)
    for rows in sets.chunks(max(1, (1 << 17) // len(i))):
        answer[rows] = _pairs(sets[rows], i, j).amax(-1)
    return answer


def _pairs(sets: Extremes, i: Tensor, j: Tensor) -> Tensor:
    """(B, pairs): the total variation of each pair of extremes."""
    B, m = len(sets), sets.m
    each = sets.each()
    # Cells as narrow beyond the outermost locations as between them: differences of densities turn there too.
    grid = graded(sets.pooled())
    logp, score, _ = values_of_each(sets, grid)
    # One copy of the grid for each pair.
    home = torch.arange(B, device=i.device).repeat_interleave(len(i))
    wide, index = grid.take(home)
    left, right = i.repeat(B)[wide.owner], j.repeat(B)[wide.owner]
    gap, slope = (v[index, left] - v[index, right] for v in (logp, score))
    first, second = home * m + i.repeat(B), home * m + j.repeat(B)
    pair, high, low = _roots(each, wide, gap, slope, first, second)
    return _positive_mass(each, gap[wide.first[:-1]] > 0, pair, high, low, first, second).view(B, -1)


def _difference(
    each: Mixtures, first: Tensor, second: Tensor, high: Tensor, low: Tensor
) -> tuple[Tensor, ...]:
    """log p_i - log p_j at points, with its first and second derivative."""
    a, da, dda = each.at(first, high, low)
    b, db, ddb = each.at(second, high, low)
    return a - b, da - db, (dda - da.square()) - (ddb - db.square())


def _roots(
    each: Mixtures, grid: Grid, gap: Tensor, slope: Tensor, first: Tensor, second: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """All points where log p_i = log p_j, flat, by pair and place: (pair, high, low)."""
    plus, inner = gap > 0, ~grid.ends()[:-1]
    change = plus[1:] != plus[:-1]
    way = torch.where(plus, 1.0, -1.0).to(torch.float64)
    node = (change & inner).nonzero()[:, 0]
    brackets: list[tuple[Tensor, ...]] = [
        (node, torch.zeros_like(node), *grid.between(node, node + 1), way[node + 1])
    ]
    # Two roots may hide in a cell at whose ends the sign is the same: the gap has an extremum towards 0 there.
    up = slope > 0
    node = (~change & inner & (up[:-1] != plus[:-1]) & (up[1:] == plus[1:])).nonzero()[:, 0]
    pair = grid.owner[node]
    anchor, start, end, unit = grid.between(node, node + 1)
    sign = way[node]

    def bend(rows: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        _, d, dd = _difference(each, first[pair[rows]], second[pair[rows]], anchor[rows], x)
        return d, dd, torch.zeros_like(d), 1e-8 * unit[rows]

    middle, _ = solve(bend, start, end, 0.5 * (start + end), sign, unit)  # type: ignore[arg-type]
    value = _difference(each, first[pair], second[pair], anchor, middle)[0]
    dips = value * sign < 0
    left = (node, torch.zeros_like(node), anchor, start, middle, unit, -sign)
    right = (node, torch.ones_like(node), anchor, middle, end, unit, sign)
    brackets += [tuple(t[dips] for t in side) for side in (left, right)]
    node, order, anchor, start, end, unit, sign = (torch.cat(c) for c in zip(*brackets, strict=True))
    rank = (2 * node + order).argsort()
    parts = (grid.owner[node], anchor, start, end, unit, sign)
    pair, anchor, start, end, unit, sign = (t[rank] for t in parts)

    def excess(rows: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        value, d, dd = _difference(each, first[pair[rows]], second[pair[rows]], anchor[rows], x)
        return value, d, dd, 1e-6 * torch.minimum(unit[rows], 1 / d.abs())

    place, _ = solve(excess, start, end, 0.5 * (start + end), sign, unit)  # type: ignore[arg-type]
    return pair, anchor, place


def _positive_mass(
    each: Mixtures, plus: Tensor, pair: Tensor, high: Tensor, low: Tensor, first: Tensor, second: Tensor
) -> Tensor:
    """(pairs,): P_i(A) - P_j(A) for A the intervals on which p_i > p_j; `plus` says whether the first one is."""
    pairs = len(plus)
    count = torch.zeros(pairs, dtype=torch.int64, device=pair.device)
    count.index_add_(0, pair, torch.ones_like(pair))
    ends = count + 1  # intervals of each pair, between -inf, the roots and inf
    begin = ends.cumsum(0) - ends
    owner = torch.repeat_interleave(torch.arange(pairs, device=pair.device), ends)
    place = torch.arange(len(owner), device=pair.device) - begin[owner]
    points = high.new_zeros(2, 2, len(owner))  # start and end, high and low
    points[0, 0], points[1, 0] = -math.inf, math.inf
    at = torch.arange(len(pair), device=pair.device) + pair
    points[1, :, at] = torch.stack([high, low])
    points[0, :, at + 1] = torch.stack([high, low])
    wanted = (place % 2 == 0) == plus[owner]
    owner, points = owner[wanted], points[..., wanted, None]
    total = high.new_zeros(pairs)
    for who, sign in ((first, 1.0), (second, -1.0)):
        part = each[who[owner]]
        ends_of = (points[0, 0], points[0, 1]), (points[1, 0], points[1, 1])
        total.index_add_(0, owner, sign * masses(part.loc, part.scale, part.weight, *ends_of))
    return total.clamp(0, 1)
