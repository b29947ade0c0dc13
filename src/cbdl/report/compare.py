"""A credal set beside what one would use without it: its average, and one of its members alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cbdl import evaluate
from cbdl.credal import CredalSet
from cbdl.evaluate.estimate import Estimate
from cbdl.ground.shown import cell
from cbdl.report.page import Table

Scores = Mapping[str, Mapping[str, Estimate]]
"""By who is scored, and by the name of the score."""
DRAWS = 200
"""Bootstrap samples behind every interval."""
WORDS = {
    "accuracy": "accuracy of the average",
    "rmse": "error of the mean (RMSE)",
    "log loss": "surprise (NLL, nats)",
    "coverage": "coverage of the region",
    "size": "size of the region",
    "crps": "CRPS",
    "interval score": "interval score",
    "brier": "Brier score",
    "ece": "calibration error",
}
"""The scores that are shown, and what they are called."""


def compared(sets: CredalSet, y: Any, alpha: float, seed: int = 0) -> dict[str, dict[str, Estimate]]:
    """The scores of the sets of a batch (n,), of their averages, and of their first extreme alone."""
    rivals = {"the credal set": sets, "its average": sets.point(), "its first member alone": _member(sets, 0)}
    return {name: scores(own, y, alpha, seed) for name, own in rivals.items()}


def scores(sets: CredalSet, y: Any, alpha: float, seed: int = 0) -> dict[str, Estimate]:
    """All scores of one rival."""
    return evaluate.scores(sets, y, alpha, draws=DRAWS, seed=seed)


def score_table(table: Scores, rows: int, alpha: float, note: str = "") -> Table:
    """Who was scored, a row each; a dash where a score does not apply."""
    names = [name for name in WORDS if any(name in own for own in table.values())]
    return Table(
        f"Scores on {rows} rows, with 95 % bootstrap intervals",
        ("who", *(WORDS[name] for name in names)),
        [[who, *(_estimate(own.get(name)) for name in names)] for who, own in table.items()],
        f"Regions are to cover {1 - alpha:.3g}. {note}".strip(),
    )


def _estimate(value: Estimate | None) -> str:
    if value is None:
        return "-"
    if value.low != value.low:
        return cell(value.value)
    return f"{cell(value.value)} [{cell(value.low)}, {cell(value.high)}]"


def _member(sets: CredalSet, place: int) -> CredalSet:
    weights = np.zeros(sets.num_extremes)
    weights[place] = 1.0
    return sets.point(weights)
