"""The sine example: y = sin 2x + 0.1 noise is seen for x in [-3, -1] and [1, 3]; what of the gap, and far away?"""

from __future__ import annotations

import numpy as np

from cbdl.studies.methods.tables import Table
from cbdl.studies.tables import credal
from cbdl.studies.tables.contestant import Task
from cbdl.studies.tables.scores import ALPHA, Numbers
from cbdl.tables.files import Floats

NAME = "sine"
ROWS = 200
NOISE = 0.1
PLACES = {
    "data": ((-3.0, -1.0), (1.0, 3.0)),
    "gap": ((-0.5, 0.5),),
    "far": ((-6.0, -5.0), (5.0, 6.0)),
}
"""Where widths are looked at."""


def task(seed: int, short: bool) -> Task:
    """The rows to learn from; there are no test rows."""
    source = np.random.default_rng(seed)
    x = source.uniform(1.0, 3.0, ROWS) * np.where(np.arange(ROWS) % 2 == 0, 1.0, -1.0)
    y = np.sin(2 * x) + NOISE * source.standard_normal(ROWS)
    X = x[:, None]
    table = Table(NAME, "real", f"{ROWS} rows, one feature, made", X, y, X[:0], y[:0])
    return Task(table.first(60) if short else table, seed, short)


def run(given: Task) -> dict[str, Numbers]:
    """Mean widths of 95 % intervals in each place, calibrated and plain."""
    estimator, seconds = credal.fitted(given, given.table.X, given.table.y)
    rows: dict[str, Numbers] = {credal.NAME: {"fit_seconds": seconds}, credal.PLAIN: {}}
    for place, ranges in PLACES.items():
        X = _grid(ranges, 4 if given.short else 50)
        for row, how in ((credal.NAME, {}), (credal.PLAIN, {"calibration": None})):
            lower, upper = estimator.predict_interval(X, ALPHA, **how)
            rows[row][place] = float(np.mean(upper - lower))
    return rows


def _grid(ranges: tuple[tuple[float, float], ...], points: int) -> Floats:
    return np.concatenate([np.linspace(low, high, points) for low, high in ranges])[:, None]
