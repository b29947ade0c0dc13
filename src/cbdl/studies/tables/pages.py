"""The parts of the report: one for each table, and summaries over all of them with their figures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from cbdl.plots import tables as figures
from cbdl.studies import goal
from cbdl.studies.goal import Goal
from cbdl.studies.part import Part, cell
from cbdl.studies.tables import bde, credal, peers
from cbdl.studies.tables.goals import COVERED
from cbdl.studies.tables.kept import Rows
from cbdl.studies.tables.published import NUMBERS, SOURCES
from cbdl.studies.tables.runs import Runs
from cbdl.studies.tables.scores import LEAST, Numbers, error
from cbdl.studies.tables.sine import NOISE, PLACES

REAL = {
    "rmse": ("RMSE", 3),
    "nll": ("NLL", 3),
    "crps": ("CRPS", 3),
    "coverage": ("coverage", 3),
    "width": ("width", 2),
    "interval_score": ("score", 2),
}
"""Numbers of a table of regression: their heading and digits."""
CLASSES = {
    "accuracy": ("accuracy", 3),
    "nll": ("NLL", 3),
    "ece": ("ECE", 3),
    "coverage": ("coverage", 3),
    "size": ("size", 2),
    "vacuous": ("vacuous", 2),
}
ABOUT = {
    "real": (
        "RMSE, NLL and CRPS: of the averaged predictive, in the table's units. Coverage, width and score (interval "
        "score): of 95 % intervals, the latter two in standard deviations of the training targets. scikit-learn's "
        "models have a Normal with the error that they make on rows they were not trained on. MAPIE: CV+ of 5 folds, "
        "above 10,000 rows and around the credal centre split conformal with a fifth of the training rows."
    ),
    "classes": (
        f"NLL: of the averaged probabilities, none counted below {LEAST:g}. ECE: 15 bins. Coverage and size: of 95 % "
        "sets. Vacuous: the share of sets with every class. MAPIE: cross conformal of 5 folds, split conformal around "
        "the credal centre."
    ),
}


def of_table(runs: Runs, smoke: bool) -> Part:
    """One table: every method's means over splits, then what has been published."""
    columns = REAL if runs.kind == "real" else CLASSES
    rows = [(name, *_cells(list(own.values()), columns)) for name, own in runs.rows.items()]
    published = NUMBERS.get(runs.name, {})
    for name, own in published.items():
        known = {"rmse": own.rmse, "nll": own.nll}
        rows.append((f"* {name}", *_cells([known], columns)))
    rows += [(f"{name} ({why.brief})", *["-"] * len(columns)) for name, why in runs.missing.items()]
    repeated = f"{runs.splits} split{'s' if runs.splits > 1 else ''}"
    length = " A moment's run, to see that it works: these are no results." if smoke else ""
    return Part(
        name=runs.name,
        title=f"{runs.name}: {runs.first.source}",
        text=f"{len(runs.first.X):,} training rows, {len(runs.first.X_test):,} test rows, {repeated}.{length}",
        header=("method", *(heading for heading, _ in columns.values())),
        rows=tuple(rows),
        lessons=(
            *_members(runs),
            ABOUT[runs.kind],
            *(f"* published, {name}: {SOURCES[name]}." for name in published),
            *(f"{name}: {why.whole}." for name, why in runs.missing.items() if why.whole != why.brief),
        ),
        numbers={
            "splits": {
                row: {str(k): numbers for k, numbers in own.items()} for row, own in runs.rows.items()
            },
            "means": {row: runs.mean(row) for row in runs.rows},
            "missing": {name: why.whole for name, why in runs.missing.items()},
        },
    )


def _cells(runs: list[Numbers], columns: dict[str, tuple[str, int]]) -> list[str]:
    cells = []
    for name, (_, digits) in columns.items():
        values = [own[name] for own in runs if name in own]
        spread = error(runs, name) if name == "nll" else None
        text = cell(float(np.mean(values)) if values else None, digits)
        cells.append(text if spread is None else f"{text} ± {spread:.{digits}f}")
    return cells


