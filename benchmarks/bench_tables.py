"""From file to answer: reading against the csv module, and the whole of `cbdl predict` against its networks alone."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import numpy as np

import cbdl
from benchmarks._table import Row, best_of
from cbdl import recipe
from cbdl.tables import answers, chunks, encode, learning, writing
from cbdl.tables.answers import Options, Trained

ROWS, NUMBERS, WORDS = 20_000, 17, 3
LEVELS = ("red", "green", "blue", "dark, grey")


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _write(place / "train.csv", 400, target=True)
        _write(place / "new.csv", ROWS, target=False)
        settings = learning.Settings("y", steps=200, plausible=0, calibration=None)
        learning.fit(place / "train.csv", place / "model", settings, verbose=False)
        return [_reading(place), _answering(place)]


def _reading(place: Path) -> Row:
    trained = Trained.load(place / "model")

    def ours() -> None:
        for chunk in chunks(place / "new.csv"):
            encode(trained.columns, chunk)

    return Row(
        f"a CSV file as numbers, {ROWS} x {NUMBERS + WORDS}",
        best_of(ours),
        "csv module and a loop over cells",
        best_of(lambda: _by_cell(place / "new.csv"), repeats=2),
        2,
        "one thread",
    )


def _answering(place: Path) -> Row:
    trained, double = Trained.load(place / "model"), cbdl.load(place / "model")
    whole = np.concatenate([encode(trained.columns, chunk) for chunk in chunks(place / "new.csv")])

    def ours() -> None:
        parts = answers.predict(trained, place / "new.csv", Options())
        writing.write((writing.rounded(part, None, None) for part in parts), place / "out.csv")

    def networks() -> None:
        for a in range(0, ROWS, 2048):
            double.predict(whole[a : a + 2048], recipe.DRAWS)

    seconds = best_of(ours, repeats=2)
    return Row(
        f"file to answers, {ROWS} x {NUMBERS + WORDS}, {len(LEVELS)} classes",
        seconds,
        "CBDL.predict of the same rows, in double precision",
        best_of(networks, repeats=2),
        1,
        f"{ROWS / seconds:,.0f} rows/s with {double.predict(whole[:1]).num_extremes} extremes of {recipe.DRAWS} draws",
    )


def _write(path: Path, count: int, *, target: bool) -> None:
    source = np.random.default_rng(0)
    x = source.normal(size=(count, NUMBERS))
    words = np.array(LEVELS)[source.integers(0, len(LEVELS), size=(count, WORDS))]
    label = np.array(LEVELS)[np.digitize(x[:, 0] + x[:, 1], [-1, 0, 1])]
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            [*(f"x{i}" for i in range(NUMBERS)), *(f"c{i}" for i in range(WORDS)), *(["y"] if target else [])]
        )
        for i in range(count):
            writer.writerow([*(f"{v:.6g}" for v in x[i]), *words[i], *([label[i]] if target else [])])


def _by_cell(path: Path) -> np.ndarray:
    """Numbers and levels, cell after cell."""
    place = {level: i for i, level in enumerate(LEVELS)}
    with open(path, newline="") as file:
        reader = csv.reader(file)
        next(reader)
        out = []
        for row in reader:
            values = [float(v) for v in row[:NUMBERS]]
            for word in row[NUMBERS:]:
                one = [0.0] * len(LEVELS)
                one[place[word]] = 1.0
                values += one
            out.append(values)
    return np.array(out)
