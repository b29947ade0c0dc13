"""Modes with a noise scale of their own: the scale follows the evidence, not the density of the best network.

A network with as many weights as there are rows can bring its residuals to nothing, and the scale with them. The
evidence counts the weights that the data determine, gamma = tr(H (H + Lambda)^-1) with H the Gauss-Newton matrix and
Lambda the precision of the prior, and its maximum over the scale has (N - gamma) sigma^2 = sum of squares (MacKay
1992). So the gradient by log sigma loses gamma / N; gamma itself is counted anew from time to time.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.forward import Buffers
from cbdl.bayes.rows import Batch, TrainingData

from ._curvature import Part, jacobians, prior_precision
from ._points import PointObjective

FIRST = 500
"""The step at which the weights are counted first; then at twice, four times, ... as many steps."""
SMALL = 1000
"""Parameters up to which they are counted by the full matrix; above, each by itself."""


class ModeObjective(PointObjective):
    """mean NLL - log prior / N at points of every member, and a learned noise scale by its evidence: a trainee.

    `variables` (members, copies * P + Q + Q) end with the determined weights of each scale, which no gradient moves.
    Those of the first copy stand for all.
    """

    def __init__(self, cohort: Cohort, data: TrainingData, start: Tensor) -> None:
        super().__init__(cohort, data, start)
        self.data = data
        self.variables = torch.cat([self.variables, torch.zeros_like(cohort.initial_noise)], 1)

    @property
    def noise(self) -> Tensor:
        """(members, Q): a view."""
        start = self.copies * self.size
        return self.variables[:, start : (start + self.variables.shape[1]) // 2]

    @property
    def determined(self) -> Tensor:
        """(members, Q): a view."""
        return self.variables[:, self.copies * self.size + self.noise.shape[1] :]

    def gradient(self, batch: Batch, step: int, steps: int) -> tuple[Tensor, Tensor]:
        noise = self.noise
        if noise.numel() and step >= FIRST and step % FIRST == 0 and (step // FIRST).bit_count() == 1:
            self.determined.copy_(
                determined_weights(self.cohort, self.theta[:, 0], noise, self.buffers, self.data).to(noise)
            )
        loss, gradient = super().gradient(batch, step, steps)
        if noise.numel():
            # the scale is floor + exp(noise)
            floor = self.cohort.likelihood.floors(self.cohort.unit).to(noise)
            slope = noise.exp() / (floor + noise.exp())
            gradient[:, -noise.shape[1] :] -= slope * self.determined / self.total
        return loss, torch.cat([gradient, torch.zeros_like(noise)], 1)


def determined_weights(
    cohort: Cohort,
    theta: Tensor,
    noise: Tensor,
    buffers: Buffers,
    data: TrainingData,
    part: Part | None = None,
) -> Tensor:
    """How many weights the data determine at theta (members, P), those of each noise scale apart (members, Q).

    `part`: the weights that count, the others being known; None: all.
    """
    part = Part.of(cohort.layout, "all", theta.device) if part is None else part
    precision = prior_precision(cohort, theta)[:, part.index]
    members, outputs = noise.shape
    if part.size > SMALL:
        own = precision.new_zeros(members, outputs, part.size)
        for weight, j in jacobians(cohort, theta, noise, buffers, data, part):
            own += torch.einsum("b,mbrp->mrp", weight, j.square()).double()
        return (own / (own.sum(1) + precision).unsqueeze(1)).sum(2)
    full = precision.new_zeros(members, outputs, part.size, part.size)
    for weight, j in jacobians(cohort, theta, noise, buffers, data, part):
        wide = (j * weight.sqrt()[:, None, None]).transpose(1, 2).double()
        full += wide.mT @ wide
    scale = precision.rsqrt()
    white = full * scale[:, None, :, None] * scale[:, None, None, :]
    whole = white.sum(1)
    whole.diagonal(dim1=1, dim2=2).add_(1.0)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(whole))
    return torch.einsum("mrpq,mqp->mr", white, inverse)
