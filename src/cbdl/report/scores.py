"""How good a model is on a table: its scores, those of one member, and those of what knows no inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cbdl.credal import CategoricalCredalSet, CredalSet, NormalCredalSet
from cbdl.evaluate.estimate import Estimate, estimate, mean
from cbdl.ground.shown import cell
from cbdl.prediction import averaged
from cbdl.report.asked import Asked
from cbdl.report.compare import DRAWS, compared, score_table, scores
from cbdl.report.page import Block, Table
from cbdl.tables import scoring
from cbdl.tables.answers import Options


def scored(asked: Asked, seed: int) -> tuple[list[Block], dict[str, Any]]:
    """The model, one of its members alone, and what knows nothing of the inputs, on the same rows."""
    if asked.y is None:
        name = asked.trained.target.name
        return [f"The table has no column {name!r}; without outcomes there are no scores."], {}
    table = compared(averaged(asked.sets), asked.y, asked.alpha, seed)
    if asked.trained.conformity:
        table["the credal set, calibrated"] = _calibrated(asked, seed)
    table["outcomes without inputs"] = scores(_constant(asked), asked.y, asked.alpha, seed)
    note = (
        "Outcomes without inputs: the distribution of the outcomes of these very rows, which no model knows "
        "beforehand. Rows that the model was trained on flatter it."
    )
    numbers = {who: {name: scoring.known(own[name].value) for name in own} for who, own in table.items()}
    return [score_table(table, len(asked.X), asked.alpha, note)], numbers


def _calibrated(asked: Asked, seed: int) -> dict[str, Estimate]:
    region = asked.trained.region(asked.sets, Options(asked.alpha))
    rows = {"coverage": region.contains(asked.y), "size": region.measure}
    return {
        name: estimate(mean(np.asarray(own, dtype=np.float64)), len(asked.X), draws=DRAWS, seed=seed)
        for name, own in rows.items()
    }


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
