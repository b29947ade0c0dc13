"""One distribution out of the hull: a mixture of diagonal Normals in R^d, as model averaging gives it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from cbdl.credal._border import Array, ArrayLike, border_of, check_finite, float64
from cbdl.credal.euclidean import diagonal


@dataclass(frozen=True)
class DiagonalMixture:
    """sum_j weights_j N(loc_j, diag(scale_j^2)); loc, scale (..., m, d), weights (..., m).

    - `loc`: means

    >>> import numpy as np
    >>> q = DiagonalMixture(np.array([[0.0], [2.0]]), np.ones((2, 1)), np.array([0.5, 0.5]))
    >>> q.mean, q.variance
    (array([1.]), array([2.]))
    """

    loc: Array
    scale: Array
    weights: Array

    def log_density(self, y: ArrayLike) -> Array:
        """(...,): at y (..., d), broadcast against the batch."""
        point, (loc, scale, weights) = float64(y, "y"), self._parts()
        if point.ndim == 0 or point.shape[-1] != loc.shape[-1]:
            raise ValueError(
                f"y has shape {tuple(point.shape)}; points of this space are (..., {loc.shape[-1]})"
            )
        check_finite(point, "y")
        each = diagonal.log_density(point[..., None, :], loc, scale)
        return border_of(y, self.loc).out((each + weights.log()).logsumexp(-1))

    @property
    def mean(self) -> Array:
        """(..., d)"""
        loc, _, weights = self._parts()
        return border_of(self.loc).out((weights[..., None] * loc).sum(-2))

    @property
    def variance(self) -> Array:
        """(..., d): of each coordinate; the spread within the components plus that of their means."""
        loc, scale, weights = self._parts()
        share = weights[..., None]
        mean = (share * loc).sum(-2, keepdim=True)
        return border_of(self.loc).out((share * (scale.square() + (loc - mean).square())).sum(-2))

    def sample(self, n: int, seed: int = 0) -> Array:
        """(n, ..., d): independent draws.

        - `n`: how many draws
        - `seed`: of the random numbers; the same seed gives the same answer
        """
        loc, scale, weights = self._parts()
        generator = torch.Generator().manual_seed(seed)
        batch, d = loc.shape[:-2], loc.shape[-1]
        flat = weights.reshape(-1, weights.shape[-1]).cpu()
        which = torch.multinomial(flat, n, replacement=True, generator=generator).T.reshape(n, *batch, 1, 1)
        noise = torch.randn(n, *batch, d, dtype=loc.dtype, generator=generator).to(loc.device)
        index = which.expand(*which.shape[:-1], d).to(loc.device)

        def pick(x: torch.Tensor) -> torch.Tensor:
            return x.expand(n, *x.shape).gather(-2, index)[..., 0, :]

        return border_of(self.loc).out(pick(loc) + pick(scale) * noise)

    def _parts(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return float64(self.loc, "loc"), float64(self.scale, "scale"), float64(self.weights, "weights")
