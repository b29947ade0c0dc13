"""Sections that every report of a model has: what was trained, and what it is most uncertain of."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from cbdl.bayes.diagnostics import COLUMNS, Diagnostics
from cbdl.bayes.learned import MEMBERS
from cbdl.ground.shown import cell
from cbdl.model import CBDL
from cbdl.report.explain import KINDS, Uncertain
from cbdl.report.page import Block, Table, Warn

Texts = tuple[tuple[str, ...], ...]


def trained(model: CBDL) -> list[Block]:
    """Priors, likelihoods and method, a row per member."""
    rows = tuple(tuple(map(str, row)) for row in model.learned.described())
    return [f"{model!r}. Method: {model.method!r}.", Table("Members", MEMBERS, rows)]


def checked(report: Diagnostics) -> list[Block]:
    """Diagnostics, a row per member, and their warnings."""
    rows = _texts(report.table())
    keep = [j for j in range(len(COLUMNS)) if any(row[j] not in ("", "0") for row in rows)]
    table = Table(
        "Diagnostics",
        [COLUMNS[j] for j in keep],
        [[row[j] for j in keep] for row in rows],
        "NLL: mean negative log likelihood of a row. R-hat: 1 if chains agree. Nearest: how far the predictions are "
        "from those of the nearest other member.",
    )
    fallen = [] if report.plausibility is None else [report.plausibility.summary + "."]
    return [table, *fallen, *(Warn(text) for text in report.warnings)]


def diagnosed(model: CBDL, X: Any = None, y: Any = None) -> Diagnostics:
    """The diagnostics, whose warnings go into the report instead of onto the terminal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.diagnostics(X, y)


def uncertain(found: dict[str, list[Uncertain]], first: int = 1, alpha: float = 0.05) -> list[Block]:
    """A table per kind of uncertainty; rows are counted from `first`."""
    return [
        Table(
            f"The inputs with most {KINDS[kind]} ({kind})",
            (
                "row",
                f"{kind} (nats)",
                f"region of {1 - alpha:.3g}",
                "features that matter most: at their median, uncertainty and region are",
            ),
            [
                (str(first + own.row), f"{own.uncertainty:.3f}", own.region, "; ".join(_moves(own)))
                for own in rows
            ],
        )
        for kind, rows in found.items()
    ]


def _moves(own: Uncertain) -> list[str]:
    return [f"{m.feature.name} at {m.feature.word}: {m.uncertainty:.3f}, {m.region}" for m in own.moves]


def _texts(rows: Sequence[Sequence[object]]) -> list[list[str]]:
    return [[cell(value) for value in row] for row in rows]
