"""Grids that resolve every component of a Normal mixture, and the densities with their derivatives on them.

Cells are at most CELL local scales wide wherever p may turn. Beyond the outermost locations it cannot: eight nodes lead
out on either side as far as components reach. Between them, mixtures whose locations spread over few of the least
scales get even grids. On these no exponential is taken but at every eighth node: from one node to the next
exp(-z^2 / 2) is multiplied by a ratio, which is itself multiplied by a constant. Sums of the terms with coefficients
1, loc / scale^2 and such give p, p' and p'' by one matrix product. All other mixtures get graded grids, fine where a
narrow component is near and coarse elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cbdl.credal.line.mesh import Runs, cells, runs
from cbdl.credal.line.mixture import Derivatives, Extremes, Mixtures, mixtures

CELL = 0.6
"""Width of a cell in units of the local scale."""

REACH = 7.0
"""Scales from its location to which a component decides the width of cells; there it is 2e-11 of its height."""

CACHE = 1 << 19
"""Bytes of one temporary when densities are evaluated on grids: small enough for the processor's cache."""

EVEN = 256
"""Nodes of an even grid at most."""

BLOCK = 8
_MARGIN = 0.3
"""Least scales by which an even grid reaches beyond the outermost locations."""
_LARGE = 1 << 23
"""Bytes of all terms of the sets on even grids that are worked on at a time."""
_DEEP = 1e-230
"""Below this, relative to the highest component, terms may be lost that have underflowed at the start of a block."""


