"""Which inputs a model is most uncertain of, and which features make it so: how the set moves when one of them is set
to its median, all others as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cbdl.credal import CredalSet
from cbdl.ground.shown import cell

Floats = npt.NDArray[np.float64]
KINDS = {"epistemic": "ignorance", "aleatoric": "noise"}
"""The kinds of uncertainty that are looked at, and what they are called."""
MOST = 5
"""Inputs that are shown of each kind."""
TELLING = 3
"""Features that are named per input."""


@dataclass(frozen=True)
class Feature:
    """A column of the table: which inputs of the network it is, and what stands for it where it is usual."""

    name: str
    places: slice
    usual: Floats
    """(places,): the median of a number, the most frequent of words."""
    word: str
    """The same for people."""


@dataclass(frozen=True)
class Move:
    """What one feature does to one input: the uncertainty and the region with the feature at its usual value."""

    feature: Feature
    uncertainty: float
    region: str


@dataclass(frozen=True)
class Uncertain:
    """One of the most uncertain inputs."""

    row: int
    uncertainty: float
    region: str
    moves: tuple[Move, ...]
    """The features that matter most, first."""


def features_of_numbers(X: Floats, names: Sequence[str]) -> list[Feature]:
    """Every column of X (rows, features) a feature of its own, usual at its median."""
    middle = np.median(X, axis=0)
    return [
        Feature(name, slice(j, j + 1), middle[j : j + 1], cell(float(middle[j])))
        for j, name in enumerate(names)
    ]


def most_uncertain(
    predict: Callable[[Floats], CredalSet],
    X: Floats,
    known: CredalSet,
    features: Sequence[Feature],
    kind: str = "epistemic",
    *,
    alpha: float = 0.05,
    most: int = MOST,
) -> list[Uncertain]:
    """The inputs of X (rows, features) with the highest uncertainty of a kind, and what features do to them.

    known: the prediction for X. All variants of all inputs are predicted at once.
    """
    scores = _scores(known, kind)
    rows = np.argsort(-scores, kind="stable")[:most]
    moved = np.repeat(X[rows][:, None], len(features), axis=1)
    for j, feature in enumerate(features):
        moved[:, j, feature.places] = feature.usual
    sets = predict(moved.reshape(-1, X.shape[1]))
    after = _scores(sets, kind).reshape(len(rows), -1)
    before_regions, regions = _regions(known[rows], alpha), _regions(sets, alpha)
    answers = []
    for i, row in enumerate(rows.tolist()):
        change = np.abs(after[i] - scores[row])
        order = [j for j in np.argsort(-change, kind="stable")[:TELLING].tolist() if change[j] > 0]
        moves = tuple(Move(features[j], float(after[i, j]), regions[i * len(features) + j]) for j in order)
        answers.append(Uncertain(row, float(scores[row]), before_regions[i], moves))
    return answers


def _scores(credal: CredalSet, kind: str) -> Floats:
    return np.asarray(getattr(credal.uncertainty(), kind), dtype=np.float64)


def _regions(credal: CredalSet, alpha: float) -> list[str]:
    """The region of every set in words."""
    columns: dict[str, list[Any]] = credal.region(alpha).columns()
    if "lower" in columns:
        return [f"{cell(a)} to {cell(b)}" for a, b in zip(columns["lower"], columns["upper"], strict=True)]
    return [cell(own) for own in columns["set"]]
