"""Rows with weights and rows that are repeated are the same data, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cbdl.estimators.weights import merged
from trials import trials


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Few values, so that rows are often equal; targets of one or two columns; whole weights, not all 0."""
    rows, outputs = draw(st.integers(1, 12)), draw(st.sampled_from([(), (2,)]))
    value = st.sampled_from([-1.5, -0.0, 0.0, 2.0, 1e300])
    X = np.array(draw(st.lists(st.tuples(value, value), min_size=rows, max_size=rows)))
    flat = draw(st.lists(value, min_size=2 * rows, max_size=2 * rows))
    y = np.array(flat[: rows * (outputs or (1,))[0]]).reshape(rows, *outputs)
    w = np.array(draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows).filter(any)))
    return X, y, w


def same_bits(a: Any, b: Any) -> bool:
    return (a is None) == (b is None) and (a is None or (a.shape == b.shape and a.tobytes() == b.tobytes()))


@trials(150)
@given(tables())
def test_weights_are_repetitions_to_the_last_bit(table: tuple[np.ndarray, ...]) -> None:
    X, y, w = table
    heavy = merged(X, y, w.astype(np.float64))
    often = merged(X.repeat(w, 0), y.repeat(w, 0), None)
    ones = merged(X.repeat(w, 0), y.repeat(w, 0), np.ones(w.sum()))
    assert all(same_bits(a, b) and same_bits(a, c) for a, b, c in zip(heavy, often, ones, strict=True))


@trials(150)
@given(tables())
def test_what_is_merged_is_the_same_data(table: tuple[np.ndarray, ...]) -> None:
    """Each row once, with the weight of all its copies: counted by hand."""
    X, y, w = table
    rows, targets, weights = merged(X, y, w.astype(np.float64))
    own = np.ones(len(rows)) if weights is None else weights
    known: dict[Any, float] = {}
    for x, t, weight in zip(X.tolist(), y.reshape(len(y), -1).tolist(), w.tolist(), strict=True):
        if weight:
            known[(*x, *t)] = known.get((*x, *t), 0) + weight
    mine = zip(rows.tolist(), targets.reshape(len(targets), -1).tolist(), own.tolist(), strict=True)
    assert {(*x, *t): weight for x, t, weight in mine} == known
    assert len(rows) == len(known)


def test_rows_that_differ_and_count_equally_stay_as_they_are() -> None:
    X, y = np.array([[3.0], [1.0], [2.0]]), np.array([0, 1, 0])
    for weights in (None, np.ones(3)):
        rows, targets, own = merged(X, y, weights)
        assert same_bits(rows, X)
        assert same_bits(targets, y)
        assert own is None
    rows, targets, own = merged(X, y, np.array([1.0, 0.0, 1.0]))
    assert (rows[:, 0].tolist(), targets.tolist(), own) == ([3.0, 2.0], [0, 0], None)
