"""Numbers that are none: identifiers, dates and moments, and marks for missing values, told by the values of a column.

What is as good as certain is refused where it is found; of the rest a person is told, and the numbers stay numbers.
"""

from __future__ import annotations

import re

import numpy as np

from cbdl.tables.errors import many, on_line
from cbdl.tables.files import Floats

RUN = 10
"""Rows from which on the numbers 0, 1, 2, ... in order are taken for those of the rows, and others for dates."""
_IDENTIFIER = re.compile(r"(?i)^(id|uuid|guid|index|row|unnamed: ?\d*|.*[ _-]id|.*Id)$")
UNIX = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
"""Units of Unix time, and how many of them are a second."""
FIRST, LAST = (float(np.datetime64(f"{year}-01-01", "s").astype(np.int64)) for year in (2000, 2040))
"""Seconds between which whole columns are taken for Unix time: few other columns keep within a factor of 2.4."""
MARKS = np.array([*(1.0 - 10.0 ** np.arange(2, 10)), *(10.0 ** np.arange(3, 10) - 1.0)])
"""What programs write for a missing number: -99, -999, ..., and 999, 9999, ..."""
FAR = 3.0
"""A mark is further from all other numbers than so many times what they span; or it alone is below 0."""


def identifier(name: str, values: Floats) -> str:
    """Why whole numbers, all different, are taken for an identifier: they count the rows from 0 or 1, or their name
    says so; nothing if they are none."""
    if len(values) < RUN or not np.all(values == np.round(values)):
        return ""
    ordered = np.unique(values)
    if len(ordered) < len(values):
        return ""
    # training rows are a part of the table, in its order: they leave gaps
    counts = ordered[0] >= 0 and ordered[-1] <= 2 * len(values) and bool(np.all(np.diff(values) > 0))
    if counts:
        return "numbers the rows"
    return (
        "looks like an identifier by its name and its whole numbers, all different"
        if _IDENTIFIER.match(name)
        else ""
    )


def date_format(values: Floats) -> str:
    """How all the numbers are written if they are dates, as 20260131 or with the time of the day behind; else nothing.

    >>> date_format(np.arange(20260111.0, 20260131)), date_format(np.arange(20260131120000.0, 20260131120020))
    ('%Y%m%d', '%Y%m%d%H%M%S')
    """
    if len(values) < RUN or not np.all(values == np.round(values)):
        return ""
    for form, clock in (("%Y%m%d", ()), ("%Y%m%d%H%M", (60, 24)), ("%Y%m%d%H%M%S", (60, 60, 24))):
        day, valid = values, np.ones(len(values), dtype=bool)
        for most in clock:
            day, valid = day // 100, valid & (day % 100 < most)
        month, number = day // 100 % 100, day % 100
        valid &= (day >= 19000101) & (day <= 21001231)
        if np.all(valid & (month >= 1) & (month <= 12) & (number >= 1) & (number <= 31)):
            return form
    return ""


def remarks(name: str, values: Floats) -> list[str]:
    """What a person should know of the numbers of a column."""
    own = values[~np.isnan(values)]
    use = f"--use {on_line(name)}"
    notes = []
    if unit := unix_unit(own):
        days = (np.array([own.min(), own.max()]) / UNIX[unit]).astype("datetime64[s]").astype("datetime64[D]")
        notes.append(
            f"column {name!r} may hold Unix time in {unit} (from {days[0]} to {days[1]}) and is learned from as a "
            "number: write dates and use their parts with --date, leave it out with "
            f"--drop {on_line(name)}, or insist on numbers with {use}"
        )
    if marks := missing_marks(own):
        notes.append(
            f"column {name!r}: {marks}, unlike all other numbers, may stand for missing values; leave such cells "
            f"empty if they do, or insist on numbers with {use}"
        )
    return notes


def unix_unit(values: Floats) -> str:
    """The unit in which all the numbers are Unix time of this age, or nothing.

    >>> unix_unit(1.7e9 + 3600 * np.arange(24)), unix_unit(1.7e12 + 60000 * np.arange(24)), unix_unit(np.arange(24.0))
    ('seconds', 'milliseconds', '')
    """
    least, most = (values.min(), values.max()) if len(values) else (0.0, 0.0)
    unit = next((unit for unit, size in UNIX.items() if least >= FIRST * size and most < LAST * size), "")
    whole = unit and len(np.unique(values)) >= RUN and np.all(values == np.round(values))
    return unit if whole else ""


def missing_marks(values: Floats) -> str:
    """Numbers such as -999 that may stand for missing ones, and in how many rows they do; or nothing.

    >>> missing_marks(np.array([0.2, 0.7, -999, 0.5, -999, 0.1, 0.3, 0.9, 0.4, 0.8]))
    '-999 in 2 rows'
    """
    nines = np.isin(values, MARKS)
    rest = values[~nines]
    if len(values) < RUN or not nines.any() or not len(rest) or rest.min() == rest.max():
        return ""
    own, counts = np.unique(values[nines], return_counts=True)
    least, most = rest.min(), rest.max()
    far = np.maximum(least - own, own - most) > FAR * (most - least)
    marks = (counts > 1) & (far | ((own < 0) & (least >= 0)))
    return ", ".join(
        f"{v:.0f} in {many(int(n), 'row')}" for v, n in zip(own[marks], counts[marks], strict=True)
    )
