"""What a report of a table is about: a saved model, rows with their outcomes, and its predictions for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cbdl import recipe
from cbdl.credal import CredalSet
from cbdl.evaluate.estimate import Floats
from cbdl.tables import scoring
from cbdl.tables.answers import Options, Trained, read_rows
from cbdl.tables.encoding import filled
from cbdl.tables.files import Dialect, names, sample


@dataclass(frozen=True)
class Asked:
    """What a report is about: a model, rows of a table as numbers, their outcomes if they are known, predictions."""

    trained: Trained
    X: Floats
    y: Any
    places: Any
    """(rows,): where they stand in the table, from 0."""
    total: int
    """Rows of the whole table."""
    sets: CredalSet
    alpha: float
    filled: int
    """Rows with gaps that were filled in."""


def ask(
    folder: Path, table: Path, alpha: float, rows: int | None, seed: int, dialect: Dialect | None
) -> Asked:
    """Load the model, read the table, predict: for all rows, or a random choice if they are many."""
    model = Trained.load(folder)
    most = scoring.ENOUGH[model.target.task] if rows is None else rows
    only = {model.target.name, *(c.name for c in model.columns)}
    chunk, order, total = sample(table, most, seed, dialect=dialect, only=only)
    encoded = read_rows(model, chunk, Options(missing="hull"), 1, names(table, dialect))
    whole = filled(model.columns, encoded, strange=True)
    known = model.target.name in chunk
    y = np.array(model.target.encode(chunk[model.target.name])) if known else None
    sets = model.model.predict(whole.X, recipe.DRAWS)
    if model.classifies:
        sets = sets.with_labels(model.target.classes)
    gaps = int((encoded.missing | encoded.unknown).any(1).sum())
    return Asked(model, whole.X, y, order, total, sets, alpha, gaps)
