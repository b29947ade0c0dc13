"""The analytic truth that every method must hit: linear regression with Normal noise and K Normal priors.

Computed by conditioning the joint Normal of parameters and targets (the N x N form), which none of the
methods does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import Data, prepare

FEATURES = 3
SIZE = FEATURES + 1
NOISE = 0.5
PRIORS = [priors.Normal(0.0, 1.0), priors.Normal(0.5, 0.3), priors.Normal(-1.0, 2.0)]


@dataclass(frozen=True)
class Truth:
    """mean (K, P), covariance (K, P, P); predictive mean and standard deviation of new targets."""

    mean: Tensor
    covariance: Tensor

    def predictive(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (K, rows) of a new target, noise included."""
        phi = design(x)
        var = torch.einsum("np,kpq,nq->kn", phi, self.covariance, phi) + NOISE**2
        return self.mean @ phi.T, var.sqrt()


def net() -> nn.Module:
    return nn.Linear(FEATURES, 1)


def design(x: Tensor) -> Tensor:
    """[x, 1]: the columns in the order of the flat parameters (weight, bias)."""
    return torch.cat([x, torch.ones_like(x[:, :1])], 1)


def problem(
    rows: int = 24, *, dtype: torch.dtype = torch.float64, weights: bool = False, scale: float | str = NOISE
) -> tuple[Cohort, Data, Truth]:
    """The cohort of K members, its data (correlated inputs, used as they are), the exact posteriors."""
    source = torch.Generator().manual_seed(7)
    x = torch.randn(rows, FEATURES, generator=source, dtype=torch.float64)
    x = x @ torch.tensor([[1.0, 0.6, 0.0], [0.0, 0.8, 0.3], [0.2, 0.0, 0.7]], dtype=torch.float64) + 0.3
    y = design(x) @ torch.tensor([1.0, -2.0, 0.5, 0.8], dtype=torch.float64)
    y = y + NOISE * torch.randn(rows, generator=source, dtype=torch.float64)
    w = torch.rand(rows, generator=source, dtype=torch.float64) + 0.5 if weights else None
    made = prepare(x, y, space="real", standardize=False, dtype=dtype, weights=w)
    cohort = Cohort.of(PRIORS, likelihoods.Normal(net, scale=scale), made, seed=3)  # type: ignore[arg-type]
    return cohort, made, exact(x, y, w)


def exact(x: Tensor, y: Tensor, weights: Tensor | None = None) -> Truth:
    """The posteriors of all PRIORS; a row of weight w has noise of variance NOISE^2 / w."""
    phi, target = design(x).numpy(), y.numpy()
    noise = NOISE**2 / (np.ones(len(target)) if weights is None else weights.numpy())
    means, covariances = [], []
    for prior in PRIORS:
        mean, cov = np.full(SIZE, prior.loc), prior.scale**2 * np.eye(SIZE)
        gain = np.linalg.solve(phi @ cov @ phi.T + np.diag(noise), phi @ cov).T
        means.append(mean + gain @ (target - phi @ mean))
        covariances.append(cov - gain @ phi @ cov)
    return Truth(torch.from_numpy(np.stack(means)), torch.from_numpy(np.stack(covariances)))


def moments(draws: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (K, P) and covariance (K, P, P) of draws (K, draws, P)."""
    mean = draws.mean(1)
    centred = draws - mean.unsqueeze(1)
    return mean, centred.mT @ centred / (draws.shape[1] - 1)


def deviation(draws: Tensor, truth: Truth, size: Tensor | int | None = None) -> tuple[Tensor, Tensor]:
    """How many Monte Carlo standard errors the draws' mean and covariance are from the truth.

    size: the effective number of independent draws, (K, P) or one number; the number of draws if not given.
    """
    n = torch.as_tensor(draws.shape[1] if size is None else size, dtype=torch.float64).expand(
        truth.mean.shape
    )
    mean, cov = moments(draws.double())
    var = truth.covariance.diagonal(dim1=1, dim2=2)
    by_mean = (mean - truth.mean).abs() / (var / n).sqrt()
    # the variance of a sample covariance of Normals: (s_ij^2 + s_ii s_jj) / n
    spread = truth.covariance.square() + var.unsqueeze(2) * var.unsqueeze(1)
    pair = torch.minimum(n.unsqueeze(2), n.unsqueeze(1))
    return by_mean, (cov - truth.covariance).abs() / (spread / pair).sqrt()
