"""The bound that a variational posterior optimises: KL (the ELBO), Renyi-alpha, chi-squared (the paper's remark
on posteriors that coincide after projection).

With draws theta_d ~ q, weights w_d = p(D | theta_d)^(1/T) p(theta_d) / q(theta_d) and log ratios r_d = log w_d:

- KL: mean_d r_d, a lower bound of the (tempered) log evidence, largest where KL(q || posterior) is smallest.
- Renyi(alpha): log mean_d exp((1 - alpha) r_d) / (1 - alpha); the ELBO as alpha -> 1, the evidence as
  alpha -> 0. A small alpha covers more of the posterior's mass.
- ChiSquared: log mean_d exp(2 r_d) / 2, an upper bound of the log evidence, to be made small; q covers all mass.

Gradients are doubly reparameterised: only the path theta_d = mu + sigma eps_d is followed, with the parameters of q
held where they enter log q directly. The gradient of the loss is -sum_d c_d (d r_d / d theta_d) (d theta_d / d .) with
the coefficients c below. It has no noise where q is the posterior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import torch
from torch import Tensor


@dataclass(frozen=True)
class KL:
    """KL(q || posterior): the usual choice."""

    least_draws: ClassVar[int] = 1

    def bound(self, ratio: Tensor) -> Tensor:
        """(..., draws) -> (...)"""
        return ratio.mean(-1)

    def coefficients(self, ratio: Tensor) -> Tensor:
        """c (..., draws)"""
        return torch.full_like(ratio, 1 / ratio.shape[-1])

    def loss(self, ratio: Tensor) -> Tensor:
        return -self.bound(ratio)


@dataclass(frozen=True)
class Renyi:
    """The Renyi-alpha bound, alpha > 0 and not 1.

    - `alpha`: the order: near 0 it covers all mass, at 1 it would be the KL

    >>> from cbdl import MeanField
    >>> MeanField(divergence=Renyi(0.5)).divergence
    Renyi(alpha=0.5)
    >>> ratio = torch.tensor([0.0, -1.0])                       # log p(y, theta) - log q(theta) of two draws
    >>> bool(Renyi(0.5).bound(ratio) > ratio.mean())            # above the bound of KL
    True
    """

    alpha: float = 0.5
    least_draws: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if not (math.isfinite(self.alpha) and self.alpha > 0) or self.alpha == 1:
            raise ValueError(f"Renyi: alpha is {self.alpha}; it must be positive and not 1 (1 is KL())")

    def bound(self, ratio: Tensor) -> Tensor:
        power = 1 - self.alpha
        return (torch.logsumexp(power * ratio, -1) - math.log(ratio.shape[-1])) / power

    def coefficients(self, ratio: Tensor) -> Tensor:
        """alpha v + (1 - alpha) v^2 with v = softmax((1 - alpha) r): unbiased for the bound of so many draws."""
        v = torch.softmax((1 - self.alpha) * ratio, -1)
        return self.alpha * v + (1 - self.alpha) * v.square()

    def loss(self, ratio: Tensor) -> Tensor:
        return -self.bound(ratio)


@dataclass(frozen=True)
class ChiSquared:
    """The chi-squared upper bound (CUBO with power 2), to be made small.

    >>> from cbdl import MeanField
    >>> MeanField(divergence=ChiSquared()).number               # draws per step
    8
    """

    least_draws: ClassVar[int] = 2

    def bound(self, ratio: Tensor) -> Tensor:
        return 0.5 * (torch.logsumexp(2 * ratio, -1) - math.log(ratio.shape[-1]))

    def coefficients(self, ratio: Tensor) -> Tensor:
        """softmax(2 r): the gradient of the bound itself, not of its estimate from so many draws.

        The estimate can be made small by moving q to where the posterior has no mass, because no draw then tells;
        this gradient moves q towards the draws that the posterior likes best.
        """
        return torch.softmax(2 * ratio, -1)

    def loss(self, ratio: Tensor) -> Tensor:
        return self.bound(ratio)


Divergence: TypeAlias = KL | Renyi | ChiSquared
