"""Capacities, cores and the generalised Bayes' rule: against enumeration, programmes, and the paper's claims."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial import HalfspaceIntersection

from cbdl.credal.capacity import (
    Capacity,
    core,
    exact,
    generalised_bayes,
    set_functions,
    upper_posterior,
    upper_posterior_bound,
)
from trials import trials

# Pairs (0, 1) and (2, 3) of unknown weight, fair inside: the envelope of two measures that is not convex.
TWO_PAIRS = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])


def events(n: int) -> list[list[int]]:
    return [[i for i in range(n) if a >> i & 1] for a in range(1 << n)]


def extremes(seed: int, m: int, n: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(n), size=m)


def belief(seed: int, n: int, focal: int = 4) -> Capacity:
    rng = np.random.default_rng(seed)
    masses = np.zeros(1 << n)
    np.add.at(masses, rng.integers(1, 1 << n, focal), rng.dirichlet(np.ones(focal)))
    return Capacity.from_moebius(masses)


def intervals(seed: int, n: int) -> Capacity:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(n))
    return Capacity.from_intervals(
        np.maximum(p - 0.3 * rng.random(n), 0), np.minimum(p + 0.3 * rng.random(n), 1)
    )


def distorted(seed: int, n: int) -> Capacity:
    """1 - (1 - P(A))^g: a concave upper probability that is no belief function's plausibility in general."""
    rng = np.random.default_rng(seed)
    p = exact.indicators(n) @ rng.dirichlet(np.ones(n))
    return Capacity.of(1 - (1 - p.clip(0, 1)) ** rng.uniform(1, 4), upper=True)


def concave_prior(seed: int, n: int) -> Capacity:
    kinds = (
        lambda: belief(seed, n).conjugate(),
        lambda: intervals(seed, n).conjugate(),
        lambda: distorted(seed, n),
    )
    return kinds[seed % 3]()


def as_set(points: np.ndarray) -> set[tuple[float, ...]]:
    return {tuple(np.round(p, 6) + 0.0) for p in points}


def basic_solutions(lower: np.ndarray) -> np.ndarray:
    """The extreme points of the core as in a textbook: all ways to make n - 1 inequalities tight."""
    n = lower.size.bit_length() - 1
    rows = exact.indicators(n)[1:-1]
    rows, level = np.vstack([rows, np.eye(n)]), np.append(lower[1:-1], np.zeros(n))
    found = []
    for chosen in itertools.combinations(range(len(rows)), n - 1):
        A = np.vstack([rows[list(chosen)], np.ones(n)])
        if abs(np.linalg.det(A)) < 1e-9:
            continue
        p = np.linalg.solve(A, np.append(level[list(chosen)], 1.0))
        if (rows @ p >= level - 1e-9).all():
            found.append(p)
    return np.array(found)


# --- set functions ----------------------------------------------------------------------------------------


def test_envelopes_are_the_minimum_and_maximum_over_the_extremes() -> None:
    P = extremes(0, 3, 4)
    lower, upper = Capacity.lower_envelope(P), Capacity.upper_envelope(P)
    for event in events(4):
        assert lower(event) == pytest.approx(P[:, event].sum(1).min(), abs=1e-15)
        assert upper(event) == pytest.approx(P[:, event].sum(1).max(), abs=1e-15)
        rest = [i for i in range(4) if i not in event]
        assert upper(event) == pytest.approx(1 - lower(rest), abs=1e-15)
    assert lower(np.array([True, False, True, False])) == lower([0, 2])
    assert lower(3) == lower([3])


def test_moebius_is_the_alternating_sum_over_subsets() -> None:
    v = Capacity.lower_envelope(extremes(1, 3, 4))
    masses = v.moebius()
    for a in range(16):
        subsets = [b for b in range(16) if b & a == b]
        expected = sum((-1) ** (a ^ b).bit_count() * v.values[b] for b in subsets)
        assert masses[a] == pytest.approx(expected, abs=1e-14)


@trials(30)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 7))
def test_moebius_and_its_inverse(seed: int, m: int, n: int) -> None:
    v = Capacity.lower_envelope(extremes(seed, m, n))
    np.testing.assert_allclose(Capacity.from_moebius(v.moebius()).values, v.values, atol=1e-13)
    np.testing.assert_allclose(v.conjugate().conjugate().values, v.values, atol=1e-15)
    assert v.is_monotone()


