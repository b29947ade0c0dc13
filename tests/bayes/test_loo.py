"""Leave-one-out by weights: against ArviZ, and against the closed form of a linear model."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from conjugate import exact, problem
from torch import Tensor

from cbdl.bayes.learned import Learned, Part
from cbdl.bayes.loo import leave_one_out, scores, smoothed
from cbdl.bayes.methods.last_layer import LastLayer
from cbdl.bayes.train import Run


@pytest.mark.parametrize("size", [40, 100, 1000])
@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0, 8.0])
def test_smoothed_weights_are_those_of_arviz(size: int, spread: float) -> None:
    arviz = pytest.importorskip("arviz")
    logs = np.random.default_rng(size).normal(size=(12, size)) * spread
    wanted, shapes = arviz.psislw(logs, reff=1.0)
    weights, khat = smoothed(torch.from_numpy(logs))
    np.testing.assert_allclose(weights.numpy(), np.asarray(wanted), atol=1e-9)
    np.testing.assert_allclose(khat.numpy(), np.asarray(shapes), atol=1e-9)


def test_equal_ratios_have_equal_weights() -> None:
    weights, khat = smoothed(torch.zeros(3, 50, dtype=torch.float64))
    torch.testing.assert_close(weights.exp(), torch.full((3, 50), 0.02, dtype=torch.float64))
    assert (khat < 0).all()


def test_few_draws_are_weighted_as_they_are() -> None:
    logs = torch.randn(4, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights, khat = smoothed(logs)
    torch.testing.assert_close(weights, logs.log_softmax(-1))
    assert (khat == math.inf).all()


def closed(x: Tensor, y: Tensor) -> Tensor:
    """(rows, K): log densities of every target given all others, by training without it."""
    out = []
    for i in range(len(y)):
        keep = torch.arange(len(y)) != i
        truth = exact(x[keep], y[keep], None)
        mean, sd = truth.predictive(x[i : i + 1])
        out.append(torch.distributions.Normal(mean[:, 0], sd[:, 0]).log_prob(y[i]))
    return torch.stack(out)


def learned() -> tuple[Learned, Tensor, Tensor]:
    cohort, data, _ = problem(60)
    posterior = LastLayer(epochs=1).fit(cohort, data, Run())
    part = Part((), cohort, posterior)
    return Learned.of([part], data, 0), data.x, data.y


def test_left_out_scores_are_those_of_training_without_the_row() -> None:
    made, x, y = learned()
    weighted = leave_one_out(made, x, y, torch.ones(len(y)), draws=4000)
    wanted = closed(x, y)
    assert (weighted.khat < 0.7).all()
    assert (weighted.score - wanted).abs().max() < 0.1
    assert (weighted.score - wanted).mean(0).abs().max() < 0.01
    torch.testing.assert_close(weighted.weights.sum(-1), torch.ones_like(wanted))
    # rows that were seen score better: leaving out is not for nothing
    assert (scores(made, x, y, 4000).mean(0) > wanted.mean(0) + 0.02).all()


def test_a_row_that_hardly_counted_is_hardly_forgotten() -> None:
    made, x, y = learned()
    light = leave_one_out(made, x, y, torch.full((len(y),), 1e-6), draws=500)
    torch.testing.assert_close(light.score, scores(made, x, y, 500), atol=1e-4, rtol=0)
