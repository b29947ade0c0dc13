"""What the columns of a table mean: numbers stay, a category becomes one column of 0 and 1 per level.

Learned once, from the training file, and kept with the model, so that a new file is read the same way or refused with
the column and the row.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from cbdl.tables.files import Chunk, Floats, TableError, UsageError, many

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""What stands for a missing value, in small or capital letters."""
LEVELS = 100
"""A text column with more distinct values than this is not a category."""


@dataclass(frozen=True)
class Column:
    """A column of the training table: numbers, or a category with its levels; `fill` stands for a missing value."""

    name: str
    kind: Literal["number", "category"]
    levels: tuple[str, ...] = ()
    fill: str | None = None

    @property
    def width(self) -> int:
        """Columns of numbers that it becomes."""
        return 1 if self.kind == "number" else len(self.levels)


def is_missing(value: str) -> bool:
    return value.lower() in MISSING


def as_number(value: str) -> float | None:
    """The finite number that `value` spells, or None."""
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def is_numeric(values: Sequence[str]) -> bool:
    """Whether all values that are there spell numbers."""
    return all(as_number(v) is not None for v in values if not is_missing(v))


def learn_columns(table: Chunk, names: Sequence[str], impute: bool) -> tuple[Column, ...]:
    """What each of the columns `names` means; a missing value is an error unless `impute`."""
    return tuple(_learn(name, table[name], impute) for name in names)


def _learn(name: str, values: Sequence[str], impute: bool) -> Column:
    missing = [i for i, v in enumerate(values) if is_missing(v)]
    present = [v for v in values if not is_missing(v)]
    if not present:
        raise TableError(f"column {name!r} has no value at all; leave it out with --drop {name}")
    if missing and not impute:
        rows = ", ".join(str(i + 1) for i in missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise TableError(
            f"column {name!r} has {many(len(missing), 'missing value')} (row {rows}); remove the rows, or add "
            "--impute to fill in the median or the most frequent value"
        )
    if is_numeric(present):
        middle = sorted(present, key=float)[(len(present) - 1) // 2]
        return Column(name, "number", (), middle if impute else None)
    _check_category(name, values, present)
    often = Counter(sorted(present)).most_common(1)[0][0]
    return Column(name, "category", tuple(sorted(set(present))), often if impute else None)


def _check_category(name: str, values: Sequence[str], present: Sequence[str]) -> None:
    """A TableError if text is rather a number with a slip of the pen, or a name of each row."""
    spelled = sum(as_number(v) is not None for v in present)
    if 2 * spelled > len(present):
        at = next(i for i, v in enumerate(values) if not is_missing(v) and as_number(v) is None)
        raise TableError(
            f"column {name!r}, row {at + 1}: {values[at]!r} is not a finite number, as most of the column is; correct "
            f"it, or leave the column out with --drop {name}"
        )
    levels = len(set(present))
    if levels > LEVELS:
        raise TableError(
            f"column {name!r} holds text with {levels} different values; that is a name rather than a category: leave "
            f"it out with --drop {name}"
        )


def encode(columns: Sequence[Column], table: Chunk, first_row: int = 1) -> Floats:
    """(rows, features): the columns of `table` as numbers; `first_row` is the number of its first row."""
    absent = [c.name for c in columns if c.name not in table]
    if absent:
        raise UsageError(
            f"the table has no column {absent[0]!r}, which the model was trained with; it has {', '.join(table)}"
        )
    return np.concatenate([_encode(c, table[c.name], first_row) for c in columns], axis=1)


def _encode(column: Column, values: Sequence[str], first_row: int) -> Floats:
    quick = _plain_numbers(values) if column.kind == "number" else None
    if quick is not None:
        return quick[:, None]
    out = np.zeros((len(values), column.width))
    place = {level: i for i, level in enumerate(column.levels)}
    for i, given in enumerate(values):
        value = column.fill if is_missing(given) and column.fill is not None else given
        where = f"column {column.name!r}, row {first_row + i}"
        if is_missing(value):
            raise TableError(f"{where}: the value is missing; fill it in, or train with --impute")
        if column.kind == "number":
            number = as_number(value)
            if number is None:
                raise TableError(f"{where}: {value!r} is not a finite number")
            out[i, 0] = number
        elif value in place:
            out[i, place[value]] = 1.0
        else:
            known = ", ".join(column.levels[:5]) + (", ..." if len(column.levels) > 5 else "")
            raise TableError(f"{where}: {value!r} was not seen in training, which had {known}")
    return out


def _plain_numbers(values: Sequence[str]) -> Floats | None:
    """All values at once if each is a finite number, else None."""
    try:
        numbers = np.array(values, dtype=np.float64)
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def to_json(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """The columns as a model's manifest keeps them."""
    return [asdict(c) for c in columns]


def from_json(described: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """The inverse of `to_json`."""
    try:
        return tuple(Column(d["name"], d["kind"], tuple(d["levels"]), d["fill"]) for d in described)
    except (KeyError, TypeError) as error:
        raise TableError(f"the model does not say what its columns mean: {error}") from None
