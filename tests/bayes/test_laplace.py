"""Laplace's approximation: exact on conjugate problems, its curvature against autograd's Hessian."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conjugate import NOISE, PRIORS, deviation, moments, problem
from predictions import predict
from resuming import assert_resumes
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal
from torch import Tensor, nn

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import Data, prepare
from cbdl.bayes.methods._curvature import Part, gauss_newton, gauss_newton_diagonal, prior_precision
from cbdl.bayes.methods._points import Potential
from cbdl.bayes.methods.laplace import Laplace, LaplacePosterior
from cbdl.bayes.train import Run

SHORT = Laplace(epochs=30, batch_size=64, lr=0.05)


def covariance(posterior: LaplacePosterior) -> Tensor:
    root = posterior.spread["root"]
    return root @ root.mT


def curved(rows: int = 40) -> tuple[Cohort, Data]:
    """A small classifier with two priors."""
    source = torch.Generator().manual_seed(1)
    x = torch.randn(rows, 2, generator=source, dtype=torch.float64)
    y = (x[:, 0] * x[:, 1] > 0).long() + (x[:, 0] > 1).long()
    data = prepare(x, y, space="classes", dtype=torch.float64)
    chosen = [priors.Normal(0.0, 1.0), {"*.bias": priors.Normal(0.0, 3.0), "*": priors.Normal(0.2, 0.5)}]
    net = lambda: nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3))  # noqa: E731
    return Cohort.of(chosen, likelihoods.Categorical(net), data), data


@pytest.mark.parametrize("weights", [False, True])
def test_mean_covariance_and_evidence_are_exact_for_a_linear_model(weights: bool) -> None:
    cohort, data, truth = problem(weights=weights)
    posterior = SHORT.fit(cohort, data, Run())
    assert torch.allclose(posterior.mode, truth.mean, rtol=0, atol=1e-10)
    assert torch.allclose(covariance(posterior), truth.covariance, rtol=0, atol=1e-12)
    if not weights:
        phi = torch.cat([data.x, torch.ones_like(data.x[:, :1])], 1)
        for k, prior in enumerate(PRIORS):
            loc = phi @ torch.full((4,), prior.loc, dtype=torch.float64)
            cov = prior.scale**2 * phi @ phi.T + NOISE**2 * torch.eye(data.rows)
            exact = torch.distributions.MultivariateNormal(loc, cov).log_prob(data.y)
            assert posterior.evidence[k].item() == pytest.approx(exact.item(), abs=1e-8)


def test_draws_and_predictions_have_the_exact_moments() -> None:
    cohort, data, truth = problem()
    posterior = SHORT.fit(cohort, data, Run())
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


def test_the_gauss_newton_matrix_of_the_last_layer_is_the_hessian() -> None:
    cohort, data = curved()
    theta, none = cohort.initial, cohort.initial_noise
    part = Part.of(cohort.layout, "last", theta.device)
    found = gauss_newton(cohort, theta, none, {}, data, part)
    for k in range(2):

        def nll(own: Tensor, k: int = k) -> Tensor:
            named = cohort.layout.view(torch.cat([theta[k, : part.index[0]], own]))
            out = torch.func.functional_call(cohort.forward.network, named, (data.x,))
            return nn.functional.cross_entropy(out, data.y, reduction="sum")

        exact = torch.autograd.functional.hessian(nll, theta[k, part.index])
        assert torch.allclose(found[k], exact, atol=1e-9)


LINKS = {
    "categorical": (likelihoods.Categorical, 3, {}),
    "bernoulli": (likelihoods.Bernoulli, 1, {}),
    "poisson": (likelihoods.Poisson, 2, {}),
    "normal": (likelihoods.Normal, 2, {"scale": "heteroscedastic"}),
    "laplace": (likelihoods.Laplace, 2, {"scale": "heteroscedastic"}),
    "student": (likelihoods.StudentT, 2, {"scale": "heteroscedastic", "df": 5.0}),
}


@pytest.mark.parametrize("name", LINKS)
def test_the_root_of_the_fisher_information_is_the_variance_of_the_score(name: str) -> None:
    from cbdl.bayes.methods._curvature import fisher_root

    kind, size, options = LINKS[name]
    likelihood = kind(nn.Identity, **options)
    out = torch.tensor([0.3, -0.7, 0.9][:size], dtype=torch.float64)
    unit, event = torch.ones((), dtype=torch.float64), (2,) if name == "poisson" else ()
    none = torch.zeros(1, 0, dtype=torch.float64)

    def root(f: Tensor) -> Tensor:
        return fisher_root(likelihood, f[None, None, None], none, torch.Size(event), unit)[0, 0, 0]

    j = torch.func.jacrev(root)(out)
    # scores at a fine grid of targets, weighted by their probabilities: the definition
    if name in ("categorical", "bernoulli"):
        y = torch.arange(3 if name == "categorical" else 2)
    elif name == "poisson":
        y = torch.cartesian_prod(torch.arange(40.0), torch.arange(40.0)).double()
    else:
        y = torch.linspace(-400, 400, 800_001, dtype=torch.float64) + 5e-4  # no node on the kink

    leaf = out.repeat(len(y), 1)[None, None].requires_grad_()
    density = likelihood.log_density(leaf, y, none, unit)
    (score,) = torch.autograd.grad(density.sum(), leaf)
    score, p = score[0, 0], density.detach()[0, 0].exp()
    if y.is_floating_point() and name != "poisson":
        p = p * (y[1] - y[0])
    assert p.sum().item() == pytest.approx(1, abs=1e-5)
    assert torch.allclose(j.T @ j, score.T @ (p.unsqueeze(1) * score), rtol=2e-3, atol=2e-5)


def test_the_diagonal_is_the_diagonal_and_rows_in_chunks_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cohort, data = curved()
    part = Part.of(cohort.layout, "all", cohort.initial.device)
    args = (cohort, cohort.initial, cohort.initial_noise, {}, data, part)
    whole = gauss_newton(*args)
    assert torch.allclose(gauss_newton_diagonal(*args), whole.diagonal(dim1=1, dim2=2))
    monkeypatch.setattr("cbdl.ground.memory.limit", lambda: 128_000)
    assert torch.allclose(gauss_newton(*args), whole)
    looped = Cohort.of([priors.Normal(), priors.Normal()], cohort.likelihood, data, way="loop")
    assert torch.allclose(gauss_newton(looped, *args[1:]), whole)


def test_the_prior_precision_is_each_members_own_by_coordinate() -> None:
    cohort, _ = curved()
    found = prior_precision(cohort, cohort.initial)
    names = {e.name: slice(e.start, e.stop) for e in cohort.layout.entries}
    assert torch.allclose(found[0], torch.ones(()).double())
    assert torch.allclose(found[1, names["0.bias"]], torch.tensor(1 / 9).double())
    assert torch.allclose(found[1, names["2.weight"]], torch.tensor(4.0).double())
    data = prepare(torch.randn(9, 2), torch.randn(9), space="real", dtype=torch.float64)
    mixed = [priors.Laplace(0.0, 1.0), priors.StudentT(3.0), priors.Horseshoe(0.1), priors.ScaleMixture()]
    other = Cohort.of(mixed, likelihoods.Normal(lambda: nn.Linear(2, 1)), data)
    for theta in (other.initial, torch.zeros_like(other.initial)):
        own = prior_precision(other, theta)
        assert (own > 0).all()
        assert torch.isfinite(own).all()
    at_one = prior_precision(other, torch.ones_like(other.initial))
    assert torch.allclose(at_one[0], torch.tensor(2**0.5).double())  # slope sqrt 2 at distance 1


def test_kronecker_is_exact_for_a_layer_with_normal_noise() -> None:
    # one output, fixed noise: the derivatives are constant, so that the product is the whole matrix
    cohort, data, truth = problem()
    exact = SHORT.fit(cohort, data, Run())
    found = Laplace(hessian="kronecker").around(cohort, data, exact.mode, exact.noise, {}, exact.part)
    assert torch.allclose(found.evidence, exact.evidence, atol=1e-9)
    _, cov = moments(found.sample(20_000))
    assert ((cov - truth.covariance).abs() < 0.05 * truth.covariance.abs().amax((1, 2), keepdim=True)).all()


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (lambda: nn.Linear(2, 1), (5, 2)),
        (lambda: nn.Conv2d(2, 1, 3, padding=1, stride=2), (2, 4, 6)),
        (lambda: nn.Conv2d(2, 1, (1, 2), dilation=(1, 2), bias=False), (2, 4, 6)),
    ],
)
def test_kronecker_is_exact_where_positions_share_a_weight(net: Any, shape: tuple[int, ...]) -> None:
    """One output a position, each with its own target and the same noise: again the product is the matrix."""
    source = torch.Generator().manual_seed(6)
    x = torch.randn(7, *shape, generator=source, dtype=torch.float64)
    y = torch.randn(net()(x.float()).shape, generator=source, dtype=torch.float64)
    data = prepare(x, y, space="real", standardize=False, dtype=torch.float64)
    chosen = [priors.Normal(0.0, 1.0), {"bias": priors.Normal(0.0, 3.0), "*": priors.Normal(0.2, 0.5)}]
    cohort = Cohort.of(chosen, likelihoods.Normal(net, scale=0.7), data)
    part = Part.of(cohort.layout, "all", data.x.device)
    both = [
        Laplace(hessian=h, newton=0).around(cohort, data, cohort.initial, cohort.initial_noise, {}, part)  # type: ignore[arg-type]
        for h in ("full", "kronecker")
    ]
    assert torch.allclose(both[0].evidence, both[1].evidence, atol=1e-9)


class Picture(nn.Module):
    """Convolution, norm, two linear layers: every kind of block."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1, stride=2)
        self.norm = nn.BatchNorm2d(2)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(torch.relu(self.norm(self.conv(x))).flatten(1))
        return out


