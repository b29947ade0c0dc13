"""The shortest interval that every extreme covers: a start for `minimal`, whose regions mostly are one interval.

For an interval from a to b extreme j misses L_j(a) + G_j(b), what lies on its left and on its right. Given a, each j
tells how far b must be, and the furthest counts: the length is a function of a alone. It is tabulated on the nodes of a
grid, then between the best and its neighbours. On the two sides of the optimum different extremes tell how far: they
pay for it, at prices with which q = sum_j lambda_j p_j is 1 at both ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal.line.ends import Ends, State
from cbdl.credal.line.mesh import two_sum
from cbdl.credal.line.sketch import Sketch

_PARTS, _TABLES = 8, 2
"""Parts of a cell in the second table, and so on."""
_NODES = 96
"""Nodes of the first table at most."""
_BELOW, _ABOVE = 0.9, 1.05
"""What q may be inside and outside of an interval that is known roughly."""
_TINY = 1e-300
_CHEAP = 1e-9
"""The price of coverage that should cost nothing, relative to the highest."""


def shortest_interval(sketch: Sketch) -> tuple[State, Tensor]:
    """About the shortest interval of each set, with prices, and the slack relative to min(alpha, 1 - alpha).

    And for which sets (B,) it may well be the smallest region: q is not clearly above 1 outside, nor below it inside.
    """
    table = _tabulated(sketch)
    length = table.furthest(table.left).amax(-1) - table.place
    best = length.nan_to_num(nan=math.inf).argmin(-1, keepdim=True).clamp(1, length.shape[1] - 2)
    steps = torch.arange(-_PARTS, _PARTS + 1, dtype=torch.float64, device=best.device) / _PARTS
    middle, reach = best.double(), 1.0
    for _ in range(_TABLES):
        counted = middle + reach * steps
        a, left = table.within(counted)
        each = table.furthest(left)
        b = each.amax(-1)
        at = (b - a).nan_to_num(nan=math.inf).argmin(-1, keepdim=True)
        middle, reach = counted.gather(1, at), reach / _PARTS
    sides = torch.cat([at - 1, at + 1], -1).clamp(0, a.shape[1] - 1)
    payers = each.argmax(-1).gather(1, sides)  # one that allows no b at all is the furthest
    ends = torch.cat([a.gather(1, at), b.gather(1, at)], -1)
    prices = _prices(table.densities(ends), payers)
    small = min(sketch.alpha, 1 - sketch.alpha)
    slack = sketch.alpha - _rows(left, at)[:, 0].exp() - table.beyond(ends[:, 1:])[:, 0]
    high, low = two_sum(table.anchor[:, None].expand_as(ends), ends)
    owner = torch.arange(len(ends), device=ends.device)
    state = State.of(Ends(owner, high, low), prices, slack.clamp_min(0) / small)
    q = (table.logp.exp() @ prices[..., None])[..., 0]
    inside = (table.place > ends[:, :1]) & (table.place < ends[:, 1:])
    return state, torch.where(inside, q > _BELOW, q < _ABOVE).all(-1)


@dataclass(frozen=True)
class _Table:
    """Places (B, N) relative to an anchor (B,), log L, log G, log p and its slope of m extremes there (B, N, m)."""

    anchor: Tensor
    place: Tensor
    left: Tensor
    right: Tensor
    logp: Tensor
    slope: Tensor
    alpha: float

    def within(self, counted: Tensor) -> tuple[Tensor, Tensor]:
        """Places (B, I) and log L (B, I, m) at so many cells from the first node."""
        cell = counted.floor().clamp(0, self.place.shape[1] - 2).long()
        start, width = self._cell(cell)
        share = (counted - cell).clamp(0, 1)
        return start + share * width, _cubic(self.left, (self.logp - self.left).exp(), cell, share, width)

    def furthest(self, left: Tensor) -> Tensor:
        """(B, I, m): how far b must be, by each extreme, for an a with log L (B, I, m); nan if nowhere."""
        level = -torch.log((self.alpha - left.exp()).clamp_min(0)).mT.contiguous()
        falls = self.right.neg().mT.contiguous()
        n = torch.searchsorted(falls, level).clamp_(1, falls.shape[-1] - 1)
        low, high = falls.gather(-1, n - 1), falls.gather(-1, n)
        share = ((level - low) / (high - low)).clamp_(0, 1)
        place = self.place[:, None].expand(-1, n.shape[1], -1)
        speed = (self.right - self.logp).exp().mT
        ends = [t.gather(-1, k) for t in (place, speed) for k in (n - 1, n)]
        b = _hermite(share, ends[0], ends[1], ends[2] * (high - low), ends[3] * (high - low))
        return torch.where(level < math.inf, b, math.nan).mT

    def densities(self, place: Tensor) -> Tensor:
        """(B, I, m): p at places (B, I)."""
        return self._at(self.logp, self.slope, place).exp()

    def beyond(self, place: Tensor) -> Tensor:
        """(B, I, m): G at places (B, I)."""
        return self._at(self.right, -(self.logp - self.right).exp(), place).exp()

    def _at(self, values: Tensor, slope: Tensor, place: Tensor) -> Tensor:
        cell = (torch.searchsorted(self.place, place.contiguous()) - 1).clamp_(0, self.place.shape[1] - 2)
        start, width = self._cell(cell)
        return _cubic(values, slope, cell, ((place - start) / width.clamp_min(_TINY)).clamp(0, 1), width)

    def _cell(self, cell: Tensor) -> tuple[Tensor, Tensor]:
        start = self.place.gather(1, cell)
        return start, self.place.gather(1, cell + 1) - start


def _tabulated(sketch: Sketch) -> _Table:
    grid = sketch.grid
    last = grid.count[:, None] - 1
    stride = last // _NODES + 1
    column = torch.arange(int((last // stride).max()) + 2, device=last.device)
    index = grid.first[:-1, None] + torch.minimum(column * stride, last)
    anchor = grid.high[grid.first[:-1]]
    place = (grid.high[index] - anchor[:, None]) + grid.low[index]
    left, right = (t.clamp_min(_TINY).log()[index] for t in (sketch.left, sketch.right))
    return _Table(anchor, place, left, right, sketch.node[0][index], sketch.node[1][index], sketch.alpha)


def _rows(values: Tensor, index: Tensor) -> Tensor:
    """values (B, N, m) at the places (B, I)."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))


