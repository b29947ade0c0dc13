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

_PARTS = 8
"""Parts of a cell in the second table."""
_TINY = 1e-300
_CHEAP = 1e-9
"""The price of coverage that should cost nothing, relative to the highest."""


def shortest_interval(sketch: Sketch) -> State:
    """About the shortest interval of each set, with prices, and the slack relative to min(alpha, 1 - alpha)."""
    table = _tabulated(sketch)
    steps = table.place.shape[1]
    every = torch.arange(steps, device=table.place.device).expand_as(table.place)
    best = (table.furthest(table.left).amax(-1) - table.place).nan_to_num(nan=math.inf).argmin(-1, keepdim=True)
    best = best.clamp(1, steps - 2)
    # The two cells around the best node.
    share = torch.arange(2 * _PARTS + 1, dtype=torch.float64, device=every.device) / _PARTS
    near = torch.cat([best - 1, best, best + 1], -1)
    a, left = _between(_rows(table.place, near), share), _between(_rows(table.left, near), share)
    each = table.furthest(left)
    b = each.amax(-1)
    at = (b - a).nan_to_num(nan=math.inf).argmin(-1, keepdim=True)
    sides = torch.cat([at - 1, at + 1], -1).clamp(0, share.shape[0] - 1)
    payers = _rows(each.argmax(-1), sides)
    ends = torch.cat([a.gather(1, at), b.gather(1, at)], -1)
    prices = _prices(table.densities(ends), payers)
    alpha = sketch.alpha
    slack = alpha - _rows(left, at)[:, 0].exp() - table.beyond(ends[:, 1])
    high, low = two_sum(table.anchor[:, None].expand_as(ends), ends)
    owner = torch.arange(len(ends), device=ends.device)
    return State.of(Ends(owner, high, low), prices, slack.clamp_min(0) / min(alpha, 1 - alpha))


@dataclass(frozen=True)
class _Table:
    """Places (B, N) relative to an anchor (B,), log L, log G and log p of m extremes there (B, N, m)."""

    anchor: Tensor
    place: Tensor
    left: Tensor
    right: Tensor
    logp: Tensor
    alpha: float

    def furthest(self, left: Tensor) -> Tensor:
        """(B, I, m): how far b must be, by each extreme, for an a with log L (B, I, m); nan if nowhere."""
        room = torch.log((self.alpha - left.exp()).clamp_min(0)).mT.contiguous()
        falls = self.right.neg().mT.contiguous()
        last = falls.shape[-1] - 1
        n = torch.searchsorted(falls, -room).clamp_(1, last)
        low, high = falls.gather(-1, n - 1), falls.gather(-1, n)
        share = ((-room - low) / (high - low)).clamp_(0, 1)
        place = self.place[:, None].expand(-1, n.shape[1], -1)
        b = torch.lerp(place.gather(-1, n - 1), place.gather(-1, n), share)
        return torch.where(room > -math.inf, b, math.nan).mT

    def densities(self, place: Tensor) -> Tensor:
        """(B, 2, m): p at places (B, 2)."""
        return self._at(self.logp, place).exp()

    def beyond(self, place: Tensor) -> Tensor:
        """(B, m): G at places (B,)."""
        return self._at(self.right, place[:, None])[:, 0].exp()

    def _at(self, values: Tensor, place: Tensor) -> Tensor:
        n = torch.searchsorted(self.place, place.contiguous()).clamp_(1, self.place.shape[1] - 1)
        low, high = self.place.gather(1, n - 1), self.place.gather(1, n)
        share = ((place - low) / (high - low).clamp_min(_TINY)).clamp(0, 1)
        return torch.lerp(_rows(values, n - 1), _rows(values, n), share[..., None])


def _tabulated(sketch: Sketch) -> _Table:
    grid = sketch.grid
    count = grid.count
    column = torch.arange(int(count.max()), device=count.device)
    index = grid.first[:-1, None] + torch.minimum(column, count[:, None] - 1)
    anchor = grid.high[grid.first[:-1]]
    place = (grid.high[index] - anchor[:, None]) + grid.low[index]
    left, right = (t.clamp_min(_TINY).log()[index] for t in (sketch.left, sketch.right))
    return _Table(anchor, place, left, right, sketch.node[0][index], sketch.alpha)


def _rows(values: Tensor, index: Tensor) -> Tensor:
    """values (B, N) or (B, N, m) at the places (B, I)."""
    if values.ndim == 2:
        return values.gather(1, index)
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))


def _between(three: Tensor, share: Tensor) -> Tensor:
    """(B, I, ...): along the two cells between three nodes (B, 3, ...), at shares from 0 to 2 (I,)."""
    part = share.view(1, -1, *(1,) * (three.ndim - 2))
    first = torch.lerp(three[:, :1], three[:, 1:2], part.clamp_max(1))
    return torch.where(part <= 1, first, torch.lerp(three[:, 1:2], three[:, 2:], part - 1))


def _prices(density: Tensor, payers: Tensor) -> Tensor:
    """(B, m): lambda of the two who pay (B, 2) with q = 1 at both ends, from p (B, 2, m) there; of one if they agree."""
    (ja, ka), (jb, kb) = (_rows(density[:, side], payers).unbind(-1) for side in (0, 1))
    across = ja * kb - ka * jb
    first, second = (kb - ka) / across, (ja - jb) / across
    two = (first > 0) & (second > 0) & (payers[:, 0] != payers[:, 1])
    first = torch.where(two, first, 2 / (ja + jb))
    second = torch.where(two, second, 0.0)
    prices = torch.zeros_like(density[:, 0]).scatter_add_(1, payers, torch.stack([first, second], -1))
    return torch.maximum(prices, _CHEAP * prices.amax(-1, keepdim=True))
