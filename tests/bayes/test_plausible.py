"""Which members the data refute: the alpha-cut, from scores of left-out rows."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cbdl.bayes.cohort import Member
from cbdl.bayes.plausible import judge


def members(count: int) -> tuple[Member, ...]:
    return tuple(Member.of(0, k, 0) for k in range(count))


def score(seed: int, rows: int, behind: list[float], noise: float = 1.0) -> Tensor:
    """Scores of members that are behind the first by so much a row, with differences that vary by `noise`."""
    source = torch.Generator().manual_seed(seed)
    common = torch.randn(rows, 1, generator=source, dtype=torch.float64)
    own = noise * torch.randn(rows, len(behind), generator=source, dtype=torch.float64)
    return common + own - torch.tensor(behind, dtype=torch.float64)


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(5, 80))
def test_a_cut_keeps_the_best_and_grows_with_alpha(seed: int, count: int, rows: int) -> None:
    values = score(seed, rows, [0.1 * k for k in range(count)])
    ones = torch.ones(rows, dtype=torch.float64)
    kept = [
        {v.member for v in judge(members(count), values, ones, alpha).verdicts if v.kept}
        for alpha in (0.0, 0.01, 0.3, 1.0)
    ]
    assert len(kept[0]) == count
    assert all(less <= more for more, less in pairwise(kept))
    assert kept[3] == {members(count)[int(values.mean(0).argmax())]}


def test_plausibility_is_the_relative_likelihood_of_an_equal_mean() -> None:
    """For Normal differences: the likelihood at mean 0 over that at the mean that was seen."""
    values = score(1, 400, [0.0, 0.03], noise=0.2)
    verdict = judge(members(2), values, torch.ones(400, dtype=torch.float64), 0.05).verdicts[1]
    d = values[:, 0] - values[:, 1]
    error = d.std() / 400**0.5
    normal = torch.distributions.Normal(d.mean(), error)
    wanted = (normal.log_prob(torch.zeros(())) - normal.log_prob(d.mean())).exp()
    assert verdict.plausibility == pytest.approx(float(wanted), rel=1e-9)
    assert verdict.behind == pytest.approx(float(d.mean()))
    assert verdict.error == pytest.approx(float(error))


def test_members_that_the_rows_do_not_tell_apart_stay_however_many_rows() -> None:
    """Totals differ by many nats between equals; a cut of the total likelihood would leave one."""
    dropped, gaps = 0, []
    for seed in range(40):
        values = score(seed, 2000, [0.0, 0.0])
        gaps.append(abs(float(values.sum(0).diff())))
        dropped += len(judge(members(2), values, torch.ones(2000, dtype=torch.float64), 0.01).dropped)
    assert sorted(gaps)[20] > 10
    assert dropped <= 2  # a share of 2 P(Z > 3.03) = 0.0024 is expected


def test_a_member_that_fails_rarely_but_badly_is_refuted() -> None:
    """One row in fifty at -60 nats: the mean is 1.2 behind, and its error as large."""
    values = score(0, 50, [0.0, 0.0], noise=0.1)
    values[7, 1] = -60.0
    verdict = judge(members(2), values, torch.ones(50, dtype=torch.float64), 0.01).verdicts[1]
    assert verdict.error > 0.8 * verdict.behind
    assert verdict.plausibility == pytest.approx(math.exp(-20 * verdict.behind), rel=1e-9)
    assert not verdict.kept


def test_differences_that_do_not_matter_refute_nobody_however_many_rows() -> None:
    values = score(0, 50_000, [0.0, 0.02], noise=0.5)
    verdict = judge(members(2), values, torch.ones(50_000, dtype=torch.float64), 0.01).verdicts[1]
    assert verdict.behind > 3 * verdict.error
    assert verdict.kept


def test_clearly_worse_members_are_refuted() -> None:
    verdict = judge(members(2), score(0, 500, [0.0, 0.5]), torch.ones(500, dtype=torch.float64), 0.01)
    assert [m.k for m in verdict.dropped] == [1]
    assert "dropped" in str(verdict).splitlines()[-1]


def test_a_row_that_counts_twice_is_two_rows() -> None:
    values = score(3, 50, [0.0, 0.2])
    counts = torch.ones(50, dtype=torch.float64)
    counts[:10] = 2
    twice = torch.cat([values, values[:10]])
    one = judge(members(2), values, counts, 0.01)
    other = judge(members(2), twice, torch.ones(60, dtype=torch.float64), 0.01)
    for a, b in zip(one.verdicts, other.verdicts, strict=True):
        assert a.plausibility == pytest.approx(b.plausibility, rel=1e-9)


def test_a_score_that_is_no_number_is_refuted() -> None:
    values = score(0, 30, [0.0, 0.0])
    values[3, 1] = -torch.inf
    verdict = judge(members(2), values, torch.ones(30, dtype=torch.float64), 0.01)
    assert [v.kept for v in verdict.verdicts] == [True, False]


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
def test_a_cut_is_a_share(alpha: float) -> None:
    with pytest.raises(ValueError, match="plausible is"):
        judge(members(1), torch.zeros(3, 1), torch.ones(3), alpha)


@pytest.mark.parametrize(
    ("behind", "scales", "word"),
    [
        ([0.0, 1.0, 2.0], (1.0, 2.0, 4.0), "narrower"),
        ([2.0, 1.0, 0.0], (1.0, 2.0, 4.0), "wider"),
        ([0.0, 1.0, 2.0], (4.0, 2.0, 1.0), "wider"),
        ([1.0, 0.0, 2.0], (1.0, 2.0, 4.0), ""),  # inside
        ([0.0, 0.001, 2.0], (1.0, 2.0, 4.0), ""),  # the next one is as good
        ([0.0, 2.0], (1.0, 2.0), ""),  # two are no grid
    ],
)
def test_a_grid_that_ends_too_soon_is_told(behind: list[float], scales: tuple[float, ...], word: str) -> None:
    ones = torch.ones(400, dtype=torch.float64)
    judged = judge(members(len(scales)), score(0, 400, behind), ones, 0.01, scales=scales)
    assert (word in judged.edge) if word else judged.edge == ""
    assert judged.edge in str(judged)


def test_so_many_stay_at_least_and_it_is_told_who_is_refuted() -> None:
    values, ones = score(0, 400, [1.0, 0.0, 3.0, 2.0]), torch.ones(400, dtype=torch.float64)
    alone, two, all_of_them = (judge(members(4), values, ones, 0.05, least=n) for n in (1, 2, 9))
    assert [[v.kept for v in j.verdicts] for j in (alone, two)] == [
        [False, True, False, False],
        [True, True, False, False],
    ]
    assert [len(j.spared) for j in (alone, two, all_of_them)] == [0, 1, 3]
    assert two.spared == (members(4)[0],)
    assert "knows no ignorance" in two.summary
    assert "knows no ignorance" not in alone.summary
    lines = str(two).splitlines()[2:]
    assert [
        line.endswith(word)
        for line, word in zip(lines, ["refuted, kept", "", "dropped", "dropped"], strict=True)
    ]
    assert "refuted, kept" in two._repr_html_()


def test_a_member_whose_training_failed_is_not_refuted() -> None:
    values, ones = score(0, 400, [0.0, 3.0, 2.0, 1.0]), torch.ones(400, dtype=torch.float64)
    judged = judge(members(4), values, ones, 0.05, "5 folds", least=2, failed={(3, 0)})
    assert [m.k for m in judged.failed] == [3]
    assert [m.k for m in judged.dropped] == [1, 3]
    assert [m.k for m in judged.spared] == [2], "a failed one does not stay for the sake of numbers"
    assert judged.summary == (
        "refuted by the data (plausibility below 0.05, 5 folds): (prior 1, likelihood 0); refuted, but kept because "
        "one member alone knows no ignorance: (prior 2, likelihood 0); left out because their training failed: "
        "(prior 3, likelihood 0)"
    )
    assert str(judged).splitlines()[-1].endswith("failed")
    assert "failed" in judged._repr_html_()
    assert repr(judged) == f"Plausibility({judged.summary})"


def test_nobody_is_compared_with_a_member_that_failed_unless_all_did() -> None:
    values, ones = score(0, 400, [1.0, 0.0]), torch.ones(400, dtype=torch.float64)
    assert judge(members(2), values, ones, 0.05, failed={(1, 0)}).verdicts[0].plausibility == 1
    everyone = judge(members(2), values, ones, 0.05, failed={(0, 0), (1, 0)})
    assert [v.kept for v in everyone.verdicts] == [False, True]
    assert "failed, kept" in str(everyone)


def test_a_prior_that_failed_is_no_end_of_a_grid() -> None:
    values, ones = score(0, 400, [0.0, 1.0, 2.0]), torch.ones(400, dtype=torch.float64)
    assert judge(members(3), values, ones, 0.01, scales=(1.0, 2.0, 4.0)).edge
    assert not judge(members(3), values, ones, 0.01, scales=(1.0, 2.0, 4.0), failed={(1, 0)}).edge


def test_nobody_is_spared_who_did_not_learn_or_if_only_the_likeliest_is_wanted() -> None:
    values, ones = score(0, 30, [0.0, 0.0]), torch.ones(30, dtype=torch.float64)
    assert len(judge(members(2), values, ones, 1.0, least=2).dropped) == 1
    values[3, 1] = -torch.inf
    assert [m.k for m in judge(members(2), values, ones, 0.05, least=2).dropped] == [1]
    with pytest.raises(ValueError, match="least is 0"):
        judge(members(2), values, ones, 0.05, least=0)


def test_a_grid_is_priors_that_differ_in_nothing_but_their_scale() -> None:
    from cbdl import priors as p
    from cbdl.steps.fitting import _scales

    assert _scales([p.StudentT(4.0, 0.0, s, True) for s in (1.0, 2.0)]) == [1.0, 2.0]
    assert _scales([p.Laplace(0.0, s) for s in (3.0, 1.0)]) == [3.0, 1.0]
    assert _scales([p.StudentT(4.0, 0.0, 1.0), p.StudentT(5.0, 0.0, 2.0)]) is None
    assert _scales([p.Normal(0.0, 1.0), p.Laplace(0.0, 2.0)]) is None
    assert _scales([p.Normal(0.0, 1.0), {"*": p.Normal(0.0, 2.0)}]) is None