@pytest.mark.parametrize("hessian", ["full", "diagonal", "kronecker"])
def test_all_curvatures_serve_convolutions_and_running_statistics(hessian: str) -> None:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(24, 1, 4, 4, generator=source, dtype=torch.float64)
    y = torch.arange(24) % 3
    data = prepare(x, y, space="classes", dtype=torch.float64)
    cohort = Cohort.of(
        [priors.Normal(0.0, 1.0), priors.Normal(0.0, 0.5, fan_in=True)],
        likelihoods.Categorical(Picture),
        data,
    )
    method = Laplace(epochs=3, hessian=hessian, part="all", newton=1)  # type: ignore[arg-type]
    posterior = method.fit(cohort, data, Run())
    draws = posterior.sample(2000)
    assert draws.shape == (2, 2000, cohort.layout.size)
    assert torch.isfinite(draws).all()
    assert torch.isfinite(posterior.evidence).all()
    # no coordinate is wider than its prior, and some are narrower
    ratio = draws.std(1) / cohort.prior.spread()
    assert ratio.max() < 1.1
    assert ratio.min() < 0.8
    again = method.from_state(cohort, posterior.state())
    torch.testing.assert_close(again.sample(3, seed=4), posterior.sample(3, seed=4))


def test_without_rows_that_matter_the_posterior_is_the_prior() -> None:
    """Kronecker factors with noise of 1e6: only the prior is left, coordinate by coordinate."""
    cohort, data, _ = problem()
    flat = Cohort.of(
        [{"bias": priors.Normal(0.0, 3.0), "*": priors.Normal(0.0, 0.5)}],
        likelihoods.Normal(cohort.likelihood.net, scale=1e6),
        data,
    )
    part = Part.of(flat.layout, "all", data.x.device)
    for hessian in ("full", "diagonal", "kronecker"):
        method = Laplace(hessian=hessian)  # type: ignore[arg-type]
        zero = torch.zeros_like(flat.initial)
        posterior = method.around(flat, data, zero, flat.initial_noise, {}, part)
        sd = posterior.sample(4000).std(1)
        assert torch.allclose(sd, torch.tensor([[0.5, 0.5, 0.5, 3.0]]).double(), rtol=0.05)


