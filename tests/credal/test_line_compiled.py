"""Compiled loops on the line: entropies and regions of mixtures against numpy, scipy and tensor operations."""

from __future__ import annotations

import math
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, special, stats
from test_line_single import density, shapes

from cbdl.credal.line import compiled
from cbdl.credal.line.entropy import _all_on_panels, entropies, entropies_and_upper
from cbdl.credal.line.even import MOST, OVER, nodes
from cbdl.credal.line.hdr import hdr_at
from cbdl.credal.line.intervals import Intervals
from cbdl.credal.line.mesh import density as on_mesh
from cbdl.credal.line.mesh import quadrature
from cbdl.credal.line.mixture import Extremes, Mixtures, mixtures
from cbdl.credal.line.regions import region_probabilities
from cbdl.ground import compiling

pytest.importorskip("numba")

f64 = torch.float64


@pytest.fixture
def by_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MANY", 0)
    monkeypatch.setattr(compiled, "LEAST", 0)


@pytest.fixture
def by_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MANY", sys.maxsize)


def given_mixtures(seed: int, count: int = 300, M: int = 6) -> tuple[tuple[np.ndarray, ...], Mixtures]:
    numbers = shapes(seed, count=count, M=M)
    return numbers, mixtures(*(torch.tensor(x, dtype=f64) for x in numbers))


def regions(mix: Mixtures, alpha: float):
    """Levels (B,), and the ends of every region as an array of its own."""
    level, ends = compiled.regions(mix, torch.full((len(mix),), math.log(alpha), dtype=f64), 0.0)
    place, owner = (ends.high + ends.low).numpy(), ends.owner.numpy()
    return level.numpy(), [place[owner == b] for b in range(len(mix))]


def some_sets(seed: int, B: int = 40, m: int = 3, M: int = 5) -> Extremes:
    """Sets whose scales differ by a factor of 50, with a component of no weight far away."""
    rng = np.random.default_rng(seed)
    loc, scale = rng.normal(0, 2, (B, m, M)), 10 ** rng.uniform(-1.3, 0.4, (B, m, M))
    weights = rng.dirichlet(np.ones(M), (B, m))
    weights[:, :, 0] = 0
    loc[:, :, 0], scale[:, :, 0] = 1e9, 1e-9
    return Extremes(*(torch.tensor(x) for x in (loc, scale, weights / weights.sum(-1, keepdims=True))))


@pytest.mark.parametrize(("low", "high"), [(-700, 700), (-1, 1)])
@pytest.mark.parametrize("name", ["exp", "log"])
def test_exponentials_and_logarithms_are_good_to_few_units(name, low, high):
    from cbdl.credal.line.compiled import numbers

    x = np.linspace(low, high, 5001)
    x = np.exp(x) if name == "log" else x
    exact = getattr(np, name)(x.astype(np.longdouble))
    ours = np.array([getattr(numbers, name)(each) for each in x])
    unit = np.spacing(np.maximum(np.abs(exact.astype(float)), np.finfo(float).tiny))
    assert (np.abs(ours - exact) <= (3 if name == "exp" else 2) * unit).all()


def test_the_ratio_of_tail_and_density_is_good_to_few_units():
    from cbdl.credal.line.compiled.numbers import mills

    x = np.concatenate([np.linspace(0, 12, 5001), np.geomspace(12, 1e8, 500)])
    exact = 0.5 * special.erfcx(x * math.sqrt(0.5))
    ours = np.array([mills(each) for each in x])
    assert (np.abs(ours - exact) <= 10 * np.spacing(exact)).all()  # three are ours, the rest is scipy's


