"""Every inference method with its own defaults on four tables, beside scikit-learn's network of the same width."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch

from cbdl.bayes.methods import METHODS, Method
from cbdl.bayes.train import Plan
from cbdl.model import CBDL
from cbdl.studies.methods.details import details
from cbdl.studies.methods.scores import ALPHA, HIDDEN, PRIORS, Scores, of_method, of_mlp
from cbdl.studies.methods.tables import Table, tables
from cbdl.studies.part import Part, cell
from cbdl.studies.study import Context, Study

SPLITS = 1
"""Splits of every table in the profile "cpu"; the scores are their means."""
MOST = 100
"""Training rows up to which HMC, which visits all of them tens of thousands of times, is run."""
BEHIND = 0.1
"""What a method may be behind scikit-learn's network."""
MLP = "scikit-learn's MLP"
SHORT: dict[str, dict[str, Any]] = {
    "SGHMC": {"epochs": 8, "draws": 4},
    "HMC": {"warmup": 20, "draws": 4, "chains": 2, "leapfrogs": 4},
    "MCLMC": {"warmup": 20, "draws": 4, "chains": 2, "optimise": 20},
}
"""Settings for a moment's run of methods that do not train in epochs; of the others three epochs."""

BRIEF = ("hull", "wine")
"""The tables of a moment's run."""


def parts(context: Context) -> Iterator[Part]:
    """A part per table; for a moment's run a regression and a classification."""
    smoke = context.profile == "smoke"
    seeds = [context.seed] if smoke else [context.seed + i for i in range(SPLITS)]
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # networks this small are slower on several threads
    try:
        for splits in zip(*(tables(seed) for seed in seeds), strict=True):
            if not smoke:
                yield _part(context, list(splits), seeds)
            elif splits[0].name in BRIEF:
                yield _part(context, [table.first(60) for table in splits], seeds)
    finally:
        torch.set_num_threads(before)


def _part(context: Context, splits: list[Table], seeds: list[int]) -> Part:
    table, smoke = splits[0], context.profile == "smoke"
    hidden = (4,) if smoke else HIDDEN
    context.note(f"\n{table.name}: {table.source}")
    own = [of_mlp(split, seed, hidden) for split, seed in zip(splits, seeds, strict=True)]
    scores: dict[str, Scores | None] = {MLP: _mean(own)}
    best: tuple[float, str, CBDL | None] = (np.inf, "", None)
    for kind in METHODS:
        name = kind.__name__
        if name == "HMC" and len(table.X) > MOST:
            scores[name] = None
            continue
        method = _short(kind()) if smoke else kind()
        runs = [of_method(split, method, seed, hidden) for split, seed in zip(splits, seeds, strict=True)]
        scores[name] = _mean([own for own, _ in runs])
        best = min(best, (runs[0][0].nll or np.inf, name, runs[0][1]), key=lambda one: one[0])
        context.note(f"{name}: {scores[name]}")
    if smoke:  # a moment's run has no time worth telling
        scores = {name: None if own is None else replace(own, seconds=None) for name, own in scores.items()}
    error = "RMSE" if table.kind == "real" else "error"
    return Part(
        name=table.name,
        title=f"{table.name}: {table.source}",
        text=_text(table, len(splits), smoke),
        header=(
            "method",
            error,
            "against MLP",
            "NLL",
            "coverage",
            "width" if error == "RMSE" else "size",
            "seconds",
        ),
        rows=tuple(_row(name, own, scores[MLP]) for name, own in scores.items()),
        lessons=_lessons(scores),
        numbers={name: None if own is None else asdict(own) for name, own in scores.items()},
        details=() if best[2] is None else details(best[1], best[2], table),
    )


def _short(method: Method) -> Method:
    name = type(method).__name__
    if isinstance(method, Plan):
        return replace(method, epochs=3)
    return type(method)(**SHORT.get(name, {}))


def _mean(runs: list[Scores]) -> Scores:
    """The mean of every number over splits."""
    columns = {name: [asdict(run)[name] for run in runs] for name in asdict(runs[0])}
    known = {name: None if values[0] is None else float(np.mean(values)) for name, values in columns.items()}
    return Scores(**{**known, "improving": any(columns["improving"])})  # type: ignore[arg-type]


def _text(table: Table, splits: int, smoke: bool) -> str:
    scales = ", ".join(f"{prior.scale:g}" for prior in PRIORS)
    width = 4 if smoke else HIDDEN[0]
    length = "three epochs, to see that it runs" if smoke else "every method with its own defaults"
    return (
        f"{len(table.X)} training rows, {len(table.X_test)} test rows, {splits} split{'s' if splits > 1 else ''}; one "
        f"hidden layer of {width}; {len(PRIORS)} members, Normal priors with standard deviations {scales} over the "
        f"root of the fan-in; {length}, the same for all tables."
    )


def _row(name: str, own: Scores | None, mlp: Scores | None) -> tuple[str, ...]:
    if own is None:
        return (name, *["-"] * 6)
    ratio = None if mlp is None or mlp.score == 0 else own.score / mlp.score
    seconds = "-" if own.seconds is None else f"{own.seconds:.1f}"
    return (
        name + (" *" if own.improving else ""),
        cell(own.score, 3),
        "-" if ratio is None else f"{ratio - 1:+.0%}",
        cell(own.nll, 3),
        cell(own.coverage, 3),
        cell(own.size, 2),
        seconds,
    )


def _lessons(scores: dict[str, Scores | None]) -> tuple[str, ...]:
    mlp = scores[MLP]
    assert mlp is not None
    known = {name: own for name, own in scores.items() if own is not None and name != MLP}
    behind = [name for name, own in known.items() if own.score > (1 + BEHIND) * mlp.score]
    lines = [
        f"Score and NLL: of the members' average. Coverage, and width or size: of the region that all members agree to "
        f"cover with {1 - ALPHA:.0%}, not calibrated. Seconds: of the training, on one thread.",
        f"More than {BEHIND:.0%} behind scikit-learn's MLP: {', '.join(behind) or 'none'}.",
    ]
    if any(own.improving for own in known.values()):
        lines.append("* still improving when the most steps that a default training may take were over.")
    if any(own is None for own in scores.values()):
        lines.append(f"HMC visits all rows at every step and is not run on more than {MOST} of them.")
    return tuple(lines)


STUDY = Study("methods", "Every inference method with its own defaults", ("smoke", "cpu"), parts)
