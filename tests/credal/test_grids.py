"""Densities on grids: multiplied up, evaluated, transformed and interpolated, against scipy and mpmath."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from cbdl.credal.line.entropy import entropies, entropies_and_upper
from cbdl.credal.line.even import MOST, _wide, _window, even_grid, nodes
from cbdl.credal.line.grids import graded, of_each, sampled_each, values_of_each
from cbdl.credal.line.minimal import _prepare
from cbdl.credal.line.mixture import Extremes, piece_masses
from cbdl.credal.line.quintic import mass, quintic
from cbdl.credal.line.sketch import sketched
from trials import trials

f64 = torch.float64
EPS = float(np.finfo(float).eps)


def sets_of(
    seed: int, sets: int = 5, m: int = 3, M: int = 8, spread: float = 1.0, low: float = 0.3
) -> Extremes:
    rng = np.random.default_rng(seed)
    loc = rng.normal(0, 1, (sets, m, 1)) + rng.normal(0, spread, (sets, m, M))
    numbers = loc, rng.uniform(low, 1.0, loc.shape), rng.dirichlet(np.ones(M), (sets, m))
    return Extremes(*(torch.tensor(x, dtype=f64) for x in numbers))


def log_density(sets: Extremes, b: int, j: int, y: np.ndarray) -> np.ndarray:
    terms = stats.norm.logpdf(y[:, None], sets.loc[b, j].numpy(), sets.scale[b, j].numpy())
    return special.logsumexp(terms, b=sets.weights[b, j].numpy(), axis=-1)


@pytest.mark.parametrize("spread", [0.0, 0.5, 3.0, 40.0])
def test_values_on_grids_are_those_of_the_densities_also_in_the_tails(spread):
    sets = sets_of(1, spread=spread)
    grid, (logp, slope, bend) = sampled_each(sets)
    for b in range(len(sets)):
        here = grid.owner == b
        y = (grid.high + grid.low)[here].numpy()
        for j in range(sets.m):
            exact = log_density(sets, b, j, y)
            # Eight products of rounded exponentials whose exponents are as large as log p itself.
            np.testing.assert_allclose(logp[here, j], exact, rtol=64 * EPS, atol=64 * EPS)
    one, two, three = values_of_each(sets, grid)
    # Places are counted from the middle of the span, in the least scale: squares of them cancel in p''.
    size = 1 + (grid.high + grid.low).abs().amax().item() / 0.3
    torch.testing.assert_close(slope, two, rtol=64 * EPS * size, atol=64 * EPS * size)
    torch.testing.assert_close(bend, three, rtol=64 * EPS * size**2, atol=64 * EPS * size**2)
    torch.testing.assert_close(logp, one, rtol=64 * EPS, atol=64 * EPS)


def test_between_outermost_locations_cells_are_as_narrow_as_promised_and_beyond_nothing_turns():
    sets = sets_of(2, sets=20)
    grid, (_, slope, _) = sampled_each(sets)
    y = grid.high + grid.low
    low, high = sets.loc.flatten(1).amin(-1), sets.loc.flatten(1).amax(-1)
    unit = sets.scale.flatten(1).amin(-1)[grid.owner]
    inner = (y[1:] <= high[grid.owner[1:]]) & (y[:-1] >= low[grid.owner[:-1]]) & ~grid.ends()[:-1]
    assert ((y[1:] - y[:-1])[inner] <= 0.6 * unit[1:][inner] * (1 + 1e-9)).all()
    assert (slope[y < low[grid.owner]] > 0).all()
    assert (slope[y > high[grid.owner]] < 0).all()


def test_a_component_that_is_not_there_changes_nothing_wherever_it_lies():
    sets = sets_of(3)
    far = torch.full_like(sets.loc[..., :1], 1e9)
    more = Extremes(
        torch.cat([sets.loc, far], -1),
        torch.cat([sets.scale, 1e-5 + 0 * far], -1),
        torch.cat([sets.weights, 0 * far], -1),
    )
    for one, two in zip(sampled_each(sets)[1], sampled_each(more)[1], strict=True):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(entropies(sets)[0], entropies(more)[0], rtol=1e-13, atol=1e-13)


def test_sets_on_even_and_on_graded_grids_stand_in_one_list_in_order():
    near, far = sets_of(4, sets=2), sets_of(5, sets=2, spread=400.0)
    both = Extremes(
        *(torch.stack([a[0], b[0], a[1], b[1]]) for a, b in zip(_parts(near), _parts(far), strict=True))
    )
    grid, values = sampled_each(both)
    assert torch.equal(grid.owner, grid.owner.sort().values)
    assert grid.count[1] == graded(far[:1].pooled()).count[0]
    for one, two in zip(values, values_of_each(both, grid), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)
    wide, each = of_each(grid, values)
    assert torch.equal(each[0][wide.owner == 7], values[0][grid.owner == 2][:, 1])


def _parts(sets: Extremes) -> tuple[torch.Tensor, ...]:
    return sets.loc, sets.scale, sets.weights


@trials(8)
@given(
    st.integers(0, 10**6),
    st.floats(0, 6),
    st.floats(0.05, 1),
    st.sampled_from([1.0, 1e-8, 1e8]),
)
def test_entropies_are_those_of_adaptive_quadrature_within_their_errors(seed, spread, low, unit):
    sets = sets_of(seed, sets=1, m=2, M=4, spread=spread, low=low)
    scaled = Extremes(sets.loc * unit + 1e3 * unit, sets.scale * unit, sets.weights)
    value, error = entropies(scaled)
    assert (error < 1e-10).all()
    for j in range(2):
        ends = np.sort(np.concatenate([(sets.loc + s * sets.scale)[0, j].numpy() for s in (-9, -3, 0, 3, 9)]))

        def integrand(y, j=j):
            logs = log_density(sets, 0, j, y.reshape(-1)).reshape(y.shape)
            return -np.exp(logs) * logs

        exact = integrate.tanhsinh(integrand, ends[:-1], ends[1:], rtol=1e-13).integral.sum()
        # Beyond 9 scales lies 1e-17; a location of 1e3 units leaves 13 digits of the others.
        assert value[0, j].item() == pytest.approx(exact + math.log(unit), abs=error[0, j].item() + 1e-11)


@trials(10)
@given(st.integers(0, 10**6), st.floats(0, 3))
def test_the_upper_entropy_of_even_grids_is_that_of_panels(seed, spread):
    from cbdl.credal.line.entropy import _all_on_panels

    sets = sets_of(seed, sets=3, spread=spread)
    assert (nodes(sets) <= MOST).all()
    own, own_error, best = entropies_and_upper(sets)
    each, each_error, value, gap, _, error = _all_on_panels(sets)
    assert ((own - each).abs() <= own_error + each_error + 1e-12).all()
    assert ((best.value - value).abs() <= best.gap + gap + best.error + error + 1e-12).all()
    assert (best.gap < 1e-9).all()


def test_densities_on_even_grids_integrate_to_one_and_are_right_to_rounding_of_the_highest():
    sets = sets_of(6, sets=4)
    N = int(nodes(sets).max())
    grid = even_grid(sets, N, 2)
    torch.testing.assert_close(
        (grid.p * grid.weight[:, None]).sum(-1), torch.ones(4, 3, dtype=f64), rtol=0, atol=1e-14
    )
    low = (sets.loc - 8.5 * sets.scale).flatten(1).amin(-1)
    for b in range(4):
        y = low[b] + grid.step[b] * grid.unit[b] * torch.arange(grid.p.shape[-1], dtype=f64)
        for j in range(3):
            exact = np.exp(log_density(sets, b, j, y.numpy())) * grid.unit[b].item()
            np.testing.assert_allclose(grid.p[b, j], exact, atol=400 * EPS * exact.max(), rtol=0)


@given(st.lists(st.floats(-1, 1), min_size=6, max_size=6), st.floats(0.1, 2))
def test_polynomials_of_degree_five_are_interpolated_and_integrated_exactly(coefficients, width):
    line = np.polynomial.Polynomial(coefficients)
    first, second = line.deriv(), line.deriv(2)

    def node(y):
        return tuple(torch.tensor([f(y)], dtype=f64) for f in (line, first, second))

    cell = torch.tensor([width], dtype=f64)
    t = torch.tensor([0.37], dtype=f64)
    value, slope, bend = quintic(cell, node(0), node(width)).at(t)
    size = 100 * (1 + width**5) * EPS * 40
    assert value.item() == pytest.approx(line(0.37 * width), abs=size)
    assert slope.item() / width == pytest.approx(first(0.37 * width), abs=size / min(1, width))
    assert bend.item() / width**2 == pytest.approx(second(0.37 * width), abs=size / min(1, width) ** 2)
    density = line + 100  # positive: its logarithm is what the rule asks for

    def logs(y):
        p, d, dd = density(y), first(y), second(y)
        return tuple(torch.tensor([x], dtype=f64) for x in (math.log(p), d / p, dd / p - (d / p) ** 2))

    exact = density.integ()(width) - density.integ()(0)
    assert mass(cell, logs(0), logs(width)).item() == pytest.approx(exact, rel=1e-12)


def test_the_sketch_of_the_dual_is_near_the_dual():
    sets = sets_of(7, sets=12, m=4, M=6)
    shared = _prepare(sets, 0.1)
    sketch = sketched(shared.grid, shared.values, 0.1)
    source = torch.Generator().manual_seed(0)
    for _ in range(5):
        lam = 10 * torch.rand(12, 4, dtype=f64, generator=source)
        near, exact = sketch.dual(lam), shared.dual(lam)
        torch.testing.assert_close(near.short, exact.short, rtol=0, atol=2e-3)
        torch.testing.assert_close(near.measure, exact.measure, rtol=2e-3, atol=2e-3)
        assert (near.short - exact.short).abs().median() < 1e-5


@given(st.floats(-8, 8), st.floats(-8, 8))
def test_half_lines_have_the_mass_of_the_tail(a, b):
    sets = sets_of(8, sets=1, m=2, M=3)
    owner = torch.zeros(4, dtype=torch.int64)
    low, high = min(a, b), max(a, b)
    start = torch.tensor([-math.inf, low, high, -math.inf], dtype=f64)
    end = torch.tensor([low, high, math.inf, math.inf], dtype=f64)
    zero = torch.zeros_like(start)
    found = piece_masses(sets.loc, sets.scale, sets.weights, owner, (start, zero), (end, zero))
    loc, scale, weights = (t[0].numpy() for t in _parts(sets))
    below, above = stats.norm.cdf(low, loc, scale), stats.norm.sf(high, loc, scale)
    np.testing.assert_allclose(found[0], (weights * below).sum(-1), rtol=1e-12)
    np.testing.assert_allclose(found[2], (weights * above).sum(-1), rtol=1e-12)
    np.testing.assert_allclose(found[3], 1, rtol=1e-14)
    np.testing.assert_allclose(found.sum(0) - found[3], 1, rtol=1e-13)


@pytest.mark.parametrize("width", [4.0, 12.0])
def test_components_much_wider_than_others_are_summed_apart_and_lose_nothing(width):
    """Predictives with tails: densities by scipy at every node, entropies by scipy's quadrature; some have no tail."""
    rng = np.random.default_rng(3)
    loc = rng.normal(0, 1, (4, 3, 9)) + rng.normal(0, 50, (4, 1, 1))
    scale = rng.uniform(0.4, 1.0, (4, 3, 9))
    weights = np.full((4, 3, 9), 0.98 / 8)
    scale[..., -1], weights[..., -1] = width, 0.02
    weights[0] = 0.125 * (np.arange(9) < 8)  # a tail that is not there
    sets = Extremes(*(torch.from_numpy(x) for x in (loc, scale, weights)))
    size = int(nodes(sets).amax())
    narrow = ~_wide(sets)
    assert narrow.tolist() == [True] * 8 + [False]
    low = torch.where(sets.weights > 0, sets.loc - 8.5 * sets.scale, torch.inf).flatten(1).amin(-1)
    grid = even_grid(sets, size, 1)
    start, count = _window(sets, narrow, low, grid.step * grid.unit, size)
    assert count < 0.7 * size, "the window must be of use for the test to be one"
    for b in range(4):
        y = low[b].item() + (grid.step * grid.unit)[b].item() * np.arange(size)
        p = (weights[b, ..., None] * stats.norm.pdf(y, loc[b, ..., None], scale[b, ..., None])).sum(-2)
        np.testing.assert_allclose(grid.p[b].numpy(), p * grid.unit[b].item(), rtol=0, atol=4e-15)
    value, error = entropies(sets)
    for b, j in ((0, 0), (1, 2), (3, 1)):

        def integrand(y, b=b, j=j):
            return special.entr((weights[b, j] * stats.norm.pdf(y, loc[b, j], scale[b, j])).sum())

        middle = loc[b, j].mean()
        pieces = np.array([-140, -20, -5, -2, 0, 2, 5, 20, 140]) + middle
        truth = sum(
            integrate.quad(integrand, a, c, limit=200, epsabs=1e-12)[0] for a, c in itertools.pairwise(pieces)
        )
        assert abs(value[b, j] - truth) < 1e-9 + error[b, j]
    assert int(start.min()) >= 0
