"""Answers as files: CSV and JSON lines as they are computed, whole columns at a time; Parquet with real lists.

In CSV the classes of a set are joined by "|", of which one that belongs to a name is written "\\|" (and "\\" is
"\\\\"), and the intervals of a set as lower:upper. In JSON and Parquet they are lists.

Columns that are kept may hold anything. In text, bytes are the words that they spell, or hexadecimal digits; lengths of
time are seconds; and lists and records are in CSV what they are in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cbdl.ground import files
from cbdl.tables.answers import Answers
from cbdl.tables.cells import as_words, is_bytes, is_text, seconds, word_of
from cbdl.tables.errors import UsageError
from cbdl.tables.files import Floats

Rounding = Callable[[Floats], Floats]
Kind = Literal["csv", "jsonl", "parquet"]
KINDS: dict[str, Kind] = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet", ".pq": "parquet"}
ENDS = ("decision", "lower", "upper", "set")
"""What is in the unit of the outcome."""
DIGITS = 9
"""Digits of all other numbers in text, if nothing else is said."""
_EXACT = 22
"""Powers of ten up to this one are floats."""
WIDTH = 3
"""Digits of the width of an interval that its ends are good to."""


def kind_of(out: Path) -> Kind:
    """The form of a file by the end of its name."""
    if out.suffix.lower() not in KINDS:
        raise UsageError(f"--out is {out}; its name must end in .csv, .jsonl or .parquet")
    return KINDS[out.suffix.lower()]


def split_set(cell: str) -> list[str]:
    """The classes of a set as a CSV file has it.

    >>> split_set("a|b"), split_set(r"a\\|b|c"), split_set("")
    (['a', 'b'], ['a|b', 'c'], [])
    """
    names: list[str] = []
    name, escaped = "", False
    for c in cell:
        if escaped or c not in "\\|":
            name, escaped = name + c, False
        elif c == "\\":
            escaped = True
        else:
            names, name = [*names, name], ""
    return [*names, name] if cell else []


# --- rounding -------------------------------------------------------------------------------------------------


def rounded(
    answers: Answers, digits: int | None, decimals: int | None, kept: Collection[str] = ()
) -> Answers:
    """The numbers with so many digits that count; with None, ends of intervals as the data can mean them, rounded
    outwards, and `DIGITS` for the rest.

    decimals: those of the training outcomes, or None
    kept:     columns of the table, which are copied as they are
    """
    own = dict(answers.columns)
    ends: dict[str, Any] = {}
    if "lower" in own and digits is None:
        step = _steps(own["lower"], own["upper"], decimals)
        middle = _on_grid(_floats(own["decision"]), step, np.round)
        ends = {
            **_outwards(own, lambda x, rows, how: _on_grid(x, step[rows], how)),
            "decision": _as_arrow(middle),
        }
    for name, column in own.items():
        if (
            name not in kept
            and pa.types.is_floating(column.type)
            and (digits is not None or name not in ENDS)
        ):
            own[name] = _as_arrow(significant(_floats(column), digits or DIGITS))
    own |= ends
    if "lower" in own and digits is not None:
        own |= _outwards(answers.columns, lambda x, rows, how: significant(x, digits, how))
    return replace(answers, columns=own)


def significant(x: Floats, digits: int, how: Rounding = np.round) -> Floats:
    """x with so many digits that count.

    >>> significant(np.array([1234.567, 0.00123456, 0.0]), 3)
    array([1.23e+03, 1.23e-03, 0.00e+00])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where((x == 0) | ~np.isfinite(x), 0.0, np.floor(np.log10(np.abs(x))))
        return _on_grid(x, digits - 1 - size, how)


def _on_grid(x: Floats, decimals: Floats, how: Rounding) -> Floats:
    """x rounded to so many decimals, which may be negative; by whole powers of ten, which have no error themselves."""
    up, down = 10.0 ** np.clip(decimals, 0, 300), 10.0 ** np.clip(-decimals, 0, 300)
    with np.errstate(invalid="ignore", over="ignore"):
        whole = how(x * up / down)
        grid = whole / up * down
    # Powers from 10^23 on are none that floats hold: what they give may differ from the number meant in its last digit.
    large = np.abs(decimals) > _EXACT
    if large.any():
        power = np.longdouble(10) ** np.broadcast_to(decimals, x.shape)[large]
        grid[large] = (whole[large] / power).astype(np.float64)
    return np.where(np.isfinite(grid), grid, x)


