"""From the rows of a request to numbers: the same reading as of tables, with a quick way for rows of plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from cbdl.serve.problems import Problem
from cbdl.serve.schema import Cell
from cbdl.tables.answers import Options, Trained, prepared, read_rows
from cbdl.tables.encoding import Column, Encoded
from cbdl.tables.errors import TableError, named

Row = dict[str, Cell]
PLAIN = (float, int, type(None))
"""The types of plain numbers and of what is not known; bool is another type."""


def encoded(trained: Trained, rows: Sequence[Row], options: Options) -> Encoded:
    """The rows as numbers, nan where an input is not known; a `Problem` where one is nonsense.

    Rows are counted from 0, as in JSON."""
    _check_columns(trained.columns, rows)
    try:
        quick = _plain(trained, rows)
        if quick is not None:
            return prepared(trained, quick, options, 0)
        chunk = {c.name: _cells(c, [row[c.name] for row in rows]) for c in trained.columns}
        return read_rows(trained, chunk, options, 0)
    except TableError as error:
        raise Problem(422, str(error)) from None


def unknown(trained: Trained, rows: Encoded) -> list[list[str]]:
    """For every row the columns whose value is not known."""
    gaps = rows.missing | rows.unknown
    names = [c.name for c in trained.columns]
    return [[names[j] for j in np.flatnonzero(own)] for own in gaps] if gaps.any() else [[] for _ in gaps]


def _check_columns(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    wanted = {c.name for c in columns}
    for i, row in enumerate(rows):
        if not wanted <= row.keys():
            absent = [c.name for c in columns if c.name not in row]
            raise Problem(
                422,
                f"rows[{i}] has no {named(absent, 4)}; give every column a value, null if it is not known",
            )


def _plain(trained: Trained, rows: Sequence[Row]) -> Encoded | None:
    """The rows, if all columns are numbers and all cells plain ones; else None."""
    if any(c.kind != "number" for c in trained.columns):
        return None
    cells = [row[c.name] for row in rows for c in trained.columns]
    if not all(type(cell) in PLAIN for cell in cells):
        return None
    try:
        X = np.array(cells, dtype=np.float64).reshape(len(rows), -1)
    except OverflowError:  # a whole number beyond all floats
        return None
    missing = np.isnan(X)
    return Encoded(X, missing, np.zeros_like(missing))


def _cells(column: Column, cells: Sequence[Cell]) -> Any:
    """Cells as a table would hold them: numbers if they are, dates, else text."""
    if column.kind == "date" and not column.format:
        return pa.array([_moment(column, i, cell) for i, cell in enumerate(cells)], pa.timestamp("s"))
    numbers = [cell for cell in cells if cell is not None]
    if column.kind == "number" and all(type(cell) is float for cell in numbers):
        return pa.array(cells, pa.float64())
    return pa.array([None if cell is None else _text(cell) for cell in cells], pa.string())


def _text(cell: Cell) -> str:
    """As a table would spell it: whole numbers without a point."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, int) and not isinstance(cell, bool) and cell.bit_length() > 1024:
        return "-inf" if cell < 0 else "inf"
    return str(cell)


def _moment(column: Column, row: int, cell: Cell) -> datetime | None:
    if cell is None:
        return None
    try:
        moment = datetime.fromisoformat(cell if isinstance(cell, str) else "")
    except ValueError:
        raise Problem(
            422,
            f"column {column.name!r}, row {row}: {cell!r} is not a date like 2024-12-31 or 2024-12-31T23:59",
        ) from None
    return moment.replace(tzinfo=None)
