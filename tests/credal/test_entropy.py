"""Entropy of a hull: exact, certified, and where the paper says it is."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from cbdl.credal.entropy import (
    averaged_entropies,
    entropy,
    entropy_bounds,
    reference_entropy,
    upper_entropy,
)
from trials import trials


def softmaxes(seed, batch, m, J, spread=1.0):
    generator = torch.Generator().manual_seed(seed)
    logits = spread * torch.randn(batch, m, J, generator=generator, dtype=torch.float64)
    return torch.softmax(logits, -1)


def slsqp_upper_entropy(P, w=None):
    """Nobody here wrote this one. P (m, J)."""
    P = P.numpy()
    w = np.ones(P.shape[1]) if w is None else w.numpy()
    m = len(P)

    def f(beta):
        q = np.clip(beta @ P, 1e-300, None)
        return float((w * q * np.log(q)).sum()), P @ (w * (np.log(q) + 1))

    best = minimize(
        f,
        np.full(m, 1 / m),
        jac=True,
        bounds=[(0, 1)] * m,
        constraints={"type": "eq", "fun": lambda b: b.sum() - 1, "jac": lambda b: np.ones(m)},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    return -best.fun


sets = st.builds(
    softmaxes,
    seed=st.integers(0, 10**6),
    batch=st.just(4),
    m=st.integers(1, 8),
    J=st.integers(1, 8),
    spread=st.sampled_from([0.0, 1e-6, 0.3, 1.0, 4.0, 15.0, 60.0, 700.0]),
)


def test_entropy_is_that_of_scipy():
    P = softmaxes(0, 5, 4, 7, 3.0)
    torch.testing.assert_close(entropy(P), torch.from_numpy(scipy.stats.entropy(P.numpy(), axis=-1)))


def test_zero_log_zero_is_zero():
    assert entropy(torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)) == 0


@pytest.mark.parametrize("spread", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("J", [5, 60])
def test_upper_entropy_is_that_of_slsqp(spread, J):
    P = softmaxes(1, 10, 6, J, spread)
    ours = upper_entropy(P).value
    theirs = torch.tensor([slsqp_upper_entropy(p) for p in P], dtype=torch.float64)
    assert (ours >= theirs - 1e-9).all()
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)


@pytest.mark.parametrize("J", [12, 80])
def test_weighted_upper_entropy_is_that_of_slsqp(J):
    P, w = softmaxes(2, 6, 4, J, 2.0), softmaxes(3, 6, 1, J)[:, 0] * J
    P = P / (P * w.unsqueeze(1)).sum(-1, keepdim=True)
    best = upper_entropy(P, w)
    theirs = torch.tensor([slsqp_upper_entropy(p, v) for p, v in zip(P, w, strict=True)], dtype=torch.float64)
    assert (best.gap < 1e-9).all()
    torch.testing.assert_close(best.value, theirs, atol=1e-6, rtol=0)


def test_weights_of_one_change_nothing():
    P = softmaxes(4, 6, 5, 7, 2.0)
    a, b = upper_entropy(P), upper_entropy(P, torch.ones_like(P[:, 0]))
    torch.testing.assert_close(a.value, b.value, rtol=0, atol=1e-12)


def test_two_classes_have_a_closed_form():
    p = torch.linspace(0, 1, 11, dtype=torch.float64)
    low, high = (t.flatten() for t in torch.meshgrid(p, p, indexing="ij"))
    P = torch.stack([torch.stack([low, 1 - low], -1), torch.stack([high, 1 - high], -1)], 1)
    # The mixture nearest to 1/2 is the best one.
    nearest = torch.minimum(
        torch.maximum(torch.full_like(low, 0.5), torch.minimum(low, high)), torch.maximum(low, high)
    )
    exact = entropy(torch.stack([nearest, 1 - nearest], -1))
    best = upper_entropy(P)
    assert (best.value <= exact + 1e-14).all()
    assert (best.value >= exact - best.gap - 1e-14).all()
    assert (best.gap < 1e-9).all()


def test_hull_of_all_point_masses_reaches_log_J():
    for J in (2, 10, 50):
        best = upper_entropy(torch.eye(J, dtype=torch.float64)[None])
        torch.testing.assert_close(
            best.value, torch.tensor([math.log(J)], dtype=torch.float64), rtol=0, atol=1e-9
        )


@trials(60)
@given(P=sets)
def test_bracket_of_gen_entr_lem(P):
    """Upper entropy of the extremes <= that of the hull <= the same + log m; lower entropies are equal."""
    best, extremes = upper_entropy(P), entropy(P)
    assert (best.value + best.gap >= extremes.amax(-1) - 1e-12).all()
    assert (best.value <= extremes.amax(-1) + math.log(P.shape[1]) + 1e-12).all()
    beta = torch.tensor(np.random.default_rng(0).dirichlet(np.ones(P.shape[1]), size=(50, len(P))))
    mixtures = entropy((beta.unsqueeze(-2) @ P).squeeze(-2))
    assert (mixtures >= extremes.amin(-1) - 1e-12).all()


@trials(60)
@given(P=sets, seed=st.integers(0, 1000))
def test_no_mixture_found_by_search_is_above_the_value_plus_the_gap(P, seed):
    best = upper_entropy(P)
    assert torch.isfinite(best.value).all()
    assert (best.gap >= 0).all()
    assert (best.gap < 1e-9).all()
    rng = np.random.default_rng(seed)
    near = best.weights * torch.tensor(rng.lognormal(0, 0.1, size=(100, *best.weights.shape)))
    wide = torch.tensor(rng.dirichlet(np.full(P.shape[1], 0.5), size=(100, len(P))))
    beta = torch.cat([near, wide])
    found = entropy((beta / beta.sum(-1, keepdim=True)).unsqueeze(-2) @ P).squeeze(-1)
    assert (found <= best.value + best.gap + 1e-12).all()


def test_the_value_is_the_entropy_of_the_mixture():
    P = softmaxes(5, 100, 6, 7, 5.0)
    best = upper_entropy(P)
    torch.testing.assert_close(entropy((best.weights.unsqueeze(-2) @ P).squeeze(-2)), best.value)


@trials(60)
@given(P=sets)
def test_thm_rem_bounds_entropy(P):
    lower, upper = entropy_bounds(P)
    best = upper_entropy(P)
    assert (lower <= entropy(P).amin(-1) + 1e-12).all()
    assert (best.value <= upper + 1e-12).all()
    assert not torch.isnan(lower).any()
    assert not torch.isnan(upper).any()


def test_entropy_bounds_coincide_with_the_entropy_of_a_single_distribution():
    P = softmaxes(6, 5, 1, 4)
    for bound in entropy_bounds(P):
        torch.testing.assert_close(bound, entropy(P)[:, 0])


def test_entropy_bounds_are_infinite_where_a_class_may_be_impossible():
    P = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], dtype=torch.float64)
    lower, upper = entropy_bounds(P)
    assert lower == 0
    assert upper == torch.inf
    # The third class is impossible throughout: it counts nothing.
    assert torch.isfinite(entropy_bounds(P[1:])[1])


# --- hard cases --------------------------------------------------------------------------------------------


def hard_cases():
    generator = torch.Generator().manual_seed(0)
    logits32 = torch.randn(50, 6, 8, generator=generator).sign() * 100
    tiny = torch.full((1, 3, 3), 1e-300, dtype=torch.float64)
    tiny[0].fill_diagonal_(1.0)
    denormal = torch.tensor([[[1.0, 5e-324, 0.0], [1.0, 0.0, 5e-324]]], dtype=torch.float64)
    same = softmaxes(0, 5, 1, 6, 3.0).expand(5, 9, 6)
    yield "1e-300", tiny
    yield "denormal", denormal
    yield "zeros and ones", torch.eye(4, dtype=torch.float64)[torch.randint(4, (200, 5), generator=generator)]
    yield "float32 softmax of logits at +-100", torch.softmax(logits32, -1).double()
    yield (
        "float32 logits near +-100",
        torch.softmax(logits32 + torch.randn(50, 6, 8, generator=generator), -1).double(),
    )
    yield "float64 logits at +-700", softmaxes(1, 100, 6, 8, 700.0)
    yield "all extremes equal", same
    yield "extremes equal but for rounding", same * (1 + 1e-15 * torch.arange(9)[:, None])
    yield "extremes nearly equal", torch.softmax(same.log() + 1e-7 * softmaxes(2, 5, 9, 6).log(), -1)
    yield "m = 1", softmaxes(3, 20, 1, 5, 5.0)
    yield "J = 1", torch.ones(3, 4, 1, dtype=torch.float64)
    yield "m = 64", softmaxes(4, 20, 64, 10, 4.0)
    yield "J = 1000", softmaxes(5, 4, 5, 1000, 4.0)
    yield "m = 64, J = 1000", softmaxes(6, 2, 64, 1000, 4.0)
    widths = 10 * torch.randn(300, 10, 1, generator=generator, dtype=torch.float64)
    shapes = torch.randn(300, 10, 10, generator=generator, dtype=torch.float64)
    yield "peaks of very different width", torch.softmax(widths * shapes, -1)


@pytest.mark.parametrize("P", [pytest.param(P, id=name) for name, P in hard_cases()])
def test_hard_cases(P):
    P = P / P.sum(-1, keepdim=True)
    best = upper_entropy(P)
    for x in (best.value, best.gap, best.weights):
        assert torch.isfinite(x).all()
    assert (best.gap < 1e-9).all()
    assert (best.value + best.gap >= entropy(P).amax(-1) - 1e-12).all()
    assert (best.value <= math.log(P.shape[-1]) + 1e-12).all()
    torch.testing.assert_close(best.weights.sum(-1), torch.ones_like(best.value))


def test_sets_of_point_masses_reach_the_log_of_their_number():
    generator = torch.Generator().manual_seed(1)
    index = torch.randint(6, (300, 5), generator=generator)
    best = upper_entropy(torch.eye(6, dtype=torch.float64)[index])
    distinct = torch.tensor([len(set(row)) for row in index.tolist()], dtype=torch.float64)
    torch.testing.assert_close(best.value, distinct.log(), rtol=0, atol=1e-9)


def test_the_answer_does_not_depend_on_the_batch():
    P = torch.cat([softmaxes(7, 30, 5, 6, spread) for spread in (0.01, 1, 5, 50)])
    together = upper_entropy(P)
    for i in range(0, len(P), 11):
        alone = upper_entropy(P[i : i + 1])
        torch.testing.assert_close(together.value[i], alone.value[0], rtol=0, atol=1e-13)
        torch.testing.assert_close(together.weights[i], alone.weights[0], rtol=0, atol=1e-6)


def test_chunks_do_not_change_the_answer(monkeypatch):
    P = softmaxes(8, 100, 5, 6, 3.0)
    whole = upper_entropy(P)
    monkeypatch.setattr("cbdl.credal.entropy._CHUNK", 1 << 15)
    torch.testing.assert_close(upper_entropy(P).value, whole.value, rtol=0, atol=1e-13)


def test_few_and_many_outcomes_agree(monkeypatch):
    P, w = softmaxes(9, 40, 6, 12, 4.0), softmaxes(10, 40, 1, 12)[:, 0]
    for weights in (None, w):
        few = upper_entropy(P, weights)
        monkeypatch.setattr("cbdl.credal.entropy._MANY", 0)
        many = upper_entropy(P, weights)
        monkeypatch.undo()
        torch.testing.assert_close(few.value, many.value, rtol=0, atol=1e-9)


# --- the split of one average, reference values --------------------------------------------------------------


@trials(30)
@given(P=sets.filter(lambda P: (P > 1e-290).all()))
def test_mutual_information_is_the_mean_divergence_to_the_mean(P):
    m = P.shape[1]
    total, expected = averaged_entropies(P, torch.full((m,), 1 / m, dtype=torch.float64))
    divergence = scipy.stats.entropy(P.numpy(), P.mean(1, keepdim=True).numpy(), axis=-1).mean(-1)
    np.testing.assert_allclose((total - expected).numpy(), divergence, atol=1e-12)
    assert (total <= upper_entropy(P).value + 1e-9).all()


@pytest.mark.parametrize("scale", [1e-8, 0.3, 1.0, 1e8])
def test_reference_entropies_are_those_of_scipy(scale):
    assert reference_entropy("normal", scale=scale) == pytest.approx(
        scipy.stats.norm(scale=scale).entropy(), abs=1e-12
    )
    assert reference_entropy("cauchy", scale=scale) == pytest.approx(
        scipy.stats.cauchy(scale=scale).entropy(), abs=1e-12
    )
    for df in (0.5, 1, 2.5, 30, 199, 201, 1e4, 1e8):
        exact = scipy.stats.t(df, scale=scale).entropy()
        assert reference_entropy("student-t", df=df, scale=scale) == pytest.approx(float(exact), abs=1e-9)
    assert reference_entropy("uniform", classes=7) == pytest.approx(
        scipy.stats.randint(0, 7).entropy(), abs=1e-12
    )


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("gauss", {}, "name is 'gauss'; give one of 'normal', 'student-t', 'cauchy', 'uniform'"),
        ("normal", {"scale": 0.0}, "scale is 0.0; it must be a positive finite number"),
        ("normal", {"scale": math.nan}, "scale is nan; it must be a positive finite number"),
        ("cauchy", {"scale": math.inf}, "scale is inf; it must be a positive finite number"),
        ("normal", {"df": 3}, "df means nothing for 'normal'"),
        ("student-t", {}, "'student-t' needs df"),
        ("uniform", {}, "'uniform' needs classes"),
        ("uniform", {"classes": 2.5}, "classes is 2.5; it must be a whole number"),
    ],
)
def test_bad_references_are_named(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        reference_entropy(name, **parameters)


@pytest.mark.parametrize("apart", [0.0, 1e-7, 1e-6, 1e-3, 1.0, 60.0])
@pytest.mark.parametrize("distinct", [1, 4, 12])
def test_of_many_classes_extremes_that_nearly_coincide_are_settled_too(apart, distinct):
    """Their Hessian is singular in single precision; far apart, most weights matter and few classes do."""
    g = torch.Generator().manual_seed(distinct)
    logits = 2 * torch.randn(8, 1, 300, generator=g, dtype=torch.float64)
    logits = logits + torch.randn(8, distinct, 300, generator=g, dtype=torch.float64)
    logits = logits.repeat(1, 12 // distinct, 1)
    P = (logits + apart * torch.randn(8, 12, 300, generator=g, dtype=torch.float64)).softmax(-1)
    best = upper_entropy(P)
    assert (best.gap < 1e-9).all()
    q = (best.weights[:, None] @ P)[:, 0]
    np.testing.assert_allclose(best.value, scipy.stats.entropy(q.numpy(), axis=-1), rtol=1e-12)
