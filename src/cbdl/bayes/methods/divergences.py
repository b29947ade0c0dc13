"""The bound that a variational posterior optimises: KL (the ELBO), Renyi-alpha, chi-squared (the paper's
remark on collapse).

With draws theta_d ~ q and log ratios r_d = log p(D | theta_d) / T + log p(theta_d) - log q(theta_d):

- KL: mean_d r_d, a lower bound of the (tempered) log evidence, largest at the q that is nearest in KL(q ||
  posterior).
- Renyi(alpha), 0 < alpha < 1: log mean_d exp((1 - alpha) r_d) / (1 - alpha); the ELBO as alpha -> 1, the
  evidence as alpha -> 0. A small alpha covers more of the posterior's mass.
- ChiSquared: log mean_d exp(2 r_d) / 2, an upper bound of the log evidence that is made small; q covers all
  of the mass.
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

    def weights(self, ratio: Tensor) -> Tensor:
        """The derivative of the loss by minus each log ratio (..., draws)."""
        return torch.full_like(ratio, 1 / ratio.shape[-1])

    def loss(self, ratio: Tensor) -> Tensor:
        return -self.bound(ratio)


@dataclass(frozen=True)
class Renyi:
    """The Renyi-alpha bound, alpha > 0 and not 1."""

    alpha: float = 0.5
    least_draws: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if not (math.isfinite(self.alpha) and self.alpha > 0) or self.alpha == 1:
            raise ValueError(f"Renyi: alpha is {self.alpha}; it must be positive and not 1 (1 is KL())")

    def bound(self, ratio: Tensor) -> Tensor:
        power = 1 - self.alpha
        return (torch.logsumexp(power * ratio, -1) - math.log(ratio.shape[-1])) / power

    def weights(self, ratio: Tensor) -> Tensor:
        return torch.softmax((1 - self.alpha) * ratio, -1)

    def loss(self, ratio: Tensor) -> Tensor:
        return -self.bound(ratio)


@dataclass(frozen=True)
class ChiSquared:
    """The chi-squared upper bound (CUBO with power 2), to be made small."""

    least_draws: ClassVar[int] = 2

    def bound(self, ratio: Tensor) -> Tensor:
        return 0.5 * (torch.logsumexp(2 * ratio, -1) - math.log(ratio.shape[-1]))

    def weights(self, ratio: Tensor) -> Tensor:
        return -torch.softmax(2 * ratio, -1)

    def loss(self, ratio: Tensor) -> Tensor:
        return self.bound(ratio)


Divergence: TypeAlias = KL | Renyi | ChiSquared
