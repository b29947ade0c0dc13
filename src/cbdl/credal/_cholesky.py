"""Many small symmetric positive systems at once: Cholesky with the batch as the last dimension.

Rounding can make a matrix that is positive in theory indefinite in practice (equal extremes, weights at the
boundary). A pivot is therefore never smaller than a rounding error of its diagonal, which perturbs the step
of an iteration and never stops it. Only the triangle on and below the diagonal is ever read.
"""

from __future__ import annotations

import torch
from torch import Tensor

_LARGE = 24
"""From this size on, LAPACK matrix by matrix is faster than column operations over the whole batch."""

_BLOCK = 4
"""Columns that are updated together: few calls, and little work above the diagonal."""

_ROUNDING = 1e-14


def add_outer(K: Tensor, column: Tensor, value: float = 1.0) -> None:
    """K += value * column column^T on and below the diagonal, for K (m, m, b) and column (m, b)."""
    for k in range(0, column.shape[0], _BLOCK):
        K[k:, k : k + _BLOCK].addcmul_(column[k:, None], column[None, k : k + _BLOCK], value=value)


def factor(matrix: Tensor, diagonal: Tensor) -> Tensor:
    """The factor of `matrix` (m, m, b) + diag(`diagonal` (m, b)), for `solve`."""
    m = diagonal.shape[0]
    K = matrix.clone(memory_format=torch.contiguous_format)
    K.diagonal().add_(diagonal.T)
    if m > _LARGE:
        return _factor_lapack(K)
    least = K.diagonal().T * _ROUNDING
    for k in range(m):
        inverse = torch.maximum(K[k, k], least[k]).rsqrt_()
        K[k, k] = inverse
        add_outer(K[k + 1 :, k + 1 :], K[k + 1 :, k].mul_(inverse), -1.0)
    return K


def solve(L: Tensor, right: Tensor) -> Tensor:
    """K^-1 `right` for `right` (m, r, b) and L = factor(K), whose diagonal holds the inverse pivots."""
    m = right.shape[0]
    if m > _LARGE:
        return torch.cholesky_solve(right.permute(2, 0, 1), L).permute(1, 2, 0)
    x = right.clone(memory_format=torch.contiguous_format)
    for k in range(m):
        x[k] *= L[k, k]
        if k + 1 < m:
            x[k + 1 :].addcmul_(L[k + 1 :, k, None], x[k], value=-1)
    for k in reversed(range(m)):
        x[k] *= L[k, k]
        if k:
            x[:k].addcmul_(L[k, :k, None], x[k], value=-1)
    return x


def _factor_lapack(K: Tensor) -> Tensor:
    """(b, m, m): the lower factor; where it fails, the diagonal grows until it does not."""
    K = K.permute(2, 0, 1).contiguous()
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
