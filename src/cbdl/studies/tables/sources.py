"""The tables of the study and their splits: those of the UCI repository as supplied, others by fixed seeds.

A category becomes one column of 0 and 1 per level of the whole table; a missing value becomes the median or the most
frequent value of the training rows. Nothing else is done to the rows: the models standardise by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_friedman1,
)
from sklearn.model_selection import train_test_split

from cbdl.data import folder
from cbdl.studies.methods.tables import Table
from cbdl.tables.columns import Column, encode, learn_columns
from cbdl.tables.files import Chunk, read

Kind = Literal["real", "classes"]
TEST = 0.2
"""The share of test rows where no split is supplied."""
AIRFOIL_SPLIT = 42
"""The seed of the one split of the airfoil table; its repetitions differ by the model's seed alone."""
UCI = {
    "energy": ("energy", 20),
    "concrete": ("concrete", 20),
    "wine": ("wine-quality-red", 20),
    "power": ("power-plant", 20),
    "protein": ("protein-tertiary-structure", 5),
}
"""Name -> its folder, and how many splits are supplied."""
CLASSES = ("breast-cancer", "german", "glass", "horse-colic", "ionosphere", "phoneme", "pima")
FILES = {"pima": "pima-indians-diabetes"}
"""Tables whose file has another name."""
OWN: dict[str, tuple[Kind, Callable[..., Any]]] = {
    "diabetes": ("real", load_diabetes),
    "iris": ("classes", load_iris),
    "wine-cultivars": ("classes", load_wine),
    "breast-tumours": ("classes", load_breast_cancer),
    "digits": ("classes", load_digits),
}
"""Tables that come with scikit-learn."""
MANY = "friedman"
"""50,000 made rows with 10 features: how long a large table takes."""


@dataclass(frozen=True)
class Source:
    """A table: where it comes from, how many splits (or repetitions) it has, and how one is read."""

    name: str
    kind: Kind
    splits: int
    load: Callable[[int], Table]
    path: Path | None = None
    """What must be there to read it; None: nothing."""
    pixels: bool = False
    """Whether the features of a row are of one kind, so that scrambling reorders them within the row."""
    alone: bool = False
    """Whether only the default model is run on it."""

    @property
    def there(self) -> bool:
        return self.path is None or self.path.exists()


def sources(where: Path | None = None) -> dict[str, Source]:
    """All tables by name; `where` is the folder of data sets."""
    place = folder(where)
    uci = [
        Source(name, "real", count, partial(_uci, name, place / "uci" / own), place / "uci" / own)
        for name, (own, count) in UCI.items()
    ]
    files = {name: place / "tables" / f"{FILES.get(name, name)}.csv" for name in ("airfoil", *CLASSES)}
    airfoil = Source("airfoil", "real", 5, partial(_airfoil, files["airfoil"]), files["airfoil"])
    classes = [
        Source(name, "classes", 10, partial(_classes, name, files[name]), files[name]) for name in CLASSES
    ]
    own = [
        Source(name, kind, 10, partial(_own, name), pixels=name == "digits")
        for name, (kind, _) in OWN.items()
    ]
    simulated = Source(MANY, "real", 1, _friedman, alone=True)
    return {source.name: source for source in (*uci, airfoil, *classes, *own, simulated)}


# --- one split ----------------------------------------------------------------------------------------------


def _uci(name: str, place: Path, split: int) -> Table:
    rows = np.loadtxt(place / "data.txt")
    X = rows[:, _places(place / "index_features.txt")]
    y = rows[:, int(_places(place / "index_target.txt")[0])]
    train, test = (_places(place / f"index_{part}_{split}.txt") for part in ("train", "test"))
    source = f"{len(X):,} rows, {X.shape[1]} features, UCI, supplied splits"
    return Table(name, "real", source, X[train], y[train], X[test], y[test])


def _places(path: Path) -> Any:
    return np.atleast_1d(np.loadtxt(path)).astype(int)


def _airfoil(path: Path, repetition: int) -> Table:
    """Always the same rows, in units of the training rows; the repetition is the model's seed."""
    table = read(path)
    y, X = (
        np.array(table["target"], dtype=float),
        np.array([table[c] for c in table if c != "target"], float).T,
    )
    X, X_test, y, y_test = train_test_split(X, y, test_size=TEST, random_state=AIRFOIL_SPLIT)
    X, X_test = ((part - X.mean(0)) / X.std(0) for part in (X, X_test))
    y, y_test = ((part - y.mean()) / y.std() for part in (y, y_test))
    source = f"{len(y) + len(y_test):,} rows, 5 features, UCI, one split, in units of the training rows"
    return Table("airfoil", "real", source, X, y, X_test, y_test)


def _classes(name: str, path: Path, split: int) -> Table:
    table = read(path)
    labels, y = np.unique(table["target"], return_inverse=True)
    train, test = train_test_split(np.arange(len(y)), test_size=TEST, random_state=split, stratify=y)
    X = encode(_columns(table, train), table)
    source = f"{len(y):,} rows, {len(table) - 1} columns, {len(labels)} classes, stratified splits"
    return Table(name, "classes", source, X[train], y[train], X[test], y[test])


def _columns(table: Chunk, train: Sequence[int]) -> tuple[Column, ...]:
    """The columns with all their levels; what stands for a missing value is learned from the training rows."""
    names = [name for name in table if name != "target"]
    learned = learn_columns({name: [table[name][i] for i in train] for name in names}, names, impute=True)
    return tuple(
        replace(column, fill=own.fill)
        for column, own in zip(learn_columns(table, names, impute=True), learned, strict=True)
    )


def _own(name: str, split: int) -> Table:
    kind, load = OWN[name]
    X, y = load(return_X_y=True)
    strata = y if kind == "classes" else None
    X, X_test, y, y_test = train_test_split(X, y, test_size=TEST, random_state=split, stratify=strata)
    outcome = f"{int(y.max()) + 1} classes" if kind == "classes" else "a number"
    source = f"{len(y) + len(y_test):,} rows, {X.shape[1]} features, {outcome}, comes with scikit-learn, own splits"
    return Table(name, kind, source, X, y, X_test, y_test)


def _friedman(split: int) -> Table:
    X, y = make_friedman1(51_000, 10, noise=1.0, random_state=split)
    source = "50,000 training rows, 10 features, made (Friedman 1, noise of 1)"
    return Table(MANY, "real", source, X[:50_000], y[:50_000], X[50_000:], y[50_000:])
