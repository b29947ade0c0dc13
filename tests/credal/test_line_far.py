"""Distances on the line to targets that are very narrow, wide or far: what is reported as error holds, and is small.

Truth: closed forms of two Normals in 60 digits, scipy's quadrature for mixtures, inequalities of norms for sets.
"""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from torch import Tensor

from cbdl.credal._optimum import Optimum
from cbdl.credal.line.distance import KINDS, distance

SCALES = (1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6)
FAR = (0.0, 1.0, 10.0, 1e2, 1e3, 1e4, 1e6)
PLACES = sorted({(t, far * unit) for t in SCALES for far in FAR for unit in (1.0, t)} - {(1.0, 0.0)})
"""Scale and place of a target beside N(0, 1): so many scales away of the one and of the other."""

CASES = [(kind, None) for kind in KINDS if kind not in ("renyi", "jensen-shannon")]
CASES += [("renyi", order) for order in (0.05, 0.5, 2.0, 4.0)]


def columns(*values: list[float]) -> list[Tensor]:
    return [torch.tensor(x, dtype=torch.float64).unsqueeze(-1) for x in values]


def kl(d: mp.mpf, s: mp.mpf, t: mp.mpf) -> mp.mpf:
    return mp.log(t / s) + (s * s + d * d) / (2 * t * t) - mp.mpf(1) / 2


def renyi(d: mp.mpf, s: mp.mpf, t: mp.mpf, order: float) -> mp.mpf:
    a = mp.mpf(order)
    v = a * t * t + (1 - a) * s * s
    if v <= 0:
        return mp.inf
    return a * d * d / (2 * v) + (mp.log(v) / 2 - (1 - a) * mp.log(s) - a * mp.log(t)) / (1 - a)


def total_variation(d: mp.mpf, s: mp.mpf, t: mp.mpf) -> mp.mpf:
    if s == t:
        return 2 * mp.ncdf(abs(d) / (2 * s)) - 1
    # The densities cross where a quadratic is 0.
    a, b, c = (1 / t**2 - 1 / s**2) / 2, -d / t**2, d * d / (2 * t * t) + mp.log(t / s)
    root = mp.sqrt(b * b - 4 * a * c)
    low, high = sorted([(-b - root) / (2 * a), (-b + root) / (2 * a)])
    mass = [mp.ncdf((high - m) / w) - mp.ncdf((low - m) / w) for m, w in ((0, s), (d, t))]
    return abs(mass[0] - mass[1])


def exact(kind: str, order: float | None, place: float, scale: float) -> mp.mpf:
    """From N(0, 1) to N(place, scale^2)."""
    d, s, t = mp.mpf(place), mp.mpf(1), mp.mpf(scale)
    if kind == "w1":  # the mean of |d + (t - s) Z|
        r = abs(t - s)
        z = d / r if r else mp.inf
        return abs(d) if r == 0 else r * mp.sqrt(2 / mp.pi) * mp.exp(-z * z / 2) + d * (1 - 2 * mp.ncdf(-z))
    closed = {
        "kl": lambda: kl(d, s, t),
        "reverse-kl": lambda: kl(d, t, s),
        "hellinger": lambda: mp.sqrt(-mp.expm1(-renyi(d, s, t, 0.5) / 2)),
        "chi2": lambda: mp.expm1(renyi(d, s, t, 2.0)),
        "reverse-chi2": lambda: mp.expm1(renyi(d, t, s, 2.0)),
        "renyi": lambda: renyi(d, s, t, order or 1.0),
        "tv": lambda: total_variation(d, s, t),
        "w2": lambda: mp.sqrt(d * d + (t - s) ** 2),
    }
    return closed[kind]()


@pytest.mark.parametrize(("kind", "order"), CASES)
def test_the_truth_lies_within_the_reported_error_which_is_small(kind: str, order: float | None) -> None:
    scale, place = (list(x) for x in zip(*PLACES, strict=True))
    zero, one = [0.0] * len(place), [1.0] * len(place)
    sets = [t.unsqueeze(1) for t in columns(zero, one, one)]
    answer = distance(*sets, *columns(place, scale, one), kind, order=order)
    with mp.workdps(60):
        for i, (t, nu) in enumerate(PLACES):
            want = exact(kind, order, nu, t)
            value, bound = answer.value[i].item(), (answer.gap + answer.error)[i].item()
            if want > 1.7e308:
                assert (value, bound) == (math.inf, 0.0)
            else:
                assert abs(mp.mpf(value) - want) <= bound, (t, nu)
                assert bound <= 1e-6 * want, (t, nu)


def mixtures(batch: int, m: int, M: int, other: int, seed: int) -> tuple[list[Tensor], list[Tensor]]:
    """Sets of scale 1 around 0, and a target of every scale at every place."""
    rng = np.random.default_rng(seed)
    scale, place = (np.array(x)[:, None] for x in zip(*PLACES, strict=True))

    def draw(*shape: int) -> list[np.ndarray]:
        return [
            2 * rng.normal(size=shape),
            rng.uniform(0.4, 1.3, shape),
            rng.dirichlet(np.ones(shape[-1]), shape[:-1]),
        ]

    loc, width, weights = draw(batch, other)
    target = [loc * scale + place, width * scale, weights]
    return [torch.from_numpy(x) for x in draw(batch, m, M)], [torch.from_numpy(x) for x in target]


