"""Regions of classes: coverage, minimality, rounding, and what the paper says about them."""

import itertools
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from cbdl.credal._border import border_of
from cbdl.credal.classes import cover, regions
from cbdl.credal.classes.regions import class_region, credible_set, region, region_from_mask
from trials import trials

METHODS = ("union", "lower-density", "minimal")
NUMPY = border_of(np.zeros(1))
PAPER = torch.tensor(
    [[0.7, 0.25, 0.03, 0.01, 0.01], [0.6, 0.2, 0.1, 0.05, 0.05], [0.5, 0.3, 0.15, 0.025, 0.025]],
    dtype=torch.float64,
)


def softmaxes(seed: int, B: int, m: int, J: int, scale: float = 1.5) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    common = torch.randn(B, 1, J, generator=generator, dtype=torch.float64)
    own = torch.randn(B, m, J, generator=generator, dtype=torch.float64)
    return torch.softmax(scale * (common + 0.7 * own), -1)


def dyadic(seed: int, B: int, m: int, J: int, n: int = 16) -> torch.Tensor:
    """Probabilities that are multiples of 1/n: exact ties, exact zeros, sums without rounding."""
    counts = np.random.default_rng(seed).multinomial(n, np.full(J, 1 / J), size=(B, m))
    return torch.from_numpy(counts / n)


def brute_minimal(P: np.ndarray, level: float, tolerance: float = 1e-12) -> set[int]:
    """Fewest classes, then largest lower probability, then lexicographically first."""
    J = P.shape[-1]
    for k in range(1, J + 1):
        subsets = list(itertools.combinations(range(J), k))
        values = [P[:, list(s)].sum(1).min() for s in subsets]
        top = max(values)
        if top >= level - tolerance:
            return set(next(s for s, v in zip(subsets, values, strict=True) if v >= top - tolerance))
    raise AssertionError


def milp_size(P: np.ndarray, level: float) -> int:
    J = P.shape[-1]
    found = milp(
        np.ones(J),
        constraints=LinearConstraint(P, level - 1e-9),
        integrality=np.ones(J),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0.0},
    )
    return round(found.fun)


def as_sets(mask: torch.Tensor) -> list[set[int]]:
    return [set(row.nonzero().squeeze(-1).tolist()) for row in mask]


# --- the paper --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_the_papers_table_gives_the_first_three_outcomes(method: str) -> None:
    r = region(PAPER, 0.1, method, border=NUMPY)
    assert r.mask.tolist() == [True, True, True, False, False]
    assert r.measure == 3
    # 0.6 + 0.2 + 0.1 is the level 0.9, whatever floating point says.
    assert r.level == pytest.approx(0.9, abs=1e-15)
    assert r.upper_probability == pytest.approx(0.98)


@pytest.mark.parametrize("method", METHODS)
def test_the_papers_table_in_single_precision(method: str) -> None:
    P = PAPER.float().double()
    assert class_region((P / P.sum(-1, keepdim=True))[None], 0.1, method, tolerance=1e-6).sum() == 3


def test_slack_accepts_the_toy_example_of_the_remark() -> None:
    p = torch.tensor([0.6, 0.3, 0.045, 0.008, 0.02, 0.017, 0.01], dtype=torch.float64)
    assert credible_set(p, 0.05).sum() == 4
    assert credible_set(p, 0.05, slack=0.005).tolist() == [True] * 3 + [False] * 4
    for method in METHODS:
        strict = region(p[None], 0.05, method, border=NUMPY)
        slack = region(p[None], 0.05, method, border=NUMPY, slack=0.005)
        assert (strict.measure, slack.measure) == (4, 3)
        assert slack.level == pytest.approx(0.945)


def test_lower_density_is_not_tighter_than_the_union_when_the_extremes_agree_on_nothing() -> None:
    # The paper's conclusion calls the level set of the lower density tighter. Two sure extremes: the lower mass
    # function is 0 everywhere, so its only level set is the whole space; the union has two classes.
    P = torch.eye(5, dtype=torch.float64)[None, :2]
    assert class_region(P, 0.1, "union").sum() == 2
    assert class_region(P, 0.1, "lower-density").sum() == 5


def test_lower_density_may_lose_to_the_union_and_win_without_zeros() -> None:
    loses = torch.tensor([[[0.85, 0.01, 0.07, 0.07], [0.01, 0.85, 0.07, 0.07]]], dtype=torch.float64)
    assert as_sets(class_region(loses, 0.15, "union")) == [{0, 1}]
    assert as_sets(class_region(loses, 0.15, "lower-density")) == [{0, 1, 2, 3}]
    assert as_sets(class_region(loses, 0.15, "minimal")) == [{0, 1}]
    wins = torch.tensor([[[0.40, 0.31, 0.29], [0.40, 0.295, 0.305]]], dtype=torch.float64)
    assert class_region(wins, 0.31, "union").sum() == 3
    assert as_sets(class_region(wins, 0.31, "lower-density")) == [{0, 1}]