@trials(30)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 4))
def test_convexity_by_pairs_equals_convexity_by_all_events(seed: int, m: int, n: int) -> None:
    v = Capacity.lower_envelope(np.random.default_rng(seed).multinomial(4, np.full(n, 1 / n), size=m) / 4)
    values = v.values
    brute = all(
        values[a | b] + values[a & b] >= values[a] + values[b] - 1e-12
        for a in range(1 << n)
        for b in range(1 << n)
    )
    assert bool(v.is_convex()) == brute
    assert bool(v.conjugate().is_concave()) == brute


def test_hierarchy_of_capacities() -> None:
    assert belief(0, 5).is_belief()
    assert belief(0, 5).is_convex()
    assert intervals(0, 5).is_convex()
    # Probability intervals are convex but seldom belief functions.
    tight = Capacity.from_intervals([0.0, 0.0, 0.0, 0.0], [0.4, 0.4, 0.4, 0.4])
    assert not tight.is_belief()
    assert tight.is_convex()
    envelope = Capacity.lower_envelope(TWO_PAIRS)
    assert not envelope.is_convex()
    assert envelope.is_monotone()


def test_two_measures_on_three_outcomes_have_a_convex_envelope() -> None:
    P = np.stack([extremes(seed, 2, 3) for seed in range(50)])
    assert Capacity.lower_envelope(P).is_convex().all()


def test_intervals_give_the_natural_extension() -> None:
    low, up = (
        np.array([0.1, 0.0, 0.3, 0.05]),
        np.array([0.9, 0.2, 0.4, 0.3]),
    )  # the first upper is never reached
    v = Capacity.from_intervals(low, up)
    for event in events(4)[1:]:
        cost = np.isin(np.arange(4), event).astype(float)
        found = linprog(cost, A_eq=np.ones((1, 4)), b_eq=[1], bounds=list(zip(low, up, strict=True)))
        assert v(event) == pytest.approx(found.fun, abs=1e-9)
    assert v.in_core([0.35, 0.1, 0.35, 0.2])
    assert not v.in_core([0.35, 0.25, 0.2, 0.2])


# --- the Choquet integral ---------------------------------------------------------------------------------


