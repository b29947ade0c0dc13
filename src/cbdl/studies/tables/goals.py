"""What the default model is held to, each goal with the value that this run reached: computed, never typed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cbdl.studies.goal import Goal
from cbdl.studies.tables import bde, credal, peers, regions
from cbdl.studies.tables.kept import Rows
from cbdl.studies.tables.published import DROPOUT, ENSEMBLE, NUMBERS
from cbdl.studies.tables.runs import Runs
from cbdl.studies.tables.sources import MANY, UCI

COVERED = 0.945
"""Mean coverage that a method's sets must have to be compared by their size."""
VACUOUS = 0.5
"""The share of sets that may hold every class: what "not vacuous" is taken to mean."""
FLOOR, SHARE = 0.02, 0.1
"""Nats of epistemic uncertainty, and the share of it, that may be Monte Carlo noise."""
SMALL = 1000
"""Training rows of a small table."""


def goals(runs: Sequence[Runs], sine: Rows | None) -> list[Goal]:
    """All goals, in the order of the project's list."""
    tables = {own.name: own for own in runs}
    return [
        *_density(tables),
        *_intervals([own for own in runs if own.kind == "real" and not own.source.alone]),
        *_sets([own for own in runs if own.kind == "classes"]),
        *_examples(tables, sine),
        _noise(runs),
        *_seconds(tables),
        *_against_mlp([own for own in runs if not own.source.alone]),
    ]


# --- densities ----------------------------------------------------------------------------------------------


def _density(tables: dict[str, Runs]) -> list[Goal]:
    rows = []
    for name in UCI:
        best = min(NUMBERS[name][ENSEMBLE].nll, NUMBERS[name][DROPOUT].nll)
        rows.append(Goal(f"{name}: NLL, best published (two methods)", None, best, _own(tables, name)))
    pairs = [tables[name].pair(credal.NAME, bde.NAME, "nll") for name in UCI if name in tables]
    known = [pair for pair in pairs if pair is not None]
    wins = float(sum(ours <= theirs for ours, theirs in known)) if known else None
    rows.append(Goal(f"UCI tables with NLL at or below bde's, of {len(known)}", 4, None, wins))
    rows += [
        Goal("energy: NLL", None, 0.5, _own(tables, "energy")),
        Goal("concrete: NLL", None, 2.75, _own(tables, "concrete")),
        Goal("airfoil: RMSE", None, 0.125, _own(tables, "airfoil", "rmse")),
        Goal("airfoil: NLL", None, -0.9, _own(tables, "airfoil")),
    ]
    return rows


def _own(tables: dict[str, Runs], name: str, score: str = "nll") -> float | None:
    return tables[name].mean(credal.NAME).get(score) if name in tables else None


# --- regions ------------------------------------------------------------------------------------------------


def _intervals(runs: Sequence[Runs]) -> list[Goal]:
    toughest = _toughest(runs, "interval_score", lambda row: True)
    return [
        Goal("intervals: coverage", 0.94, 0.985, _average(runs, "coverage")),
        Goal("intervals: score over MAPIE's best", None, 1.0, toughest),
    ]


def _sets(runs: Sequence[Runs]) -> list[Goal]:
    def covers(row: str) -> bool:
        values = [own.mean(row)["coverage"] for own in runs if row in own.rows]
        return float(np.mean(values)) >= COVERED

    same = _toughest(runs, "size", lambda row: row.endswith(f" {regions.CENTRE}") and covers(row))
    best = _toughest(runs, "size", covers)
    vacuous = _average(runs, "vacuous")
    return [
        Goal("sets: coverage", COVERED, None, _average(runs, "coverage")),
        Goal("sets: size over MAPIE's, same networks", None, 1.1, same),
        Goal("sets: size over MAPIE's best of all", None, 1.1, best),
        Goal("sets: share that is empty", None, 0.0, _average(runs, "empty")),
        Goal("sets: share that holds every class", None, VACUOUS, vacuous),
    ]


