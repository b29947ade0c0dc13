"""Missing values of the rows that a model is trained on: which columns have them, and which words are read as such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cbdl.tables import cells
from cbdl.tables.encoding import Column
from cbdl.tables.errors import TableError, many, named, on_line
from cbdl.tables.files import Chunk


def check_missing(table: Chunk, names: Sequence[str], impute: bool) -> None:
    """One TableError that names all columns in which values are missing, unless they are filled in; and those without
    any value."""
    gone = {name: np.flatnonzero(cells.missing(table[name])) for name in names}
    size = len(next(iter(table.values())))
    void = [name for name, at in gone.items() if len(at) == size]
    if void:
        drop = " ".join(f"--drop {on_line(name)}" for name in void)
        one = len(void) == 1
        raise TableError(
            f"{'column' if one else 'columns'} {named(void)} {'has' if one else 'have'} no value at all; leave "
            f"{'it' if one else 'them'} out with {drop}"
        )
    some = {name: at for name, at in gone.items() if len(at)}
    if some and not impute:
        each = [
            f"column {name!r} has {many(len(at), 'missing value')} ({_first(at)})"
            for name, at in some.items()
        ]
        told = (
            f"{each[0]}. "
            if len(each) == 1
            else "\n".join([f"{len(each)} columns have missing values:", *each, ""])
        )
        raise TableError(
            f"{told}Remove the rows, leave columns out with --drop, or add --impute to fill in the median or the "
            f"most frequent value{read_as_missing(*(table[name] for name in some))}"
        )


def filled_words(table: Chunk, columns: Sequence[Column], constant: Sequence[str]) -> list[str]:
    """Which words of categories were read as missing values and filled in: somebody may have meant a level by them."""
    fills = {c.name: f"filled in with {c.fill!r} (--impute)" for c in columns if c.kind == "category"}
    alone = [name for name in constant if cells.plain_numbers(table[name]) is None]
    notes = []
    for name, what in (fills | dict.fromkeys(alone, "filled in with the only other one")).items():
        words = cells.words_for_missing(table[name])
        if words:
            verb = "is read as a missing value" if len(words) == 1 else "are read as missing values"
            notes.append(
                f"column {name!r}: {named(sorted(words))} in {many(sum(words.values()), 'row')} {verb} and {what}; "
                "if a category is meant, give it another name in the table"
            )
    return notes


def read_as_missing(*columns: Any) -> str:
    """That words of these columns are read as missing values, where some are: one may have meant a category by them."""
    words = {word for column in columns for word in cells.words_for_missing(column)}
    return f". Words that are read as missing values: {named(sorted(words))}" if words else ""


def _first(at: npt.NDArray[np.intp]) -> str:
    numbers = ", ".join(str(i + 1) for i in at[:3].tolist()) + (", ..." if len(at) > 3 else "")
    return f"{'row' if len(at) == 1 else 'rows'} {numbers}"