@pytest.mark.parametrize(("kind", "order"), [*CASES, ("jensen-shannon", None)])
def test_sets_of_mixtures_have_small_errors_too(kind: str, order: float | None) -> None:
    sets, target = mixtures(len(PLACES), 3, 2, 2, seed=4)
    if kind == "w2":  # takes longest: every third of the targets
        sets, target = ([t[::3] for t in x] for x in (sets, target))
    answer = distance(*sets, *target, kind, order=order)
    finite = torch.isfinite(answer.value)
    assert finite.any()
    bound = answer.gap + answer.error
    assert (bound[finite] <= 1e-6 * answer.value[finite]).all()
    assert (bound[~finite] == 0).all()


@pytest.mark.parametrize("kind", ["kl", "reverse-kl"])
def test_a_kink_far_from_all_modes_is_resolved(kind: str) -> None:
    """The logarithm of a mixture of two narrow Normals has a corner half way between them."""
    loc, scale, weights = np.array([-0.02, 0.013]), np.array([0.009, 0.012]), np.array([0.3, 0.7])

    def log_narrow(y: float) -> float:
        return float(np.logaddexp.reduce(np.log(weights) + norm.logpdf(y, loc, scale)))

    a, b = 0.5 / scale[0] ** 2 - 0.5 / scale[1] ** 2, loc[1] / scale[1] ** 2 - loc[0] / scale[0] ** 2
    height = np.log(weights / scale) - 0.5 * (loc / scale) ** 2
    corners = sorted(float(np.real(x)) for x in np.roots([a, b, height[1] - height[0]]))
    cuts = sorted(
        {x + sign * 10.0**k for x in corners for k in range(-6, 1) for sign in (-1, 0, 1)} | {-9.5, 9.5}
    )
    cuts = [x for x in cuts if -9.5 <= x <= 9.5]
    integrand = lambda y: norm.pdf(y) * (norm.logpdf(y) - log_narrow(y))  # noqa: E731
    want = sum(quad(integrand, x, y, epsabs=0, epsrel=1e-11)[0] for x, y in pairwise(cuts))
    wide = columns([0.0], [1.0], [1.0])
    narrow = [torch.from_numpy(x)[None] for x in (loc, scale, weights)]
    sets, target = (wide, narrow) if kind == "kl" else (narrow, wide)
    answer = distance(*(t.unsqueeze(1) for t in sets), *target, kind)
    bound = (answer.gap + answer.error).item()
    assert abs(answer.value.item() - want) <= bound + 1e-10 * want
    assert bound <= 1e-6 * want


@pytest.mark.parametrize("order", [1.5, 2.0, 4.0])
def test_renyi_of_far_sets_is_finite_and_near_that_of_the_best_extreme(order: float) -> None:
    """With N the norm behind it, min_j N(P_j) / m <= N(q) <= min_j N(P_j) for the best mixture q."""
    loc, scale = columns([0.0, 1.0, -2.0, 3.0], [1.0, 0.7, 0.9, 0.5])
    sets = loc[None], scale[None], torch.ones_like(scale)[None]
    for place in (1e2, 1e4, 1e6, 1e8):
        answer = distance(*sets, *columns([place], [1.0], [1.0]), "renyi", order=order)
        with mp.workdps(60):
            best = min(
                renyi(mp.mpf(place) - mp.mpf(m), mp.mpf(s), mp.mpf(1), order)
                for m, s in zip(loc[:, 0].tolist(), scale[:, 0].tolist(), strict=True)
            )
        value, bound = answer.value.item(), (answer.gap + answer.error).item()
        least = float(best) - order / (order - 1) * math.log(4)
        assert bound <= 1e-6 * value
        assert least - bound <= value <= float(best) + bound


def far_modes(spread: float) -> Optimum:
    """Two narrow modes against the same two modes of scale 1: W2 is 1 - 1e-8."""
    loc = torch.tensor([[[0.0, spread]]], dtype=torch.float64)
    one, half = torch.ones_like(loc), torch.full_like(loc, 0.5)
    return distance(loc, 1e-8 * one, half, loc[:, 0], one[:, 0], half[:, 0], "w2")


@pytest.mark.parametrize("spread", [1e2, 1e4, 1e6])
def test_mass_that_rounding_sends_across_a_gap_is_in_the_error(spread: float) -> None:
    answer = far_modes(spread)
    assert abs(answer.value.item() - (1 - 1e-8)) <= (answer.gap + answer.error).item()
    # What floating point allows: a rounding error of mass, times the square of the gap.
    assert answer.error.item() <= 1e-8 + 16 * 2.3e-16 * spread**2
