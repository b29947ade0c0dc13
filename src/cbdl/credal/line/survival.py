"""How far out an outcome lies under Normal mixtures: the probability of all outcomes that are at most as likely.

S_j(y) = P_j(p_j(Y) <= p_j(y)); the union of the extremes' highest density regions first holds y at the level
1 - max_j S_j(y). Everything is in log S: an overconfident set puts outcomes at z = 40, where the level is 1 in float64
and log S is -804.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cbdl.credal.line.hdr import log_outside
from cbdl.credal.line.levels import crossings, shape_of
from cbdl.credal.line.mixture import Extremes, Mixtures


def log_survival(sets: Extremes, y: Tensor) -> Tensor:
    """(B, n): max_j log S_j at n outcomes y (B, n) of every set.

    >>> one = torch.tensor([[[0.0]]], dtype=torch.float64)
    >>> log_survival(Extremes(one, one + 1, one + 1), torch.tensor([[1.96, 40.0]], dtype=torch.float64))
    tensor([[  -2.9958, -803.9153]], dtype=torch.float64)
    """
    if sets.loc.shape[-1] == 1:
        z = (y[:, :, None] - sets.loc[:, None, :, 0]) / sets.scale[:, None, :, 0]
        return log_two_tails(z.abs().amin(-1))
    logs = torch.empty_like(y)
    for rows in sets.chunks():
        part, points = sets[rows], y[rows]
        each = points.repeat_interleave(part.m, 0)
        logs[rows] = _of_mixtures(part.each(), each).view(len(rows), part.m, -1).amax(1)
    return logs


def _of_mixtures(mix: Mixtures, y: Tensor) -> Tensor:
    """(B, n): log S of n points y (B, n) under each mixture."""
    shape = shape_of(mix)
    rows = torch.arange(len(mix), device=y.device).repeat_interleave(y.shape[1])
    point = y.reshape(-1)
    level = torch.minimum(mix.at(rows, point, torch.zeros_like(point))[0], shape.top[rows])
    return log_outside(mix, crossings(shape, level, rows), level, rows)[0].view(y.shape)


def log_two_tails(z: Tensor) -> Tensor:
    """log P(|Z| > z) of a standard Normal Z, for z >= 0."""
    near = torch.log1p(-torch.special.erf(math.sqrt(0.5) * z.clamp_max(1)))
    return torch.where(z < 1, near, math.log(2) + torch.special.log_ndtr(-z))


def two_tailed_quantile(logs: Tensor) -> Tensor:
    """The z >= 0 with log P(|Z| > z) = logs, for logs <= 0; infinite for -inf."""
    from scipy.special import ndtri_exp  # takes long to import, and few need it

    near = math.sqrt(2) * torch.special.erfinv(-torch.expm1(logs.clamp_min(-1)))
    far = -torch.from_numpy(ndtri_exp(logs.cpu().numpy() - math.log(2))).to(logs)
    # scipy's is good to some 30 roundings: one step of Newton's method, whose slope is the hazard 2 phi(z) / P.
    tails = log_two_tails(far)
    step = (tails - logs) * (tails + 0.5 * far.square() + 0.5 * math.log(math.pi / 2)).exp()
    return torch.where(logs > -0.5, near, torch.where(torch.isfinite(step), far + step, far))
