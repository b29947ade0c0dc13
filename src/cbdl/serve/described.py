"""What a service says of its model: columns with their ranges, classes, and whether the columns are pixels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from cbdl import recipe
from cbdl.serve.limits import Limits
from cbdl.serve.schema import typical
from cbdl.tables.answers import Trained
from cbdl.tables.encoding import Column

if TYPE_CHECKING:
    from cbdl.serve.images import Picture

SIDE, INK = 8, 16.0
"""Pixels of a side of scikit-learn's digits, and the value of a black one."""
_PIXEL = re.compile(r"pixel_(\d+)_(\d+)")
LEAST = 48
"""Columns that a picture has at least: pixels that are always white are left out of a model."""


def described(trained: Trained, limits: Limits, wanted: Picture | None) -> dict[str, Any]:
    """The answer of /v1/model; `wanted` are the pictures that the model takes."""
    return {
        "task": trained.target.task,
        "target": trained.target.name,
        "classes": list(trained.target.classes),
        "columns": [_column(c) for c in trained.columns],
        "image": None if wanted is None else {**asdict(wanted), **(picture(trained.columns) or {})},
        "members": [str(m) for m in trained.model.learned.members],
        "calibrated": bool(trained.conformity),
        "limits": asdict(limits),
        "defaults": {
            "alpha": 0.05,
            "draws": recipe.DRAWS,
            "phi": None,
            "method": "calibrated",
        },
        "version": version("cbdl"),
    }


def _column(column: Column) -> dict[str, Any]:
    own: dict[str, Any] = {"name": column.name, "kind": column.kind, "typical": typical(column)}
    if column.kind == "number" and column.values:
        known = [value[0] for value in column.values]
        own["range"] = [min(known), max(known)]
        own["whole"] = all(value.is_integer() for value in known)
    if column.kind == "category":
        own["levels"] = list(column.levels)
    if column.kind == "date":
        own["format"] = column.format or "%Y-%m-%dT%H:%M:%S"
    return own


def picture(columns: Sequence[Column]) -> dict[str, Any] | None:
    """Where the columns are in a picture of digits as scikit-learn has them; None if they are something else.

    >>> picture([Column("x", "number")]) is None
    True
    """
    places: dict[str, list[int]] = {}
    for column in columns:
        at = _PIXEL.fullmatch(column.name)
        inside = all(0 <= value[0] <= INK for value in column.values)
        if column.kind != "number" or at is None or not inside:
            return None
        row, left = int(at[1]), int(at[2])
        if row >= SIDE or left >= SIDE:
            return None
        places[column.name] = [row, left]
    if len(places) < LEAST:
        return None
    return {"height": SIDE, "width": SIDE, "most": INK, "pixels": places}
