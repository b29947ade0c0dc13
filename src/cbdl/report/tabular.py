"""The report of a saved model on a table: what `cbdl report` writes."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from cbdl import recipe, store
from cbdl.credal import CredalSet
from cbdl.evaluate.estimate import Floats
from cbdl.ground.shown import cell
from cbdl.report import parts
from cbdl.report.asked import Asked, ask
from cbdl.report.explain import KINDS, Feature, Uncertain, most_uncertain
from cbdl.report.figures import figures
from cbdl.report.page import Block, Page, Section
from cbdl.report.reproduce import reproduction
from cbdl.report.scores import held_out, scored
from cbdl.tables.encoding import Column, features
from cbdl.tables.files import Dialect


def report(
    folder: str | Path,
    table: str | Path,
    *,
    alpha: float = 0.05,
    rows: int | None = None,
    seed: int = 0,
    dialect: Dialect | None = None,
    command: str = "",
) -> tuple[Page, dict[str, Any]]:
    """The page, and its numbers: what was trained, how good it is beside baselines, what it does not know."""
    asked = ask(Path(folder), Path(table), alpha, rows, seed, dialect)
    own, scores = scored(asked, seed)
    extra = store.read_manifest(folder)["extra"]
    target = asked.trained.target
    found = _uncertain(asked)
    sections = [
        Section("What was trained", _trained(asked)),
        Section("How good it is", [*own, *held_out(extra.get("held_out", {}))]),
        Section("Figures", figures(asked)),
        Section("What it is most uncertain of", [_how(asked), *parts.uncertain(found, alpha=alpha)]),
        reproduction(
            command or f"cbdl report {shlex.quote(str(folder))} {shlex.quote(str(table))} --alpha {alpha:g}",
            {
                "model": folder,
                "sha256 of its manifest": store.fingerprint(folder),
                "table": table,
                "seed": seed,
            },
        ),
    ]
    lead = [
        f"A {target.task} of {target.name!r} by {len(asked.trained.model.learned.members)} Bayesian networks, asked "
        f"about {_counted(asked)} of {Path(table).name}."
    ]
    return Page(f"{Path(folder).name}: report", lead, sections, "Written by cbdl."), {"scores": scores}


def _counted(asked: Asked) -> str:
    shown = len(asked.X)
    return (
        f"all {shown} rows" if shown == asked.total else f"{shown} of {asked.total} rows, chosen at random,"
    )


def _trained(asked: Asked) -> list[Block]:
    blocks = parts.trained(asked.trained.model)
    columns = ", ".join(f"{c.name} ({c.kind})" for c in asked.trained.columns)
    blocks.append(f"Columns: {columns}.")
    if asked.y is None:
        return [*blocks, "The table has no outcomes; diagnostics need them."]
    return [*blocks, *parts.checked(parts.diagnosed(asked.trained.model, asked.X, asked.y))]


def _how(asked: Asked) -> str:
    gaps = f" Missing values and unknown words of {asked.filled} rows are filled in." if asked.filled else ""
    return (
        "Each of the most uncertain rows is asked about again with one column at its median (of words: the most "
        "frequent one), all others as they are; shown are the columns that change its uncertainty most, with what "
        f"uncertainty and region are then.{gaps}"
    )


def _uncertain(asked: Asked) -> dict[str, list[Uncertain]]:
    columns = asked.trained.columns
    usual = [
        Feature(c.name, at, c.filled, _word(c))
        for c, at in zip(columns, features(columns), strict=True)
        if c.filled is not None
    ]

    def predict(X: Floats) -> CredalSet:
        sets = asked.trained.model.predict(X, recipe.DRAWS, floor=False)
        return sets.with_labels(asked.trained.target.classes) if asked.trained.classifies else sets

    found = {
        kind: most_uncertain(predict, asked.X, asked.sets, usual, kind, alpha=asked.alpha) for kind in KINDS
    }
    return {
        kind: [replace(own, row=int(asked.places[own.row])) for own in rows] for kind, rows in found.items()
    }


def _word(column: Column) -> str:
    return cell(float(column.fill)) if column.kind == "number" and column.fill else str(column.fill)
