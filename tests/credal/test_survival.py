"""Levels of outcomes and the regions of these levels, from the core of a set out to where the level rounds to 1."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

import cbdl
from cbdl.credal.euclidean.survival import log_survival, squared_radius
from cbdl.credal.line.survival import log_two_tails, two_tailed_quantile
from trials import trials

EPS = np.finfo(float).eps


def mixtures(seed, sets=1, extremes=2, components=3, spread=3.0):
    rng = np.random.default_rng(seed)
    shape = (sets, extremes, components)
    weights = rng.dirichlet(np.ones(components), size=shape[:2])
    return cbdl.MixtureCredalSet(
        spread * rng.normal(size=shape), np.exp(0.7 * rng.normal(size=shape)), weights
    )


def far_and_near(seed, cs):
    """Outcomes from the modes out to sixty scales."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=len(cs)) * 10.0 ** rng.uniform(-3, 1.8, size=len(cs))


# --- Normals: closed forms -------------------------------------------------------------------------------------------


def test_the_two_tails_of_a_normal_and_their_inverse_are_scipys_and_exact_far_out():
    z = np.concatenate([[0.0], 10.0 ** np.linspace(-12, 5, 200)])
    logs = log_two_tails(torch.tensor(z)).numpy()
    # log1p keeps the digits near 0, log_ndtr those far out; scipy's own log_ndtr is good to a few eps
    expected = np.where(
        z < 1, np.log1p(-special.erf(np.minimum(z, 1) / np.sqrt(2))), np.log(2) + special.log_ndtr(-z)
    )
    np.testing.assert_allclose(logs, expected, rtol=8 * EPS, atol=0)
    # rounding moves log P by eps (1 + |log P|); that moves z by as much over the hazard, at least max(z, 0.79)
    tolerance = 8 * EPS * (1 + np.abs(logs)) / np.maximum(z, 0.79)
    assert (np.abs(two_tailed_quantile(torch.tensor(logs)).numpy() - z) <= tolerance).all()
    assert two_tailed_quantile(torch.tensor([-math.inf], dtype=torch.float64)) == math.inf


def test_levels_of_normals_are_those_of_the_nearest_extreme():
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=(50, 3)), np.exp(rng.normal(size=(50, 3)))
    y = 30 * rng.normal(size=50)
    z = np.abs((y[:, None] - loc) / scale).min(-1)
    cs = cbdl.NormalCredalSet(loc, scale)
    np.testing.assert_allclose(cs.log_survival(y), np.log(2) + stats.norm.logsf(z), rtol=1e-14)
    np.testing.assert_allclose(cs.level(y), 2 * stats.norm.cdf(z) - 1, rtol=1e-12)


def test_forty_standard_deviations_still_have_a_level():
    cs = cbdl.NormalCredalSet([0.0], [1.0])
    assert cs.level(40.0) == 1
    assert cs.log_survival(40.0) == pytest.approx(-803.9153, abs=1e-3)
    region = cs.region_at_level(log_survival=cs.log_survival(40.0))
    np.testing.assert_allclose(region.intervals, [[-40, 40]], rtol=1e-13)
    assert region.contains([-40.0, 40.0]).all()
    assert not region.contains([40 * (1 + 1e-12)]).any()


# --- mixtures ------------------------------------------------------------------------------------------------------


def test_far_out_a_mixture_around_one_place_has_a_closed_form():
    """All components at one place: the density falls on both sides, and the tails are sums of Normal ones."""
    scale, weights, z = (
        np.array([0.5, 1.0, 2.0]),
        np.array([0.3, 0.5, 0.2]),
        np.array([0.1, 3.0, 40.0, 80.0, 1e4]),
    )
    cs = cbdl.MixtureCredalSet(np.full((1, 3), 7.0), scale, weights)
    each = np.log(weights) + np.log(2) + stats.norm.logsf(z[:, None] / scale)
    found = [float(cs.log_survival(7.0 + x)) for x in z]
    # 7 + z is rounded: log P moves by z eps (7 + z) / 4 at most
    np.testing.assert_allclose(found, special.logsumexp(each, axis=1), rtol=1e-12)


def test_levels_of_a_mixture_are_the_mass_above_its_density():
    loc, scale, weights = np.array([-2.0, 1.0, 4.0]), np.array([0.5, 1.0, 0.3]), np.array([0.3, 0.5, 0.2])

    def p(y):
        return (weights * stats.norm.pdf(np.asarray(y)[..., None], loc, scale)).sum(-1)

    cs = cbdl.MixtureCredalSet(loc[None], scale, weights)
    grid = np.linspace(-15, 15, 2_000_001)
    density = p(grid)
    for y in (-2.0, 0.0, 2.6, 3.1, 4.4, 6.0):
        # the mass where p <= p(y), by the trapezoidal rule; a jump at an end costs at most p(y) times a step
        outside = integrate.trapezoid(np.where(density <= p(y), density, 0.0), grid)
        tolerance = 8 * p(y) * (grid[1] - grid[0])
        assert float(np.exp(cs.log_survival(y))) == pytest.approx(outside, abs=tolerance)


