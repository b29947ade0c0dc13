"""MAP members against the exact mode, restarts, and the promises that all methods make."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from conjugate import PRIORS, design, net, problem
from resuming import assert_resumes
from torch import nn

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.cohort import Cohort, Member
from cbdl.bayes.data import prepare
from cbdl.bayes.methods import _modes
from cbdl.bayes.methods.ensemble import Ensemble
from cbdl.bayes.train import Run

FAST = Ensemble(epochs=800, batch_size=64, lr=0.05, restarts=1)


def test_the_points_are_the_exact_modes_of_all_members() -> None:
    cohort, data, truth = problem(weights=True)
    posterior = FAST.fit(cohort, data, Run())
    assert posterior.points.shape == (3, 1, 4)
    assert torch.allclose(posterior.points[:, 0], truth.mean, atol=1e-5)


def test_restarts_of_a_convex_problem_meet_and_start_apart() -> None:
    cohort, data, truth = problem()
    posterior = Ensemble(epochs=600, batch_size=64, lr=0.05, restarts=3).fit(cohort, data, Run())
    assert torch.allclose(posterior.points, truth.mean.unsqueeze(1).expand(-1, 3, -1), atol=1e-4)
    short = Ensemble(epochs=1, lr=1e-9, restarts=3).fit(cohort, data, Run())
    assert torch.allclose(short.points[:, 0], cohort.initial, atol=1e-6)
    assert (short.points[:, 1] - short.points[:, 2]).abs().min() > 1e-6


def test_a_member_alone_is_the_member_in_its_cohort() -> None:
    cohort, data, _ = problem()
    settings = Ensemble(epochs=20, batch_size=8, restarts=2)
    together = settings.fit(cohort, data, Run())
    alone = [
        settings.fit(
            Cohort.of(PRIORS, cohort.likelihood, data, seed=3, members=[Member.of(3, k, 0)]), data, Run()
        )
        for k in range(3)
    ]
    assert torch.allclose(torch.cat([p.points for p in alone]), together.points, rtol=0, atol=1e-12)


def test_every_draw_is_a_point_and_each_comes_before_one_comes_twice() -> None:
    cohort, data, _ = problem()
    posterior = Ensemble(epochs=2, restarts=3).fit(cohort, data, Run())
    drawn = posterior.sample(7, seed=1)
    assert drawn.shape == (3, 7, 4)
    for k in range(3):
        for part in (drawn[k, :3], drawn[k, 3:6]):
            assert torch.equal(part.sort(0).values, posterior.points[k].sort(0).values)
    again = Ensemble(restarts=3).from_state(cohort, posterior.state())
    torch.testing.assert_close(again.sample(7, seed=1), drawn)


def test_a_learned_scale_maximises_the_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """At its maximum the squares are (N - gamma) sigma^2, gamma = tr(G (G + sigma^2 Lambda)^-1) by numpy."""
    cohort, data, _ = problem(rows=12, scale="learned")
    monkeypatch.setattr(_modes, "FIRST", 125)
    settings = Ensemble(epochs=1001, batch_size=256, lr=0.05, schedule="constant", restarts=1)
    posterior = settings.fit(cohort, data, Run())
    out = cohort.forward(posterior.points, data.x, {})[:, 0, :, 0]
    squares = (out - data.y).square().sum(1)
    sigma = posterior.noise[:, 0].exp() + 1e-3
    phi = design(data.x).numpy()
    for k, prior in enumerate(PRIORS):
        gram, variance = phi.T @ phi, float(sigma[k]) ** 2
        gamma = np.trace(gram @ np.linalg.inv(gram + variance / prior.scale**2 * np.eye(4)))
        assert float(squares[k]) / (12 - gamma) == pytest.approx(variance, rel=1e-3)
        assert gamma > 1.5  # far from the root mean square of the residuals


def test_without_arguments_there_are_five_restarts() -> None:
    assert Ensemble().restarts == 5


def test_a_prior_that_is_not_normal_moves_the_mode() -> None:
    _, data, _ = problem()
    cohort = Cohort.of([priors.Laplace(0.0, 1e-3)], likelihoods.Normal(net, scale=0.5), data)
    posterior = FAST.fit(cohort, data, Run())
    assert posterior.points.abs().max() < 0.05  # a sharp Laplace prior holds all weights at 0


def test_stopped_and_resumed_gives_the_same_tensors(tmp_path: Path) -> None:
    cohort, data, _ = problem()
    assert_resumes(Ensemble(epochs=10, batch_size=8, restarts=2), cohort, data, tmp_path, 14)


def test_restarts_refuse_running_statistics() -> None:
    made = prepare(torch.randn(20, 2), torch.randn(20), space="real")
    factory = lambda: nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))  # noqa: E731
    cohort = Cohort.of([priors.Normal()], likelihoods.Normal(factory), made)
    with pytest.raises(ValueError, match="BatchNorm1d"):
        Ensemble(restarts=2, epochs=1).fit(cohort, made, Run())
    posterior = Ensemble(epochs=1, restarts=1).fit(cohort, made, Run())
    assert posterior.buffers["1.num_batches_tracked"].item() == 1
    with pytest.raises(ValueError, match="restarts is 0"):
        Ensemble(restarts=0)
