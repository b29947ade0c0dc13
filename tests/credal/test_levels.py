"""Every crossing of a mixture with a level is found; highest density regions are exact."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from cbdl.credal.line.hdr import hdr, hdr_at, log_outside
from cbdl.credal.line.intervals import Intervals, complement, covered, intersection, side_by_side, union
from cbdl.credal.line.levels import crossings, shape_of
from cbdl.credal.line.mixture import mixtures
from trials import trials

f64 = torch.float64


def mix_of(loc, scale, weights):
    return mixtures(*(torch.tensor([x], dtype=f64) for x in (loc, scale, weights)))


def points(found):
    return (found.high + found.low).tolist()


def pdf(y, loc, scale, weights):
    return sum(w * stats.norm.pdf(y, m, s) for m, s, w in zip(loc, scale, weights, strict=True))


@trials(40)
@given(st.integers(0, 10**6), st.integers(1, 8), st.floats(0.02, 0.98))
def test_crossings_are_those_of_a_fine_grid(seed, K, share):
    rng = np.random.default_rng(seed)
    loc, scale = rng.normal(0, 3, K), rng.uniform(0.1, 2, K)
    weights = rng.dirichlet(np.ones(K))
    y = np.linspace(-25, 25, 40_001)
    p = pdf(y, loc, scale, weights)
    level = math.log(share * p.max())
    found = points(
        crossings(
            shape_of(mix_of(loc.tolist(), scale.tolist(), weights.tolist())), torch.tensor([level], dtype=f64)
        )
    )
    cells = np.flatnonzero((p[1:] >= math.exp(level)) != (p[:-1] >= math.exp(level)))
    brute = [
        optimize.brentq(lambda t: pdf(t, loc, scale, weights) - math.exp(level), y[c], y[c + 1], xtol=1e-14)
        for c in cells
    ]
    # A pair closer than the brute grid may be seen by us alone; it must then be a real one.
    assert len(found) >= len(brute)
    assert len(found) % 2 == 0
    np.testing.assert_allclose(np.log(pdf(np.array(found), loc, scale, weights)), level, atol=1e-12)
    if len(found) == len(brute):
        np.testing.assert_allclose(found, brute, atol=1e-9)


def test_a_pair_of_turning_points_inside_one_cell_is_not_lost():
    """A shoulder turns into a bump as its component moves out: follow the pair of turning points from its birth."""
    y = np.linspace(0.5, 4, 70_001)

    def turns(distance):
        z = y[:, None] - np.array([0.0, distance])
        slope = -(np.array([0.75, 0.25 / 0.7**3]) * z * np.exp(-0.5 * (z / [1.0, 0.7]) ** 2)).sum(-1)
        return np.flatnonzero((slope[1:] > 0) != (slope[:-1] > 0))

    low, high = 1.5, 3.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if len(turns(middle)) == 2 else (middle, high)
    for more in (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2):
        for shift in np.linspace(0, 0.5, 6):  # moves the pair through the cells of the grid
            loc, scale, weights = [0.0, high + more, -20 - shift], [1.0, 0.7, 1.4], [0.75, 0.25, 1e-3]
            valley, bump = pdf(y[turns(high + more)], loc, scale, weights)
            level = torch.tensor([math.log(0.5 * (valley + bump))], dtype=f64)
            assert len(points(crossings(shape_of(mix_of(loc, scale, weights)), level))) == 4


@pytest.mark.parametrize(
    ("weight", "scale", "far"), [(1e-6, 1e-8, 1e6), (1e-6, 1e-8, 2.5), (1e-3, 1e-4, 1e6)]
)
def test_a_faint_narrow_or_far_mode_is_never_lost(weight, scale, far):
    mix = mix_of([0.0, far], [1.0, scale], [1 - weight, weight])
    level, found = hdr(mix, 0.05)
    near = [y for y in points(found) if abs(y - far) < 10 * scale]
    assert len(near) == 2
    excess = log_outside(mix, found, level)[0].exp() - 0.05
    assert abs(excess.item()) < 1e-14


def test_levels_far_below_the_smallest_float_are_crossed_exactly():
    mix = mix_of([0.0, 1e6], [1.0, 1.0], [0.5, 0.5])
    level = -1e11
    found = points(crossings(shape_of(mix), torch.tensor([level], dtype=f64)))
    radius = math.sqrt(2 * (-level + math.log(0.5 / math.sqrt(2 * math.pi))))
    np.testing.assert_allclose(found, [-radius, radius, 1e6 - radius, 1e6 + radius], rtol=1e-14)
    # Below the density in the middle of the gap there is one interval.
    assert len(points(crossings(shape_of(mix), torch.tensor([-1.3e11], dtype=f64)))) == 2


@pytest.mark.parametrize("alpha", [1e-12, 1e-3, 0.05, 0.5, 0.9])
@pytest.mark.parametrize(("loc", "scale"), [(0.0, 1.0), (1e6, 1e-8), (-1e6, 1e8), (5.0, 1e-3)])
def test_the_region_of_one_normal_is_the_closed_form(alpha, loc, scale):
    _, found = hdr(mix_of([loc], [scale], [1.0]), alpha)
    z = ((found.high - loc) + found.low) / scale
    expected = stats.norm.isf(alpha / 2) * np.array([-1, 1])
    np.testing.assert_allclose(z, expected, rtol=1e-10)


def test_the_region_of_hyndmans_figure_has_several_intervals():
    """Figure "fig:hdr_ex": the 0.25-HDR of a Normal mixture, checked by brute force on a fine grid."""
    loc, scale, weights = [0.0, 3.5, 6.5], [1.0, 0.45, 0.5], [0.55, 0.25, 0.2]
    y = np.linspace(-10, 15, 500_001)
    p = pdf(y, loc, scale, weights)
    order = np.argsort(-p)
    inside = np.zeros(len(y), dtype=bool)
    inside[order[: 1 + np.searchsorted(np.cumsum(p[order]) * (y[1] - y[0]), 0.75)]] = True
    edges = y[np.flatnonzero(np.diff(inside.astype(int)))]
    _, found = hdr(mix_of(loc, scale, weights), 0.25)
    assert len(points(found)) == len(edges) == 6
    np.testing.assert_allclose(points(found), edges, atol=1.1e-4)


@trials(40)
@given(st.integers(0, 10**6), st.integers(2, 20), st.floats(0.001, 0.95))
def test_the_mass_is_exact_and_the_density_is_equal_at_all_ends(seed, K, alpha):
    rng = np.random.default_rng(seed)
    loc, scale = rng.normal(0, 3, K), 10 ** rng.uniform(-2, 1, K)
    weights = rng.dirichlet(np.ones(K))
    mix = mix_of(loc.tolist(), scale.tolist(), weights.tolist())
    level, found = hdr(mix, alpha)
    ends = np.array(points(found)).reshape(-1, 2)
    mass = (
        weights
        * (
            stats.norm.cdf(ends[..., None], loc, scale)[:, 1]
            - stats.norm.cdf(ends[..., None], loc, scale)[:, 0]
        )
    ).sum()
    assert mass == pytest.approx(1 - alpha, abs=2e-12)
    np.testing.assert_allclose(np.log(pdf(ends.ravel(), loc, scale, weights)), level.item(), atol=1e-10)
    assert found.rising.tolist() == [True, False] * len(ends)


def test_regions_agree_with_an_independent_computation_in_many_digits():
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(3)
    loc, scale, weights = rng.normal(0, 3, 20), rng.uniform(0.3, 1, 20), rng.dirichlet(np.ones(20))
    level, found = hdr(mix_of(loc.tolist(), scale.tolist(), weights.tolist()), 0.05)
    with mpmath.workdps(40):

        def p(y):
            return mpmath.fsum(w * mpmath.npdf(y, m, s) for m, s, w in zip(loc, scale, weights, strict=True))

        ends = [mpmath.findroot(lambda y: p(y) - mpmath.exp(level.item()), y) for y in points(found)]
        mass = mpmath.fsum(
            w * (mpmath.ncdf(b, m, s) - mpmath.ncdf(a, m, s))
            for a, b in zip(ends[::2], ends[1::2], strict=True)
            for m, s, w in zip(loc, scale, weights, strict=True)
        )
        assert abs(mass - mpmath.mpf("0.95")) < 1e-13
        assert max(abs(e - y) for e, y in zip(ends, points(found), strict=True)) < 1e-12


def test_the_region_of_a_mixture_does_not_depend_on_the_batch():
    generator = torch.Generator().manual_seed(0)
    loc = 4 * torch.randn(60, 5, dtype=f64, generator=generator)
    scale = torch.rand(60, 5, dtype=f64, generator=generator).pow(3) + 1e-3
    mix = mixtures(loc, scale, torch.full_like(loc, 0.2))
    level, found = hdr(mix, 0.1)
    for b in (0, 17, 59):
        alone_level, alone = hdr(mix[b : b + 1], 0.1)
        torch.testing.assert_close(alone_level[0], level[b], rtol=1e-14, atol=1e-14)
        mine = found.owner == b
        torch.testing.assert_close(
            alone.high + alone.low, (found.high + found.low)[mine], rtol=1e-13, atol=1e-13
        )


# --- interval algebra --------------------------------------------------------------------------------------

intervals = st.lists(
    st.tuples(st.integers(-8, 8), st.integers(0, 5)).map(lambda t: (float(t[0]), float(t[0] + t[1]))),
    min_size=1,
    max_size=5,
)


def made(pairs):
    high = torch.tensor([pairs], dtype=f64)
    return Intervals(high, torch.zeros_like(high))


@trials(60)
@given(intervals, intervals)
def test_interval_algebra_is_that_of_point_sets(a, b):
    y = torch.arange(-10, 15, 0.25, dtype=f64)[None] + 0.125
    A, B = union(made(a)), union(made(b))
    in_a, in_b = A.contains(y), B.contains(y)
    assert torch.equal(in_a, torch.stack([(y >= lo) & (y <= hi) for lo, hi in a]).any(0))
    assert torch.equal(intersection([A, B]).contains(y), in_a & in_b)
    assert torch.equal(union(side_by_side([A, B])).contains(y), in_a | in_b)
    assert torch.equal(complement(A).contains(y), ~in_a)
    assert A.measure.item() == pytest.approx(0.25 * in_a.sum().item())
    assert torch.equal(complement(complement(A)).rounded(), A.rounded())
    assert torch.equal(covered(side_by_side([A, A]), 2).rounded(), A.rounded())


@pytest.mark.parametrize("log_alpha", [-1e-9, -0.5, -50.0, -804.0, -5e5, -1e12])
def test_regions_exist_for_any_alpha_by_its_logarithm(log_alpha):
    mpmath = pytest.importorskip("mpmath")
    loc, scale, weights = [0.0, 9.0, 3.0], [1.0, 0.7, 2.0], [0.5, 0.3, 0.2]
    _, found = hdr_at(mix_of(loc, scale, weights), torch.tensor([log_alpha], dtype=f64))
    with mpmath.workdps(60):
        pairs = zip(found.high.tolist(), found.low.tolist(), strict=True)
        ends = [mpmath.mpf(high) + mpmath.mpf(low) for high, low in pairs]
        whole = mpmath.fsum(
            w * _tails(mpmath, ends, m, s) for m, s, w in zip(loc, scale, weights, strict=True)
        )
        # Rounding of the ends moves log alpha by about eps times its size; at the mode {p >= (1 - 4 eps) max p} is
        # 2 sqrt(8 eps) = 8e-8 scales wide.
        tolerance = 1e-7 if log_alpha > -1e-3 else 1e-13
        assert abs(mpmath.log(whole) - log_alpha) < tolerance * (1 + abs(log_alpha))


def _tails(mpmath, ends, loc, scale):
    """P(outside) of a Normal: the two half-lines, and the gaps between pairs of ends."""
    z = [(e - loc) / scale for e in ends]
    far = mpmath.sqrt(2)
    outside = mpmath.erfc(-z[0] / far) + mpmath.erfc(z[-1] / far)
    gaps = zip(z[1:-1:2], z[2:-1:2], strict=True)
    return (outside + sum(mpmath.erfc(a / far) - mpmath.erfc(b / far) for a, b in gaps)) / 2


@pytest.mark.parametrize("spacing", [0.9, 1.0, 1.2, 1.5])
def test_the_ripples_of_a_comb_are_resolved(spacing):
    """Components on a comb make a plateau with ripples of 1e-9 and less, between which the level must fall."""
    K = 30
    mix = mix_of((spacing * np.arange(K)).tolist(), [1.0] * K, [1 / K] * K)
    level, found = hdr(mix, 0.5)
    excess = log_outside(mix, found, level)[0].exp() - 0.5
    # The level is found to 8 units of rounding, twice that for good measure; where the ripples are cosines of relative
    # height r, a level that is lower by u covers at most u / (pi r) more.
    ripple = 2 * math.exp(-2 * math.pi**2 / spacing**2)
    unit = 16 * np.finfo(float).eps * (1 + abs(level.item()))
    assert -unit / (math.pi * ripple) < excess.item() < 1e-12
    np.testing.assert_allclose(mix.at(found.owner, found.high, found.low)[0], level.item(), atol=1e-13)
    assert len(found.high) > 20