# --- truth ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.3, 0.5])
@pytest.mark.parametrize(("m", "J"), [(1, 5), (2, 3), (3, 6), (5, 8)])
def test_minimal_equals_brute_force(alpha: float, m: int, J: int) -> None:
    for P in (softmaxes(J, 12, m, J), dyadic(J, 12, m, J)):
        expected = [brute_minimal(p.numpy(), 1 - alpha) for p in P]
        assert as_sets(class_region(P, alpha, "minimal")) == expected


@pytest.mark.parametrize("J", [12, 17, 20, 30])
def test_minimal_has_the_size_that_milp_finds(J: int) -> None:
    P = softmaxes(J, 10, 4, J)
    for alpha in (0.05, 0.25):
        r = region(P, alpha, "minimal", border=NUMPY)
        assert (r.gap == 0).all()
        assert r.measure.tolist() == [milp_size(p.numpy(), 1 - alpha) for p in P]


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_reduction_and_branch_and_bound_agree_with_enumeration(
    alpha: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for P in (softmaxes(3, 40, 4, 9), dyadic(3, 40, 3, 9)):
        truth = class_region(P, alpha, "minimal")
        monkeypatch.setattr(cover, "SUBSETS", 60)  # most sets need the reduction now, some HiGHS
        reduced = region(P, alpha, "minimal", border=NUMPY)
        assert (reduced.gap == 0).all()
        assert torch.equal(torch.from_numpy(reduced.measure), truth.sum(-1))
        attained = region_from_mask(P, truth, NUMPY).level
        np.testing.assert_allclose(reduced.level, attained, atol=3e-6)
        monkeypatch.undo()


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.4])
def test_leaving_out_classes_that_do_not_matter_changes_nothing(alpha: float) -> None:
    P = torch.cat([softmaxes(5, 60, 3, 12), dyadic(5, 60, 2, 12)[:, [0, 1, 1]]])
    target = 1 - alpha - 1e-12
    lower, upper, _ = cover._bounds(P, target)
    forced, free = cover._reduce(P, upper, target, 1e-12)
    assert (forced.any(), (~forced & ~free).any()) == (True, True)
    low, high = (lower - forced.sum(-1)).clamp_min(0), upper - forced.sum(-1)
    reduced = cover._enumerate_reduced(P, forced, free, 12, low, high, target, 1e-12)
    assert torch.equal(reduced, class_region(P, alpha, "minimal"))


def test_a_proposal_of_highs_that_misses_the_level_by_its_tolerance_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # {0, 1} reaches 0.5 - 5e-10 under both extremes, which HiGHS takes for 0.5; no other two classes come near,
    # and neither an extreme nor their mean proves it.
    first = [0.25, 0.25 - 5e-10, 0.40, 0.02, 0.08 + 5e-10]
    second = [0.25, 0.25 - 5e-10, 0.20, 0.28, 0.02 + 5e-10]
    P = torch.tensor([[first, second]], dtype=torch.float64)
    assert len(brute_minimal(P[0].numpy(), 0.5)) == 3
    assert cover._bounds(P, 0.5)[0] == 2
    monkeypatch.setattr(cover, "SUBSETS", 0)
    r = region(P, 0.5, "minimal", border=NUMPY)
    assert (r.measure[0], r.gap[0]) == (3, 0)
    assert r.level[0] >= 0.5


def test_branch_and_bound_reports_what_it_could_not_prove(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cover, "NODES", 1)
    monkeypatch.setattr(cover, "SUBSETS", 0)
    P = softmaxes(8, 4, 12, 40, scale=0.3)
    r = region(P, 0.3, "minimal", border=NUMPY)
    truth = np.array([milp_size(p.numpy(), 0.7) for p in P])
    assert (r.level >= 0.7 - 1e-9).all()
    assert (r.measure >= truth).all()
    assert (r.measure - r.gap <= truth).all()


def test_highest_density_region_of_one_categorical_is_a_credible_set_for_every_method() -> None:
    P = softmaxes(1, 50, 1, 7)
    expected = credible_set(P.squeeze(1), 0.1)
    for method in METHODS:
        assert torch.equal(class_region(P, 0.1, method), expected)


def test_ties_are_broken_by_class_index() -> None:
    p = torch.tensor([[0.2, 0.3, 0.2, 0.2, 0.1]], dtype=torch.float64)
    assert as_sets(credible_set(p, 0.3)) == [{0, 1, 2}]
    assert as_sets(class_region(p[None], 0.3, "minimal")) == [{0, 1, 2}]
    # A level set has all classes of its level.
    assert as_sets(class_region(p[None], 0.3, "lower-density")) == [{0, 1, 2, 3}]