@trials(40)
@given(st.integers(0, 10**6), st.integers(1, 5), st.booleans())
def test_choquet_equals_the_two_riemann_integrals_of_the_definition(seed: int, n: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    v = Capacity.lower_envelope(extremes(seed, 3, n))
    f = rng.integers(-2, 3, n).astype(float) if ties else rng.normal(size=n)
    cuts = np.unique(np.append(f, 0.0))
    expected = 0.0
    for a, b in itertools.pairwise(cuts):  # the integrand is constant between two values of f
        value = v(f >= (a + b) / 2)
        expected += (b - a) * (value if a >= 0 else value - 1)
    assert v.choquet(f) == pytest.approx(expected, abs=1e-13)


def test_choquet_of_an_additive_capacity_is_the_expectation() -> None:
    p, f = extremes(4, 1, 6), np.random.default_rng(4).normal(size=(7, 6))
    np.testing.assert_allclose(Capacity.lower_envelope(p).choquet(f), f @ p[0], atol=1e-14)


@trials(15)
@given(st.integers(0, 10**6), st.integers(2, 5))
def test_choquet_is_the_extreme_expectation_of_the_core_if_convex_and_a_bound_otherwise(
    seed: int, n: int
) -> None:
    f = np.random.default_rng(seed).normal(size=n)
    for v in (belief(seed, n), intervals(seed, n), Capacity.lower_envelope(extremes(seed, 3, n))):
        vertices = v.core_extremes()
        low, high = (vertices @ f).min(), (vertices @ f).max()
        rows = exact.indicators(n)[1:-1]
        found = linprog(f, A_ub=-rows, b_ub=-v.values[1:-1], A_eq=np.ones((1, n)), b_eq=[1])
        assert low == pytest.approx(found.fun, abs=1e-8)
        assert v.lower_expectation(f) == pytest.approx(low, abs=1e-8)
        assert v.upper_expectation(f) == pytest.approx(high, abs=1e-8)
        assert v.conjugate().upper_expectation(f) == pytest.approx(high, abs=1e-8)
        assert v.choquet(f) <= low + 1e-9
        if v.is_convex():
            assert v.choquet(f) == pytest.approx(low, abs=1e-9)
            assert v.conjugate().choquet(f) == pytest.approx(high, abs=1e-9)


# --- the core ---------------------------------------------------------------------------------------------


@trials(15)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 4))
def test_core_extremes_are_the_basic_solutions(seed: int, n: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    ties = rng.multinomial(6, np.full(n, 1 / n), size=m) / 6
    for v in (belief(seed, n), Capacity.lower_envelope(extremes(seed, m, n)), Capacity.lower_envelope(ties)):
        assert as_set(v.core_extremes()) == as_set(basic_solutions(v.values))
        assert as_set(core.vertices(v.values)) == as_set(v.core_extremes())


@pytest.mark.parametrize("seed", [51, 89])
def test_points_where_many_constraints_meet_make_no_false_edges(seed: int) -> None:
    rng = np.random.default_rng(seed)
    v = Capacity.lower_envelope(rng.multinomial(4, np.full(4, 0.25), size=rng.integers(2, 5)) / 4)
    assert as_set(core.vertices(v.values)) == as_set(basic_solutions(v.values))


def test_core_extremes_of_five_outcomes_equal_qhull() -> None:
    P = extremes(7, 6, 5)
    v = Capacity.lower_envelope(P)
    assert not v.is_convex()
    rows, centre = exact.indicators(5)[1:-1], P.mean(0)
    # Eliminate the last outcome: p(A) >= v(A) becomes an inequality in the first four.
    a = rows[:, :4] - rows[:, 4:]
    halfspaces = np.column_stack([-a, v.values[1:-1] - rows[:, 4]])
    corners = HalfspaceIntersection(halfspaces, centre[:4]).intersections
    corners = np.column_stack([corners, 1 - corners.sum(1)])
    assert as_set(v.core_extremes()) == as_set(corners)


@trials(15)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 5))
def test_theorem_walley_core(seed: int, m: int, n: int) -> None:
    P = extremes(seed, m, n)
    upper = Capacity.upper_envelope(P)
    vertices = upper.core_extremes()
    assert len(vertices) >= 1  # (a)
    again = Capacity.upper_envelope(vertices / vertices.sum(1, keepdims=True))
    np.testing.assert_allclose(again.values, upper.values, atol=1e-8)  # (c)
    assert upper.is_coherent()
    assert upper.in_core(vertices / vertices.sum(1, keepdims=True), tolerance=1e-7).all()
    assert upper.in_core(P).all()  # the core holds the set it came from
    # (b): a point of the core is a mixture of the extreme points.
    p = np.random.default_rng(seed).dirichlet(np.ones(m)) @ P
    A = np.vstack([vertices.T, np.ones(len(vertices))])
    assert (
        linprog(np.zeros(len(vertices)), A_eq=A, b_eq=np.append(p, 1), options={"presolve": False}).status
        == 0
    )


def test_degenerate_cores() -> None:
    p = np.array([[0.2, 0.5, 0.3]])
    np.testing.assert_allclose(Capacity.lower_envelope(p).core_extremes(), p, atol=1e-12)
    np.testing.assert_allclose(core.vertices(Capacity.lower_envelope(p).values), p, atol=1e-9)
    segment = Capacity.lower_envelope(TWO_PAIRS)
    assert as_set(segment.core_extremes()) == as_set(TWO_PAIRS)
    vacuous = Capacity.from_intervals(np.zeros(4), np.ones(4))
    assert as_set(vacuous.core_extremes()) == as_set(np.eye(4))
    assert as_set(core.vertices(vacuous.values)) == as_set(np.eye(4))
    one = Capacity.lower_envelope([[1.0]])
    assert one.core_extremes().tolist() == [[1.0]]
    assert (one.choquet([3.0]), one.upper_expectation([3.0])) == (3.0, 3.0)
    peaked = Capacity.lower_envelope([[1.0, 0.0, 1e-300], [1.0, 1e-300, 0.0]])
    assert as_set(peaked.core_extremes()) == {(1.0, 0.0, 0.0)}


