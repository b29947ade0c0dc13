"""Probability intervals: all distributions over J classes between two bounds, and linear programmes over them.

    Pi = {p : l_i <= p_i <= u_i, sum_i p_i = 1}

The bounds are coherent: each is attained by some p of the set. Then events, gambles and f-divergences have closed
forms, and no extreme point is ever listed. Kernels on l, u (..., J), w = u - l, and the free mass s = 1 - sum_i l_i.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._border import EPS

_SMALL = 1e-290
"""Weights below this are 0: a ratio to them may overflow."""


def coherent(lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """The tightest bounds of the same set, which holds something: sum l <= 1 <= sum u.

    l_i' = max(l_i, 1 - sum_{k != i} u_k),   u_i' = min(u_i, 1 - sum_{k != i} l_k).

    >>> coherent(torch.tensor([0.0, 0.0]), torch.tensor([0.3, 1.0]))
    (tensor([0.0000, 0.7000]), tensor([0.3000, 1.0000]))
    """
    low = 1 - (upper.sum(-1, keepdim=True) - upper)
    high = 1 - (lower.sum(-1, keepdim=True) - lower)
    # A bound that only rounding would move stays: 0 is not 1e-17.
    slack = 4 * torch.finfo(lower.dtype).eps
    low, high = torch.where(low > lower + slack, low, lower), torch.where(high < upper - slack, high, upper)
    return low, torch.maximum(low, high)


def free_mass(lower: Tensor) -> Tensor:
    """(..., 1): s = 1 - sum_i l_i."""
    return (1 - lower.sum(-1, keepdim=True)).clamp_min(0)


def event_bounds(lower: Tensor, upper: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """(...,) twice: lower and upper probability of the events `mask` (..., J).

    lowerP(A) = max(sum_A l, 1 - sum_{not A} u),   upperP(A) = min(sum_A u, 1 - sum_{not A} l).
    """
    inside, outside = mask.to(lower), (~mask).to(lower)
    low = torch.maximum((lower * inside).sum(-1), 1 - (upper * outside).sum(-1))
    high = torch.minimum((upper * inside).sum(-1), 1 - (lower * outside).sum(-1))
    low, high = low.clamp(0, 1), high.clamp(0, 1)
    return low, torch.maximum(low, high)


def cheapest(lower: Tensor, upper: Tensor, cost: Tensor) -> Tensor:
    """(..., J): the distribution of the set with the smallest sum_i p_i cost_i.

    Every class has its lower bound, and the free mass goes to the cheapest classes, each up to its upper bound.

    >>> l, u = torch.tensor([0.2, 0.1, 0.1]), torch.tensor([0.8, 0.4, 0.5])
    >>> cheapest(l, u, torch.tensor([2.0, 0.0, 1.0]))
    tensor([0.2000, 0.4000, 0.4000])
    """
    shape = np.broadcast_shapes(lower.shape, upper.shape, cost.shape)
    lower, upper, cost = lower.expand(shape), upper.expand(shape), cost.expand(shape)
    order = cost.argsort(dim=-1, stable=True)
    room = (upper - lower).gather(-1, order)
    before = room.cumsum(-1) - room
    share = torch.minimum((free_mass(lower) - before).clamp_min(0), room)
    return lower + torch.empty_like(share).scatter_(-1, order, share)


def expectations(lower: Tensor, upper: Tensor, f: Tensor) -> Tensor:
    """(..., 2): the lower and the upper expectation of the gambles f (..., J)."""
    low = (cheapest(lower, upper, f) * f).sum(-1)
    high = (cheapest(lower, upper, -f) * f).sum(-1)
    return torch.stack([low, torch.maximum(low, high)], -1)


def levelled(lower: Tensor, upper: Tensor, weight: Tensor) -> Tensor:
    """(..., J): q_i = clamp(t weight_i, l_i, u_i) with the t >= 0 that makes it sum to 1; weights are at least 0.

    With equal weights it has the largest entropy of the set. With the weights p it is the nearest to p for every
    f-divergence sum_i p_i f(q_i / p_i): f' is monotone, so that at the optimum all ratios q_i / p_i that are not
    held by a bound are equal. If classes of weight 0 must take mass, they share it in proportion to their room.

    >>> levelled(torch.tensor([0.5, 0.0, 0.0]), torch.tensor([0.9, 0.2, 0.9]), torch.ones(3))
    tensor([0.5000, 0.2000, 0.3000])
    """
    weight = torch.where(weight > _SMALL, weight, 0.0)
    t = _crossing(lower, upper, weight)
    # Once more from the classes that are not held by a bound: one division instead of a long sum.
    free = (t * weight > lower) & (t * weight < upper)
    held = torch.where(free, 0.0, torch.clamp(t * weight, lower, upper)).sum(-1, keepdim=True)
    moving = (weight * free).sum(-1, keepdim=True)
    t = torch.where(moving > 0, ((1 - held) / moving).clamp_min(0), t)
    q = torch.clamp(t * weight, lower, upper)
    rest, room = (1 - q.sum(-1, keepdim=True)).clamp_min(0), upper - q
    total = room.sum(-1, keepdim=True)
    return torch.where(rest > 4 * EPS, q + room * (rest / total.clamp_min(_SMALL)).clamp_max(1), q)


def _crossing(lower: Tensor, upper: Tensor, weight: Tensor) -> Tensor:
    """(..., 1): t with sum_i clamp(t weight_i, l_i, u_i) = 1; the last corner of the sum if it stays below 1."""
    some = weight > 0
    safe = torch.where(some, weight, 1.0)
    corners = torch.cat([torch.where(some, bound / safe, 0.0) for bound in (lower, upper)], -1)
    bends = torch.cat([weight, -weight], -1)
    corners, order = corners.sort(dim=-1, stable=True)
    slope = bends.gather(-1, order).cumsum(-1).clamp_min(0)
    gain = slope[..., :-1] * corners.diff(dim=-1)
    total = lower.sum(-1, keepdim=True) + torch.cat([torch.zeros_like(gain[..., :1]), gain.cumsum(-1)], -1)
    last = ((total <= 1).sum(-1, keepdim=True) - 1).clamp_min(0)
    at, here, steep = (x.gather(-1, last) for x in (corners, total, slope))
    return at + torch.where(steep > 0, (1 - here).clamp_min(0) / steep.clamp_min(_SMALL), 0.0)


def upper_entropy(lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(...,) the largest entropy of the set in nats, (...,) its gap, (..., J) where it is attained.

    The gap is max_p sum_i p_i (-log q_i) - H(q) >= max H - H(q): the tangent plane of the concave H lies above it.
    """
    q = levelled(lower, upper, torch.ones_like(lower))
    slope = torch.where(q > 0, -q.clamp_min(torch.finfo(q.dtype).tiny).log(), 0.0)
    entropy = torch.special.entr(q).sum(-1)
    gap = (cheapest(lower, upper, -slope) * slope).sum(-1) - (q * slope).sum(-1)
    return entropy, gap.clamp_min(0), q
