"""The column to predict: classes or numbers, and what can be neither."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cbdl.tables import cells
from cbdl.tables.cells import PLAIN, Decimal, Spelling
from cbdl.tables.columns import LEVELS, numbers_with_unit, spelling_of, too_narrow, too_wide
from cbdl.tables.errors import TableError, named
from cbdl.tables.files import Floats
from cbdl.tables.gaps import read_as_missing

Task = Literal["classification", "regression"]
Labels = npt.NDArray[Any]

FEW = 20
"""A target of whole numbers with at most this many different values is taken for classes."""


@dataclass(frozen=True)
class Target:
    """What is predicted. Classes of one number, such as "1" and "1.0", are one."""

    name: str
    task: Task
    classes: tuple[str, ...] = ()
    spelling: Spelling = PLAIN
    decimals: int | None = None
    """Of numbers: the decimals that training outcomes have; None: too many to mean anything."""

    def encode(self, cell: Any, first_row: int = 1) -> Labels:
        """(rows,): labels 0, ..., J - 1, or numbers; a TableError at an outcome that the model cannot predict."""
        if self.task == "regression":
            values, bad = cells.numbers(cell, self.spelling)
            gone = np.isnan(values) & ~bad
        else:
            values = self._labels(cell)
            gone = cells.missing(cell)
            bad = (values < 0) & ~gone
        if gone.any():
            at = int(gone.argmax())
            raise TableError(
                f"the target {self.name!r} is missing in row {first_row + at}; remove such rows"
                f"{read_as_missing(cell)}"
            )
        if bad.any():
            at = int(bad.argmax())
            known = named(list(self.classes)) if self.classes else "finite numbers"
            raise TableError(
                f"the target {self.name!r} in row {first_row + at} is {cell[at].as_py()!r}, which the model cannot "
                f"predict; it knows {known}"
            )
        if self.task == "regression" and too_wide(float(values.min()), float(values.max())):
            at = int(np.abs(values).argmax())
            raise TableError(
                f"the target {self.name!r} in row {first_row + at} is {values[at]:g}, too large a number to compute "
                "with; correct it"
            )
        return values

    def note(self) -> str:
        """What a person should know about the classes: some may be one that is written in several ways."""
        ways: dict[str, list[str]] = {}
        for name in self.classes:
            ways.setdefault(" ".join(name.casefold().split()), []).append(name)
        twice = [name for names in ways.values() if len(names) > 1 for name in names]
        return (
            f"the target {self.name!r} has classes that differ in capital letters or spaces only: {named(twice)}; "
            "write them alike if they are one"
            if twice
            else ""
        )

    def other_task(self, y: Labels) -> Task | None:
        """What the outcomes `y`, as they are encoded, could be taken for too: numbers that are few or name classes."""
        if self.task == "classification":
            numbers = [number_of(c, self.spelling) for c in self.classes]
            return None if None in numbers else "regression"
        different = np.unique(y)
        most = LEVELS if self.decimals == 0 else FEW
        return "classification" if len(different) <= most else None

    def _labels(self, cell: Any) -> Labels:
        by_name: dict[Any, int] = {c: i for i, c in enumerate(self.classes)}
        by_name = {way: by_name[c] for way, c in cells.same_truth(self.classes).items()} | by_name
        by_number = {number_of(c, self.spelling): i for i, c in enumerate(self.classes)}
        by_number.pop(None, None)
        place, words = cells.texts(cell)
        labels = [by_name.get(w, by_number.get(number_of(w, self.spelling), -1)) for w in words]
        return np.array([*labels, -1], dtype=np.int64)[place]


def number_of(word: str, spelling: Spelling) -> float | None:
    """The number that a class spells, or None."""
    plain = cells.as_number(word)
    return plain if plain is not None else spelling.number(word)


def learn_target(
    name: str,
    cell: Any,
    task: Literal["auto", "classification", "regression"],
    decimal: Decimal | None = None,
) -> Target:
    """What the target is, from all its cells; a TableError where that would be nonsense."""
    if pa.types.is_nested(cell.type):
        raise TableError(
            f"the target {name!r} holds lists or records; make a column of the part that is to be predicted, or choose "
            "another --target"
        )
    _check_missing(name, cell)
    values, spelling, words = _numbers(name, cell, decimal)
    if values is not None:
        if len(np.unique(values)) < 2:
            raise TableError(
                f"the target {name!r} is {cell[0].as_py()!r} in every row; there is nothing to tell apart"
            )
        return _numeric(name, task, values, spelling, words)
    if task == "regression":
        at = next(i for i, v in enumerate(cell.to_pylist()) if cells.as_number(str(v)) is None)
        raise TableError(f"the target {name!r} in row {at + 1} is {cell[at].as_py()!r}, not a finite number")
    return _words(name, task, words, len(cell))


def _check_missing(name: str, cell: Any) -> None:
    gone = np.flatnonzero(cells.missing(cell))
    if len(gone):
        rows = ", ".join(str(i + 1) for i in gone[:3].tolist()) + (", ..." if len(gone) > 3 else "")
        raise TableError(
            f"the target {name!r} is missing in row {rows} ({len(gone)} in all); remove such rows"
            f"{read_as_missing(cell)}"
        )


def _numbers(name: str, cell: Any, decimal: Decimal | None) -> tuple[Floats | None, Spelling, list[str]]:
    """The target as numbers, or None; how they are written; its words."""
    if cells.is_date(cell):
        raise TableError(f"the target {name!r} holds dates; give a number, such as the days until then")
    quick = cells.plain_numbers(cell, decimal)
    place, words = cells.texts(cell)
    if quick is not None:
        return quick, Spelling(), words
    if pa.types.is_boolean(cell.type):
        return None, Spelling(), words
    rows = np.arange(len(cell))
    spelling = spelling_of(f"the target {name!r}", words, place, rows, decimal, "or choose another --target")
    if spelling is not None:
        return cells.numbers(cell, spelling)[0], spelling, words
    if cells.formats(words):
        raise TableError(
            f"the target {name!r} holds dates ({words[0]!r}); give a number, such as the days until then"
        )
    return None, Spelling(), words


def _numeric(name: str, task: str, values: Floats, spelling: Spelling, words: list[str]) -> Target:
    different = np.unique(values)
    whole = bool(np.all(different == np.round(different)))
    if task == "auto":
        task = "classification" if whole and len(different) <= FEW else "regression"
    if task == "regression":
        if too_wide(float(values.min()), float(values.max())):
            raise TableError(
                f"the target {name!r} holds {np.abs(values).max():g}, too large a number to compute with; correct it"
            )
        if too_narrow(float(values.min()), float(values.max())):
            raise TableError(
                f"the target {name!r} varies by {np.ptp(values):.2g}, too little to compute with; give it in a smaller "
                "unit"
            )
        return Target(name, "regression", (), spelling, _decimals(values))
    if len(different) > FEW and not whole:
        raise TableError(
            f"the target {name!r} holds decimals with {len(different)} different values; that is no list of classes: "
            "say --task regression"
        )
    spelled: dict[float, list[str]] = {}
    for word in words:
        number = number_of(word, spelling)
        assert number is not None
        spelled.setdefault(number, []).append(word)
    # a number that is written in one way keeps it; "1" and "1.0" are "1", and "0.0" and "-0.0" are "0"
    classes = tuple(
        ways[0] if len(ways) == 1 else f"{value + 0.0:.15g}" for value, ways in sorted(spelled.items())
    )
    return Target(name, "classification", classes, spelling)


def _decimals(values: Floats) -> int | None:
    """The decimals that all the values have, if they are ten at most."""
    own = np.unique(values)
    slack = 4 * np.finfo(np.float64).eps * np.abs(own)
    return next((d for d in range(11) if bool(np.all(np.abs(np.round(own, d) - own) <= slack))), None)


def _words(name: str, task: str, words: list[str], rows: int) -> Target:
    if len(words) < 2:
        raise TableError(f"the target {name!r} is {words[0]!r} in every row; there is nothing to tell apart")
    measured = numbers_with_unit(words) if task == "auto" else ""
    if measured and (len(words) > FEW or any(set(word) & set(".,") for word in words)):
        raise TableError(
            f"the target {name!r} holds {measured}: write the numbers alone; if these are classes, say --task "
            "classification"
        )
    if task == "auto" and (len(words) > LEVELS or (len(words) > FEW and 4 * len(words) > rows)):
        raise TableError(
            f"the target {name!r} holds text with {len(words)} different values in {rows} rows; are these classes? "
            "then say --task classification"
        )
    return Target(name, "classification", tuple(sorted(words)))


def held_out(
    rows: int, labels: Labels | None, share: float, seed: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Rows to train on and rows to keep, by the seed; of every class the same share is kept, and one row never is."""
    order = np.random.default_rng(seed).permutation(rows)
    if labels is None:
        count = int(rows * share)
        return np.sort(order[count:]), np.sort(order[:count])
    by_class = order[np.argsort(labels[order], kind="stable")]
    own = labels[by_class]
    # every 1 / share-th row, class after class, so that rare classes have their turn too
    at = np.arange(1, rows + 1)
    turn = np.floor(at * share + 1e-9) > np.floor((at - 1) * share + 1e-9)
    # the first row of a class is always trained on; its turn goes to the second
    first = np.concatenate([[True], own[1:] != own[:-1]])
    moved = np.concatenate([[False], (turn & first)[:-1]]) & ~first
    kept = by_class[(turn & ~first) | moved]
    return np.setdiff1d(np.arange(rows), kept), np.sort(kept)