def _steps(lower: Any, upper: Any, decimals: int | None) -> Floats:
    """(rows,): the decimals of an interval's ends: three digits of its width, and not more than outcomes have."""
    with np.errstate(divide="ignore", invalid="ignore"):
        width = np.floor(np.log10(_floats(upper) - _floats(lower)))
    steps = np.where(np.isfinite(width), WIDTH - 1 - width, 15.0)
    return steps if decimals is None else np.minimum(steps, float(decimals))


def _outwards(own: Mapping[str, Any], to_grid: Callable[[Floats, Any, Rounding], Floats]) -> dict[str, Any]:
    """lower, upper and the intervals of the set, none of them smaller than before: `to_grid(x, rows, how)`."""

    def wider(ends: Floats, rows: Any) -> Floats:
        return np.stack([to_grid(ends[:, 0], rows, np.floor), to_grid(ends[:, 1], rows, np.ceil)], axis=1)

    every = slice(None)
    return {
        "lower": _as_arrow(to_grid(_floats(own["lower"]), every, np.floor)),
        "upper": _as_arrow(to_grid(_floats(own["upper"]), every, np.ceil)),
        "set": _pairs(own["set"], wider),
    }


def _pairs(column: Any, change: Callable[[Floats, Any], Floats]) -> Any:
    """A column of lists of intervals with all ends (n, 2) changed; `change` is told the row of each.

    Intervals of a row, in their order, that meet after that become one.
    """
    flat = column.flatten()
    rows = pc.list_parent_indices(column).to_numpy(zero_copy_only=False)
    ends = change(_floats(flat.flatten()).reshape(-1, 2), rows)
    starts = np.ones(len(ends), dtype=bool)
    starts[1:] = (rows[1:] != rows[:-1]) | (ends[1:, 0] > ends[:-1, 1])
    lasts = np.append(starts[1:], True)[: len(ends)]
    pairs = np.stack([ends[starts, 0], ends[lasts, 1]], axis=1)
    counts = np.bincount(rows[starts], minlength=len(column))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    merged = pa.FixedSizeListArray.from_arrays(pa.array(pairs.ravel()), 2)
    return pa.ListArray.from_arrays(pa.array(offsets), merged)


def _floats(column: Any) -> Floats:
    values: Floats = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return values


def _as_arrow(x: Floats) -> Any:
    return pa.array(x, mask=np.isnan(x))


# --- text -----------------------------------------------------------------------------------------------------


def csv_lines(columns: dict[str, Any]) -> Any:
    """One line of CSV per row, with its end."""
    cells = [_csv_cells(column) for column in columns.values()]
    return _lines(pc.binary_join_element_wise(*cells, ","))


def _plain(column: Any) -> Any:
    """A column as text can have it: words for bytes, seconds for lengths of time."""
    if is_bytes(column):
        return as_words(column)[0]
    return seconds(column) if pa.types.is_duration(column.type) else column


def _csv_cells(column: Any) -> Any:
    column = _plain(column)
    if pa.types.is_nested(column.type) and not _is_set(column.type):
        column = _json_cells(column)
    if pa.types.is_list(column.type):
        inner = column.flatten()
        if pa.types.is_string(inner.type):
            inner = pc.replace_substring(pc.replace_substring(inner, "\\", "\\\\"), "|", "\\|")
        else:
            ends = _text(inner.flatten())
            inner = pc.binary_join_element_wise(ends[::2], ends[1::2], ":")
        column = pc.binary_join(_same_lists(column, inner), "|")
    cells = pc.fill_null(_text(column), "")
    if not is_text(column):
        return cells
    odd = pc.match_substring_regex(cells, '[",\r\n]')
    return pc.if_else(odd, _around('"', pc.replace_substring(cells, '"', '""'), '"'), cells)


