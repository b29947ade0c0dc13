"""What an optimisation hands back: the value, how far off it can be, and where it is attained."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cbdl.credal._border import Array, Border
from cbdl.credal.table import numbers_words


@dataclass(frozen=True)
class Optimum:
    """A certified optimum over the hull {sum_j beta_j P_j}.

    value:   (...,) the objective at `weights`
    gap:     (...,) the true optimum is within `gap` of `value` (a proof, from duality)
    weights: (..., m) the mixture weights beta at which `value` is attained
    error:   (...,) the error of the numbers themselves: 0 on finite spaces, an estimate of the quadrature
             error on the line, a Monte Carlo standard error in R^d
    """

    value: Tensor
    gap: Tensor
    weights: Tensor
    error: Tensor

    def scaled(self, factor: float) -> Optimum:
        """The same optimum in another unit."""
        return replace(self, value=self.value * factor, gap=self.gap * factor, error=self.error * factor)

    def reshaped(self, batch: torch.Size) -> Optimum:
        """The flat batch dimension put back into the user's shape."""
        return Optimum(
            self.value.reshape(batch),
            self.gap.reshape(batch),
            self.weights.reshape(*batch, self.weights.shape[-1]),
            self.error.reshape(batch),
        )

    def out(self, border: Border) -> Certified:
        return Certified(
            border.out(self.value), border.out(self.gap), border.out(self.weights), border.out(self.error)
        )


@dataclass(frozen=True, repr=False)
class Certified:
    """An `Optimum` in the user's kind of array; the fields mean the same.

    - `value`: of the optimum
    - `gap`: how far the true optimum may be, proven
    - `weights`: of the extremes that attain it
    - `error`: of the numbers themselves (quadrature, or a standard error)
    """

    value: Array
    gap: Array
    weights: Array
    error: Array

    def __repr__(self) -> str:
        return numbers_words(self)
