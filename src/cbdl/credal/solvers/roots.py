"""Roots of many monotone functions at once, each in its own bracket, without derivatives."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from cbdl.credal._border import EPS

ENOUGH = 4e-15
"""A value between 0 and this is as good as 0."""


def descend(
    function: Callable[[Tensor, Tensor], Tensor], start: Tensor, step: float, rows: Tensor
) -> tuple[Tensor, Tensor]:
    """Points below `start` (R,) at which the decreasing functions `rows` are at least 0, by doubling steps.

    `function(rows, x)` gives the values at x. Returns the points and the values there.
    """
    x, value = start.clone(), torch.full_like(start, -1.0)
    todo = torch.arange(len(start), device=start.device)
    for _ in range(1100):
        if len(todo) == 0:
            break
        x[todo] = start[todo] - step
        value[todo] = function(rows[todo], x[todo])
        todo = todo[value[todo] < 0]
        step *= 2
    return x, value


def last_nonnegative(
    function: Callable[[Tensor, Tensor], Tensor],
    low: Tensor,
    high: Tensor,
    at_low: Tensor,
    at_high: Tensor,
    rows: Tensor,
) -> Tensor:
    """The largest x in [low, high] (R,) at which decreasing functions are still at least 0.

    Chandrupatla's method: inverse quadratic interpolation where it is safe, bisection elsewhere. The answer
    is always a point at which the function was seen to be at least 0.
    """
    good, f_good, other, f_other = low.clone(), at_low.clone(), high.clone(), at_high.clone()
    old, f_old = good.clone(), f_good.clone()  # the point that was dropped last
    todo = torch.arange(len(low), device=low.device)
    share = torch.full_like(low, 0.5)
    for _ in range(200):
        tolerance = 2 * EPS * (good[todo].abs() + EPS)
        width = (other[todo] - good[todo]).abs()
        todo = todo[(f_good[todo] > ENOUGH) & (width > tolerance)]
        if len(todo) == 0:
            break
        g, o, fg, fo = good[todo], other[todo], f_good[todo], f_other[todo]
        x = g + share[todo] * (o - g)
        fx = function(rows[todo], x)
        ok = fx >= 0
        old[todo], f_old[todo] = torch.where(ok, g, o), torch.where(ok, fg, fo)
        good[todo], f_good[todo] = torch.where(ok, x, g), torch.where(ok, fx, fg)
        other[todo], f_other[todo] = torch.where(ok, o, x), torch.where(ok, fo, fx)
        share[todo] = _share(good[todo], other[todo], old[todo], f_good[todo], f_other[todo], f_old[todo])
    return good


def _share(a: Tensor, b: Tensor, c: Tensor, fa: Tensor, fb: Tensor, fc: Tensor) -> Tensor:
    """Where between a (0) and b (1) to look next; c is the third point."""
    xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
    safe = (phi.square() < xi) & ((1 - phi).square() < 1 - xi)
    t = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    t = torch.where(safe & torch.isfinite(t), t, 0.5)
    # Away from both ends, so that x moves; where there is no room for that, in the middle.
    margin = (2 * EPS * (a.abs() + EPS) / (b - a).abs()).clamp_max(0.5)
    return torch.minimum(torch.maximum(t, margin), 1 - margin).clamp(1e-300, 1 - EPS)
