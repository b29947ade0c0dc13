"""Closed forms for Normals on R^d with independent coordinates: densities, entropies, divergences, boxes.

All tensors are float64; a Normal is (loc, scale), each (..., d), and shapes broadcast. Only differences of
locations enter, so a scale of 1e-8 at a location of 1e6 keeps the digits that the input has.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks

LOG_2PI = math.log(2 * math.pi)
_ROOT_HALF = math.sqrt(0.5)


def log_density(y: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    """(...,): log of the density at y (..., d)."""
    return -(((y - loc) / scale).square().sum(-1) + scale.log().sum(-1) * 2 + scale.shape[-1] * LOG_2PI) / 2


def entropy(scale: Tensor) -> Tensor:
    """(...,): sum_i log s_i + d/2 log(2 pi e)."""
    return scale.log().sum(-1) + scale.shape[-1] * (1 + LOG_2PI) / 2


def kl(loc: Tensor, scale: Tensor, other_loc: Tensor, other_scale: Tensor) -> Tensor:
    """(...,): KL(first || second) = sum_i (x_i - log(1 + x_i) + d_i^2) / 2, x = (s / s')^2 - 1, d = (mu -
    mu') / s'.
    """
    excess = (scale - other_scale) * (scale + other_scale) / other_scale.square()
    spread = torch.where(
        excess.abs() < 0.5, excess - excess.log1p(), excess - 2 * (scale / other_scale).log()
    )
    return (spread.clamp(min=0) + ((loc - other_loc) / other_scale).square()).sum(-1) / 2


def w2_squared(loc: Tensor, scale: Tensor, other_loc: Tensor, other_scale: Tensor) -> Tensor:
    """(...,): W2^2 = |mu - mu'|^2 + |s - s'|^2: coordinates are transported alone."""
    return ((loc - other_loc).square() + (scale - other_scale).square()).sum(-1)


def power_product(
    loc: Tensor, scale: Tensor, power: float, other_loc: Tensor, other_scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """log of the integral of p^a p'^(1-a), and the Normal (offset from `loc`, scale) that p^a p'^(1-a) is a
    multiple of.

    The precision is a / s^2 + (1 - a) / s'^2; where it is not positive in some coordinate the integral is
    infinite.
    """
    ratio = scale / other_scale
    share = power + (1 - power) * ratio.square()  # precision in units of 1 / scale^2
    good = share > 0
    share = torch.where(good, share, 1.0)
    delta = (loc - other_loc) / other_scale
    exponent = (
        (1 - power) * ratio.log() - share.log() / 2 - power * (1 - power) * delta.square() / (2 * share)
    )
    offset = -(1 - power) * ratio.square() / share * (loc - other_loc)
    finite = good.all(-1)
    return torch.where(finite, exponent.sum(-1), torch.inf), offset, scale * share.rsqrt()


def log_triple_product(loc: Tensor, scale: Tensor, other_loc: Tensor, other_scale: Tensor) -> Tensor:
    """(..., m, m): log of the integral of p_j p_k / p', for loc, scale (..., m, d) and the other (..., d).

    Infinite where the precision 1 / s_j^2 + 1 / s_k^2 - 1 / s'^2 is not positive.
    """
    precision = (other_scale[..., None, :] / scale).square()
    shift = (loc - other_loc[..., None, :]) / other_scale[..., None, :]
    both = precision[..., :, None, :] + precision[..., None, :, :] - 1
    good = both > 0
    both = torch.where(good, both, 1.0)
    x, y = precision * shift, precision * shift.square()
    linear = x[..., :, None, :] + x[..., None, :, :]
    square = y[..., :, None, :] + y[..., None, :, :]
    determinant = precision.log()[..., :, None, :] + precision.log()[..., None, :, :] - both.log()
    value = (determinant + linear.square() / both - square).sum(-1) / 2
    return torch.where(good.all(-1), value, torch.inf)


def log_box(lower: Tensor, upper: Tensor) -> Tensor:
    """(..., d): log(Phi(upper) - Phi(lower)) for standardised bounds, accurate in both tails and for thin
    slices.
    """
    # What is outside, where it is less than half: two tails, both good to rounding.
    outside = 0.5 * (torch.special.erfc(upper * _ROOT_HALF) + torch.special.erfc(-lower * _ROOT_HALF))
    answer = torch.log1p(-outside)
    rest = ~(outside < 0.5)
    if rest.any():
        answer[rest] = _log_slice(lower[rest], upper[rest])
    return answer


def _log_slice(lower: Tensor, upper: Tensor) -> Tensor:
    """The same for slices that hold less than half, by the logarithms of both tails."""
    swap = lower > 0
    a, b = torch.where(swap, -upper, lower), torch.where(swap, -lower, upper)
    high, low = torch.special.log_ndtr(b), torch.special.log_ndtr(a)
    wide = high + torch.log(-torch.expm1((low - high).clamp(max=-1e-300)))
    width = (b - a).clamp(min=0)
    middle = torch.where(torch.isfinite(a) & torch.isfinite(b), (a + b) / 2, 0.0)
    answer = torch.where(b > a, wide, -torch.inf)
    thin = width * (1 + middle.abs()) < 1e-3
    if thin.any():
        w, x = width[thin], middle[thin].square()
        answer[thin] = w.log() - (x + LOG_2PI) / 2 + ((x - 1) * w.square() / 24).log1p()
    return answer


def first_of_each(loc: Tensor, scale: Tensor) -> Tensor:
    """(B, m) bool: which of loc, scale (B, m, d) do not repeat an earlier one."""

    def mask(loc: Tensor, scale: Tensor) -> tuple[Tensor]:
        equal = (loc[:, :, None] == loc[:, None]) & (scale[:, :, None] == scale[:, None])
        return (~equal.all(-1).tril(-1).any(-1),)

    m, d = loc.shape[1:]
    return in_chunks(mask, loc, scale, per_set=4 * m * m * d)[0]
