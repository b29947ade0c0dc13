"""A saved model on a table: what `cbdl predict`, `cbdl evaluate` and `cbdl info` do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cbdl import recipe
from cbdl.credal import CredalSet, Region
from cbdl.evaluate.conformal import Conformity
from cbdl.model import CBDL, load
from cbdl.prediction import FORMS, Form, averaged
from cbdl.store import ModelError, read_manifest
from cbdl.tables.columns import Column, as_number, encode, from_json, to_json
from cbdl.tables.files import Chunk, Floats, TableError, UsageError, chunks

Task = Literal["classification", "regression"]
Labels = npt.NDArray[Any]


@dataclass(frozen=True)
class Trained:
    """A model that was trained from a table, and what its columns mean."""

    model: CBDL
    task: Task
    target: str
    classes: tuple[str, ...]
    columns: tuple[Column, ...]
    conformity: Mapping[Form, Conformity] = field(default_factory=dict)
    """The levels of calibrated regions, for predictives of each form; none if the model was not calibrated."""

    @classmethod
    def load(cls, folder: str | Path) -> Trained:
        if not Path(folder).is_dir():
            raise UsageError(f"{folder} {'is not a folder' if Path(folder).exists() else 'does not exist'}")
        extra = read_manifest(folder)["extra"]
        if "columns" not in extra:
            raise TableError(f"{folder} was not trained from a table; use it from Python: cbdl.load")
        columns, levels = from_json(extra["columns"]), _conformity(folder, extra)
        return cls(load(folder), extra["task"], extra["target"], tuple(extra["classes"]), columns, levels)

    def described(self) -> dict[str, Any]:
        """What a saved model keeps beside its networks."""
        return {
            "task": self.task,
            "target": self.target,
            "classes": list(self.classes),
            "columns": to_json(self.columns),
            "conformity": {form: levels.to_json() for form, levels in self.conformity.items()},
        }

    def region(self, credal: CredalSet, options: Options) -> Region:
        """The calibrated region, or the plain one of the kind that is asked for."""
        levels = self.conformity.get(options.predictive) if options.method is None else None
        if levels is not None:
            return levels.region(averaged(credal), options.alpha)
        return credal.region(options.alpha, options.method or "union")


def _conformity(folder: str | Path, extra: Mapping[str, Any]) -> dict[Form, Conformity]:
    """The levels that a manifest holds; a ModelError if they are none."""
    given = extra.get("conformity")
    try:
        if not isinstance(given, dict) or set(given) - set(FORMS):
            raise ValueError(f"it must hold the levels of {' and of '.join(FORMS)} predictives, or nothing")
        return {form: Conformity.from_json(given[form]) for form in FORMS if form in given}
    except ValueError as error:
        raise ModelError(
            f"{folder} does not describe its calibration: {error}; train the model again"
        ) from None


@dataclass(frozen=True)
class Options:
    """How a model is asked: level and kind of the region, draws, and when to abstain (nats)."""

    alpha: float = 0.05
    method: str | None = None
    """None: calibrated, if the model is; else "union", "lower-density" or "minimal"."""
    samples: int | Literal["auto"] = recipe.DRAWS
    predictive: Form = "mixture"
    phi: float | None = None
    floor: bool = False
    keep: tuple[str, ...] = ()


def predict(trained: Trained, path: str | Path, options: Options) -> Iterator[dict[str, Any]]:
    """One answer per row of the table, as they are computed; the file may be larger than memory."""
    first = 1
    for chunk in chunks(path):
        absent = [name for name in options.keep if name not in chunk]
        if absent:
            raise UsageError(f"{path} has no column {absent[0]!r}; it has {', '.join(chunk)}")
        X = encode(trained.columns, chunk, first)
        columns = {"row": list(range(first, first + len(X)))}
        columns |= {name: chunk[name] for name in options.keep} | _answers(trained, X, options)
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, values, strict=True))
        first += len(X)


def _answers(trained: Trained, X: Floats, options: Options) -> dict[str, list[Any]]:
    """Column by column: the decision, the region, and the uncertainties in nats."""
    credal = trained.model.predict(X, options.samples, predictive=options.predictive)
    split, region = credal.uncertainty(), trained.region(credal, options)
    decision = credal.decide("maximin", single=True)
    answer: dict[str, list[Any]] = {}
    if trained.task == "classification":
        answer["decision"] = [trained.classes[i] for i in decision]
        answer["set"] = [[trained.classes[i] for i in np.flatnonzero(mask)] for mask in region.mask]
    else:
        answer["decision"] = decision.tolist()
        lower, upper = region.hull()
        answer["lower"], answer["upper"] = lower.tolist(), upper.tolist()
        answer["set"] = [ends[~np.isnan(ends[:, 0])].tolist() for ends in region.intervals]
    answer["size"] = region.measure.tolist()
    for name in ("aleatoric", "epistemic", "epistemic_lower", "epistemic_upper", "total"):
        answer[name] = getattr(split, name).tolist()
    if options.floor:
        answer["floor"] = [known(value) for value in np.asarray(credal.floor)]
    if options.phi is not None:
        answer["abstain"] = credal.abstain(options.phi).tolist()
    return answer


def evaluate(trained: Trained, path: str | Path, options: Options) -> dict[str, Any]:
    """Scores on a table that holds the target; the file may be larger than memory."""

    def blocks() -> Iterator[tuple[Floats, Labels]]:
        first = 1
        for chunk in chunks(path):
            if trained.target not in chunk:
                raise UsageError(f"{path} has no column {trained.target!r}, the target; evaluation needs it")
            X = encode(trained.columns, chunk, first)
            yield X, _known_target(trained, chunk, first)
            first += len(X)

    return scores(trained, blocks(), options)


def known(value: float) -> float | None:
    """A number for JSON: None where it is unknown (nan)."""
    return None if np.isnan(value) else float(value)


def _known_target(trained: Trained, chunk: Chunk, first_row: int) -> Labels:
    place: dict[Any, int] = {as_number(c): i for i, c in enumerate(trained.classes)}
    place |= {c: i for i, c in enumerate(trained.classes)}
    out: list[float] = []
    for i, value in enumerate(chunk[trained.target]):
        known: float | None = as_number(value)
        if trained.task == "classification":
            known = place.get(value, place.get(known) if known is not None else None)
        if known is None:
            raise TableError(
                f"the target {trained.target!r} in row {first_row + i} is {value!r}, which the model cannot predict"
            )
        out.append(known)
    return np.array(out, dtype=np.int64 if trained.task == "classification" else np.float64)


def scores(trained: Trained, blocks: Iterable[tuple[Floats, Labels]], options: Options) -> dict[str, Any]:
    """Means over all rows; the floor, which costs more than all the rest, over the first block."""
    sums: dict[str, float] = {}
    rows, floor = 0, 0.0
    for X, y in blocks:
        credal = trained.model.predict(X, options.samples, predictive=options.predictive)
        for name, values in _judged(trained, credal, y, options).items():
            sums[name] = sums.get(name, 0.0) + float(np.sum(values))
        if not rows:
            floor = float(np.mean(np.asarray(credal.floor)))
        rows += len(X)
    means = {name: total / rows for name, total in sums.items()}
    if "rmse" in means:
        means["rmse"] = float(np.sqrt(means["rmse"]))
    return {"rows": rows, "alpha": options.alpha, **means, "floor": known(floor)}


def _judged(trained: Trained, credal: CredalSet, y: Labels, options: Options) -> dict[str, Any]:
    """For each row: was the decision right (or its squared error), the outcome covered; sizes, uncertainties."""
    split, region = credal.uncertainty(), trained.region(credal, options)
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
    manifest = read_manifest(folder)
    own = any(q.get("net", {}).get("type") == "user-net" for q in manifest["likelihoods"])
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
    summary: dict[str, Any] = {name: manifest[name] for name in names}
    if "columns" in manifest["extra"]:
        levels = _conformity(folder, manifest["extra"])
        known = {form: {"outcomes": len(own.counts), "how": own.how} for form, own in levels.items()}
        summary["extra"] = {**manifest["extra"], "conformity": known}
    summary["members"] = sum(len(part["members"]) for part in manifest["parts"])
    return {"model": str(folder), **summary, "checked": not own}
