"""Quick ways on the line against numpy, scipy and the general ways: regions of one interval, even grids, the start."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from cbdl.credal.line.even import even_grid, nodes, on_even_grids
from cbdl.credal.line.grids import sampled_each
from cbdl.credal.line.hdr import hdr, hdr_at
from cbdl.credal.line.interval import shortest_interval
from cbdl.credal.line.mixture import Extremes, mixtures
from cbdl.credal.line.sets import MixtureCredalSet
from cbdl.credal.line.single import single_regions
from cbdl.credal.line.sketch import sketched

f64 = torch.float64


def shapes(seed, count=600, M=6):
    """Mixtures with one peak, with bumps beside it, and with several: scales over a factor of 30, any weights."""
    rng = np.random.default_rng(seed)
    spread = 10 ** rng.uniform(-1.5, 0.7, (count, 1))
    loc, scale = spread * rng.normal(size=(count, M)), 10 ** rng.uniform(-1.0, 0.5, (count, M))
    return loc, scale, rng.dirichlet(np.full(M, 0.7), count)


def density(y, loc, scale, weights):
    """(B, N): of B mixtures at y (B, N), by numpy."""
    z = (y[:, None] - loc[..., None]) / scale[..., None]
    return (weights[..., None] / scale[..., None] * np.exp(-0.5 * z * z)).sum(1) / math.sqrt(2 * math.pi)


def regions(loc, scale, weights, alpha):
    mix = mixtures(*(torch.tensor(x, dtype=f64) for x in (loc, scale, weights)))
    target = torch.full((len(mix),), math.log(alpha), dtype=f64)
    return mix, target, single_regions(mix, target)


@pytest.mark.parametrize("alpha", [1e-3, 0.05, 0.2, 0.5])
def test_what_is_called_one_interval_is_one_on_a_fine_grid(alpha):
    loc, scale, weights = shapes(1, count=400)
    _, _, single = regions(loc, scale, weights, alpha)
    rows = single.rows.numpy()
    assert len(rows) > 30
    ends = (single.start[:, None] + single.low).numpy()
    part = loc[rows], scale[rows], weights[rows]
    low, high = (part[0] - 9 * part[1]).min(-1), (part[0] + 9 * part[1]).max(-1)
    y = np.sort(np.concatenate([np.linspace(low, high, 2001).T, np.linspace(*ends.T, 300).T], 1), -1)
    # Within rounding of an end anything may be seen: the level there is that of the end itself.
    near = np.abs(y[:, :, None] - ends[:, None]).min(-1) < 1e-9 * (1 + np.abs(y))
    above = density(y, *part) >= np.exp(single.level.numpy())[:, None]
    inside = (y > ends[:, :1]) & (y < ends[:, 1:])
    assert (above == inside)[~near].all()


@pytest.mark.parametrize("alpha", [1e-3, 0.05, 0.4])
def test_levels_and_masses_are_those_of_scipy(alpha):
    loc, scale, weights = shapes(2, count=300)
    _, _, single = regions(loc, scale, weights, alpha)
    rows = single.rows.numpy()
    ends = (single.start[:, None] + single.low).numpy()
    part = loc[rows], scale[rows], weights[rows]
    z = (ends[:, :, None] - part[0][:, None]) / part[1][:, None]
    outside = stats.norm.cdf(z[:, 0]) + stats.norm.sf(z[:, 1])
    assert (part[2] * outside).sum(-1) == pytest.approx(np.full(len(rows), alpha), rel=1e-11)
    level = np.repeat(np.exp(single.level.numpy())[:, None], 2, 1)
    assert density(ends, *part) == pytest.approx(level, rel=1e-11)


def test_the_quick_way_and_the_general_way_agree():
    loc, scale, weights = shapes(3, count=200)
    mix, target, single = regions(loc, scale, weights, 0.05)
    # With a slack of next to nothing all regions go the general way.
    general, ends = hdr_at(mix, target, slack=1e-9)
    counts = torch.bincount(ends.owner, minlength=len(mix))
    assert (counts[single.rows] == 2).all()
    assert torch.allclose(single.level, general[single.rows], rtol=0, atol=1e-11)
    place = (ends.high + ends.low)[torch.isin(ends.owner, single.rows)].view(-1, 2)
    mine = (single.start[:, None] + single.low)[single.rows.argsort()]
    assert torch.allclose(mine, place, rtol=0, atol=1e-9)
    level, _ = hdr(mix, 0.05)
    assert torch.allclose(level, general, rtol=0, atol=1e-11)


def test_shapes_on_the_edge_are_left_to_the_general_way_or_right():
    # Two equal Normals have one peak up to a distance of two scales; and a bump that just reaches the level.
    distance = 2 + np.array([-1e-2, -1e-6, 0.0, 1e-9, 1e-6, 1e-3, 1e-1, 1.0, 3.0, 3.2, 3.4])
    loc = np.stack([-distance / 2, distance / 2], -1)
    half = np.full_like(loc, 0.5)
    for alpha in (0.05, 0.45):
        _, _, single = regions(loc, np.ones_like(loc), half, alpha)
        middle = density(np.zeros((len(loc), 1)), loc, np.ones_like(loc), half)[:, 0]
        dips = middle[single.rows] < np.exp(single.level.numpy())
        assert not dips.any()
        assert len(single.rows) >= 6
    # Nothing is asked of what it cannot see.
    mix = mixtures(*(torch.tensor(x, dtype=f64) for x in (loc, np.ones_like(loc), half)))
    for log_alpha in (math.log(1e-9), math.log(0.9), -math.inf):
        assert len(single_regions(mix, torch.full((len(mix),), log_alpha, dtype=f64)).rows) == 0


def test_components_of_no_weight_and_far_places_do_not_matter():
    loc, scale, weights = shapes(4, count=100, M=4)
    _, _, plain = regions(loc, scale, weights, 0.05)
    more = [
        np.concatenate([x, np.full((100, 1), v)], 1) for x, v in ((loc, 1e8), (scale, 1e-9), (weights, 0))
    ]
    _, _, single = regions(*more, 0.05)
    assert torch.equal(plain.rows, single.rows)
    assert torch.allclose(plain.low, single.low, rtol=1e-12, atol=1e-12)
    _, _, far = regions(loc * 2.0**-20 + 2.0**20, scale * 2.0**-20, weights, 0.05)
    assert len(far.rows) > 0.9 * len(plain.rows)


def test_even_grids_hold_the_densities():
    rng = np.random.default_rng(5)
    loc, scale = rng.normal(0, 2, (40, 3, 5)), 10 ** rng.uniform(-1.3, 0.3, (40, 3, 5))
    weights = rng.dirichlet(np.ones(5), (40, 3))
    weights[:, :, 0] = 0
    weights /= weights.sum(-1, keepdims=True)
    loc[:, :, 0], scale[:, :, 0] = 1e9, 1e-9
    sets = Extremes(*(torch.tensor(x) for x in (loc, scale, weights)))
    size = nodes(sets)
    start = torch.where(sets.weights > 0, sets.loc - 8.5 * sets.scale, math.inf).flatten(1).amin(-1)
    for over in (1, 2, 4):
        for row in (0, 23):
            grid = even_grid(sets[row : row + 1], int(size[row]), over)
            y = start[row] + grid.step[0] * grid.unit[0] * torch.arange(grid.p.shape[-1], dtype=f64)
            exact = density(y.numpy()[None].repeat(3, 0), loc[row], scale[row], weights[row]) * float(
                grid.unit[0]
            )
            assert grid.p[0].numpy() == pytest.approx(exact, abs=2e-14)
            assert grid.p[0].sum(-1) * grid.step[0] == pytest.approx(np.ones(3), abs=1e-13)

    # Sets that share a size with larger ones have the same answers.
    def entropy(grid):
        return grid.entropy(grid.p)

    together = on_even_grids(entropy, sets, size)[0]
    alone = torch.cat([on_even_grids(entropy, sets[i : i + 1], size[i : i + 1])[0] for i in range(12)])
    assert torch.allclose(together[:12], alone, rtol=0, atol=1e-12)


def shortest(loc, scale, weights, alpha):
    """The length of the shortest interval that all mixtures (m, M) cover, by scipy."""

    def missed(b, j, room):
        return (weights[j] * stats.norm.sf((b - loc[j]) / scale[j])).sum() - room

    def end(a):
        room = (weights * stats.norm.sf((a - loc) / scale)).sum(-1) - (1 - alpha)
        if room.min() <= 0:
            return 60.0
        return max(optimize.brentq(missed, a, 60, (j, room[j]), xtol=1e-13) for j in range(len(loc)))

    grid = np.linspace(-6, 3, 60)
    best = int(np.argmin([end(a) - a for a in grid]))
    inner = optimize.minimize_scalar(
        lambda a: end(a) - a,
        bounds=(grid[best - 1], grid[best + 1]),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return inner.fun


def test_the_minimal_region_of_sets_that_overlap_is_the_shortest_interval():
    rng = np.random.default_rng(6)
    loc = rng.normal(0, 0.4, (24, 3, 1)) + rng.normal(0, 0.2, (24, 3, 4))
    scale, weights = rng.uniform(0.7, 1.2, (24, 3, 4)), rng.dirichlet(np.ones(4), (24, 3))
    r = MixtureCredalSet(loc, scale, weights).region(0.1, "minimal")
    assert (r.gap <= 1e-10 * r.measure).all()
    assert np.isnan(r.intervals[:, 1:]).all()
    for row in range(4):
        assert r.measure[row] == pytest.approx(shortest(loc[row], scale[row], weights[row], 0.1), rel=1e-8)
    # The start is near the end, so that a few steps are enough.
    sets = Extremes(*(torch.tensor(x) for x in (loc, scale, weights)))
    state, likely = shortest_interval(sketched(*sampled_each(sets), 0.1))
    assert likely.all()
    assert (state.region.high + state.region.low).numpy() == pytest.approx(r.intervals[:, 0], abs=0.1)
    assert np.median(np.abs((state.region.high + state.region.low).numpy() - r.intervals[:, 0])) < 0.01


def test_the_minimal_region_does_not_depend_on_the_company():
    # Overlapping sets, whose regions are intervals, beside sets with two and three of them.
    rng = np.random.default_rng(7)
    apart = np.repeat([0.3, 0.3, 0.3, 4.0, 9.0], 3)[:, None, None]
    loc = apart * rng.normal(size=(15, 3, 1)) + rng.normal(0, 0.3, (15, 3, 4))
    cs = MixtureCredalSet(loc, 0.8)
    together = cs.region(0.05, "minimal")
    assert (together.gap <= 1e-10 * together.measure).all()
    count = (~np.isnan(together.intervals[..., 0])).sum(-1)
    assert len(set(count)) > 1
    rows = range(0, 15, 2)
    alone = [MixtureCredalSet(loc[i], 0.8).region(0.05, "minimal").measure for i in rows]
    assert together.measure[rows] == pytest.approx(np.array(alone), rel=1e-9)


def test_the_region_at_the_level_of_an_outcome_holds_it():
    """Ends of regions that are one interval are moved outwards as far as rounding may be: the outcome is the end."""
    loc, scale, weights = shapes(5, count=400)
    cs = MixtureCredalSet(loc[:, None], scale[:, None], weights[:, None])
    rng = np.random.default_rng(5)
    y = (weights * loc).sum(-1) + 2 * rng.normal(size=400) * (weights * scale).sum(-1)
    survival = cs.log_survival(y)
    mix = mixtures(*(torch.tensor(x, dtype=f64) for x in (loc, scale, weights)))
    rows = single_regions(mix, torch.as_tensor(survival)).rows.numpy()
    assert len(rows) > 100
    region = cs.region_at_level(log_survival=survival)
    assert region.contains(y).all()
    assert np.abs(np.stack(region.hull()) - y).min(0)[rows].max() < 1e-11