def _members(runs: Runs) -> tuple[str, ...]:
    own = runs.mean(credal.NAME)
    if "nll_best" not in own:
        return ()
    return (
        f"NLL of the members of the credal set: {own['nll_best']:.3f} (best) to {own['nll_worst']:.3f} (worst); "
        f"{own['members']:.1f} members on average after those that the data refute are left out.",
    )


# --- over all tables ----------------------------------------------------------------------------------------


def of_regions(runs: Sequence[Runs], kind: str) -> Part:
    """Coverage against width or size, means over the tables that a method was run on."""
    size = "width" if kind == "real" else "size"
    own = [one for one in runs if one.kind == kind and not one.source.alone]
    names = list(dict.fromkeys(row for one in own for row in one.rows))
    columns = ["coverage", size, *(["interval_score"] if kind == "real" else [])]
    means: dict[str, Numbers] = {}
    for name in names:
        of = [one.mean(name) for one in own if size in one.mean(name)]
        if of:
            means[name] = {c: float(np.mean([m[c] for m in of])) for c in columns} | {
                "tables": float(len(of))
            }
    what = "intervals" if kind == "real" else "sets"
    unit = "width in standard deviations" if kind == "real" else "mean size"
    return Part(
        name=what,
        title=f"95 % {what}: coverage against {size}, means over tables",
        text="A method that was not run on all tables is averaged over fewer, which makes it another comparison.",
        header=("method", "tables", *(c.replace("_", " ") for c in columns)),
        rows=tuple(
            (name, f"{m['tables']:.0f}", *(cell(m[c], 3) for c in columns)) for name, m in means.items()
        ),
        lessons=(),
        numbers={name: dict(m) for name, m in means.items()},
        caption=f"Coverage of 95 % {what} against their {unit}; every method once, means over tables.",
        draw=partial(figures.coverage, means=means, size=size, label=unit) if means else None,
    )


def of_published(runs: Sequence[Runs]) -> Part | None:
    """NLL beside the published numbers; None if the run has none of these tables."""
    values: dict[str, dict[str, float]] = {}
    for one in runs:
        if one.name in NUMBERS and credal.NAME in one.rows:
            methods = [row for row in (credal.NAME, bde.NAME, peers.ENSEMBLE) if row in one.rows]
            here = {row: one.mean(row)["nll"] for row in methods}
            values[one.name] = here | {f"* {name}": own.nll for name, own in NUMBERS[one.name].items()}
    if not values:
        return None
    names = sorted(
        dict.fromkeys(name for own in values.values() for name in own), key=lambda name: name.startswith("*")
    )
    return Part(
        name="published",
        title="NLL beside published numbers (*)",
        text="Published means are over all supplied splits, those of this run over as many as its profile has.",
        header=("method", *values),
        rows=tuple((name, *(cell(own.get(name), 3) for own in values.values())) for name in names),
        lessons=tuple(f"{name}: {SOURCES[name[2:]]}." for name in names if name.startswith("*")),
        numbers=dict(values),
        caption="NLL (nats) on the test rows, lower is better; hollow marks are published numbers.",
        draw=partial(figures.published, values=values, names=names),
    )


BRIEF = {credal.RACE: "as bde", peers.ENSEMBLE: "ensemble"}
"""Names of columns, where there are many."""