def test_several_outcomes_per_set_are_asked_at_once():
    for cs in (mixtures(0, 4), cbdl.NormalCredalSet(np.zeros((4, 2)), [1.0, 2.0])):
        y = np.linspace(-5, 5, 12).reshape(4, 3)
        together = cs.log_survival(y)
        alone = np.stack([cs.log_survival(y[:, i]) for i in range(3)], 1)
        assert together.shape == (4, 3)
        np.testing.assert_allclose(together, alone, rtol=1e-12)


@trials(12)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 4))
def test_the_region_of_a_level_holds_exactly_what_has_at_most_that_level(seed, extremes, components):
    cs = mixtures(seed, 30, extremes, components)
    y = far_and_near(seed, cs)
    logs = cs.log_survival(y)
    region = cs.region_at_level(log_survival=logs)
    assert region.contains(y).all()
    assert cs.region_at_level(cs.level(y)).contains(y).all()
    lower, upper = region.hull()
    assert ((lower <= y) & (y <= upper)).all()
    other = far_and_near(seed + 1, cs)
    theirs = cs.log_survival(other)
    # Rounding of log p near a mode moves log P(outside) by its square root, sqrt(64 eps): 1e-7; else by far less.
    gap = 1e-6 * (1 + np.abs(logs))
    inside = region.contains(other)
    assert inside[theirs >= logs].all()
    assert not inside[theirs < logs - gap].any()


@trials(12)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 4))
def test_regions_grow_with_the_level(seed, extremes, components):
    logs = -(10.0 ** np.linspace(-6, 5, 12))
    region = mixtures(seed, 1, extremes, components)[np.zeros(12, dtype=int)].region_at_level(
        log_survival=logs
    )
    assert (np.diff(region.measure) > 0).all()
    ends = np.asarray(region.intervals).reshape(12, -1)
    ends = np.where(np.isnan(ends), ends[:, :1], ends)
    assert region.contains(np.roll(ends, 1, axis=0))[1:].all()  # the ends of the region before
    # every extreme has exactly that much outside of its own region, so none has more outside of the union
    assert (region.lower_probability >= -np.expm1(logs) - 1e-12).all()


def test_levels_may_differ_from_set_to_set_up_to_the_whole_line():
    for cs in (mixtures(0, 4), cbdl.NormalCredalSet(np.zeros((4, 2)), [1.0, 2.0])):
        levels = np.array([0.5, 1.0, 0.9, np.inf])
        region = cs.region_at_level(levels)
        assert np.isinf(region.measure).tolist() == [False, True, False, True]
        assert region.contains([1e300, 1e300, 1e300, -1e300]).tolist() == [False, True, False, True]
        assert region.hull()[0][1] == -np.inf
        for i in (0, 2):
            alone = cs[i].region_at_level(levels[i])
            np.testing.assert_allclose(region.measure[i], alone.measure, rtol=1e-12)
            np.testing.assert_allclose(alone.measure, cs[i].region(1 - levels[i]).measure, rtol=1e-12)


@pytest.mark.parametrize("y", [np.nan, np.inf])
def test_outcomes_that_are_no_numbers_are_named(y):
    with pytest.raises(ValueError, match=r"y\[1\] is"):
        mixtures(0, 2).level([0.0, y])


# --- R^d -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 10, 101])
def test_the_tail_of_chi_squared_is_exact_far_out(d):
    mpmath = pytest.importorskip("mpmath")
    q = np.concatenate([10.0 ** np.linspace(-3, 2, 12), [300.0, 1400.0, 1600.0, 1e4, 1e6]])
    found = log_survival(torch.tensor(q), d).numpy()
    with mpmath.workdps(40):
        a = mpmath.mpf(d) / 2
        tails = [(mpmath.gammainc(a, 0, x / 2, regularized=True), x / 2) for x in q]
        logs = [
            mpmath.log1p(-low) if low < 0.5 else mpmath.log(mpmath.gammainc(a, x, regularized=True))
            for low, x in tails
        ]
    expected = np.array([float(t) for t in logs])
    # scipy's functions are good to about a hundred roundings; far out, terms are of size a log a, whatever their sum
    tolerance = 256 * EPS * np.abs(expected) + np.where(
        expected < -1, 32 * EPS * d / 2 * math.log1p(d / 2), 0
    )
    assert (np.abs(found - expected) <= tolerance).all()
    back = squared_radius(torch.tensor(found), d).numpy()
    assert (back >= q).all()
    np.testing.assert_allclose(back, q, rtol=1e-10, atol=1e-15)


