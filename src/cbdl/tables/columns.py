"""From the cells of a training table to the meaning of its columns; what would train nonsense is refused with words.

Kinds, levels, fills and quantiles come from the training rows alone: held-out rows must be as strange to the model as
those that it will meet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cbdl.steps.missing import QUANTILES
from cbdl.tables import cells, guises
from cbdl.tables.cells import Decimal, Spelling
from cbdl.tables.encoding import Column, encode, features, other_sign
from cbdl.tables.errors import TableError, UsageError, named, on_line
from cbdl.tables.files import ROW_NUMBERS, Chunk, Floats
from cbdl.tables.gaps import check_missing, filled_words

__all__ = ["Column", "Meaning", "Wishes", "check_names", "check_range", "encode", "learn", "learn_columns"]

LEVELS = 100
"""A text column with more distinct values than this is not a category."""
FEW = 10
"""Up to so many levels a category may have, however few the rows are."""
LARGEST: float = float(np.finfo(np.float64).max) ** 0.5 / 1e6
"""Numbers above this have squares, and sums of squares, that are none."""
SINGLE: float = float(np.finfo(np.float32).max)
"""Inputs above this are none in single precision, in which saved models are asked."""
LEAST_SPREAD: float = float(np.finfo(np.float64).tiny) ** 0.5 * 1e6
"""Numbers that vary by less than this have squares of differences that vanish."""
_MEASURED = re.compile(r"([-+]?\d[\d.,]*) ?([^\d\s.,+-][^\d\s]{0,7})")
"""A number with a unit behind it."""
_PRICED = re.compile(r"([A-Z]{3} |[A-Z]{0,2}[$\u00a2-\u00a5\u20a0-\u20cf] ?)([-+]?\d[\d.,]*)")
"""A number with the letters or the sign of a currency before it."""

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Wishes:
    """What the user says about columns that their cells do not tell."""

    drop: tuple[str, ...] = ()
    use: tuple[str, ...] = ()
    """Columns to use although they look like identifiers."""
    dates: tuple[str, ...] = ()
    """Columns of dates whose parts are used; "NAME:FORMAT" says how they are written."""
    decimal: Decimal | None = None
    impute: bool = False

    def date_formats(self) -> dict[str, str]:
        parts = (d.partition(":%") for d in self.dates)
        return {name: f"%{form}" if form else "" for name, _, form in parts}


@dataclass(frozen=True)
class Meaning:
    """The columns that are learned from, and what a person should know about the others."""

    columns: tuple[Column, ...]
    notes: tuple[str, ...] = field(default=())


def check_names(table: Chunk, target: str, wishes: Wishes) -> list[str]:
    """The columns to learn from, by name; a UsageError if one is named that is not there, or that cannot be."""
    for option, names in (
        ("--target", (target,)),
        ("--drop", wishes.drop),
        ("--use", wishes.use),
        ("--date", tuple(wishes.date_formats())),
    ):
        for name in names:
            if name not in table:
                raise UsageError(
                    f"{option}: the table has no column {name!r}; it has {', '.join(table)}{other_sign(table)}"
                )
    if target in wishes.drop:
        raise UsageError(f"--drop {target}: that is the target; a model cannot do without it")
    for option, names in (("--use", wishes.use), ("--date", tuple(wishes.date_formats()))):
        if target in names:
            raise UsageError(
                f"{option} {target}: that is the target, which a model predicts and does not learn from; leave "
                f"{option} out, or choose another --target"
            )
        both = [name for name in names if name in wishes.drop]
        if both:
            raise UsageError(f"{option} {both[0]}: --drop leaves that column out; say one of the two")
    left = [
        n
        for n in table
        if n != target and n not in wishes.drop and (n in wishes.use or not ROW_NUMBERS.fullmatch(n))
    ]
    if not left:
        raise UsageError(f"no column is left to learn from{other_sign(table)}")
    return left


def learn(table: Chunk, names: Sequence[str], rows: Rows, wishes: Wishes) -> Meaning:
    """What each of the columns `names` means, from the `rows` of the table that are trained on."""
    check_missing(table, names, wishes.impute)
    columns, constant, problems = [], [], []
    formats = wishes.date_formats()
    for name in names:
        own = table[name].take(pa.array(rows))
        try:
            column = _learn(name, own, rows, wishes, formats)
        except TableError as problem:  # all that is wrong is told at once
            problems.append(str(problem))
            continue
        if column is None:
            constant.append(name)
        else:
            columns.append(column)
    if problems:
        raise TableError(_together(problems))
    notes = filled_words(table, columns, constant) if wishes.impute else []
    zoned = [c.name for c in columns if c.zoned and cells.zones(table[c.name], c.format)[1].any()]
    if zoned:
        notes.append(
            f"times with zones, of which {', '.join(cells.PARTS)} are taken in UTC: {named(zoned)}; give times of the "
            "place without a zone if those of the place are meant"
        )
    for column in columns:
        if column.kind == "number" and column.name not in wishes.use:
            known = cells.numbers(table[column.name].take(pa.array(rows)), column.spelling)[0]
            notes += guises.remarks(column.name, known)
    if constant:
        words = ("column has", "teaches") if len(constant) == 1 else ("columns have", "teach")
        notes.append(
            f"{len(constant)} {words[0]} one value in all training rows and {words[1]} nothing; "
            f"left out: {named(constant)}"
        )
    if not columns:
        raise TableError("every column has one value in all training rows; there is nothing to learn from")
    return Meaning(tuple(columns), tuple(notes))


def _together(problems: list[str], most: int = 8) -> str:
    """One problem as it is, several one below the other."""
    if len(problems) == 1:
        return problems[0]
    rest = [f"and {len(problems) - most} more"] if len(problems) > most else []
    return "\n".join([f"{len(problems)} columns cannot be used as they are:", *problems[:most], *rest])


def learn_columns(table: Mapping[str, Any], names: Sequence[str], impute: bool) -> tuple[Column, ...]:
    """What each of the columns `names` means, from all rows of a table that is known to be good: columns with one value
    and identifiers stay; a missing value is an error unless `impute`."""
    chunk = {name: _array(table[name]) for name in names}
    wishes = Wishes(use=tuple(names), impute=impute)
    check_missing(chunk, names, impute)
    rows = np.arange(len(chunk[names[0]]))
    learned = ((name, _learn(name, chunk[name], rows, wishes, {})) for name in names)
    return tuple(column or _constant(name, chunk[name]) for name, column in learned)


def _array(values: Any) -> Any:
    """A column as an Arrow array, also from a list of its cells."""
    return (
        pa.array([v.as_py() if isinstance(v, pa.Scalar) else v for v in values])
        if isinstance(values, list)
        else values
    )


def _constant(name: str, cell: Any) -> Column:
    """A column that has one value."""
    quick = cells.plain_numbers(cell)
    if quick is None:
        (word,) = cells.texts(cell)[1]
        return Column(name, "category", (word,), word)
    value = float(quick[~np.isnan(quick)][0])
    return Column(name, "number", (), repr(value), ((value,),))


def _learn(name: str, cell: Any, rows: Rows, wishes: Wishes, formats: dict[str, str]) -> Column | None:
    """What a column means; None if it has one value only."""
    if name in formats or cells.is_date(cell):
        return _date(name, cell, rows, formats.get(name), name in formats)
    if pa.types.is_nested(cell.type):
        raise TableError(
            f"column {name!r} holds lists or records; make columns of their parts, or leave it out with --drop "
            f"{on_line(name)}"
        )
    if cells.is_bytes(cell) and (odd := cells.as_words(cell)[1]).any():
        raise TableError(
            f"column {name!r}, row {rows[int(odd.argmax())] + 1}: bytes that are no text (UTF-8); write words or "
            f"numbers, or leave the column out with --drop {on_line(name)}"
        )
    quick = cells.plain_numbers(cell, wishes.decimal)
    if quick is not None:
        return _number(name, quick, Spelling(), name in wishes.use)
    place, words = cells.texts(cell)
    if not words:
        raise TableError(
            f"column {name!r} has no value in the training rows; leave it out with --drop {on_line(name)}"
        )
    if not pa.types.is_boolean(cell.type):
        remedy = f"leave it empty if it is not known, or leave the column out with --drop {on_line(name)}"
        spelling = spelling_of(f"column {name!r}", words, place, rows, wishes.decimal, remedy)
        if spelling is not None:
            return _number(name, cells.numbers(cell, spelling)[0], spelling, name in wishes.use)
        _check_dates(name, words)
    return _category(name, place, words, name in wishes.use)


def spelling_of(
    what: str,
    words: Sequence[str],
    place: npt.NDArray[np.int64],
    rows: Rows,
    decimal: Decimal | None,
    remedy: str,
) -> Spelling | None:
    """How numbers are written, or None if these words are none; a TableError if that cannot be told, or if most of
    them are numbers, counted by rows or, where one word stands in most of the rows, each once."""
    ways = cells.spellings(words, decimal)
    if len(ways) > 1:
        example = next(w for w in words if ways[0].number(w) != ways[1].number(w))
        raise TableError(
            f"{what}: {example!r} may be {ways[0].number(example):g} or {ways[1].number(example):g}; say --decimal . "
            "or --decimal ,"
        )
    if ways:
        return ways[0]
    guess = [way for unit in ("", *cells.UNITS) for way in (Spelling(".", unit), Spelling(",", unit))]
    read = [[way.number(w) is not None for w in words] for way in guess]
    counts = np.bincount(place[place >= 0], minlength=len(words))
    best = max(read, key=lambda known: int(counts[known].sum()))
    if all(best):
        first = rows[int((place == 0).argmax())] + 1
        sign = "point" if decimal == "." else "comma"
        raise TableError(
            f"{what}, row {first}: {words[0]!r} is no number with a decimal {sign}; leave --decimal {decimal} out: "
            "each column tells its own"
        )
    by_rows = 2 * int(counts[best].sum()) > int(counts.sum())
    if by_rows or 2 * sum(best) > max(len(words), 2 * FEW):
        at = int(np.flatnonzero(np.array([*best, True])[place] == 0)[0])
        most = "most of the column is" if by_rows else "most of its different values are"
        raise TableError(
            f"{what}, row {rows[at] + 1}: {words[place[at]]!r} is not a finite number, as {most}; correct it, {remedy}"
        )
    return None


def _number(name: str, values: Floats, spelling: Spelling, trusted: bool) -> Column | None:
    known = values[~np.isnan(values)]
    if not len(known):
        raise TableError(
            f"column {name!r} has no value in the training rows; leave it out with --drop {on_line(name)}"
        )
    least, most = float(known.min()), float(known.max())
    if least == most:
        return None
    if max(most, -least) > SINGLE:
        raise TableError(
            f"column {name!r} holds {max(most, -least):g}, too large a number to compute with; correct it, or leave "
            f"the column out with --drop {on_line(name)}"
        )
    if too_narrow(least, most):
        raise TableError(
            f"column {name!r} varies by {most - least:.2g}, too little to compute with; give it in a smaller unit, or "
            f"leave it out with --drop {on_line(name)}"
        )
    if not trusted and (why := guises.identifier(name, known)):
        raise TableError(
            f"column {name!r} {why}; an identifier teaches nothing about new rows: leave it out with "
            f"--drop {on_line(name)}, or insist with --use {on_line(name)}"
        )
    if not trusted and (form := guises.date_format(known)):
        how = on_line(name if form in cells.FORMATS else f"{name}:{form}")
        raise TableError(
            f"column {name!r} holds dates ({most:.0f}): use their parts (year, month, day, weekday, hour) with --date "
            f"{how}, leave the column out with --drop {on_line(name)}, or insist on numbers with --use "
            f"{on_line(name)}"
        )
    # an element of the column, not a mean of two: whole numbers stay whole
    middle, *quantiles = np.quantile(known, (0.5, *QUANTILES), method="lower").tolist()
    return Column(name, "number", (), repr(middle), tuple((q,) for q in dict.fromkeys(quantiles)), spelling)


def too_wide(least: float, most: float) -> bool:
    """Whether there are numbers that cannot be computed with."""
    return max(abs(least), abs(most)) > LARGEST


def too_narrow(least: float, most: float) -> bool:
    """Whether numbers vary, but by so little that it cannot be computed with."""
    return 0 < most - least < LEAST_SPREAD


def _category(name: str, place: npt.NDArray[np.int64], words: list[str], trusted: bool) -> Column | None:
    if len(words) == 1:
        return None
    present = place[place >= 0]
    if len(words) > LEVELS or (not trusted and len(words) > FEW):
        measured = numbers_with_unit(words)
        if measured:
            insist = f", or insist on words with --use {on_line(name)}" if len(words) <= LEVELS else ""
            raise TableError(
                f"column {name!r} holds {measured}: write the numbers alone, or leave the column out with --drop "
                f"{on_line(name)}{insist}"
            )
    if len(words) > LEVELS or (not trusted and len(words) > max(FEW, len(present) // 2)):
        _check_times(name, words)
        raise TableError(
            f"column {name!r} holds text with {len(words)} different values in {len(present)} rows; that is a name "
            f"rather than a category: leave it out with --drop {on_line(name)}"
        )
    counts = np.bincount(present, minlength=len(words))
    levels = tuple(sorted(words))
    often = min(levels, key=lambda word: -counts[words.index(word)])
    return Column(name, "category", levels, often)


def numbers_with_unit(words: Sequence[str]) -> str:
    """That the words are numbers which all have the same word or sign beside them, or nothing.

    >>> numbers_with_unit(["1.2 kg", "3 kg"]), numbers_with_unit(["12a", "12b"])
    ("numbers with 'kg' behind each ('1.2 kg')", '')
    """
    for form, unit, side in ((_MEASURED, 2, "behind"), (_PRICED, 1, "before")):
        parts = [form.fullmatch(word.strip()) for word in words]
        units = {part[unit].strip() for part in parts if part is not None}
        if all(parts) and len(units) == 1:
            return f"numbers with {units.pop()!r} {side} each ({words[0]!r})"
    return ""


def _check_times(name: str, words: Sequence[str]) -> None:
    """Times of the day that are too many to be categories."""
    for form in cells.TIMES:
        if all(cells.parsed(word, form) is not None for word in words):
            raise TableError(
                f"column {name!r} holds times of the day ({words[0]!r}): use the hour with --date "
                f"{on_line(f'{name}:{form}')}, or leave the column out with --drop {on_line(name)}"
            )


def _check_dates(name: str, words: Sequence[str]) -> None:
    if cells.formats(words):
        raise TableError(
            f"column {name!r} holds dates ({words[0]!r}): use their parts (year, month, day, weekday, hour) with "
            f"--date {on_line(name)}, or leave the column out with --drop {on_line(name)}"
        )


def _date(name: str, cell: Any, rows: Rows, form: str | None, wanted: bool) -> Column | None:
    if not wanted:
        raise TableError(
            f"column {name!r} holds dates: use their parts (year, month, day, weekday, hour) with --date "
            f"{on_line(name)}, or leave the column out with --drop {on_line(name)}"
        )
    if not form and not cells.is_date(cell):
        form = _format(name, cells.texts(cell)[1])
    moments, bad = cells.dates(cell, form or "")
    if bad.any():
        at = int(bad.argmax())
        raise TableError(
            f"column {name!r}, row {rows[at] + 1}: {cell[at].as_py()!r} is not a date like {form}"
        )
    known = np.sort(moments[~np.isnat(moments)])
    if len(np.unique(known)) < 2:
        return None
    whole = cells.parts(known, cells.PARTS)
    varied = tuple(p for p, values in zip(cells.PARTS, whole.T, strict=True) if len(np.unique(values)) > 1)
    places = [int(q * (len(known) - 1)) for q in QUANTILES]
    values = cells.parts(known[places], varied)
    fill = str(known[(len(known) - 1) // 2])
    return Column(
        name,
        "date",
        (),
        fill,
        tuple(map(tuple, values.tolist())),
        format=form or "",
        parts=varied,
        zoned=bool(cells.zones(cell, form or "")[0].any()),
    )


def _format(name: str, words: Sequence[str]) -> str:
    ways = cells.formats(words)
    if not ways:
        raise TableError(
            f"column {name!r}: {words[0]!r} and the others are not all dates in one format; say which, as in "
            f'--date "{name}:%d.%m.%Y"'
        )
    different = [w for w in words if len({cells.parsed(w, form) for form in ways}) > 1]
    if different:
        raise TableError(
            f'column {name!r}: {different[0]!r} may be {" or ".join(ways)}; say which, as in --date "{name}:{ways[0]}"'
        )
    return ways[0]


def check_range(columns: Sequence[Column], X: Floats, largest: float = SINGLE, first_row: int = 1) -> None:
    """A TableError that names the column of a number that the model's precision, up to `largest`, cannot hold."""
    with np.errstate(invalid="ignore"):
        over = np.abs(X) > min(largest, LARGEST)
    if over.any():
        row, at = (int(i) for i in np.argwhere(over)[0])
        where = next(c for c, s in zip(columns, features(columns), strict=True) if s.start <= at < s.stop)
        raise TableError(
            f"column {where.name!r}, row {first_row + row}: {X[row, at]:g} is too large a number for the model; "
            "correct it"
        )
