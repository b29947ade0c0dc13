"""From a table to a model: what `cbdl fit` does."""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cbdl import nets, recipe
from cbdl.bayes import likelihoods
from cbdl.bayes.checkpoint import CheckpointError
from cbdl.bayes.priors import Prior
from cbdl.engines import Engine, WorkerError
from cbdl.evaluate.conformal import Conformity
from cbdl.model import CBDL
from cbdl.prediction import FORMS, Form
from cbdl.steps.left_out import How, folds_for
from cbdl.store import MANIFEST
from cbdl.tables.answers import Options, Trained
from cbdl.tables.columns import Meaning, Wishes, check_names, check_range, learn
from cbdl.tables.encoding import Encoded, encode_rows, filled
from cbdl.tables.errors import TableError, UsageError, many
from cbdl.tables.files import ROWS, Dialect, Floats, read
from cbdl.tables.guises import missing_marks
from cbdl.tables.scoring import ENOUGH, baselines, scores
from cbdl.tables.target import Labels, Target, held_out, learn_target

LEAST = 10
"""Rows that a table must have at least."""
MIXED = 1.5
"""An R-hat of predictions above this tells of chains that do not agree."""
_PART = re.compile(r", (?:chain|without fold) \d+")
"""What names of members say beyond the member."""


class Diverged(TableError):
    """A training that came to nothing."""


@dataclass(frozen=True)
class Settings:
    """How a model is trained from a table."""

    target: str
    task: Literal["auto", "classification", "regression"] = "auto"
    priors: tuple[Prior, ...] = recipe.PRIORS
    nets: tuple[tuple[int, ...], ...] | None = None
    """The widths of hidden layers, one tuple per network; None: those of the default model."""
    wishes: Wishes = field(default_factory=Wishes)
    steps: int | None = None
    """Of the training; None: those of the default model (`cbdl.recipe.steps`)."""
    plausible: float = recipe.PLAUSIBLE
    calibration: How | None = "auto"
    """How the levels of calibrated regions are found; None: not at all."""
    temperature: float = 1.0
    seed: int = 0
    held_out: float = 0.2
    """Share of the rows that are kept for the scores and not trained on."""
    dialect: Dialect = field(default_factory=Dialect)


@dataclass(frozen=True)
class Learnable:
    """A table as numbers: rows (rows, features), targets y (rows,), what they mean, and which rows are trained on."""

    rows: Encoded
    y: Labels
    target: Target
    meaning: Meaning
    train: npt.NDArray[np.intp]
    test: npt.NDArray[np.intp]
    imputed: bool

    @classmethod
    def of(cls, path: str | Path, settings: Settings) -> Learnable:
        table = read(path, settings.dialect)
        names = check_names(table, settings.target, settings.wishes)
        size = len(table[settings.target])
        if size < LEAST:
            raise TableError(f"{path} has {many(size, 'row')}; a model needs at least {LEAST} to learn from")
        target = learn_target(settings.target, table[settings.target], settings.task, settings.wishes.decimal)
        y = target.encode(table[settings.target])
        labels = y if target.task == "classification" else None
        train, test = held_out(size, labels, settings.held_out, settings.seed)
        meaning = learn(table, names, train, settings.wishes)
        rows = encode_rows(meaning.columns, table)
        check_range(meaning.columns, rows.X)
        return cls(rows, y, target, meaning, train, test, settings.wishes.impute)

    @property
    def X(self) -> Floats:
        """(training rows, features), missing values filled in."""
        return filled(self.meaning.columns, self.rows.at(self.train)).X

    @property
    def filled(self) -> int:
        """Training rows with missing values, which are filled in."""
        return int(self.rows.missing[self.train].any(1).sum())

    def marks(self) -> str:
        """What a person should know about outcomes that may stand for missing ones."""
        marks = "" if self.target.classes else missing_marks(self.labels)
        remedy = "unlike all other outcomes, may stand for missing ones; remove such rows if they do"
        return f"the target {self.target.name!r}: {marks}, {remedy}" if marks else ""

    @property
    def labels(self) -> Labels:
        return self.y[self.train]


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
    with _kept(run):
        try:
            return _fit(Path(path), Path(out), settings, engine, verbose)
        except CheckpointError as error:
            if not resume:
                raise
            raise CheckpointError(
                f"{error}. --resume goes on with the same table and the same options; to start again, delete {run}"
            ) from None


def _fit(path: Path, out: Path, settings: Settings, engine: Engine | None, verbose: bool) -> dict[str, Any]:
    table = Learnable.of(path, settings)
    for note in (*table.meaning.notes, table.target.note(), table.marks()):
        if note:
            warnings.warn(note, stacklevel=2)
    count = folds_for(settings.calibration, settings.plausible)
    steps = settings.steps or recipe.steps(len(table.train), table.target.task)
    model = CBDL(
        settings.priors,
        _likelihoods(settings, table),
        recipe.method(steps, table.target.task, temperature=settings.temperature),
        plausible=settings.plausible,
        chains=recipe.CHAINS_OF[table.target.task],
        sharpen=count > 0,
        seed=settings.seed,
        dtype=recipe.DTYPE,
        engine=engine,
        verbose=verbose,
    )
    with _once():
        model.fit(
            table.X,
            table.labels,
            checkpoint_dir=run_folder(out),
            folds=count,
            least=recipe.LEAST,
            extra=recipe.EXTRA[table.target.task],
        )
        state = _state(model)
    lost = [str(m) for m in model.plausibility.failed] if model.plausibility else []
    levels = _levels(model, settings)
    trained = Trained(model, table.target, table.meaning.columns, levels, table.imputed)
    tests = _tests(trained, table, settings.seed)
    model.save(out, extra={**trained.described(), "held_out": tests})
    return {
        "model": str(out),
        "task": table.target.task,
        "other_task": table.target.other_task(table.y),
        "target": table.target.name,
        "classes": list(table.target.classes),
        "rows": len(table.train),
        "features": table.rows.X.shape[1],
        "imputed": table.filled,
        "members": len(model.learned.members),
        "dropped": [str(m) for m in model.plausibility.dropped] if model.plausibility else [],
        "spared": [str(m) for m in model.plausibility.spared] if model.plausibility else [],
        **state,
        "failed": [*lost, *state["failed"]],
        "held_out": tests,
    }


