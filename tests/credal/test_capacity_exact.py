"""Capacities in exact arithmetic: posteriors at any scale of the likelihood, expectations in the range of f.

The oracles are fractions: every P of the core that can matter is written down, and nothing is rounded.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbdl.credal.capacity import Capacity, exact, generalised_bayes, upper_posterior, upper_posterior_bound
from trials import trials

EPS = np.finfo(np.float64).eps
CLOSE = 200 * EPS
"""Sums of products of at most 16 positive numbers: some twenty roundings a term, and there is no cancellation."""

# Pairs (0, 1) and (2, 3) of unknown weight, fair inside: the envelope of two measures that is not convex.
TWO_PAIRS = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])

Points = list[list[Fraction]]


def fractions(x: np.ndarray) -> list[Fraction]:
    return [Fraction(float(v)) for v in x]


def brute(points: Points, L: np.ndarray, event: list[int]) -> float:
    """max over points and rows of L of the posterior of the event."""
    best = Fraction(0)
    for p, row in itertools.product(points, L):
        joint = [a * b for a, b in zip(p, fractions(row), strict=True)]
        if sum(joint) > 0:
            best = max(best, sum((joint[i] for i in event), Fraction(0)) / sum(joint))
    return float(best)


def belief(seed: int, n: int, focal: int = 4) -> tuple[Capacity, Points]:
    """A belief function, and the extreme points of its core: every mass goes to one outcome of its event."""
    rng = np.random.default_rng(seed)
    sets = [int(a) for a in rng.choice(np.arange(1, 1 << n), focal, replace=False)]
    share = 10.0 ** rng.uniform(-25, 0, focal)
    share = share / share.sum()
    masses = np.zeros(1 << n)
    masses[sets] = share
    total = sum(fractions(share))
    members = [[i for i in range(n) if a >> i & 1] for a in sets]
    points = []
    for chosen in itertools.product(*members):
        p = [Fraction(0)] * n
        for i, mass in zip(chosen, fractions(share), strict=True):
            p[i] += mass / total
        points.append(p)
    return Capacity.from_moebius(masses), points


def likelihood(rng: np.random.Generator, S: int, n: int) -> np.ndarray:
    L = 10.0 ** rng.uniform(-60, 0, (S, n))
    L[rng.random((S, n)) < 0.15] = 0.0
    L[:, rng.integers(n)] = 10.0 ** rng.uniform(-60, 0)
    return L


def test_an_impossible_outcome_with_the_largest_likelihood() -> None:
    prior = Capacity.lower_envelope([[0] + [1 / 6] * 6])
    L = np.array([[1.0, 1e-10, 2e-10, 3e-10, 4e-10, 5e-10, 6e-10]])
    for function in (upper_posterior, upper_posterior_bound):
        assert function(prior, L, [1]) == pytest.approx(1 / 21, rel=CLOSE)
        assert function(prior, L, [0]) == 0
    assert generalised_bayes(prior, L)([1]) == pytest.approx(1 / 21, rel=CLOSE)


@trials(25)
@given(st.integers(0, 10**6), st.integers(2, 9), st.sampled_from([0.0, 1e-12, 1e-30, 1e-200]))
def test_one_prior_has_the_posterior_of_bayes_at_any_scale(seed: int, n: int, rare: float) -> None:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(n))
    p[rng.integers(n, size=n // 2)] = rare
    L = likelihood(rng, 1, n)
    if not (p * L[0]).any():
        return
    event = np.flatnonzero(rng.random(n) < 0.4).tolist()
    expected = brute([fractions(p)], L, event)
    for prior in (Capacity.lower_envelope(p[None] / p.sum()), Capacity.upper_envelope(p[None] / p.sum())):
        for function in (upper_posterior, upper_posterior_bound):
            assert function(prior, L, event) == pytest.approx(expected, rel=CLOSE, abs=0)
            for scale in (2.0**-800, 2.0**800):  # no rounding and no underflow
                assert function(prior, scale * L, event) == pytest.approx(expected, rel=CLOSE, abs=0)


@trials(25)
@given(st.integers(0, 10**6), st.integers(3, 8), st.integers(1, 3))
def test_a_belief_function_has_the_best_posterior_of_its_allocations(seed: int, n: int, S: int) -> None:
    rng = np.random.default_rng(seed)
    prior, points = belief(seed, n, 3)
    L = likelihood(rng, S, n)
    event = np.flatnonzero(rng.random(n) < 0.4).tolist()
    if not any((np.array(p, dtype=float) @ L.T).any() for p in points):
        return
    expected = brute(points, L, event)
    assert upper_posterior(prior, L, event) == pytest.approx(expected, rel=CLOSE, abs=0)
    assert upper_posterior(prior, 1e-240 * L, event) == pytest.approx(
        brute(points, 1e-240 * L, event), rel=CLOSE, abs=0
    )
    f = rng.normal(size=n)
    means = [float(sum(a * b for a, b in zip(p, fractions(f), strict=True))) for p in points]
    assert prior.upper_expectation(f) == pytest.approx(max(means), abs=CLOSE * np.abs(f).max())
    assert prior.lower_expectation(f) == pytest.approx(min(means), abs=CLOSE * np.abs(f).max())
    gain = L[0]  # not negative: then also small expectations have all their digits
    means = [float(sum(a * b for a, b in zip(p, fractions(gain), strict=True))) for p in points]
    assert prior.lower_expectation(gain) == pytest.approx(min(means), rel=CLOSE, abs=0)


def basic_solutions(lower: list[Fraction]) -> Points:
    """The extreme points of the core of four outcomes, as in a textbook: all ways to make three of them tight."""
    rows = [[Fraction(a >> i & 1) for i in range(4)] for a in range(16)]
    points = []
    for chosen in itertools.combinations(range(1, 15), 3):
        p = solved([rows[a] for a in (*chosen, 15)], [lower[a] for a in (*chosen, 15)])
        if p is not None and all(
            sum(x * y for x, y in zip(row, p, strict=True)) >= level
            for row, level in zip(rows, lower, strict=True)
        ):
            points.append(p)
    return points


def solved(A: Points, b: list[Fraction]) -> list[Fraction] | None:
    """Gauss and Jordan, in fractions; None for a singular matrix."""
    rows = [[*row, value] for row, value in zip(A, b, strict=True)]
    for c in range(len(rows)):
        pivot = next((r for r in range(c, len(rows)) if rows[r][c] != 0), None)
        if pivot is None:
            return None
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [x / rows[c][c] for x in rows[c]]
        for r in range(len(rows)):
            if r != c and rows[r][c] != 0:
                rows[r] = [x - rows[r][c] * y for x, y in zip(rows[r], rows[c], strict=True)]
    return [row[-1] for row in rows]


@pytest.mark.parametrize("seed", range(6))
def test_a_prior_that_is_not_convex_at_any_scale(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Multiples of 2^-20 and of 2^-80 of it, so that the envelope is exact.
    parts = rng.multinomial(1 << 20, np.full(4, 0.25), size=3) / (1 << 20)
    P = np.where([[True, True, seed % 2 == 0, True]], parts, parts * 2.0**-80)
    P[:, 3] = 1 - P[:, :3].sum(1) if seed % 2 == 0 else P[:, 3]
    if seed % 2:
        P = parts @ np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 2.0**-30, 1 - 2.0**-30], [0, 0, 0, 1.0]])
    rows = [fractions(p) for p in P]
    lower = [min(sum((p[i] for i in range(4) if a >> i & 1), Fraction(0)) for p in rows) for a in range(16)]
    points = basic_solutions(lower)
    prior = Capacity.lower_envelope(P)
    # Three outcomes that nobody believes in, with the largest likelihoods: seven in all.
    wide = Capacity.lower_envelope(np.column_stack([P, np.zeros((3, 3))]))
    for _ in range(4):
        L = likelihood(rng, 2, 4)
        event = np.flatnonzero(rng.random(4) < 0.5).tolist()
        expected = brute(points, L, event)
        assert upper_posterior(prior, L, event) == pytest.approx(expected, rel=1e-12, abs=0)
        padded = np.column_stack([L, np.full((2, 3), 1e100)])
        assert upper_posterior(wide, padded, event) == pytest.approx(expected, rel=1e-12, abs=0)


@pytest.mark.parametrize("weight", [1.0, 1e-9, 1e-13, 1e-40])
def test_a_prior_whose_rare_part_is_not_convex(weight: float) -> None:
    # Inside a pair all is fair and known, so the posterior of one of each pair is 1/2, however rare both are.
    P = np.column_stack([weight * TWO_PAIRS, np.full((2, 3), (1 - weight) / 3)])
    prior = Capacity.upper_envelope(P)
    L = np.array([[1.0, 1.0, 3.0, 3.0, 0, 0, 0]])
    assert upper_posterior(prior, L, [0, 2]) == pytest.approx(0.5, rel=1e-12)
    assert upper_posterior(prior, L, [0]) == pytest.approx(0.5, rel=1e-12)
    assert upper_posterior_bound(prior, L, [0, 2]) == pytest.approx(0.75, rel=1e-12)
    L = np.array([[1.0, 1.0, 3.0, 3.0, weight, weight, weight]]) / weight
    # All of the second pair's weight: 1.5 against 1.5 and (1 - weight) / weight times weight.
    assert upper_posterior(prior, L, [0, 2]) == pytest.approx(1.5 / (4 - weight), rel=1e-12)


@trials(40)
@given(st.integers(0, 10**6), st.integers(1, 6), st.booleans())
def test_expectations_stay_in_the_range_of_the_gamble(seed: int, n: int, upper: bool) -> None:
    rng = np.random.default_rng(seed)
    share = rng.random(1 << n) * (exact.indicators(n) @ rng.dirichlet(np.ones(n)))
    # The largest of an event's parts: it grows with the event and stays below a probability, convex or not.
    table = np.array([max(share[b] for b in range(a + 1) if a & b == b) for a in range(1 << n)])
    table[0], table[-1] = 0, 1
    f = rng.normal(size=(5, n)) * 10.0 ** rng.uniform(-9, 9)
    v = Capacity.of(1 - table[::-1] if upper else table, upper=upper)
    low, high = f.min(1), f.max(1)
    assert ((low <= v.choquet(f)) & (v.choquet(f) <= high)).all()
    least, most = v.lower_expectation(f), v.upper_expectation(f)
    assert ((low <= least) & (least <= most) & (most <= high)).all()


def test_a_convex_table_with_negative_values_is_no_capacity() -> None:
    # Convex, and its conjugate says that outcome 0 has a probability of up to 1.4.
    with pytest.raises(ValueError, match=r"values gives the outcomes \[0\] -0.4, less than their part \[\]"):
        Capacity.of([0, -0.4, -0.4, 1.0])
    with pytest.raises(
        ValueError, match=r"gives the outcomes \[0, 1\] 1, less than their part \[1\], which has 1.4"
    ):
        Capacity.of([0, 1.4, 1.4, 1.0], upper=True)


def test_values_that_are_off_by_rounding_are_set_right() -> None:
    v = Capacity.of(np.array([1e-9, -1e-8, 0.3, 0.3 - 1e-8, 0.2, 0.2, 0.6, 1 + 1e-8]))
    assert v.is_monotone(0.0)
    np.testing.assert_allclose(v.values, [0, 0, 0.3, 0.3, 0.2, 0.2, 0.6, 1], atol=1e-8)
    assert (v.values >= 0).all()
    assert (v.values <= 1).all()


def test_a_batch_of_convex_and_other_capacities_is_the_capacities_one_by_one() -> None:
    rng = np.random.default_rng(3)
    P = np.stack([TWO_PAIRS, rng.dirichlet(np.ones(4), size=2), TWO_PAIRS[:, [0, 2, 1, 3]]])
    f, L = rng.normal(size=4), 10.0 ** rng.uniform(-20, 0, (2, 4))
    whole = Capacity.lower_envelope(P)
    for b in range(3):
        alone = Capacity.lower_envelope(P[b])
        assert whole.upper_expectation(f)[b] == pytest.approx(float(alone.upper_expectation(f)), rel=CLOSE)
        assert upper_posterior(whole, L, [0, 2])[b] == pytest.approx(
            float(upper_posterior(alone, L, [0, 2])), rel=CLOSE
        )
        np.testing.assert_allclose(
            generalised_bayes(whole, L).values[b], generalised_bayes(alone, L).values, rtol=CLOSE
        )


@pytest.mark.parametrize("n", [3, 5])
def test_a_core_that_only_rounding_has_emptied_is_not_empty(n: int) -> None:
    for seed in range(20):
        p = np.random.default_rng(seed).dirichlet(np.ones(n))
        table = exact.indicators(n) @ p
        table[-1] = 1
        core = exact.Core(table, np.minimum(table, 1.0))
        f = np.random.default_rng(seed).normal(size=n)
        assert core.maximum(f.tolist()) == pytest.approx(float(f @ p), abs=1e-13)
