"""Scores of predictions of one real number: CRPS and log density in closed form for mixtures of Normals, intervals."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cbdl.credal import ArrayLike, CredalSet, MixtureCredalSet, NormalCredalSet, check_alpha
from cbdl.evaluate._differences import absolute, half_difference
from cbdl.evaluate.estimate import Floats
from cbdl.evaluate.predictions import Predicted, prediction_of


def crps(prediction: Predicted, y: ArrayLike) -> Floats:
    """(n,): the continuous ranked probability score of the averaged predictive, int (F(t) - [t >= y])^2 dt.

    For a mixture of Normals sum_i w_i N(m_i, s_i^2) it is closed:

        sum_i w_i A(y - m_i, s_i^2) - 1/2 sum_ij w_i w_j A(m_i - m_j, s_i^2 + s_j^2),
        A(d, v) = E|d + sqrt(v) Z| = 2 sqrt(v) phi(d / sqrt(v)) + d (2 Phi(d / sqrt(v)) - 1).

    Of many components the second sum is an integral by quadrature, to a relative 1e-9.

    - `prediction`: a batch (n,) of credal sets on the line, or the path of a saved file
    - `y`: outcomes (n,)

    >>> import cbdl
    >>> crps(cbdl.NormalCredalSet([[0.0]], [[1.0]]), [0.0]).round(4)
    array([0.2337])
    """
    loc, scale, weight = _mixture(prediction_of(prediction))
    outcome = _outcomes(y, len(loc))
    near = (weight * absolute(outcome[:, None] - loc, scale.square())).sum(-1)
    score = near - half_difference(loc, scale, weight)
    return np.asarray(score.clamp_min_(0))


def log_density_loss(credal: CredalSet, y: ArrayLike) -> Floats:
    """(n,): -log density of the averaged predictive at the outcomes."""
    loc, scale, weight = _mixture(credal)
    z = (_outcomes(y, len(loc))[:, None] - loc) / scale
    terms = weight.log() - scale.log() - z.square() / 2 - 0.5 * math.log(2 * math.pi)
    return np.asarray(-terms.logsumexp(-1))


def squared_error(credal: CredalSet, y: ArrayLike) -> Floats:
    """(n,): (mean of the averaged predictive - y)^2."""
    loc, _, weight = _mixture(credal)
    return np.asarray(((weight * loc).sum(-1) - _outcomes(y, len(loc))).square())


def interval_score(lower: npt.ArrayLike, upper: npt.ArrayLike, y: npt.ArrayLike, alpha: float) -> Floats:
    """(n,): width + 2 / alpha times how far y is outside: proper for the interval of the alpha / 2 quantiles.

    - `lower`, `upper`: ends (n,), or one for all
    - `y`: outcomes (n,)
    - `alpha`: the intervals are to cover 1 - alpha

    >>> interval_score([0.0, 0.0], [1.0, 1.0], [0.5, 1.5], alpha=0.5)
    array([1., 3.])
    """
    low, high, outcome = (np.asarray(x, dtype=np.float64) for x in (lower, upper, y))
    if not {low.shape, high.shape} <= {(), outcome.shape}:
        raise ValueError(
            f"lower has shape {low.shape}, upper {high.shape} and y {outcome.shape}; give one of each per row"
        )
    for name, x in (("lower", low), ("upper", high), ("y", outcome)):
        if np.isnan(x).any():
            raise ValueError(f"{name}[{int(np.flatnonzero(np.isnan(x))[0])}] is nan; leave such rows out")
    miss = np.maximum(low - outcome, 0) + np.maximum(outcome - high, 0)
    return np.asarray(high - low + 2 / check_alpha(alpha) * miss)


def _mixture(credal: CredalSet) -> tuple[Tensor, Tensor, Tensor]:
    """(n, M) three times: the averaged predictive as a mixture of Normals."""
    if not isinstance(credal, NormalCredalSet | MixtureCredalSet) or len(credal.batch_shape) != 1:
        raise ValueError(f"{credal!r} is not a batch of sets on the line, one per row (n,)")
    point = credal.point()
    loc, scale = (torch.as_tensor(x).double().cpu() for x in (point.loc, point.scale))
    if loc.ndim == 2:  # a single Normal per row, without components
        return loc, scale, torch.ones_like(loc)
    weight = torch.as_tensor(point.weights).double().cpu()
    return loc[:, 0], scale[:, 0], weight[:, 0]


def _outcomes(y: ArrayLike, rows: int) -> Tensor:
    outcome = torch.as_tensor(
        np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y), dtype=torch.float64
    )
    if outcome.shape != (rows,) or not torch.isfinite(outcome).all():
        raise ValueError(
            f"y has shape {tuple(outcome.shape)}; give one finite number for each of the {rows} rows"
        )
    return outcome
