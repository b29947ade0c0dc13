"""Low-rank plus diagonal Normals: closed forms against torch's dense Normal, exact posteriors at full rank."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from conjugate import PRIORS, Truth, problem
from resuming import assert_resumes
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.cohort import Cohort, Member
from cbdl.bayes.methods.low_rank import LowRank, LowRankPosterior, _Objective, entropy, entropy_gradient
from cbdl.bayes.methods.mean_field import MeanField, MeanFieldPosterior
from cbdl.bayes.train import Run


def made(scale: float = 1.0) -> tuple[LowRankPosterior, Cohort]:
    cohort, _, _ = problem()
    source = torch.Generator().manual_seed(5)
    mu = torch.randn(3, 4, generator=source, dtype=torch.float64)
    rho = torch.randn(3, 4, generator=source, dtype=torch.float64) - 1
    factor = scale * torch.randn(3, 4, 2, generator=source, dtype=torch.float64)
    return LowRankPosterior(
        mu, rho, factor, seeds=cohort.seeds, noise=cohort.initial_noise, buffers={}
    ), cohort


def dense(q: LowRankPosterior) -> MultivariateNormal:
    return MultivariateNormal(q.mu, q.factor @ q.factor.mT + torch.diag_embed(q.diagonal.square()))


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e3])
def test_entropy_density_and_kl_are_those_of_the_dense_normal(scale: float) -> None:
    q, cohort = made(scale)
    truth = dense(q)
    assert torch.allclose(q.entropy(), truth.entropy(), rtol=1e-9)
    assert torch.allclose(q.sigma, truth.stddev)
    theta = q.sample(5, seed=3)
    ours = q.log_density(theta)
    assert torch.allclose(ours, truth.log_prob(theta.transpose(0, 1)).T, rtol=1e-6, atol=1e-6)
    for k, prior in enumerate(PRIORS):
        loc = torch.full((4,), prior.loc, dtype=torch.float64)
        other = MultivariateNormal(loc, prior.scale**2 * torch.eye(4).double())
        own = MultivariateNormal(q.mu[k], truth.covariance_matrix[k])
        assert float(q.kl(cohort)[k]) == pytest.approx(float(kl_divergence(own, other)), rel=1e-6)


def test_the_entropys_gradient_is_its_derivative() -> None:
    q, _ = made()
    sigma, factor = q.diagonal.clone().requires_grad_(), q.factor.clone().requires_grad_()
    truth = torch.autograd.grad(entropy(sigma, factor).sum(), (sigma, factor))
    ours = entropy_gradient(q.diagonal, q.factor)
    assert torch.allclose(ours[0], truth[0])
    assert torch.allclose(ours[1], truth[1])


def test_draws_have_the_covariance() -> None:
    q, _ = made()
    drawn, truth = q.sample(40_000), dense(q)
    centred = drawn - q.mu.unsqueeze(1)
    found = centred.mT @ centred / 40_000
    var = truth.variance
    # base draws come in antithetic pairs: half as many independent squares
    error = ((truth.covariance_matrix.square() + var.unsqueeze(2) * var.unsqueeze(1)) / 20_000).sqrt()
    assert ((found - truth.covariance_matrix).abs() < 4 * error).all()
    assert torch.allclose(drawn.mean(1), q.mu, atol=1e-9)
    torch.testing.assert_close(q.sample(7, seed=1, start=3), q.sample(10, seed=1)[:, 3:])


@pytest.mark.parametrize("prior", [priors.Normal(0.3, 0.7), priors.Laplace(0.0, 1.0)])
def test_the_gradient_is_the_derivative_of_the_objective(prior: priors.Prior) -> None:
    """Against autograd through an objective written out again: NLL of the draws - (entropy + log p) / N."""
    _, data, _ = problem()
    cohort = Cohort.of([prior, priors.StudentT()], likelihoods.Normal(lambda: torch.nn.Linear(3, 1)), data)
    trainee = _Objective(LowRank(rank=2, draws=2), cohort, data)
    (batch,) = data.epoch(0, 0, data.rows)
    loss, gradient = trainee.gradient(batch, 0, 1)
    leaf = trainee.variables.clone().requires_grad_()
    mu, rho, columns, noise = leaf[:, :4], leaf[:, 4:8], leaf[:, 8:16].view(2, 4, 2), leaf[:, 16:]
    eps = trainee.stream(0)
    sigma = torch.nn.functional.softplus(rho)
    f = columns / 2 * sigma.unsqueeze(2)  # sqrt(P) is 2
    theta = mu.unsqueeze(1) + sigma.unsqueeze(1) * eps[..., :4] + eps[..., 4:] @ f.mT
    out = theta[..., :3] @ batch.x.T + theta[..., 3:]
    q = MultivariateNormal(mu, f @ f.mT + torch.diag_embed(sigma.square()))
    loc, scale = 0.0, 1e-3 + noise.exp().unsqueeze(1)
    nll = 0.5 * ((batch.y - out - loc) / scale).square() + scale.log() + 0.5 * math.log(2 * math.pi)
    prior_term = cohort.prior.log_density(theta).mean(1)
    if isinstance(prior, priors.Normal):  # closed, not of the draws
        away = (mu[0] - prior.loc).square() + q.covariance_matrix[0].diagonal()
        whole = -0.5 * away / prior.scale**2 - math.log(prior.scale) - 0.5 * math.log(2 * math.pi)
        prior_term = torch.stack([whole.sum(), prior_term[1]])
    truth = nll.mean((1, 2)) - (q.entropy() + prior_term) / data.size
    (derivative,) = torch.autograd.grad(truth.sum(), leaf)
    assert torch.allclose(loss, truth.detach(), atol=1e-10)
    assert torch.allclose(gradient, derivative, atol=1e-10)


def covariance(q: LowRankPosterior) -> Tensor:
    return dense(q).covariance_matrix


def test_with_full_rank_the_whole_covariance_is_found() -> None:
    cohort, data, truth = problem()
    settings = LowRank(epochs=1000, batch_size=64, lr=0.03, rank=4, draws=128, antithetic=True)
    q = settings.fit(cohort, data, Run())
    sd = truth.covariance.diagonal(dim1=1, dim2=2).sqrt()
    assert ((q.mu - truth.mean).abs() < 0.02 * sd).all()
    # stated error of the stochastic optimum: it falls with the root of steps x draws, here below 8 per cent
    error = (covariance(q) - truth.covariance) / (sd.unsqueeze(2) * sd.unsqueeze(1))
    assert error.abs().max() < 0.08
    # the evidence lower bound is nearly tight: KL(q || posterior) below 0.01 nats
    for k in range(3):
        own = MultivariateNormal(q.mu[k], covariance(q)[k])
        assert float(kl_divergence(own, MultivariateNormal(truth.mean[k], truth.covariance[k]))) < 0.01


def divergence(q: LowRankPosterior | MeanFieldPosterior, truth: Truth) -> list[float]:
    """KL(q || posterior) of every member: what an ELBO falls short of the evidence by."""
    own = covariance(q) if isinstance(q, LowRankPosterior) else torch.diag_embed(q.sigma.square())
    return [
        float(
            kl_divergence(
                MultivariateNormal(q.mu[k], own[k]), MultivariateNormal(truth.mean[k], truth.covariance[k])
            )
        )
        for k in range(3)
    ]


def test_a_correlated_posterior_has_a_better_bound_than_independent_normals_give() -> None:
    """With all settings at their defaults; independent Normals reach (log det of the correlation) / 2 at the best."""
    cohort, data, truth = problem()
    low = divergence(LowRank().fit(cohort, data, Run()), truth)
    mean = divergence(MeanField().fit(cohort, data, Run()), truth)
    for k in range(3):
        precision = torch.linalg.inv(truth.covariance[k])
        best = 0.5 * float(precision.diagonal().log().sum() - torch.logdet(precision))
        assert mean[k] > best - 1e-6
        assert low[k] < min(best, mean[k])


def test_a_member_alone_is_the_member_in_its_cohort() -> None:
    cohort, data, _ = problem()
    settings = LowRank(epochs=10, batch_size=8, rank=2)
    together = settings.fit(cohort, data, Run()).state()
    alone = [
        settings.fit(
            Cohort.of(PRIORS, cohort.likelihood, data, seed=3, members=[Member.of(3, k, 0)]), data, Run()
        ).state()
        for k in range(3)
    ]
    for name, whole in together.items():
        assert torch.allclose(torch.cat([a[name] for a in alone]), whole, rtol=0, atol=1e-11)


def test_stopped_and_resumed_gives_the_same_tensors(tmp_path: Path) -> None:
    cohort, data, _ = problem()
    settings = LowRank(epochs=10, batch_size=8, warmup=0.5)
    whole, _ = assert_resumes(settings, cohort, data, tmp_path, 14)
    again = settings.from_state(cohort, whole.state())
    torch.testing.assert_close(again.sample(3, 2), whole.sample(3, 2))


def test_bad_settings_are_named() -> None:
    for bad in ({"rank": 0}, {"temperature": 0.0}, {"warmup": 2.0}, {"draws": 3, "antithetic": True}):
        with pytest.raises(ValueError, match=f"{next(iter(bad))} is"):
            LowRank(**bad)  # type: ignore[arg-type]