@contextmanager
def _kept(run: Path) -> Iterator[None]:
    """A folder for the run, which stays where going on can help: after it was stopped, or when the machine failed.
    One that was there before stays unless the run came to its end, good or bad."""
    fresh = not run.exists()
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--out is {str(run).removesuffix('.run')}, where nothing can be written ({error.strerror}); choose "
            "another place"
        ) from None
    try:
        yield
    except (OSError, MemoryError, CheckpointError, WorkerError):
        raise
    except Diverged:
        shutil.rmtree(run, ignore_errors=True)
        raise
    except Exception:
        if fresh:
            shutil.rmtree(run, ignore_errors=True)
        raise
    shutil.rmtree(run, ignore_errors=True)


@contextmanager
def _once() -> Iterator[None]:
    """Warnings of a training when it is over, each once for a member, whatever its chains and folds; none of a training
    that diverged, which says more itself."""
    heard: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            yield
    except Diverged:
        heard.clear()
        raise
    finally:
        for category, message in dict.fromkeys((w.category, _PART.sub("", str(w.message))) for w in heard):
            warnings.warn(message, category, stacklevel=3)


def _state(model: CBDL) -> dict[str, Any]:
    """Whether the training came to its end; `Diverged` if no member has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = model.diagnostics().rows
    failed = [row for row in rows if row.failed]
    if len(failed) == len(rows):
        raise Diverged(
            f"the training diverged, nothing was written: {failed[0].failed.split('. ')[0]}. Look at the priors, which "
            "may be far too wide or far off (--prior), and at columns with numbers of very different sizes"
        )
    rhat = [row.rhat for row in rows if np.isfinite(row.rhat)]
    return {
        "failed": [str(row.member) for row in failed],
        "rhat": max(rhat) if rhat else None,
        "converged": not failed and all(value <= MIXED for value in rhat),
    }


def _levels(model: CBDL, settings: Settings) -> dict[Form, Conformity]:
    if settings.calibration is None:
        return {}
    return {form: model.conformity(settings.calibration, predictive=form) for form in FORMS}


def _tests(trained: Trained, table: Learnable, seed: int) -> dict[str, Any]:
    """The scores on held-out rows, on a sample of them if they are many, and the simplest models' beside them."""
    total = len(table.test)
    if not total:
        return {"rows": 0}
    some = table.test
    most = ENOUGH[trained.target.task]
    if total > most:
        some = np.sort(np.random.default_rng(seed).choice(table.test, most, replace=False))
    options = Options()
    rows = table.rows.at(some)
    gaps = int(rows.missing.any(1).sum()) if trained.imputed else 0
    rows = filled(trained.columns, rows) if trained.imputed else rows
    counts = {"imputed": gaps} if gaps else {}
    tests = counts | scores(trained, _blocks(rows, table.y[some]), options)
    plain = filled(trained.columns, table.rows.at(some), strange=True).X
    simple = baselines(trained, (table.X, table.labels), (plain, table.y[some]))
    return {**tests, "of": total, "range": _range(table), "baselines": simple}


def _range(table: Learnable) -> float | None:
    """What the training outcomes span; None for classes."""
    return None if table.target.classes else float(np.ptp(table.labels))


def _blocks(rows: Encoded, y: Labels) -> Iterator[tuple[Encoded, Labels]]:
    for a in range(0, len(rows), ROWS):
        some = np.arange(a, min(a + ROWS, len(rows)))
        yield rows.at(some), y[some]


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


def _likelihoods(settings: Settings, table: Learnable) -> list[likelihoods.Likelihood]:
    inputs, outputs = table.rows.X.shape[1], len(table.target.classes) or 1
    hiddens = recipe.hidden(len(table.train), table.target.task) if settings.nets is None else settings.nets
    scores = recipe.quantiles(table.X)
    if table.target.task == "classification":
        own = [nets.mlp(inputs, outputs, hidden, recipe.activation(), scores) for hidden in hiddens]
        return [likelihoods.Categorical(net) for net in own]
    resolution = recipe.resolution(table.X, np.asarray(table.labels, np.float64))
    most = recipe.ramps(scores, len(table.train), table.target.task) if settings.nets is None else 0

    def net(noise: likelihoods.Scale, hidden: Sequence[int], ramps: int) -> nets.Net:
        wide = 2 if noise == "heteroscedastic" else 1
        return nets.mlp(inputs, wide, hidden, recipe.activation(noise), scores, ramps)

    return [
        likelihoods.Normal(net(noise, hidden, ramps), noise, resolution)
        for noise in recipe.NOISES
        for ramps in recipe.views(noise, most)
        for hidden in hiddens
    ]
