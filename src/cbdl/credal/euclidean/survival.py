"""How far out a point of R^d lies: log P(|Z|^2 > q) of a standard Normal Z, and the squared radius that it asks for.

The highest density regions of Normals are ellipsoids, {Q_j <= q} with the squared distance Q_j, and Q_j is chi-squared
under P_j: the union of the ellipsoids first holds y at the level 1 - P(|Z|^2 > min_j Q_j(y)).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._border import EPS

_DEEP = 1e-280
"""Below this a probability is computed by its logarithm: it may be about to underflow."""


def log_survival(q: Tensor, d: int) -> Tensor:
    """log P(|Z|^2 > q) for Z standard Normal in R^d, q >= 0: the regularised gamma function Q(d/2, q/2).

    >>> log_survival(torch.tensor([3.841, 1600.0], dtype=torch.float64), 1)
    tensor([  -2.9955, -803.9153], dtype=torch.float64)
    """
    from scipy.special import gammainc, gammaincc  # takes long to import, and few need it

    a, x = d / 2, (q / 2).cpu()
    # scipy's are good to rounding; torch's lose digits from d = 40 on
    below, above = (torch.from_numpy(np.asarray(f(a, x.numpy()))) for f in (gammainc, gammaincc))
    logs = torch.where(below < 0.5, torch.log1p(-below), above.clamp_min(_DEEP).log())
    deep = above < _DEEP
    if deep.any():
        logs[deep] = _deep(x[deep], a)
    return logs.to(q.device)


def _deep(x: Tensor, a: float) -> Tensor:
    """log Q(a, x) for x well above a, by Legendre's continued fraction (evaluated as Lentz does)."""
    b = x + 1 - a
    d = 1 / b
    c, h = torch.full_like(x, math.inf), d.clone()
    for i in range(1, 2000):
        b = b + 2
        step = -i * (i - a)
        d = 1 / (step * d + b)
        c = b + step / c
        h = h * (d * c)
        if ((d * c - 1).abs() <= EPS).all():
            break
    return -x + a * x.log() - math.lgamma(a) + h.log()


def squared_radius(logs: Tensor, d: int) -> Tensor:
    """The least q, to rounding and never below, with log P(|Z|^2 > q) <= logs, for logs <= 0; infinite for -inf."""
    values, place = torch.unique(logs, return_inverse=True)
    a = d / 2
    # Far out, the terms of the logarithm are as large as a log a, whatever their sum.
    wanted = (1 + 256 * EPS) * values - torch.where(values < -1, 32 * EPS * a * math.log1p(a), 0.0)
    low, high = torch.zeros_like(values), torch.ones_like(values)
    finite = torch.isfinite(values)
    while (more := finite & (log_survival(high, d) > wanted)).any():
        low, high = torch.where(more, high, low), torch.where(more, 2 * high, high)
    for _ in range(60):
        middle = (low + high) / 2
        enough = log_survival(middle, d) <= wanted
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    return torch.where(finite, high * (1 + 8 * EPS), math.inf)[place]
