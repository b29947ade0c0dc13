"""From a file to a model and from a model to answers: what `cbdl fit`, `predict` and `evaluate` do."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cbdl import nets, tables
from cbdl.bayes import likelihoods, priors
from cbdl.bayes.methods import MeanField
from cbdl.engines import Engine
from cbdl.model import CBDL
from cbdl.prediction import Form
from cbdl.store import MANIFEST, load, read_manifest, save
from cbdl.tables import Chunk, Floats, TableError, UsageError

Task = Literal["classification", "regression"]
Labels = npt.NDArray[Any]

PRIORS: dict[str, tuple[type[priors.Prior], str]] = {
    "normal": (priors.Normal, "normal:LOC:SCALE"),
    "laplace": (priors.Laplace, "laplace:LOC:SCALE"),
    "cauchy": (priors.Cauchy, "cauchy:LOC:SCALE"),
    "student-t": (priors.StudentT, "student-t:DF:LOC:SCALE"),
    "horseshoe": (priors.Horseshoe, "horseshoe:SCALE"),
}
FEW = 20
"""A target of whole numbers with at most this many different values is taken for classes."""


def parse_prior(text: str) -> priors.Prior:
    """A prior from its spelling on the command line.

    >>> parse_prior("normal:0:3")
    Normal(loc=0.0, scale=3.0, fan_in=False)
    """
    name, *numbers = text.split(":")
    if name not in PRIORS:
        known = ", ".join(spelling for _, spelling in PRIORS.values())
        raise UsageError(f"{text!r} is not a prior; write one of {known}")
    make, spelling = PRIORS[name]
    if len(numbers) > spelling.count(":"):
        raise UsageError(f"{text!r} has too many numbers; write {spelling}")
    try:
        return make(*(float(n) for n in numbers))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{text!r}: {error}; write {spelling}") from None


def parse_net(text: str) -> tuple[int, ...]:
    """The hidden layers of a network from its spelling on the command line.

    >>> parse_net("mlp:64,32")
    (64, 32)
    """
    name, _, sizes = text.partition(":")
    try:
        hidden = tuple(int(n) for n in sizes.split(",")) if sizes else ()
    except ValueError:
        hidden = (0,)
    if name != "mlp" or any(n < 1 for n in hidden):
        raise UsageError(f"{text!r} is not a network; write mlp:64,64 (two hidden layers) or mlp (none)")
    return hidden


# --- from a table to a model ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """How a model is trained from a table."""

    target: str
    task: Literal["auto", "classification", "regression"] = "auto"
    priors: tuple[priors.Prior, ...] = tuple(priors.Normal(0.0, s, fan_in=True) for s in (2.0, 4.0, 8.0))
    nets: tuple[tuple[int, ...], ...] = ((32,), (16, 16))
    drop: tuple[str, ...] = ()
    impute: bool = False
    epochs: int | None = None
    """None: enough for 600 steps, and at least 20."""
    batch_size: int = 256
    lr: float = 0.02
    temperature: float = 1.0
    seed: int = 0
    held_out: float = 0.2
    """Share of the rows that are kept for the scores and not trained on."""

    def method(self, rows: int) -> MeanField:
        """The training on so many rows."""
        enough = max(20, math.ceil(600 / math.ceil(rows / self.batch_size)))
        return MeanField(
            epochs=self.epochs or enough,
            batch_size=self.batch_size,
            lr=self.lr,
            temperature=self.temperature,
        )


@dataclass(frozen=True)
class Learnable:
    """A table as numbers: inputs X (rows, features), targets y (rows,), and what they mean."""

    X: Floats
    y: Labels
    task: Task
    target: str
    classes: tuple[str, ...]
    columns: tuple[tables.Column, ...]

    @classmethod
    def of(cls, path: str | Path, settings: Settings) -> Learnable:
        table = tables.read(path)
        for name in (settings.target, *settings.drop):
            if name not in table:
                raise UsageError(f"{path} has no column {name!r}; it has {', '.join(table)}")
        names = [n for n in table if n != settings.target and n not in settings.drop]
        if not names:
            raise UsageError("no column is left to learn from")
        task, y, classes = _target(settings, table[settings.target])
        columns = tables.learn_columns(table, names, settings.impute)
        return cls(tables.encode(columns, table), y, task, settings.target, classes, columns)


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
        settings.method(len(train)),
        seed=settings.seed,
        engine=engine,
        verbose=verbose,
    )
    run.mkdir(parents=True, exist_ok=True)
    model.fit(table.X[train], table.y[train], checkpoint_dir=run)
    trained = Trained(model, table.task, table.target, table.classes, table.columns)
    held_out: dict[str, Any] = {"rows": len(test)}
    if len(test):
        held_out |= _scores(trained, _blocks(table.X[test], table.y[test]), Options())
    save(model, out, {**trained.described(), "held_out": held_out})
    shutil.rmtree(run, ignore_errors=True)
    return {
        "model": str(out),
        "task": table.task,
        "target": table.target,
        "classes": list(table.classes),
        "rows": len(train),
        "features": table.X.shape[1],
        "members": len(settings.priors) * len(settings.nets),
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
    missing = [i for i, v in enumerate(values) if tables.is_missing(v)]
    if missing:
        raise TableError(
            f"the target {settings.target!r} is missing in row {missing[0] + 1}; remove such rows"
        )
    numeric, different = tables.is_numeric(values), len(set(values))
    task = settings.task
    if task == "auto":
        whole = numeric and all(float(v).is_integer() for v in values)
        task = "classification" if not numeric or (whole and different <= FEW) else "regression"
        if task == "classification" and different > tables.LEVELS:
            raise TableError(
                f"the target {settings.target!r} holds text with {different} different values; are these classes? "
                "then say --task classification"
            )
    if task == "regression":
        if not numeric:
            at = next(i for i, v in enumerate(values) if tables.as_number(v) is None)
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
    made = [nets.mlp(inputs, outputs, hidden) for hidden in settings.nets]
    if table.task == "classification":
        return [likelihoods.Categorical(net) for net in made]
    return [likelihoods.Normal(net, scale="learned") for net in made]


# --- a saved model on a table -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Trained:
    """A model that was trained from a table, and what its columns mean."""

    model: CBDL
    task: Task
    target: str
    classes: tuple[str, ...]
    columns: tuple[tables.Column, ...]

    @classmethod
    def load(cls, folder: str | Path) -> Trained:
        if not Path(folder).is_dir():
            raise UsageError(f"{folder} {'is not a folder' if Path(folder).exists() else 'does not exist'}")
        extra = read_manifest(Path(folder)).get("extra", {})
        if "columns" not in extra:
            raise TableError(f"{folder} was not trained from a table; use it from Python: cbdl.load")
        columns = tables.from_json(extra["columns"])
        return cls(load(folder), extra["task"], extra["target"], tuple(extra["classes"]), columns)

    def described(self) -> dict[str, Any]:
        """What a saved model keeps beside its networks."""
        columns = tables.to_json(self.columns)
        return {"task": self.task, "target": self.target, "classes": list(self.classes), "columns": columns}


@dataclass(frozen=True)
class Options:
    """How a model is asked: level and kind of the region, draws, and when to abstain (nats)."""

    alpha: float = 0.05
    method: str = "union"
    samples: int | Literal["auto"] = 20
    predictive: Form = "mixture"
    phi: float | None = None
    noise: bool = False
    keep: tuple[str, ...] = ()


def predict(trained: Trained, path: str | Path, options: Options) -> Iterator[dict[str, Any]]:
    """One answer a row of the table, as they are computed; the file may be larger than memory."""
    first = 1
    for chunk in tables.chunks(path):
        absent = [name for name in options.keep if name not in chunk]
        if absent:
            raise UsageError(f"{path} has no column {absent[0]!r}; it has {', '.join(chunk)}")
        X = tables.encode(trained.columns, chunk, first)
        columns = {"row": list(range(first, first + len(X)))}
        columns |= {name: chunk[name] for name in options.keep} | _answers(trained, X, options)
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, values, strict=True))
        first += len(X)


def _answers(trained: Trained, X: Floats, options: Options) -> dict[str, list[Any]]:
    """Column by column: the decision, the region, and the uncertainties in nats."""
    credal: Any = trained.model.predict(X, options.samples, predictive=options.predictive)
    split, region = credal.uncertainty(), credal.region(options.alpha, options.method)
    decision = credal.decide("maximin", single=True)
    answer: dict[str, list[Any]] = {}
    if trained.task == "classification":
        answer["decision"] = [trained.classes[i] for i in decision]
        answer["set"] = [[trained.classes[i] for i in np.flatnonzero(mask)] for mask in region.mask]
    else:
        answer["decision"] = decision.tolist()
        answer["lower"] = np.nanmin(region.intervals, (1, 2)).tolist()
        answer["upper"] = np.nanmax(region.intervals, (1, 2)).tolist()
        answer["set"] = [ends[~np.isnan(ends[:, 0])].tolist() for ends in region.intervals]
    answer["size"] = region.measure.tolist()
    for name in ("aleatoric", "epistemic", "epistemic_lower", "epistemic_upper", "total"):
        answer[name] = getattr(split, name).tolist()
    if options.noise:
        answer["noise"] = credal.noise.tolist()
    if options.phi is not None:
        answer["abstain"] = credal.abstain(options.phi).tolist()
    return answer


def evaluate(trained: Trained, path: str | Path, options: Options) -> dict[str, Any]:
    """Scores on a table that holds the target; the file may be larger than memory."""

    def blocks() -> Iterator[tuple[Floats, Labels]]:
        first = 1
        for chunk in tables.chunks(path):
            if trained.target not in chunk:
                raise UsageError(f"{path} has no column {trained.target!r}, the target; evaluation needs it")
            X = tables.encode(trained.columns, chunk, first)
            yield X, _known_target(trained, chunk, first)
            first += len(X)

    return _scores(trained, blocks(), options)


def _known_target(trained: Trained, chunk: Chunk, first_row: int) -> Labels:
    place: dict[Any, int] = {tables.as_number(c): i for i, c in enumerate(trained.classes)}
    place |= {c: i for i, c in enumerate(trained.classes)}
    out: list[float] = []
    for i, value in enumerate(chunk[trained.target]):
        known: float | None = tables.as_number(value)
        if trained.task == "classification":
            known = place.get(value, place.get(known) if known is not None else None)
        if known is None:
            raise TableError(
                f"the target {trained.target!r} in row {first_row + i} is {value!r}, which the model cannot predict"
            )
        out.append(known)
    return np.array(out, dtype=np.int64 if trained.task == "classification" else np.float64)


def _blocks(X: Floats, y: Labels) -> Iterator[tuple[Floats, Labels]]:
    for a in range(0, len(X), tables.ROWS):
        yield X[a : a + tables.ROWS], y[a : a + tables.ROWS]


def _scores(trained: Trained, blocks: Iterable[tuple[Floats, Labels]], options: Options) -> dict[str, Any]:
    """Means over all rows; the noise, which costs more than all the rest, over the first block."""
    sums: dict[str, float] = {}
    rows, noise = 0, 0.0
    for X, y in blocks:
        credal: Any = trained.model.predict(X, options.samples, predictive=options.predictive)
        for name, values in _judged(trained, credal, y, options).items():
            sums[name] = sums.get(name, 0.0) + float(np.sum(values))
        if not rows:
            noise = float(np.mean(credal.noise))
        rows += len(X)
    means = {name: total / rows for name, total in sums.items()}
    if "rmse" in means:
        means["rmse"] = float(np.sqrt(means["rmse"]))
    return {"rows": rows, "alpha": options.alpha, **means, "noise": noise}


def _judged(trained: Trained, credal: Any, y: Labels, options: Options) -> dict[str, Any]:
    """For each row: was the decision right (or its squared error), the outcome covered; sizes, uncertainties."""
    split, region = credal.uncertainty(), credal.region(options.alpha, options.method)
    decision = credal.decide("maximin", single=True)
    right = {"accuracy": decision == y} if trained.task == "classification" else {"rmse": (decision - y) ** 2}
    abstained = {} if options.phi is None else {"abstained": credal.abstain(options.phi)}
    return {
        **right,
        "coverage": region.contains(y),
        "size": region.measure,
        "aleatoric": split.aleatoric,
        "epistemic": split.epistemic,
        **abstained,
    }


def info(folder: str | Path) -> dict[str, Any]:
    """What a saved model is; all its files are checked against their sums on the way."""
    if not Path(folder).is_dir():
        raise UsageError(f"{folder} {'is not a folder' if Path(folder).exists() else 'does not exist'}")
    manifest = read_manifest(Path(folder))
    own = any(q.get("net", {}).get("type") == "user-net" for q in manifest.get("likelihoods", []))
    if not own:
        load(folder)
    names = (
        "format",
        "cbdl",
        "torch",
        "space",
        "rows",
        "seed",
        "priors",
        "likelihoods",
        "method",
        "extra",
        "files",
    )
    told: dict[str, Any] = {name: manifest.get(name) for name in names}
    told["members"] = sum(len(part) for part in manifest.get("members", []))
    return {"model": str(folder), **told, "checked": not own}
