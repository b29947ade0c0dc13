"""From file to answer: reading against the csv module, and all of `cbdl predict` against numpy on the same numbers.

The unit of classes is what cannot be avoided, by numpy: the forward passes of all draws of all members in single
precision, their mean, and pyarrow reading the table and writing the answers. That of regression is the evaluation of
all mixture densities on 512 nodes, as in `bench_kernel`. One thread, process time, both sides in turns. The goals are
40,000 rows/s for classes and 8,000 for mixtures on two cores, so 50 and 250 microseconds of a core for a row; numpy
took 35 and 1,000.
"""

from __future__ import annotations

import csv
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.csv
import torch

from benchmarks._table import Row, best_of
from benchmarks.bench_kernel import alternate, densities
from cbdl.bayes.priors import Normal
from cbdl.nets.scores import NormalScores
from cbdl.tables import answering, chunks, encode, learning
from cbdl.tables.answering import Request
from cbdl.tables.answers import Options, Trained

ROWS, LINE_ROWS, NUMBERS, WORDS = 20_000, 1_000, 17, 3
LEVELS = ("red", "green", "blue", "dark, grey")
SIX = tuple(Normal(0.0, scale, fan_in=True) for scale in (1, 1.5, 2, 3, 4, 6))

DRAWS = 32
ASKED = Request(Options(samples=DRAWS))
"""Both sides evaluate as many draws."""


def rows() -> list[Row]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            _write(place / "new.csv", ROWS)
            _write(place / "few.csv", LINE_ROWS)
            six, default, line = (
                _trained(place, "classes", SIX),
                _trained(place, "classes"),
                _trained(place, "line"),
            )
            six.model.chains = "averaged"  # so that members are the extremes
            return [
                _reading(place, default),
                _classes(place, six, f"6 extremes of {DRAWS} draws", 0.5, 0.7),
                _classes(place, default, f"12 extremes of {DRAWS} draws", 0.5, None),
                _line(place, line),
            ]
    finally:
        torch.set_num_threads(before)


def _trained(place: Path, kind: str, priors: tuple[Normal, ...] | None = None) -> Trained:
    _write(place / "train.csv", 400, kind)
    settings = learning.Settings("y", steps=200, plausible=0, calibration=None)
    if priors is not None:
        settings = replace(settings, priors=priors)
    learning.fit(place / "train.csv", place / "model", settings, verbose=False, overwrite=True)
    return Trained.load(place / "model")


def _reading(place: Path, trained: Trained) -> Row:
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


def _classes(place: Path, trained: Trained, what: str, promise: float, goal: float | None) -> Row:
    X = _inputs(
        trained, np.concatenate([encode(trained.columns, chunk) for chunk in chunks(place / "new.csv")])
    )
    weights = _layers(trained)

    def ours() -> None:
        answering.answer_file(trained, place / "new.csv", place / "out.csv", ASKED)

    def unavoidable() -> None:
        pyarrow.csv.read_csv(place / "new.csv")
        for a in range(0, ROWS, 128):  # stays in caches
            _forward(weights, X[a : a + 128])
        pyarrow.csv.write_csv(pyarrow.csv.read_csv(place / "out.csv"), place / "copy.csv")

    seconds, peer = alternate(ours, unavoidable)
    return Row(
        f"file to answers, {ROWS} x {NUMBERS + WORDS}, {len(LEVELS)} classes, {what}",
        seconds,
        "numpy's forward passes, pyarrow's reading and writing",
        peer,
        promise,
        f"{ROWS / seconds:,.0f} rows/s of one core",
        goal,
    )


def _inputs(trained: Trained, X: np.ndarray) -> np.ndarray:
    """What the first layers see, in single precision: columns that are far from Normal come with their scores."""
    (part,) = trained.model.learned.parts.values()
    first = next(iter(part.cohort.forward.network.children()))
    x = torch.from_numpy(X).float()
    return (first(x) if isinstance(first, NormalScores) else x).numpy()


def _layers(trained: Trained) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights (copies, out, in) and biases (copies, out, 1) of all draws of all extremes, in single precision."""
    learned = trained.model.learned
    learned = learned.by_chain() if trained.model.chains == "extremes" else learned
    layers: list[tuple[np.ndarray, np.ndarray]] = []
    for part in learned.parts.values():
        theta = part.posterior.sample(DRAWS).flatten(0, 1)
        own = [t.float().numpy() for t in part.cohort.layout.view(theta).values()]
        layers += [(w, b[..., None]) for w, b in zip(own[::2], own[1::2], strict=True)]
    return layers


def _forward(layers: list[tuple[np.ndarray, np.ndarray]], x: np.ndarray) -> np.ndarray:
    """(extremes, classes, rows): probabilities, mean over the draws."""
    h = x.T
    for i, (w, b) in enumerate(layers):
        h = (w.reshape(-1, w.shape[-1]) @ h).reshape(*w.shape[:2], -1) if h.ndim == 2 else w @ h
        h += b
        if i < len(layers) - 1:
            h /= 1 + np.exp(-h)
    p = np.exp(h - h.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return p.reshape(-1, DRAWS, *p.shape[1:]).mean(1)


def _line(place: Path, trained: Trained) -> Row:
    X = np.concatenate([encode(trained.columns, chunk) for chunk in chunks(place / "few.csv")])
    sets = trained.model.predict(X, DRAWS, floor=False)
    loc, scale = np.asarray(sets.loc), np.asarray(sets.scale)

    def ours() -> None:
        answering.answer_file(trained, place / "few.csv", place / "out.csv", ASKED)

    seconds, peer = alternate(ours, lambda: densities(loc, scale))
    return Row(
        f"file to answers, {LINE_ROWS} x {NUMBERS + WORDS}, mixtures, 6 members of {DRAWS} draws",
        seconds,
        "numpy's densities on 512 nodes",
        peer,
        0.33,
        f"{LINE_ROWS / seconds:,.0f} rows/s of one core; trained briefly, so that draws spread",
        4,
    )


def _write(path: Path, count: int, kind: str | None = None) -> None:
    """A table; with a target of this kind if one is given."""
    source = np.random.default_rng(0)
    x = source.normal(size=(count, NUMBERS))
    words = np.array(LEVELS)[source.integers(0, len(LEVELS), size=(count, WORDS))]
    noisy = x[:, 0] + x[:, 1] + 0.3 * source.normal(size=count)
    label = np.array(LEVELS)[np.digitize(noisy, [-1, 0, 1])] if kind == "classes" else noisy
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            [*(f"x{i}" for i in range(NUMBERS)), *(f"c{i}" for i in range(WORDS)), *(["y"] if kind else [])]
        )
        for i in range(count):
            writer.writerow([*(f"{v:.6g}" for v in x[i]), *words[i], *([label[i]] if kind else [])])


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
