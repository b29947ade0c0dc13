"""Credal sets over classes, as a user meets them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from cbdl.credal.classes.categorical import CategoricalCredalSet
from trials import trials

TABLE = np.array([[0.7, 0.25, 0.03, 0.01, 0.01], [0.6, 0.2, 0.1, 0.05, 0.05], [0.5, 0.3, 0.15, 0.025, 0.025]])


def softmaxes(seed, *shape, spread=1.0):
    logits = spread * np.random.default_rng(seed).standard_normal(shape)
    return scipy.special.softmax(logits, -1)


probabilities = st.builds(
    lambda seed, m, J, spread: softmaxes(seed, m, J, spread=spread),
    seed=st.integers(0, 10**6),
    m=st.integers(1, 5),
    J=st.integers(1, 5),
    spread=st.sampled_from([0.0, 0.5, 3.0, 30.0, 800.0]),
)


def every_event(J):
    return [list(A) for k in range(J + 1) for A in itertools.combinations(range(J), k)]


# --- the paper's table ---------------------------------------------------------------------------------------


def test_the_papers_table():
    cs = CategoricalCredalSet(TABLE)
    assert (cs.batch_shape, cs.num_extremes, cs.num_classes) == ((), 3, 5)
    np.testing.assert_allclose(cs.lower_probabilities(), [0.5, 0.2, 0.03, 0.01, 0.01])
    np.testing.assert_allclose(cs.upper_probabilities(), [0.7, 0.3, 0.15, 0.05, 0.05])
    assert cs.lower_probability([0, 1, 2]) == pytest.approx(0.9)
    assert cs.upper_probability([0, 1, 2]) == pytest.approx(0.98)
    # No smaller event has a lower probability of 0.9: {1, 2, 3} is the paper's region.
    for A in every_event(5):
        if len(A) < 3:
            assert cs.lower_probability(A) < 0.9 - 1e-9
    for method in ("union", "lower-density", "minimal"):
        region = cs.region(0.1, method)
        assert np.flatnonzero(region.mask).tolist() == [0, 1, 2]
        assert cs.lower_probability(region) == pytest.approx(0.9)
    assert cs.extremes().all()


# --- envelopes -------------------------------------------------------------------------------------------------


@trials(20)
@given(P=probabilities, seed=st.integers(0, 1000))
def test_extrema_gen_lem_the_envelope_of_the_extremes_is_that_of_the_hull(P, seed):
    cs = CategoricalCredalSet(P)
    beta = np.random.default_rng(seed).dirichlet(np.ones(len(P)), size=100)
    for A in every_event(P.shape[1]):
        hull = (beta @ P)[:, A].sum(-1)
        assert (hull >= cs.lower_probability(A) - 1e-12).all()
        assert (hull <= cs.upper_probability(A) + 1e-12).all()
        # inf over the hull, by a linear programme over beta.
        cost = P[:, A].sum(-1)
        best = linprog(cost, A_eq=np.ones((1, len(P))), b_eq=[1])
        assert cs.lower_probability(A) == pytest.approx(best.fun, abs=1e-7)


@trials(40)
@given(P=probabilities)
def test_upper_probability_is_conjugate_to_lower(P):
    cs = CategoricalCredalSet(P)
    J = P.shape[1]
    for A in every_event(J):
        complement = [y for y in range(J) if y not in A]
        assert cs.upper_probability(A) == pytest.approx(1 - cs.lower_probability(complement), abs=1e-12)


def test_an_event_may_be_written_in_many_ways():
    probs = softmaxes(0, 3, 4, 5)
    cs = CategoricalCredalSet(probs)
    exact = probs[..., [1, 3]].sum(-1).min(-1)
    mask = np.array([False, True, False, True, False])
    region = CategoricalCredalSet(np.eye(5)[[[1], [3]]].transpose(1, 0, 2)).region(0.1)
    assert region.mask[0].tolist() == mask.tolist()
    for event in (
        [1, 3],
        (1, 3),
        {1, 3},
        [3, 1, 1, 3],
        range(1, 4, 2),
        np.array([1, 3]),
        np.array([1.0, 3.0]),
        torch.tensor([1, 3]),
        mask,
        mask.tolist(),
        torch.tensor(mask),
        np.tile(mask, (3, 1)),
        region,
    ):
        np.testing.assert_allclose(cs.lower_probability(event), exact, atol=1e-15)


def test_an_index_is_an_event():
    cs = CategoricalCredalSet(TABLE)
    for index in (1, np.int32(1), np.array(1), torch.tensor(1)):
        assert cs.lower_probability(index) == 0.2
        assert cs.upper_probability(index) == 0.3


def test_the_empty_event_and_the_whole_space():
    cs = CategoricalCredalSet(softmaxes(1, 7, 4, 5))
    for empty in ([], np.array([], dtype=int), np.zeros(5, dtype=bool)):
        assert (cs.lower_probability(empty) == 0).all()
        assert (cs.upper_probability(empty) == 0).all()
    for whole in (range(5), np.ones(5, dtype=bool)):
        np.testing.assert_allclose(cs.lower_probability(whole), 1, atol=1e-15)
        assert (cs.upper_probability(whole) <= 1).all()


def test_a_mask_for_every_set_of_the_batch():
    probs, masks = softmaxes(2, 2, 3, 4, 5), np.random.default_rng(0).random((2, 3, 5)) < 0.5
    lower = CategoricalCredalSet(probs).lower_probability(masks)
    np.testing.assert_allclose(lower, (probs * masks[:, :, None]).sum(-1).min(-1), atol=1e-15)
    # One that only the last batch dimension needs is repeated over the first.
    lower = CategoricalCredalSet(probs).lower_probability(masks[0])
    np.testing.assert_allclose(lower, (probs * masks[0][None, :, None]).sum(-1).min(-1), atol=1e-15)


def test_a_region_of_the_set_is_an_event_of_the_set():
    cs = CategoricalCredalSet(softmaxes(3, 20, 4, 6, spread=2.0))
    region = cs.region(0.2, "minimal")
    np.testing.assert_allclose(cs.lower_probability(region), region.lower_probability)
    assert (cs.lower_probability(region) >= 0.8 - 1e-12).all()


@trials(30)
@given(P=probabilities, seed=st.integers(0, 1000))
def test_expectations_are_enclosed_and_attained(P, seed):
    rng = np.random.default_rng(seed)
    cs, f = CategoricalCredalSet(P), rng.standard_normal(P.shape[1])
    lower, upper = cs.lower_expectation(f), cs.upper_expectation(f)
    hull = rng.dirichlet(np.ones(len(P)), size=100) @ P @ f
    assert (hull >= lower - 1e-12).all()
    assert (hull <= upper + 1e-12).all()
    assert lower == pytest.approx((P @ f).min(), abs=1e-12)
    assert upper == pytest.approx(-cs.lower_expectation(-f), abs=1e-12)


def test_a_gamble_may_be_a_function_of_the_class():
    for make in (np.asarray, torch.tensor):
        cs = CategoricalCredalSet(make(TABLE))
        for f in (lambda y: y**2, lambda y: [0, 1, 4, 9, 16][y], lambda y: 0 if y == 0 else float(y * y)):
            assert float(cs.upper_expectation(f)) == pytest.approx((TABLE @ [0, 1, 4, 9, 16]).max())
        assert float(cs.lower_expectation(lambda y: 3.0)) == pytest.approx(3.0)
    values = np.random.default_rng(0).random((2, 5))
    cs = CategoricalCredalSet(np.stack([TABLE, TABLE[::-1]]))
    np.testing.assert_allclose(cs.lower_expectation(values), (TABLE @ values.T).min(0))


# --- uncertainty -----------------------------------------------------------------------------------------------


def test_uncertainty_of_the_table():
    cs = CategoricalCredalSet(TABLE)
    u = cs.uncertainty()
    best = minimize(
        lambda b: -scipy.stats.entropy(b @ TABLE),
        np.full(3, 1 / 3),
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda b: b.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    assert u.total == pytest.approx(-best.fun, abs=1e-8)
    entropies = scipy.stats.entropy(TABLE, axis=-1)
    assert u.aleatoric == pytest.approx(entropies.min())
    assert u.epistemic == pytest.approx(u.total - u.aleatoric)
    assert u.epistemic_lower == pytest.approx(np.ptp(entropies))
    assert u.epistemic_upper == pytest.approx(np.ptp(entropies) + math.log(3), abs=1e-14)
    assert u.gap < 1e-9
    assert u.error == 0


def test_the_unit_of_entropy():
    cs = CategoricalCredalSet(softmaxes(4, 6, 3, 8, spread=2.0))
    nats, bits, share = cs.uncertainty(), cs.uncertainty(base=2), cs.uncertainty(base="classes")
    for field in ("total", "aleatoric", "epistemic", "epistemic_lower", "epistemic_upper"):
        np.testing.assert_allclose(getattr(bits, field) * math.log(2), getattr(nats, field))
        np.testing.assert_allclose(getattr(share, field) * math.log(8), getattr(nats, field))
    assert (share.total <= 1).all()
    everything = CategoricalCredalSet(np.eye(8)).uncertainty(base="classes")
    assert everything.total == pytest.approx(1)
    assert everything.epistemic == pytest.approx(1)


def test_one_distribution_has_no_epistemic_uncertainty():
    u = CategoricalCredalSet(softmaxes(5, 10, 1, 4)).uncertainty()
    assert (u.epistemic == 0).all()
    assert (u.epistemic_upper == 0).all()
    assert (u.gap == 0).all()


@trials(40)
@given(P=probabilities)
def test_epistemic_uncertainty_lies_in_the_papers_bracket(P):
    cs = CategoricalCredalSet(P)
    u = cs.uncertainty()
    assert u.epistemic_lower <= u.epistemic <= u.epistemic_upper + 1e-12
    lower, upper = cs.entropy_bounds()
    assert lower <= u.aleatoric + 1e-12
    assert u.total <= upper + 1e-12


def test_upper_entropy_with_its_certificate():
    probs = softmaxes(6, 2, 3, 4, 5, spread=3.0)
    best = CategoricalCredalSet(probs).upper_entropy(certificate=True)
    assert best.weights.shape == (2, 3, 4)
    mixture = (best.weights[..., None] * probs).sum(-2)
    np.testing.assert_allclose(scipy.stats.entropy(mixture, axis=-1), best.value)
    assert (best.gap < 1e-9).all()


def test_average_uncertainty():
    probs, w = softmaxes(7, 4, 3, 5), np.array([0.5, 0.3, 0.2])
    u = CategoricalCredalSet(probs).average_uncertainty(w, base=2)
    mean = w @ probs
    np.testing.assert_allclose(u.total, scipy.stats.entropy(mean, axis=-1, base=2))
    np.testing.assert_allclose(u.expected_entropy, scipy.stats.entropy(probs, axis=-1, base=2) @ w)
    np.testing.assert_allclose(u.mutual_information, u.total - u.expected_entropy)
    same = CategoricalCredalSet(probs[:, :1].repeat(3, 1)).average_uncertainty()
    assert (same.mutual_information >= 0).all()
    assert (same.mutual_information < 1e-14).all()


def test_other_measures():
    cs = CategoricalCredalSet(np.stack([np.eye(3), np.tile([0.2, 0.3, 0.5], (3, 1))]))
    np.testing.assert_allclose(cs.generalized_hartley(base="classes"), [1, 0], atol=1e-12)
    np.testing.assert_allclose(cs.maximal_imprecision(), [1, 0], atol=1e-12)
    np.testing.assert_allclose(cs.entropy_bounds()[0], [0, scipy.stats.entropy([0.2, 0.3, 0.5])])
    assert cs.entropy_bounds()[1][0] == np.inf


def test_abstain_compares_the_lower_entropy():
    cs = CategoricalCredalSet(np.array([[[0.5, 0.5], [0.4, 0.6]], [[0.5, 0.5], [1.0, 0.0]]]))
    assert cs.abstain(0.5).tolist() == [True, False]


# --- one distribution, decisions, the hull -----------------------------------------------------------------------


def test_center_and_average():
    probs = softmaxes(8, 2, 3, 4)
    cs = CategoricalCredalSet(probs)
    np.testing.assert_allclose(cs.center(), probs.mean(1))
    np.testing.assert_allclose(cs.average([0.2, 0.3, 0.5]), np.array([0.2, 0.3, 0.5]) @ probs)
    each = np.array([[1.0, 0, 0], [0, 0, 1.0]])
    np.testing.assert_allclose(cs.average(each), np.stack([probs[0, 0], probs[1, 2]]))


def test_maximin_is_the_papers_step_six():
    probs = softmaxes(9, 50, 4, 6, spread=2.0)
    cs = CategoricalCredalSet(probs)
    worst = probs.min(1)
    assert (cs.decide() == (worst == worst.max(-1, keepdims=True))).all()
    one = cs.decide(single=True)
    assert one.shape == (50,)
    assert (one == worst.argmax(-1)).all()


def test_a_single_choice_is_one_of_the_optimal_ones_and_fixed_by_the_seed():
    cs = CategoricalCredalSet(np.tile([[0.4, 0.4, 0.2]], (400, 1, 1)))
    a, b = cs.decide(single=True, seed=1), cs.decide(single=True, seed=1)
    assert (a == b).all()
    assert set(a.tolist()) == {0, 1}
    assert 140 < (a == 0).sum() < 260
    assert (a != cs.decide(single=True, seed=2)).any()


def test_decisions_with_a_utility():
    cs = CategoricalCredalSet([[0.9, 0.1], [0.5, 0.5]])
    # Say 0, say 1, or abstain for a sure 0.6.
    utility = [[1, 0], [0, 1], [0.6, 0.6]]
    assert cs.decide("gamma-maximin", utility).tolist() == [False, False, True]
    assert cs.decide("maximality", utility).tolist() == [True, False, True]
    assert cs.decide("e-admissible", utility).tolist() == [True, False, True]
    assert cs.decide("interval-dominance", utility).tolist() == [True, False, True]


def test_extremes_and_reduce():
    corners = np.eye(3)
    full = np.stack([corners[0], corners[1], np.full(3, 1 / 3), corners[2], corners[0]])
    thin = np.stack([corners[0], 0.5 * (corners[0] + corners[1]), corners[1], corners[1], corners[0]])
    cs = CategoricalCredalSet(np.stack([full, thin]))
    assert cs.extremes().tolist() == [[True, True, False, True, False], [True, False, True, False, False]]
    small = cs.reduce()
    assert small.num_extremes == 3
    np.testing.assert_allclose(small.probs[0], corners)
    np.testing.assert_allclose(small.probs[1], corners[[0, 1, 0]])
    np.testing.assert_allclose(small.upper_entropy(), cs.upper_entropy(), atol=1e-9)
    assert CategoricalCredalSet(full).reduce().batch_shape == ()


@trials(15)
@given(P=probabilities, seed=st.integers(0, 1000))
def test_the_hull_contains_its_mixtures_and_reduction_keeps_it(P, seed):
    cs = CategoricalCredalSet(P)
    beta = np.random.default_rng(seed).dirichlet(np.ones(len(P)), size=6)
    assert cs.contains(beta @ P).all()
    small = cs.reduce()
    assert small.contains(P).all()
    for A in every_event(P.shape[1]):
        assert small.lower_probability(A) == pytest.approx(cs.lower_probability(A), abs=1e-8)


def test_contains_pairs_sets_with_distributions():
    cs = CategoricalCredalSet([[[0.9, 0.1], [0.6, 0.4]], [[0.5, 0.5], [0.2, 0.8]]])
    assert cs.contains([0.7, 0.3]).tolist() == [True, False]
    assert cs.contains([[0.7, 0.3], [0.3, 0.7]]).tolist() == [True, True]
    assert cs[0].contains([[0.7, 0.3], [0.3, 0.7]]).tolist() == [True, False]


def test_distance_of_a_member_is_zero_and_of_a_single_element_is_the_plain_one():
    cs = CategoricalCredalSet(TABLE)
    p = np.full(5, 0.2)
    for kind in ("kl", "tv", "hellinger"):
        assert cs.distance(TABLE.mean(0), kind) == pytest.approx(0, abs=1e-5)
    best = cs.distance(p, "tv", certificate=True)
    assert best.weights.shape == (3,)
    assert abs(best.weights @ TABLE - p).sum() / 2 == pytest.approx(best.value, abs=1e-9)
    assert cs.distance(p, "tv") == pytest.approx(best.value)
    alone = CategoricalCredalSet(TABLE[:1])
    assert alone.distance(p, "tv") == pytest.approx(abs(TABLE[0] - p).sum() / 2)
    assert alone.distance(np.stack([p, TABLE[0]]), "tv").shape == (2,)
    by_index = alone.distance(p, "w1", cost="index")
    assert by_index == pytest.approx(scipy.stats.wasserstein_distance(range(5), range(5), TABLE[0], p))
    steps = abs(np.subtract.outer(np.arange(5), np.arange(5)))
    assert alone.distance(p, "w1", cost=steps) == pytest.approx(by_index)


# --- kinds of arrays, batches, precision ---------------------------------------------------------------------------


def test_the_same_kind_comes_out_as_went_in():
    for cs, kind in (
        (CategoricalCredalSet(TABLE), np.ndarray),
        (CategoricalCredalSet(torch.tensor(TABLE)), torch.Tensor),
    ):
        answers = [
            cs.probs,
            cs.lower_probability(0),
            cs.upper_expectation(range(5)),
            cs.entropies(),
            cs.upper_entropy(),
            cs.center(),
            cs.decide(),
            cs.extremes(),
            cs.contains(TABLE[0]),
            cs.uncertainty().total,
            cs.generalized_hartley(),
            cs.region(0.1).mask,
        ]
        for answer in answers:
            assert isinstance(answer, kind)
    assert CategoricalCredalSet(torch.tensor(TABLE, requires_grad=True)).probs.requires_grad is False


def test_batches_of_any_shape_are_sets_one_by_one():
    probs = softmaxes(10, 2, 3, 4, 5, spread=2.0)
    cs = CategoricalCredalSet(probs)
    u, mask = cs.uncertainty(), cs.decide("e-admissible")
    assert cs.batch_shape == u.total.shape == (2, 3)
    for i, j in itertools.product(range(2), range(3)):
        one = CategoricalCredalSet(probs[i, j])
        assert one.uncertainty().total == pytest.approx(u.total[i, j], abs=1e-9)
        assert (one.decide("e-admissible") == mask[i, j]).all()
        np.testing.assert_array_equal(cs[i, j].probs, one.probs)


def test_indexing_the_batch():
    cs = CategoricalCredalSet(softmaxes(11, 6, 2, 3, 4))
    assert cs[0].batch_shape == (2,)
    assert cs[-1, 1].batch_shape == ()
    assert cs[1:3].batch_shape == (2, 2)
    assert cs[np.array([True, False] * 3)].batch_shape == (3, 2)
    assert cs[torch.tensor([0, 5])].batch_shape == (2, 2)
    np.testing.assert_array_equal(cs[..., 1].probs, cs.probs[:, 1])
    assert len(list(cs)) == 6
    with pytest.raises(IndexError):
        cs[6]
    with pytest.raises(IndexError, match="single set"):
        cs[0, 0][0]


def test_repr_is_short():
    cs = CategoricalCredalSet(softmaxes(12, 7, 3, 4))
    assert repr(cs) == "CategoricalCredalSet(batch_shape=(7,), num_extremes=3, num_classes=4)"


def test_float32_softmax_is_accepted_and_renormalised():
    generator = torch.Generator().manual_seed(0)
    logits = 100 * torch.randn(200, 5, 50, generator=generator).sign() + torch.randn(
        200, 5, 50, generator=generator
    )
    cs = CategoricalCredalSet(torch.softmax(logits, -1))
    assert cs.probs.dtype == torch.float64
    torch.testing.assert_close(cs.probs.sum(-1), torch.ones(200, 5, dtype=torch.float64), rtol=0, atol=1e-15)
    u = cs.uncertainty()
    for x in (u.total, u.aleatoric, u.epistemic):
        assert torch.isfinite(x).all()
    assert (u.gap < 1e-9).all()


def test_the_input_is_not_changed_and_not_shared():
    probs = TABLE.copy()
    cs = CategoricalCredalSet(probs)
    np.testing.assert_array_equal(probs, TABLE)
    probs[:] = 0
    np.testing.assert_allclose(cs.probs, TABLE)
    tensor = torch.tensor(TABLE * (1 + 1e-8))
    CategoricalCredalSet(tensor)
    np.testing.assert_array_equal(tensor, TABLE * (1 + 1e-8))


def test_a_large_batch_in_bounded_memory():
    P = np.tile(softmaxes(13, 1000, 4, 10, spread=3.0), (100, 1, 1))
    u = CategoricalCredalSet(P).uncertainty()
    assert (u.gap < 1e-9).all()
    np.testing.assert_allclose(u.total[:1000], u.total[-1000:], atol=1e-9)


def test_many_extremes_over_many_classes():
    cs = CategoricalCredalSet(softmaxes(14, 64, 1000, spread=3.0))
    u = cs.uncertainty()
    assert u.gap < 1e-9
    assert u.epistemic_lower <= u.epistemic <= u.epistemic_upper
    assert cs.decide().sum() == 1
    assert cs.region(0.1).measure <= 1000


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("probs", "message"),
    [
        ([0.5, 0.5], r"probs has shape \(2,\); it must be \(..., m, J\)"),
        (np.zeros((0, 2, 2)), "which holds nothing"),
        (np.zeros((2, 0)), "which holds nothing"),
        ([[0.5, 0.5], [0.5]], "probs is not a rectangular array"),
        ([["a", "b"]], "probs is not a rectangular array"),
        ([[0.5, np.nan]], r"probs\[0, 1\] is nan"),
        ([[0.5, np.inf]], r"probs\[0, 1\] is inf"),
        (np.ma.masked_equal([[0.4, 0.6]], 0.6), r"probs\[0, 1\] is nan"),
        ([[0.5, 0.5], [1.5, -0.5]], r"probs\[1, 1\] is -0.5; probabilities are at least 0 .*softmax"),
        ([[0.5, 0.5], [0.5, 0.6]], r"probs\[1\] sums to 1.1, not to 1 \(tolerance 1e-06\)"),
        (np.array([[0.5, 0.501]], dtype=np.float32), r"tolerance 0.0001"),
        (torch.ones(1, 2, dtype=torch.complex64), "probs is complex"),
    ],
)
def test_bad_probabilities_are_named(probs, message):
    with pytest.raises(ValueError, match=message):
        CategoricalCredalSet(probs)


def test_tolerances_of_the_two_precisions():
    CategoricalCredalSet([[0.5, 0.5 + 9e-7]])
    with pytest.raises(ValueError, match="sums to"):
        CategoricalCredalSet([[0.5, 0.5 + 2e-6]])
    CategoricalCredalSet(np.array([[0.5, 0.50009]], dtype=np.float32))
    with pytest.raises(ValueError, match="sums to"):
        CategoricalCredalSet(np.array([[0.5, 0.5002]], dtype=np.float32))


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (-1, "event is -1; classes are numbered by whole numbers from 0 to 4"),
        (5, "event is 5; classes are numbered by whole numbers from 0 to 4"),
        ([0, 7], r"event\[1\] is 7; classes are numbered"),
        ([0.5], r"event\[0\] is 0.5; classes are numbered"),
        (np.nan, "event is nan; classes are numbered"),
        ([[0, 1]], r"event holds class indices of shape \(1, 2\)"),
        ([True, False], r"event \(a mask\) has shape \(2,\); it must be \(5,\)"),
        (True, r"event \(a mask\) has shape \(\)"),
        ("cat", "event is 'cat'; give a class index"),
        (None, "event is None; give a class index"),
        (np.ones((2, 5), dtype=bool), r"event \(a mask\) has shape \(2, 5\); it must be \(5,\)"),
    ],
)
def test_bad_events_are_named(event, message):
    with pytest.raises(ValueError, match=message):
        CategoricalCredalSet(TABLE).lower_probability(event)


def test_a_region_of_other_classes_is_no_event():
    region = CategoricalCredalSet([[0.5, 0.5]]).region(0.1)
    with pytest.raises(ValueError, match=r"event \(a region\) has shape \(2,\); it must be \(5,\)"):
        CategoricalCredalSet(TABLE).lower_probability(region)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda cs: cs.lower_expectation([1.0, 2.0]), r"f has shape \(2,\); it must be \(5,\)"),
        (lambda cs: cs.lower_expectation([1.0, 2.0, np.nan, 0, 0]), r"f\[2\] is nan"),
        (lambda cs: cs.average([0.5, 0.5]), r"weights has shape \(2,\); it must be \(3,\)"),
        (lambda cs: cs.average([0.5, 0.5, 0.5]), "weights.* sums to 1.5"),
        (lambda cs: cs.average([1.5, -0.5, 0]), r"weights\[1\] is -0.5"),
        (lambda cs: cs.average_uncertainty([1.0, np.inf, 0]), r"weights\[1\] is inf"),
        (lambda cs: cs.decide(utility=[1.0, 2.0]), r"utility has shape \(2,\); it must be \(A, 5\)"),
        (lambda cs: cs.decide(utility=[[np.nan] * 5]), r"utility\[0, 0\] is nan"),
        (lambda cs: cs.decide("best"), "rule is 'best'"),
        (lambda cs: cs.region(0.0), "alpha is 0"),
        (lambda cs: cs.region(1.0), "alpha is 1"),
        (lambda cs: cs.region("a"), "alpha is 'a'; give one number"),
        (lambda cs: cs.region([0.1, 0.2]), r"alpha is \[0.1, 0.2\]; give one number"),
        (lambda cs: cs.region(None), "alpha is None; give one number"),
        (lambda cs: cs.region(0.1, "smallest"), "method is 'smallest'"),
        (lambda cs: cs.region(0.1, slack=-1), "slack is -1"),
        (lambda cs: cs.contains([0.5, 0.5]), r"p has shape \(2,\); it must be \(5,\)"),
        (lambda cs: cs.contains([0.5, 0.5, 0.5, 0, 0]), "p.* sums to 1.5"),
        (lambda cs: cs.distance([1, 0, 0, 0, 0], "w1", cost=np.ones((2, 2))), r"cost has shape \(2, 2\)"),
        (lambda cs: cs.distance([1, 0, 0, 0, 0], "w1", cost="taxi"), "cost is 'taxi'"),
        (lambda cs: cs.uncertainty(base=1), "base is 1"),
        (lambda cs: cs.uncertainty(base="bits"), "base is 'bits'"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(CategoricalCredalSet(TABLE))


def test_batches_that_do_not_fit_are_named():
    cs = CategoricalCredalSet(softmaxes(15, 4, 2, 3))
    with pytest.raises(ValueError, match=r"p has shape \(5, 3\); it must be \(3,\) or \(4, 3\)"):
        cs.contains(softmaxes(0, 5, 3))
    with pytest.raises(ValueError, match=r"event \(a mask\) has shape \(5, 3\); .* broadcast to \(4, 3\)"):
        cs.lower_probability(np.ones((5, 3), dtype=bool))