@dataclass(frozen=True)
class Grid:
    """The nodes of B grids one after the other (T,): high + low, in order, with the owner of each node.

    `unit` is the local scale, infinite inside gaps. The nodes of grid b are first[b], ..., first[b + 1] - 1.
    """

    owner: Tensor
    high: Tensor
    low: Tensor
    unit: Tensor
    first: Tensor

    @property
    def count(self) -> Tensor:
        return self.first.diff()

    def between(self, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(anchor, start, end, unit) of the cells between two nodes: the ends are relative to the anchor.

        The anchor is that of the end with the finer local scale, so that narrow components keep their digits.
        """
        unit, other = self.unit[left], self.unit[right]
        high, high_right = self.high[left], self.high[right]
        anchor = torch.where(unit <= other, high, high_right)
        start, end = (high - anchor) + self.low[left], (high_right - anchor) + self.low[right]
        return anchor, start, end, torch.minimum(unit, other)

    def take(self, rows: Tensor) -> tuple[Grid, Tensor]:
        """The grids `rows` (which may repeat) as a batch of their own, and the nodes they come from."""
        count = self.count[rows]
        first = torch.cat([count.new_zeros(1), count.cumsum(0)])
        owner = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), count)
        index = torch.arange(len(owner), device=rows.device) + (self.first[rows] - first[:-1])[owner]
        return Grid(owner, self.high[index], self.low[index], self.unit[index], first), index

    def ends(self) -> Tensor:
        """(T,) bool: the last node of each grid, which starts no cell."""
        mask = torch.zeros(len(self.owner), dtype=torch.bool, device=self.owner.device)
        mask[self.first[1:] - 1] = True
        return mask


def sampled(mix: Mixtures) -> tuple[Grid, Derivatives]:
    """A grid for each of B mixtures, and log p, p'/p and p''/p at the nodes (T,)."""
    grid, values = sampled_each(Extremes(*(t[:, None] for t in (mix.loc, mix.scale, mix.weight))))
    return grid, (values[0][:, 0], values[1][:, 0], values[2][:, 0])


def sampled_each(sets: Extremes) -> tuple[Grid, Derivatives]:
    """A grid for each of B sets that resolves all extremes, and the values of every extreme on it (T, m)."""
    span = span_of(sets)
    blocks = ((span.end - span.start) / (CELL * span.unit) + 1) / BLOCK
    blocks = blocks.clamp_max(EVEN).ceil().to(torch.int64)
    even = blocks * BLOCK <= EVEN
    rest = (~even).nonzero()[:, 0]
    steps = graded(sets[rest].pooled()) if len(rest) else None
    count = (blocks + 2) * BLOCK
    if steps is not None:
        count[rest] = steps.count
    first = torch.cat([count.new_zeros(1), count.cumsum(0)])
    nodes = span.start.new_empty(3, int(first[-1]))
    values = span.start.new_empty(3, int(first[-1]), sets.m)
    if steps is not None:
        inner = torch.arange(len(steps.owner), device=rest.device) - steps.first[:-1][steps.owner]
        place = first[rest][steps.owner] + inner
        nodes[:, place] = torch.stack([steps.high, steps.low, steps.unit])
        values[:, place] = torch.stack(values_of_each(sets[rest], steps))
    for size in torch.unique(blocks[even]).tolist():  # a few sizes
        N = BLOCK * (size + 2)
        every = (even & (blocks == size)).nonzero()[:, 0]
        for rows in every.split(max(1, _LARGE // (8 * N * sets.loc[0].numel()))):
            place = (first[rows][:, None] + torch.arange(N, device=rows.device)).view(-1)
            here = span[rows]
            offset, some = _on_even(sets[rows], here, size)
            columns = here.start[:, None].expand_as(offset), offset, here.unit[:, None].expand_as(offset)
            nodes[:, place] = torch.stack(columns).view(3, -1)
            values[:, place] = some.view(3, -1, sets.m)
    owner = torch.repeat_interleave(torch.arange(len(sets), device=first.device), count)
    return Grid(owner, nodes[0], nodes[1], nodes[2], first), (values[0], values[1], values[2])


@dataclass(frozen=True)
class Span:
    """(B,) each: an interval around all locations of a set, how far its components reach beyond it, the least scale."""

    start: Tensor
    end: Tensor
    left: Tensor
    right: Tensor
    unit: Tensor

    def __getitem__(self, rows: Tensor) -> Span:
        return Span(*(t[rows] for t in (self.start, self.end, self.left, self.right, self.unit)))


def span_of(sets: Extremes, reach: float = REACH) -> Span:
    there, loc, scale = (t.flatten(1) for t in (sets.weights > 0, sets.loc, sets.scale))
    unit = torch.where(there, scale, math.inf).amin(-1)
    low, high = (torch.where(there, loc, x) for x in (math.inf, -math.inf))
    start, end = low.amin(-1) - _MARGIN * unit, high.amax(-1) + _MARGIN * unit
    left = start - (low - reach * scale).amin(-1)
    return Span(start, end, left, (high + reach * scale).amax(-1) - end, unit)


def _on_even(sets: Extremes, span: Span, blocks: int) -> tuple[Tensor, Tensor]:
    """Nodes (B, N) relative to the start of the span, and (3, B, N, m): log p, p'/p and p''/p there.

    With terms T_k at y: p' = sum T_k (c_k - a_k y) and p'' = sum T_k ((c_k - a_k y)^2 - a_k), a = 1 / scale^2 and
    c = a loc, all in the least scale, from the middle of the span.
    """
    B, m, M = sets.loc.shape
    unit = span.unit[:, None]
    there = sets.weights > 0
    # A component that is not there may lie anywhere, where its ratios would overflow.
    loc = torch.where(there, sets.loc, span.start[:, None, None])
    sets = Extremes(loc, torch.where(there, sets.scale, unit[..., None]), sets.weights)
    flat = mixtures(*(t.flatten(0, 1) for t in (sets.loc, sets.scale, sets.weights)))
    shift = flat.height.amax(-1, keepdim=True)
    first, step = block_starts(span, blocks)
    terms = _terms(sets, span, first, step, (flat.height - shift).view(1, B, m, M))
    width = (span.end - span.start)[:, None, None] / 2
    a = (unit[..., None] / sets.scale).square()
    c = a * (((sets.loc - span.start[:, None, None]) - width) / unit[..., None])
    coefficients = torch.stack([torch.ones_like(a), a, c, a * a, a * c, c * c], 2).view(B * m, 6, M)
    sums = coefficients @ terms.view(-1, B * m, M).permute(1, 2, 0)
    sums = _in_order(sums.view(B, m, 6, BLOCK, -1).permute(2, 0, 4, 3, 1)).reshape(6, B, -1, m)
    place = torch.arange(BLOCK, dtype=torch.float64, device=unit.device)
    offset = _in_order((first[..., None] + step[..., None] * place)[..., None]).reshape(B, -1)
    total, by_a, by_c, by_aa, by_ac, by_cc = sums
    y = ((offset - width[:, 0]) / unit)[..., None]
    scale = unit[..., None]
    logp = total.log() + shift.view(B, 1, m)
    score = (by_c - y * by_a) / (total * scale)
    bend = (by_cc - y * (2 * by_ac - y * by_aa) - by_a) / (total * scale * scale)
    deep = (total < _DEEP).nonzero(as_tuple=True)
    if len(deep[0]):
        owner, node, extreme = deep
        values = flat.deep(owner * m + extreme, span.start[owner], offset[owner, node])
        logp[deep], score[deep], bend[deep] = values
    return offset, torch.stack([logp, score, bend])


def block_starts(span: Span, blocks: int) -> tuple[Tensor, Tensor]:
    """(B, blocks + 2) twice: the first node of each block of eight, relative to the start, and the step to the next.

    One block on either side leads outwards, so that nothing grows along it.
    """
    length = (span.end - span.start)[:, None]
    step = length / (BLOCK * blocks - 1)
    inner = step * torch.arange(0, BLOCK * blocks, BLOCK, dtype=torch.float64, device=step.device)
    left, right = -span.left[:, None] / BLOCK, span.right[:, None] / BLOCK
    return torch.cat([left, inner, length + right], 1), torch.cat([left, step.expand_as(inner), right], 1)


def _in_order(x: Tensor) -> Tensor:
    """(..., blocks, block, k) with the first block, which leads to the left, turned round."""
    return torch.cat([x[..., :1, :, :].flip(-2), x[..., 1:, :, :]], -3)


def _terms(sets: Extremes, span: Span, first: Tensor, step: Tensor, height: Tensor) -> Tensor:
    """(block, blocks, B, m, M): exp(height - z^2 / 2), the place in its block first."""
    first, step = (t.T[:, :, None, None] for t in (first, step))
    at = ((span.start[:, None, None] - sets.loc) + first).div_(sets.scale)
    unit = step / sets.scale
    terms = at.new_empty(BLOCK, *at.shape)
    torch.addcmul(height, at, at, value=-0.5, out=terms[0]).exp_()
    ratio = at.add_(unit, alpha=0.5).mul_(unit).neg_().exp_()
    fall = unit.square_().neg_().exp_()
    for n in range(1, BLOCK):
        torch.mul(terms[n - 1], ratio, out=terms[n])
        ratio.mul_(fall)
    return terms


def graded(mix: Mixtures) -> Grid:
    """The graded grids of B mixtures."""
    stretches = _all_runs(mix)
    pieces = cells(stretches, CELL)
    inner = (stretches.gap > 0) & torch.isfinite(stretches.gap)
    nodes = pieces + (stretches.gap > 0) + inner
    count = torch.zeros(len(mix), dtype=torch.int64, device=nodes.device).index_add_(
        0, stretches.owner, nodes
    )
    first = torch.cat([count.new_zeros(1), count.cumsum(0)])
    run = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), nodes)
    place = torch.arange(len(run), device=nodes.device) - (nodes.cumsum(0) - nodes)[run]
    low = stretches.offset[run] + place * (stretches.length / pieces.clamp_min(1))[run]
    unit = stretches.unit[run]
    # The node in the middle of a gap is the last of its run, the end of the run the one before.
    last = nodes.cumsum(0) - 1
    closed = stretches.gap > 0
    low[(last - inner.to(last.dtype))[closed]] = (stretches.offset + stretches.length)[closed]
    low[last[inner]] = (stretches.offset + stretches.length + 0.5 * stretches.gap)[inner]
    unit[last[inner]] = math.inf
    return Grid(stretches.owner[run], stretches.anchor[run], low, unit, first)


def _all_runs(mix: Mixtures) -> Runs:
    """`runs`, a cache-sized slice of the batch at a time."""
    K = mix.loc.shape[1]
    step = max(1, CACHE // (8 * K * K))
    parts = []
    for i in range(0, len(mix), step):
        some = mix[i : i + step]
        part = runs(some.loc, some.scale, some.active, REACH)
        parts.append(Runs(part.owner + i, part.anchor, part.offset, part.length, part.unit, part.gap))
    names = ("owner", "anchor", "offset", "length", "unit", "gap")
    return Runs(*(torch.cat([getattr(part, name) for part in parts]) for name in names))


def evaluate(mix: Mixtures, grid: Grid) -> Derivatives:
    """log p, p'/p and p''/p at the nodes (T,).

    Grids of equal size are evaluated together, as many as the cache holds; the values of a node depend on the
    node alone.
    """
    order = grid.count.argsort(stable=True)
    sizes, groups = torch.unique(grid.count, return_counts=True)
    out = grid.high.new_empty(3, len(grid.high))
    start = 0
    for size, group in zip(sizes.tolist(), groups.tolist(), strict=True):
        step = max(1, CACHE // (8 * mix.loc.shape[1] * size))
        for i in range(start, start + group, step):
            rows = order[i : min(i + step, start + group)]
            first = grid.first[rows]
            if int(rows[-1] - rows[0]) == len(rows) - 1:  # neighbours: a view instead of a gather
                nodes: Any = slice(int(first[0]), int(first[-1]) + size)
            else:
                nodes = (first[:, None] + torch.arange(size, device=rows.device)).reshape(-1)
            shape = (len(rows), size)
            values = mix[rows].on(grid.high[nodes].view(shape), grid.low[nodes].view(shape))
            for k, value in enumerate(values):
                out[k, nodes] = value.reshape(-1)
        start += group
    return out[0], out[1], out[2]


def of_each(grid: Grid, values: Derivatives) -> tuple[Grid, Derivatives]:
    """`sampled_each` as grids and values of B m mixtures, one for each extreme."""
    m = values[0].shape[1]
    wide, index = grid.take(torch.arange(len(grid.count), device=grid.owner.device).repeat_interleave(m))
    at = (index, wide.owner % m)
    return wide, (values[0][at], values[1][at], values[2][at])


def values_of_each(sets: Extremes, grid: Grid) -> Derivatives:
    """(T, m) three times: log p, p'/p and p''/p of every extreme on the one grid of its set."""
    B, m = len(sets), sets.m
    wide, index = grid.take(torch.arange(B, device=grid.owner.device).repeat_interleave(m))
    extreme = wide.owner % m
    logp, score, bend = (
        v.new_empty(len(grid.owner), m).index_put((index, extreme), v) for v in evaluate(sets.each(), wide)
    )
    return logp, score, bend