@pytest.mark.parametrize("step", [0.37, 0.1848, 0.03])
@pytest.mark.parametrize("seed", range(3))
def test_densities_on_even_nodes_are_off_by_no_more_than_is_said(step, seed):
    """Narrow components and wide ones, whose runs begin anew many times, and one that is not there."""
    from cbdl.credal.line.compiled import lanes

    rng = np.random.default_rng(seed)
    loc, scale = rng.normal(3, 2, 40), 10 ** rng.uniform(0, 1.5, 40) * 0.1
    weight = rng.dirichlet(np.ones(40))
    scale[0], weight[1], loc[1] = 0.1, 0.0, 1e9
    there = weight > 0
    low, high = ((loc + sign * 8.5 * scale)[there] for sign in (-1, 1))
    low, unit = low.min(), scale[there].min()
    size = int(((high.max() - low) / (step * unit)) // 16 + 1) * 16
    p = np.full(size + 1, np.nan)
    lanes.mixture(p, loc, scale, weight, low, unit, step, np.uint64(size), np.empty((lanes.PARTS, 40)))
    assert np.isnan(p[-1])  # nothing is written beyond
    y = np.longdouble(low) + np.arange(size) * (np.longdouble(step) * np.longdouble(unit))
    z = (y[:, None] - loc[there]) / scale[there].astype(np.longdouble)
    exact = (weight[there] / scale[there] * np.exp(-0.5 * z * z)).sum(1) / np.sqrt(2 * np.longdouble(np.pi))
    # components end where they are below rounding of their own: exp(-8.6^2 / 2) < eps / 2
    least = 1e-16 * unit * (weight[there] / scale[there]).sum()
    assert (np.abs(p[:-1] - unit * exact) <= lanes.SLIP * unit * exact + least).all()


def test_entropies_are_those_of_scipy(by_loops):
    sets = some_sets(1, B=6)
    value, error = entropies(sets)
    for b in range(6):
        for j in range(3):
            loc, scale, weights = (t[b, j, 1:].numpy()[None] for t in (sets.loc, sets.scale, sets.weights))

            def integrand(y, own=(loc, scale, weights)):
                p = density(np.array([[y]]), *own)[0, 0]
                return -p * math.log(p) if p > 0 else 0.0

            ends = np.sort(np.concatenate([loc[0] - 9 * scale[0], loc[0], loc[0] + 9 * scale[0]]))
            parts = [integrate.quad(integrand, a, b, epsabs=1e-13, limit=200)[0] for a, b in pairwise(ends)]
            assert float(value[b, j]) == pytest.approx(sum(parts), abs=1e-9)
            assert float(error[b, j]) < 1e-9


@pytest.mark.parametrize("m", [2, 3, 12])
def test_upper_entropies_are_those_of_tensor_operations(m, monkeypatch):
    sets = some_sets(m, m=m)
    answers = []
    for many in (0, sys.maxsize):
        monkeypatch.setattr(compiled, "MANY", many)
        monkeypatch.setattr(compiled, "LEAST", 0)
        answers.append(entropies_and_upper(sets))
    (value, error, best), (other, _, known) = answers
    assert torch.allclose(value, other, rtol=0, atol=1e-10)
    assert (best.gap <= 1e-9).all()
    assert (error <= 1e-10).all()
    # each is proved to its own gap
    assert ((best.value - known.value).abs() <= best.gap + known.gap + 1e-10).all()
    assert torch.allclose(best.weights.sum(-1), torch.ones(len(sets), dtype=f64), atol=1e-12)
    assert (best.weights >= 0).all()


def test_the_error_of_a_coarse_grid_is_told():
    # Between two peaks the logarithm of their sum turns sharply.
    sets = Extremes(*(torch.tensor([[x]], dtype=f64) for x in ([0.0, 6.0], [1.0, 1.0], [0.5, 0.5])))
    size = nodes(sets)
    truth = compiled.entropies(sets, size, 8 * OVER, upper=False)[0]
    for over, least in ((1, 1e-8), (2, 1e-13)):
        value, error = compiled.entropies(sets, size, over, upper=False)
        assert least < abs(float(value - truth)) <= float(error)


@pytest.mark.parametrize("seed", range(4))
def test_nodes_without_exponentials_are_those_with_them(seed):
    """Over as long a way as they are used for, with distances that double on both sides."""
    from cbdl.credal.line.compiled import region_loops, sum_loops

    rng = np.random.default_rng(seed)
    unit = 10.0 ** rng.uniform(-3, 3)
    loc, scale = rng.uniform(-15, 15, 30) * unit, 10 ** rng.uniform(0, 1.2, 30) * unit
    weight = rng.dirichlet(np.ones(30))
    scale[0] = unit
    parts, runs = np.empty((sum_loops.PARTS, 32)), np.empty((3, 32))
    sum_loops.laid_out(loc.min(), loc, scale, weight, parts)
    grid = np.full((7, region_loops.NODES), np.nan)
    n = region_loops.nodes(grid, loc.min(), loc.max(), unit, loc, scale, weight, parts, runs)
    places = np.diff(grid[0, :n])
    assert places[0] == pytest.approx(places[-1])
    assert places[0] > 1.9 * places[n // 2]  # some were doubled
    assert grid[0, 0] <= (loc - region_loops.REACH * scale).min() / unit - loc.min() / unit
    exact = grid.copy()
    sum_loops.on_nodes(exact, n, unit, parts)
    for row in (1, 2, 3):
        assert np.abs(grid[row, :n] - exact[row, :n]).max() < region_loops.SURE / 5
    assert np.allclose(grid[4, :n], exact[4, :n], rtol=1e-11, atol=0)


@pytest.mark.parametrize("alpha", [1e-3, 0.05, 0.2, 0.5])
def test_regions_are_those_of_a_fine_grid(alpha):
    (loc, scale, weights), mix = given_mixtures(1)
    level, ends = regions(mix, alpha)
    sure = np.flatnonzero(~np.isnan(level))
    assert len(sure) > 0.95 * len(level)
    assert sum(len(ends[b]) > 2 for b in sure) > 20
    for b in sure:
        part = loc[b : b + 1], scale[b : b + 1], weights[b : b + 1]
        low, high = (part[0] - 9 * part[1]).min(), (part[0] + 9 * part[1]).max()
        fine = np.linspace(ends[b], np.roll(ends[b], -1), 40)[:, :-1].ravel()
        y = np.sort(np.concatenate([np.linspace(low, high, 4001), fine]))
        near = np.abs(y[:, None] - ends[b]).min(-1) < 1e-9 * (1 + np.abs(y))
        above = density(y[None], *part)[0] >= math.exp(level[b])
        inside = np.searchsorted(ends[b], y) % 2 == 1
        assert (above == inside)[~near].all()


@pytest.mark.parametrize("alpha", [1e-3, 0.05, 0.4])
def test_levels_and_masses_are_those_of_scipy(alpha):
    (loc, scale, weights), mix = given_mixtures(2)
    level, ends = regions(mix, alpha)
    for b in np.flatnonzero(~np.isnan(level)):
        z = (ends[b][:, None] - loc[b]) / scale[b]
        outside = stats.norm.cdf(z[0]) + stats.norm.sf(z[-1])
        for left, right in zip(z[1:-1:2], z[2:-1:2], strict=True):  # gaps, from whichever side is exact
            a, c = np.where(left > 0, -right, left), np.where(left > 0, -left, right)
            outside = outside + stats.norm.cdf(c) - stats.norm.cdf(a)
        assert (weights[b] * outside).sum() == pytest.approx(alpha, rel=1e-10)
        there = density(ends[b][None], loc[b : b + 1], scale[b : b + 1], weights[b : b + 1])[0]
        assert np.log(there) == pytest.approx(np.full(len(there), level[b]), abs=1e-10)


@pytest.mark.parametrize("slack", [0.0, 64.0])
def test_loops_and_tensor_operations_have_the_same_regions(slack, monkeypatch):
    _, mix = given_mixtures(3)
    target = torch.full((len(mix),), math.log(0.05), dtype=f64)
    answers = []
    for many in (0, sys.maxsize):
        monkeypatch.setattr(compiled, "MANY", many)
        monkeypatch.setattr(compiled, "LEAST", 0)
        answers.append(hdr_at(mix, target, slack))
    (level, ends), (other, theirs) = answers
    assert torch.allclose(level, other, rtol=0, atol=1e-10)
    assert torch.equal(ends.owner, theirs.owner)
    assert torch.equal(ends.rising, theirs.rising)
    assert torch.allclose(ends.high + ends.low, theirs.high + theirs.low, rtol=0, atol=1e-8)


def test_levels_that_touch_a_mode_or_a_dip_are_right_or_left_alone():
    # Two equal Normals have one peak up to a distance of two scales; a bump beside a peak that just reaches the level.
    distance = 2 + np.array([-1e-2, -1e-6, 0.0, 1e-9, 1e-6, 1e-3, 1e-1, 1.0, 3.0, 3.2, 3.4])
    loc = np.stack([-distance / 2, distance / 2], -1)
    ones, half = np.ones_like(loc), np.full_like(loc, 0.5)
    mix = mixtures(*(torch.tensor(x, dtype=f64) for x in (loc, ones, half)))
    middle = density(np.zeros((len(loc), 1)), loc, ones, half)[:, 0]
    for alpha in (0.05, 0.45):
        level, ends = regions(mix, alpha)
        sure = ~np.isnan(level)
        assert sure.sum() >= 8
        dips = middle < np.exp(level)
        assert all(len(ends[b]) == (4 if dips[b] else 2) for b in np.flatnonzero(sure))


@pytest.mark.parametrize("seed", range(6))
def test_no_crossing_is_missed_or_made_up_as_the_level_passes_modes_and_dips(seed):
    # Levels that pass the tops of bumps between two nodes of the grid, and the bottoms of dips.
    rng = np.random.default_rng(seed)
    loc = np.cumsum(rng.uniform(2.1, 4.5, 5)) * 1.0
    scale, weights = rng.uniform(1.0, 1.3, 5), rng.dirichlet(np.full(5, 2.0))

    def log_density(y):
        return np.log(density(np.atleast_1d(y)[None], loc[None], scale[None], weights[None])[0])

    y = np.linspace(loc[0] - 1, loc[-1] + 1, 20_001)
    slope = np.gradient(log_density(y), y)
    turns = y[1:][(slope[1:] > 0) != (slope[:-1] > 0)]
    peaks = [
        optimize.minimize_scalar(
            lambda t, sign=sign: sign * log_density(t)[0], bounds=(t - 2e-3, t + 2e-3), method="bounded",
            options={"xatol": 1e-10},
        ).fun * sign
        for t, sign in zip(turns, [-1, 1] * len(turns), strict=False)
    ]  # fmt: skip
    alphas = np.geomspace(1.1e-3, 0.49, 3000)
    mix = mixtures(*(torch.tensor(np.tile(x, (3000, 1)), dtype=f64) for x in (loc, scale, weights)))
    level, ends = compiled.regions(mix, torch.tensor(np.log(alphas)), 0.0)
    level, count = level.numpy(), np.bincount(ends.owner.numpy(), minlength=3000)
    sure = ~np.isnan(level)
    assert sure.mean() > 0.98
    above = np.array([-math.inf, *peaks, -math.inf]) > level[:, None]
    expected = (above[:, 1:] != above[:, :-1]).sum(-1)
    assert len(np.unique(expected[sure])) > 1
    assert np.array_equal(count[sure], expected[sure])


def test_masses_of_intervals_are_those_of_scipy_or_left_alone():
    """Far out as well, with both ends on one side of a component; of half-lines and short pieces nothing is said."""
    sets, rng = some_sets(5), np.random.default_rng(5)
    owner = torch.arange(len(sets)).repeat_interleave(5)
    a = rng.normal(0, 6, len(owner))
    b = a + 10 ** rng.uniform(-0.5, 1, len(owner))
    a[::10], b[5::10] = -math.inf, math.inf
    zero = torch.zeros(len(owner), dtype=f64)
    ends = (torch.tensor(a), zero), (torch.tensor(b), zero)
    ours = compiled.interval_masses(sets, owner, *ends).numpy()
    known = ~np.isnan(ours)
    assert not known[np.isinf(a) | np.isinf(b)].any()
    assert known.mean() > 0.3
    for r in range(len(owner)):
        loc, scale, weights = (t[owner[r], :, 1:].numpy() for t in (sets.loc, sets.scale, sets.weights))
        u, v = (a[r] - loc) / scale, (b[r] - loc) / scale
        short = (v - u) * (1 + np.abs(u)) < 0.1
        u, v = np.where(u > 0, -v, u), np.where(u > 0, -u, v)
        exact = (weights * (stats.norm.cdf(v) - stats.norm.cdf(u))).sum(-1)
        assert np.array_equal(known[r], ~short.any(-1) & np.isfinite(a[r]) & np.isfinite(b[r]))
        # the rounding of z^2 / 2, up to 700, and what cancels at most: a tenth is left
        assert np.allclose(ours[r][known[r]], exact[known[r]], rtol=1e-12, atol=1e-15)


def test_probabilities_of_events_are_those_of_tensor_operations(monkeypatch):
    sets = some_sets(6)
    high = torch.tensor([[-math.inf, -1.0], [0.0, 1e-3], [2.0, 5.0], [7.0, math.inf]], dtype=f64)
    event = Intervals(high.expand(len(sets), -1, -1), torch.zeros(len(sets), 4, 2, dtype=f64))
    answers = []
    for many in (0, sys.maxsize):
        monkeypatch.setattr(compiled, "MANY", many)
        monkeypatch.setattr(compiled, "LEAST", 0)
        answers.append(region_probabilities(sets, event))
    assert torch.allclose(*answers, rtol=1e-12, atol=0)


def test_densities_on_meshes_are_those_of_tensor_operations():
    """Of far and narrow components, whose nodes are differences of large numbers, and of padded meshes."""
    sets = some_sets(7, B=12, M=6)
    sets.loc[::2, :, 1], sets.scale[::2, :, 1] = 1e6, 1e-8
    sets.loc[1::4, :, 2] = -1e4
    mesh = quadrature(sets.loc.flatten(1), sets.scale.flatten(1), sets.weights.flatten(1) > 0)
    exact = on_mesh(mesh, sets.loc, sets.scale, sets.weights)
    ours = compiled.densities(mesh, sets.loc, sets.scale, sets.weights)
    # exp(-700) stands for all that is less; exponents are rounded in units of 700 eps
    assert torch.allclose(ours, exact, rtol=1e-12, atol=1e-280)


def test_entropies_of_sets_that_reach_far_are_those_of_tensor_operations(monkeypatch):
    sets = some_sets(8, B=12)
    sets.loc[:, 0, 1] = 1e7
    answers = []
    for many in (0, sys.maxsize):
        monkeypatch.setattr(compiled, "MANY", many)
        monkeypatch.setattr(compiled, "LEAST", 0)
        answers.append(entropies_and_upper(sets))
    (value, _, best), (other, _, known) = answers
    assert torch.allclose(value, other, rtol=0, atol=1e-12)
    assert ((best.value - known.value).abs() <= best.gap + known.gap + 1e-12).all()
    assert (best.gap <= 1e-9).all()


@pytest.mark.parametrize("scale", [1e-3, 5e-4])
def test_loops_take_even_grids_for_sets_that_reach_far(scale, monkeypatch):
    sets = some_sets(9, B=12)
    sets.scale[:, 1, 2] = scale
    size = nodes(sets)
    assert ((size > MOST) & (size <= compiled.most(3))).all()
    monkeypatch.setattr(compiled, "MANY", 0)
    monkeypatch.setattr(compiled, "LEAST", 0)
    value, error, best = entropies_and_upper(sets)
    exact, its_error, upper, gap, _, upper_error = _all_on_panels(sets)
    assert ((value - exact).abs() <= error + its_error + 1e-11).all()
    assert ((best.value - upper).abs() <= best.gap + gap + best.error + upper_error + 1e-11).all()
    assert (compiled.most(3), compiled.most(64)) == (1 << 18, 1 << 15)


def test_regions_of_long_mixtures_are_those_of_tensor_operations(monkeypatch):
    rng = np.random.default_rng(3)
    loc, scale = rng.normal(0, 1, (30, 200)), 10 ** rng.uniform(-0.5, 0, (30, 200))
    scale[:, 0] = 10 ** rng.uniform(
        -2.2, -1.6, 30
    )  # a few hundred times the length of what is seen beside it
    mix = mixtures(torch.tensor(loc), torch.tensor(scale), torch.full((30, 200), 1 / 200, dtype=f64))
    level, ends = regions(mix, 0.05)
    assert (~np.isnan(level)).mean() > 0.9
    monkeypatch.setattr(compiled, "MANY", sys.maxsize)
    exact, its_ends = hdr_at(mix, torch.full((30,), math.log(0.05), dtype=f64))
    for b in np.flatnonzero(~np.isnan(level)):
        assert level[b] == pytest.approx(exact[b].item(), abs=1e-10)
        np.testing.assert_allclose(
            ends[b], (its_ends.high + its_ends.low)[its_ends.owner == b].numpy(), rtol=0, atol=1e-9
        )


def test_what_loops_cannot_see_they_leave_alone():
    _, mix = given_mixtures(4, count=20)
    for log_alpha in (math.log(1e-9), math.log(0.9), -math.inf):
        level, ends = compiled.regions(mix, torch.full((20,), log_alpha, dtype=f64), 0.0)
        assert level.isnan().all()
        assert len(ends.owner) == 0
    far = mixtures(*(torch.tensor([x], dtype=f64) for x in ([0.0, 1e9], [1.0, 1.0], [0.5, 0.5])))
    assert np.isnan(regions(far, 0.05)[0]).all()
    combs = np.arange(400.0)[None] * 10
    many = mixtures(
        *(torch.tensor(x, dtype=f64) for x in (combs, np.ones((1, 400)), np.full((1, 400), 1 / 400)))
    )
    assert np.isnan(regions(many, 0.05)[0]).all()


def test_components_of_no_weight_and_far_places_do_not_matter():
    numbers, mix = given_mixtures(5, count=60, M=4)
    level, ends = regions(mix, 0.05)
    more = [np.concatenate([x, np.full((60, 1), v)], 1) for x, v in zip(numbers, (1e8, 1e-9, 0), strict=True)]
    again, same = regions(mixtures(*(torch.tensor(x, dtype=f64) for x in more)), 0.05)
    assert np.array_equal(level, again, equal_nan=True)
    assert all(np.array_equal(a, b) for a, b in zip(ends, same, strict=True))
    loc, scale, weights = numbers
    moved = mixtures(
        *(torch.tensor(x, dtype=f64) for x in (loc * 2.0**-20 + 2.0**20, scale * 2.0**-20, weights))
    )
    assert (~np.isnan(regions(moved, 0.05)[0])).mean() > 0.9


def test_threads_share_the_work_and_change_nothing():
    # Every set has its bits from loops of its own; what is done before takes smallest and largest numbers only.
    sets, (_, mix) = some_sets(7, B=41), given_mixtures(7, count=101)
    target = torch.full((len(mix),), math.log(0.05), dtype=f64)
    answers, threads = [], torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            level, ends = compiled.regions(mix, target, 0.0)
            answers.append(
                (*compiled.entropies(sets, nodes(sets), OVER, upper=True), level.nan_to_num(), ends.low)
            )
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*answers, strict=True))


def test_loops_are_loaded_for_much_work_only(monkeypatch):
    monkeypatch.setattr(compiling, "_work", type(compiling._work)())
    monkeypatch.setattr(compiled, "MANY", 10)
    monkeypatch.setattr(compiled, "LEAST", 100)
    assert not compiled.worth(torch.empty(9))
    assert not compiled.worth(torch.empty(50))
    assert compiled.worth(torch.empty(50))
    assert not compiled.worth(torch.empty(9))
    assert not compiled.worth(torch.empty(100, device="meta"))


def test_without_numba_tensor_operations_answer(by_loops, monkeypatch):
    name = "cbdl.credal.line.compiled.region_loops"
    monkeypatch.setitem(sys.modules, "numba", None)
    for own in ("numbers", "entropy_loops", "region_loops"):
        monkeypatch.delitem(sys.modules, f"cbdl.credal.line.compiled.{own}", raising=False)
    compiling.usable.cache_clear()
    try:
        _, mix = given_mixtures(6, count=20)
        assert not compiling.usable(name)
        level, _ = hdr_at(mix, torch.full((20,), math.log(0.05), dtype=f64))
        assert not level.isnan().any()
    finally:
        compiling.usable.cache_clear()
