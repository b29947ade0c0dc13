"""A saved model on a table: what `cbdl predict` does, in one pass and a bounded number of rows at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from cbdl import recipe
from cbdl.credal import CredalSet, Region
from cbdl.evaluate.conformal import Conformity
from cbdl.model import CBDL, load
from cbdl.prediction import FORMS, Form, averaged
from cbdl.steps.missing import MOST
from cbdl.store import ModelError, read_manifest
from cbdl.tables.cells import Spelling
from cbdl.tables.columns import check_range
from cbdl.tables.encoding import (
    Column,
    Encoded,
    check_present,
    choices,
    encode_rows,
    filled,
    from_json,
    to_json,
)
from cbdl.tables.errors import TableError, UsageError
from cbdl.tables.files import ROWS, Chunk, Dialect, Floats, chunks, names
from cbdl.tables.side_by_side import in_order
from cbdl.tables.target import Target

MEMORY = 1 << 25
"""Bytes that networks may use at a time: more would leave the processor's caches, and take twice as long."""
PIECE: dict[str, int] = {"classification": 4 * ROWS, "regression": ROWS // 2}
"""Rows that are answered at a time: for every call draws are prepared, and more rows are not faster."""
COMPLETIONS: dict[str, int] = {"classification": MOST, "regression": 8}
"""Completions of a row that are answered at most; on the line time grows with the square of their number, and more."""
Missing = Literal["hull", "impute", "error"]
Unknown = Literal["hull", "error"]
Decision = Literal["maximin", "mean"]


@dataclass(frozen=True)
class Trained:
    """A model that was trained from a table, and what its columns mean."""

    model: CBDL
    """The networks."""
    target: Target
    """What is predicted: its name, and its classes if it has some."""
    columns: tuple[Column, ...]
    """What it is predicted from."""
    conformity: Mapping[Form, Conformity] = field(default_factory=dict)
    """The levels of calibrated regions, for predictives of each form; none if the model was not calibrated."""
    imputed: bool = False
    """Whether missing values were filled in for the training; then they are in answers too, unless otherwise asked."""
    white: float = 1.0
    """Of a model of pictures, which has no columns: the value of a white pixel."""

    @classmethod
    def load(cls, folder: str | Path) -> Trained:
        """The model that `cbdl fit` wrote as `folder`."""
        extra = of_table(folder)
        target = target_of(extra)
        # answers need no more than six digits of their networks, which in single precision are several times as fast
        return cls(
            load(folder, dtype=torch.float32),
            target,
            from_json(extra["columns"]),
            conformity_of(folder, extra),
            extra.get("imputed", any(c["fill"] is not None for c in extra["columns"])),
        )

    def described(self) -> dict[str, Any]:
        """What a saved model keeps beside its networks."""
        return {
            "task": self.target.task,
            "target": self.target.name,
            "classes": list(self.target.classes),
            "decimals": self.target.decimals,
            "spelling": {"decimal": self.target.spelling.decimal, "unit": self.target.spelling.unit},
            "columns": to_json(self.columns),
            "imputed": self.imputed,
            "conformity": {form: levels.to_json() for form, levels in self.conformity.items()},
        }

    def region(self, credal: CredalSet, options: Options) -> Region:
        """The calibrated region, or the plain one of the kind that is asked for."""
        levels = self.conformity.get(options.predictive) if options.method is None else None
        if levels is not None:
            return levels.region(averaged(credal), options.alpha)
        return credal.region(options.alpha, options.method or "union")

    @property
    def classifies(self) -> bool:
        return self.target.task == "classification"


def described(folder: str | Path) -> Mapping[str, Any]:
    """What a saved model keeps beside its networks."""
    if not Path(folder).is_dir():
        what = "is not a folder" if Path(folder).exists() else "does not exist"
        raise UsageError(f"the model {folder} {what}; name a folder that cbdl fit wrote")
    extra: Mapping[str, Any] = read_manifest(folder)["extra"]
    return extra


def of_table(folder: str | Path) -> Mapping[str, Any]:
    """The same of a model that was trained from a table; a TableError of another."""
    extra = described(folder)
    if "columns" not in extra:
        raise TableError(f"{folder} was not trained from a table; use it from Python: cbdl.load")
    return extra


def target_of(extra: Mapping[str, Any]) -> Target:
    """The target that a manifest describes."""
    spelling = Spelling(**extra.get("spelling", {}))
    return Target(extra["target"], extra["task"], tuple(extra["classes"]), spelling, extra.get("decimals"))


def conformity_of(folder: str | Path, extra: Mapping[str, Any]) -> dict[Form, Conformity]:
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
    """How a model is asked: the level and kind of region, draws, when to abstain (nats), what unknown inputs are."""

    alpha: float = 0.05
    method: str | None = None
    """None: calibrated, if the model is; else "union", "lower-density" or "minimal"."""
    samples: int | Literal["auto"] | None = None
    """None: as many as the default model of the task takes."""
    predictive: Form = "mixture"
    phi: float | None = None
    floor: bool = False
    """It costs about as much as all the rest."""
    keep: tuple[str, ...] = ()
    decision: Decision | None = None
    """None: the best class in the worst case; of numbers the mean, as the estimators' `predict`."""
    unknown: Unknown = "hull"
    missing: Missing | None = None
    """None: "impute" if the model was trained so, else "hull"."""
    most: int | None = None
    """Completions of a row that are answered at most; None: `COMPLETIONS`."""

    def completions(self, target: Target) -> int:
        return COMPLETIONS[target.task] if self.most is None else self.most


@dataclass(frozen=True)
class Answers:
    """The answers for some rows, column by column as Arrow arrays, and how many rows had inputs that are not known."""

    columns: dict[str, Any]
    unknown: int
    missing: int
    sampled: int
    """Rows with more completions than were answered."""
    abstained: int
    imputed: int = 0
    """Rows with missing values that were filled in."""

    def rows(self) -> list[dict[str, Any]]:
        """One mapping per row."""
        rows: list[dict[str, Any]] = pa.table(self.columns).to_pylist()
        return rows


def predict(
    trained: Trained, path: str | Path, options: Options, dialect: Dialect | None = None
) -> Iterator[Answers]:
    """The answers for a table, as they are computed; the file may be larger than memory."""
    here = names(path, dialect)
    absent = [name for name in options.keep if name not in here]
    if absent:
        raise UsageError(f"{path} has no column {absent[0]!r}; it has {', '.join(here)}")
    only = {c.name for c in trained.columns} | set(options.keep)

    def answer(numbered: tuple[int, Chunk]) -> Answers:
        return _of_chunk(trained, *numbered, options, here)

    yield from in_order(
        answer, _numbered(chunks(path, PIECE[trained.target.task], dialect=dialect, only=only, bare=True))
    )


def _numbered(parts: Iterable[Chunk]) -> Iterator[tuple[int, Chunk]]:
    """Every chunk with the number of its first row."""
    first = 1
    for chunk in parts:
        yield first, chunk
        first += len(next(iter(chunk.values()), ()))


def _of_chunk(trained: Trained, first: int, chunk: Chunk, options: Options, here: Collection[str]) -> Answers:
    read = with_gaps(trained, chunk, options, first, here)
    rows = prepared(trained, read, options, first)
    kept = {name: chunk[name] for name in options.keep}
    numbers = {"row": pa.array(np.arange(first, first + len(rows.X)))}
    own = answer_rows(trained, rows, options)
    twice = next((name for name in kept if name in numbers or name in own), None)
    if twice is not None:
        raise UsageError(
            f"--keep {twice}: the answers have a column of that name themselves; rename the one in the table"
        )
    abstained = int(np.sum(own["abstain"])) if "abstain" in own else 0
    columns = numbers | kept | {name: _arrow(column) for name, column in own.items()}
    gaps = rows.missing | rows.unknown
    return Answers(
        columns,
        int(rows.unknown.any(1).sum()),
        int(rows.missing.any(1).sum()),
        int((_possible(trained.columns, gaps) > options.completions(trained.target)).sum()),
        abstained,
        int((read.missing & ~rows.missing).any(1).sum()),
    )


def read_rows(
    trained: Trained, chunk: Chunk, options: Options, first: int, here: Collection[str] | None = None
) -> Encoded:
    """The rows of a chunk as numbers, nan where the hull over all possible inputs is asked for."""
    return prepared(trained, with_gaps(trained, chunk, options, first, here), options, first)


def with_gaps(
    trained: Trained, chunk: Chunk, options: Options, first: int, here: Collection[str] | None = None
) -> Encoded:
    """The rows of a chunk as numbers, nan where a value is missing or was never seen."""
    check_present(trained.columns, chunk, here or chunk)
    rows = encode_rows(trained.columns, chunk, first)
    if options.unknown == "error" and rows.unknown.any():
        raise _not_seen(trained.columns, chunk, rows.unknown, first)
    return rows


def prepared(trained: Trained, rows: Encoded, options: Options, first: int = 1) -> Encoded:
    """Rows of numbers as the model can be asked about them: none too large, missing values filled in if that is asked
    for; `first` is the number of the first row."""
    check_range(trained.columns, rows.X, float(torch.finfo(trained.model.dtype).max), first)
    if not (rows.missing.any() or rows.unknown.any()):
        return rows
    how = options.missing or ("impute" if trained.imputed else "hull")
    if how == "error" and rows.missing.any():
        row, at = (int(i) for i in np.argwhere(rows.missing)[0])
        raise TableError(
            f"column {trained.columns[at].name!r}, row {first + row}: the value is missing; fill it in, or ask for "
            "--missing hull or impute"
        )
    if how == "impute":
        rows = filled(trained.columns, rows)
    _check_choosable(trained.columns, rows, first)
    return rows


def _not_seen(
    columns: tuple[Column, ...], chunk: Chunk, unknown: npt.NDArray[np.bool_], first: int
) -> TableError:
    row, at = (int(i) for i in np.argwhere(unknown)[0])
    column = columns[at]
    known = ", ".join(column.levels[:5]) + (", ..." if len(column.levels) > 5 else "")
    return TableError(
        f"column {column.name!r}, row {first + row}: {chunk[column.name][row].as_py()!r} was not seen in training, "
        f"which had {known}; correct it, or ask for --unknown hull"
    )


def _check_choosable(columns: tuple[Column, ...], rows: Encoded, first: int) -> None:
    """A TableError where a value is missing and the model, an old one, does not say what it could be."""
    closed = np.array([not len(c.could_be) for c in columns])
    lost = np.argwhere(rows.missing & closed)
    if len(lost):
        row, at = (int(i) for i in lost[0])
        raise TableError(
            f"column {columns[at].name!r}, row {first + row}: the value is missing, and the model does not say what it "
            "could be; train it again, or fill the value in"
        )


# --- the answers of a chunk -----------------------------------------------------------------------------------


def _possible(columns: tuple[Column, ...], gaps: npt.NDArray[np.bool_]) -> Floats:
    """(rows,): how many completions each row has."""
    sizes = np.array([max(len(c.could_be), 1) for c in columns], dtype=np.float64)
    possible: Floats = np.where(gaps, sizes, 1.0).prod(axis=1)
    return possible


def credal_sets(
    trained: Trained, rows: Encoded, options: Options
) -> Iterator[tuple[npt.NDArray[np.intp], CredalSet]]:
    """The credal sets of all rows, those with about as many completions together: (which rows, their sets).

    Complete rows come first, as many at a time as are answered at a time anyway; of the others fewer, by the number
    of their completions, so that memory stays bounded.
    """
    gaps = rows.missing | rows.unknown
    most = options.completions(trained.target)
    draws = recipe.DRAWS if options.samples is None else options.samples
    counts = np.minimum(_possible(trained.columns, gaps), most)
    group = np.ceil(np.log2(counts)).astype(np.int64)
    for power in np.unique(group).tolist():
        own = np.flatnonzero(group == power)
        step = PIECE[trained.target.task] if power == 0 else max(1, ROWS >> power)
        for some in (own[a : a + step] for a in range(0, len(own), step)):
            if power == 0 and not gaps[some].any():
                yield (
                    some,
                    trained.model.predict(
                        rows.X[some],
                        draws,
                        predictive=options.predictive,
                        max_memory=MEMORY,
                        floor=options.floor,
                    ),
                )
            else:
                yield (
                    some,
                    trained.model.predict_missing(
                        rows.X[some],
                        draws,
                        choices=choices(trained.columns),
                        most=most,
                        predictive=options.predictive,
                        max_memory=MEMORY,
                        floor=options.floor,
                    ),
                )


def answer_rows(trained: Trained, rows: Encoded, options: Options) -> dict[str, Any]:
    """The answers column by column, in the order of the rows: numpy arrays, and Arrow arrays of words and lists."""
    if not len(rows):  # their form is that of any others
        return {
            name: own[:0] for name, own in answer_rows(trained, _any_row(trained.columns), options).items()
        }
    order, parts = [], []
    for some, credal in credal_sets(trained, rows, options):
        order.append(some)
        parts.append(_of_sets(trained, credal, options))
    if len(parts) == 1:
        return parts[0]
    back = np.argsort(np.concatenate(order), kind="stable")
    return {name: _joined([part[name] for part in parts], back) for name in parts[0]}


def _any_row(columns: tuple[Column, ...]) -> Encoded:
    """A row that the model can be asked about."""
    X = np.concatenate([c.could_be[0] if len(c.could_be) else np.zeros(c.width) for c in columns])
    known = np.zeros((1, len(columns)), dtype=bool)
    return Encoded(X[None], known, known)


def _joined(own: list[Any], back: npt.NDArray[np.intp]) -> Any:
    if isinstance(own[0], np.ndarray):
        return np.concatenate(own)[back]
    return pa.concat_arrays(own).take(pa.array(back))


def _of_sets(trained: Trained, credal: CredalSet, options: Options) -> dict[str, Any]:
    """The decision, the region, probabilities, and the uncertainties in nats."""
    split, region = credal.uncertainty(), trained.region(credal, options)
    chosen = decisions(credal, options.decision)
    answer: dict[str, Any] = {}
    if trained.classifies:
        answer["decision"] = pa.array(trained.target.classes).take(pa.array(chosen))
        answer["set"] = _class_lists(region.mask, trained.target.classes)
    else:
        answer["decision"] = chosen
        answer["lower"], answer["upper"] = region.hull()
        answer["set"] = _interval_lists(np.asarray(region.intervals))
    answer["size"] = np.asarray(region.measure)
    if trained.classifies:
        answer |= _probabilities(np.asarray(credal.probs), trained.target.classes)
    for name in ("aleatoric", "epistemic", "epistemic_lower", "epistemic_upper", "total"):
        answer[name] = np.asarray(getattr(split, name))
    if options.floor:
        answer["floor"] = np.asarray(credal.floor)
    if options.phi is not None:
        answer["abstain"] = np.asarray(split.aleatoric) > options.phi
    return answer


def decisions(credal: CredalSet, rule: Decision | None) -> npt.NDArray[Any]:
    """(rows,): the best outcome in the worst case, or the likeliest class or the mean of the centre of the set.

    Of classes that are as good in the worst case, the likeliest of the centre: rows that are alike are answered alike.
    """
    means = np.asarray(credal.mean()).mean(1)
    classes = means.ndim > 1
    if rule == "maximin" or (rule is None and classes):
        best = np.asarray(credal.decide("maximin", single=not classes))
        return np.where(best, means, -1.0).argmax(-1) if classes else best
    return np.asarray(means.argmax(-1) if classes else means)


def _probabilities(probs: Floats, classes: tuple[str, ...]) -> dict[str, Any]:
    """For every class the probability of the centre, the lowest and the highest."""
    bounds = {"probability": probs.mean(-2), "lower": probs.min(-2), "upper": probs.max(-2)}
    return {f"{name}:{c}": own[:, j] for j, c in enumerate(classes) for name, own in bounds.items()}


def _class_lists(mask: npt.NDArray[np.bool_], classes: tuple[str, ...]) -> Any:
    ends = np.concatenate([[0], np.cumsum(mask.sum(1))]).astype(np.int32)
    words = pa.array(classes).take(pa.array(np.nonzero(mask)[1]))
    return pa.ListArray.from_arrays(pa.array(ends), words)


def _interval_lists(intervals: Floats) -> Any:
    known = ~np.isnan(intervals[..., 0])
    ends = np.concatenate([[0], np.cumsum(known.sum(1))]).astype(np.int32)
    pairs = pa.FixedSizeListArray.from_arrays(pa.array(intervals[known].ravel()), 2)
    return pa.ListArray.from_arrays(pa.array(ends), pairs)


def _arrow(own: Any) -> Any:
    """An Arrow array; null where a number is not known."""
    if isinstance(own, np.ndarray):
        return pa.array(own, mask=np.isnan(own) if own.dtype.kind == "f" else None)
    return own
