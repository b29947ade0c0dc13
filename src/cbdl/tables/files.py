"""Tables as files: CSV or Parquet in, in chunks; CSV or JSON lines out, whole or not at all."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TextIO

import numpy as np
import numpy.typing as npt

Chunk = dict[str, list[str]]
"""Some rows of a table: the text of each column."""
Floats = npt.NDArray[np.float64]

ROWS = 2048
"""Rows that are read at a time."""
PARQUET = (".parquet", ".pq")


class TableError(ValueError):
    """A table that cannot be used as it is; the message names the column and the rows."""


class UsageError(TableError):
    """What was asked for is not there, or cannot be: a file, a column, a value on the command line."""


def many(count: int, what: str) -> str:
    """A count with its noun: "1 row", "2 rows"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


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
                        f"{path}, line {reader.line_num}: {many(len(row), 'value')} for {many(len(header), 'column')}"
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
