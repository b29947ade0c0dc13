"""From rows as numbers to answers as JSON objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cbdl.tables.answers import Options, Trained, answer_rows
from cbdl.tables.encoding import Encoded
from cbdl.tables.files import Floats
from cbdl.tables.writing import significant

DIGITS = 9
"""Digits of the numbers in an answer."""
NEEDED = ("decision", "aleatoric", "epistemic", "epistemic_lower", "epistemic_upper", "total")
"""Numbers without which there is no answer."""

TOO_FAR = (
    "the numbers are so far from what the model was trained on that nothing can be computed; correct them, or give "
    "null for what is not known"
)

Answer = dict[str, Any]


class NoAnswer(ValueError):
    """Inputs that the model cannot compute with; `row` is the place of the first of them."""

    def __init__(self, row: int) -> None:
        super().__init__(f"rows[{row}]: {TOO_FAR}")
        self.row = row


def answer(trained: Trained, rows: Encoded, options: Options) -> list[Answer]:
    """An answer per row; whether to abstain is not asked yet. A ValueError where one row has none."""
    columns = answer_rows(trained, rows, options)
    lost = [~np.isfinite(columns[n]) for n in NEEDED if isinstance(columns[n], np.ndarray)]
    if np.any(lost):
        raise NoAnswer(int(np.any(lost, axis=0).argmax()))
    bracket = zip(_numbers(columns["epistemic_lower"]), _numbers(columns["epistemic_upper"]), strict=True)
    shared = {
        **{name: _numbers(columns[name]) for name in ("aleatoric", "epistemic", "total", "floor")},
        "epistemic_bracket": list(bracket),
    }
    own = _of_classes(trained, columns) if trained.classifies else _of_numbers(columns)
    whole = {**own, **shared}
    return [dict(zip(whole, cells, strict=True)) for cells in zip(*whole.values(), strict=True)]


def finished(answers: Sequence[Answer], phi: float | None, unknown: Sequence[Sequence[str]]) -> list[Answer]:
    """The answers with what depends on the request alone."""
    return [
        {**own, "abstain": None if phi is None else own["aleatoric"] > phi, "unknown": gaps}
        for own, gaps in zip(answers, unknown, strict=True)
    ]


def _of_classes(trained: Trained, columns: dict[str, Any]) -> dict[str, list[Any]]:
    classes = trained.target.classes
    pairs = [
        list(zip(_numbers(columns[f"lower:{c}"]), _numbers(columns[f"upper:{c}"]), strict=True))
        for c in classes
    ]
    return {
        "decision": columns["decision"].to_pylist(),
        "region": columns["set"].to_pylist(),
        "probability": [dict(zip(classes, row, strict=True)) for row in zip(*pairs, strict=True)],
    }


def _of_numbers(columns: dict[str, Any]) -> dict[str, list[Any]]:
    ends = zip(_numbers(columns["lower"]), _numbers(columns["upper"]), strict=True)
    flat = columns["set"].flatten().flatten().to_numpy(zero_copy_only=False)
    pairs = list(map(list, zip(_numbers(flat[::2]), _numbers(flat[1::2]), strict=True)))
    stops = np.cumsum(columns["set"].value_lengths().to_numpy(zero_copy_only=False)).tolist()
    region = [pairs[a:b] for a, b in zip([0, *stops], stops, strict=False)]
    return {"decision": _numbers(columns["decision"]), "region": region, "interval": list(ends)}


def _numbers(column: Floats) -> list[float | None]:
    """Numbers for JSON: null where there is none."""
    rounded = significant(np.asarray(column, dtype=np.float64), DIGITS)
    if np.isfinite(rounded).all():
        return list(rounded.tolist())
    return [x if np.isfinite(x) else None for x in rounded.tolist()]
