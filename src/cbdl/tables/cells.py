"""What cells mean: missing values, numbers as people spell them, dates.

A column has one spelling: "1234.5", "1.234,5", "$1,234.50" and "12 %" are all numbers, if the whole column is written
that way. It is learned once and then asked for, so that a new table is read the same way or refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from math import isfinite
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cbdl.tables.files import Floats

MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "none", "?"})
"""What stands for a missing value, in small or capital letters."""
Decimal = Literal[".", ","]
UNITS = ("%", "$", "€", "£", "¥")
_GROUPS = r"[1-9]\d{{0,2}}(?:{sign}\d{{3}})+"
_SPACE = "[ '\u00a0\u202f]"


def _body(decimal: str, thousand: str) -> re.Pattern[str]:
    groups = "|".join(_GROUPS.format(sign=sign) for sign in (thousand, _SPACE))
    return re.compile(rf"(?:\d+|{groups})?(?:{decimal}\d*)?(?:[eE][-+]?\d+)?")


_BODY = {".": _body(r"\.", ","), ",": _body(",", r"\.")}
"""Digits without their sign: with a point, thousands set apart by commas; with a comma, by points; or by spaces."""
FORMATS = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M:%S.%f",
    "%Y-%m-%d %H:%M:%S%z",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M:%S.%f",
    "%Y-%m-%dT%H:%M:%S%z",
    "%Y-%m-%dT%H:%M:%S.%f%z",
    "%Y%m%d",
    *(
        f"{day}{time}"
        for day in (
            "%Y/%m/%d",
            "%d.%m.%Y",
            "%d/%m/%Y",
            "%m/%d/%Y",
            "%d-%m-%Y",
            "%m-%d-%Y",
            "%d.%m.%y",
            "%d/%m/%y",
            "%m/%d/%y",
            "%d %b %Y",
            "%d-%b-%Y",
            "%d %B %Y",
            "%b %d, %Y",
            "%B %d, %Y",
        )
        for time in ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
    ),
)
"""Ways to write a date that are told by themselves."""
TIMES = ("%H:%M", "%H:%M:%S")
"""Ways to write a time of the day."""
ISO = tuple(form for form in FORMATS if form.startswith("%Y-"))
"""Those in which a column that held dates, not text, is read from a file of text."""

UTCS = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")
"""Names of UTC."""


@dataclass(frozen=True)
class Spelling:
    """How the numbers of a column are written: the decimal sign, and a unit that stands at every one."""

    decimal: Decimal = "."
    unit: str = ""

    def number(self, text: str) -> float | None:
        """The finite number that `text` spells, or None.

        >>> Spelling(",").number("1.234,5"), Spelling(".", "$").number("-$1,234.50"), Spelling().number("12 %")
        (1234.5, -1234.5, None)
        """
        plain = as_number(text) if self == Spelling() else None
        if plain is not None:
            return plain
        digits, unit = _without_unit(text)
        sign = -1.0 if digits[:1] in ("-", "\u2212") else 1.0
        digits = digits.lstrip("-+\u2212").strip()
        if unit != self.unit or not any(c.isdigit() for c in digits):
            return None
        if not _BODY[self.decimal].fullmatch(digits):
            return None
        digits = re.sub(_SPACE, "", digits)
        other = "," if self.decimal == "." else "."
        number = as_number(digits.replace(other, "").replace(self.decimal, "."))
        return None if number is None else sign * number


PLAIN = Spelling()
"""As programs write numbers."""


def is_missing(value: str) -> bool:
    return value.strip().lower() in MISSING


def as_number(value: str) -> float | None:
    """The finite number that `value` spells as programs do, or None."""
    if "_" in value:  # Python's own thousands
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _without_unit(text: str) -> tuple[str, str]:
    """The text without its unit, and the unit: "-$1,200" gives "-1,200" and "$"."""
    body = text.strip()
    for unit in UNITS:
        if unit in body:
            left, right = body.split(unit, 1)
            if not left.strip(" -+\u2212\u00a0") or not right.strip():
                return left.strip() + right.strip(), unit
    return body, ""


def spellings(values: Iterable[str], decimal: Decimal | None = None) -> list[Spelling]:
    """The ways to read all the values as numbers; two if decimal point and thousands cannot be told apart.

    decimal: the decimal sign, if it is known

    >>> [s.decimal for s in spellings(["1,5", "1,234"])], [s.decimal for s in spellings(["1,234"])]
    ([','], ['.', ','])
    """
    listed = list(values)
    if all(as_number(v) is not None for v in listed):
        thousands = decimal == "," and all(Spelling(",").number(v) is not None for v in listed)
        return [Spelling("," if thousands else ".")]
    units = {_without_unit(v)[1] for v in listed}
    if len(units) != 1:
        return []
    (unit,) = units
    ways = [way for way in (Spelling(".", unit), Spelling(",", unit)) if decimal in (None, way.decimal)]
    read = [[way.number(v) for v in listed] for way in ways]
    whole = [way for way, numbers in zip(ways, read, strict=True) if None not in numbers]
    return whole[:1] if len(whole) == 2 and read[0] == read[1] else whole


# --- columns of cells -----------------------------------------------------------------------------------------


def is_text(column: Any) -> bool:
    """Whether a column holds text, or words by their numbers."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(column: Any) -> bool:
    """Whether a column holds bytes, or the like by their numbers."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def word_of(value: bytes) -> tuple[str, bool]:
    """Bytes as the text in UTF-8 that they are, as other programs keep words in Parquet, and True; or in hexadecimal
    digits.

    >>> word_of(b"a"), word_of(bytes([255, 0]))
    (('a', True), ('0xff00', False))
    """
    try:
        return value.decode(), True
    except UnicodeDecodeError:
        return f"0x{value.hex()}", False


def as_words(column: Any) -> tuple[Any, npt.NDArray[np.bool_]]:
    """A column of bytes as words, and (rows,) where they are no text."""
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    words = [(None, True) if value is None else word_of(value) for value in plain.to_pylist()]
    return pa.array([word for word, _ in words], pa.string()), np.array([not text for _, text in words], bool)


def texts(column: Any) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The words of a column: for each row the place of its word, -1 where it is missing; and the words, trimmed."""
    if is_bytes(column):
        column = as_words(column)[0]
    words = column if pa.types.is_dictionary(column.type) else _as_text(column).dictionary_encode()
    spelled = ["" if w is None else str(w).strip() for w in words.dictionary.to_pylist()]
    known: dict[str, int] = {}
    place = np.array([-1 if is_missing(w) else known.setdefault(w, len(known)) for w in spelled] + [-1])
    codes = words.indices.fill_null(len(spelled)).to_numpy(zero_copy_only=False)
    return place[codes], list(known)


