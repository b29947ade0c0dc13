"""The minimal region on the line: minimal for every alpha, never longer than the other two, and proved so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from cbdl.credal.line.mixture import masses
from cbdl.credal.line.sets import MixtureCredalSet, NormalCredalSet
from trials import trials

EPS = np.finfo(np.float64).eps
ALPHAS = (1e-12, 1e-6, 1e-3, 0.05, 0.5, 0.8, 0.95, 0.999, 0.9999, 1 - 1e-6)
PROOF = 1e-10
"""Where the gap is larger than this share of the measure, the other regions are looked at (`regions.PROVED`)."""


def random_sets(seed, batch=3, m=3, M=3, spread=3.0, scales=(-1.0, 0.5)):
    rng = np.random.default_rng(seed)
    shape = (batch, m, M)
    loc, scale = rng.normal(0, spread, shape), 10 ** rng.uniform(*scales, shape)
    return loc, scale, rng.dirichlet(np.ones(M), shape[:2])


@pytest.mark.parametrize(
    ("loc", "scale", "alpha", "expected"),
    [
        ([0.0, 5.0], [1.0, 1.0], 0.99999, None),
        ([0.0, 1.0], [1.0, 2.0], 0.999, None),
        ([0.0, 0.0], [1.0, 2.0], 0.9999, 4 * stats.norm.ppf(0.50005)),
        ([3.0], [2.0], 1 - 1e-9, 4 * stats.norm.ppf(0.5 + 5e-10)),
        ([0.0, 1e3], [1.0, 1e-3], 0.9999, 2 * 1.001 * stats.norm.ppf(0.50005)),
        ([0.0, 1e3], [1.0, 1e-3], 1e-6, 2 * 1.001 * stats.norm.isf(5e-7)),
    ],
)
def test_named_sets_near_both_ends_of_alpha(loc, scale, alpha, expected):
    cs = NormalCredalSet(loc, scale)
    r = cs.region(alpha, "minimal")
    shorter = min(cs.region(alpha).measure, cs.region(alpha, "lower-density").measure)
    assert r.measure <= shorter * (1 + PROOF)
    assert r.gap <= 1e-9 * r.measure
    assert r.lower_probability >= (1 - alpha) - 8 * EPS
    if expected is not None:
        # ppf near 1/2 has the digits of 1 - alpha beside 1/2.
        assert r.measure == pytest.approx(expected, rel=max(1e-12, 4 * EPS / min(alpha, 1 - alpha)))


@trials(12)
@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from(ALPHAS), st.sampled_from([-1.0, -3.0]))
def test_the_minimal_region_covers_and_is_no_longer_than_the_others(seed, m, alpha, narrow):
    loc, scale, weights = random_sets(seed, m=m, scales=(narrow, 0.5))
    cs = MixtureCredalSet(loc, scale, weights)
    r = cs.region(alpha, "minimal")
    for other in ("union", "lower-density"):
        assert (r.measure <= cs.region(alpha, other).measure * (1 + PROOF)).all()
    # Coverage is judged outside for small alpha, inside for large: to some roundings of the smaller of the two.
    assert (r.lower_probability >= (1 - alpha) * (1 - 16 * EPS) - EPS).all()
    assert (r.gap <= 1e-8 * r.measure).all()


@trials(8)
@given(st.integers(0, 10**6), st.integers(2, 4), st.sampled_from([0.9, 0.99, 0.999, 1 - 1e-6]))
def test_the_prices_prove_that_no_region_is_shorter(seed, m, alpha):
    """Weak duality by scipy alone: if sum_j lambda_j p_j <= t, what covers has |R| >= (1 - alpha) sum / t."""
    loc, scale, weights = (x[0] for x in random_sets(seed, batch=1, m=m))
    r = MixtureCredalSet(loc, scale, weights).region(alpha, "minimal")
    prices = np.exp(r.level)

    def q(y):
        return (weights * stats.norm.pdf(y[:, None, None], loc, scale)).sum(-1) @ prices

    y = np.concatenate([np.linspace(-20, 20, 20_001), np.nanmean(r.intervals, -1)])
    y = np.concatenate([top + np.linspace(-2e-3, 2e-3, 401) for top in y[q(y) > 0.99]])
    # Between points 1e-5 apart q rises by no more than its curvature, at most 1 / 0.1^2, times 1e-10.
    top = q(y).max() + 1e-8
    bound = (1 - alpha) * prices.sum() / top
    # q exceeds 1 on R alone, where the bound gives it away: the loss is at most (top - 1) |R|.
    assert r.measure >= bound * (1 - 1e-12)
    assert r.measure * (1 - 2 * max(0.0, top - 1)) <= bound


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("alpha", [0.9, 0.99])
def test_cells_of_the_line_do_no_better_and_hardly_worse(seed, alpha):
    rng = np.random.default_rng(seed)
    loc, scale = rng.normal(0, 2, (3, 2)), rng.uniform(0.4, 1.5, (3, 2))
    r = MixtureCredalSet(loc, scale).region(alpha, "minimal")
    edges = np.linspace(-12, 12, 6001)
    mass = np.diff(stats.norm.cdf(edges[:, None, None], loc, scale).mean(-1), axis=0)
    width = edges[1] - edges[0]
    # In units of the answer, for the solver's tolerances are absolute.
    best = optimize.linprog(
        np.full(6000, width / r.measure), A_ub=-mass.T / (1 - alpha), b_ub=-np.ones(3), bounds=(0, 1)
    )
    found = best.fun * r.measure
    assert r.measure <= found * (1 + 1e-6)
    # A cell at an end is taken in part, as if q were its mean there: at most |q'| h^2 / 2 an end is lost, and
    # |q'| <= 0.61 / 0.4 times q near the top.
    ends = 2 * np.isfinite(r.intervals[:, 0]).sum() + 6
    assert found - r.measure <= ends * 1.6 * width**2 / 2 + 1e-6 * r.measure


@pytest.mark.parametrize("alpha", [0.5, 0.9999])
def test_answers_for_a_batch_are_those_for_its_sets(alpha):
    loc, scale, weights = random_sets(3, batch=3, m=3)
    whole = MixtureCredalSet(loc, scale, weights).region(alpha, "minimal")
    for b in (0, 2):
        alone = MixtureCredalSet(loc[b], scale[b], weights[b]).region(alpha, "minimal")
        assert whole.measure[b] == pytest.approx(float(alone.measure), rel=1e-9)


def test_the_unit_of_the_outcome_does_not_matter_near_1():
    loc, scale, weights = random_sets(4, batch=2)
    unit = np.array([1.0, 1e-8, 1e8]).reshape(3, 1, 1, 1)
    three = np.broadcast_to(weights, (3, *weights.shape))
    measure = MixtureCredalSet(unit * loc, unit * scale, three).region(0.9999, "minimal").measure
    np.testing.assert_allclose(measure / unit[..., 0, 0], np.stack([measure[0]] * 3), rtol=1e-9)


@trials(60)
@given(st.floats(-30, 30), st.floats(-14, 1))
def test_the_mass_of_a_short_interval_has_all_its_digits(a, log_width):
    import mpmath
    import torch

    width = 10.0**log_width
    end = a + width
    one, zero = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    mass = masses(zero, one, one, (one * a, zero), (one * end, zero)).item()
    with mpmath.workdps(40):
        x, y = (mpmath.mpf(a), mpmath.mpf(end)) if a <= 0 else (-mpmath.mpf(end), -mpmath.mpf(a))
        exact = (mpmath.erfc(-y / mpmath.sqrt(2)) - mpmath.erfc(-x / mpmath.sqrt(2))) / 2
        # A rounding of the exponent z^2 / 2 is z^2 / 2 of them in the result; tails cancel to 1 / SHORT.
        assert abs(mass - exact) <= 50 * EPS * (1 + a * a) * exact + 1e-300


@pytest.mark.parametrize("scales", [(0.3, 1.0), (0.5, 0.5)])
@pytest.mark.parametrize("alpha", [0.05, 0.5])
def test_members_of_many_draws_are_settled_with_a_proof(scales, alpha):
    """Regions that barely split or merge, as predictive mixtures of one noise scale have them, are the hard ones."""
    rng = np.random.default_rng(0)
    loc = rng.normal(0, 1, (60, 6, 1)) + rng.normal(0, 0.4, (60, 6, 32))
    cs = MixtureCredalSet(loc, rng.uniform(*scales, (60, 6, 1)) + 0 * loc)
    region = cs.region(alpha, "minimal")
    assert (region.gap <= 1e-9 * region.measure).all()
    assert (region.lower_probability >= 1 - alpha - 1e-12).all()
    for other in ("union", "lower-density"):
        assert (region.measure <= cs.region(alpha, other).measure * (1 + 1e-12)).all()
