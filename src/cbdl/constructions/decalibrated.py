"""Decalibration: intervals around the probabilities of one trained network, from its logits (Hofman et al., 2026).

Adding t to the logit of class k makes every row more or less sure of k. All t are plausible under which the likelihood
of the training rows, per row, stays at least alpha times what it was:

    exp(mean_n log p_t(y_n) - mean_n log p_0(y_n)) >= alpha,
    log p_t(y) - log p_0(y) = t [y = k] - log(1 + p_k (exp(t) - 1)).

The left side is log-concave in t, so they are an interval around 0, and a new row's probability of k has one too. No
training and no members are needed: any logits will do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cbdl.constructions._given import class_numbers
from cbdl.credal import Array, ArrayLike, IntervalCredalSet

LARGEST = 1e4
"""A shift beyond which probabilities are 0 or 1: no limit was found."""

STEPS = 60
"""Halvings of an interval."""


@dataclass(frozen=True)
class Decalibration:
    """Plausible shifts of every logit: lower (J,) <= 0 and upper (J,) >= 0, infinite where nothing limits them.

    - `alpha`: the least relative likelihood that they have
    """

    lower: Array
    upper: Array
    alpha: float

    def __call__(self, logits: ArrayLike) -> IntervalCredalSet:
        """The intervals of new rows, logits (..., J): the probability of k under all plausible shifts of logit k."""
        z = _logits(logits)
        if z.shape[-1] != len(self.lower):
            raise ValueError(f"logits has {z.shape[-1]} classes; the shifts are of {len(self.lower)}")
        log_p, log_rest = _logs(z)
        # p_k exp(t_k) / (1 + p_k (exp(t_k) - 1)), class by class
        ends = [torch.sigmoid(log_p + torch.as_tensor(t).to(z) - log_rest) for t in (self.lower, self.upper)]
        low, high = (end if isinstance(logits, Tensor) else end.numpy() for end in ends)
        return IntervalCredalSet(low, high)


def decalibration(logits: ArrayLike, y: ArrayLike, alpha: float = 0.95) -> Decalibration:
    """The plausible shifts, from the logits (N, J) of the training rows and their labels (N,).

    Two classes, as many of each, and a network that knows nothing: the relative likelihood is 1 / cosh(t / 2).

    - `y`: the labels (N,)
    - `alpha`: the least relative likelihood, per row, that a shift may have

    >>> shifts = decalibration(np.zeros((4, 2)), [0, 1, 0, 1], alpha=0.8)
    >>> bool(np.allclose(shifts.upper, 2 * np.arccosh(1 / 0.8)))
    True
    >>> shifts([0.0, 0.0]).upper
    array([0.8, 0.8])
    """
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha is {alpha}; it is a relative likelihood, above 0 and at most 1")
    z = _logits(logits)
    J = z.shape[-1]
    labels = class_numbers(y, J)
    if z.ndim != 2 or labels.shape != z.shape[:1]:
        raise ValueError(
            f"logits has shape {tuple(z.shape)} and y {tuple(labels.shape)}; give (N, J) logits and (N,) labels"
        )
    logs, share = _logs(z), torch.nn.functional.one_hot(labels, J).to(z).mean(0)
    limits = [_limit(logs, share, float(np.log(alpha)), sign) for sign in (-1.0, 1.0)]
    low, high = (x if isinstance(logits, Tensor) else x.numpy() for x in limits)
    return Decalibration(low, high, alpha)


def _logits(logits: ArrayLike) -> Tensor:
    z = torch.as_tensor(logits).detach().to(torch.float64)
    if not z.ndim or z.shape[-1] < 2 or not torch.isfinite(z).all():
        raise ValueError(
            f"logits of shape {tuple(z.shape)} must be finite, (..., J) with at least two classes"
        )
    return z


def _logs(z: Tensor) -> tuple[Tensor, Tensor]:
    """(..., J) twice: log p_k and log(1 - p_k), the latter also where p_k rounds to 1."""
    log_p = z.log_softmax(-1)
    top = log_p.argmax(-1, keepdim=True)
    others = log_p.scatter(-1, top, -torch.inf).logsumexp(-1, keepdim=True)
    return log_p, torch.log1p(-log_p.exp()).scatter(-1, top, others)


def _limit(logs: tuple[Tensor, Tensor], share: Tensor, least: float, sign: float) -> Tensor:
    """(J,): the farthest t on one side of 0 with mean log-likelihood change >= `least`, infinite if there is none."""
    inside = torch.zeros_like(share)
    outside = torch.full_like(share, sign * LARGEST)
    free = _change(logs, share, outside) >= least
    for _ in range(STEPS):
        middle = (inside + outside) / 2
        good = _change(logs, share, middle) >= least
        inside, outside = torch.where(good, middle, inside), torch.where(good, outside, middle)
    return torch.where(free, sign * torch.inf, inside)


def _change(logs: tuple[Tensor, Tensor], share: Tensor, t: Tensor) -> Tensor:
    """(J,): mean_n log p_t(y_n) - log p_0(y_n) when t_k is added to the logit of k alone, k by k."""
    log_p, log_rest = logs
    return share * t - torch.logaddexp(log_p + t, log_rest).mean(0)
