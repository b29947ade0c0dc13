"""Tables as files: CSV or Parquet in, a bounded number of rows at a time, by Arrow.

A chunk is a mapping of names to Arrow arrays. Of CSV they hold text, as it is in the file; of Parquet and of data
frames they hold whatever type the column has. What the cells mean is the business of `cbdl.tables.cells`.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from cbdl.tables.errors import TableError, UsageError, many

__all__ = ["Chunk", "Dialect", "Floats", "TableError", "UsageError", "chunks", "from_frame", "many", "read"]

Chunk = dict[str, Any]
"""Some rows of a table: an Arrow array per column."""
Floats = npt.NDArray[np.float64]

ROWS = 2048
"""Rows that are read and answered at a time."""
BLOCK = 1 << 20
"""Bytes of a CSV file that are parsed at a time; no row may be longer."""
PARQUET = (".parquet", ".pq")
DELIMITERS = ",;\t|"
"""Those that are told apart by the first lines."""
LINES = 5
"""Lines that are looked at to tell the delimiter."""
ROW_NUMBERS = re.compile(r"__index_level_\d+__")
"""What pandas calls the numbers of its rows where they have no name."""

_HINT = re.compile(r'"?(?i:sep)=.?"?(?=[\r\n])')
"""What some programs write above a table to tell others its delimiter."""
_SHEET = "a spreadsheet or an archive; save the table as CSV or Parquet"
_JSON = "JSON; save the table as CSV or Parquet"
OTHERS = {
    b"PK\x03\x04": _SHEET,
    b"\xd0\xcf\x11\xe0": _SHEET,
    b"\x1f\x8b": "compressed by gzip; unpack it",
    b"PAR1\x15": "Parquet; let its name end in .parquet",
    b"ARROW1\x00": "an Arrow file; save the table as CSV or Parquet",
    b"[{": _JSON,
    b'{"': _JSON,
}
"""What files are that begin so, and what to do."""
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # before that of UTF-16, with which it begins
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Encodings by the bytes that files begin with."""


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written, where its first lines do not tell."""

    delimiter: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        sign = self.delimiter
        if sign is not None and (len(sign) != 1 or sign in '"\r\n' or not sign.isascii()):
            raise UsageError(f"--delimiter is {sign!r}; give one character of ASCII, such as ';' or tab")
        if self.encoding is not None:
            try:
                "".encode(self.encoding)
            except LookupError:
                raise UsageError(
                    f"--encoding is {self.encoding!r}, which is none; give utf-8, utf-16, latin-1, cp1252 or the like"
                ) from None


def chunks(
    path: str | Path,
    rows: int = ROWS,
    *,
    dialect: Dialect | None = None,
    only: Collection[str] | None = None,
    bare: bool = False,
) -> Iterator[Chunk]:
    """The table in `path`, at most `rows` rows at a time; never the whole file in memory.

    `only`: read these columns and no others; those that are not there are left out.
    `bare`: a table that has names and no rows is one chunk without rows; else it is refused.
    """
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"{path} {'is not a file' if path.exists() else 'does not exist'}")
    is_parquet = path.suffix.lower() in PARQUET
    batches = _parquet(path, rows, only) if is_parquet else _csv(path, dialect or Dialect(), only)
    empty = True
    for table in _regrouped(batches, rows):
        empty = False
        yield _columns(table)
    if empty and not bare:
        raise TableError(f"{path} has no rows below its header")
    if empty:
        yield _columns(_no_rows(path, dialect or Dialect(), only))


def _no_rows(path: Path, dialect: Dialect, only: Collection[str] | None) -> Any:
    """The names of a table and their types, which of CSV are text."""
    if path.suffix.lower() in PARQUET:
        table = _parquet_file(path).schema_arrow.empty_table()
    else:
        table = pa.table({name: pa.array([], pa.string()) for name in names(path, dialect)})
    return table.select([name for name in table.column_names if only is None or name in only])


def read(path: str | Path, dialect: Dialect | None = None) -> Chunk:
    """The whole table."""
    parts = [pa.table(part) for part in chunks(path, dialect=dialect)]
    return _columns(pa.concat_tables(parts))


def sample(
    path: str | Path,
    most: int,
    seed: int = 0,
    *,
    dialect: Dialect | None = None,
    only: Collection[str] | None = None,
) -> tuple[Chunk, npt.NDArray[np.int64], int]:
    """At most so many rows of the table, chosen at random and in its order; where they stand, from 0; and how many
    rows it has. Never the whole file in memory: of all rows those with the smallest of random numbers stay."""
    source = np.random.default_rng(seed)
    kept: Any = None
    key, place = np.empty(0), np.empty(0, dtype=np.int64)
    total = 0
    for chunk in chunks(path, dialect=dialect, only=only):
        own = pa.table(chunk)
        key = np.concatenate([key, source.random(own.num_rows)])
        place = np.concatenate([place, np.arange(total, total + own.num_rows)])
        kept = own if kept is None else pa.concat_tables([kept, own])
        total += own.num_rows
        if len(key) > most:
            best = np.sort(np.argpartition(key, most - 1)[:most])
            key, place, kept = key[best], place[best], kept.take(pa.array(best))
    return _columns(kept), place, total


def names(path: str | Path, dialect: Dialect | None = None) -> list[str]:
    """The names of the columns."""
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"{path} {'is not a file' if path.exists() else 'does not exist'}")
    if path.suffix.lower() in PARQUET:
        return list(_parquet_file(path).schema_arrow.names)
    return _Header.of(path, dialect or Dialect()).names


def from_frame(frame: Any) -> Chunk:
    """A data frame (pandas, polars, Arrow, or a mapping of names to columns) as a chunk."""
    no_frame = UsageError(
        f"{type(frame).__name__} is no data frame; give one of pandas, polars or pyarrow, or a mapping of names to "
        "columns"
    )
    if getattr(frame, "ndim", 2) != 2:  # one column, or one row
        raise no_frame
    try:
        table = pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError):  # no frame, or a column that Arrow has no type for
        columns = getattr(frame, "columns", frame if isinstance(frame, Mapping) else None)
        if columns is None:
            raise no_frame from None
        names = [str(name) for name in columns]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise TableError(f"two columns are named {twice!r}; give columns different names") from None
        try:
            table = pa.table({str(name): _of_objects(frame[name]) for name in columns})
        except TypeError:  # a mapping to what are no columns
            raise no_frame from None
    table = table.select([i for i, name in enumerate(table.column_names) if not ROW_NUMBERS.fullmatch(name)])
    if not table.num_rows:
        raise TableError("the data frame has no rows")
    return _columns(table)


def _of_objects(values: Iterable[Any]) -> Any:
    """A column of a data frame value by value, as words where its values are of several types."""
    listed = list(values)
    try:
        return pa.array(listed, from_pandas=True)
    except pa.ArrowException:
        return pa.array([None if v is None else str(v) for v in listed], pa.string())


def _columns(table: Any) -> Chunk:
    whole = table.combine_chunks()
    return {
        name: _plain(column.chunk(0)) if column.num_chunks else pa.array([], column.type)
        for name, column in zip(whole.column_names, whole.columns, strict=True)
    }


def _plain(column: Any) -> Any:
    """A column of views on words, as polars has them, of which Arrow can take no rows, as words."""
    views = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return column.cast(views[column.type]) if column.type in views else column


def _regrouped(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """The rows of all batches, `rows` at a time."""
    held: list[Any] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        while count >= rows:
            whole = pa.Table.from_batches(held)
            yield whole.slice(0, rows)
            rest = whole.slice(rows)
            held, count = rest.to_batches(), rest.num_rows
    if count:
        yield pa.Table.from_batches(held)


# --- CSV ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Header:
    """The first line of a CSV file: its names, and how the file is written."""

    names: list[str]
    lines: int
    delimiter: str
    encoding: str

    @classmethod
    def of(cls, path: Path, dialect: Dialect) -> _Header:
        encoding = dialect.encoding or _encoding(path)
        try:
            with open(path, newline="", encoding=encoding) as file:
                start = "".join(line for line, _ in zip(file, range(LINES), strict=False))
        except UnicodeError as error:
            raise _not_text(path, encoding, error) from None
        start = start.removeprefix("\ufeff")  # the mark of an encoding that was named by hand
        hint = _HINT.match(start)
        if hint is not None:
            raise TableError(
                f"{path}: the first line, {hint[0]!r}, is a hint to spreadsheets; remove it: the first line must name "
                "the columns"
            )
        if dialect.delimiter is None:
            delimiter = max(DELIMITERS, key=lambda d: _agreement(start, d))
        else:
            delimiter = dialect.delimiter
        reader = csv.reader(io.StringIO(start, newline=""), delimiter=delimiter)
        first = next((row for row in reader if row), [])
        return cls(_checked(path, [name.strip() for name in first]), reader.line_num, delimiter, encoding)


def _encoding(path: Path) -> str:
    """UTF-8 unless the first bytes say otherwise; a TableError if they say that it is no CSV."""
    with open(path, "rb") as file:
        start = file.read(1024)
    other = next((what for sign, what in OTHERS.items() if start.startswith(sign)), None)
    if other is not None:
        raise TableError(f"{path} is {other}")
    mark = next((mark for mark in MARKS if start.startswith(mark)), None)
    if mark is not None:
        return MARKS[mark]
    if b"\0" in start:
        wide = "utf-32" if b"\0\0" in start else "utf-16"
        raise TableError(f"{path} holds null bytes, so it is no UTF-8; say --encoding {wide}-le or {wide}-be")
    return "utf-8-sig"


def _not_text(path: Path, encoding: str, error: Exception) -> TableError:
    known = "UTF-8" if encoding.startswith("utf-8") else encoding
    return TableError(
        f"{path} is not a CSV file in {known}{_byte(error)}; say how it is written, as in --encoding latin-1"
    )


def _byte(error: Exception) -> str:
    """What was not understood, in words; where it stands depends on how files are read."""
    if isinstance(error, UnicodeDecodeError):
        return f" (the byte 0x{error.object[error.start]:02x} is not understood)"
    return f": {error}"


def _agreement(start: str, delimiter: str) -> tuple[bool, int]:
    """Whether the first lines have as many values as the header, and how many."""
    rows: list[list[str]] = []
    with suppress(csv.Error):  # a value longer than 100,000 signs: those before it tell enough
        rows.extend(row for row in csv.reader(io.StringIO(start, newline=""), delimiter=delimiter) if row)
    count = len(rows[0]) if rows else 0
    return count > 1 and all(len(row) == count for row in rows), count


def _checked(path: Path, header: list[str]) -> list[str]:
    if not header:
        raise TableError(f"{path} is empty; its first line must name the columns")
    for i, name in enumerate(header, start=1):
        if not name:
            ends = {
                1: ", or write the table without row numbers",
                len(header): ", or end lines without a delimiter",
            }
            raise TableError(
                f"{path}: column {i} has no name; give it one in the first line{ends.get(i, '')}"
            )
        if header.index(name) + 1 != i:
            raise TableError(f"{path}: two columns are named {name!r}; give columns different names")
    return header


def _csv(path: Path, dialect: Dialect, only: Collection[str] | None) -> Iterator[Any]:
    header = _Header.of(path, dialect)
    wanted = header.names if only is None else [name for name in header.names if name in only]
    # without a column Arrow would read all of them
    wanted = wanted or header.names[:1]
    try:
        reader = pa.csv.open_csv(
            path,
            read_options=pa.csv.ReadOptions(
                use_threads=False,
                block_size=BLOCK,
                skip_rows=header.lines,
                column_names=header.names,
                encoding=header.encoding.removesuffix("-sig"),
            ),
            parse_options=pa.csv.ParseOptions(delimiter=header.delimiter, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types={name: pa.string() for name in wanted}, include_columns=wanted
            ),
        )
        for batch in reader:
            if batch.num_rows:
                yield batch
        _check_quotes(path, header)
    except (pa.ArrowInvalid, UnicodeError) as error:
        if "empty" in str(error).lower():  # nothing below the header
            return
        raise _explained(path, header, error) from None


def _check_quotes(path: Path, header: _Header) -> None:
    """A TableError if a quote is never closed, behind which Arrow takes the rest of the file for one value."""
    with open(path, "rb") as raw:
        odd = sum(part.count(b'"') for part in iter(lambda: raw.read(BLOCK), b"")) % 2
    if not odd:
        return
    last = 0
    with open(path, newline="", encoding=header.encoding) as file:
        reader = csv.reader(file, delimiter=header.delimiter, strict=True)
        try:
            for _ in reader:
                last = reader.line_num
        except csv.Error as error:
            if _is_open(error):
                raise _open_quote(path, last + 1) from None


def _is_open(error: csv.Error) -> bool:
    """Whether a value that should end does not; one of 100,000 signs is taken for such."""
    return "unexpected end" in str(error) or "field limit" in str(error)


def _open_quote(path: Path, line: int) -> TableError:
    return TableError(
        f"{path}, line {line}: a quote is opened and never closed; close it, or double it if it belongs to a value"
    )


def _explained(path: Path, header: _Header, error: Exception) -> TableError:
    """What is wrong with the file, and in which line; found by reading it again, slowly."""
    count = 0
    try:
        with open(path, newline="", encoding=header.encoding) as file:
            reader = csv.reader(file, delimiter=header.delimiter)
            for row in reader:
                count = reader.line_num
                if row and len(row) != len(header.names):
                    _check_quotes(path, header)
                    lonely = "; the first line must name the columns" if len(header.names) == 1 else ""
                    return TableError(
                        f"{path}, line {count}: {many(len(row), 'value')} for {many(len(header.names), 'column')} "
                        f"(delimiter {header.delimiter!r}; --delimiter says another){lonely}"
                    )
    except UnicodeError as problem:
        return _not_text(path, header.encoding, problem)
    except csv.Error as problem:
        if _is_open(problem):
            _check_quotes(path, header)
            return TableError(
                f"{path}, line {count + 1}: a value has more than {csv.field_size_limit():,} signs; close its quote, "
                f"or shorten it: no row may be longer than {BLOCK >> 20} MB"
            )
        return TableError(f"{path}, line {count + 1}: {problem}")
    return TableError(f"{path} is not a CSV file: {error}")


# --- Parquet ------------------------------------------------------------------------------------------------


def _parquet_file(path: Path) -> Any:
    import pyarrow.parquet as parquet

    try:
        return parquet.ParquetFile(path)
    except pa.ArrowNotImplementedError as error:
        raise TableError(f"{path} has columns that cannot be read: {error}; give them another type") from None
    except (OSError, ValueError) as error:
        raise TableError(f"{path} is not a Parquet file: {error}") from None


def _parquet(path: Path, rows: int, only: Collection[str] | None) -> Iterator[Any]:
    file = _parquet_file(path)
    known = _checked(path, list(file.schema_arrow.names))
    wanted = None if only is None else [name for name in known if name in only] or known[:1]
    try:
        for batch in file.iter_batches(batch_size=rows, columns=wanted):
            if batch.num_rows:
                yield batch
    except (OSError, ValueError, pa.ArrowNotImplementedError) as error:
        raise TableError(f"{path} is not a Parquet file: {error}") from None