def _is_set(kind: Any) -> bool:
    """Whether the answers have sets like this: of words, or of pairs of numbers."""
    if not pa.types.is_list(kind):
        return False
    inner = kind.value_type
    pairs = pa.types.is_fixed_size_list(inner) and inner.list_size == 2
    return bool(pa.types.is_string(inner) or (pairs and pa.types.is_float64(inner.value_type)))


def json_lines(columns: dict[str, Any]) -> Any:
    """One JSON object per row, in a line."""
    parts: list[Any] = []
    for i, (name, column) in enumerate(columns.items()):
        start = ("{" if i == 0 else ", ") + json.dumps(name) + ": "
        parts += [pa.scalar(start), _json_cells(column)]
    return _lines(pc.binary_join_element_wise(*parts, pa.scalar("}"), ""))


def _json_cells(column: Any) -> Any:
    column = _plain(column)
    if pa.types.is_list(column.type) and not _is_set(column.type):
        return _spelled(column)
    if pa.types.is_fixed_size_list(column.type) and column.type.list_size == 2 and not column.null_count:
        ends = _json_cells(column.flatten())
        return _around("[", pc.binary_join_element_wise(ends[::2], ends[1::2], ", "), "]")
    if pa.types.is_list(column.type):
        inner = _same_lists(column, _json_cells(column.flatten()))
        return _around("[", pc.binary_join(inner, ", "), "]")
    if pa.types.is_string(column.type):
        words = column.dictionary_encode()
        spelled = pa.array([json.dumps(w) for w in words.dictionary.to_pylist()], pa.string())
        return pc.fill_null(pa.DictionaryArray.from_arrays(words.indices, spelled).cast(pa.string()), "null")
    if pa.types.is_floating(column.type):  # JSON has no infinity
        column = pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
    if (
        pa.types.is_boolean(column.type)
        or pa.types.is_integer(column.type)
        or pa.types.is_floating(column.type)
    ):
        return pc.fill_null(_text(column), "null")
    return _spelled(column)


def _spelled(column: Any) -> Any:
    """Value by value, whatever they are."""
    return pa.array([json.dumps(_value(v), default=str) for v in column.to_pylist()], pa.string())


def _value(value: Any) -> Any:
    """A value as JSON has it: no bytes, and no number that is none."""
    if isinstance(value, bytes):
        return word_of(value)[0]
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): _value(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_value(v) for v in value]
    return value.total_seconds() if isinstance(value, timedelta) else value


def _same_lists(column: Any, inner: Any) -> Any:
    """Lists as in `column` of other things."""
    offsets = column.offsets.to_numpy() - column.offsets[0].as_py()
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), inner)


def _text(column: Any) -> Any:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def _around(left: str, column: Any, right: str) -> Any:
    return pc.binary_join_element_wise(pa.scalar(left), column, pa.scalar(right), "")


def _lines(rows: Any) -> str:
    return "".join(f"{row}\n" for row in rows.to_pylist())


# --- files ----------------------------------------------------------------------------------------------------


def write_text(parts: Iterable[Answers], file: TextIO, kind: Literal["csv", "jsonl"]) -> None:
    """Write answers as they come."""
    for i, part in enumerate(parts):
        if kind == "csv" and i == 0:
            header = [pa.array([name]) for name in part.columns]
            file.write(csv_lines({str(i): name for i, name in enumerate(header)}))
        file.write(csv_lines(part.columns) if kind == "csv" else json_lines(part.columns))


def check_place(out: Path, folder: Path) -> None:
    """A UsageError unless `out` can be written, which is `folder` or is in it; folders that are not there are made."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        files.check_writable(there)
    except OSError as error:
        raise UsageError(
            f"--out is {out}, where nothing can be written ({error.strerror}); choose another place"
        ) from None


def write(parts: Iterable[Answers], out: Path) -> None:
    """The file `out` from all answers; it appears when it is whole."""
    kind = kind_of(out)
    if kind != "parquet":
        with files.whole(out) as file:
            write_text(parts, file, kind)
        return
    import pyarrow.parquet as parquet

    with files.whole_binary(out) as sink:
        writer = None
        for part in parts:
            table = pa.table(part.columns)
            writer = writer or parquet.ParquetWriter(sink, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()
