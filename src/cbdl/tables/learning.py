"""From a table to a model: what `cbdl fit` does."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cbdl import nets, recipe
from cbdl.bayes import likelihoods
from cbdl.bayes.priors import Prior
from cbdl.engines import Engine
from cbdl.evaluate.conformal import Conformity
from cbdl.left_out import How, folds_for
from cbdl.model import CBDL
from cbdl.prediction import FORMS, Form
from cbdl.store import MANIFEST
from cbdl.tables.answers import Labels, Options, Task, Trained, scores
from cbdl.tables.columns import LEVELS, Column, as_number, encode, is_missing, is_numeric, learn_columns
from cbdl.tables.files import ROWS, Floats, TableError, UsageError, read

FEW = 20
"""A target of whole numbers with at most this many different values is taken for classes."""


@dataclass(frozen=True)
class Settings:
    """How a model is trained from a table."""

    target: str
    task: Literal["auto", "classification", "regression"] = "auto"
    priors: tuple[Prior, ...] = recipe.PRIORS
    nets: tuple[tuple[int, ...], ...] | None = None
    """The widths of hidden layers, one tuple per network; None: those of the default model."""
    drop: tuple[str, ...] = ()
    impute: bool = False
    steps: int = recipe.STEPS
    plausible: float = recipe.PLAUSIBLE
    calibration: How | None = "auto"
    """How the levels of calibrated regions are found; None: not at all."""
    temperature: float = 1.0
    seed: int = 0
    held_out: float = 0.2
    """Share of the rows that are kept for the scores and not trained on."""


@dataclass(frozen=True)
class Learnable:
    """A table as numbers: inputs X (rows, features), targets y (rows,), and what they mean."""

    X: Floats
    y: Labels
    task: Task
    target: str
    classes: tuple[str, ...]
    columns: tuple[Column, ...]

    @classmethod
    def of(cls, path: str | Path, settings: Settings) -> Learnable:
        table = read(path)
        for name in (settings.target, *settings.drop):
            if name not in table:
                raise UsageError(f"{path} has no column {name!r}; it has {', '.join(table)}")
        names = [n for n in table if n != settings.target and n not in settings.drop]
        if not names:
            raise UsageError("no column is left to learn from")
        task, y, classes = _target(settings, table[settings.target])
        columns = learn_columns(table, names, settings.impute)
        return cls(encode(columns, table), y, task, settings.target, classes, columns)


def run_folder(out: str | Path) -> Path:
    """Where a training that was stopped waits to go on."""
    return Path(f"{str(out).rstrip('/')}.run")


def fit(
    path: str | Path,
    out: str | Path,
    settings: Settings,
    *,
    engine: Engine | None = None,
    resume: bool = False,
    overwrite: bool = False,
    verbose: bool = True,
) -> dict[str, Any]:
    """Train on the table in `path`, write the model to `out`, and say how good it is on rows that were held out."""
    run = run_folder(out)
    _check_out(Path(out), run, resume, overwrite)
    table = Learnable.of(path, settings)
    train, test = _split(len(table.X), settings)
    model = CBDL(
        settings.priors,
        _likelihoods(settings, table),
        recipe.method(settings.steps, temperature=settings.temperature),
        plausible=settings.plausible,
        chains=recipe.CHAINS_OF[table.task],
        seed=settings.seed,
        dtype=recipe.DTYPE,
        engine=engine,
        verbose=verbose,
    )
    run.mkdir(parents=True, exist_ok=True)
    count = folds_for(settings.calibration, settings.plausible, len(train))
    model.fit(table.X[train], table.y[train], checkpoint_dir=run, folds=count)
    levels: dict[Form, Conformity] = {}
    if settings.calibration is not None:
        levels = {form: model.conformity(settings.calibration, predictive=form) for form in FORMS}
    trained = Trained(model, table.task, table.target, table.classes, table.columns, levels)
    held_out: dict[str, Any] = {"rows": len(test)}
    if len(test):
        held_out |= scores(trained, _blocks(table.X[test], table.y[test]), Options())
    model.save(out, extra={**trained.described(), "held_out": held_out})
    shutil.rmtree(run, ignore_errors=True)
    return {
        "model": str(out),
        "task": table.task,
        "target": table.target,
        "classes": list(table.classes),
        "rows": len(train),
        "features": table.X.shape[1],
        "members": len(model.learned.members),
        "dropped": [str(m) for m in model.plausibility.dropped] if model.plausibility else [],
        "held_out": held_out,
    }


def _check_out(out: Path, run: Path, resume: bool, overwrite: bool) -> None:
    """A UsageError before any work if the result would have no place."""
    if (out / MANIFEST).is_file() and not overwrite:
        raise UsageError(
            f"{out} is a saved model already; add --overwrite to replace it when the new one is ready"
        )
    if out.exists() and not (out / MANIFEST).is_file():
        raise UsageError(f"{out} exists and is not a saved model; choose another name")
    if run.exists() and not resume:
        raise UsageError(f"{run} is left from a run that did not end; add --resume to go on, or delete it")


def _target(settings: Settings, values: Sequence[str]) -> tuple[Task, Labels, tuple[str, ...]]:
    missing = [i for i, v in enumerate(values) if is_missing(v)]
    if missing:
        raise TableError(
            f"the target {settings.target!r} is missing in row {missing[0] + 1}; remove such rows"
        )
    numeric, different = is_numeric(values), len(set(values))
    task = settings.task
    if task == "auto":
        whole = numeric and all(float(v).is_integer() for v in values)
        task = "classification" if not numeric or (whole and different <= FEW) else "regression"
        if task == "classification" and different > LEVELS:
            raise TableError(
                f"the target {settings.target!r} holds text with {different} different values; are these classes? "
                "then say --task classification"
            )
    if task == "regression":
        if not numeric:
            at = next(i for i, v in enumerate(values) if as_number(v) is None)
            raise TableError(
                f"the target {settings.target!r} in row {at + 1} is {values[at]!r}, not a finite number"
            )
        return task, np.array([float(v) for v in values]), ()
    if different < 2:
        raise TableError(
            f"the target {settings.target!r} is {values[0]!r} in every row; there is nothing to tell apart"
        )
    classes = tuple(sorted(set(values), key=(lambda v: float(v)) if numeric else str))
    place = {c: i for i, c in enumerate(classes)}
    return task, np.array([place[v] for v in values]), classes


def _split(rows: int, settings: Settings) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Rows to train on and rows to keep, by the seed."""
    order = np.random.default_rng(settings.seed).permutation(rows)
    count = int(rows * settings.held_out)
    return np.sort(order[count:]), np.sort(order[:count])


def _likelihoods(settings: Settings, table: Learnable) -> list[likelihoods.Likelihood]:
    inputs, outputs = table.X.shape[1], len(table.classes) or 1
    hiddens = recipe.hidden(len(table.X)) if settings.nets is None else settings.nets
    if table.task == "classification":
        return [likelihoods.Categorical(_net(inputs, outputs, hidden)) for hidden in hiddens]
    return [
        likelihoods.Normal(_net(inputs, 2 if noise == "heteroscedastic" else 1, hidden), scale=noise)
        for noise in recipe.NOISES
        for hidden in hiddens
    ]


def _net(inputs: int, outputs: int, hidden: Sequence[int]) -> nets.Net:
    return nets.mlp(inputs, outputs, hidden, recipe.ACTIVATION)


def _blocks(X: Floats, y: Labels) -> Iterator[tuple[Floats, Labels]]:
    for a in range(0, len(X), ROWS):
        yield X[a : a + ROWS], y[a : a + ROWS]