def of_seconds(runs: Sequence[Runs]) -> Part:
    """How long fits take, and the prediction of all test rows."""
    methods = (credal.NAME, credal.RACE, bde.NAME, peers.ENSEMBLE, peers.MLP, peers.FOREST, peers.BOOSTING)
    own = {one.name: {row: one.mean(row) for row in methods if row in one.rows} for one in runs}
    shown = [row for row in methods if any(row in rows for rows in own.values())]
    return Part(
        name="seconds",
        title="Seconds of a fit",
        text="Of the whole machine, as it was; the last column: seconds of the regions of all test rows.",
        header=("table", "rows", *(BRIEF.get(row, row) for row in shown), "predict"),
        rows=tuple(
            (
                one.name,
                f"{len(one.first.X):,}",
                *(cell(own[one.name].get(row, {}).get("fit_seconds"), 1) for row in shown),
                cell(one.mean(credal.NAME).get("predict_seconds"), 2),
            )
            for one in runs
        ),
        lessons=(
            f"{BRIEF[credal.RACE]}: one prior and one noise model, as many chains and steps as bde, no calibration.",
        ),
        numbers={
            name: {
                row: {key: value for key, value in numbers.items() if key.endswith("seconds")}
                for row, numbers in rows.items()
            }
            for name, rows in own.items()
        },
    )


def of_foreign(runs: Sequence[Runs]) -> Part:
    """Epistemic uncertainty on clean, shifted and scrambled rows, and how well it tells them apart."""
    rows, numbers = [], {}
    for one in runs:
        own = one.mean(credal.NAME)
        if "epistemic" not in own:
            continue
        nats = [own.get(name) for name in ("epistemic", "floor", "epistemic_shifted", "epistemic_scrambled")]
        columns = {
            credal.NAME: (credal.NAME, "auroc"),
            "doubt": (credal.NAME, "doubt_auroc"),
            peers.ENSEMBLE: (peers.ENSEMBLE, "auroc"),
            bde.NAME: (bde.NAME, "auroc"),
        }
        areas = {
            name: [one.mean(row).get(f"{measure}_{kind}") for kind in ("shifted", "scrambled")]
            for name, (row, measure) in columns.items()
        }
        pairs = [" / ".join(cell(a, 2) for a in own_areas) for own_areas in areas.values()]
        rows.append((one.name, *(cell(v, 3) for v in nats), *pairs))
        numbers[one.name] = {"epistemic": nats, "auroc": areas}
    return Part(
        name="foreign",
        title="Epistemic uncertainty on foreign rows",
        text=(
            "Shifted: one feature of every test row moved three standard deviations away from the mean. Scrambled: "
            "every column of the test rows in an order of its own (digits: the pixels of every image)."
        ),
        header=("table", "clean", "floor", "shifted", "scrambled", "AUROC", "doubt's", "ensemble's", "bde's"),
        rows=tuple(rows),
        lessons=(
            "Nats, means over test rows; floor: what Monte Carlo noise alone would show on the clean ones. "
            "AUROC: shifted / scrambled against clean, of the credal set's epistemic "
            "uncertainty, of the largest doubt of a member about its parameters (`decomposition()`), and of the spread "
            "of the networks of a deep ensemble and of bde.",
        ),
        numbers=numbers,
    )


def of_sine(rows: Rows) -> Part:
    """Widths in the data, in the gap, far away."""
    where = "; ".join(
        f"{name}: x in " + " and ".join(f"[{a:g}, {b:g}]" for a, b in ranges)
        for name, ranges in PLACES.items()
    )
    return Part(
        name="sine",
        title="y = sin 2x + 0.1 noise, seen for x in [-3, -1] and [1, 3]",
        text=f"Mean width of 95 % intervals. {where}. The noise alone asks for {2 * 1.96 * NOISE:.2f}.",
        header=("region", *PLACES),
        rows=tuple((name, *(cell(own[p], 2) for p in PLACES)) for name, own in rows.items()),
        lessons=(),
        numbers=dict(rows),
    )


def of_goals(goals: Sequence[Goal], about: str) -> Part:
    """Every goal with the value that was reached; `about` says which tables the run is of."""
    text = (
        "Of the default model with calibrated regions. MAPIE's best: the method against which ours does worst, "
        f"each over the tables that it was run on; of sets, those that cover at least {COVERED:g} on average."
    )
    return goal.of_goals(goals, f"{text} {about}".rstrip())
