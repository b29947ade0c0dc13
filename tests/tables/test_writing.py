"""Answers as text: rounded outwards, merged where rounding makes them meet, digits as asked for."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest

from cbdl.tables import writing
from cbdl.tables.answers import Answers
from cbdl.tables.errors import UsageError


def answers_of(sets, decision):
    lower, upper = [min(a for a, _ in s) for s in sets], [max(b for _, b in s) for s in sets]
    pairs = pa.FixedSizeListArray.from_arrays(pa.array([x for s in sets for pair in s for x in pair]), 2)
    offsets = pa.array(np.cumsum([0, *map(len, sets)]).astype(np.int32))
    numbers = {"decision": decision, "lower": lower, "upper": upper}
    columns = {name: pa.array(x) for name, x in numbers.items()} | {
        "set": pa.ListArray.from_arrays(offsets, pairs)
    }
    return Answers(columns, 0, 0, 0, 0)


@pytest.mark.parametrize("digits", [None, 2, 3])
def test_intervals_that_meet_when_they_are_rounded_are_one(digits):
    """By hand: the same union of closed intervals, however it is split; whatever was held is held."""
    rng = np.random.default_rng(0)
    sets = []
    for count in (1, 2, 5, 40):
        ends = np.sort(rng.uniform(36_000, 144_000, 2 * count)).tolist()
        sets.append(list(zip(ends[::2], ends[1::2], strict=True)))
    sets.append([(1.0, 1.2), (1.2000001, 1.3), (700.0, 800.0)])
    columns = writing.rounded(answers_of(sets, [1.0] * len(sets)), digits, None).columns
    for own, rounded in zip(sets, columns["set"].to_pylist(), strict=True):
        flat = [x for pair in rounded for x in pair]
        assert all(b > a for a, b in zip(flat[1::2], flat[2::2], strict=False))  # apart, in their order
        assert all(any(a <= x and y <= b for a, b in rounded) for x, y in own)
        every = {x for x, _ in rounded} | {y for _, y in rounded}
        step = None if digits is None else digits
        outward = set()
        if step is not None:
            for x, y in own:
                outward |= {floor_to(x, step), -floor_to(-y, step)}
            assert every <= outward
    assert len(columns["set"][0]) == 1


@pytest.mark.parametrize("digits", [None, 3])
def test_columns_that_are_kept_keep_their_digits(digits):
    answers = answers_of([[(1.0, 2.0)]], [1.5])
    answers.columns["time"] = pa.array([1_700_000_000.123456])
    assert (
        writing.rounded(answers, digits, None, ("time",)).columns["time"][0].as_py() == 1_700_000_000.123456
    )


def floor_to(x, digits):
    """x rounded down to so many digits that count, by Python's whole numbers."""
    power = digits - 1 - math.floor(math.log10(abs(x)))
    scale = 10**power if power >= 0 else 1 / 10**-power
    return math.floor(x * scale) / 10**power if power >= 0 else math.floor(x * scale) * 10**-power


def test_tiny_and_huge_numbers_have_as_many_digits_as_others():
    """Against Python's own formatting; a number that is tiny is spelled like any other."""
    rng = np.random.default_rng(1)
    x = rng.uniform(1, 10, 20_000) * 10.0 ** rng.integers(-290, 290, 20_000) * rng.choice([-1, 1], 20_000)
    ours = writing.significant(x, 9)
    truth = np.array([float(f"{v:.8e}") for v in x])
    np.testing.assert_allclose(ours, truth, rtol=1e-15, atol=0)
    assert (ours == truth).mean() > 0.99
    middle = (np.abs(x) > 1e-13) & (np.abs(x) < 1e30)
    assert (ours == truth)[middle].all()
    assert np.array_equal(writing.significant(np.array([0.0, np.inf, -0.0]), 9), [0.0, np.inf, 0.0])
    assert np.isnan(writing.significant(np.array([np.nan]), 9)).all()


def test_a_place_where_nothing_can_be_written_is_told_at_once(tmp_path):
    writing.check_place(tmp_path / "answers.csv", tmp_path)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text(json.dumps({}))
    with pytest.raises(UsageError, match=r"where nothing can be written \(Not a directory\); choose another"):
        writing.check_place(tmp_path / "file" / "answers.csv", tmp_path / "file")
