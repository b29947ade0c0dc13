"""Distances from sets of Normal mixtures to one, against closed forms, quadrature of scipy and the proposition."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm, wasserstein_distance
from torch import Tensor

from cbdl.credal._optimum import Optimum
from cbdl.credal.line.distance import KINDS, distance
from trials import trials

Mixture = tuple[Tensor, Tensor, Tensor]


def draw(
    batch: int, m: int, M: int, other: int, seed: int = 0, spread: float = 2.0
) -> tuple[Mixture, Mixture]:
    rng = np.random.default_rng(seed)

    def mixture(*shape: int) -> Mixture:
        parts = (
            spread * rng.normal(size=shape),
            rng.uniform(0.4, 1.3, shape),
            rng.dirichlet(np.ones(shape[-1]), shape[:-1]),
        )
        return tuple(torch.from_numpy(x) for x in parts)  # type: ignore[return-value]

    return mixture(batch, m, M), mixture(batch, other)


def between(mu: float, s: float, nu: float, t: float, kind: str, order: float | None = None) -> Optimum:
    """The distance between two Normals: sets of one extreme."""
    numbers = [torch.tensor(x, dtype=torch.float64).reshape(1, 1, 1) for x in (mu, s, 1.0, nu, t, 1.0)]
    return distance(*numbers[:3], *(x[0] for x in numbers[3:]), kind, order=order)


def renyi(mu: float, s: float, nu: float, t: float, a: float) -> float:
    v = a * t * t + (1 - a) * s * s
    if v <= 0:
        return math.inf
    return a * (mu - nu) ** 2 / (2 * v) + (math.log(v) / 2 - (1 - a) * math.log(s) - a * math.log(t)) / (
        1 - a
    )


def kl(mu: float, s: float, nu: float, t: float) -> float:
    return math.log(t / s) + (s * s + (mu - nu) ** 2) / (2 * t * t) - 0.5


PAIRS = [
    (0.0, 1.0, 1.0, 2.0),
    (0.0, 2.0, 1.0, 1.5),
    (5.0, 1e-8, 5.0, 2e-8),
    (1e6, 1e-8, 1e6, 1.1e-8),
    (0.0, 1.0, 30.0, 1.0),
    (-1e8, 1e8, 2e8, 1.9e8),
    (0.0, 1.41, 3.0, 1.0),
]


@pytest.mark.parametrize("pair", PAIRS)
def test_two_normals_have_their_closed_forms(pair: tuple[float, float, float, float]) -> None:
    mu, s, nu, t = pair
    hellinger = math.sqrt(-math.expm1(-renyi(*pair, 0.5) / 2))
    want = {
        "kl": kl(*pair),
        "reverse-kl": kl(nu, t, mu, s),
        "hellinger": hellinger,
        "w2": math.hypot(mu - nu, s - t),
    }
    for kind, value in want.items():
        assert between(*pair, kind).value.item() == pytest.approx(value, rel=1e-9, abs=1e-9)
    for order in (0.05, 0.5, 0.9, 1.5, 2.0, 4.0):
        value = renyi(*pair, order)
        assert between(*pair, "renyi", order).value.item() == pytest.approx(value, rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("pair", [p for p in PAIRS if p[2] != 30.0])
def test_chi_squared_is_infinite_exactly_when_the_tail_is_too_heavy(
    pair: tuple[float, float, float, float],
) -> None:
    mu, s, nu, t = pair
    for kind, x in (("chi2", pair), ("reverse-chi2", (nu, t, mu, s))):
        power = renyi(*x, 2.0)
        value = math.expm1(power) if power < 700 else math.inf
        answer = between(*pair, kind)
        assert answer.value.item() == pytest.approx(value, rel=1e-9)
        assert not math.isnan(answer.gap.item())
    edge = between(0.0, math.sqrt(2) * (1 + 1e-12), 0.0, 1.0, "chi2")
    assert (edge.value.item(), edge.gap.item()) == (math.inf, 0.0)


def test_heavy_tails_get_no_weight() -> None:
    loc, scale = torch.tensor([[[0.0], [1.0]]]).double(), torch.tensor([[[1.0], [3.0]]]).double()
    one = torch.ones_like(loc)
    target = (loc[:, 0] + 0.5, one[:, 0], one[:, 0])
    for kind, order in (("chi2", None), ("renyi", 2.0)):
        answer = distance(loc, scale, one, *target, kind, order=order)
        assert answer.weights.tolist() == [[1.0, 0.0]]
        assert answer.value.item() == pytest.approx(between(0.0, 1.0, 0.5, 1.0, kind, order).value.item())


def test_same_scale_total_variation_and_wasserstein() -> None:
    for shift, s in ((0.3, 1.0), (5.0, 1e-8), (1e6, 1.0), (3e8, 1e8)):
        tv = 2 * norm.cdf(shift * s / (2 * s) if s < 1e-3 else shift / (2 * s)) - 1
        place = shift * s if s < 1e-3 else shift
        assert between(0.0, s, place, s, "tv").value.item() == pytest.approx(tv, abs=1e-13)
        assert between(0.0, s, place, s, "w1").value.item() == pytest.approx(place, rel=1e-12)


def pdf(y: float, loc: np.ndarray, scale: np.ndarray, weights: np.ndarray) -> float:
    return float((weights * norm.pdf(y, loc, scale)).sum())


def cdf(y: float, loc: np.ndarray, scale: np.ndarray, weights: np.ndarray) -> float:
    return float((weights * norm.cdf(y, loc, scale)).sum())


INTEGRANDS = {
    "kl": lambda q, p: q * np.log(q / p),
    "reverse-kl": lambda q, p: p * np.log(p / q),
    "hellinger": lambda q, p: (np.sqrt(q) - np.sqrt(p)) ** 2 / 2,
    "jensen-shannon": lambda q, p: (q * np.log(2 * q / (p + q)) + p * np.log(2 * p / (p + q))) / 2,
    "tv": lambda q, p: abs(q - p) / 2,
}


@pytest.mark.parametrize("kind", [*INTEGRANDS, "w1"])
def test_value_is_the_integral_at_the_weights(kind: str) -> None:
    sets, target = draw(2, 3, 2, 2)
    answer = distance(*sets, *target, kind)
    assert answer.gap.max() < 1e-10
    for i in range(2):
        weights = (sets[2][i] * answer.weights[i][:, None]).numpy().ravel()
        mine = sets[0][i].numpy().ravel(), sets[1][i].numpy().ravel(), weights
        other = tuple(t[i].numpy() for t in target)
        if kind == "w1":
            integrand = lambda y, a=mine, b=other: abs(cdf(y, *a) - cdf(y, *b))  # noqa: E731
        else:
            integrand = lambda y, a=mine, b=other: INTEGRANDS[kind](pdf(y, *a), pdf(y, *b))  # noqa: E731
        edges = np.linspace(-14, 14, 29)
        want = sum(quad(integrand, a, b, epsabs=1e-12)[0] for a, b in pairwise(edges))
        want = math.sqrt(want) if kind == "hellinger" else want
        assert answer.value[i].item() == pytest.approx(want, abs=2e-8)


def quantiles(mix: tuple[np.ndarray, ...], n: int) -> np.ndarray:
    level = (np.arange(n) + 0.5) / n
    low, high = np.full(n, -60.0), np.full(n, 60.0)
    for _ in range(45):
        middle = (low + high) / 2
        below = sum(w * norm.cdf(middle, m, s) for m, s, w in zip(*mix, strict=True)) < level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


@pytest.mark.parametrize("spread", [2.0, 12.0])
def test_wasserstein_is_that_of_fine_quantiles(spread: float) -> None:
    sets, target = draw(2, 3, 2, 2, seed=1, spread=spread)
    for kind in ("w1", "w2"):
        answer = distance(*sets, *target, kind)
        assert answer.gap.max() < 1e-6
        for i in range(2):
            weights = (sets[2][i] * answer.weights[i][:, None]).numpy().ravel()
            x = quantiles((sets[0][i].numpy().ravel(), sets[1][i].numpy().ravel(), weights), 3_000)
            y = quantiles(tuple(t[i].numpy() for t in target), 3_000)
            want = wasserstein_distance(x, y) if kind == "w1" else math.sqrt(((x - y) ** 2).mean())
            assert answer.value[i].item() == pytest.approx(want, abs=1e-2)


def options(kind: str) -> dict[str, float]:
    return {"order": 0.6} if kind == "renyi" else {}


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3), st.sampled_from(KINDS))
@trials(25)
def test_no_mixture_is_nearer_than_the_set(seed: int, m: int, M: int, kind: str) -> None:
    """Proposition dist_lemma, on the line."""
    sets, target = draw(2, m, M, 2, seed)
    nearest = distance(*sets, *target, kind, **options(kind))
    beta = torch.from_numpy(np.random.default_rng(seed).dirichlet(np.ones(m), (2, 4)))
    loc, scale = (t.flatten(1).repeat_interleave(4, 0).unsqueeze(1) for t in sets[:2])
    weights = (sets[2].unsqueeze(1) * beta.unsqueeze(-1)).flatten(2).flatten(0, 1).unsqueeze(1)
    goal = tuple(t.repeat_interleave(4, 0) for t in target)
    others = distance(loc, scale, weights, *goal, kind, **options(kind)).value.view(2, 4)
    assert ((nearest.value - nearest.gap).unsqueeze(-1) <= others + 1e-8 * (1 + others)).all()
    assert (nearest.value.unsqueeze(-1) <= others + 1e-6 * (1 + others)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_members_are_at_distance_zero(kind: str) -> None:
    sets, _ = draw(3, 4, 2, 1)
    beta = torch.from_numpy(np.random.default_rng(0).dirichlet(np.ones(4), 3))
    inside = sets[0].flatten(1), sets[1].flatten(1), (sets[2] * beta.unsqueeze(-1)).flatten(1)
    answer = distance(*sets, *inside, kind, **options(kind))
    assert answer.value.max() < (1e-6 if kind in ("hellinger", "w2") else 1e-9)
    assert (answer.value - answer.gap <= answer.error + 1e-15).all()


@pytest.mark.parametrize("kind", KINDS)
def test_modes_far_apart_and_narrow(kind: str) -> None:
    loc = torch.tensor([[[0.0, 1e6], [0.0, 1e6]], [[0.0, 1.0], [1e6, 1e6 + 1]]]).double()
    scale = torch.tensor([[[1e-8, 1e-8], [1.0, 1e2]], [[1e-3, 1.0], [1.0, 1e-3]]]).double()
    weights = torch.tensor([[[0.5, 0.5], [0.25, 0.75]], [[0.5, 0.5], [0.5, 0.5]]]).double()
    target = (
        torch.tensor([[0.0, 1e6]] * 2).double(),
        torch.ones(2, 2).double(),
        torch.full((2, 2), 0.5).double(),
    )
    answer = distance(loc, scale, weights, *target, kind, **options(kind))
    assert not answer.value.isnan().any()
    assert not answer.gap.isnan().any()
    finite = torch.isfinite(answer.value)
    # Wasserstein 2 is certified relative to the spread of the modes, 1e6 here.
    loose = 1e-2 if kind == "w2" else 1e-6
    assert (answer.gap[finite] <= loose * answer.value[finite].clamp_min(1)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_answer_does_not_depend_on_the_batch_or_on_the_unit(kind: str) -> None:
    sets, target = draw(5, 3, 2, 2, seed=4)
    together = distance(*sets, *target, kind, **options(kind))
    alone = distance(*(t[3:4] for t in sets), *(t[3:4] for t in target), kind, **options(kind))
    assert torch.allclose(alone.value, together.value[3], atol=1e-8)
    unit = 1e5
    moved = (sets[0] * unit + 7, sets[1] * unit, sets[2]), (target[0] * unit + 7, target[1] * unit, target[2])
    other = distance(*moved[0], *moved[1], kind, **options(kind)).value
    assert torch.allclose(other / (unit if kind in ("w1", "w2") else 1), together.value, atol=1e-7)


def test_many_extremes() -> None:
    sets, target = draw(1, 64, 1, 1, seed=2)
    for kind in ("kl", "tv", "w1"):
        assert distance(*sets, *target, kind).gap.item() < 1e-8


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="kind is 'x'"):
        between(0.0, 1.0, 0.0, 1.0, "x")
    with pytest.raises(ValueError, match="order is None"):
        between(0.0, 1.0, 0.0, 1.0, "renyi")