def _average(runs: Sequence[Runs], name: str) -> float | None:
    values = [own.mean(credal.NAME)[name] for own in runs if name in own.mean(credal.NAME)]
    return float(np.mean(values)) if values else None


def _toughest(runs: Sequence[Runs], name: str, counts: Callable[[str], bool]) -> float | None:
    """The largest ratio of our mean to that of one of MAPIE's methods, each over the tables that it was run on."""
    rows = sorted({row for own in runs for row in own.rows if row.startswith(regions.PREFIX) and counts(row)})
    ratios = []
    for row in rows:
        pairs = [pair for own in runs if (pair := own.pair(credal.NAME, row, name)) is not None]
        if pairs:
            ours, theirs = np.mean(pairs, axis=0)
            ratios.append(float(ours / theirs))
    return max(ratios) if ratios else None


# --- examples and seconds -----------------------------------------------------------------------------------


def _examples(tables: dict[str, Runs], sine: Rows | None) -> list[Goal]:
    widths = {} if sine is None else sine[credal.NAME]
    return [
        Goal("sine: width in the data", None, 0.55, widths.get("data")),
        Goal("sine: width in the gap", 1.2, None, widths.get("gap")),
        Goal("sine: width far away", 2.0, None, widths.get("far")),
        Goal(
            "digits: AUROC, scrambled against clean",
            0.96,
            None,
            _own(tables, "digits", "auroc_scrambled"),
        ),
    ]


def _noise(runs: Sequence[Runs]) -> Goal:
    """How often the default number of draws is enough."""
    own = [one.mean(credal.NAME) for one in runs]
    pairs = [(numbers["floor"], numbers["epistemic"]) for numbers in own if "floor" in numbers]
    enough = float(sum(floor <= max(FLOOR, SHARE * whole) for floor, whole in pairs)) if pairs else None
    what = f"tables with a floor of at most {FLOOR:g} nats or {SHARE:.0%} of the ignorance, of {len(pairs)}"
    return Goal(what, float(len(pairs)), None, enough)


def _seconds(tables: dict[str, Runs]) -> list[Goal]:
    race = [
        pair
        for own in tables.values()
        if (pair := own.pair(credal.RACE, bde.NAME, "fit_seconds")) is not None
    ]
    ratio = float(np.max([ours / theirs for ours, theirs in race])) if race else None
    small = [
        own.mean(credal.NAME)["fit_seconds"]
        for own in tables.values()
        if len(own.first.X) <= SMALL and "fit_seconds" in own.mean(credal.NAME)
    ]
    slowest = max(small) if small else None
    return [
        Goal("fit over bde's, same chains and steps", None, 0.5, ratio),
        Goal(f"longest fit of up to {SMALL:,} rows", None, 40, slowest, " s"),
        Goal("fit of 50,000 rows, 10 features", None, 300, _own(tables, MANY, "fit_seconds"), " s"),
    ]


def _against_mlp(runs: Sequence[Runs]) -> list[Goal]:
    """Error and NLL no worse than those of scikit-learn's network: table by table, where a row or two decide, and on
    average."""
    counts, means = [], []
    for score, words, sign in (("rmse", "RMSE", 1), ("accuracy", "accuracy", -1), ("nll", "NLL", 1)):
        pairs = [pair for own in runs if (pair := own.pair(credal.NAME, peers.MLP, score)) is not None]
        ahead = [sign * (theirs - ours) for ours, theirs in pairs]
        wins = float(sum(one >= 0 for one in ahead)) if pairs else None
        counts.append(
            Goal(f"tables with {words} no worse than MLP, of {len(pairs)}", float(len(pairs)), None, wins)
        )
        if score != "rmse":  # which is in the units of each table
            mean = float(np.mean(ahead)) if ahead else None
            means.append(Goal(f"{words} better than MLP's by, mean of {len(pairs)} tables", 0, None, mean))
    return counts + means