def test_a_batch_pads_with_the_last_extreme_point() -> None:
    P = np.stack([np.stack([extremes(0, 1, 4)[0]] * 3), extremes(1, 3, 4)])
    v = Capacity.lower_envelope(P)
    both = v.core_extremes()
    assert both.shape[0] == 2
    for b in range(2):
        assert as_set(both[b]) == as_set(Capacity.lower_envelope(P[b]).core_extremes())
    f = np.random.default_rng(0).normal(size=4)
    alone = [float(Capacity.lower_envelope(p).upper_expectation(f)) for p in P]
    np.testing.assert_allclose(v.upper_expectation(f), alone, atol=1e-9)


def test_an_empty_core_is_an_error_that_names_the_capacity() -> None:
    good = Capacity.lower_envelope(TWO_PAIRS).values
    # Three halves that cannot all hold 0.7; not convex.
    bad = np.zeros(16)
    bad[[0b0011, 0b0110, 0b0101]] = 0.7
    bad[0b0111] = bad[0b1011] = bad[0b1101] = bad[0b1110] = 0.7
    bad[-1] = 1
    bad[0b0111] = 0.9
    v = Capacity.of(np.stack([good, bad]))
    with pytest.raises(ValueError, match=r"the core of capacity \[1\] is empty"):
        v.core_extremes()
    with pytest.raises(ValueError, match=r"the core of capacity \[1\] is empty"):
        v.upper_expectation([1.0, 0, 0, 0])


def test_sixteen_outcomes() -> None:
    P = extremes(5, 4, 16)
    v = Capacity.lower_envelope(P)
    assert v.is_monotone()
    f = np.random.default_rng(5).normal(size=16)
    assert v.choquet(f) <= (P @ f).min() + 1e-12
    with pytest.raises(
        ValueError, match="16! extreme points, above 8!; merge outcomes, or use upper_expectation"
    ):
        v.core_extremes()
    convex = Capacity.from_intervals(P.min(0), P.max(0))
    assert convex.lower_expectation(f) == pytest.approx(float(convex.choquet(f)))


# --- the generalised Bayes' rule --------------------------------------------------------------------------


def test_a_single_prior_and_likelihood_give_bayes_theorem() -> None:
    p, L = extremes(8, 1, 5), np.random.default_rng(8).random((1, 5))
    posterior = p[0] * L[0] / (p[0] @ L[0])
    prior = Capacity.upper_envelope(p)
    for event in events(5):
        assert upper_posterior_bound(prior, L, event) == pytest.approx(posterior[event].sum(), abs=1e-13)
        assert upper_posterior(prior, L, event) == pytest.approx(posterior[event].sum(), abs=1e-12)


@trials(10)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 3))
def test_theorem_main1_inequality(seed: int, n: int, S: int) -> None:
    rng = np.random.default_rng(seed)
    L = np.exp(rng.normal(size=(S, n)))
    for prior in (Capacity.upper_envelope(extremes(seed, 3, n)), concave_prior(seed, n)):
        for event in events(n):
            bound = upper_posterior_bound(prior, L, event)
            assert upper_posterior(prior, L, event) <= bound + 1e-9
            assert upper_posterior(prior, L, event, interval=True) <= bound + 1e-9


@trials(12)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 3))
def test_theorem_main1_equality_for_a_concave_prior(seed: int, n: int, S: int) -> None:
    prior = concave_prior(seed, n)
    assert prior.is_concave()
    L = np.exp(2 * np.random.default_rng(seed).normal(size=(S, n)))
    for event in events(n):
        bound = upper_posterior_bound(prior, L, event)
        assert upper_posterior(prior, L, event, interval=True) == pytest.approx(float(bound), abs=1e-8)
        assert upper_posterior(prior, L[:1], event) == pytest.approx(
            float(upper_posterior_bound(prior, L[:1], event)), abs=1e-8
        )


def test_only_the_inequality_holds_for_a_prior_that_is_not_concave() -> None:
    prior = Capacity.upper_envelope(TWO_PAIRS)
    assert not prior.is_concave()
    L = np.array([[1.0, 1.0, 3.0, 3.0]])
    # Inside a pair all is fair and known, so the posterior of one of each pair is 1/2, whatever the weights.
    assert upper_posterior(prior, L, [0, 2]) == pytest.approx(0.5, abs=1e-12)
    assert upper_posterior_bound(prior, L, [0, 2]) == pytest.approx(0.75, abs=1e-8)


