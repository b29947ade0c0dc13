"""Tables of results, in whatever form they come: one mapping of names to numbers per row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

NAMES = ("name", "method")
"""What the column with the names of rows may be called."""


def rows_of(table: Any) -> list[dict[str, Any]]:
    """A row per entry with its "name": from a mapping of names to rows, a sequence of rows, or a data frame.

    A row is a mapping or a dataclass.

    >>> rows_of({"credal": {"coverage": 0.95, "width": 2.0}})
    [{'name': 'credal', 'coverage': 0.95, 'width': 2.0}]
    """
    if hasattr(table, "to_dicts"):  # polars
        return [_named(row) for row in table.to_dicts()]
    if hasattr(table, "to_dict") and hasattr(table, "columns"):  # pandas
        return [_named(row) for row in table.to_dict("records")]
    if isinstance(table, Mapping):
        return [{"name": str(name), **_plain(row)} for name, row in table.items()]
    if isinstance(table, Sequence) and not isinstance(table, str):
        return [_named(_plain(row)) for row in table]
    raise ValueError(
        f"table is a {type(table).__name__}; give a mapping of names to rows, a list of rows, or a data frame"
    )


def _plain(row: Any) -> dict[str, Any]:
    if is_dataclass(row) and not isinstance(row, type):
        return {f.name: getattr(row, f.name) for f in fields(row)}
    if isinstance(row, Mapping):
        return dict(row)
    raise ValueError(f"a row of table is a {type(row).__name__}; give a mapping or a dataclass")


def _named(row: dict[str, Any]) -> dict[str, Any]:
    known = next((key for key in NAMES if key in row), None)
    if known is None:
        raise ValueError(f"a row of table has {', '.join(map(str, row))}; it needs a name")
    return {"name": str(row[known]), **{key: value for key, value in row.items() if key != known}}


def column(rows: Iterable[Mapping[str, Any]], wanted: str, *others: str) -> str:
    """The first of the names that all rows have; a ValueError that names them if there is none."""
    rows = list(rows)
    if not rows:
        raise ValueError("table has no rows; there is nothing to draw")
    for name in (wanted, *others):
        if all(name in row for row in rows):
            return name
    bad = next(row for row in rows if wanted not in row)
    raise ValueError(f"the row {bad.get('name')!r} of table has no {' or '.join((wanted, *others))!r}")


def by_name(given: Any, kind: type) -> dict[str, Any]:
    """One result, or a mapping of names to results, as a mapping."""
    if isinstance(given, kind):
        return {"": given}
    if isinstance(given, Mapping) and given and all(isinstance(own, kind) for own in given.values()):
        return {str(name): own for name, own in given.items()}
    raise ValueError(f"give a {kind.__name__}, or a mapping of names to them; this is {given!r:.80}")
