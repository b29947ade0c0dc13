"""Credal sets on the line: envelopes, entropies, decisions and the hull, against scipy and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from cbdl.credal.line.grids import sampled_each
from cbdl.credal.line.maximin import first_level
from cbdl.credal.line.mixture import Extremes
from cbdl.credal.line.sets import MixtureCredalSet, NormalCredalSet
from trials import trials

inf = np.inf
LOC, SCALE = np.array([0.0, 1.0, -2.0]), np.array([1.0, 2.0, 0.5])


def normal():
    return NormalCredalSet(LOC, SCALE)


def mixture(seed=0, batch=(), m=3, M=4):
    rng = np.random.default_rng(seed)
    shape = (*batch, m, M)
    return MixtureCredalSet(
        rng.normal(0, 3, shape), rng.uniform(0.2, 2, shape), rng.dirichlet(np.ones(M), shape[:-1])
    )


def pdf(cs, y):
    """(m,): densities of the extremes of a single set at y, from scipy."""
    return (cs.weights * stats.norm.pdf(y, cs.loc, cs.scale)).sum(-1)


# --- probabilities and expectations --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event", [(-1, 2), (-inf, 0), (0.5, inf), (-inf, inf), [(-3, -1), (0, 4)], [(-1, 2), (0, 3)], [(1, 1)]]
)
def test_probabilities_of_events_are_those_of_scipy(event):
    pairs = [event] if isinstance(event, tuple) else event
    merged = [(-1, 3)] if pairs == [(-1, 2), (0, 3)] else pairs
    exact = sum(stats.norm.cdf(b, LOC, SCALE) - stats.norm.cdf(a, LOC, SCALE) for a, b in merged)
    assert normal().lower_probability(event) == pytest.approx(exact.min(), abs=1e-15)
    assert normal().upper_probability(event) == pytest.approx(exact.max(), abs=1e-15)


def test_far_tails_keep_their_digits():
    for sign in (1, -1):
        tail = normal().upper_probability((30, 40) if sign == 1 else (-40, -30))
        exact = (stats.norm.sf(30, sign * LOC, SCALE) - stats.norm.sf(40, sign * LOC, SCALE)).max()
        assert tail == pytest.approx(exact, rel=1e-12)


def test_events_broadcast_pad_and_come_from_regions():
    cs = NormalCredalSet([[0.0, 1.0], [5.0, 6.0]], 1.0)
    events = np.array([[[-1, 1], [np.nan, np.nan]], [[4, 5], [6, 7]]])
    both = cs.lower_probability(events)
    assert both[0] == pytest.approx(cs[0].lower_probability((-1, 1)))
    assert both[1] == pytest.approx(cs[1].lower_probability([(4, 5), (6, 7)]))
    region = cs.region(0.1)
    np.testing.assert_allclose(cs.lower_probability(region), region.lower_probability, rtol=1e-14)
    np.testing.assert_allclose(
        cs.lower_probability(cs[0].region(0.1))[0], region.lower_probability[0], rtol=1e-14
    )
    assert cs.lower_probability([]).tolist() == [0, 0]


@trials(30)
@given(st.integers(0, 10**6), st.floats(-5, 5), st.floats(0, 5))
def test_the_envelope_is_conjugate_and_holds_for_every_mixture_of_the_extremes(seed, a, width):
    """Proposition "extrema_gen_lem"."""
    cs = mixture(seed)
    lower = cs.lower_probability((a, a + width))
    assert lower == pytest.approx(1 - cs.upper_probability([(-inf, a), (a + width, inf)]), abs=1e-13)
    beta = np.random.default_rng(seed).dirichlet(np.ones(3))
    inside = cs.average(beta).lower_probability((a, a + width))
    assert lower - 1e-13 <= inside <= cs.upper_probability((a, a + width)) + 1e-13


def test_p_boxes_and_density_envelopes_are_those_of_scipy():
    y = np.linspace(-6, 6, 13)
    F, p = stats.norm.cdf(y[:, None], LOC, SCALE), stats.norm.pdf(y[:, None], LOC, SCALE)
    np.testing.assert_allclose(normal().lower_cdf(y), F.min(-1), rtol=1e-12)
    np.testing.assert_allclose(normal().upper_cdf(y), F.max(-1), rtol=1e-12)
    np.testing.assert_allclose(normal().lower_density(y), p.min(-1), rtol=1e-12)
    np.testing.assert_allclose(normal().upper_density(y), p.max(-1), rtol=1e-12)
    assert normal().lower_cdf(0.0).shape == ()
    batch = NormalCredalSet(np.zeros((4, 2)), 1.0)
    assert batch.lower_cdf(np.zeros(4)).shape == (4,)
    assert batch.cdf(np.zeros((4, 7))).shape == (4, 7, 2)


def test_expectations_agree_with_closed_forms_and_quad():
    cs = normal()
    assert cs.lower_expectation(lambda y: y) == pytest.approx(-2, abs=1e-12)
    assert cs.upper_expectation(np.square) == pytest.approx((LOC**2 + SCALE**2).max(), rel=1e-12)
    assert cs.lower_expectation(lambda y: 1.0) == pytest.approx(1, abs=1e-14)
    exact = [
        integrate.quad(
            lambda y, m=m, s=s: math.cos(3 * y) * stats.norm.pdf(y, m, s),
            m - 12 * s,
            m + 12 * s,
            epsabs=1e-13,
        )[0]
        for m, s in zip(LOC, SCALE, strict=True)
    ]
    assert cs.upper_expectation(lambda y: np.cos(3 * y)) == pytest.approx(max(exact), abs=1e-11)
    mix = mixture()
    np.testing.assert_allclose(mix.lower_expectation(lambda y: y), mix.mean().min(), rtol=1e-12)
    np.testing.assert_allclose(mix.mean(), (mix.weights * mix.loc).sum(-1), rtol=1e-12)


def test_a_function_with_a_jump_warns_with_the_error():
    with pytest.warns(UserWarning, match="estimated error"):
        value = normal().lower_expectation(lambda y: (y > 0.1234) * 1.0)
    assert value == pytest.approx(stats.norm.sf(0.1234, LOC, SCALE).min(), abs=1e-3)


def test_the_function_sees_the_users_kind():
    kinds = []
    NormalCredalSet(torch.zeros(2), torch.ones(2)).lower_expectation(lambda y: kinds.append(type(y)) or y)
    normal().lower_expectation(lambda y: kinds.append(type(y)) or y)
    assert kinds[0] is torch.Tensor
    assert kinds[-1] is np.ndarray


# --- entropy ---------------------------------------------------------------------------------------------------


def test_entropies_are_closed_forms_and_quadratures():
    np.testing.assert_allclose(normal().entropies(), stats.norm.entropy(LOC, SCALE), rtol=1e-13)
    cs = mixture(1)
    exact = [
        integrate.quad(
            lambda y, j=j: -(p := pdf(cs, y)[j]) * math.log(p), -25, 25, limit=400, points=cs.loc[j]
        )[0]
        for j in range(3)
    ]
    np.testing.assert_allclose(cs.entropies(), exact, atol=1e-8)
    assert cs.lower_entropy() == pytest.approx(min(exact), abs=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_the_upper_entropy_of_two_is_the_maximum_over_the_segment(seed):
    cs = mixture(seed, m=2, M=2)
    y = np.linspace(-30, 30, 60001)
    p = (cs.weights[..., None] * stats.norm.pdf(y, cs.loc[..., None], cs.scale[..., None])).sum(1)

    def minus_entropy(beta):
        q = beta * p[0] + (1 - beta) * p[1]
        return np.sum(q * np.log(np.maximum(q, 1e-300))) * (y[1] - y[0])

    best = optimize.minimize_scalar(minus_entropy, bounds=(0, 1), method="bounded", options={"xatol": 1e-10})
    found = cs.upper_entropy(certificate=True)
    assert found.value == pytest.approx(max(-best.fun, cs.entropies().max()), abs=1e-8)
    assert found.gap < 1e-9
    assert found.error < 1e-6


@pytest.mark.parametrize("scales", [[1.0, 1.0], [1e-8, 1.0, 1e3], [0.1, 2.0, 3.0, 1e4]])
def test_normals_far_apart_have_the_log_sum_of_exponentials_as_upper_entropy(scales):
    """max over beta of H(beta) + sum_j beta_j H_j = log sum_j exp(H_j)."""
    cs = NormalCredalSet(1e6 * np.arange(len(scales)), scales)
    u = cs.uncertainty()
    exact = np.logaddexp.reduce(stats.norm.entropy(0, scales))
    assert u.total == pytest.approx(exact, abs=1e-9)
    assert u.aleatoric == pytest.approx(stats.norm.entropy(0, min(scales)), abs=1e-12)
    assert u.epistemic_lower - 1e-12 <= u.epistemic <= u.epistemic_upper + 1e-12


@trials(20)
@given(st.integers(0, 10**6), st.sampled_from([1e-8, 1e-2, 1e8]))
def test_the_epistemic_part_does_not_depend_on_the_unit(seed, unit):
    """Proposition "gen_entr_lem" gives the bracket; the shift log(unit) cancels in the difference."""
    cs = mixture(seed, m=2, M=2)
    other = MixtureCredalSet(unit * cs.loc + 2 * unit, unit * cs.scale, cs.weights)
    u, v = cs.uncertainty(), other.uncertainty()
    assert v.epistemic == pytest.approx(u.epistemic, abs=1e-8)
    assert v.total == pytest.approx(u.total + math.log(unit), abs=1e-8)
    assert u.epistemic_lower - 1e-9 <= u.epistemic <= u.epistemic_upper + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_entropy_bounds_are_choquet_integrals(seed):
    """Theorem "thm_rem_bounds_entropy", continuous case, against sorted sums on a fine grid."""
    cs = mixture(seed, m=3, M=2)
    y = np.linspace(-60, 60, 400_001)
    logp = np.log(cs.weights)[..., None] + stats.norm.logpdf(y, cs.loc[..., None], cs.scale[..., None])
    logp = np.logaddexp.reduce(logp, axis=1)
    mass = np.exp(logp) * (y[1] - y[0])
    lower, upper = cs.entropy_bounds()
    for value, f, envelope in ((lower, -logp.max(0), np.min), (upper, -logp.min(0), np.max)):
        order = np.argsort(-f)
        nu = np.concatenate([[0], envelope(np.cumsum(mass[:, order], 1), axis=0)])
        assert value == pytest.approx((f[order] * np.diff(nu)).sum(), abs=2e-5)
    u = cs.uncertainty()
    assert lower <= u.aleatoric + 1e-9
    assert upper >= u.total - 1e-9


def test_entropy_bounds_of_one_distribution_are_its_entropy():
    for cs in (NormalCredalSet([3.0], [2.0]), mixture(4, m=1), NormalCredalSet([1.0, 1.0], [2.0, 2.0])):
        lower, upper = cs.entropy_bounds()
        assert lower == pytest.approx(cs.lower_entropy(), abs=1e-8)
        assert upper == pytest.approx(cs.lower_entropy(), abs=1e-8)


def test_units_of_entropy():
    bits = normal().upper_entropy(base=2)
    assert bits == pytest.approx(normal().upper_entropy() / math.log(2))
    with pytest.raises(ValueError, match="classes"):
        normal().upper_entropy(base="classes")


def test_abstention_compares_the_lower_entropy():
    assert normal().abstain(stats.norm.entropy(0, 0.5) - 1e-9)
    assert not normal().abstain(stats.norm.entropy(0, 0.5) + 1e-9)


# --- other measures ----------------------------------------------------------------------------------------------


def test_the_maximal_imprecision_is_the_largest_total_variation():
    assert NormalCredalSet([-1.0, 1.0], 1.0).maximal_imprecision() == pytest.approx(
        1 - 2 * stats.norm.sf(1), abs=1e-14
    )
    for seed in range(4):
        cs = mixture(seed)
        y = np.linspace(-25, 25, 200_001)
        p = (cs.weights[..., None] * stats.norm.pdf(y, cs.loc[..., None], cs.scale[..., None])).sum(1)
        brute = max(0.5 * np.abs(p[i] - p[j]).sum() * (y[1] - y[0]) for i in range(3) for j in range(i))
        assert cs.maximal_imprecision() == pytest.approx(brute, abs=1e-7)
    assert NormalCredalSet([0.0, 1e6], [1e-8, 1.0]).maximal_imprecision() == pytest.approx(1)
    assert NormalCredalSet([0.0, 0.0], 1.0).maximal_imprecision() == 0


def test_nearly_equal_extremes_have_a_small_imprecision_that_is_right():
    cs = NormalCredalSet([0.0, 1e-6], 1.0)
    assert cs.maximal_imprecision() == pytest.approx(1e-6 / math.sqrt(2 * math.pi), rel=1e-6)


def test_generalized_hartley_has_no_meaning_here():
    with pytest.raises(ValueError, match="finitely many"):
        normal().generalized_hartley()


# --- decisions ---------------------------------------------------------------------------------------------------


def test_the_safest_outcome_maximises_the_lower_density():
    for seed in range(5):
        cs = mixture(seed)
        y = np.linspace(-15, 15, 300_001)
        lower = cs.lower_density(y)
        best = cs.decide("maximin")
        assert cs.lower_density(best).max() >= lower.max() * (1 - 1e-12)
        assert abs(best - y[lower.argmax()]).min() < 2e-4


@pytest.mark.parametrize("spread", [0.3, 2.0])
def test_the_search_for_the_safest_outcome_starts_where_it_mostly_ends(spread):
    rng = np.random.default_rng(5)
    loc = rng.normal(size=(40, 3, 1)) + spread * rng.normal(size=(40, 3, 12))
    cs = MixtureCredalSet(loc, rng.uniform(0.3, 1, loc.shape))
    sets = Extremes(*(torch.as_tensor(x) for x in (cs.loc, cs.scale, cs.weights)))
    start = first_level(sets, *sampled_each(sets)).numpy()
    # every set's lower density on a fine grid, by scipy
    y = np.linspace(loc.min() - 1, loc.max() + 1, 4001)
    each = stats.norm.pdf(y[:, None, None, None], cs.loc, cs.scale).mean(-1).min(-1)
    best = np.asarray(cs.lower_density(np.asarray(cs.decide("maximin", single=True))[:, None]))[:, 0]
    assert (best >= each.max(0) * (1 - 1e-12)).all()
    assert (np.exp(start) <= best * (1 + 1e-11)).all()
    assert np.mean(np.exp(start) >= best * (1 - 1e-11)) > 0.8


def test_extremes_that_nearly_tie_beside_the_peak_do_not_hide_it():
    # where two extremes cross 2.5e-4 beside the peak of one of them, the tangents of the steeper one lead nowhere
    rng = np.random.default_rng(2)
    loc = rng.normal(0, 1, (200, 4, 1)) + rng.normal(0, 10, (200, 4, 8))
    cs = MixtureCredalSet(loc[5], rng.uniform(0.05, 3, loc.shape)[5])
    best = float(cs.decide("maximin", single=True))
    near = best + np.linspace(-1e-3, 1e-3, 20_001)
    each = (cs.weights * stats.norm.pdf(near[:, None, None], cs.loc, cs.scale)).sum(-1).min(-1)
    assert pdf(cs, best).min() >= each.max() * (1 - 1e-12)


def test_all_maximisers_are_found_and_one_is_chosen_by_seed():
    # The mirror image of a set has two equally safe outcomes.
    cs = MixtureCredalSet([[-3.0, 3.0], [-2.0, 2.0]], 0.8)
    best = cs.decide("maximin")
    assert len(best) == 2
    assert best[0] == pytest.approx(-best[1], abs=1e-7)
    chosen = {float(cs.decide("maximin", single=True, seed=s)) for s in range(20)}
    assert chosen == set(best.tolist())
    assert NormalCredalSet([0.0, 4.0], 1.0).decide() == pytest.approx(2, abs=1e-9)
    assert NormalCredalSet([3.0], 1.0).decide() == pytest.approx(3, abs=1e-9)
    assert NormalCredalSet([1e6, 1e6], [1e-8, 3e-8]).decide() == pytest.approx(1e6, abs=1e-9)


def test_actions_with_utilities_are_chosen_by_every_rule():
    bets = [lambda y: y, lambda y: -y, lambda y: 0.0 * y, lambda y: -1.0 + 0.0 * y]
    cs = NormalCredalSet([-1.0, 2.0], 1.0)
    assert cs.decide("gamma-maximin", bets).tolist() == [False, False, True, False]
    assert cs.decide("maximality", bets).tolist() == [True, True, True, False]
    assert cs.decide("e-admissible", bets).tolist() == [True, True, True, False]
    assert cs.decide("interval-dominance", bets).tolist() == [True, True, True, False]
    assert cs.decide("gamma-maximin", bets, single=True) == 2
    with pytest.raises(ValueError, match="utility"):
        cs.decide("maximality")
    with pytest.raises(ValueError, match="utility"):
        cs.decide("maximality", [])


# --- the hull ----------------------------------------------------------------------------------------------------


def test_normals_that_differ_are_extreme_and_copies_are_not():
    cs = NormalCredalSet([0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1 + 1e-9])
    assert cs.extremes().tolist() == [True, False, True, True]
    assert cs.reduce().num_extremes == 3


def test_a_mixture_of_other_extremes_is_not_extreme():
    loc, scale = [[0.0, 5.0]] * 3, 1.0
    cs = MixtureCredalSet(loc, scale, [[1.0, 0.0], [0.4, 0.6], [0.0, 1.0]])
    assert cs.extremes().tolist() == [True, False, True]
    reduced = cs.reduce()
    assert reduced.num_extremes == 2
    assert reduced.upper_entropy() == pytest.approx(cs.upper_entropy(), abs=1e-9)


def test_membership_is_exact():
    cs = NormalCredalSet([0.0, 5.0], [1.0, 2.0])
    assert cs.contains((0.0, 1.0))
    assert cs.contains(([0.0, 5.0], [1.0, 2.0], [0.3, 0.7]))
    assert cs.contains(([5.0, 0.0, 5.0], [2.0, 1.0, 2.0], [0.3, 0.5, 0.2]))
    assert not cs.contains((0.0, 1.001))
    assert not cs.contains(([0.0, 5.0, 9.0], [1.0, 2.0, 1.0], [0.3, 0.6, 0.1]))
    assert cs.contains(cs.center())
    mix = MixtureCredalSet([[0.0, 5.0]] * 2, 1.0, [[0.9, 0.1], [0.2, 0.8]])
    assert mix.contains(([0.0, 5.0], 1.0, [0.5, 0.5]))
    assert not mix.contains(([0.0, 5.0], 1.0, [0.95, 0.05]))
    with pytest.raises(ValueError, match="one distribution"):
        cs.contains(cs)
    with pytest.raises(ValueError, match="p must be"):
        cs.contains(3.0)


# --- the object itself -------------------------------------------------------------------------------------------


def test_the_average_is_the_mixture():
    cs, w = normal(), [0.2, 0.5, 0.3]
    one = cs.average(w)
    assert one.num_extremes == 1
    assert one.lower_density(0.7) == pytest.approx((w * stats.norm.pdf(0.7, LOC, SCALE)).sum())
    assert cs.center().mean()[0] == pytest.approx(LOC.mean())
    variance = (np.array(w) * (SCALE**2 + LOC**2)).sum() - (np.array(w) * LOC).sum() ** 2
    assert one.variance()[0] == pytest.approx(variance)


def test_shapes_kinds_indexing_and_printing():
    cs = MixtureCredalSet(torch.zeros(4, 2, 3), torch.ones(3))
    assert cs.batch_shape == (4,)
    assert cs.num_extremes == 2
    assert isinstance(cs.upper_entropy(), torch.Tensor)
    assert cs.weights.shape == (4, 2, 3)
    assert repr(cs[1:3]) == "MixtureCredalSet(batch_shape=(2,), num_extremes=2, num_components=3)"
    assert cs[0].batch_shape == ()
    with pytest.raises(IndexError, match="single set"):
        cs[0][0]
    assert NormalCredalSet(0.0, [1.0, 2.0]).loc.tolist() == [0, 0]


def test_samples_follow_each_extreme_and_their_seed():
    cs = mixture(2, batch=(2,))
    draws = cs.sample(4000, seed=1)
    assert draws.shape == (4000, 2, 3)
    assert np.array_equal(draws, cs.sample(4000, seed=1))
    for b in range(2):
        for j in range(3):
            assert stats.kstest(draws[:, b, j], lambda y, b=b, j=j: cs[b].cdf(y)[:, j]).pvalue > 1e-4


def test_answers_do_not_depend_on_the_batch():
    cs = mixture(3, batch=(7,))
    for name in ("upper_entropy", "lower_entropy", "maximal_imprecision"):
        whole = getattr(cs, name)()
        for b in (0, 6):
            assert getattr(cs[b], name)() == pytest.approx(whole[b], abs=1e-13)
    whole = cs.entropy_bounds()[1]
    assert cs[5].entropy_bounds()[1] == pytest.approx(whole[5], abs=1e-10)
    assert cs[5].decide()[0] == pytest.approx(cs.decide()[5, 0], abs=1e-9)


def test_a_component_of_weight_zero_does_not_matter():
    cs = MixtureCredalSet([[0.0, 1e9], [1.0, -7.0]], [[1.0, 1e-5], [2.0, 3.0]], [[1.0, 0.0], [1.0, 0.0]])
    same = NormalCredalSet([0.0, 1.0], [1.0, 2.0])
    assert cs.upper_entropy() == pytest.approx(same.upper_entropy(), abs=1e-12)
    assert cs.maximal_imprecision() == pytest.approx(same.maximal_imprecision(), abs=1e-12)
    for method in ("union", "lower-density", "minimal"):
        np.testing.assert_allclose(
            cs.region(0.1, method).intervals, same.region(0.1, method).intervals, rtol=1e-9
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0], [0.0]), r"scale\[0\]"),
        (([0.0, 1.0], [1.0, -1.0]), r"scale\[1\]"),
        (([0.0, np.nan], [1.0, 1.0]), r"loc\[1\]"),
        (([0.0, 1.0], [1.0, np.inf]), r"scale\[1\]"),
        (
            ([0.0, 1.0, 2.0], [1.0, 1.0]),
            r"loc has shape \(3,\), scale has shape \(2,\), which do not broadcast",
        ),
        ((0.0, 1.0), "loc has shape"),
        ((np.zeros((0, 2)), 1.0), "holds nothing"),
    ],
)
def test_bad_parameters_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        NormalCredalSet(*arguments)


def test_bad_weights_events_and_points_are_named():
    with pytest.raises(ValueError, match="weights"):
        MixtureCredalSet([[0.0, 1.0]], 1.0, [[0.5, 0.6]])
    with pytest.raises(ValueError, match="weights"):
        MixtureCredalSet([[0.0, 1.0]], 1.0, [[-0.5, 1.5]])
    for event, message in [
        ((2, 1), "swap"),
        ((np.nan, 1), "nan"),
        ((1, 2, 3), "shape"),
        (np.zeros((3, 5, 2)), "fit"),
    ]:
        with pytest.raises(ValueError, match=message):
            NormalCredalSet(np.zeros((2, 2)), 1.0).lower_probability(event)
    with pytest.raises(ValueError, match="y"):
        normal().lower_cdf(np.nan)
    with pytest.raises(ValueError, match="callable"):
        normal().lower_expectation([1.0, 2.0])
    with pytest.raises(ValueError, match="not finite"):
        normal().lower_expectation(lambda y: np.full_like(y, np.inf))
    with pytest.raises(ValueError, match="extremes"):
        normal().average([0.5, 0.5])


def test_the_distance_to_the_hull_is_that_to_its_nearest_element():
    """Proposition "dist_lemma": at most the distance to each extreme; 0 inside."""
    cs = NormalCredalSet([0.0, 3.0], [1.0, 1.0])
    assert cs.distance(([0.0, 3.0], 1.0, [0.5, 0.5]), "tv") == pytest.approx(0, abs=1e-6)
    found = cs.distance((-2.0, 1.0), "kl", certificate=True)
    assert found.value <= 2.0 + 1e-9  # KL(N(0, 1) | N(-2, 1)) = 2
    assert found.gap < 1e-6
