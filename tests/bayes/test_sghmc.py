"""SGHMC: the stationary distribution on a Normal, its bias with minibatches, schedules."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conjugate import PRIORS, deviation, problem
from predictions import predict
from resuming import assert_resumes
from torch import Tensor, nn

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.cohort import Cohort, Member
from cbdl.bayes.data import Data, prepare
from cbdl.bayes.methods._chains import ChainsRecord
from cbdl.bayes.methods.last_layer import LastLayer
from cbdl.bayes.methods.sghmc import SGHMC, _Dynamics
from cbdl.bayes.train import Run


@pytest.mark.parametrize("lr", [0.02, 0.3])
def test_with_full_batches_the_draws_are_exact_for_small_and_large_steps(lr: float) -> None:
    """The largest curvature of the mean loss is 11.4 here: lr = 0.3 is 85 per cent of the stable limit."""
    cohort, data, truth = problem()
    settings = SGHMC(epochs=500, batch_size=64, lr=lr, momentum=0.8, chains=200, draws=8, burn_in=0.6)
    posterior = settings.fit(cohort, data, Run())
    record = posterior.record
    assert isinstance(record, ChainsRecord)
    assert record.rhat.max() < 1.15
    # the chains are independent, the draws of one nearly so
    by_mean, by_cov = deviation(posterior.points, truth, record.ess.clamp(max=800))
    assert by_mean.max() < 4
    assert by_cov.max() < 4


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize(("lr", "momentum"), [(0.1, 0.0), (0.5, 0.8), (2.0, 0.5)])
def test_the_temperature_with_noisy_gradients_is_the_stated_one(
    lr: float, momentum: float, noise: float
) -> None:
    """20,000 chains on a Normal with curvature 1 of the mean loss, N = 50; 4 standard errors."""
    chains, total, steps = 20_000, 50.0, 150
    source = torch.Generator().manual_seed(4)
    theta = torch.randn(1, chains, 1, generator=source, dtype=torch.float64) / total**0.5
    trainee = SimpleNamespace(
        theta=theta, noise=theta.new_zeros(1, 0), total=total, cohort=SimpleNamespace(seeds=(1,))
    )
    dynamics = _Dynamics(SGHMC(momentum=momentum, chains=chains, draws=1), trainee, steps)  # type: ignore[arg-type]
    variables = theta.flatten(1).clone()
    for step in range(steps):
        slope = variables + noise**0.5 * torch.randn(variables.shape, generator=source, dtype=torch.float64)
        dynamics.step(variables, slope, lr, step)
    found = float(dynamics.state["kept"].square().mean()) * total
    stated = 1 + lr * total * noise * (1 + momentum) / (4 * (1 - momentum) * (1 - lr / 4))
    assert found == pytest.approx(stated, rel=4 * math.sqrt(2 / chains))


def test_with_minibatches_the_bias_is_at_most_the_stated_one() -> None:
    """All chains see the same minibatches, so that their common mean moves: its variance is allowed for too."""
    cohort, data, truth = problem(rows=64)
    lr, c = 0.01, 0.8
    settings = SGHMC(epochs=300, batch_size=16, lr=lr, momentum=c, chains=200, draws=8, burn_in=0.6)
    posterior = settings.fit(cohort, data, Run())
    sd = truth.covariance.diagonal(dim1=1, dim2=2).sqrt()
    heat = lr * data.size * minibatch_variance(cohort, data, truth.mean, 16) * (1 + c) / (4 * (1 - c))
    heat = heat.amax(1, keepdim=True)
    assert heat.max() < 0.6
    error = 4 * (1 / 1600 + heat / 8).sqrt()
    assert ((posterior.points.mean(1) - truth.mean).abs() < error * sd).all()
    ratio = posterior.points.var(1) / sd.square()
    assert (ratio > 1 - 4 * math.sqrt(2 / 1600)).all()
    assert (ratio < 1 + heat + 4 * math.sqrt(2 / 1600)).all()


def minibatch_variance(cohort: Cohort, data: Data, theta: Tensor, size: int) -> Tensor:
    """V of the module's docstring at theta (members, P)."""
    seen = []
    for epoch in range(50):
        for batch in data.epoch(9, epoch, size):
            seen.append(
                cohort.forward.gradient(
                    theta.unsqueeze(1),
                    cohort.initial_noise,
                    batch.x,
                    {},
                    lambda out, own, members, b=batch: cohort.score(b, out, own, members),
                    lambda nll, rows: torch.ones_like(nll),
                )[1][:, 0]
            )
    return torch.stack(seen).var(0)


