"""Tables from files: CSV or Parquet, in chunks, with numbers and categories as columns of numbers.

Numbers stay; a category becomes one column a level (0 or 1). What a column means is learned once, from the training
file, and kept with the model, so that a new file is read the same way or refused with the column and the row.
"""

from __future__ import annotations

import csv
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

import numpy as np
import numpy.typing as npt

Chunk = dict[str, list[str]]
"""Some rows of a table: the text of each column."""
Floats = npt.NDArray[np.float64]

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""What stands for a missing value, in small or capital letters."""
ROWS = 2048
"""Rows that are read at a time."""
LEVELS = 100
"""A text column with more distinct values than this is not a category."""
PARQUET = (".parquet", ".pq")


class TableError(ValueError):
    """A table that cannot be used as it is; the message names the column and the rows."""


class UsageError(TableError):
    """What was asked for is not there, or cannot be: a file, a column, a value on the command line."""


# --- reading ------------------------------------------------------------------------------------------------


def chunks(path: str | Path, rows: int = ROWS) -> Iterator[Chunk]:
    """The table in `path`, at most `rows` rows at a time; never the whole file in memory."""
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"{path} {'is not a file' if path.exists() else 'does not exist'}")
    empty = True
    for chunk in _parquet(path, rows) if path.suffix.lower() in PARQUET else _csv(path, rows):
        empty = False
        yield chunk
    if empty:
        raise TableError(f"{path} has no rows below its header")


def read(path: str | Path) -> Chunk:
    """The whole table."""
    whole: Chunk = {}
    for part in chunks(path):
        for name, values in part.items():
            whole.setdefault(name, []).extend(values)
    return whole


def _csv(path: Path, rows: int) -> Iterator[Chunk]:
    with open(path, newline="", encoding="utf-8-sig") as file:
        try:
            reader = csv.reader(file, delimiter=_delimiter(file.readline()))
            file.seek(0)
            header = _names(path, [name.strip() for name in next(reader, [])])
            part: list[list[str]] = []
            for row in reader:
                if not row:
                    continue
                if len(row) != len(header):
                    raise TableError(
                        f"{path}, line {reader.line_num}: {_many(len(row), 'value')} for {_many(len(header), 'column')}"
                    )
                part.append(row)
                if len(part) == rows:
                    yield _columns(header, part)
                    part = []
        except (csv.Error, UnicodeDecodeError) as error:
            raise TableError(f"{path} is not a CSV file in UTF-8: {error}") from None
        if part:
            yield _columns(header, part)


def _delimiter(header: str) -> str:
    """Comma, semicolon or tab: the one that the header has most of."""
    return max(",;\t", key=header.count)


def _names(path: Path, header: list[str]) -> list[str]:
    if not header:
        raise TableError(f"{path} is empty; its first line must name the columns")
    for i, name in enumerate(header, start=1):
        if not name:
            raise TableError(f"{path}: column {i} has no name; give it one in the first line")
        if header.index(name) + 1 != i:
            raise TableError(f"{path}: two columns are named {name!r}; give columns different names")
    return header


def _columns(header: Sequence[str], rows: list[list[str]]) -> Chunk:
    return {name: [row[i].strip() for row in rows] for i, name in enumerate(header)}


def _parquet(path: Path, rows: int) -> Iterator[Chunk]:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise TableError(f'{path}: reading Parquet needs pyarrow; pip install "cbdl[tables]"') from None
    try:
        for batch in parquet.ParquetFile(path).iter_batches(batch_size=rows):
            if batch.num_rows:
                columns = batch.to_pydict().items()
                yield {
                    name: ["" if v is None else str(v).strip() for v in values] for name, values in columns
                }
    except (OSError, ValueError) as error:
        raise TableError(f"{path} is not a Parquet file: {error}") from None


# --- writing ------------------------------------------------------------------------------------------------


@contextmanager
def whole_file(path: str | Path) -> Iterator[TextIO]:
    """A file to write that appears as `path` when it is whole, and not at all if something goes wrong."""
    target = Path(path)
    fresh = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        with open(fresh, "w", newline="", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, target)
    finally:
        fresh.unlink(missing_ok=True)


def write_rows(rows: Iterable[Mapping[str, Any]], file: TextIO, kind: Literal["csv", "jsonl"]) -> int:
    """Write rows as they come, as CSV or as one JSON object a line; returns how many.

    In CSV a list is joined by "|", and an interval in it by ":".
    """
    count = 0
    writer = csv.writer(file, lineterminator="\n")
    for count, row in enumerate(rows, start=1):
        if kind == "jsonl":
            file.write(json.dumps(row, allow_nan=False) + "\n")
            continue
        if count == 1:
            writer.writerow(row)
        writer.writerow([_cell(value) for value in row.values()])
    return count


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return "|".join(":".join(map(repr, v)) if isinstance(v, list) else str(v) for v in value)
    return str(value).lower() if isinstance(value, bool) else value


# --- meaning ------------------------------------------------------------------------------------------------


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
            f"column {name!r} has {_many(len(missing), 'missing value')} (row {rows}); remove the rows, or add "
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


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def to_json(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """The columns as a model's manifest keeps them."""
    return [asdict(c) for c in columns]


def from_json(described: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """The inverse of `to_json`."""
    try:
        return tuple(Column(d["name"], d["kind"], tuple(d["levels"]), d["fill"]) for d in described)
    except (KeyError, TypeError) as error:
        raise TableError(f"the model does not say what its columns mean: {error}") from None
