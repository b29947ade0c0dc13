"""What can be wrong with a table, in words."""

from __future__ import annotations

import shlex


class TableError(ValueError):
    """A table that cannot be used as it is; the message names the column and the rows."""


class UsageError(TableError):
    """What was asked for is not there, or cannot be: a file, a column, a value on the command line."""


def many(count: int, what: str) -> str:
    """A count with its noun: "1 row", "2 rows"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def named(names: list[str], most: int = 8) -> str:
    """Names in a line, the first of them if they are many.

    >>> named(["a", "b", "c"], 2)
    "'a', 'b' and 1 more"
    """
    line = ", ".join(map(repr, names[:most]))
    return line if len(names) <= most else f"{line} and {len(names) - most} more"


def on_line(name: str) -> str:
    """A name as it is typed on the command line.

    >>> on_line("age"), on_line("age in years")
    ('age', "'age in years'")
    """
    return shlex.quote(name)
