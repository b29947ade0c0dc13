"""Folders of tables to answer, and models that answer them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from cbdl.bayes.priors import Normal
from cbdl.tables import learning

ROUNDING = 2e-5
"""Relative and absolute: networks are evaluated in single precision (eps 6e-8), whose rounding depends on
the threads; a few dozen operations and the logarithms of entropies stay below a few hundred eps."""

ENDS, STEP = ("decision", "lower", "upper"), 0.011
"""What is in the unit of outcomes, and the distance of the places at which it is written."""


def columns(rows: int, seed: int) -> dict[str, np.ndarray]:
    x, z = np.random.default_rng(seed).normal(size=(2, rows))
    return {"x": x, "z": z}


def model(place: Path, task: str = "classes") -> Path:
    """A small model, trained for a moment."""
    own = columns(80, 0)
    score = own["x"] + own["z"]
    y = np.where(score > 0, "yes", "no") if task == "classes" else score
    pa.csv.write_csv(pa.table({**own, "y": y}), place / "train.csv")
    settings = learning.Settings(
        "y", priors=(Normal(0, 1), Normal(0, 3)), nets=((8,),), steps=60, plausible=0, calibration=None
    )
    learning.fit(place / "train.csv", place / "model", settings, verbose=False)
    return place / "model"


def write(path: Path, rows: int, seed: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    table = pa.table(columns(rows, seed))
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        pa.parquet.write_table(table, path)
    return path


def read(path: Path) -> pa.Table:
    return pa.csv.read_csv(path) if path.suffix == ".csv" else pa.parquet.read_table(path)


def assert_same(ours: Path, theirs: Path) -> None:
    """The same answers, to rounding: every row once and in order."""
    a, b = read(ours), read(theirs)
    assert a.column_names == b.column_names
    assert a["row"].to_pylist() == list(range(1, len(b) + 1))
    for name in a.column_names:
        if pa.types.is_floating(a[name].type):
            ours_, theirs_ = a[name].to_numpy(), b[name].to_numpy()
            near = np.isclose(ours_, theirs_, rtol=ROUNDING, atol=ROUNDING)
            if name in ENDS:  # written on a grid: a number between two of its places goes to either
                assert near.mean() > 0.99
                np.testing.assert_allclose(ours_, theirs_, rtol=0, atol=STEP)
            else:
                assert near.all()
        elif name != "set":
            assert a[name].to_pylist() == b[name].to_pylist()
