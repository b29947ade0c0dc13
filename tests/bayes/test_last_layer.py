"""Exact last layers against conditioned Normals; one shared network whatever the members."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from conjugate import NOISE, PRIORS, SIZE, deviation, problem
from predictions import predict
from resuming import assert_resumes
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal
from torch import Tensor, nn

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.cohort import Cohort, Member
from cbdl.bayes.data import Data, prepare
from cbdl.bayes.methods._curvature import gauss_newton, prior_precision
from cbdl.bayes.methods._head import Head, features
from cbdl.bayes.methods._points import Potential
from cbdl.bayes.methods.laplace import LaplacePosterior
from cbdl.bayes.methods.last_layer import LastLayer, LastLayerPosterior
from cbdl.bayes.train import Run


def exact(cohort: Cohort, data: Data) -> LastLayerPosterior:
    found = LastLayer().fit(cohort, data, Run())
    assert isinstance(found, LastLayerPosterior)
    return found


def deep() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def two_targets(scale: float | str = 0.4, dtype: torch.dtype = torch.float64) -> Data:
    source = torch.Generator().manual_seed(2)
    x = torch.randn(30, 3, generator=source, dtype=torch.float64)
    y = torch.stack([x[:, 0] * x[:, 1], 10 * x[:, 2]], 1) + 0.3 * torch.randn(30, 2, generator=source)
    return prepare(x, y, space="real", dtype=dtype)


@pytest.mark.parametrize("weights", [False, True])
def test_mean_and_covariance_are_exact_for_all_priors(weights: bool) -> None:
    cohort, data, truth = problem(weights=weights)
    posterior = exact(cohort, data)
    assert torch.allclose(posterior.mean, truth.mean, rtol=0, atol=1e-11)
    assert torch.allclose(posterior.covariance()[:, 0], truth.covariance, rtol=0, atol=1e-12)
    assert len(posterior.basis) == 3
    assert (posterior.basis == posterior.basis[:1]).all()  # one decomposition for the three priors


def test_draws_and_predictions_have_the_exact_moments() -> None:
    cohort, data, truth = problem()
    posterior = exact(cohort, data)
    # base draws come in antithetic pairs: half as many independent squares
    by_mean, by_cov = deviation(posterior.sample(4000), truth, 2000)
    assert by_mean.max() < 4
    assert by_cov.max() < 4
    numbers = predict(cohort, posterior, data, data.x[:5], draws=4000)
    loc, scale = truth.predictive(data.x[:5])
    spread = (scale.square() - NOISE**2).sqrt()
    assert ((numbers["loc"].mean(1) - loc).abs() < 4 * spread / 4000**0.5).all()
    total = (numbers["loc"].var(1) + numbers["scale"][:, 0] ** 2).sqrt()
    assert torch.allclose(total, scale, rtol=0.02)


CHOSEN: list[priors.PriorLike] = [
    priors.Normal(0.0, 1.0, fan_in=True),
    {"*.bias": priors.Normal(1.0, 5.0), "*": priors.Normal(0.3, 0.2)},
    *priors.seeded(priors.Normal(0.0, 2.0), 1),
    priors.pretrained(
        {n: torch.linspace(-1, 0.8, p.numel()).reshape(p.shape) for n, p in deep().named_parameters()},
        delta=0.5,
    ),
]


def conditioned(phi: Tensor, y: Tensor, loc: Tensor, scale: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
    cov = torch.diag(scale.square())
    gain = torch.linalg.solve(phi @ cov @ phi.T + sigma**2 * torch.eye(len(y)).double(), phi @ cov).T
    return loc + gain @ (y - phi @ loc), cov - gain @ phi @ cov


def test_any_normal_prior_on_a_deep_networks_last_layer_is_exact_in_the_users_units() -> None:
    data = two_targets()
    cohort = Cohort.of(CHOSEN, likelihoods.Normal(deep, scale=0.4), data)
    posterior = LastLayer(epochs=5).fit(cohort, data, Run())
    assert isinstance(posterior, LastLayerPosterior)
    head = Head.of(cohort, None)
    phi, _ = features(cohort, posterior.mean[0], {}, head, data)
    phi = torch.cat([phi, torch.ones_like(phi[:, :1])], 1)
    loc = head.matrix(cohort.prior.location()[:, head.start :])
    scale = head.matrix(cohort.prior.spread()[:, head.start :])
    for k in range(4):
        for o in range(2):
            sigma = 0.4 / float(data.targets.scale[o])
            mean, cov = conditioned(phi, data.y[:, o], loc[k, o], scale[k, o], sigma)
            ours = head.matrix(posterior.mean[k, head.start :])[o]
            assert torch.allclose(ours, mean, rtol=0, atol=1e-9)
            own = posterior.covariance()[k, o]
            assert torch.allclose(own, cov, rtol=0, atol=1e-10)
    assert (posterior.mean[:, : head.start] == posterior.mean[:1, : head.start]).all()


def test_a_learned_scale_maximises_the_evidence() -> None:
    cohort, data, _ = problem(rows=40, scale="learned")
    posterior = exact(cohort, data)
    phi = np.c_[data.x.numpy(), np.ones(40)]
    for k, prior in enumerate(PRIORS):

        def evidence(log_sigma: float, prior: priors.Normal = prior) -> float:
            cov = prior.scale**2 * phi @ phi.T + np.exp(2 * log_sigma) * np.eye(40)
            return float(multivariate_normal(phi @ np.full(SIZE, prior.loc), cov).logpdf(data.y.numpy()))

        best = minimize_scalar(
            lambda s, f=evidence: -f(s), bounds=(-4, 2), method="bounded", options={"xatol": 1e-9}
        )
        found = float(posterior.noise[k, 0].exp()) + likelihoods.FLOOR
        assert found == pytest.approx(np.exp(best.x), rel=1e-5)
        assert float(posterior.evidence[k]) == pytest.approx(-best.fun, abs=1e-7)


def test_a_learned_scale_of_noiseless_targets_stops_at_the_floor() -> None:
    cohort, data, _ = problem(scale="learned")
    clean = prepare(data.x, data.x.sum(1), space="real", standardize=False, dtype=torch.float64)
    posterior = exact(Cohort.of(PRIORS, cohort.likelihood, clean, seed=3), clean)
    assert torch.isfinite(posterior.noise).all()
    assert (posterior.noise.exp() < 1e-3).all()
    assert torch.isfinite(posterior.sample(3)).all()


def test_the_shared_network_is_the_same_however_the_members_are_split() -> None:
    data = two_targets()
    likelihood = likelihoods.Normal(deep)
    together = LastLayer(epochs=3).fit(Cohort.of(CHOSEN, likelihood, data), data, Run()).state()
    alone = [
        LastLayer(epochs=3).fit(
            Cohort.of(CHOSEN, likelihood, data, members=[Member.of(0, k, 0)]), data, Run()
        )
        for k in range(4)
    ]
    mean = torch.cat([a.state()["mean"] for a in alone])
    assert torch.allclose(mean, together["mean"], atol=1e-9)


def test_64_priors_cost_little_more_than_one() -> None:
    import time

    source = torch.Generator().manual_seed(0)
    x = torch.randn(4000, 120, generator=source)
    data = prepare(x, x.sum(1), space="real")
    many = [priors.Normal(0.01 * i, 0.5 + 0.1 * i) for i in range(64)]
    likelihood = likelihoods.Normal(lambda: nn.Linear(120, 1), scale=0.5)
    took = {}
    for count in (1, 64):
        cohort = Cohort.of(many[:count], likelihood, data)
        times = []
        for _ in range(3):
            began = time.perf_counter()
            exact(cohort, data)
            times.append(time.perf_counter() - began)
        took[count] = min(times)
    assert took[64] < 8 * took[1], took  # 64 trainings would take 64 times as long


def test_classes_get_the_laplace_approximation_at_the_mode_of_each_prior() -> None:
    source = torch.Generator().manual_seed(3)
    x = torch.randn(60, 2, generator=source, dtype=torch.float64)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0.3).long()
    data = prepare(x, y, space="classes", dtype=torch.float64)
    net = lambda: nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3))  # noqa: E731
    chosen = [priors.Normal(0.0, 0.5), priors.Laplace(0.0, 1.0), priors.Normal(1.0, 3.0)]
    cohort = Cohort.of(chosen, likelihoods.Categorical(net), data)
    method = LastLayer(epochs=30, lr=0.02)
    posterior = method.fit(cohort, data, Run())
    assert isinstance(posterior, LaplacePosterior)
    # the body is shared, the heads are at their own modes, with the curvature there
    assert (posterior.mode[:, :12] == posterior.mode[:1, :12]).all()
    part = posterior.part
    gradient = Potential(cohort, data, {})(posterior.mode.unsqueeze(1), posterior.noise)[1][:, 0, part.index]
    root = posterior.spread["root"]
    for k in (0, 2):
        assert float((root[k].T @ gradient[k]).norm()) < 2e-3
    at = Head.of(cohort, None)
    phi, y = features(cohort, posterior.mode[0], {}, at, data)
    small, own = at.cohort(cohort, posterior.mode[0], phi), at.data(data, phi, y)
    heads = posterior.mode[:, 12:]
    precision = gauss_newton(
        small, heads, posterior.noise, {}, own, at.part(small).__class__.of(small.layout, "all", phi.device)
    )
    precision.diagonal(dim1=1, dim2=2).add_(prior_precision(small, heads))
    assert torch.allclose(root @ root.mT @ precision, torch.eye(15).double().expand(3, -1, -1), atol=1e-8)
    again = method.from_state(cohort, posterior.state())
    torch.testing.assert_close(again.sample(3, 1), posterior.sample(3, 1))


def test_a_frozen_backbone_is_used_as_it_is() -> None:
    data = two_targets(dtype=torch.float32)
    cohort = Cohort.of(
        [priors.Normal(), priors.Normal(0.0, 3.0)], likelihoods.Normal(deep), data, trainable="2.*"
    )
    posterior = exact(cohort, data)
    assert posterior.record is None
    assert posterior.mean.dtype == torch.float32
    again = LastLayer().from_state(cohort, posterior.state())
    torch.testing.assert_close(again.sample(3, 1), posterior.sample(3, 1))


def test_stopped_and_resumed_in_either_stage_gives_the_same_tensors(tmp_path: Path) -> None:
    data = prepare(
        torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2, space="classes"
    )
    cohort = Cohort.of([priors.Normal(), priors.Normal(0.0, 3.0)], likelihoods.Categorical(deep), data)
    assert_resumes(LastLayer(epochs=5, batch_size=8), cohort, data, tmp_path, 8, 33)


def test_what_cannot_be_a_last_layer_is_refused() -> None:
    data = two_targets()
    with pytest.raises(ValueError, match="is laplace: make it Normal"):
        LastLayer(epochs=1).fit(Cohort.of([priors.Laplace()], likelihoods.Normal(deep), data), data, Run())
    with pytest.raises(ValueError, match="no module 'head'"):
        LastLayer(layer="head").fit(Cohort.of(CHOSEN[:1], likelihoods.Normal(deep), data), data, Run())
    after = lambda: nn.Sequential(nn.Linear(3, 2), nn.Tanh())  # noqa: E731
    with pytest.raises(ValueError, match="not that of '0'"):
        LastLayer(epochs=1).fit(Cohort.of(CHOSEN[:1], likelihoods.Normal(after), data), data, Run())
    norm = lambda: nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))  # noqa: E731
    with pytest.raises(ValueError, match="is a LayerNorm"):
        LastLayer().fit(Cohort.of(CHOSEN[:1], likelihoods.Normal(norm), data), data, Run())
