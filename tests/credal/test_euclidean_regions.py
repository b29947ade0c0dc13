"""Regions in R^d: exact where they should be, within their standard errors where not."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special, stats

from cbdl.credal.euclidean.montecarlo import ball_nodes, normal_nodes
from cbdl.credal.euclidean.sets import DiagonalNormalCredalSet
from cbdl.credal.line.sets import NormalCredalSet
from trials import trials

METHODS = ("union", "box", "lower-density", "minimal")
LOC = np.array([[0.0, 0.0], [1.0, -0.5], [-0.5, 2.0]])
SCALE = np.array([[1.0, 0.5], [0.7, 1.5], [2.0, 1.0]])


def random_set(seed, batch=(), m=3, d=2, **options):
    rng = np.random.default_rng(seed)
    loc, scale = rng.normal(size=(*batch, m, d)), np.exp(rng.normal(size=(*batch, m, d)) / 2)
    return DiagonalNormalCredalSet(loc, scale, **options)


def ellipsoid(scale, radius):
    d = len(scale)
    return math.pi ** (d / 2) / math.gamma(d / 2 + 1) * radius ** (d / 2) * np.prod(scale)


def area(region, low, high, steps=600):
    """Counted on a fine grid of the plane."""
    axes = [(np.arange(steps) + 0.5) / steps * (b - a) + a for a, b in zip(low, high, strict=True)]
    points = np.stack(np.meshgrid(*axes), -1)
    return region.contains(points).mean() * np.prod(np.subtract(high, low))


# --- one Normal ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("method", ["union", "lower-density", "minimal"])
def test_one_normal_gives_its_highest_density_ellipsoid(method, d, unit):
    rng = np.random.default_rng(d)
    loc, scale = rng.normal(size=(1, d)) * unit, np.exp(rng.normal(size=(1, d))) * unit
    for repeats in (1, 3):
        cs = DiagonalNormalCredalSet(loc.repeat(repeats, 0), scale.repeat(repeats, 0), samples=64)
        r = cs.region(0.1, method)
        radius = stats.chi2.ppf(0.9, d)
        assert float(r.measure) == pytest.approx(ellipsoid(scale[0], radius), rel=1e-10)
        assert float(r.log_measure) == pytest.approx(np.log(ellipsoid(scale[0], radius)), abs=1e-9)
        assert r.lower_probability == r.upper_probability == 0.9
        assert r.error == r.measure_error == 0
        edge = np.eye(d)[0] * scale[0] * math.sqrt(radius)
        assert r.contains(loc[0] + edge * (1 - 1e-6))
        assert not r.contains(loc[0] + edge * (1 + 1e-6))


@pytest.mark.parametrize("d", [1, 3, 100])
def test_the_box_of_one_normal_has_equal_sides_of_the_right_level(d):
    r = DiagonalNormalCredalSet(np.zeros((1, d)), np.arange(1, d + 1.0)).region(0.05, "box")
    t = stats.norm.ppf((1 + 0.95 ** (1 / d)) / 2)
    assert float(r.multiple) == pytest.approx(t, rel=1e-9)
    np.testing.assert_allclose(r.upper, t * np.arange(1, d + 1), rtol=1e-9)
    assert float(r.log_measure) == pytest.approx(d * np.log(2 * t) + special.gammaln(d + 1), rel=1e-9)
    assert float(r.lower_probability) == pytest.approx(0.95, abs=1e-12)


# --- boxes -----------------------------------------------------------------------------------------------


@trials(40)
@given(
    m=st.integers(1, 5), d=st.integers(1, 6), seed=st.integers(0, 10**6), alpha=st.floats(0.001, 0.95),
    unit=st.sampled_from([1e-8, 1.0, 1e8]),
)  # fmt: skip
def test_the_lower_probability_of_a_box_is_exact(m, d, seed, alpha, unit):
    base = random_set(seed, m=m, d=d)
    cs = DiagonalNormalCredalSet(base.loc * unit, base.scale * unit)
    r = cs.region(alpha, "box")
    each = (stats.norm.cdf(r.upper, cs.loc, cs.scale) - stats.norm.cdf(r.lower, cs.loc, cs.scale)).prod(-1)
    assert each.min() == pytest.approx(1 - alpha, abs=1e-10)
    assert float(r.lower_probability) == pytest.approx(1 - alpha, abs=1e-12)
    assert float(r.upper_probability) == pytest.approx(each.max(), abs=1e-10)
    assert float(r.measure) == pytest.approx(np.prod(r.upper - r.lower), rel=1e-9)
    assert r.error == r.measure_error == 0
    np.testing.assert_allclose(r.upper, (cs.loc + r.multiple * cs.scale).max(0), rtol=1e-9, atol=1e-9 * unit)
    assert r.contains((r.lower + r.upper) / 2)
    assert not r.contains(r.upper + unit * np.eye(d)[0])


def test_a_box_around_needles_far_from_the_origin():
    r = DiagonalNormalCredalSet([[1e6, 0.0], [1e6, 1.0]], 1e-8).region(0.1, "box")
    assert float(r.lower_probability) == pytest.approx(0.9, abs=1e-12)
    far = DiagonalNormalCredalSet([[-1e6], [1e6]], 1.0).region(0.1, "box")
    assert float(far.measure) == pytest.approx(2e6 + 2 * stats.norm.ppf(0.9), abs=1e-6)


# --- unions of ellipsoids --------------------------------------------------------------------------------


def test_disjoint_ellipsoids_add_up_exactly():
    loc, scale = (
        np.array([[0.0, 0, 0], [50, 0, 0], [0, 0, 90]]),
        np.array([[1.0, 2, 1], [1, 1, 3], [2, 2, 2]]),
    )
    r = DiagonalNormalCredalSet(loc, scale).region(0.05)
    radius = stats.chi2.ppf(0.95, 3)
    assert float(r.measure) == pytest.approx(sum(ellipsoid(s, radius) for s in scale), rel=1e-12)
    assert r.measure_error == 0
    assert float(r.lower_probability) == pytest.approx(0.95, abs=1e-12)
    assert 0 < r.error < 1e-3


def test_overlapping_ellipsoids_are_not_counted_twice():
    r = DiagonalNormalCredalSet(LOC, SCALE).region(0.1)
    low, high = (LOC - 4 * SCALE).min(0), (LOC + 4 * SCALE).max(0)
    assert abs(area(r, low, high) - r.measure) < 4 * r.measure_error + 0.01
    nested = DiagonalNormalCredalSet(np.zeros((2, 2)), [[1.0], [2.0]]).region(0.1)
    truth = ellipsoid([2, 2], stats.chi2.ppf(0.9, 2))
    assert abs(nested.measure - truth) < 4 * nested.measure_error
    assert float(nested.upper_probability) == pytest.approx(
        stats.chi2.cdf(4 * stats.chi2.ppf(0.9, 2), 2), abs=3e-3
    )


@trials(25)
@given(m=st.integers(1, 4), d=st.integers(1, 4), seed=st.integers(0, 10**6), method=st.sampled_from(METHODS))
def test_every_region_covers_and_knows_its_coverage(m, d, seed, method):
    """Definition "ihdr-def", condition 1; judged on plain random draws that the library did not make."""
    alpha, n = 0.15, 20000
    cs = random_set(seed, m=m, d=d, samples=1024)
    r = cs.region(alpha, method)
    y = cs.loc + cs.scale * np.random.default_rng(seed).normal(size=(n, m, d))
    each = r.contains(y).mean(0)
    noise = np.sqrt(each * (1 - each) / n) + 1 / n
    assert (r.lower_probability <= each + 4.5 * noise + 5 * r.error + 1e-9).all()
    assert (r.upper_probability >= each - 4.5 * noise - 5 * r.error - 1e-9).all()
    # Levels from 1024 draws: unbiased would be 1 - alpha, optimism included a little less.
    slack = 0 if method in ("union", "box") else 0.04
    assert each.min() >= 1 - alpha - slack - 4.5 * noise.max()


# --- lower density and minimal regions -------------------------------------------------------------------


def minimal_length(loc, scale, alpha):
    """The smallest set of lower probability 1 - alpha on the line: a fractional covering problem on a fine grid,
    solved through its dual by scipy."""
    grid = np.linspace((loc - 6 * scale).min(), (loc + 6 * scale).max(), 20001)
    p = stats.norm.pdf(grid[:, None], loc, scale)
    step = grid[1] - grid[0]

    def dual(x):
        return -((1 - alpha) * x.sum() - np.maximum(p @ x - 1, 0).sum() * step)

    best = min(
        (
            optimize.minimize(dual, np.full(len(loc), s), bounds=[(0, None)] * len(loc), method="Powell")
            for s in (1, 9)
        ),
        key=lambda r: r.fun,
    )
    return -best.fun


@pytest.mark.parametrize(
    ("loc", "scale"), [([0, 1.0], [1, 0.7]), ([0, 4.0], [1, 2.0]), ([0, 0.5, 9], [1, 0.3, 1])]
)
def test_the_minimal_region_on_the_line_has_the_dual_s_length(loc, scale):
    loc, scale = np.array(loc, dtype=float), np.array(scale, dtype=float)
    cs = DiagonalNormalCredalSet(loc[:, None], scale[:, None], samples=1 << 14)
    r = cs.region(0.1, "minimal")
    truth = minimal_length(loc, scale, 0.1)
    assert float(r.measure) == pytest.approx(truth, rel=0.01)
    assert float(r.lower_probability) == pytest.approx(0.9, abs=0.005)
    assert r.measure - r.gap - 4 * r.measure_error <= truth * 1.005
    union, box = cs.region(0.1), cs.region(0.1, "box")
    assert r.measure <= min(union.measure, box.measure) * 1.01


def test_the_minimal_region_is_no_larger_than_the_others():
    """Definition "ihdr-def", condition 2, for sets of any dimension."""
    for d in (1, 2, 3, 20):
        cs = random_set(d, d=d, samples=4096)
        sizes = {method: cs.region(0.1, method).log_measure for method in METHODS}
        # a level on the safe side costs volume, the more the more dimensions there are
        assert sizes["minimal"] <= min(sizes.values()) + 0.03 * max(1, d / 4)


def test_the_lower_density_region_on_the_line_is_the_interval_of_its_level():
    loc, scale = np.array([0.0, 1.0]), np.array([1.0, 0.7])
    cs = DiagonalNormalCredalSet(loc[:, None], scale[:, None], samples=1 << 14)
    r = cs.region(0.1, "lower-density")
    grid = np.linspace(-9, 9, 400001)
    low = stats.norm.pdf(grid[:, None], loc, scale).min(-1)

    def shortfall(log_c):
        inside = grid[low >= np.exp(log_c)]
        return (stats.norm.cdf(inside[-1], loc, scale) - stats.norm.cdf(inside[0], loc, scale)).min() - 0.9

    level = optimize.brentq(shortfall, -12, np.log(low.max()) - 1e-3, xtol=1e-6)
    # the level is taken on the safe side: a region that is a little larger, never a smaller one
    assert level - 0.1 < float(r.log_level) < level + 0.01
    inside = grid[low >= np.exp(level)]
    assert float(r.measure) == pytest.approx(inside[-1] - inside[0], rel=0.01)


def test_areas_in_the_plane_agree_with_counting():
    cs = DiagonalNormalCredalSet(LOC, SCALE)
    low, high = (LOC - 6 * SCALE).min(0), (LOC + 6 * SCALE).max(0)
    for method in ("lower-density", "minimal"):
        r = cs.region(0.1, method)
        assert abs(area(r, low, high) - r.measure) < 4 * r.measure_error + 0.03


def test_a_hundred_dimensions_stay_finite():
    cs = random_set(9, m=3, d=100, samples=512)
    for method in METHODS:
        r = cs.region(0.05, method)
        assert np.isfinite(r.log_measure)
        assert np.isfinite(r.lower_probability)
    needles = DiagonalNormalCredalSet(np.zeros((2, 100)), [[1e-8], [1e8]], samples=256)
    for method in METHODS:
        assert np.isfinite(needles.region(0.05, method).log_measure)


def test_more_extremes_than_directions():
    r = random_set(11, m=32, d=2, samples=256).region(0.1, "minimal")
    assert 0.8 < r.lower_probability <= r.upper_probability <= 1
    assert r.measure > 0


def test_shapes_kinds_and_membership_over_a_batch():
    cs = random_set(12, batch=(2, 3), samples=64)
    for method in METHODS:
        r = cs.region(0.1, method)
        assert r.measure.shape == r.lower_probability.shape == r.error.shape == (2, 3)
        assert r.contains(np.zeros(2)).shape == (2, 3)
        assert r.contains(np.zeros((7, 1, 1, 2))).shape == (7, 2, 3)
        one = cs[1, 0].region(0.1, method)
        y = np.random.default_rng(0).normal(size=(50, 2))
        np.testing.assert_array_equal(r.contains(y[:, None, None])[:, 1, 0], one.contains(y))
    torch_set = DiagonalNormalCredalSet(torch.tensor(cs.loc), torch.tensor(cs.scale), samples=64)
    assert isinstance(torch_set.region(0.1, "minimal").measure, torch.Tensor)
    assert isinstance(torch_set.region(0.1).contains(torch.zeros(2)), torch.Tensor)


def test_bad_points_are_named():
    r = random_set(0).region(0.1)
    with pytest.raises(ValueError, match=r"points of this space are \(..., 2\)"):
        r.contains(np.zeros(3))
    with pytest.raises(ValueError, match=r"y\[0\] is nan"):
        r.contains([np.nan, 0.0])


@pytest.mark.slow
def test_coverage_over_many_random_sets_is_unbiased():
    """The reported lower probability against 10^5 draws, over 40 sets and three methods."""
    scores = []
    for seed in range(40):
        cs = random_set(seed, m=3, d=3, samples=4096)
        y = cs.loc + cs.scale * np.random.default_rng(seed).normal(size=(100000, 3, 3))
        for method in ("union", "lower-density", "minimal"):
            r = cs.region(0.1, method)
            scores.append((r.contains(y).mean(0).min() - r.lower_probability) / np.hypot(r.error, 1e-3))
    assert abs(np.mean(scores)) < 0.6
    assert np.max(np.abs(scores)) < 5


@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_minimal_is_never_larger_and_every_region_covers(alpha, d):
    source = np.random.default_rng(d)
    loc, scale = source.normal(size=(12, 3, d)), np.exp(0.4 * source.normal(size=(12, 3, d)))
    credal = DiagonalNormalCredalSet(loc, scale)
    regions = {name: credal.region(alpha, name) for name in ("union", "lower-density", "minimal")}
    for name, region in regions.items():
        assert (region.lower_probability >= 1 - alpha - 1e-9).all(), name
        assert (regions["minimal"].log_measure <= region.log_measure + 1e-9).all(), name
    smallest = regions["minimal"]
    assert set(np.unique(smallest.shape)) <= {0, 1, 2}
    assert (smallest.gap >= 0).all()
    assert (smallest.gap <= smallest.measure * (1 + 1e-9)).all()


@pytest.mark.parametrize("alpha", [0.999, 0.99999])
def test_a_minimal_region_that_simulation_misses_is_not_called_small(alpha):
    """Nothing that covers is shorter than the exact minimal region on the line."""
    source = np.random.default_rng(7)
    loc, scale = 2 * source.normal(size=(6, 3)), 10 ** source.uniform(-0.7, 0.7, size=(6, 3))
    least = NormalCredalSet(loc, scale).region(alpha, "minimal").measure
    region = DiagonalNormalCredalSet(loc[..., None], scale[..., None]).region(alpha, "minimal")
    assert (region.measure + 4 * region.measure_error >= least).all()
    assert (region.measure_error < 0.5 * region.measure).all()


def test_a_minimal_region_contains_what_its_shape_contains():
    source = np.random.default_rng(0)
    loc, scale = source.normal(size=(40, 2, 2)), np.exp(0.6 * source.normal(size=(40, 2, 2)))
    credal = DiagonalNormalCredalSet(loc, scale)
    y = 2 * source.normal(size=(40, 2))
    for alpha in (0.05, 0.5, 0.99):
        smallest, names = credal.region(alpha, "minimal"), ("minimal", "union", "lower-density")
        for i, name in enumerate(names[1:], start=1):
            which = smallest.shape == i
            other = credal.region(alpha, name).contains(y)
            np.testing.assert_array_equal(smallest.contains(y)[which], other[which])


def groups_of_size(logs):
    """0 for the largest and for those down to a quarter of it, 1 for the largest of the rest with its own, ..."""
    group, left = np.full(len(logs), -1), 0
    while (group < 0).any():
        group[(group < 0) & (logs >= logs[group < 0].max() - np.log(4))] = left
        left += 1
    return group


@pytest.mark.parametrize("ratio", [1.0, 0.5, 0.1])
def test_the_volume_of_two_overlapping_disks(ratio):
    """Closed form (two circular segments), for disks as large as each other and for a large and a small one."""
    apart = 0.45
    region = DiagonalNormalCredalSet([[0.0, 0.0], [apart, 0.0]], [[1.0, 1.0], [ratio, ratio]]).region(0.9)
    R = np.sqrt(stats.chi2.ppf(0.1, 2))
    r, d = ratio * R, apart
    x, y = (d * d + r * r - R * R) / (2 * d * r), (d * d + R * R - r * r) / (2 * d * R)
    root = np.sqrt((-d + r + R) * (d + r - R) * (d - r + R) * (d + r + R))
    lens = r * r * np.arccos(x) + R * R * np.arccos(y) - root / 2
    truth = np.pi * (R * R + r * r) - lens
    assert abs(region.measure - truth) <= 5 * region.measure_error + 1e-12
    assert region.measure_error < 0.01 * truth


@trials(20)
@given(
    st.integers(0, 10**6),
    st.integers(1, 5),
    st.sampled_from([1, 2, 60]),
    st.sampled_from([0.0, 0.1, 1.0, 8.0]),
)
def test_nodes_are_counted_as_if_all_were_looked_at_in_full(seed, m, d, spread):
    """The volume and the probabilities of a union, from all nodes and all distances in float64 by numpy."""
    rng = np.random.default_rng(seed)
    loc, scale = rng.normal(0, 0.3, (3, m, d)), np.exp(spread * rng.normal(size=(3, m, d)))
    region = DiagonalNormalCredalSet(loc, scale, samples=512).region(0.1)
    u, z = (
        nodes(d, 512, 1, torch.device("cpu")).flatten(0, 1).numpy() for nodes in (ball_nodes, normal_nodes)
    )
    radius = stats.chi2.ppf(0.9, d)
    for b in range(3):
        size, cover, log_size = [], [], np.log(scale[b]).sum(-1)
        tier = groups_of_size(log_size)
        for j in range(m):
            y, x = (loc[b, j] + s * scale[b, j] * n for s, n in ((np.sqrt(radius), u), (1, z)))
            held, near = (
                (((n[:, None] - loc[b]) / scale[b]) ** 2).sum(-1) <= radius * (1 + 1e-14) for n in (y, x)
            )
            held[:, j] = True
            outside = ~held[:, tier < tier[j]].any(-1)
            size.append(np.mean(outside / held[:, tier == tier[j]].sum(-1)) * np.exp(log_size[j]))
            cover.append(0.9 + np.mean(near.any(-1) & ((z**2).sum(-1) > radius)))
        unit = np.exp(d / 2 * np.log(np.pi * radius) - special.gammaln(d / 2 + 1))
        np.testing.assert_allclose(region.measure[b], unit * sum(size), rtol=1e-12 * d)
        np.testing.assert_allclose(
            [region.lower_probability[b], region.upper_probability[b]], [min(cover), max(cover)], rtol=1e-12
        )


def test_nodes_next_to_an_edge_are_told_apart():
    """Ellipsoids whose edge a node misses by a billionth, on either side: in single precision half are mistaken."""
    d, nodes = 60, 40
    u = ball_nodes(d, 512, 1, torch.device("cpu")).flatten(0, 1).numpy()
    reach = np.linalg.norm(u, axis=-1)
    # Those far out: an ellipsoid much smaller than the other would not be asked of its nodes.
    ratio = np.sort(reach)[-nodes:] * (1 + 1e-9 * np.where(np.arange(nodes) % 2, 1, -1))
    assert (ratio**d > 0.25).all()
    scale = np.ones((nodes, 2, d))
    scale[:, 1] *= ratio[:, None]
    region = DiagonalNormalCredalSet(np.zeros((nodes, 2, d)), scale, samples=512).region(0.1)
    held = (reach <= ratio[:, None]).mean(-1)  # of the nodes of the large ellipsoid, by the small one
    unit = ellipsoid(np.ones(d), stats.chi2.ppf(0.9, d))
    np.testing.assert_allclose(region.measure, unit * (1 - held / 2 + ratio**d / 2), rtol=1e-11)