def test_equality_also_needs_likelihoods_that_can_be_combined_pointwise() -> None:
    # Two likelihoods that differ by a factor have one posterior. Their maximum on A and minimum outside of A
    # is no multiple of them: the bound is attained only if such combinations are likelihoods too.
    prior = Capacity.upper_envelope([[0.5, 0.5]])
    assert prior.is_concave()
    L = np.array([[1.0, 1.0], [2.0, 2.0]])
    assert upper_posterior(prior, L, 0) == pytest.approx(1 / 2)
    assert upper_posterior_bound(prior, L, 0) == pytest.approx(2 / 3)
    assert upper_posterior(prior, L, 0, interval=True) == pytest.approx(2 / 3)


@trials(40)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 3))
def test_lemma_ccv_the_posterior_of_a_concave_prior_is_concave(seed: int, n: int, S: int) -> None:
    prior = concave_prior(seed, n)
    rng = np.random.default_rng(seed)
    posterior = generalised_bayes(prior, np.exp(2 * rng.normal(size=(S, n))))
    assert posterior.is_concave()
    assert posterior.is_monotone()
    assert generalised_bayes(posterior, np.exp(rng.normal(size=(S, n)))).is_concave()


def test_lemma_ccv_needs_the_same_condition_on_the_likelihoods() -> None:
    # A uniform prior and two likelihood functions: the posteriors are the two pairs, and their envelope is not
    # concave, although the prior is.
    prior = Capacity.upper_envelope(np.full((1, 4), 0.25))
    L = 2 * TWO_PAIRS
    exact = [float(upper_posterior(prior, L, event)) for event in events(4)]
    np.testing.assert_allclose(exact, Capacity.upper_envelope(TWO_PAIRS).values, atol=1e-12)
    assert not Capacity.of(exact, upper=True).is_concave()
    assert generalised_bayes(prior, L).is_concave()


def test_the_update_of_all_events_equals_the_bound_event_by_event() -> None:
    L = np.random.default_rng(2).random((2, 3))
    for prior in (
        concave_prior(4, 3),
        Capacity.upper_envelope(np.stack([extremes(s, 3, 3) for s in range(3)])),
    ):
        posterior = generalised_bayes(prior, L)
        assert posterior.batch_shape == prior.batch_shape
        for event in events(3):
            np.testing.assert_allclose(posterior(event), upper_posterior_bound(prior, L, event), atol=1e-8)


def test_programmes_choquet_integrals_and_extreme_points_agree() -> None:
    L = np.random.default_rng(1).random((2, 4))
    L[0, 1] = 0
    for prior in (
        Capacity.upper_envelope(TWO_PAIRS),
        Capacity.upper_envelope(extremes(1, 3, 4)),
        intervals(1, 4),
        belief(1, 4),
    ):
        points = prior.core_extremes()
        programme = exact.Core(*(t.numpy() for t in prior.tables))
        for event in events(4):
            keep = np.isin(np.arange(4), event)
            above, below = points @ (L * keep).T, points @ L.T
            expected = np.divide(above, below, out=np.zeros_like(above), where=below > 0).max()
            assert upper_posterior(prior, L, event) == pytest.approx(expected, abs=1e-12)
            each = [programme.maximum_ratio((row * keep).tolist(), row.tolist()) or 0.0 for row in L]
            assert max(each) == pytest.approx(expected, abs=1e-12)


def test_likelihoods_that_vanish() -> None:
    prior = Capacity.upper_envelope(TWO_PAIRS)
    # Only outcome 0 explains the data: certain, as soon as the first pair has any weight.
    L = np.array([[1.0, 0, 0, 0]])
    assert upper_posterior(prior, L, [0]) == 1
    assert upper_posterior_bound(prior, L, [0]) == 1
    assert upper_posterior(prior, L, [1, 2]) == 0
    assert upper_posterior_bound(prior, L, [1, 2]) == 0
    impossible = Capacity.upper_envelope([[0.5, 0.5, 0, 0]])
    with pytest.raises(ValueError, match="likelihoods give the data probability 0 under every prior"):
        upper_posterior_bound(impossible, [[0, 0, 1.0, 1.0]], [0])