def _cubic(values: Tensor, slope: Tensor, cell: Tensor, share: Tensor, width: Tensor) -> Tensor:
    """(B, I, m): values (B, N, m) within cells (B, I), from their slopes at the nodes."""
    ends = [_rows(t, k) for t in (values, slope) for k in (cell, cell + 1)]
    return _hermite(
        share[..., None], ends[0], ends[1], ends[2] * width[..., None], ends[3] * width[..., None]
    )


def _hermite(t: Tensor, y0: Tensor, y1: Tensor, d0: Tensor, d1: Tensor) -> Tensor:
    """Cubics from 0 to 1 with these values and slopes at the ends; chords where slopes say nothing."""
    rise = y1 - y0
    cubic = y0 + t * (d0 + t * ((3 * rise - 2 * d0 - d1) + t * (d0 + d1 - 2 * rise)))
    between = (cubic >= torch.minimum(y0, y1)) & (cubic <= torch.maximum(y0, y1))
    return torch.where(between, cubic, y0 + t * rise)


def _prices(density: Tensor, payers: Tensor) -> Tensor:
    """(B, m): lambda of the two who pay (B, 2) with q = 1 at both ends, from p (B, 2, m) there; or of one."""
    (ja, ka), (jb, kb) = (density[:, side].gather(1, payers).unbind(-1) for side in (0, 1))
    across = ja * kb - ka * jb
    first, second = (kb - ka) / across, (ja - jb) / across
    two = (first > 0) & (second > 0) & (payers[:, 0] != payers[:, 1])
    first = torch.where(two, first, 2 / (ja + jb))
    second = torch.where(two, second, 0.0)
    prices = torch.zeros_like(density[:, 0]).scatter_add_(1, payers, torch.stack([first, second], -1))
    return torch.maximum(prices, _CHEAP * prices.amax(-1, keepdim=True))