@trials(25)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3))
def test_the_union_of_ellipsoids_at_a_level_holds_what_has_it(seed, d, extremes):
    rng = np.random.default_rng(seed)
    shape = (6, extremes, d)
    cs = cbdl.DiagonalNormalCredalSet(rng.normal(size=shape), np.exp(rng.normal(size=shape)), samples=64)
    y = rng.normal(size=(6, d)) * 10.0 ** rng.uniform(-2, 2, size=(6, 1))
    nearest = (((y[:, None] - cs.loc) / cs.scale) ** 2).sum(-1).min(-1)
    np.testing.assert_allclose(cs.level(y), stats.chi2.cdf(nearest, d), atol=1e-12)
    region = cs.region_at_level(log_survival=cs.log_survival(y))
    assert region.contains(y).all()
    assert cs.region_at_level(cs.level(y)).contains(y).all()
    lower, upper = region.hull()
    assert ((lower <= y) & (y <= upper)).all()
    assert not region.contains(cs.loc[:, 0] + (y - cs.loc[:, 0]) * 1.001 if extremes == 1 else y + 1e9).any()


def test_one_level_in_r_d_is_the_union_region():
    rng = np.random.default_rng(0)
    cs = cbdl.DiagonalNormalCredalSet(rng.normal(size=(5, 3, 2)), np.exp(rng.normal(size=(5, 3, 2))))
    plain, at = cs.region(0.1), cs.region_at_level(0.9)
    np.testing.assert_allclose(at.radius, plain.radius, rtol=1e-12)
    np.testing.assert_allclose(at.measure, plain.measure, rtol=1e-9)
    np.testing.assert_allclose(at.lower_probability, plain.lower_probability, atol=1e-12)
    np.testing.assert_allclose(at.hull(), plain.hull(), rtol=1e-12)
    whole = cs.region_at_level([0.9, 1.0, 0.9, 0.9, 0.9])
    assert np.isinf(whole.measure).tolist() == [False, True, False, False, False]
    assert whole.contains(np.full((5, 2), 1e200)).tolist() == [False, True, False, False, False]


# --- classes -------------------------------------------------------------------------------------------------------


def test_levels_of_classes_are_the_mass_before_them():
    cs = cbdl.CategoricalCredalSet([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]])
    np.testing.assert_allclose(cs.level([0, 1, 2]), [0, 0, 0.6], atol=1e-15)
    # an overconfident classifier: the level rounds to 1, what is left does not
    sure = cbdl.CategoricalCredalSet([[1 - 1e-20, 1e-20, 0.0]])
    assert sure.level(1) == 1
    assert sure.log_survival(1) == pytest.approx(math.log(1e-20))
    assert sure.region_at_level(log_survival=math.log(1e-20)).mask.tolist() == [True, True, False]
    assert sure.region_at_level(log_survival=sure.log_survival(2)).mask.tolist() == [True, True, True]


@trials(100)
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 3), st.booleans())
def test_regions_of_classes_hold_exactly_what_has_at_most_that_level_with_ties(seed, J, extremes, ties):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(J), size=(5, extremes))
    if ties:  # multiples of a tenth: sums that are equal but for rounding
        P = rng.multinomial(10, np.ones(J) / J, size=(5, extremes)) / 10
    cs = cbdl.CategoricalCredalSet(P)
    levels = np.empty((5, J))
    for b in range(5):
        each = np.empty((extremes, J))
        for j in range(extremes):
            order = np.argsort(-P[b, j], kind="stable")
            each[j, order] = np.append(0, np.cumsum(P[b, j][order])[:-1])
        levels[b] = each.min(0)
    np.testing.assert_allclose(cs.level(np.tile(np.arange(J), (5, 1))), levels, atol=1e-12)
    y = rng.integers(J, size=5)
    own = levels[np.arange(5), y]
    for region in (cs.region_at_level(cs.level(y)), cs.region_at_level(log_survival=cs.log_survival(y))):
        assert region.contains(y).all()
        # 1e-9: beyond rounding, whose tolerance is 1e-12
        np.testing.assert_array_equal(region.mask, levels <= own[:, None] + 1e-9)


def test_sums_that_are_equal_but_for_rounding_are_one_level():
    cs = cbdl.CategoricalCredalSet([[0.4, 0.3, 0.2, 0.1], [0.7, 0.0, 0.0, 0.3]])  # 0.1 + 0.2 is not 0.3
    assert cs.log_survival(2) != cs.log_survival(3)
    for y in (2, 3):
        assert cs.region_at_level(log_survival=cs.log_survival(y)).mask.all()
        assert cs.region_at_level(cs.level(y)).mask.all()


def test_the_hull_of_classes_is_the_first_and_the_last():
    region = cbdl.CategoricalCredalSet([[[0.1, 0.5, 0.0, 0.4]], [[1.0, 0.0, 0.0, 0.0]]]).region(0.2)
    assert [end.tolist() for end in region.hull()] == [[1, 0], [3, 0]]
