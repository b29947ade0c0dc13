"""Sets between two bounds, against all their extreme points, scipy's programmes, and the hull of the same extremes."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.special import entr

import cbdl
from cbdl.credal.classes import box, box_decide
from cbdl.credal.classes.box_entropy import lower_entropy
from cbdl.credal.classes.box_regions import log_survival
from trials import trials

RULES = ("maximin", "gamma-maximin", "gamma-maximax", "maximality", "e-admissible", "interval-dominance")


def boxes(J, count, seed=0, spread=0.6):
    """Bounds (count, J) of four kinds: of ensembles, of softmax outputs, of random intervals, all alike."""
    rng = np.random.default_rng(seed)
    part = max(1, count // 4)
    center = rng.dirichlet(np.ones(J), size=part)
    ensemble = np.stack([rng.dirichlet(c * 20 + 0.1, size=5) for c in center])
    logits = 3 * rng.normal(size=(part, 1, J)) + rng.normal(size=(part, 5, J))
    softmax = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    low = [ensemble.min(1), softmax.min(1)]
    high = [ensemble.max(1), softmax.max(1)]
    p = rng.dirichlet(np.ones(J), size=part)
    low.append(p * rng.uniform(0, 1, size=p.shape))
    high.append(
        np.minimum(1, p + spread * rng.uniform(0, 1, size=p.shape) * rng.integers(0, 2, size=p.shape))
    )
    low.append(np.full((1, J), 0.3 / J))
    high.append(np.full((1, J), 1.9 / J))
    return np.concatenate(low), np.minimum(np.concatenate(high), 1)


def corners(lower, upper):
    """All extreme points of one box, by definition: J - 1 classes at a bound."""
    J, points = len(lower), []
    for k in range(J):
        others = [i for i in range(J) if i != k]
        for bounds in itertools.product((0, 1), repeat=J - 1):
            p = lower.copy()
            p[others] = np.where(bounds, upper[others], lower[others])
            p[k] = 1 - p[others].sum()
            if lower[k] - 1e-13 <= p[k] <= upper[k] + 1e-13:
                points.append(np.clip(p, 0, 1))
    return np.unique(np.round(points, 12), axis=0)


def sets(J, count=40, seed=0):
    lower, upper = boxes(J, count, seed)
    return cbdl.IntervalCredalSet(lower, upper)


@st.composite
def bounds(draw, most=7):
    J = draw(st.integers(2, most))
    number = st.floats(0, 1, allow_subnormal=False)
    p = np.array(draw(st.lists(st.floats(0.01, 1), min_size=J, max_size=J)))
    p /= p.sum()
    down, up = (np.array(draw(st.lists(number, min_size=J, max_size=J))) for _ in range(2))
    return p * down, np.minimum(1, p + (1 - p) * up * draw(st.sampled_from([0.02, 0.3, 1.0])))


# --- the set -----------------------------------------------------------------------------------------------


@trials(60)
@given(bounds())
def test_coherent_bounds_are_attained_and_are_those_of_linear_programmes(both):
    cs = cbdl.IntervalCredalSet(*both)
    J = len(both[0])
    for i in range(J):
        for sign, bound in ((1, cs.lower[i]), (-1, cs.upper[i])):
            c = np.zeros(J)
            c[i] = sign
            best = linprog(c, A_eq=np.ones((1, J)), b_eq=[1], bounds=list(zip(*both, strict=True)))
            np.testing.assert_allclose(sign * best.fun, bound, atol=1e-9)


@pytest.mark.parametrize("J", [2, 3, 4, 6])
def test_the_hull_has_all_extreme_points_once(J):
    cs = sets(J, 12)
    hull = cs.hull()
    assert hull.num_extremes == cs.num_extremes
    for one, points, real in zip(cs, hull.probs, cs.extremes(), strict=True):
        truth = corners(one.lower, one.upper)
        assert real.sum() == len(truth)
        mine = points[real]
        nearest = np.abs(truth[:, None] - mine[None]).sum(-1)
        assert (nearest.min(0) < 1e-9).all()
        assert (nearest.min(1) < 1e-9).all()


def test_where_classes_may_be_impossible_the_hull_has_the_extreme_points_alone():
    """Full classes that take more than everything leave no vertex, also where the last class may have nothing."""
    rng = np.random.default_rng(3)
    for J in (3, 4, 5):
        low, high = np.sort(rng.integers(0, 6, size=(2, 400, J)) / 5, axis=0)
        some = (low.sum(-1) <= 1) & (high.sum(-1) >= 1)
        for bounds in zip(low[some], high[some], strict=True):
            one = cbdl.IntervalCredalSet(*bounds)
            truth = corners(one.lower, one.upper)
            mine = one.hull().probs[one.extremes()]
            assert len(mine) == one.num_extremes == len(truth)
            assert (np.abs(truth[:, None] - mine[None]).sum(-1).min(0) < 1e-9).all()
            assert not ((mine > 0) & (mine < 1e-9)).any()  # what has no mass is impossible


def test_the_box_of_a_hull_holds_it_and_the_hull_of_a_box_has_the_same_box():
    P = np.random.default_rng(1).dirichlet(np.ones(4), size=(5, 3))
    hull = cbdl.CategoricalCredalSet(P)
    cs = cbdl.IntervalCredalSet.of(hull)
    for j in range(3):
        assert cs.contains(P[:, j]).all()
    again = cbdl.IntervalCredalSet.of(cs.hull())
    np.testing.assert_allclose(again.lower, cs.lower, atol=1e-12)
    np.testing.assert_allclose(again.upper, cs.upper, atol=1e-12)
    with pytest.raises(ValueError, match="CategoricalCredalSet"):
        cbdl.IntervalCredalSet.of(cs)


def test_many_classes_are_not_listed_and_the_message_says_so():
    cs = cbdl.IntervalCredalSet(np.full(20, 0.01), np.full(20, 0.2))
    for question in (cs.hull, cs.mean, cs.entropies, cs.extremes, lambda: cs.num_extremes):
        with pytest.raises(ValueError, match="at most 12 classes"):
            question()
    one = cs.point()
    assert one.num_extremes == 1
    np.testing.assert_allclose(one.mean(), np.full((1, 20), 0.05))


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        ([0.6, 0.5], [0.7, 0.6], r"lower sums to 1.1, above 1"),
        ([[0.1, 0.1], [0.1, 0.1]], [[0.5, 0.5], [0.4, 0.5]], r"upper\[1\] sums to 0.9, below 1"),
        ([0.5, 0.2], [0.4, 0.9], r"lower\[0\] is 0.5, above upper\[0\] = 0.4"),
        ([-0.1, 0.2], [0.4, 0.9], r"lower\[0\] is -0.1"),
        ([0.1, 0.2], [0.4, 1.9], r"upper\[1\] is 1.9"),
        ([0.1, np.nan], [0.4, 0.9], r"lower\[1\] is nan"),
        ([0.1, 0.2], [0.4, 0.3, 0.9], "both must be"),
        (0.1, 0.9, r"it must be \(..., J\)"),
    ],
)
def test_bounds_that_hold_nothing_are_refused_with_their_place(lower, upper, message):
    with pytest.raises(ValueError, match=message):
        cbdl.IntervalCredalSet(lower, upper)


def test_float32_bounds_of_one_distribution_are_that_distribution():
    p = torch.tensor(np.random.default_rng(0).dirichlet(np.ones(7), size=9)).float()
    cs = cbdl.IntervalCredalSet(p, p)
    # sums of seven float32 numbers are 1 within 7 roundings
    np.testing.assert_allclose(cs.lower, p.double() / p.double().sum(-1, keepdim=True), rtol=1e-6)
    assert (cs.uncertainty().epistemic.abs() < 1e-5).all()


# --- envelopes ---------------------------------------------------------------------------------------------


@trials(60)
@given(bounds(), st.integers(0, 2**32 - 1))
def test_events_and_gambles_are_those_of_the_extreme_points(both, seed):
    rng = np.random.default_rng(seed)
    cs = cbdl.IntervalCredalSet(*both)
    points, J = corners(cs.lower, cs.upper), cs.num_classes
    event = rng.integers(0, 2, J).astype(bool)
    f = rng.normal(size=J)
    # corners are rounded to 12 digits
    np.testing.assert_allclose(cs.lower_probability(event), (points @ event).min(), atol=1e-11)
    np.testing.assert_allclose(cs.upper_probability(event), (points @ event).max(), atol=1e-11)
    np.testing.assert_allclose(cs.lower_expectation(f), (points @ f).min(), atol=1e-11)
    np.testing.assert_allclose(cs.upper_expectation(f), (points @ f).max(), atol=1e-11)


# --- entropy -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("J", [2, 3, 5, 8])
def test_lower_entropy_is_that_of_all_extreme_points(J):
    for seed in range(4):
        cs = sets(J, 24, seed)
        best = cs.lower_entropy(certificate=True)
        truth = [entr(corners(one.lower, one.upper)).sum(-1).min() for one in cs]
        # corners are rounded to 12 digits, where the slope of the entropy is up to log(1e12)
        np.testing.assert_allclose(best.value, truth, atol=J * 3e-11)
        assert (best.gap <= 1e-12).all()
        np.testing.assert_allclose(entr(best.weights).sum(-1), best.value, rtol=1e-13, atol=1e-14)
        assert cs.contains(best.weights).all()


@trials(150)
@given(bounds(8))
def test_no_extreme_point_has_less_than_the_lower_entropy(both):
    cs = cbdl.IntervalCredalSet(*both)
    best = cs.lower_entropy(certificate=True)
    truth = entr(corners(cs.lower, cs.upper)).sum(-1).min()
    assert best.gap <= 1e-12
    np.testing.assert_allclose(best.value, truth, atol=8 * 3e-11)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ([0.0, 0.004, 0.077, 0.053], [0.562, 0.105, 0.424, 0.518]),
        ([0.0, 0.148, 0.009, 0.001, 0.117, 0.0], [0.488, 0.317, 0.257, 0.053, 0.388, 0.492]),
        ([0.098, 0.059, 0.0, 0.0, 0.174, 0.043, 0.0], [0.372, 0.295, 0.549, 0.154, 0.359, 0.303, 0.442]),
        ([0.0, 0.0, 0.0, 0.0, 0.08, 0.08, 0.02], [0.286, 0.2545, 0.32, 0.08, 0.16, 0.08, 0.184]),
    ],
)
def test_a_class_that_is_full_in_the_relaxation_may_be_the_one_between_its_bounds(lower, upper):
    cs = cbdl.IntervalCredalSet(lower, upper)
    truth = entr(corners(cs.lower, cs.upper)).sum(-1).min()
    np.testing.assert_allclose(cs.lower_entropy(), truth, atol=8 * 3e-11)


def test_a_search_that_is_cut_short_says_by_how_much_it_may_be_wrong(monkeypatch):
    from cbdl.credal.classes import box_entropy

    cs = sets(8, 400, 3)
    exact = cs.lower_entropy()
    monkeypatch.setattr(box_entropy, "NODES", 1)
    short = cs.lower_entropy(certificate=True)
    assert (short.gap > 1e-6).any()
    assert (short.value >= exact - 1e-12).all()
    assert (short.value - short.gap <= exact + 1e-12).all()


def test_upper_entropy_is_that_of_the_hull_with_the_same_extremes():
    cs = sets(5)
    best, hull = cs.upper_entropy(certificate=True), cs.hull().upper_entropy(certificate=True)
    assert (best.gap < 1e-13).all()
    assert (np.abs(best.value - hull.value) <= hull.gap + 1e-12).all()
    np.testing.assert_allclose(best.weights.sum(-1), 1, atol=1e-14)
    assert cs.contains(best.weights).all()


def test_a_thousand_classes_in_a_batch_need_no_list():
    lower, upper = boxes(1000, 8, 1)
    cs = cbdl.IntervalCredalSet(lower, upper)
    u = cs.uncertainty()
    assert (u.epistemic > 0).all()
    assert (u.error < 1e-3 * u.total).all()
    assert (u.gap < 1e-12).all()
    bounds = cs.entropy_bounds()
    assert (bounds[0] <= u.aleatoric + 1e-12).all()
    assert (u.total <= bounds[1] + 1e-12).all()
    for method in ("union", "lower-density", "minimal"):
        assert (cs.region(0.1, method).lower_probability >= 0.9 - 1e-9).all()
    for rule in RULES:
        assert cs.decide(rule).any(-1).all()


def test_the_papers_bracket_is_closed_because_both_ends_are_known():
    u = sets(4).uncertainty()
    np.testing.assert_allclose(u.epistemic_lower, u.epistemic, atol=1e-15)
    np.testing.assert_allclose(u.epistemic_upper, u.epistemic, atol=1e-15)


def test_generalized_hartley_is_that_of_the_hull_with_the_same_extremes():
    cs = sets(5)
    np.testing.assert_allclose(cs.generalized_hartley(), cs.hull().generalized_hartley(), atol=1e-11)
    vacuous = cbdl.IntervalCredalSet(np.zeros(8), np.ones(8))
    np.testing.assert_allclose(vacuous.generalized_hartley(base="classes"), 1)


# --- regions -----------------------------------------------------------------------------------------------


def most_at_or_below(lower, upper, y):
    """max over the set of P(classes at most as likely as y), as a mixed-integer programme that knows no order."""
    J = len(lower)
    eye, zero, one = np.eye(J), np.zeros((J, J)), np.zeros((J, J))
    one[:, y] = 1
    rows = [
        (np.r_[np.ones(J), np.zeros(2 * J)][None], 1, 1),
        (np.hstack([-eye, eye, zero]), -np.inf, 0),  # what counts is at most p_i,
        (np.hstack([zero, eye, eye]), -np.inf, 1),  # and 0 if i is above y;
        (np.hstack([eye - one, zero, -eye]), -np.inf, 0),  # i is above y if p_i > p_y
    ]
    constraints = [LinearConstraint(a, lo, hi) for a, lo, hi in rows]
    top = np.r_[upper, np.ones(2 * J)]
    top[2 * J + y] = 0
    best = milp(
        np.r_[np.zeros(J), -np.ones(J), np.zeros(J)],
        constraints=constraints,
        integrality=np.r_[np.zeros(2 * J), np.ones(J)],
        bounds=Bounds(np.r_[lower, np.zeros(2 * J)], top),
    )
    return -best.fun


@pytest.mark.parametrize("J", [2, 3, 5, 6])
def test_levels_are_those_of_a_mixed_integer_programme(J):
    cs = sets(J, 8, seed=J)
    levels = cs.level(np.tile(np.arange(J), (len(cs), 1)))
    truth = [[1 - most_at_or_below(one.lower, one.upper, y) for y in range(J)] for one in cs]
    # HiGHS forgives 1e-6 in a constraint
    np.testing.assert_allclose(levels, truth, atol=1e-5)


def test_levels_where_classes_must_be_raised_are_those_of_a_mixed_integer_programme():
    lower, upper = np.zeros(4), np.array([0.6, 0.5, 0.3, 0.1])
    cs = cbdl.IntervalCredalSet(lower, upper)
    truth = [1 - most_at_or_below(cs.lower, cs.upper, y) for y in range(4)]
    np.testing.assert_allclose(cs.level(np.arange(4)), truth, atol=1e-6)
    assert truth[3] > 0.5


@trials(60)
@given(bounds(), st.floats(0.02, 0.6))
def test_the_union_holds_every_credible_set_and_all_regions_cover(both, alpha):
    cs = cbdl.IntervalCredalSet(*both)
    points = corners(cs.lower, cs.upper)
    rng = np.random.default_rng(0)
    mixtures = rng.dirichlet(np.ones(len(points)), size=50) @ points
    every = cbdl.CategoricalCredalSet(np.concatenate([points, mixtures]))
    union = cs.region(alpha)
    # the corners are rounded: a class that just belongs is given the benefit of 1e-9
    assert (every.region(min(0.9, alpha + 1e-9)).mask <= union.mask).all()
    for method in ("union", "lower-density", "minimal"):
        region = cs.region(alpha, method)
        assert region.lower_probability >= 1 - alpha - 1e-11
        np.testing.assert_allclose(region.lower_probability, (points @ region.mask).min(), atol=1e-11)
        np.testing.assert_allclose(region.upper_probability, (points @ region.mask).max(), atol=1e-11)


@trials(60)
@given(bounds(), st.floats(0.02, 0.6))
def test_the_minimal_region_is_the_smallest_of_all_subsets(both, alpha):
    cs = cbdl.IntervalCredalSet(*both)
    points, J = corners(cs.lower, cs.upper), cs.num_classes
    subsets = np.array(list(itertools.product((False, True), repeat=J)))
    level = (subsets @ points.T).min(-1)
    # either side of the target by more than the rounding of the corners
    size = subsets.sum(-1)
    region = cs.region(alpha, "minimal")
    assert size[level >= 1 - alpha + 1e-10].min() >= region.measure >= size[level >= 1 - alpha - 1e-10].min()
    assert region.gap == 0


def test_one_distribution_has_the_regions_and_levels_of_a_categorical():
    p = np.random.default_rng(2).dirichlet(np.ones(6), size=20)
    one, classes = cbdl.IntervalCredalSet(p, p), cbdl.CategoricalCredalSet(p[:, None])
    labels = np.tile(np.arange(6), (20, 1))
    np.testing.assert_allclose(one.log_survival(labels), classes.log_survival(labels), atol=1e-12)
    for method in ("union", "lower-density", "minimal"):
        np.testing.assert_array_equal(one.region(0.2, method).mask, classes.region(0.2, method).mask)


# --- decisions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("J", [2, 3, 5])
def test_decisions_are_those_of_the_hull_with_the_same_extremes(rule, J):
    cs = sets(J, 60, 5)
    utility = np.random.default_rng(J).normal(size=(6, J))
    hull = cs.hull()
    for u in (None, utility):
        np.testing.assert_array_equal(cs.decide(rule, u), hull.decide(rule, u), err_msg=f"{u is None}")


def test_actions_that_no_few_distributions_decide_go_to_a_linear_programme(monkeypatch):
    asked = []
    whole = box_decide._largest_lead
    monkeypatch.setattr(box_decide, "_largest_lead", lambda *a: asked.append(1) or whole(*a))
    cs = sets(5, 60, 5)
    rng = np.random.default_rng(0)
    utility = rng.normal(size=(12, 5))
    np.testing.assert_array_equal(
        cs.decide("e-admissible", utility), cs.hull().decide("e-admissible", utility)
    )
    assert asked


def test_unknown_rules_and_methods_are_named():
    cs = sets(3)
    with pytest.raises(ValueError, match="rule is 'best'"):
        cs.decide("best")
    with pytest.raises(ValueError, match="method is 'largest'"):
        cs.region(0.1, "largest")


# --- distances ---------------------------------------------------------------------------------------------


KINDS = [("kl", {}), ("reverse-kl", {}), ("tv", {}), ("hellinger", {}), ("chi2", {}), ("reverse-chi2", {})]
KINDS += [
    ("jensen-shannon", {}),
    ("renyi", {"order": 0.5}),
    ("renyi", {"order": 2.0}),
    ("w1", {}),
    ("w2", {}),
]
KINDS += [("w1", {"cost": "index"}), ("w2", {"cost": "index"})]


@pytest.mark.parametrize(("kind", "more"), KINDS)
def test_distances_are_those_of_the_hull_with_the_same_extremes(kind, more):
    cs = sets(4, 20, 7)
    p = np.random.default_rng(0).dirichlet(np.ones(4), size=len(cs))
    best = cs.distance(p, kind, certificate=True, **more)
    hull = cs.hull().distance(p, kind, certificate=True, **more)
    assert (best.value - best.gap <= hull.value + 1e-9).all()
    assert (hull.value - hull.gap <= best.value + 1e-9).all()
    assert (best.gap <= 1e-6).all()
    assert cs.contains(best.weights).all()


def test_a_distribution_of_the_set_is_at_distance_0_and_inside():
    cs = sets(6)
    inside = cs.intersection_probability()
    assert cs.contains(inside).all()
    for kind, more in KINDS:
        np.testing.assert_allclose(cs.distance(inside, kind, **more), 0, atol=1e-7)
    outside = np.eye(6)[0]
    np.testing.assert_array_equal(cs.contains(outside), cs.upper[:, 0] >= 1 - 1e-9)


def test_divergences_are_infinite_where_mass_is_forced_onto_impossible_classes():
    cs = cbdl.IntervalCredalSet([0.0, 0.3, 0.0], [0.5, 0.9, 0.6])
    p = [0.5, 0.0, 0.5]
    assert cs.distance(p, "kl") == np.inf
    np.testing.assert_allclose(cs.distance(p, "tv"), 0.3)
    np.testing.assert_allclose(cs.distance([1.0, 0.0, 0.0], "tv"), 0.5)


@trials(80)
@given(bounds(), st.integers(0, 2**32 - 1))
def test_the_level_sums_to_one_and_no_other_distribution_is_nearer(both, seed):
    rng = np.random.default_rng(seed)
    cs = cbdl.IntervalCredalSet(*both)
    low, high = torch.tensor(cs.lower), torch.tensor(cs.upper)
    p = torch.tensor(rng.dirichlet(np.ones(len(low))))
    q = box.levelled(low, high, p)
    assert abs(float(q.sum()) - 1) < 1e-13 * len(low)
    points = corners(cs.lower, cs.upper)
    others = torch.tensor(rng.dirichlet(np.ones(len(points)), size=200) @ points)
    kl = torch.xlogy(others, others / p).sum(-1)
    assert float(torch.xlogy(q, q / p).sum()) <= float(kl.min()) + 1e-9


# --- one distribution --------------------------------------------------------------------------------------


def test_the_intersection_probability_lies_at_one_share_of_every_interval():
    cs = sets(5)
    p = cs.intersection_probability()
    np.testing.assert_allclose(p.sum(-1), 1)
    share = (p - cs.lower) / (cs.upper - cs.lower)
    np.testing.assert_allclose(
        share, np.broadcast_to(np.nanmean(share, -1, keepdims=True), share.shape), rtol=1e-6
    )
    np.testing.assert_array_equal(cs.center(), p)


def test_kernels_agree_with_the_class():
    lower, upper = (torch.tensor(x) for x in boxes(4, 8))
    low, high = box.coherent(lower, upper)
    cs = cbdl.IntervalCredalSet(lower, upper)
    assert torch.equal(cs.lower, low)
    assert torch.allclose(cs.lower_entropy(), lower_entropy(low, high)[0])
    assert torch.allclose(cs.log_survival(torch.zeros(len(low))), log_survival(low, high)[:, 0])


def test_a_parameter_of_another_kind_is_told_from_those_that_there_are():
    with pytest.raises(
        AttributeError, match="an IntervalCredalSet has no 'probs'; its parameters are lower, upper"
    ):
        _ = sets(1).probs
