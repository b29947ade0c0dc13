"""Generalized Hartley and maximal imprecision against enumeration in exact terms."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cbdl.credal.classes import hartley
from cbdl.credal.classes.hartley import (
    event_probabilities,
    generalized_hartley,
    lower_envelope,
    maximal_imprecision,
)
from trials import trials


def softmaxes(seed: int, B: int, m: int, J: int, scale: float = 2.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.softmax(scale * torch.randn(B, m, J, generator=generator, dtype=torch.float64), -1)


def textbook(P: np.ndarray) -> float:
    """The double loop over events and their subsets, sums of masses without rounding."""
    J = P.shape[1]
    rows = [[Fraction(x) for x in p] for p in P]
    events = [e for k in range(1, J + 1) for e in itertools.combinations(range(J), k)]
    lower = {e: min(sum(r[i] for i in e) for r in rows) for e in events}
    total = 0.0
    for event in events:
        mass = Fraction(0)
        for k in range(1, len(event) + 1):
            for part in itertools.combinations(event, k):
                mass += (-1) ** (len(event) - k) * lower[part]
        total += float(mass) * math.log(len(event))
    return total


@pytest.mark.parametrize(("m", "J"), [(1, 4), (2, 1), (2, 2), (3, 3), (4, 5), (2, 7)])
def test_generalized_hartley_equals_the_textbook_double_loop(m: int, J: int) -> None:
    P = softmaxes(J, 4, m, J)
    np.testing.assert_allclose(generalized_hartley(P), [textbook(p.numpy()) for p in P], atol=1e-13)


@pytest.mark.parametrize("J", [1, 2, 5, 12, 16, 20])
def test_one_distribution_has_none_and_the_vacuous_set_has_all(J: int) -> None:
    precise = softmaxes(J, 1, 1, J).repeat(1, 2, 1)
    assert generalized_hartley(precise).item() == pytest.approx(0.0, abs=1e-13)
    vacuous = torch.eye(J, dtype=torch.float64)[None]
    assert generalized_hartley(vacuous).item() == pytest.approx(math.log(J), abs=1e-13)


def test_mass_on_one_event_of_k_classes_gives_log_k_times_the_mass() -> None:
    # lowerP = 0.3 (uniform on the first two, unknown how) + 0.7 on the last class: a belief function.
    P = torch.tensor([[[0.3, 0.0, 0.0, 0.7], [0.0, 0.3, 0.0, 0.7]]], dtype=torch.float64)
    assert generalized_hartley(P).item() == pytest.approx(0.3 * math.log(2), abs=1e-15)


def test_coefficients_do_not_cancel() -> None:
    # c(k) = -(-1)^r times the r-th difference of log = -integral of x^(k-1) (1-x)^r / -log(x), r = J - k > 0.
    from scipy.integrate import quad

    for J in (5, 16, 20):
        c = hartley._coefficients(J)
        for k in range(1, J):
            r = J - k
            integral = quad(
                lambda x, k=k, r=r: x ** (k - 1) * (1 - x) ** r / -math.log(x), 0, 1, epsabs=1e-14
            )
            assert c[k].item() == pytest.approx(-integral[0], rel=1e-8)


@trials(30)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(2, 6))
def test_a_larger_set_is_no_less_imprecise(seed: int, m: int, J: int) -> None:
    P = softmaxes(seed, 3, m, J)
    part = P[:, :-1]
    assert (generalized_hartley(part) <= generalized_hartley(P) + 1e-13).all()
    assert (maximal_imprecision(part) <= maximal_imprecision(P)).all()
    assert (generalized_hartley(P) >= 0).all()
    assert (generalized_hartley(P) <= math.log(J)).all()


@trials(30)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 7))
def test_maximal_imprecision_is_the_supremum_over_all_events(seed: int, m: int, J: int) -> None:
    P = softmaxes(seed, 3, m, J)
    events = torch.tensor(list(itertools.product([0.0, 1.0], repeat=J)), dtype=torch.float64)
    probability = P @ events.T
    expected = (probability.amax(1) - probability.amin(1)).amax(-1)
    assert torch.allclose(maximal_imprecision(P), expected, atol=1e-14, rtol=0)


def test_all_events_are_indexed_by_bits() -> None:
    p = torch.tensor([[0.1, 0.2, 0.7]], dtype=torch.float64)
    expected = [0, 0.1, 0.2, 0.3, 0.7, 0.8, 0.9, 1.0]
    np.testing.assert_allclose(event_probabilities(p)[0], expected, atol=1e-15)
    P = softmaxes(0, 5, 3, 6)
    bits = torch.arange(64)[:, None] >> torch.arange(6) & 1
    assert torch.allclose(lower_envelope(P), (P @ bits.double().T).amin(1), atol=1e-15)


def test_peaked_probabilities_and_large_shapes() -> None:
    tiny = torch.tensor([[[1.0, 0.0, 1e-300], [1.0, 1e-300, 0.0]]], dtype=torch.float64)
    assert generalized_hartley(tiny).item() == pytest.approx(0.0, abs=1e-15)
    assert maximal_imprecision(tiny).item() == pytest.approx(0.0, abs=1e-15)
    wide = softmaxes(1, 40, 64, 1000)
    assert maximal_imprecision(wide).shape == (40,)
    brute = max(0.5 * (a - b).abs().sum().item() for a, b in itertools.combinations(wide[0], 2))
    assert maximal_imprecision(wide)[0].item() == pytest.approx(brute, abs=1e-13)
    assert torch.isfinite(generalized_hartley(softmaxes(2, 3, 64, 16))).all()


def test_the_answer_does_not_depend_on_the_rest_of_the_batch() -> None:
    P = softmaxes(3, 700, 4, 11)
    assert torch.equal(generalized_hartley(P)[123:124], generalized_hartley(P[123:124]))
    assert torch.equal(maximal_imprecision(P)[123:124], maximal_imprecision(P[123:124]))


def test_too_many_classes_are_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError, match="J is 21, above 20; merge classes, or use maximal_imprecision"):
        generalized_hartley(softmaxes(0, 1, 2, 21))