def same_truth(words: Iterable[str]) -> dict[str, str]:
    """Other ways to write two words that mean true and false, to the words; pandas, databases and R have their own.

    >>> same_truth(["False", "True"])["TRUE"], same_truth(["no", "yes"])
    ('True', {})
    """
    plain = {word.lower(): word for word in words}
    if plain.keys() != {"true", "false"}:
        return {}
    return {way: word for lower, word in plain.items() for way in (lower, lower.title(), lower.upper())}


def is_date(column: Any) -> bool:
    """Whether a column holds moments or times of the day; lengths of time are numbers."""
    return bool(pa.types.is_temporal(column.type)) and not pa.types.is_duration(column.type)


def _as_text(column: Any) -> Any:
    if is_text(column):
        return column.cast(pa.string())
    if pa.types.is_boolean(column.type):  # as pandas and Python write them
        return pc.if_else(column, "True", "False")
    if pa.types.is_duration(column.type):
        return seconds(column).cast(pa.string())
    if pa.types.is_nested(column.type):
        return pa.array([None if v is None else str(v) for v in column.to_pylist()], pa.string())
    return column.cast(pa.string())


def seconds(column: Any) -> Any:
    """Lengths of time as numbers."""
    return pc.divide(column.cast(pa.duration("us"), safe=False).cast(pa.int64()), 1e6)


def plain_numbers(column: Any, decimal: Decimal | None = None) -> Floats | None:
    """All cells as numbers, nan where they are missing, if they are spelled as programs do; else None. Where `decimal`
    says that points are none, text is not spelled so."""
    if decimal == "," and is_text(column):
        return None
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_boolean(column.type) or is_date(column) or pa.types.is_nested(column.type):
        return None
    if pa.types.is_duration(column.type):
        column = seconds(column)
    if not is_text(column):
        try:
            return _finite(column.cast(pa.float64(), safe=False))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
    if pa.types.is_string_view(column.type):  # as polars has it; little can be done with it
        column = column.cast(pa.string())
    try:
        return _finite(column.cast(pa.float64()), text=True)
    except pa.ArrowInvalid:
        pass
    trimmed = pc.utf8_trim_whitespace(column)
    gone = pc.is_in(pc.utf8_lower(trimmed), pa.array(sorted(MISSING)))
    try:
        return _finite(pc.if_else(gone, pa.scalar(None, pa.string()), trimmed).cast(pa.float64()), text=True)
    except pa.ArrowInvalid:
        return None


def _finite(column: Any, text: bool = False) -> Floats | None:
    """nan stands for null (and for nan, where the column holds numbers); None if a number is not finite."""
    numbers: Floats = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    if np.isfinite(numbers).all():
        return numbers
    odd = ~np.isfinite(numbers) & (column.is_valid().to_numpy(zero_copy_only=False))
    if text and bool(odd.any()) and not np.isnan(numbers[odd]).all():
        return None
    return None if bool(np.isinf(numbers).any()) else numbers