def test_a_network_that_cannot_be_batched_gives_the_same_matrix() -> None:
    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(2, 3)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(x)
            return out if float(out.sum()) > -1e9 else -out

    _, data = curved(12)
    stack = lambda: nn.Linear(2, 3)  # noqa: E731
    plain = Cohort.of([priors.Normal()], likelihoods.Categorical(stack), data)
    branch = Cohort.of([priors.Normal()], likelihoods.Categorical(Branch), data)
    assert branch.forward.way == "loop"
    theta = torch.randn(1, 9, dtype=torch.float64)
    part = Part.of(plain.layout, "all", data.x.device)
    own = Part.of(branch.layout, "all", data.x.device)
    one = gauss_newton(plain, theta, plain.initial_noise, {}, data, part)
    assert torch.allclose(gauss_newton(branch, theta, branch.initial_noise, {}, data, own), one)


def test_newton_steps_reach_the_mode_of_a_classifier() -> None:
    cohort, data = curved()
    posterior = Laplace(epochs=200, lr=0.02, part="last", newton=10).fit(cohort, data, Run())
    from cbdl.bayes.methods._points import Potential

    _, gradient, _ = Potential(cohort, data, {})(posterior.mode.unsqueeze(1), posterior.noise)
    slope = gradient[:, 0, posterior.part.index]
    moved = covariance(posterior) @ slope.unsqueeze(2)
    assert ((slope * moved[..., 0]).sum(1) < 1e-6).all()


