"""The extreme points of the distributions between two bounds, all of them, for few classes.

At an extreme point every class is at a bound but for at most one, which takes what is left.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks

MAX_CLASSES = 12
"""All J 2^(J-1) candidates are looked at."""

SAME = 1e-12
"""Mass that is nothing: extreme points closer than this are one."""


def vertices(lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """(B, m, J) the extreme points of l, u (B, J), and (B, m) which are real: sets with fewer repeat their first.

    >>> points, real = vertices(torch.tensor([[0.2, 0.1, 0.3]]), torch.tensor([[0.5, 0.6, 0.6]]))
    >>> points.shape, real.all()
    (torch.Size([1, 5, 3]), tensor(True))
    """
    J = lower.shape[-1]
    if not (upper - lower > SAME).any():
        return lower.unsqueeze(-2), torch.ones_like(lower[:, :1], dtype=torch.bool)
    if J > MAX_CLASSES:
        raise ValueError(
            f"a set between bounds of {J} classes may have more than 2^{J - 1} extremes, and at most {MAX_CLASSES} "
            "classes are listed; probabilities, expectations, entropies, regions and decisions need no list"
        )
    up, between = _candidates(J)
    up, between = up.to(lower.device), between.to(lower.device)
    (good,) = in_chunks(
        lambda low, high: (_points(low, high, up, between)[1],), lower, upper, per_set=32 * J * len(between)
    )
    m = int(good.sum(-1).max())
    at = (~good).to(torch.uint8).argsort(dim=-1, stable=True)[:, :m]
    real = good.gather(-1, at)
    at = torch.where(real, at, at[:, :1])
    points = _chosen(lower, upper, up[at], between[at])
    # What is left is known to a rounding: a class at a bound is there, and 0 is not 1e-16.
    for bound in (lower.unsqueeze(-2), upper.unsqueeze(-2)):
        points = torch.where((points - bound).abs() <= SAME, bound, points)
    return points, real


@lru_cache(maxsize=4)
def _candidates(J: int) -> tuple[Tensor, Tensor]:
    """(n, J) bool which classes are at their upper bound, (n,) which one takes the rest (it counts as low)."""
    bits = torch.arange(1 << J)
    up = (bits.unsqueeze(-1) >> torch.arange(J)) & 1 == 1
    state, between = (~up).nonzero().unbind(-1)
    return up[state], between


def _chosen(lower: Tensor, upper: Tensor, up: Tensor, between: Tensor) -> Tensor:
    """(b, n, J): one class takes what the bounds of the others leave, which may be less than nothing."""
    x = torch.where(up, upper.unsqueeze(-2), lower.unsqueeze(-2))
    at = between.unsqueeze(-1).expand(*x.shape[:-1], 1)
    return x.scatter_add(-1, at, 1 - x.sum(-1, keepdim=True))


def _points(lower: Tensor, upper: Tensor, up: Tensor, between: Tensor) -> tuple[Tensor, Tensor]:
    """(b, n, J) all candidates, and (b, n) which of them are extreme points, each once."""
    points = _chosen(lower, upper, up, between)
    rest, low, high = points[:, torch.arange(len(between)), between], lower[:, between], upper[:, between]
    wide = upper - lower > SAME
    # A class that cannot move is low. A point with nobody between is listed once, by its first class that moves.
    fixed = ((up & ~wide.unsqueeze(-2)).any(-1)) | ~wide[:, between]
    first = wide.to(torch.uint8).argmax(-1, keepdim=True)
    inside = (rest > low + SAME) & (rest < high - SAME)
    corner = ((rest - low).abs() <= SAME) | ((rest - high).abs() <= SAME)
    good = ~fixed & (inside | (corner & (between == first)))
    # One distribution alone, among sets of more: the first candidate.
    alone = ~wide.any(-1, keepdim=True)
    return points, torch.where(alone, torch.arange(len(between), device=up.device) == 0, good)
