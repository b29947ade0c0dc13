"""The levels that fresh outcomes need: split conformal prediction's quantile, with counts, kept as JSON."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cbdl
from cbdl.evaluate.conformal import Conformity, conformity
from trials import trials

LOGS = st.lists(st.floats(-50, 0), min_size=1, max_size=60).map(lambda v: np.array(v, dtype=np.float64))
PERCENT = st.integers(1, 99)


@trials(100)
@given(LOGS, PERCENT)
def test_the_level_is_the_quantile_of_split_conformal_prediction(logs: np.ndarray, percent: int) -> None:
    """The k-th smallest score, k = ceil((n + 1)(1 - alpha)), by numpy; with k above n there is none."""
    n, alpha = len(logs), percent / 100
    rank = math.ceil((n + 1) * (1 - Fraction(percent, 100)))
    known = Conformity(logs, np.ones(n))
    assert known.enough(alpha) == (rank <= n)
    if rank > n:
        assert known.needed(alpha) == -math.inf
        return
    scores = -logs
    assert known.needed(alpha) == -np.quantile(scores, rank / n, method="inverted_cdf")
    assert known.needed(alpha) == -np.sort(scores)[rank - 1]


@trials(100)
@given(LOGS, PERCENT, st.data())
def test_counts_are_repetitions(logs: np.ndarray, percent: int, data: st.DataObject) -> None:
    counts = np.array(data.draw(st.lists(st.integers(1, 5), min_size=len(logs), max_size=len(logs))))
    once = Conformity(logs, counts.astype(np.float64))
    often = Conformity(logs.repeat(counts), np.ones(counts.sum()))
    assert once.needed(percent / 100) == often.needed(percent / 100)
    assert once.enough(percent / 100) == often.enough(percent / 100)


@trials(50)
@given(LOGS, st.lists(st.floats(0.01, 5), min_size=60, max_size=60), PERCENT)
def test_counts_that_are_shares_cover_as_much_as_they_say(
    logs: np.ndarray, counts: list[float], percent: int
) -> None:
    own = np.array(counts[: len(logs)])
    known, alpha = Conformity(logs, own), percent / 100
    if known.enough(alpha):
        inside = own[logs >= known.needed(alpha)].sum()
        assert inside >= (own.sum() + 1) * (1 - alpha) - 1e-8


@trials(50)
@given(LOGS, st.booleans())
def test_levels_survive_json(logs: np.ndarray, whole: bool) -> None:
    logs = np.where(np.arange(len(logs)) % 3 == 2, -np.inf, logs) if whole else logs
    known = Conformity(logs, np.arange(1.0, 1 + len(logs)), "5 folds")
    back = Conformity.from_json(json.loads(json.dumps(known.to_json(), allow_nan=False)))
    assert np.array_equal(back.log_survival, known.log_survival)
    assert np.array_equal(back.counts, known.counts)
    assert back.how == known.how


GOOD = {"log_survival": [-1.0, None], "counts": [1.0, 2.0], "how": "5 folds"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"how": 3}, "an object with log_survival, counts and how"),
        ({"counts": None}, "counts as a list of numbers"),
        ({"counts": "12"}, "counts as a list of numbers"),
        ({"counts": [1, True]}, "counts as a list of numbers"),
        ({"log_survival": [[-1.0], [-2.0]]}, "log_survival as a list of numbers"),
        ({"log_survival": [-1, {}]}, "log_survival as a list of numbers"),
        ({"log_survival": [-1, -(10**400)]}, "log_survival as a list of numbers"),
        ({"counts": [1.0]}, "as many levels as counts, one at least; it has 2 and 1"),
        ({"counts": [], "log_survival": []}, "one at least"),
        ({"log_survival": [-1, 0.5]}, "at most 0"),
        ({"log_survival": [-1, math.nan]}, "at most 0"),
        ({"counts": [1, 0]}, "positive and finite"),
        ({"counts": [1, math.inf]}, "positive and finite"),
        ({"counts": [1, None]}, "positive and finite"),
    ],
)
def test_what_is_no_calibration_is_refused(change: dict[str, object], message: str) -> None:
    Conformity.from_json(GOOD)
    with pytest.raises(ValueError, match=message):
        Conformity.from_json({**GOOD, **change})


@pytest.mark.parametrize("odd", [None, 3, "x", [], [GOOD], {}])
def test_what_is_no_object_is_refused(odd: object) -> None:
    with pytest.raises(ValueError, match="an object with"):
        Conformity.from_json(odd)


def test_an_outcome_without_probability_asks_for_the_whole_space_also_after_json() -> None:
    sure = cbdl.CategoricalCredalSet(np.tile([[1.0, 0.0]], (50, 1, 1)))
    known = conformity(sure, np.ones(50))
    for levels in (known, Conformity.from_json(known.to_json())):
        assert levels.enough(0.1)
        assert levels.region(sure, 0.1).mask.all()


def test_too_few_outcomes_leave_the_plain_region() -> None:
    sets = cbdl.NormalCredalSet(np.zeros((5, 2)), np.ones((5, 2)))
    known = conformity(sets, np.full(5, 9.0))
    assert not known.enough(0.05)
    np.testing.assert_array_equal(known.region(sets, 0.05).hull(), sets.region(0.05).hull())
    assert known.enough(0.2)
    lower, upper = known.region(sets, 0.2).hull()
    np.testing.assert_allclose(upper - lower, 18.0, rtol=1e-10)


@trials(15)
@given(st.integers(0, 10**6), st.floats(-30, 0))
def test_a_region_at_any_level_holds_something(seed: int, log: float) -> None:
    """Under every extreme its likeliest outcome has level 0."""
    rng = np.random.default_rng(seed)
    known = Conformity(np.full(3, log), np.ones(3))
    classes = cbdl.CategoricalCredalSet(rng.dirichlet(np.full(4, 0.3), size=(5, 3)))
    assert known.region(classes, 0.5).mask.any(-1).all()
    line = cbdl.MixtureCredalSet(rng.normal(size=(5, 2, 3)), np.exp(rng.normal(size=(5, 2, 3))))
    plane = cbdl.DiagonalNormalCredalSet(rng.normal(size=(5, 2, 2)), np.exp(rng.normal(size=(5, 2, 2))))
    for sets in (line, plane):
        lower, upper = (np.asarray(end) for end in known.region(sets, 0.5).hull())
        assert (lower <= upper).all()
