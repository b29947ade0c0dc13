"""What the columns of a table mean: numbers stay, a category becomes one column of 0 and 1 per level, a date its parts.

Learned once, from the training rows, and kept with the model, so that a new file is read the same way or refused with
the column and the row. What a column could have held where it is missing is learned too: its levels, or its quantiles.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cbdl.steps.missing import Choice
from cbdl.tables import cells
from cbdl.tables.cells import PLAIN, Spelling
from cbdl.tables.errors import TableError, UsageError, named
from cbdl.tables.files import Chunk, Floats

Kind = Literal["number", "category", "date"]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Column:
    """A column of the training table.

    fill:     stands for a missing value where it is to be filled in
    values:   what a missing number or date could be, each as the features that the column becomes
    spelling: how numbers are written
    format:   how dates are written; parts: what of them is used
    zoned:    whether dates name their zone, and their parts are those of UTC; None in models of before
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    fill: str | None = None
    values: tuple[tuple[float, ...], ...] = ()
    spelling: Spelling = PLAIN
    format: str = ""
    parts: tuple[str, ...] = ()
    zoned: bool | None = None

    @property
    def width(self) -> int:
        """Features that it becomes."""
        return {"number": 1, "category": len(self.levels), "date": len(self.parts)}[self.kind]

    @property
    def could_be(self) -> Floats:
        """(n, features): what it could be where it is missing; none in models of before."""
        if self.kind == "category":
            return np.eye(len(self.levels))
        return np.array(self.values, dtype=np.float64).reshape(-1, self.width)

    @property
    def filled(self) -> Floats | None:
        """(features,): what stands for a missing value; None in models of before that did not fill in."""
        if self.fill is None:
            return None
        if self.kind == "number":
            return np.array([float(self.fill)])
        values = self.could_be
        own: Floats = values[self.levels.index(self.fill) if self.kind == "category" else len(values) // 2]
        return own


@dataclass(frozen=True)
class Encoded:
    """Rows as numbers X (rows, features), nan where the input is not known; and why, (rows, columns) each."""

    X: Floats
    missing: Mask
    unknown: Mask
    """A word that was not among the training rows."""

    def __len__(self) -> int:
        return len(self.X)

    def at(self, rows: npt.NDArray[np.intp]) -> Encoded:
        return Encoded(self.X[rows], self.missing[rows], self.unknown[rows])


def encode_rows(columns: Sequence[Column], table: Chunk, first_row: int = 1) -> Encoded:
    """The columns of `table` as numbers; `first_row` is the number of its first row. A TableError where a cell is
    nonsense; what is missing or was never seen is nan."""
    check_present(columns, table, table)
    parts = [_encode(c, table[c.name], first_row) for c in columns]
    X, missing, unknown = zip(*parts, strict=True)
    return Encoded(np.concatenate(X, axis=1), np.stack(missing, axis=1), np.stack(unknown, axis=1))


def check_present(columns: Sequence[Column], table: Collection[str], here: Collection[str]) -> None:
    """A UsageError that names all columns which are not in the table; `here`: what it has, to be shown."""
    absent = [c.name for c in columns if c.name not in table]
    if absent:
        one = "column" if len(absent) == 1 else "columns"
        raise UsageError(
            f"the table has no {one} {named(absent)}, which the model was trained with; it has "
            f"{', '.join(here)}{other_sign(here)}"
        )


def other_sign(names: Collection[str]) -> str:
    """A hint for a table of one column, which may be several."""
    return "; if values are set apart by another sign, say --delimiter" if len(names) == 1 else ""


def encode(columns: Sequence[Column], table: Chunk) -> Floats:
    """(rows, features): the columns of `table` as numbers, missing values filled in; nan for a word never seen."""
    return filled(columns, encode_rows(columns, table)).X


def filled(columns: Sequence[Column], rows: Encoded, *, strange: bool = False) -> Encoded:
    """Missing values filled in as in training; unknown words stay unknown, unless `strange` ones are filled in too."""
    X = rows.X.copy()
    gaps = rows.missing | rows.unknown if strange else rows.missing
    for j, (column, at) in enumerate(zip(columns, features(columns), strict=True)):
        gone = gaps[:, j]
        if gone.any():
            if column.filled is None:
                raise TableError(
                    f"column {column.name!r} has missing values, and the model does not say what to fill in; ask for "
                    "--missing hull, or train it again"
                )
            X[gone, at] = column.filled
    return Encoded(X, rows.missing & ~gaps, rows.unknown & ~gaps)


def _encode(column: Column, cell: Any, first_row: int) -> tuple[Floats, Mask, Mask]:
    if column.kind == "category":
        return _levels(column, cell)
    if column.kind == "number":
        values, bad = cells.numbers(cell, column.spelling)
        out = values[:, None]
    else:
        moments, bad = cells.dates(cell, column.format)
        out = cells.parts(moments, column.parts)
    if bad.any():
        raise _not_readable(column, cell, int(bad.argmax()), first_row)
    if column.zoned is not None:
        _check_zones(column, cell, ~np.isnan(out[:, 0]), first_row)
    return out, np.isnan(out[:, 0]), np.zeros(len(out), dtype=bool)


def _levels(column: Column, cell: Any) -> tuple[Floats, Mask, Mask]:
    place, words = cells.texts(cell)
    level = {name: i for i, name in enumerate(column.levels)}
    level = {way: level[name] for way, name in cells.same_truth(column.levels).items()} | level
    # one row of the table per word, and a last one for what is missing
    rows = np.full((len(words) + 1, len(column.levels)), np.nan)
    for i, word in enumerate(words):
        if word in level:
            rows[i] = 0.0
            rows[i, level[word]] = 1.0
    strange = np.array([word not in level for word in words] + [False])
    return rows[place], place < 0, strange[place]


def _not_readable(column: Column, cell: Any, at: int, first_row: int) -> TableError:
    value = cell[at].as_py()
    what = "a finite number" if column.kind == "number" else f"a date like {column.format or cells.ISO[0]}"
    comma = column.kind == "number" and Spelling(",").number(str(value)) is not None
    if column.spelling != Spelling() or comma:
        sign = {",": "a decimal comma", ".": "a decimal point"}[column.spelling.decimal]
        unit = f" and {column.spelling.unit}" if column.spelling.unit else ""
        what += f" with {sign}{unit}, as the model was trained with"
    return TableError(
        f"column {column.name!r}, row {first_row + at}: {value!r} is not {what}; correct it, or leave it empty "
        "if it is not known"
    )


def _check_zones(column: Column, cell: Any, known: Mask, first_row: int) -> None:
    """A TableError at a date that names its zone where those of the training did not, or the reverse: its parts would
    be those of other hours."""
    other = (cells.zones(cell, column.format)[0] != column.zoned) & known
    if other.any():
        at = int(other.argmax())
        ours, theirs, remedy = (
            ("names no zone", "did", "give times with their zones")
            if column.zoned
            else ("names its zone", "did not", "give times of the same place without a zone")
        )
        raise TableError(
            f"column {column.name!r}, row {first_row + at}: the time {ours}, and those that the model was trained with "
            f"{theirs}; {remedy}"
        )


def features(columns: Sequence[Column]) -> list[slice]:
    """Where the features of every column are."""
    ends = np.cumsum([0, *(c.width for c in columns)]).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]


def choices(columns: Sequence[Column]) -> tuple[Choice, ...]:
    """What the features of every column could be where it is missing; columns of which that is not known have none."""
    places = features(columns)
    known = [(c.could_be, at) for c, at in zip(columns, places, strict=True) if len(c.could_be)]
    return tuple(Choice(tuple(range(at.start, at.stop)), values) for values, at in known)


def to_json(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """The columns as a model's manifest keeps them."""
    return [asdict(c) for c in columns]


def from_json(described: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """The inverse of `to_json`; also of columns as they were kept before they had values and spellings."""
    try:
        return tuple(
            Column(
                d["name"],
                d["kind"],
                tuple(d["levels"]),
                d["fill"],
                tuple(tuple(map(float, v)) for v in d.get("values", ())),
                Spelling(**d.get("spelling", {})),
                d.get("format", ""),
                tuple(d.get("parts", ())),
                d.get("zoned"),
            )
            for d in described
        )
    except (KeyError, TypeError, ValueError) as error:
        raise TableError(f"the model does not say what its columns mean: {error}") from None
