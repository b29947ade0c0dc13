"""Unions of intervals for a batch of sets: union, intersection, complement, measure. No loop over sets.

Ends are pairs high + low (see `_mixture`), so that a region of width 1e-8 at 1e6 has an exact measure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal.line.mesh import lexicographic, two_sum


@dataclass(frozen=True)
class Intervals:
    """R closed intervals for each of B sets: ends high + low, both (B, R, 2); padded with (inf, inf)."""

    high: Tensor
    low: Tensor

    def __getitem__(self, rows: Tensor | slice) -> Intervals:
        return Intervals(self.high[rows], self.low[rows])

    @property
    def valid(self) -> Tensor:
        """(B, R): which intervals are there."""
        return self.high[..., 0] < math.inf

    @property
    def measure(self) -> Tensor:
        """(B,): the total length of the intervals, each counted as often as it occurs."""
        high = torch.where(self.valid[..., None], self.high, 0.0)
        length = (high[..., 1] - high[..., 0]) + (self.low[..., 1] - self.low[..., 0])
        return length.sum(-1)

    def rounded(self) -> Tensor:
        """(B, R, 2): the ends as float64 numbers, nan for padding."""
        return torch.where(self.valid[..., None], self.high + self.low, math.nan)

    def contains(self, y: Tensor) -> Tensor:
        """(B, n): whether y (B, n) lies in one of the intervals."""
        gap = y[:, :, None, None] - self.high[:, None]
        after = torch.where(gap == 0, -self.low[:, None], gap)
        inside = (after[..., 0] >= 0) & (after[..., 1] <= 0) & self.valid[:, None]
        return inside.any(-1)


def padded(owner: Tensor, start: tuple[Tensor, Tensor], end: tuple[Tensor, Tensor], sets: int) -> Intervals:
    """Flat lists of intervals, sorted by owner, as a padded batch."""
    count = torch.zeros(sets, dtype=torch.int64, device=owner.device)
    count.index_add_(0, owner, torch.ones_like(owner))
    width = max(1, int(count.max()) if sets else 1)
    place = torch.arange(len(owner), device=owner.device) - (count.cumsum(0) - count)[owner]
    high = torch.full((sets, width, 2), math.inf, dtype=torch.float64, device=owner.device)
    low = torch.zeros_like(high)
    for side, (h, rest) in enumerate((start, end)):
        value, error = two_sum(h, rest)
        high[owner, place, side] = value
        low[owner, place, side] = torch.where(torch.isfinite(value), error, 0.0)
    return Intervals(high, low)


def covered(x: Intervals, times: int) -> Intervals:
    """The points that lie in at least `times` of the intervals, as sorted disjoint intervals.

    1: the union. m, for m families of disjoint intervals side by side: their intersection.
    """
    sets, count = x.valid.shape
    high = x.high.transpose(1, 2).reshape(sets, 2 * count)
    low = x.low.transpose(1, 2).reshape(sets, 2 * count)
    delta = torch.cat([x.valid.to(torch.int64), -x.valid.to(torch.int64)], -1)
    # Starts stand before ends and the sort is stable: intervals that touch are merged.
    order = lexicographic(high, low)
    high, low, delta = high.gather(-1, order), low.gather(-1, order), delta.gather(-1, order)
    depth = delta.cumsum(-1)
    inside, was_inside = depth >= times, depth - delta >= times
    starts = (inside & ~was_inside).nonzero(as_tuple=True)
    ends = (~inside & was_inside).nonzero(as_tuple=True)
    return padded(starts[0], (high[starts], low[starts]), (high[ends], low[ends]), sets)


def union(x: Intervals) -> Intervals:
    """Overlapping intervals merged."""
    return covered(x, 1)


def intersection(families: list[Intervals]) -> Intervals:
    """The intersection of several families of disjoint intervals."""
    return covered(side_by_side(families), len(families))


def side_by_side(families: list[Intervals]) -> Intervals:
    """All intervals of several families in one."""
    return Intervals(torch.cat([f.high for f in families], 1), torch.cat([f.low for f in families], 1))


def complement(x: Intervals) -> Intervals:
    """The closure of the complement of sorted disjoint intervals; the whole line for none."""
    sets = x.high.shape[0]
    edge = x.high.new_full((sets, 1), math.inf)
    zero = torch.zeros_like(edge)
    start = torch.cat([-edge, x.high[..., 1]], 1), torch.cat([zero, x.low[..., 1]], 1)
    end = torch.cat([x.high[..., 0], edge], 1), torch.cat([x.low[..., 0], zero], 1)
    keep = (start[0] < math.inf) & ~((start[0] == -math.inf) & (end[0] == -math.inf))
    owner, column = keep.nonzero(as_tuple=True)
    at = (owner, column)
    return padded(owner, (start[0][at], start[1][at]), (end[0][at], end[1][at]), sets)
