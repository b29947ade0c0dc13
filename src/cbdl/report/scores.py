"""How good a model is on a table: its scores, those of one member, and those of what knows no inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cbdl import evaluate
from cbdl.credal import CategoricalCredalSet, CredalSet, NormalCredalSet
from cbdl.evaluate.estimate import Estimate, estimate, mean
from cbdl.prediction import averaged
from cbdl.report.asked import Asked
from cbdl.report.page import Block, Table
from cbdl.shown import cell
from cbdl.tables import scoring
from cbdl.tables.answers import Options

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


def scored(asked: Asked, seed: int) -> tuple[list[Block], dict[str, Any]]:
    """The model, one of its members alone, and what knows nothing of the inputs, on the same rows."""
    if asked.y is None:
        name = asked.trained.target.name
        return [f"The table has no column {name!r}; without outcomes there are no scores."], {}
    table = _compared(asked, seed)
    names = [name for name in WORDS if name in table["the credal set"]]
    shown = Table(
        f"Scores on {len(asked.X)} rows, with 95 % bootstrap intervals",
        ("who", *(WORDS[name] for name in names)),
        [[who, *(_estimate(own.get(name)) for name in names)] for who, own in table.items()],
        f"Regions are to cover {1 - asked.alpha:.3g}. Outcomes without inputs: the distribution of the outcomes of "
        "these very rows, which no model knows beforehand. Rows that the model was trained on flatter it.",
    )
    numbers = {who: {name: scoring.known(own[name].value) for name in own} for who, own in table.items()}
    return [shown], numbers


def _compared(asked: Asked, seed: int) -> dict[str, dict[str, Estimate]]:
    """The scores of the model and of its rivals, by name."""
    sets = averaged(asked.sets)

    def scores(own: CredalSet) -> dict[str, Estimate]:
        return evaluate.scores(own, asked.y, asked.alpha, draws=200, seed=seed)

    table = {"the credal set": scores(sets)}
    if asked.trained.conformity:
        region = asked.trained.region(asked.sets, Options(asked.alpha))
        inside, size = (np.asarray(x, dtype=np.float64) for x in (region.contains(asked.y), region.measure))
        table["the same, calibrated"] = {
            "coverage": estimate(mean(inside), len(inside), draws=200, seed=seed),
            "size": estimate(mean(size), len(size), draws=200, seed=seed),
        }
    return table | {
        "its average": scores(sets.point()),
        "its first member alone": scores(_member(sets, 0)),
        "outcomes without inputs": scores(_constant(asked)),
    }


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


def _constant(asked: Asked) -> CredalSet:
    """The distribution of the outcomes, the same for every row."""
    rows = len(asked.y)
    if asked.trained.classifies:
        share = np.bincount(asked.y, minlength=len(asked.trained.target.classes)) / rows
        return CategoricalCredalSet(np.broadcast_to(share, (rows, 1, len(share))).copy())
    deviation = max(float(np.std(asked.y)), 1e-12)
    return NormalCredalSet(np.full((rows, 1), np.mean(asked.y)), np.full((rows, 1), deviation))


def held_out(kept: Mapping[str, Any]) -> list[Block]:
    """The scores that `cbdl fit` left in the model: on rows that were not trained on, beside the simplest models."""
    simple = kept.get("baselines")
    if not simple:
        return []
    names = [name for name in ("accuracy", "rmse", "nll") if name in kept]
    rows = [["the model", *(cell(kept[name]) for name in names)]]
    rows += [[who, *(cell(own.get(name)) for name in names)] for who, own in simple.items()]
    words = {"accuracy": "accuracy", "rmse": "RMSE", "nll": "NLL (nats)"}
    return [
        Table(
            f"When it was trained: scores on {kept['rows']} rows that were held out, beside simple models",
            ("who", *(words[name] for name in names)),
            rows,
        )
    ]
