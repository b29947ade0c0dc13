"""Regions of classes that all distributions between two bounds cover (paper: definition "ihdr-def").

The same three as in `regions`, in closed form and for any number of classes:

- "union": of the credible sets of all distributions of the set. (The extremes alone, of which there may be more than
  2^J, can have a smaller union.)
- "lower-density": {y : l_y >= c} with the largest c whose lower probability reaches the target;
- "minimal": as few classes as possible. lowerP(S) = max(sum_S l, 1 - sum_{not S} u), so that it is the first classes
  in the order of l, or in the order of u, whichever are fewer.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from cbdl.credal._border import EPS
from cbdl.credal.classes.box import free_mass


def log_survival(lower: Tensor, upper: Tensor) -> Tensor:
    """(..., J): log of the largest P(classes at most as likely as y), P in the set, for every class y.

    Ties count for y. The best P gives y its upper bound t; the classes with l_i > t stay above it with as little
    as they can, the others at most t. If that cannot take all mass, some classes with u_i > t must go above t
    as well, at a price of t each: the fewest that do, those of the largest u_i.

    >>> l, u = torch.tensor([0.4, 0.2, 0.1]), torch.tensor([0.7, 0.4, 0.3])
    >>> log_survival(l, u).exp()
    tensor([1.0000, 1.0000, 0.6000])
    """
    t, J = upper, lower.shape[-1]
    ordered = upper.sort(dim=-1, descending=True).values
    by_lower = lower.sort(dim=-1, descending=True)
    lows, highs = by_lower.values, upper.gather(-1, by_lower.indices)
    forced = _above(lows, t)
    larger = _above(ordered, t)
    low_forced, high_forced = _first(lows, forced), _first(highs, forced)
    # Mass that can stay at or below t, by the classes that are not forced above it.
    room = (_first(ordered, torch.full_like(larger, J)) - _first(ordered, larger)) + t * (larger - forced)
    spare = free_mass(lower) + lower.sum(-1, keepdim=True) - low_forced
    raised = _raised(lower, upper, t, 1 - (room + high_forced))
    below = torch.minimum(room, spare) - raised * t
    above = torch.maximum(1 - room, low_forced) + raised * t
    below, above = below.clamp(0, 1), above.clamp(0, 1)
    return torch.where(above < 0.5, torch.log1p(-above), below.log())


def _above(ordered: Tensor, t: Tensor) -> Tensor:
    """(..., J): how many of the descending `ordered` are above each t."""
    return torch.searchsorted(-ordered, -t, side="left")


def _first(x: Tensor, count: Tensor) -> Tensor:
    """(..., J): the sums of the first `count` entries of x."""
    sums = torch.cat([torch.zeros_like(x[..., :1]), x.cumsum(-1)], -1)
    return sums.gather(-1, count)


def _raised(lower: Tensor, upper: Tensor, t: Tensor, missing: Tensor) -> Tensor:
    """(..., J): how many classes with l_i <= t < u_i must go above t to take `missing` mass, u_i - t each."""
    need = missing > 4 * EPS * lower.shape[-1]
    count = torch.zeros_like(t)
    if need.any():
        *batch, _ = need.nonzero(as_tuple=True)
        low, high, level = lower[tuple(batch)], upper[tuple(batch)], t[need].unsqueeze(-1)
        gain = (
            torch.where((low <= level) & (high > level), high - level, 0.0)
            .sort(dim=-1, descending=True)
            .values
        )
        enough = gain.cumsum(-1) < missing[need].unsqueeze(-1) - 4 * EPS * lower.shape[-1]
        count[need] = (1 + enough.sum(-1)).clamp_max(lower.shape[-1]).to(count)
    return count


def _union(lower: Tensor, upper: Tensor, target: float) -> Tensor:
    # y belongs to a credible set while the classes before it have less than the target.
    return log_survival(lower, upper).exp() > 1 - target


def _lower_density(lower: Tensor, upper: Tensor, target: float) -> Tensor:
    order = lower.argsort(dim=-1, descending=True, stable=True)
    last = (_reached(lower, upper, order) < target).sum(-1, keepdim=True).clamp_max(lower.shape[-1] - 1)
    level = lower.gather(-1, order.gather(-1, last))
    return lower >= level * (1 - 4 * EPS)


def _minimal(lower: Tensor, upper: Tensor, target: float) -> Tensor:
    masks, levels = [], []
    for bound in (lower, upper):
        order = bound.argsort(dim=-1, descending=True, stable=True)
        reached = _reached(lower, upper, order)
        size = (reached < target).sum(-1, keepdim=True).clamp_max(lower.shape[-1] - 1)
        keep = torch.arange(lower.shape[-1], device=lower.device) <= size
        masks.append(torch.zeros_like(keep).scatter_(-1, order, keep))
        levels.append((size, reached.gather(-1, size)))
    (few, level), (fewer, higher) = levels
    second = (fewer < few) | ((fewer == few) & (higher > level))
    return torch.where(second, masks[1], masks[0])


def _reached(lower: Tensor, upper: Tensor, order: Tensor) -> Tensor:
    """(..., J): the lower probability of the first k + 1 classes of `order`."""
    inside = lower.gather(-1, order).cumsum(-1)
    from_behind = upper.gather(-1, order).flip(-1).cumsum(-1).flip(-1)
    outside = torch.cat([from_behind[..., 1:], torch.zeros_like(from_behind[..., :1])], -1)
    return torch.maximum(inside, 1 - outside)


BOX_REGIONS: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "union": _union,
    "lower-density": _lower_density,
    "minimal": _minimal,
}
"""By name: (l (..., J), u (..., J), target probability) -> mask (..., J)."""
