"""Many small symmetric positive systems at once: Cholesky with the batch as the last dimension.

Rounding can make a matrix that is positive in theory indefinite in practice (equal extremes, weights at the
boundary). A pivot is therefore never smaller than a rounding error of its diagonal, which perturbs the step
of an iteration and never stops it. Only the triangle on and below the diagonal is ever read.

The matrices are small, so the cost of a call counts: memory and views of it are made once and used again.
"""

from __future__ import annotations

import torch
from torch import Tensor

_LARGE = 24
"""From this size on, LAPACK matrix by matrix is faster than column operations over the whole batch."""

_BLOCK = 4
"""Columns that are updated together: few calls, and little work above the diagonal."""

_ROUNDING = 1e-14

Outer = tuple[Tensor, Tensor, Tensor]


def outer_product(K: Tensor, column: Tensor) -> list[Outer]:
    """Views (part of K, left, right) such that K += column column^T, on and below the diagonal, is
    part += left * right for each; for K (m, m, b) and column (m, b)."""
    return [
        (K[k:, k : k + _BLOCK], column[k:, None], column[None, k : k + _BLOCK])
        for k in range(0, column.shape[0], _BLOCK)
    ]


class Cholesky:
    """Solves K x = y for b matrices K = `matrix` + diag(`diagonal`) of size m x m."""

    def __init__(self, m: int, b: int, device: torch.device) -> None:
        K = torch.empty(m, m, b, dtype=torch.float64, device=device)
        self.K, self.large = K, m > _LARGE
        if not self.large:
            self.diagonal = K.diagonal().T
            self.pivots = [K[k, k] for k in range(m)]
            self.columns = [K[k + 1 :, k] for k in range(m)]
            self.rows = [K[k, :k, None] for k in range(m)]
            self.updates = [outer_product(K[k + 1 :, k + 1 :], self.columns[k]) for k in range(m)]

    def factor(self, matrix: Tensor, diagonal: Tensor) -> None:
        """The factor of `matrix` (m, m, b) + diag(`diagonal` (m, b)); its diagonal holds inverse pivots."""
        self.K.copy_(matrix)
        self.K.diagonal().add_(diagonal.T)
        if self.large:
            self.L = _factor_lapack(self.K.permute(2, 0, 1).contiguous())
            return
        least = self.diagonal * _ROUNDING
        for k, (pivot, column) in enumerate(zip(self.pivots, self.columns, strict=True)):
            torch.maximum(pivot, least[k], out=pivot).rsqrt_()
            column *= pivot
            for part, left, right in self.updates[k]:
                part.addcmul_(left, right, value=-1)

    def solve_(self, x: Tensor) -> Tensor:
        """K^-1 `x` for `x` (m, r, b), in its place where that is faster."""
        if self.large:
            return torch.cholesky_solve(x.permute(2, 0, 1), self.L).permute(1, 2, 0)
        entries = list(x.unbind(0))
        for k, entry in enumerate(entries):
            entry *= self.pivots[k]
            x[k + 1 :].addcmul_(self.columns[k][:, None], entry, value=-1)
        for k in reversed(range(len(entries))):
            entries[k] *= self.pivots[k]
            x[:k].addcmul_(self.rows[k], entries[k], value=-1)
        return x


def _factor_lapack(K: Tensor) -> Tensor:
    """(b, m, m): the lower factor; where it fails, the diagonal grows until it does not."""
    boost = _ROUNDING
    L: Tensor
    L, info = torch.linalg.cholesky_ex(K)
    while (info > 0).any() and boost < 1:
        bad = (info > 0).nonzero()[:, 0]
        again = K[bad]
        again.diagonal(dim1=-2, dim2=-1).mul_(1 + boost)
        L[bad], info[bad] = torch.linalg.cholesky_ex(again)
        boost *= 100
    return L