def numbers(column: Any, spelling: Spelling) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """All cells as numbers, nan where they are missing; and where a cell is neither, whose number is nan too."""
    if not spelling.unit and (spelling.decimal == "." or not is_text(column)):
        quick = plain_numbers(column)
        if quick is not None:
            return quick, np.zeros(len(quick), dtype=bool)
    place, words = texts(column)
    read = [spelling.number(w) for w in words]
    values = np.array([np.nan if v is None else v for v in read] + [np.nan])
    bad = np.array([v is None for v in read] + [False])
    return values[place], bad[place]


def missing(column: Any) -> npt.NDArray[np.bool_]:
    """(rows,): where a value is missing."""
    quick = plain_numbers(column)
    return np.isnan(quick) if quick is not None else texts(column)[0] < 0


def words_for_missing(column: Any) -> dict[str, int]:
    """The words of a column that are read as missing values, such as "NA" and "none", and in how many rows each is."""
    if not is_text(column):
        return {}
    words = column if pa.types.is_dictionary(column.type) else _as_text(column).dictionary_encode()
    counts = np.bincount(words.indices.drop_null().to_numpy(), minlength=len(words.dictionary))
    spelled: dict[str, int] = {}
    for word, count in zip(words.dictionary.to_pylist(), counts.tolist(), strict=True):
        plain = "" if word is None else str(word).strip()
        if plain and count and is_missing(plain):
            spelled[plain] = spelled.get(plain, 0) + count
    return spelled


# --- dates ----------------------------------------------------------------------------------------------------


def formats(values: Sequence[str]) -> list[str]:
    """The ways to read all the values as dates."""
    # most words are no dates, which this tells sooner
    if not values or not any(c.isdigit() for c in values[0]):
        return []
    first = [form for form in FORMATS if parsed(values[0], form) is not None]
    return [form for form in first if all(parsed(v, form) is not None for v in values)]


@cache
def _moment(text: str, form: str) -> datetime | None:
    """The date that `text` spells, with its zone if it names one, or None. Without a form it is one of `ISO`."""
    for one in (form,) if form else ISO:
        with suppress(ValueError, re.error):  # no such date, or no such form
            return datetime.strptime(text, one)
    return None


def parsed(text: str, form: str) -> datetime | None:
    """The date that `text` spells, or None; in UTC if it names its zone. Without a form it is one of `ISO`."""
    moment = _moment(text, form)
    zoned = moment is not None and moment.tzinfo is not None
    return moment.astimezone(UTC).replace(tzinfo=None) if moment is not None and zoned else moment


def zones(column: Any, form: str) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """(rows,): where moments name their zone, and where it is another than UTC."""
    none = np.zeros(len(column), dtype=bool)
    if is_date(column):
        zone = getattr(column.type, "tz", None)
        return none | (zone is not None), none | (zone not in (None, *UTCS))
    if form and "%z" not in form:
        return none, none
    place, words = texts(column)
    moments = [_moment(word, form) for word in words]
    away = [None if moment is None else moment.utcoffset() for moment in moments]
    own = np.array([[gap is not None, bool(gap)] for gap in away] + [[False, False]])
    return own[place, 0], own[place, 1]


def dates(column: Any, form: str) -> tuple[npt.NDArray[np.datetime64], npt.NDArray[np.bool_]]:
    """(rows,): moments to the second, NaT where they are missing or none; and where they are none."""
    if pa.types.is_time(column.type):
        column = column.cast(pa.time32("s"), safe=False).cast(pa.int32()).cast(pa.int64())
        column = column.cast(pa.timestamp("s"))
    if is_date(column):
        naive = column.cast(pa.timestamp("s"), safe=False).to_numpy(zero_copy_only=False)
        return naive.astype("datetime64[s]"), np.zeros(len(column), dtype=bool)
    place, words = texts(column)
    read = [parsed(w, form) for w in words]
    moments = np.array([np.datetime64("NaT") if d is None else np.datetime64(d, "s") for d in read] + ["NaT"])
    bad = np.array([d is None for d in read] + [False])
    return moments.astype("datetime64[s]")[place], bad[place]


PARTS = ("year", "month", "day", "weekday", "hour")


def parts(moments: npt.NDArray[np.datetime64], names: Sequence[str]) -> Floats:
    """(rows, parts): the parts of dates, nan where there is none; Monday is 0."""
    months = moments.astype("datetime64[M]")
    days = moments.astype("datetime64[D]")
    whole: dict[str, Any] = {
        "year": lambda: moments.astype("datetime64[Y]").astype(np.float64) + 1970,
        "month": lambda: months.astype(np.float64) % 12 + 1,
        "day": lambda: (days - months).astype(np.float64) + 1,
        "weekday": lambda: (days.astype(np.float64) + 3) % 7,
        "hour": lambda: (moments - days).astype(np.float64) / 3600,
    }
    gone = np.isnat(moments)
    return np.stack([np.where(gone, np.nan, whole[name]()) for name in names], axis=1)
