"""Priors against torch.distributions, scipy and numeric integrals; what `scale` means; who gets which prior."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats as st
import torch
from scipy.integrate import quad
from torch import Tensor, nn

from cbdl.bayes import priors as p
from cbdl.bayes._random import generator
from cbdl.bayes.flat import Entry, Layout
from cbdl.bayes.joint_prior import JointPrior, compile_priors

LINE = Entry("w", (1,), 0, 1)
ALL = [
    p.Normal(0.3, 2.0),
    p.Laplace(0.3, 2.0),
    p.StudentT(5.0, 0.3, 2.0),
    p.Cauchy(0.3, 2.0),
    p.ScaleMixture(2.0, 0.05, 0.25, 0.3),
    p.Horseshoe(0.7, 0.3),
    p.RegularisedHorseshoe(0.7, 2.0, 0.3),
]
CLOSED = [p.Normal(0.3, 2.0), p.Laplace(0.3, 2.0)]


def density(prior: p.Prior, t: Tensor) -> Tensor:
    return prior.family.log_density(t.double(), *prior.parameters(LINE).values())


def integral(prior: p.Prior, power: int = 0, below: float = math.inf) -> float:
    """Of |t - 0.3|^power p(t) over t < below, by the trapezoid rule in log |t - 0.3| (some priors have a pole)."""
    u = torch.linspace(-40, 45, 6_001, dtype=torch.float64)
    total = 0.0
    for sign in (-1, 1):
        t = 0.3 + sign * u.exp()
        # the distance itself, so that nothing is lost by adding 0.3
        f = density(prior, t) if power else prior.family.log_density(t - 0.3, *_centred(prior))
        mass = torch.where(t < below, (f + (power + 1) * u).exp(), 0.0)
        total += float(torch.trapezoid(mass, u))
    return total


def _centred(prior: p.Prior) -> list[Tensor]:
    return [torch.zeros_like(v) if n == "loc" else v for n, v in prior.parameters(LINE).items()]


@pytest.mark.parametrize("prior", ALL, ids=lambda prior: type(prior).__name__)
def test_density_integrates_to_one(prior: p.Prior) -> None:
    assert integral(prior) == pytest.approx(1.0, abs=2e-6)


@pytest.mark.parametrize("prior", ALL[:3] + ALL[4:5], ids=lambda prior: type(prior).__name__)
def test_scale_is_the_standard_deviation(prior: p.Prior) -> None:
    wanted = 4.0 if not isinstance(prior, p.ScaleMixture) else 0.25 * 4.0 + 0.75 * 0.05**2
    assert integral(prior, power=2) == pytest.approx(
        wanted, rel=2e-3 if isinstance(prior, p.StudentT) else 1e-6
    )
    own = prior.parameters(Entry("w", (200_000,), 0, 1))
    drawn = prior.family.draw(generator("cpu", 1), *own.values())
    assert float(drawn.std()) == pytest.approx(math.sqrt(wanted), rel=0.02)


def test_log_densities_agree_with_torch_and_scipy() -> None:
    t = torch.linspace(-40, 40, 401, dtype=torch.float64)
    td = torch.distributions
    peers: list[tuple[p.Prior, td.Distribution]] = [
        (p.Normal(0.3, 2.0), td.Normal(0.3, 2.0)),
        (p.Laplace(0.3, 2.0), td.Laplace(0.3, 2.0 / math.sqrt(2))),
        (p.StudentT(5.0, 0.3, 2.0), td.StudentT(5.0, 0.3, 2.0 * math.sqrt(3 / 5))),
        (p.Cauchy(0.3, 2.0), td.Cauchy(0.3, 2.0)),
    ]
    for ours, theirs in peers:
        torch.testing.assert_close(density(ours, t), theirs.log_prob(t).double(), rtol=1e-6, atol=1e-6)
    truth = np.logaddexp(
        np.log(0.25) + st.norm.logpdf(t, 0.3, 2.0), np.log(0.75) + st.norm.logpdf(t, 0.3, 0.05)
    )
    np.testing.assert_allclose(density(ALL[4], t), truth, rtol=1e-12)


def test_scale_mixture_does_not_underflow_far_out() -> None:
    far = torch.tensor([1e3, -1e6, 1e8])
    prior = p.ScaleMixture(1.0, 1e-3)
    got = prior.family.log_density(far, *(v.float() for v in prior.parameters(LINE).values()))
    assert torch.isfinite(got).all()
    torch.testing.assert_close(got, math.log(0.5) + torch.distributions.Normal(0.0, 1.0).log_prob(far))


@pytest.mark.parametrize("t", [1e-7, 1e-3, 0.2, 0.9, 1.4, 2.0, 5.0, 80.0, 1e4])
def test_horseshoes_are_integrals_over_the_local_scale(t: float) -> None:
    """Both marginals against quad of Normal(t; 0, s(lambda)) times the half-Cauchy density."""
    for slab in (math.inf, 2.0):

        def integrand(w: float, slab: float = slab) -> float:
            local = 0.7 * math.exp(w)
            s = local if math.isinf(slab) else local * slab / math.hypot(local, slab)
            return math.exp(-0.5 * (t / s) ** 2) / s / math.sqrt(2 * math.pi) / (math.pi * math.cosh(w))

        truth = sum(quad(integrand, a, a + 2, epsabs=0, epsrel=1e-12)[0] for a in range(-30, 40, 2))
        if truth == 0:
            continue
        prior = p.Horseshoe(0.7) if math.isinf(slab) else p.RegularisedHorseshoe(0.7, slab)
        assert float(density(prior, torch.tensor([t], dtype=torch.float64))) == pytest.approx(
            math.log(truth), rel=1e-6, abs=1e-6
        )


@pytest.mark.parametrize("tau", [1e-6, 1e-4, 1e-2, 0.7, 10.0])
@pytest.mark.parametrize("slab", [0.5, 2.0, 100.0, 1e4])
def test_a_slab_far_from_the_scale_is_integrated_to_six_digits(tau: float, slab: float) -> None:
    """Against quad in pieces that know where the integrand bends: at log(t / tau) and at log(slab / tau)."""
    for t in (1e-8 * tau, 1e-3 * tau, tau, 30 * tau, 0.1 * slab, slab, 5 * slab):

        def integrand(w: float, t: float = t) -> float:
            local = tau * math.exp(w)
            s = local * slab / math.hypot(local, slab)
            return math.exp(-0.5 * (t / s) ** 2) / s / math.sqrt(2 * math.pi) / (math.pi * math.cosh(w))

        truth = sum(quad(integrand, a, a + 1.5, epsabs=0, epsrel=1e-11)[0] for a in np.arange(-30, 66, 1.5))
        if truth == 0:  # beyond the smallest number
            continue
        value = density(p.RegularisedHorseshoe(tau, slab), torch.tensor([t], dtype=torch.float64))
        assert float(value) == pytest.approx(math.log(truth), rel=0, abs=1e-6)


@pytest.mark.parametrize("prior", ALL, ids=lambda prior: type(prior).__name__)
def test_gradient_of_the_log_density_is_right(prior: p.Prior) -> None:
    t = torch.tensor([-3.0, 0.1, 0.5, 1.7, 40.0], dtype=torch.float64, requires_grad=True)
    values = [v.expand(5) for v in prior.parameters(LINE).values()]
    assert torch.autograd.gradcheck(lambda x: prior.family.log_density(x, *values), (t,))


def test_log_densities_and_slopes_of_all_members_are_those_of_autograd() -> None:
    """Written out for some families, found by autograd for others; members of several families, by part, and of one."""
    layout = Layout.of(nn.Linear(4, 3))
    several = [*ALL, {"*bias": p.Normal(1.0, 0.5), "*": p.StudentT(3.0, -0.2, 0.7, True)}]
    for priors in (several, [p.StudentT(4.0, 0.1, 2.0)] * 2, [p.Laplace(0.5, 2.0)]):
        prior = compile_priors(priors, layout, device=torch.device("cpu"), dtype=torch.float64)
        source = torch.Generator().manual_seed(0)
        for copies in ((), (2,), (2, 3)):
            theta = torch.randn(len(priors), *copies, layout.size, generator=source, dtype=torch.float64)
            leaf = (3 * theta).requires_grad_()
            wanted = prior.log_density(leaf)
            (by_autograd,) = torch.autograd.grad(wanted.sum(), leaf)
            value, slope = prior.log_density_and_slope(leaf.detach())
            torch.testing.assert_close(value, wanted.detach(), rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(slope, by_autograd, rtol=1e-10, atol=1e-12)
            assert not value.requires_grad


@pytest.mark.parametrize("prior", ALL, ids=lambda prior: type(prior).__name__)
def test_draws_follow_the_density(prior: p.Prior) -> None:
    own = prior.parameters(Entry("w", (4000,), 0, 1))
    drawn = prior.family.draw(generator("cpu", 3), *own.values()).numpy()
    for cut in (-1.0, 0.2, 0.31, 1.0, 3.0):
        below = integral(prior, below=cut)
        share = float((drawn < cut).mean())
        assert abs(share - below) < 4.5 * math.sqrt(below * (1 - below) / 4000) + 1e-3


@pytest.mark.parametrize("prior", CLOSED, ids=lambda prior: type(prior).__name__)
@pytest.mark.parametrize(("mu", "sigma"), [(0.0, 1.0), (-1.5, 0.2), (0.3, 5.0), (4.0, 1e-4)])
def test_closed_kl_is_the_integral(prior: p.Prior, mu: float, sigma: float) -> None:
    q = st.norm(mu, sigma)

    def f(z: float) -> float:
        t = mu + sigma * z
        return float(st.norm.pdf(z)) * (
            q.logpdf(t) - float(density(prior, torch.tensor([t], dtype=torch.float64)))
        )

    kink = (0.3 - mu) / sigma
    points = [kink] if abs(kink) < 12 else None
    truth = quad(f, -12, 12, points=points, limit=400, epsabs=1e-11)[0]
    joint = compile_priors([prior], Layout((LINE,)), device=torch.device("cpu"), dtype=torch.float64)
    got = joint.kl(torch.tensor([[mu]]).double(), torch.tensor([[sigma]]).double(), None)
    assert float(got) == pytest.approx(truth, rel=1e-7, abs=1e-8)


def test_sampled_kl_has_the_mean_of_the_closed_one() -> None:
    """A Student t with many degrees of freedom is a Normal, whose KL is closed."""
    entry = Entry("w", (3,), 0, 1)

    def make(prior: p.Prior) -> JointPrior:
        return compile_priors([prior], Layout((entry,)), device=torch.device("cpu"), dtype=torch.float64)

    mu, sigma = torch.tensor([[0.5, -1.0, 2.0]]).double(), torch.tensor([[0.3, 1.0, 0.1]]).double()
    eps = torch.randn(1, 200_000, 3, generator=generator("cpu", 0), dtype=torch.float64)
    sampled = make(p.StudentT(1e7, 0.0, 2.0)).kl(mu, sigma, mu.unsqueeze(1) + sigma.unsqueeze(1) * eps)
    assert float(sampled) == pytest.approx(float(make(p.Normal(0.0, 2.0)).kl(mu, sigma, None)), rel=5e-3)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(9, 4), nn.Tanh(), nn.Linear(4, 2))


def test_fan_in_divides_the_scale_of_weights_only() -> None:
    layout = Layout.of(net())
    joint = compile_priors(
        [p.Normal(0, 3, fan_in=True)], layout, device=torch.device("cpu"), dtype=torch.float64
    )
    scale = layout.view(joint.spread()[0])
    assert torch.allclose(scale["0.weight"], torch.tensor(1.0).double())
    assert torch.allclose(scale["2.weight"], torch.tensor(1.5).double())
    assert torch.allclose(scale["0.bias"], torch.tensor(3.0).double())


def test_patterns_pick_the_first_match_and_members_may_differ() -> None:
    layout = Layout.of(net())
    some = {"*.bias": p.Normal(0, 10), "2.*": p.Laplace(1, 2), "*": p.Normal(0, 1)}
    joint = compile_priors([some, p.Cauchy(5, 1)], layout, device=torch.device("cpu"), dtype=torch.float64)
    scale, loc = layout.view(joint.spread()), layout.view(joint.location())
    assert (scale["0.bias"][0] == 10).all()
    assert (scale["2.bias"][0] == 10).all()
    assert (loc["2.weight"][0] == 1).all()
    assert (loc["2.weight"][1] == 5).all()
    theta = torch.randn(2, 3, layout.size, dtype=torch.float64)
    parts = layout.view(theta)
    truth = sum(
        torch.distributions.Normal(0.0, 10.0).log_prob(parts[n][0]).sum(-1) for n in ("0.bias", "2.bias")
    )
    truth = truth + torch.distributions.Laplace(1.0, math.sqrt(2)).log_prob(parts["2.weight"][0]).sum(
        (-1, -2)
    )
    truth = truth + torch.distributions.Normal(0.0, 1.0).log_prob(parts["0.weight"][0]).sum((-1, -2))
    torch.testing.assert_close(joint.log_density(theta)[0], truth, rtol=1e-6, atol=1e-6)
    other = torch.distributions.Cauchy(5.0, 1.0).log_prob(theta[1]).sum(-1)
    torch.testing.assert_close(joint.log_density(theta)[1], other, rtol=1e-6, atol=1e-6)


def test_a_parameter_without_a_prior_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no pattern matches the parameter '0.weight'"):
        compile_priors(
            [{"*.bias": p.Normal()}], Layout.of(net()), device=torch.device("cpu"), dtype=torch.float64
        )


def test_grid_is_the_papers_example() -> None:
    made = p.grid(loc=[-1, 0, 1], scale=[math.sqrt(3), math.sqrt(7)])
    assert [(q.loc, round(q.scale**2)) for q in made] == [(a, b) for a in (-1, 0, 1) for b in (3, 7)]
    assert made == p.grid(loc=[-1, 0, 1])


def test_seeded_centres_are_draws_of_the_prior() -> None:
    layout = Layout((Entry("w", (20_000,), 0, 1),))
    joint = compile_priors(
        p.seeded(p.Normal(2.0, 0.5), 3), layout, device=torch.device("cpu"), dtype=torch.float64
    )
    loc = joint.location()
    assert torch.allclose(loc.mean(1), torch.tensor(2.0).double(), atol=0.02)
    assert torch.allclose(loc.std(1), torch.tensor(0.5).double(), atol=0.02)
    assert (joint.spread() == 0.5).all()
    assert not torch.equal(loc[0], loc[1])
    again = compile_priors(
        p.seeded(p.Normal(2.0, 0.5), 3), layout, device=torch.device("cpu"), dtype=torch.float64
    )
    assert torch.equal(loc, again.location())


def test_pretrained_prior_sits_on_the_weights() -> None:
    state = net().state_dict()
    layout = Layout.of(net())
    joint = compile_priors(
        [p.pretrained(state, delta=0.2)], layout, device=torch.device("cpu"), dtype=torch.float64
    )
    w = layout.flatten(state).double()
    torch.testing.assert_close(joint.location()[0], w)
    torch.testing.assert_close(joint.spread()[0], (0.2 * w.abs()).clamp_min(1e-3))
    with pytest.raises(ValueError, match="has no '2"):
        compile_priors(
            [p.pretrained({k: v for k, v in state.items() if k != "2.weight"})],
            layout,
            device=torch.device("cpu"),
            dtype=torch.float64,
        )


@pytest.mark.parametrize(
    "make",
    [
        lambda: p.Normal(0, 0),
        lambda: p.Normal(math.nan, 1),
        lambda: p.Laplace(0, -1),
        lambda: p.StudentT(2.0),
        lambda: p.ScaleMixture(weight=1.0),
        lambda: p.Horseshoe(math.inf),
        lambda: p.RegularisedHorseshoe(slab=0),
        lambda: p.seeded(p.Normal(), 0),
    ],
)
def test_bad_settings_are_refused(make: object) -> None:
    with pytest.raises(ValueError, match="is "):
        make()  # type: ignore[operator]
