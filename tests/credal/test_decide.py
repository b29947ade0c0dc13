"""Decision rules: against linear programmes, and their known inclusions."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from cbdl.credal._optimum import Optimum
from cbdl.credal.decide import choose, decide
from cbdl.credal.solvers.linprog import matrix_game
from trials import trials

RULES = ("maximin", "gamma-maximin", "gamma-maximax", "maximality", "e-admissible", "interval-dominance")


def utilities(seed: int, B: int, A: int, m: int, whole: bool = False) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    u = rng.integers(-3, 4, size=(B, A, m)) if whole else rng.normal(size=(B, A, m))
    return torch.from_numpy(u.astype(np.float64))


def optimal_somewhere(e: np.ndarray, a: int) -> bool:
    """Whether some beta makes action a optimal: max t such that E_a - E_b >= t for all b, by scipy."""
    A, m = e.shape
    rows = np.column_stack([e - e[a], np.ones(A)])
    cost = np.append(np.zeros(m), -1.0)
    equality = np.append(np.ones(m), 0.0)[None]
    bounds = [(0, None)] * m + [(None, None)]
    found = linprog(cost, A_ub=rows, b_ub=np.zeros(A), A_eq=equality, b_eq=[1.0], bounds=bounds)
    return bool(-found.fun >= -1e-9)


def test_maximin_is_the_modified_step_6() -> None:
    P = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.35, 0.45]], dtype=torch.float64)
    kept = decide(P.T[None], "maximin")
    assert kept.tolist() == [[False, True, False]]
    tied = torch.tensor([[0.4, 0.3, 0.3], [0.3, 0.4, 0.3]], dtype=torch.float64)
    # All maximisers; here all three have lower probability 0.3.
    assert decide(tied.T[None], "maximin").all()


def test_textbook_example_where_the_rules_differ() -> None:
    # m = 2, so an action is a line on [0, 1]. The fourth is below the upper envelope of the first two but not
    # below either of them: maximal, not E-admissible. The fifth is dominated, but its interval is not.
    e = torch.tensor([[[4.0, 0.0], [0.0, 4.0], [2.5, 2.0], [1.9, 1.9], [3.9, -0.5]]], dtype=torch.float64)
    assert decide(e, "gamma-maximin").tolist() == [[False, False, True, False, False]]
    assert decide(e, "gamma-maximax").tolist() == [[True, True, False, False, False]]
    assert decide(e, "e-admissible").tolist() == [[True, True, True, False, False]]
    assert decide(e, "maximality").tolist() == [[True, True, True, False, False]]
    assert decide(e, "interval-dominance").tolist() == [[True, True, True, False, True]]
    e = torch.tensor([[[4.0, 0.0], [0.0, 4.0], [1.5, 1.5]]], dtype=torch.float64)
    assert decide(e, "maximality").all()
    assert decide(e, "e-admissible").tolist() == [[True, True, False]]


@pytest.mark.parametrize(("A", "m"), [(3, 2), (5, 3), (6, 4), (8, 7)])
@pytest.mark.parametrize("whole", [False, True])
def test_e_admissibility_equals_the_linear_programme(A: int, m: int, whole: bool) -> None:
    e = utilities(A, 15, A, m, whole)
    expected = [[optimal_somewhere(x, a) for a in range(A)] for x in e.numpy()]
    assert decide(e, "e-admissible").tolist() == expected


def test_e_admissible_actions_are_optimal_on_a_grid_of_mixtures() -> None:
    e = utilities(1, 40, 6, 3)
    grid = torch.tensor([(i, j, 40 - i - j) for i in range(41) for j in range(41 - i)]).double() / 40
    values = e @ grid.T
    optimal = (values >= values.amax(1, keepdim=True)).any(-1)
    assert (decide(e, "e-admissible") | ~optimal).all()
    assert optimal.sum() >= 0.9 * decide(e, "e-admissible").sum()


def test_a_game_without_a_sharp_certificate_is_decided_by_highs(monkeypatch: pytest.MonkeyPatch) -> None:
    def blunt(game: torch.Tensor) -> Optimum:
        sharp = matrix_game(game)
        return replace(sharp, value=sharp.value - 0.5, gap=torch.ones_like(sharp.gap))

    e = utilities(7, 10, 6, 3, whole=True)
    expected = decide(e, "e-admissible")
    monkeypatch.setattr("cbdl.credal.decide.matrix_game", blunt)
    assert torch.equal(decide(e, "e-admissible"), expected)


def test_few_rivals_first_changes_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    P = torch.softmax(2 * torch.randn(6, 3, 40, generator=generator, dtype=torch.float64), -1)
    expected = [[optimal_somewhere(x, a) for a in range(40)] for x in P.mT.numpy()]
    assert decide(P.mT, "e-admissible").tolist() == expected


def test_maximality_equals_brute_force() -> None:
    e = utilities(2, 30, 7, 3, whole=True)
    for x, kept in zip(e, decide(e, "maximality"), strict=True):
        for a in range(7):
            assert kept[a] == (not any((x[b] > x[a]).all() for b in range(7)))


@trials(40)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 5), st.booleans())
def test_known_inclusions(seed: int, A: int, m: int, whole: bool) -> None:
    e = utilities(seed, 4, A, m, whole)
    kept = {rule: decide(e, rule) for rule in RULES}
    for rule in RULES:
        assert kept[rule].any(-1).all()
        assert (kept[rule] & kept["maximality"]).any(-1).all()
    assert (kept["maximality"] | ~kept["e-admissible"]).all()
    assert (kept["interval-dominance"] | ~kept["maximality"]).all()
    assert (kept["maximality"] | ~kept["gamma-maximin"]).all()
    assert (kept["maximality"] | ~kept["gamma-maximax"]).all()
    assert (kept["e-admissible"] & kept["gamma-maximax"]).any(-1).all()
    assert torch.equal(kept["maximin"], kept["gamma-maximin"])


@trials(30)
@given(st.integers(0, 10**6), st.integers(1, 6), st.booleans())
def test_with_two_actions_maximal_is_e_admissible(seed: int, m: int, whole: bool) -> None:
    e = utilities(seed, 6, 2, m, whole)
    assert torch.equal(decide(e, "maximality"), decide(e, "e-admissible"))


@trials(30)
@given(st.integers(0, 10**6), st.sampled_from([1e-8, 1.0, 1e8]), st.floats(-1, 1))
def test_unit_and_origin_of_utility_do_not_matter(seed: int, scale: float, shift: float) -> None:
    e = utilities(seed, 4, 5, 3)
    for rule in RULES:
        assert torch.equal(decide(scale * (e + shift), rule), decide(e, rule))


def test_one_extreme_makes_all_rules_expected_utility() -> None:
    e = utilities(3, 10, 5, 1)
    best = e.squeeze(-1) == e.squeeze(-1).amax(-1, keepdim=True)
    for rule in RULES:
        assert torch.equal(decide(e, rule), best)


def test_an_action_that_ties_at_one_mixture_alone_is_e_admissible() -> None:
    """Halfway between the last two extremes all five classes have probability 0.2; nowhere else does the first win."""
    P = torch.tensor(
        [
            [0.2, 0.6, 0.0, 0.2, 0.0],
            [0.2, 0.2, 0.4, 0.2, 0.0],
            [0.2, 0.2, 0.0, 0.6, 0.0],
            [0.2, 0.4, 0.0, 0.2, 0.2],
            [0.2, 0.0, 0.4, 0.2, 0.2],
        ],
        dtype=torch.float64,
    )
    assert decide(P.T[None], "e-admissible").all()


def test_equal_actions_stay_together() -> None:
    e = utilities(4, 20, 4, 3)
    e = torch.cat([e, e[:, :2] * (1 + 2e-16)], 1)
    for rule in RULES:
        kept = decide(e, rule)
        assert torch.equal(kept[:, 4:], kept[:, :2])


@pytest.mark.parametrize("rule", RULES)
def test_the_answer_does_not_depend_on_the_rest_of_the_batch(rule: str) -> None:
    e = torch.cat([utilities(5, 15, 6, 4), 1e6 * utilities(6, 15, 6, 4, whole=True)])
    together = decide(e, rule)
    assert torch.equal(together, torch.cat([decide(x[None], rule) for x in e]))


@pytest.mark.parametrize("rule", RULES)
def test_many_actions_and_extremes(rule: str) -> None:
    generator = torch.Generator().manual_seed(0)
    P = torch.softmax(3 * torch.randn(1, 64, 300, generator=generator, dtype=torch.float64), -1)
    kept = decide(P.mT, rule)
    assert kept.any(-1).all()
    zero = torch.zeros(2, 4, 3, dtype=torch.float64)
    assert decide(zero, rule).all()


def test_an_unknown_rule_is_named() -> None:
    with pytest.raises(ValueError, match="rule is 'best'; give one of 'maximin'"):
        decide(utilities(0, 1, 2, 2), "best")


# --- one of the kept actions ------------------------------------------------------------------------------


def test_choose_is_uniform_among_the_kept_and_reproducible() -> None:
    mask = torch.tensor([False, True, False, True, True]).repeat(30_000, 1)
    chosen = choose(mask, seed=1)
    assert torch.equal(chosen, choose(mask, seed=1))
    assert not torch.equal(chosen, choose(mask, seed=2))
    counts = torch.bincount(chosen, minlength=5)
    assert counts[[0, 2]].tolist() == [0, 0]
    assert ((counts[[1, 3, 4]] - 10_000).abs() < 5 * (30_000 * 2 / 9) ** 0.5).all()


@trials(30)
@given(st.integers(0, 10**6))
def test_a_choice_does_not_depend_on_the_masks_of_other_sets(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    a = torch.rand(8, 5, generator=generator) > 0.4
    b = torch.rand(8, 5, generator=generator) > 0.4
    a[:, 0] = b[:, 0] = True
    b[3] = a[3]
    assert choose(a, seed)[3] == choose(b, seed)[3]
    assert a.gather(1, choose(a, seed)[:, None]).all()


def test_choose_refuses_a_row_that_keeps_nothing() -> None:
    with pytest.raises(ValueError, match=r"mask\[1\] keeps nothing"):
        choose(torch.tensor([[True, False], [False, False]]), 0)