# --- the border -------------------------------------------------------------------------------------------


def test_answers_are_the_users_kind_of_array() -> None:
    P = torch.tensor(extremes(0, 3, 4))
    v = Capacity.lower_envelope(P)
    for x in (v.values, v([0]), v.moebius(), v.is_convex(), v.core_extremes(), v.choquet([1, 2, 3, 4])):
        assert isinstance(x, torch.Tensor)
    assert isinstance(upper_posterior(v, torch.ones(1, 4), 0), torch.Tensor)
    assert isinstance(Capacity.from_moebius(v.moebius().numpy()).values, np.ndarray)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Capacity.of([0, 0.5, 1]), r"values has shape \(3,\); the last length must be 2\^n"),
        (lambda: Capacity.of([0.1, 0.5, 0.5, 1]), r"values begins with 0.1 and ends with 1"),
        (
            lambda: Capacity.of([[0, 0.5, 0.5, 1], [0, 0.5, 0.5, 2]]),
            r"values\[1\] begins with 0 and ends with 2",
        ),
        (lambda: Capacity.of([0, np.nan, 0.5, 1]), r"values\[1\] is nan"),
        (
            lambda: Capacity.of([[0, 0.1, 0.2, 1], [0, -0.4, 0.2, 1]]),
            r"values\[1\] gives the outcomes \[0\] -0.4, less than their part \[\], which has 0; .* raise",
        ),
        (
            lambda: Capacity.of([0, 0.6, 0.2, 0.3, 0.1, 0.7, 0.4, 1]),
            r"values gives the outcomes \[0, 1\] 0.3, less than their part \[0\], which has 0.6",
        ),
        (
            lambda: Capacity.of([0, 0.6, 0.2, 1.2, 0.1, 0.7, 0.4, 1], upper=True),
            r"values gives the outcomes \[0, 1, 2\] 1, less than their part \[0, 1\], which has 1.2; .* lower",
        ),
        (
            lambda: Capacity.from_moebius([0, 1.2, 0.6, -0.8]),
            r"masses gives the outcomes \[0, 1\] 1, less than their part \[0\], which has 1.2",
        ),
        (lambda: Capacity.lower_envelope(np.full((1, 17), 1 / 17)), "17 outcomes, above 16; merge some"),
        (lambda: Capacity.lower_envelope([0.5, 0.5]), r"probs has shape \(2,\)"),
        (lambda: Capacity.lower_envelope([[0.5, 0.6]]), r"probs\[0\] sums to 1.1"),
        (
            lambda: Capacity.from_moebius([0, 0.5, 0.2, 0.1]),
            r"masses\[\] give 0 to the empty event and sum to 0.8",
        ),
        (lambda: Capacity.from_intervals([0.6, 0.6], [1, 1]), r"no probability lies in the intervals\[\]"),
        (lambda: Capacity.from_intervals([0.6, 0.1], [0.5, 1]), r"the interval at \[0\] is \[0.6, 0.5\]"),
        (lambda: Capacity.from_intervals([0.1], [0.5, 1]), r"lower has shape \(1,\), upper \(2,\)"),
        (lambda: belief(0, 3)([3]), r"event\[0\] is 3; outcomes are whole numbers from 0 to 2"),
        (lambda: belief(0, 3)([True, False]), r"event is a mask of shape \(2,\); it must be \(3,\)"),
        (lambda: belief(0, 3).choquet([1, 2]), r"f has shape \(2,\); it must be \(..., 3\)"),
        (lambda: belief(0, 3).in_core([0.5, 0.6, 0.1]), r"p sums to 1.2"),
        (
            lambda: upper_posterior(belief(0, 3), [1, 2, 3], 0),
            r"likelihoods has shape \(3,\); it must be \(S, 3\)",
        ),
        (lambda: upper_posterior(belief(0, 3), [[1, -2, 3]], 0), r"likelihoods\[0, 1\] is -2"),
    ],
)
def test_bad_input_is_named(build: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()  # type: ignore[operator]


@pytest.mark.parametrize("i", range(4))
def test_split_separates_the_events_without_and_with_an_outcome(i: int) -> None:
    without, with_i = set_functions.split(torch.arange(16), i)
    assert torch.equal(with_i - without, torch.full((8,), 1 << i))