# --- properties -------------------------------------------------------------------------------------------

sets = st.builds(
    lambda kind, seed, m, J: (softmaxes if kind else dyadic)(seed, 3, m, J),
    st.booleans(),
    st.integers(0, 10**6),
    st.integers(1, 6),
    st.integers(1, 9),
)


@trials(60)
@given(sets, st.floats(0.01, 0.99))
def test_all_regions_cover_and_minimal_is_the_smallest(P: torch.Tensor, alpha: float) -> None:
    regions = {method: region(P, alpha, method, border=NUMPY) for method in METHODS}
    for r in regions.values():
        assert (r.lower_probability >= 1 - alpha - 1e-11).all()
        assert (r.upper_probability - r.lower_probability <= alpha + 1e-11).all()
        assert (r.measure >= 1).all()
    assert (regions["minimal"].measure <= regions["union"].measure).all()
    assert (regions["minimal"].measure <= regions["lower-density"].measure).all()
    assert (regions["minimal"].gap == 0).all()


@trials(40)
@given(sets, st.floats(0.01, 0.98), st.floats(0.0, 1.0))
def test_a_higher_level_needs_no_fewer_classes(P: torch.Tensor, alpha: float, t: float) -> None:
    larger = alpha + t * (0.99 - alpha)
    for method in METHODS:
        assert (class_region(P, larger, method).sum(-1) <= class_region(P, alpha, method).sum(-1)).all()
    for method in ("union", "lower-density"):  # these are nested, not only smaller
        assert (class_region(P, alpha, method) | ~class_region(P, larger, method)).all()


@pytest.mark.parametrize("method", METHODS)
def test_the_answer_does_not_depend_on_the_rest_of_the_batch(method: str) -> None:
    P = torch.cat([softmaxes(4, 20, 3, 18), dyadic(4, 20, 3, 18), softmaxes(4, 20, 3, 18, scale=8.0)])
    together = class_region(P, 0.1, method)
    alone = torch.cat([class_region(p[None], 0.1, method) for p in P])
    assert torch.equal(together, alone)
    back = torch.randperm(len(P), generator=torch.Generator().manual_seed(0))
    assert torch.equal(class_region(P[back], 0.1, method), together[back])


@pytest.mark.parametrize("method", METHODS)
def test_repeated_extremes_change_nothing(method: str) -> None:
    P = softmaxes(6, 30, 3, 8)
    assert torch.equal(class_region(P.repeat(1, 3, 1), 0.1, method), class_region(P, 0.1, method))


# --- hard numbers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_peaked_probabilities(method: str) -> None:
    logits = torch.zeros(1, 3, 6)
    logits[0, 0, 0] = logits[0, 1, 0] = logits[0, 2, 1] = 200.0
    P = torch.softmax(logits - 100, -1).double()
    assert as_sets(class_region(P, 0.05, method, tolerance=1e-6))[0] >= {0, 1}
    tiny = torch.tensor([[[1.0, 1e-300, 0.0], [1.0, 0.0, 1e-300]]], dtype=torch.float64)
    assert as_sets(class_region(tiny, 1e-9, method)) == [{0}]


@pytest.mark.parametrize("method", METHODS)
def test_many_classes_and_extremes(method: str) -> None:
    P = softmaxes(11, 2, 64, 1000, scale=6.0)
    r = region(P, 0.1, method, border=NUMPY)
    assert (r.lower_probability >= 0.9 - 1e-11).all()
    assert (r.measure < 1000).all()


@pytest.mark.slow
def test_minimal_region_of_a_set_that_highs_cannot_finish_has_a_bound() -> None:
    P = softmaxes(11, 1, 64, 1000, scale=3.0)
    r = region(P, 0.1, "minimal", border=NUMPY)
    assert (r.lower_probability >= 0.9 - 1e-11).all()
    assert r.measure[0] < region(P, 0.1, "union", border=NUMPY).measure[0]
    assert 0 <= r.gap[0] <= 0.05 * r.measure[0]


def test_a_large_batch_of_many_classes_that_the_bounds_settle() -> None:
    P = softmaxes(12, 500, 4, 100, scale=6.0)
    r = region(P, 0.1, "minimal", border=NUMPY)
    assert (r.gap == 0).all()
    assert (r.lower_probability >= 0.9 - 1e-11).all()


# --- the border -------------------------------------------------------------------------------------------