def test_temperature_scales_the_covariance() -> None:
    cohort, data, truth = problem()
    cold = SGHMC(epochs=300, batch_size=64, lr=0.1, momentum=0.8, chains=200, draws=4, temperature=0.25)
    posterior = cold.fit(cohort, data, Run())
    ratio = posterior.points.var(1) / truth.covariance.diagonal(dim1=1, dim2=2)
    assert torch.allclose(ratio, torch.full_like(ratio, 0.25), rtol=0.25)
    none = SGHMC(epochs=300, batch_size=64, lr=0.1, chains=2, draws=2, temperature=0.0).fit(
        cohort, data, Run()
    )
    assert torch.allclose(none.points, truth.mean.unsqueeze(1).expand(-1, 4, -1), atol=1e-5)


def test_cycles_fall_from_the_rate_to_zero_and_keep_draws_at_their_ends() -> None:
    settings = SGHMC(cycles=2, draws=4, burn_in=0.2, exploration=0.6)
    steps = 1000
    rates = [settings.schedule(s, steps) for s in range(steps)]
    assert all(r == (1.0, True) for r in rates[:200])
    for begin in (200, 600):
        assert rates[begin] == (1.0, False)
        assert rates[begin + 399][0] < 1e-4
        assert [hot for _, hot in rates[begin : begin + 400]] == [False] * 240 + [True] * 160
        assert rates[begin + 200][0] == pytest.approx(0.5)
    assert settings.moments(steps) == {519: 0, 599: 1, 919: 2, 999: 3}
    assert SGHMC(draws=4, burn_in=0.5).moments(100) == {61: 0, 74: 1, 86: 2, 99: 3}


def test_cycles_learn_a_network_and_predict() -> None:
    source = torch.Generator().manual_seed(0)
    x = torch.linspace(-2, 2, 120).unsqueeze(1)
    y = torch.sin(2 * x[:, 0]) + 0.1 * torch.randn(120, generator=source)
    data = prepare(x, y, space="real")
    net = lambda: nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))  # noqa: E731
    cohort = Cohort.of([priors.Normal(0.0, 1.0), priors.Laplace(0.0, 2.0)], likelihoods.Normal(net), data)
    settings = SGHMC(epochs=300, batch_size=40, lr=0.03, cycles=2, draws=6, burn_in=0.4)
    posterior = settings.fit(cohort, data, Run())
    assert posterior.points.shape == (2, 6, 61)
    numbers = predict(cohort, posterior, data, data.x, draws=6)
    error = (numbers["loc"].mean(1) - y).square().mean(1).sqrt()
    assert (error < 0.2).all()
    # the truth is 0.1, the start half the spread of y (0.35); in between, the path of a sampler depends on the machine
    assert ((numbers["scale"][:, 0, 0] > 0.05) & (numbers["scale"][:, 0, 0] < 0.3)).all()
    again = settings.from_state(cohort, posterior.state())
    torch.testing.assert_close(again.sample(4, 1), posterior.sample(4, 1))


def test_a_learned_scale_comes_near_the_most_evident_one() -> None:
    cohort, data, _ = problem(rows=60, scale="learned")
    exact = LastLayer().fit(cohort, data, Run())
    posterior = SGHMC(epochs=600, batch_size=64, lr=0.05, momentum=0.8, chains=20, draws=2).fit(
        cohort, data, Run()
    )
    assert torch.allclose(posterior.noise.exp(), exact.noise.exp(), rtol=0.05)


def test_a_member_alone_makes_the_same_draws() -> None:
    cohort, data, _ = problem()
    few = SGHMC(epochs=10, batch_size=8, draws=5, chains=2)
    together = few.fit(cohort, data, Run())
    alone = [
        few.fit(Cohort.of(PRIORS, cohort.likelihood, data, seed=3, members=[Member.of(3, k, 0)]), data, Run())
        for k in range(3)
    ]
    assert torch.allclose(torch.cat([p.points for p in alone]), together.points, rtol=0, atol=1e-10)


def test_stopped_and_resumed_gives_the_same_tensors(tmp_path: Path) -> None:
    cohort, data, _ = problem()
    few = SGHMC(epochs=20, batch_size=8, draws=4, chains=2, cycles=2)
    assert_resumes(few, cohort, data, tmp_path, 11, 51)


def test_bad_settings_are_named() -> None:
    for bad in ({"draws": 0}, {"momentum": 1.0}, {"temperature": -1.0}, {"burn_in": 1.0}, {"cycles": 3}):
        with pytest.raises(ValueError, match=f"{next(iter(bad))} is"):
            SGHMC(**bad)  # type: ignore[arg-type]
    cohort, data, _ = problem(scale="learned")
    with pytest.raises(ValueError, match="only 2 steps"):
        SGHMC(epochs=4, draws=3).fit(cohort, data, Run())
    with pytest.raises(ValueError, match="burn_in is 0"):
        SGHMC(epochs=10, draws=3, burn_in=0.0).fit(cohort, data, Run())
    assert math.isclose(SGHMC().schedule(3, 100)[0], 1.0)
