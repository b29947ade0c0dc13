"""The hull of mixtures on the line as a hull of coefficient vectors.

Densities of Normals that differ are linearly independent. In the basis of the distinct components of a set
its extremes are therefore points of a simplex, and membership and extremality are those of points.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cbdl.credal.line.mixture import Extremes


def coefficients(sets: Extremes) -> Tensor:
    """(B, m, K): the weights of each extreme on the distinct components of its set, K = m M at most."""
    B, m, M = sets.loc.shape
    name = _names(sets.loc.flatten(1), sets.scale.flatten(1)).view(B, m, M)
    return torch.zeros(B, m, m * M, dtype=torch.float64, device=sets.loc.device).scatter_add_(
        -1, name, sets.weights
    )


def coefficients_with(sets: Extremes, loc: Tensor, scale: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Coefficients of the extremes (B, m, D) and of one more distribution (B, M') -> (B, D) in one basis."""
    B, m, M = sets.loc.shape
    name = _names(torch.cat([sets.loc.flatten(1), loc], -1), torch.cat([sets.scale.flatten(1), scale], -1))
    D = name.shape[1]
    mine = torch.zeros(B, m, D, dtype=torch.float64, device=loc.device)
    mine.scatter_add_(-1, name[:, : m * M].view(B, m, M), sets.weights)
    other = torch.zeros(B, D, dtype=torch.float64, device=loc.device)
    return mine, other.scatter_add_(-1, name[:, m * M :], weights)


def _names(loc: Tensor, scale: Tensor) -> Tensor:
    """(B, K): a number for each component, the same for equal (loc, scale) only."""
    order = scale.argsort(dim=-1, stable=True)
    order = order.gather(-1, loc.gather(-1, order).argsort(dim=-1, stable=True))
    a, b = loc.gather(-1, order), scale.gather(-1, order)
    new = torch.zeros_like(order)
    new[:, 1:] = ((a[:, 1:] != a[:, :-1]) | (b[:, 1:] != b[:, :-1])).to(new.dtype)
    return torch.empty_like(order).scatter_(-1, order, new.cumsum(-1))