def test_stopped_and_resumed_gives_the_same_tensors(tmp_path: Path) -> None:
    cohort, data, _ = problem()
    assert_resumes(Laplace(epochs=10, batch_size=8), cohort, data, tmp_path, 14)


def test_priors_of_very_different_scales_keep_their_digits() -> None:
    _, data, _ = problem()
    wide = {"bias": priors.Normal(0.0, 1e-6), "*": priors.Normal(0.0, 1e8)}
    cohort = Cohort.of([wide], likelihoods.Normal(lambda: nn.Linear(3, 1), scale=NOISE), data)
    posterior = SHORT.fit(cohort, data, Run())
    # in exact arithmetic: least squares without a bias, and the bias at its prior
    gram = torch.linalg.inv(data.x.T @ data.x) * NOISE**2
    assert torch.allclose(covariance(posterior)[0, :3, :3], gram, rtol=1e-9)
    assert covariance(posterior)[0, 3, 3].item() == pytest.approx(1e-12, rel=1e-9)
    assert torch.allclose(posterior.mode[0, :3], gram @ data.x.T @ data.y / NOISE**2, rtol=1e-6)


def test_a_curvature_without_numbers_is_told_and_costs_no_other_member() -> None:
    from cbdl.bayes.train import Record, TrainingWarning

    cohort, data = curved()
    part = Part.of(cohort.layout, "all", data.x.device)
    mode = cohort.initial.clone()
    mode[1, 0] = float("nan")
    record = Record(torch.empty(0, 2), torch.empty(0, 2))
    with pytest.warns(TrainingWarning, match="member 1: the curvature"):
        both = Laplace().around(cohort, data, mode, cohort.initial_noise, {}, part, record)
    fine = Laplace().around(cohort, data, cohort.initial, cohort.initial_noise, {}, part)
    assert list(record.failures) == [1]
    assert torch.allclose(both.sample(3)[0], fine.sample(3)[0])