def test_contains_takes_one_label_a_set_or_several() -> None:
    P = softmaxes(2, 6, 3, 5).reshape(2, 3, 3, 5)
    r = region(P, 0.2, "union", border=NUMPY)
    assert isinstance(r.mask, np.ndarray)
    labels = np.arange(5)
    assert (r.contains(np.broadcast_to(labels, (2, 3, 5))) == r.mask).all()
    assert (r.contains(np.full((2, 3), 4)) == r.mask[..., 4]).all()
    assert (r.contains(4) == r.mask[..., 4]).all()
    single = region(P[0, 0], 0.2, "union", border=border_of(P))
    assert isinstance(single.mask, torch.Tensor)
    assert torch.equal(single.contains(torch.arange(5)), single.mask)
    assert single.contains(2).shape == ()


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (5, r"y\[\] is 5; labels are whole numbers from 0 to 4"),
        ([0, -1], r"y\[1\] is -1"),
        ([0.5, 1], r"y\[0\] is 0.5"),
        ([np.nan, 1], r"y\[0\] is nan"),
        ([[1, 2, 3]] * 3, r"y has shape \(3, 3\), the batch of sets \(2,\)"),
        ([1, 2, 3], r"y has shape \(3,\), the batch of sets \(2,\)"),
    ],
)
def test_contains_names_a_bad_label(y: object, message: str) -> None:
    r = region(softmaxes(2, 2, 3, 5), 0.2, "union", border=NUMPY)
    with pytest.raises(ValueError, match=message):
        r.contains(y)  # type: ignore[arg-type]


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="alpha is 1"):
        class_region(PAPER[None], 1.0, "union")
    with pytest.raises(ValueError, match="method is 'smallest'; give one of 'union'"):
        class_region(PAPER[None], 0.1, "smallest")
    with pytest.raises(ValueError, match=r"slack is 0\.95"):
        class_region(PAPER[None], 0.1, "union", slack=0.95)


@trials(30)
@given(st.integers(0, 10**6), st.integers(32, 80), st.floats(0.01, 0.9))
def test_of_many_classes_that_tie_those_of_the_lowest_index_belong(seed, classes, alpha):
    rng = np.random.default_rng(seed)
    p = rng.integers(0, 4, classes).astype(float) + (rng.random(classes) < 0.1)
    p = p / p.sum() if p.sum() else np.full(classes, 1 / classes)
    mask = credible_set(torch.tensor(p)[None], alpha)[0].numpy()
    reached, expected = 0.0, np.zeros(classes, dtype=bool)
    for k in sorted(range(classes), key=lambda k: (-p[k], k)):
        if reached >= 1 - alpha - 1e-12:
            break
        expected[k] = True
        reached += p[k]
    assert np.array_equal(mask, expected)


@trials(40)
@given(
    st.integers(0, 10**6),
    st.integers(32, 300),
    st.floats(0.001, 0.999),
    st.sampled_from([0.05, 1.0, 20.0]),
    st.sampled_from([0, 1e-6, -1e-6]),
)
def test_of_many_classes_the_union_is_that_of_sums_in_extended_precision(seed, classes, alpha, spread, edge):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(classes, spread), (2, 3))
    P[0, 0, rng.permutation(classes)[: classes // 2]] = 0
    P /= P.sum(-1, keepdims=True)
    if edge:  # the target next to the sum of a block of 32
        share = np.sort(P[1, 2])[::-1][:32].sum() + edge
        alpha = 1 - share if 0 < share < 1 else alpha
    mask = class_region(torch.from_numpy(P), alpha, "union").numpy()
    for sets, ours in zip(P, mask, strict=True):
        surely, perhaps = set(), set()
        for p in sets:
            order = np.argsort(-p, kind="stable")
            before = np.cumsum(p[order], dtype=np.longdouble) - p[order]
            for members, margin in ((surely, -2e-12), (perhaps, 1e-13)):
                members.update(order[before < 1 - alpha + margin])
        assert surely <= set(np.flatnonzero(ours)) <= perhaps | set(sets.argmax(-1))


@trials(40)
@given(
    st.integers(0, 10**6),
    st.integers(32, 300),
    st.floats(0.001, 0.999),
    st.sampled_from(["plain", "tied", "tiny", "sure"]),
)
def test_compiled_loops_and_sorts_have_the_same_unions(seed, classes, alpha, kind):
    pytest.importorskip("numba")
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(classes, 0.3), (3, 2))
    if kind == "tied":
        P = rng.integers(0, 4, P.shape) + 1e-3
    elif kind == "tiny":  # below all drawers but the last
        P = np.exp(-rng.uniform(0, 90, P.shape))
    elif kind == "sure":
        P[..., 0] = 1e12
    P = torch.from_numpy(P / P.sum(-1, keepdims=True))
    masks = []
    for least in (0, sys.maxsize):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(regions, "LOOPS", least)
            masks.append(class_region(P, alpha, "union"))
    assert torch.equal(*masks)
