"""Splits of windows into parts for training, validation and test.

The paper's split is random, and leaks: windows overlap in time, and cars pass the same place again lap after lap.
The honest one holds out whole stretches of the track, for all cars and laps.
"""

from dataclasses import dataclass

import numpy as np

from cbdl.studies.racing.curves import FloatArray, IntArray
from cbdl.studies.racing.windows import Windows

PARTS = ("train", "validation", "test")
HELD_OUT = 0.1
"""The share of validation, and of test."""
STRETCHES = 3
"""Held-out stretches of each kind, if the track is long enough."""
ROOM = 3.0
"""So many of the longest windows, at least, are from the begin of a held-out stretch to that of the next."""


@dataclass(frozen=True)
class Split:
    """Indices of the windows of each part, ascending. Windows that would overlap with two parts are in none."""

    train: IntArray
    validation: IntArray
    test: IntArray


@dataclass(frozen=True)
class Stretches:
    """A lap cut in pieces: piece i runs from edges[i] to the next edge (the last one around to the first)."""

    edges: FloatArray  # (pieces,), ascending, in metres along the centre line
    parts: tuple[str, ...]  # (pieces,)
    length: float

    def split(self, windows: Windows) -> Split:
        """Windows that lie in one piece as a whole, by that piece's part. Also for other windows of the same track."""
        if not np.isclose(windows.track_length, self.length):
            raise ValueError(
                f"stretches of a track of {self.length:.1f} m, but windows of {windows.track}, "
                f"{windows.track_length:.1f} m long: make stretches for that track"
            )
        begin, end = windows.stretch.T
        piece = self._piece(begin)
        size = np.append(np.diff(self.edges), self.length - self.edges[-1] + self.edges[0])
        whole = (piece == self._piece(end)) & (end - begin < size[piece])
        part = np.array(self.parts)[piece]
        return Split(*(np.flatnonzero(whole & (part == name)) for name in PARTS))

    def _piece(self, s: FloatArray) -> IntArray:
        piece: IntArray = np.searchsorted(self.edges, s % self.length, side="right") - 1
        return piece % len(self.edges)


def random_split(windows: Windows, seed: int = 0) -> Split:
    """The paper's: 80/10/10 at random. Its test windows overlap with training windows."""
    order = np.random.default_rng(seed).permutation(len(windows))
    held_out = round(HELD_OUT * len(windows))
    _check_parts(held_out, "windows")
    test, validation, train = np.split(order, [held_out, 2 * held_out])
    return Split(np.sort(train), np.sort(validation), np.sort(test))


def blocked_split(windows: Windows, seed: int = 0, stretches: int = STRETCHES) -> Split:
    """80/10/10 by stretches of the track: no window of a part shares a place with a window of another."""
    return held_out_stretches(windows, seed, stretches).split(windows)


def held_out_stretches(windows: Windows, seed: int = 0, stretches: int = STRETCHES) -> Stretches:
    """Stretches for validation and test, spread over the lap: as many of each as `stretches`, equally long.

    Their length is such that a fifth of the windows that remain is held out; on a short track there are fewer of them.
    """
    if stretches < 1:
        raise ValueError(f"stretches={stretches}: give at least 1")
    longest = float(np.diff(windows.stretch).max())
    most = int(np.clip(windows.track_length / (2.0 * ROOM * longest), 1, stretches))
    for count in range(most, 0, -1):
        own = _layout(windows, seed, count)
        if min(len(part) for part in vars(own.split(windows)).values()):
            return own
    raise ValueError(
        f"{windows.track}: its {windows.track_length:.0f} m are too short to hold out stretches, with windows of up to "
        f"{longest:.1f} m; give a longer track, shorten the horizon, or simulate for longer"
    )


def _layout(windows: Windows, seed: int, stretches: int) -> Stretches:
    rng = np.random.default_rng(seed)
    # The lap in 2 K sectors, alternately of validation and test: one stretch in each, somewhere.
    turn, places = rng.uniform(), rng.uniform(size=2 * stretches)
    sector = windows.track_length / (2 * stretches)

    def layout(length: float) -> Stretches:
        begin = (np.arange(2 * stretches) + turn + places * (1.0 - length / sector)) * sector
        edges = np.stack([begin, begin + length], axis=1).ravel() % windows.track_length
        parts = np.array(["validation", "train", "test", "train"] * stretches)
        order = np.argsort(edges)
        return Stretches(edges[order], tuple(parts[order].tolist()), windows.track_length)

    low, high = 0.0, 0.98 * sector
    for _ in range(40):
        middle = 0.5 * (low + high)
        split = layout(middle).split(windows)
        held_out = len(split.validation) + len(split.test)
        if held_out < 2.0 * HELD_OUT * (held_out + len(split.train)):
            low = middle
        else:
            high = middle
    return layout(high)


def line_held_out(split: Split, windows: Windows, line: str = "race") -> Split:
    """Out of distribution: trains and validates on the other lines, tests on this one."""
    if line not in windows.line:
        raise ValueError(
            f"no window is of the line {line!r}; the lines are {', '.join(np.unique(windows.line))}"
        )
    held_out = windows.line == line
    return Split(
        split.train[~held_out[split.train]],
        split.validation[~held_out[split.validation]],
        split.test[held_out[split.test]],
    )


def _check_parts(smallest: int, what: str) -> None:
    if smallest == 0:
        raise ValueError(f"{what}: too few windows for three parts; simulate for longer")
