"""argmax_y min_j p_j(y) for diagonal Normals in R^d (the paper's modified Step 6 on a continuum)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal._border import Array
from cbdl.credal.euclidean import diagonal
from cbdl.credal.solvers.simplex import minimise


@dataclass(frozen=True)
class Maximin:
    """anchor + offset (B, d) is the point; log_density (B,) there; gap (B,) >= what any other could add.

    weights (B, m) is the dual solution, spread (B, d) = (sum_j weights_j / s_j^2)^(-1/2).
    """

    anchor: Tensor
    offset: Tensor
    log_density: Tensor
    gap: Tensor
    weights: Tensor
    spread: Tensor

    @property
    def point(self) -> Tensor:
        return self.anchor + self.offset


@dataclass(frozen=True)
class MaximinPoint:
    """The point of highest lower density.

    point:       (..., d) where it is
    log_density: (...,) the log of its lower density
    gap:         (...,) no other point exceeds that by more
    """

    point: Array
    log_density: Array
    gap: Array


def maximin(loc: Tensor, scale: Tensor) -> Maximin:
    """The outcome whose least density is greatest; loc, scale (B, m, d).

    min_j log p_j is strictly concave, so the maximiser is unique. By duality it is y(lambda) for the lambda
    that solves

        min over lambda in the simplex of max_y sum_j lambda_j log p_j(y),

    where the inner maximum is the mean of the locations weighted by lambda_j / s_j^2, coordinate by
    coordinate.
    """
    batch, m, d = loc.shape
    unit = scale.log().mean(1, keepdim=True).exp()
    x, precision = (loc - loc[:, :1]) / unit, (unit / scale).square()
    height = -(scale / unit).log().sum(-1)

    def inner(weights: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x_, precision_ = x[rows], precision[rows]
        share = weights[..., None] * precision_
        total = share.sum(1, keepdim=True)
        y = (share * x_).sum(1, keepdim=True) / total
        values = height[rows] - (precision_ * (x_ - y).square()).sum(-1) / 2
        return y, values, precision_ * (x_ - y), total

    everything = torch.arange(batch, device=loc.device)
    start = inner(loc.new_full((batch, m), 1 / m), everything)[1]
    size = start.abs().amax(-1).clamp(min=1.0)

    def objective(weights: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        _, values, pull, total = inner(weights, rows)
        k = size[rows]
        hessian = (pull / total) @ pull.mT / k[:, None, None]
        # The objective is homogeneous, so weights is a null vector. Curvature along 1, which the simplex
        # does not see, keeps the Newton system regular.
        hessian = hessian + hessian.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None]
        return (weights * values).sum(-1) / k, values / k[:, None], hessian

    minimum = minimise(objective, batch, m, device=loc.device, tolerance=1e-13)
    y, values, _, total = inner(minimum.point, everything)
    gap = ((minimum.point * values).sum(-1) - values.amin(-1)).clamp(min=0)
    value = values.amin(-1) - unit.log().sum((1, 2)) - d * diagonal.LOG_2PI / 2
    return Maximin(loc[:, 0], unit[:, 0] * y[:, 0], value, gap, minimum.point, (unit * total.rsqrt())[:, 0])
