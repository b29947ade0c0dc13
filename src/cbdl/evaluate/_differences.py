"""Half the mean distance of two draws from a mixture of Normals: what a CRPS takes off for being unsure.

For two independent draws X and X', E|X - X'| / 2 = int F (1 - F) dt. The sum over pairs of components is closed, but
has as many terms as there are pairs: half a million for a thousand components. The integrand is analytic, so the
trapezoidal rule converges faster than any power; in t = c + a sinh(u), with a the narrowest scale, nodes are as dense
at the centre as components are narrow, and sparse where only wide ones reach. Nodes are doubled, row by row, until that
changes little and then nothing; a row that would need more nodes than it has components is summed over pairs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

MEMORY = 1 << 26
"""Bytes of the numbers that are looked at together."""
FEW = 128
"""Up to so many components pairs are the quicker way."""
FIRST = 64
"""Intervals of the first rule."""
REACH = 8.5
"""Standard deviations beyond which a component has nothing left: Phi(-8.5) is 1e-17."""
CHANGE = 1e-7
"""Relative change by the last doubling, at most (the error is about its square), and by the one before its root."""


def half_difference(loc: Tensor, scale: Tensor, weight: Tensor) -> Tensor:
    """(n,): E|X - X'| / 2 of mixtures (n, M), to a relative 1e-9.

    >>> one = torch.ones(1, 500, dtype=torch.float64)
    >>> half_difference(0 * one, one, one / 500) * math.sqrt(math.pi)     # of one Normal: 1 / sqrt(pi)
    tensor([1.0000], dtype=torch.float64)
    """
    if loc.shape[1] <= FEW:
        return by_pairs(loc, scale, weight)
    value = torch.empty_like(loc[:, 0])
    rows = max(1, MEMORY // (8 * 4 * FIRST * loc.shape[1]))
    for a in range(0, len(loc), rows):
        value[a : a + rows] = _by_nodes(*(x[a : a + rows] for x in (loc, scale, weight)))
    return value


def by_pairs(loc: Tensor, scale: Tensor, weight: Tensor) -> Tensor:
    """The same as the closed sum over pairs of components."""
    value = torch.empty_like(loc[:, 0])
    step = max(1, MEMORY // (8 * 4 * loc.shape[1] ** 2))
    for a in range(0, len(loc), step):
        m, s, w = (x[a : a + step] for x in (loc, scale, weight))
        spread = absolute(m[:, :, None] - m[:, None], s.square()[:, :, None] + s.square()[:, None])
        value[a : a + step] = ((spread @ w.unsqueeze(-1)).squeeze(-1) * w).sum(-1) / 2
    return value


def absolute(d: Tensor, variance: Tensor) -> Tensor:
    """E|d + sqrt(variance) Z| = 2 sqrt(v) phi(d / sqrt(v)) + d (2 Phi(d / sqrt(v)) - 1)."""
    s = variance.sqrt()
    z = d / s
    return 2 * s * torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi) + d * torch.erf(z / math.sqrt(2))


def _by_nodes(loc: Tensor, scale: Tensor, weight: Tensor) -> Tensor:
    counts = weight > 0
    centre = (weight * loc).sum(1, keepdim=True)
    unit = scale.where(counts, math.inf).amin(1, keepdim=True)
    away = ((loc - centre).abs() + REACH * scale).where(counts, 0.0).amax(1, keepdim=True)
    end, slope = torch.asinh(away / unit), math.sqrt(0.5) / scale

    def rule(rows: Tensor, places: Tensor) -> Tensor:
        """The mean of F (1 - F) dt/du over `places` in units of `end`, times the length 2 end."""
        u = end[rows] * places
        t = (centre[rows] + unit[rows] * torch.sinh(u)).unsqueeze(2)
        own = weight[rows].unsqueeze(2)
        above = torch.erf((t - loc[rows].unsqueeze(1)).mul_(slope[rows].unsqueeze(1)))
        cdf = (own.sum(1) + (above @ own).squeeze(2)) / 2
        heights = cdf * (1 - cdf) * unit[rows] * torch.cosh(u)
        return 2 * end[rows, 0] * heights.mean(1)

    count, left = FIRST, torch.arange(len(loc))
    value = rule(left, _places(count, 1.0, loc))
    calm = torch.zeros_like(value, dtype=torch.bool)
    while len(left) and count < loc.shape[1]:
        some = max(1, len(loc) * FIRST // count)
        halfway = torch.cat([rule(rows, _places(count, 0.5, loc)) for rows in torch.split(left, some)])
        change = (halfway - value[left]) / 2
        value[left] += change
        settled = calm[left] & (change.abs() <= CHANGE * value[left])
        calm[left] = change.abs() <= CHANGE**0.5 * value[left]
        left = left[~settled]
        count *= 2
    if len(left):
        value[left] = by_pairs(loc[left], scale[left], weight[left])
    return value


def _places(count: int, shift: float, like: Tensor) -> Tensor:
    """(count,): even places in [-1, 1], the first `shift` steps from the left end."""
    return (torch.arange(count, dtype=like.dtype) + shift) * (2 / count) - 1
