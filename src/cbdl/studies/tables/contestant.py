"""What takes part in the comparison: a name, the tables it is for, the version of what is behind it, and its run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import torch

import cbdl
from cbdl.studies.methods.tables import Table
from cbdl.studies.study import Profile
from cbdl.studies.tables.foreign import scrambled, shifted
from cbdl.studies.tables.scores import Numbers
from cbdl.studies.tables.sources import Kind
from cbdl.tables.files import Floats

MEASURES = tuple(f"studies/tables/{name}.py" for name in ("contestant", "foreign", "scores", "sources"))
"""The code that decides what is measured, whoever takes part."""
ROWS = 500
"""At most so many test rows, the first, are made into foreign rows."""


@dataclass(frozen=True)
class Task:
    """One run: a split, the model's seed, whether it is a moment's run, and how features are scrambled."""

    table: Table
    seed: int
    short: bool = False
    pixels: bool = False

    @property
    def unit(self) -> float:
        """The standard deviation of the training targets, in which widths are said."""
        return float(self.table.y.std())

    @property
    def clean(self) -> Floats:
        """The test rows that foreign rows are made from and compared with."""
        return self.table.X_test[:ROWS]

    def foreign(self) -> dict[str, Floats]:
        """Rows that the model has not been trained for, by name."""
        return {
            "shifted": shifted(self.clean, self.table.X),
            "scrambled": scrambled(self.clean, self.seed, self.pixels),
        }


@dataclass(frozen=True)
class Contestant:
    """`run` gives one or more rows of the table, by name; `version` says what is behind them, None: not installed."""

    name: str
    kinds: tuple[Kind, ...]
    run: Callable[[Task], dict[str, Numbers]]
    version: Callable[[], str | None]
    profiles: tuple[Profile, ...] = ("smoke", "cpu", "paper")
    tables: tuple[str, ...] = ()
    """Tables that it is confined to; empty: all of its kinds."""
    most: int | None = None
    """Training rows above which it is left out of the profile "cpu"; None: never."""
    splits: int | None = None
    """Splits of a table on which it is run in the profile "cpu"; None: all that the profile has."""


class Stopped(RuntimeError):
    """A run that was given up; the message says why."""


@cache
def code(*rooms: str) -> str:
    """The package's version and a digest of the Python files of some of its rooms: other code, other results.

    >>> code("recipe.py") == code("recipe.py") != code("recipe.py", "model.py")
    True
    """
    home, digest = Path(cbdl.__file__).parent, hashlib.sha256()
    for room in rooms:
        place = home / room
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(path.relative_to(home).as_posix().encode())
            digest.update(path.read_bytes())
    return f"{cbdl.__version__}+{digest.hexdigest()[:12]}, torch {torch.__version__}"


def versions(*rooms: str) -> Callable[[], str]:
    """`code` of these rooms and of what is measured, when it is asked for."""
    return partial(code, *rooms, *MEASURES)
