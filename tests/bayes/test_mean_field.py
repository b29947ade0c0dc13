"""MeanField against conjugate truths, numeric integrals and plain autograd."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats as st
import torch
from scipy.integrate import quad
from torch import Tensor, nn

from cbdl.bayes import data, likelihoods, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.methods.divergences import KL, ChiSquared, Renyi
from cbdl.bayes.methods.mean_field import MeanField, _Objective
from cbdl.bayes.train import Run

NOISE = 0.7
PRIORS = [priors.Normal(0.0, 1.0), priors.Normal(-1.0, 3.0), priors.Normal(2.0, 0.1)]


def linear(features: int) -> likelihoods.Normal:
    return likelihoods.Normal(lambda: nn.Linear(features, 1, bias=False), NOISE)


def regression(rows: int = 40, features: int = 3) -> tuple[Tensor, Tensor, data.Data]:
    source = torch.Generator().manual_seed(4)
    x = torch.randn(rows, features, generator=source, dtype=torch.float64)
    x = x @ torch.linalg.cholesky(torch.eye(features).double() + 0.6)  # correlated: mean field is not exact
    y = x @ torch.arange(1.0, features + 1).double() + NOISE * torch.randn(rows, generator=source).double()
    return x, y, data.prepare(x, y, space="real", standardize=False, dtype=torch.float64)


def exact(x: Tensor, y: Tensor, prior: priors.Normal, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """Mean and precision of the (tempered) posterior."""
    noise = NOISE**2 * temperature
    precision = x.T @ x / noise + torch.eye(x.shape[1]).double() / prior.scale**2
    return torch.linalg.solve(precision, x.T @ y / noise + prior.loc / prior.scale**2), precision


@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_mean_field_reaches_the_exact_mean_field_optimum(temperature: float) -> None:
    """mean = posterior mean, variance = 1 / diagonal of the precision, for every prior at once."""
    x, y, made = regression()
    cohort = Cohort.of(PRIORS, linear(3), made)
    method = MeanField(
        epochs=1200, batch_size=1000, lr=0.05, draws=256, antithetic=True, temperature=temperature
    )
    posterior = method.fit(cohort, made, Run())
    for i, prior in enumerate(PRIORS):
        mean, precision = exact(x, y, prior, temperature)
        deviation = precision.diagonal().rsqrt()
        torch.testing.assert_close(posterior.sigma[i], deviation, rtol=0.01, atol=0)
        assert ((posterior.mu[i] - mean).abs() < 0.02 * deviation).all()


def test_minibatches_reach_the_same_optimum() -> None:
    x, y, made = regression(rows=41)
    cohort = Cohort.of(PRIORS[:1], linear(3), made)
    method = MeanField(epochs=300, batch_size=10, lr=0.03, draws=16, antithetic=True)
    posterior = method.fit(cohort, made, Run())
    mean, precision = exact(x, y, PRIORS[0])
    deviation = precision.diagonal().rsqrt()
    torch.testing.assert_close(posterior.sigma[0], deviation, rtol=0.04, atol=0)
    assert ((posterior.mu[0] - mean).abs() < 0.1 * deviation).all()


def test_an_epochs_losses_average_to_the_mean_whatever_the_batch_size() -> None:
    x, _, made = regression(rows=41)
    weighted = data.prepare(x, x[:, 0], space="real", weights=torch.rand(41) + 0.1, dtype=torch.float64)
    value = torch.rand(41, dtype=torch.float64)
    for one, weights in ((made, torch.ones(41).double()), (weighted, weighted.weights)):
        assert weights is not None
        marked = data.Data(value.unsqueeze(1), one.y, one.inputs, one.targets, one.weights)
        for batch_size in (1, 7, 40, 41, 1000):
            parts = [(b.x[:, 0] * b.weight).sum() for b in marked.epoch(0, 0, batch_size)]
            assert len(parts) == math.ceil(41 / batch_size)
            torch.testing.assert_close(torch.stack(parts).mean(), (weights * value).sum() / weights.sum())
    assert made.size == 41
    assert weighted.size == pytest.approx(float(weighted.weights.sum()))  # type: ignore[union-attr]


@pytest.mark.parametrize("divergence", [KL(), Renyi(0.5), Renyi(2.0), ChiSquared()], ids=str)
@pytest.mark.parametrize("kind", ["normal", "closed", "sampled"])
def test_gradients_are_those_of_the_written_objective(divergence: object, kind: str) -> None:
    """Every gradient of a step against autograd through the textbook formula."""
    _, _, made = regression()
    some: list[priors.PriorLike] = {
        "normal": [priors.Normal(0.5, 2.0), priors.Normal(0.0, 0.3)],
        "closed": [priors.Normal(0.5, 2.0), priors.Laplace(0.0, 0.3)],
        "sampled": [priors.StudentT(3.0, 0.1, 2.0), {"*": priors.ScaleMixture(1.0, 0.1)}],
    }[kind]
    lik = likelihoods.Normal(lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))
    cohort = Cohort.of(some, lik, made)
    options = {"draws": 4, "temperature": 0.5, "initial_scale": 0.3, "warmup": 0.5, "settle": 0.0}
    method = MeanField(divergence=divergence, **options)  # type: ignore[arg-type]
    objective = _Objective(method, cohort, made)
    batch = next(made.epoch(0, 0, 1000))
    loss, gradient = objective.gradient(batch, step=2, steps=20)

    weight = 0.5 / 40 * 3 / 10
    with torch.enable_grad():
        leaf = objective.variables.detach().clone().requires_grad_()
        p = cohort.layout.size
        mu, sigma, noise = leaf[:, :p], nn.functional.softplus(leaf[:, p : 2 * p]), leaf[:, 2 * p :]
        eps = objective.stream(2)
        theta = mu.unsqueeze(1) + sigma.unsqueeze(1) * eps
        parts = cohort.layout.view(theta)
        h = torch.einsum("bi,mdoi->mdbo", batch.x, parts["0.weight"]) + parts["0.bias"].unsqueeze(2)
        out = torch.einsum("mdbi,mdoi->mdbo", h.tanh(), parts["2.weight"]) + parts["2.bias"].unsqueeze(2)
        scale = (1e-3 + noise.exp()).reshape(2, 1, 1)
        nll = -torch.distributions.Normal(out[..., 0], scale).log_prob(batch.y).mean(-1)
        log_q = torch.distributions.Normal(mu.unsqueeze(1), sigma.unsqueeze(1)).log_prob(theta).sum(-1)
        ratio = -nll / weight + cohort.prior.log_density(theta) - log_q
        if isinstance(divergence, KL):
            closed = kind != "sampled"
            wanted = (
                nll.mean(1) + weight * cohort.prior.kl(mu, sigma, None) if closed else -weight * ratio.mean(1)
            )
            follow = wanted
        else:
            wanted = weight * divergence.loss(ratio)  # type: ignore[attr-defined]
            held = torch.distributions.Normal(mu.detach().unsqueeze(1), sigma.detach().unsqueeze(1))
            path = -nll / weight + cohort.prior.log_density(theta) - held.log_prob(theta).sum(-1)
            follow = -weight * (divergence.coefficients(ratio).detach() * path).sum(1)  # type: ignore[attr-defined]
        (truth,) = torch.autograd.grad(follow.sum(), leaf)
    torch.testing.assert_close(gradient, truth, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(loss, wanted.detach(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("divergence", [Renyi(0.5), Renyi(0.1), ChiSquared()], ids=str)
def test_gradients_of_bounds_are_derivatives_of_their_integrals(divergence: Renyi | ChiSquared) -> None:
    """Posterior N(0.9, 0.4) up to a factor, q = N(0.6, 0.5): finite differences of the integral, and draws."""
    power = 2.0 if isinstance(divergence, ChiSquared) else 1 - divergence.alpha
    log_p = lambda t: st.norm.logpdf(t, 0.9, 0.4) - 3.0  # noqa: E731

    def loss(mu: float, sigma: float) -> float:
        f = lambda t: math.exp((1 - power) * st.norm.logpdf(t, mu, sigma) + power * log_p(t))  # noqa: E731
        value = math.log(quad(f, -6, 8, limit=400, epsabs=1e-14)[0]) / power
        return value if isinstance(divergence, ChiSquared) else -value

    h = 1e-4
    by_mu = (loss(0.6 + h, 0.5) - loss(0.6 - h, 0.5)) / (2 * h)
    by_sigma = (loss(0.6, 0.5 + h) - loss(0.6, 0.5 - h)) / (2 * h)
    eps = torch.randn(2_000_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    t = 0.6 + 0.5 * eps
    ratio = torch.from_numpy(log_p(t.numpy()) - st.norm.logpdf(t, 0.6, 0.5))
    slope = -(t - 0.9) / 0.16 + eps / 0.5
    c = divergence.coefficients(ratio)
    assert float(-(c * slope).sum()) == pytest.approx(by_mu, rel=0.01, abs=2e-3)
    assert float(-(c * slope * eps).sum()) == pytest.approx(by_sigma, rel=0.01, abs=2e-3)


def test_bounds_are_their_integrals_and_keep_their_order() -> None:
    """Prior N(0,1), three observations of N(t, 0.7): q off the posterior; each bound by quad, and by draws."""
    obs = np.array([0.4, 1.3, 0.9])
    mu, sigma = 0.6, 0.5

    def ratio(t: float) -> float:
        joint = st.norm.logpdf(obs, t, NOISE).sum() + st.norm.logpdf(t)
        return float(joint - st.norm.logpdf(t, mu, sigma))

    def expect(f: object) -> float:
        return quad(lambda z: st.norm.pdf(z) * f(ratio(mu + sigma * z)), -14, 14, limit=400, epsabs=1e-13)[0]  # type: ignore[operator]

    shift = ratio(mu)
    truth = {
        KL(): expect(lambda r: r),
        Renyi(0.5): math.log(expect(lambda r: math.exp(0.5 * (r - shift)))) / 0.5 + shift,
        Renyi(0.1): math.log(expect(lambda r: math.exp(0.9 * (r - shift)))) / 0.9 + shift,
        ChiSquared(): math.log(expect(lambda r: math.exp(2 * (r - shift)))) / 2 + shift,
    }
    covariance = NOISE**2 * np.eye(3) + 1
    evidence = st.multivariate_normal(np.zeros(3), covariance).logpdf(obs)
    kl, half, tenth, chi = truth.values()
    assert kl < half < tenth < evidence < chi
    t = mu + sigma * np.random.default_rng(0).standard_normal(400_000)
    ratios = torch.from_numpy(
        st.norm.logpdf(obs[:, None], t, NOISE).sum(0) + st.norm.logpdf(t) - st.norm.logpdf(t, mu, sigma)
    )
    for divergence, value in truth.items():
        assert float(divergence.bound(ratios)) == pytest.approx(value, abs=0.01)


@pytest.mark.parametrize("divergence", [KL(), Renyi(0.5), ChiSquared()], ids=str)
def test_every_divergence_finds_a_posterior_that_is_in_the_family(divergence: object) -> None:
    """One coefficient: the posterior is Normal, so all divergences have the same optimum."""
    x, y, made = regression(rows=12, features=1)
    cohort = Cohort.of(PRIORS[:2], linear(1), made)
    method = MeanField(
        epochs=600,
        batch_size=1000,
        lr=0.1,
        draws=64,
        antithetic=True,
        divergence=divergence,
        initial_scale=0.3,  # type: ignore[arg-type]
    )
    posterior = method.fit(cohort, made, Run())
    for i, prior in enumerate(PRIORS[:2]):
        mean, precision = exact(x, y, prior)
        deviation = float(precision.rsqrt())
        # without noise at the optimum where the gradient is doubly reparameterised
        close = 0.03 if isinstance(divergence, KL) else 1e-6
        assert float(posterior.sigma[i]) == pytest.approx(deviation, rel=close)
        assert abs(float(posterior.mu[i] - mean)) < close * deviation


def test_renyi_and_chi_squared_cover_more_than_kl_when_the_posterior_is_correlated() -> None:
    _, _, made = regression()
    sizes = []
    for divergence in (KL(), Renyi(0.2), ChiSquared()):
        cohort = Cohort.of(PRIORS[:1], linear(3), made)
        method = MeanField(
            epochs=400 if isinstance(divergence, KL) else 1200,
            batch_size=1000,
            lr=0.03,
            draws=128,
            antithetic=True,
            divergence=divergence,
            initial_scale=0.1,
        )
        sizes.append(float(method.fit(cohort, made, Run()).sigma.mean()))
    # the optima of the Gaussian integrals, by scipy's Nelder-Mead
    assert sizes == pytest.approx([0.08920, 0.09669, 0.10405], rel=0.02)


def test_draws_have_the_posteriors_moments_and_do_not_depend_on_the_other_members() -> None:
    _, _, made = regression()
    cohort = Cohort.of(PRIORS, linear(3), made)
    posterior = MeanField(epochs=3).fit(cohort, made, Run())
    theta = posterior.sample(40_000)
    torch.testing.assert_close(theta.std(1), posterior.sigma, rtol=0.02, atol=0)
    assert ((theta.mean(1) - posterior.mu).abs() < 5 * posterior.sigma / 200).all()
    alone = Cohort.of(PRIORS, linear(3), made, members=cohort.members[1:2])
    part = {n: b[1:2] for n, b in posterior.state().items()}
    torch.testing.assert_close(MeanField().from_state(alone, part).sample(7, 3), posterior.sample(7, 3)[1:2])


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ({"epochs": 0}, "epochs"),
        ({"lr": -1.0}, "lr"),
        ({"temperature": 0.0}, "temperature"),
        ({"warmup": 2.0}, "warmup"),
        ({"draws": 3, "antithetic": True}, "pairs"),
        ({"draws": 1, "divergence": Renyi(0.5)}, "draws"),
        ({"clip": 0.0}, "clip"),
        ({"initial_scale": 0.0}, "initial_scale"),
        ({"schedule": "linear"}, "schedule"),
        ({"patience": 0}, "patience"),
    ],
)
def test_bad_settings_are_refused(setting: dict[str, object], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        MeanField(**setting)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="alpha"):
        Renyi(1.0)
