"""Hamiltonian Monte Carlo: exact posteriors within Monte Carlo error, and what it says about its chains."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import pytest
import torch
from conjugate import NOISE, PRIORS, deviation, problem
from predictions import predict
from resuming import assert_resumes
from scipy.integrate import simpson
from torch import nn

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.cohort import Cohort, Member
from cbdl.bayes.data import prepare
from cbdl.bayes.methods._chains import ess, rhat
from cbdl.bayes.methods.hmc import HMC, HMCRecord, _Sampler
from cbdl.bayes.methods.last_layer import LastLayer
from cbdl.bayes.train import Run, TrainingWarning

SHORT = HMC(warmup=150, draws=200, chains=10)


def test_mean_covariance_and_predictions_are_exact_within_four_standard_errors() -> None:
    cohort, data, truth = problem(weights=False)
    posterior = SHORT.fit(cohort, data, Run())
    record = posterior.record
    assert isinstance(record, HMCRecord)
    assert record.rhat.max() < 1.03
    assert record.ess.min() > 500
    assert (record.acceptance > 0.6).all()
    assert (record.divergences == 0).all()
    by_mean, by_cov = deviation(posterior.points, truth, record.ess)
    assert by_mean.max() < 4
    assert by_cov.max() < 4
    numbers = predict(cohort, posterior, data, data.x[:5], draws=2000)
    loc, scale = truth.predictive(data.x[:5])
    spread = (scale.square() - NOISE**2).sqrt()
    few = record.ess.min(1, keepdim=True).values
    assert ((numbers["loc"].mean(1) - loc).abs() < 4 * spread / few.sqrt()).all()
    total = (numbers["loc"].var(1) + numbers["scale"][:, 0] ** 2).sqrt()
    assert torch.allclose(total, scale, rtol=0.03)


def test_a_posterior_without_closed_form_agrees_with_quadrature() -> None:
    x = torch.tensor([[0.5], [1.0], [-0.3], [2.0], [1.2], [-1.5]])
    y = torch.tensor([1, 1, 0, 1, 0, 0])
    data = prepare(x, y, space="classes", standardize=False, dtype=torch.float64)
    chosen = [priors.Laplace(0.0, 1.0), priors.StudentT(4.0, 0.0, 2.0), priors.ScaleMixture(2.0, 0.3)]
    net = lambda: nn.Linear(1, 1, bias=False)  # noqa: E731
    cohort = Cohort.of(chosen, likelihoods.Bernoulli(net), data)
    posterior = HMC(warmup=100, draws=100, chains=4).fit(cohort, data, Run())
    assert isinstance(posterior.record, HMCRecord)
    sign = (2 * y - 1).double()
    # Simpson's rule on either side of the kink at 0
    halves = slice(0, 20_001), slice(20_001, None)
    grid = torch.cat([torch.linspace(-30, 0, 20_001), torch.linspace(0, 60, 40_001)]).double()
    prior = cohort.prior.log_density(grid.expand(3, -1).unsqueeze(-1))
    density = (prior + nn.functional.logsigmoid(grid.unsqueeze(1) * sign * x[:, 0].double()).sum(1)).exp()
    for k in range(3):

        def moment(p: int, around: float, k: int = k) -> float:
            values = (grid - around) ** p * density[k]
            return sum(float(simpson(values[half], x=grid[half])) for half in halves)

        mass = moment(0, 0)
        mean = moment(1, 0) / mass
        var, fourth = moment(2, mean) / mass, moment(4, mean) / mass
        drawn, size = posterior.points[k, :, 0], float(posterior.record.ess[k, 0])
        assert abs(float(drawn.mean()) - mean) < 4 * math.sqrt(var / size)
        # of few draws the fourth moment is mostly too small, that of the posterior is not
        assert abs(float(drawn.var()) - var) < 4 * math.sqrt((fourth - var**2) / size)


@pytest.mark.filterwarnings("ignore::cbdl.bayes.train.TrainingWarning")  # of ten draws R-hat tells little
def test_a_learned_scale_comes_near_the_most_evident_one() -> None:
    cohort, data, _ = problem(rows=60, scale="learned")
    exact = LastLayer().fit(cohort, data, Run())
    posterior = HMC(warmup=200, draws=10, chains=8).fit(cohort, data, Run())
    assert torch.allclose(posterior.noise.exp(), exact.noise.exp(), rtol=0.05)


def test_the_energies_are_those_of_the_kept_draws() -> None:
    cohort, data, _ = problem()
    sampler = _Sampler(HMC(warmup=20, draws=15, chains=3), cohort, data)
    with torch.no_grad():
        for step in range(35):
            _, gradient = sampler.gradient(next(data.epoch(0, 0, 64)), step, 35)
            sampler.step(sampler.variables, gradient, 1.0, step)
        for i in range(15):
            value = sampler.potential(sampler.state["kept"][:, :, i], sampler.noise)[0]
            assert torch.allclose(sampler.state["energy"][:, :, i], value)


def test_a_member_alone_makes_the_same_draws() -> None:
    cohort, data, _ = problem()
    few = HMC(warmup=20, draws=10, chains=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)  # thirty iterations do not mix
        together = few.fit(cohort, data, Run())
        alone = [
            few.fit(
                Cohort.of(PRIORS, cohort.likelihood, data, seed=3, members=[Member.of(3, k, 0)]), data, Run()
            )
            for k in range(3)
        ]
    assert torch.allclose(torch.cat([p.points for p in alone]), together.points, rtol=0, atol=1e-8)


def test_stopped_and_resumed_gives_the_same_tensors(tmp_path: Path) -> None:
    cohort, data, _ = problem()
    few = HMC(warmup=30, draws=10, chains=2, thin=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        assert_resumes(few, cohort, data, tmp_path, 13, 36)


def test_double_samples_float32_data_in_float64_and_keeps_float32() -> None:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(40, 2, generator=source)
    data = prepare(x, x[:, 0].tanh() + 0.1 * torch.randn(40, generator=source), space="real")
    net = lambda: nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, 1))  # noqa: E731
    cohort = Cohort.of([priors.Normal(), priors.Laplace()], likelihoods.Normal(net), data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        posterior = HMC(warmup=20, draws=4, chains=2, double=True, leapfrogs=4).fit(cohort, data, Run())
    assert posterior.points.dtype == posterior.noise.dtype == torch.float32
    assert cohort.forward.network[0].weight.dtype == torch.float32  # type: ignore[index]
    assert predict(cohort, posterior, data, data.x, draws=8)["loc"].shape == (2, 8, 40)
    again = HMC().from_state(cohort, posterior.state())
    torch.testing.assert_close(again.sample(5, 1), posterior.sample(5, 1))


def test_effective_size_and_rhat_of_known_chains() -> None:
    source = torch.Generator().manual_seed(0)
    noise = torch.randn(4, 4000, 3, generator=source, dtype=torch.float64)
    phi = torch.tensor([0.0, 0.5, 0.9], dtype=torch.float64)
    chains = noise.clone()
    for t in range(1, 4000):
        chains[:, t] = phi * chains[:, t - 1] + (1 - phi**2).sqrt() * noise[:, t]
    exact = 16_000 * (1 - phi) / (1 + phi)
    assert torch.allclose(ess(chains), exact, rtol=0.15)
    assert (rhat(chains) - 1).abs().max() < 0.02
    apart = chains + 3 * torch.arange(4.0)[:, None, None]
    assert (rhat(apart) > 1.5).all()
    assert (ess(apart) < 20).all()
    assert torch.isnan(rhat(chains[:, :3])).all()
    assert torch.equal(rhat(torch.ones(2, 10, 1)), torch.ones(1, dtype=torch.float64))


def test_effective_size_and_rhat_agree_with_arviz() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz
    source = torch.Generator().manual_seed(1)
    chains = torch.randn(4, 300, 2, generator=source, dtype=torch.float64).cumsum(1).fmod(3.0)
    chains[..., 1] = torch.randn(4, 300, generator=source, dtype=torch.float64)
    for j in range(2):
        own = chains[..., j].numpy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = float(arviz.ess(own, method="mean")), float(arviz.rhat(own, method="split"))
        assert float(ess(chains)[j]) == pytest.approx(theirs[0], rel=0.05)
        assert float(rhat(chains)[j]) == pytest.approx(theirs[1], rel=1e-6)


def test_bad_settings_are_named() -> None:
    for bad in ({"warmup": 3}, {"chains": 0}, {"accept": 1.0}, {"length": -1.0}, {"thin": 1.5}):
        with pytest.raises(ValueError, match=f"{next(iter(bad))} is"):
            HMC(**bad)  # type: ignore[arg-type]
