"""The tables of the study: one with a supplied split, one simulated, two that come with scikit-learn."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.datasets import load_diabetes, load_digits, load_wine

from cbdl.tables.files import Floats

VARIABLE = "CBDL_DATA"
"""The environment variable that names a folder with `uci/energy`."""


@dataclass(frozen=True)
class Table:
    """Rows to learn from and rows to be asked about."""

    name: str
    kind: Literal["real", "classes"]
    source: str
    X: Floats
    y: Any
    X_test: Floats
    y_test: Any

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1

    def first(self, rows: int) -> Table:
        """The same with fewer rows, for a moment's run."""
        X, y = self.X[:rows], self.y[:rows]
        return Table(self.name, self.kind, self.source, X, y, self.X_test[:rows], self.y_test[:rows])


def tables(seed: int) -> list[Table]:
    """All tables; `seed` picks the split."""
    hulls, answers = hull()
    return [
        energy(seed),
        _split(
            "hull",
            "real",
            "308 rows, simulated like the yacht data: 22 hulls, 14 speeds",
            hulls,
            answers,
            0.1,
            seed,
        ),
        _split("wine", "classes", "178 rows, 13 features, 3 classes, with scikit-learn", *_wine(), 0.3, seed),
        _split(
            "digits",
            "classes",
            "1,797 rows, 64 features, 10 classes, with scikit-learn",
            *_digits(),
            0.2,
            seed,
        ),
    ]


def _wine() -> tuple[Floats, Any]:
    X, y = load_wine(return_X_y=True)
    return X, y


def _digits() -> tuple[Floats, Any]:
    X, y = load_digits(return_X_y=True)
    return X, y


def energy(seed: int) -> Table:
    """Split number `seed` modulo 20 of the energy data, where they are; else scikit-learn's diabetes data."""
    folder = Path(os.environ.get(VARIABLE, "")) / "uci" / "energy"
    if VARIABLE not in os.environ or not folder.is_dir():
        X, y = load_diabetes(return_X_y=True, scaled=False)
        source = f"442 rows, 10 features, with scikit-learn ({VARIABLE} is not set, so not the energy data)"
        return _split("diabetes", "real", source, X, y, 0.2, seed)
    rows = np.loadtxt(folder / "data.txt")
    X = rows[:, _numbers(folder / "index_features.txt")]
    y = rows[:, int(_numbers(folder / "index_target.txt")[0])]
    number = seed % 20
    train, test = (_numbers(folder / f"index_{part}_{number}.txt") for part in ("train", "test"))
    source = f"768 rows, 8 features, UCI, supplied split {number}"
    return Table("energy", "real", source, X[train], y[train], X[test], y[test])


def _numbers(path: Path) -> Any:
    return np.atleast_1d(np.loadtxt(path)).astype(int)


def hull() -> tuple[Floats, Floats]:
    """Drag of 22 hulls at 14 speeds: it rises with the sixth power of the speed, by a factor that the shape decides.

    Always the same 308 rows; the noise is 1 per cent and 0.02 units.
    """
    source = np.random.default_rng(0)
    shapes, speeds = source.uniform(-1, 1, (22, 5)), np.linspace(0.125, 0.45, 14)
    X = np.column_stack([np.repeat(shapes, 14, 0), np.tile(speeds, 22)])
    factor = 1 + 0.15 * np.sin(2 * X[:, 0]) + 0.1 * X[:, 1] * X[:, 2] + 0.1 * X[:, 3]
    drag = 60 * factor * (X[:, 5] / 0.45) ** 6 + (2 + X[:, 4]) * X[:, 5] ** 2
    noise = source.standard_normal((2, len(X)))
    return X, drag * (1 + 0.01 * noise[0]) + 0.02 * noise[1]


def _split(
    name: str, kind: Literal["real", "classes"], source: str, X: Floats, y: Any, share: float, seed: int
) -> Table:
    order = np.random.default_rng(seed).permutation(len(X))
    test, train = np.split(order, [round(share * len(X))])
    return Table(name, kind, source, X[train], y[train], X[test], y[test])