def test_bad_settings_are_named() -> None:
    cohort, data = curved(12)
    with pytest.raises(ValueError, match="hessian is 'kfac'"):
        Laplace(hessian="kfac")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no parameter matches 'head"):
        Laplace(part="head.*").fit(cohort, data, Run())
    big = Cohort.of(
        [priors.Normal()],
        likelihoods.Categorical(lambda: nn.Sequential(nn.Linear(2, 3000), nn.Linear(3000, 3))),
        data,
    )
    with pytest.raises(ValueError, match="9003 x 9003"):
        Laplace(hessian="full", part="last").fit(big, data, Run())
    other = Cohort.of([priors.Laplace()], cohort.likelihood, data)
    with pytest.raises(ValueError, match="tune_prior is for Normal priors"):
        Laplace(tune_prior=True, epochs=1).fit(other, data, Run())


def test_the_curvature_is_full_for_small_networks_and_kronecker_for_large_ones() -> None:
    cohort, data = curved(12)
    assert "root" in Laplace(epochs=1, newton=0).fit(cohort, data, Run()).spread
    wide = lambda: nn.Sequential(nn.Linear(2, 300), nn.Tanh(), nn.Linear(300, 3))  # noqa: E731
    big = Cohort.of([priors.Normal()], likelihoods.Categorical(wide), data)
    assert "0|left" in Laplace(epochs=1).fit(big, data, Run()).spread


def test_a_tuned_prior_precision_maximises_the_evidence_of_a_linear_model() -> None:
    """The evidence of y ~ Normal(0, s^2 phi phi^T / c + noise) over c, by scipy on the N x N form."""
    _, data, _ = problem()
    chosen = [priors.Normal(0.0, 0.1), priors.Normal(0.0, 30.0)]
    cohort = Cohort.of(chosen, likelihoods.Normal(lambda: nn.Linear(3, 1), scale=NOISE), data)
    posterior = Laplace(epochs=30, batch_size=64, tune_prior=True, hessian="full").fit(cohort, data, Run())
    phi = torch.cat([data.x, torch.ones_like(data.x[:, :1])], 1).numpy()

    def minus(log_c: float, scale: float) -> float:
        cov = scale**2 / np.exp(log_c) * phi @ phi.T + NOISE**2 * np.eye(len(phi))
        return -float(multivariate_normal(np.zeros(len(phi)), cov).logpdf(data.y.numpy()))

    for k, prior in enumerate(chosen):
        best = minimize_scalar(
            minus, args=(prior.scale,), bounds=(-15, 15), method="bounded", options={"xatol": 1e-9}
        )
        assert posterior.factor[k].item() == pytest.approx(np.exp(best.x), rel=1e-3)
        assert posterior.evidence[k].item() == pytest.approx(-best.fun, abs=1e-5)
    # both members end with the same prior: this is why it is off by default
    assert torch.allclose(posterior.mode[0], posterior.mode[1], rtol=1e-2)


@pytest.mark.parametrize("hessian", ["diagonal", "kronecker"])
def test_curvatures_in_units_of_the_prior_are_those_of_the_matrices(hessian: str) -> None:
    from cbdl.bayes.methods._tune import curvatures

    cohort, data = curved()
    cohort = Cohort.of([priors.Normal(0.0, 0.7), priors.Normal(0.2, 2.0)], cohort.likelihood, data)
    part = Part.of(cohort.layout, "all", data.x.device)
    method = Laplace(hessian=hessian)  # type: ignore[arg-type]
    posterior = method.around(cohort, data, cohort.initial, cohort.initial_noise, {}, part)
    lam = curvatures(cohort, part, posterior.spread)
    # log det of the posterior's precision in units of the prior's, from the evidence
    energy = Potential(cohort, data, {})(cohort.initial.unsqueeze(1), cohort.initial_noise)[0][:, 0]
    half = -posterior.evidence - energy + part.size * 0.5 * np.log(2 * np.pi)
    prior = cohort.prior.spread().log().sum(1)
    assert torch.allclose(0.5 * torch.log1p(lam).sum(1), half + prior, rtol=1e-9)
