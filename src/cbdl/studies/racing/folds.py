"""Folds of training windows: for each, the windows that a member does without, and those that it sees.

By stretches of the track, a fold is every fourth sector of the lap: what a member has not seen is then as new to it
as a held-out stretch is to all. At random, windows that overlap are on both sides, as they are in a random split.
"""

from dataclasses import dataclass

import numpy as np

from cbdl.studies.racing.curves import FloatArray, IntArray
from cbdl.studies.racing.windows import Windows

FOLDS = 4
SECTORS = 3
"""Sectors of a fold, if the track is long enough."""
ROOM = 2.5
"""A sector is at least so many windows long where the track allows it."""


@dataclass(frozen=True)
class Fold:
    """Indices of windows, ascending: those left out, and those seen. Windows across an edge are in neither."""

    left_out: IntArray
    seen: IntArray


def track_folds(windows: Windows, folds: int = FOLDS) -> list[Fold]:
    """Folds by sectors of the lap, in turn; on a short track, by where windows begin."""
    longest = float(np.diff(windows.stretch).max())
    laps = int(np.clip(windows.track_length / (folds * ROOM * longest), 1, SECTORS))
    for count in range(laps * folds, 0, -folds):
        parts = _by_sector(windows, count, folds)
        if all(len(fold.left_out) and len(fold.seen) for fold in parts):
            return parts
    parts = _by_begin(windows, folds)
    if all(len(fold.left_out) and len(fold.seen) for fold in parts):
        return parts
    raise ValueError(
        f"{windows.track}: its {windows.track_length:.0f} m are too short for {folds} folds of windows of up to "
        f"{longest:.1f} m; give a longer track, shorten the horizon, or simulate for longer"
    )


def _by_sector(windows: Windows, count: int, folds: int) -> list[Fold]:
    """Equally long sectors: what lies in those of a fold as a whole is left out, what touches none of them is seen."""
    first, last = (_sector(s, windows.track_length, count) for s in windows.stretch.T)
    inside = first % folds
    return [
        Fold(
            np.flatnonzero((inside == i) & (first == last)),
            np.flatnonzero((inside != i) & (last % folds != i)),
        )
        for i in range(folds)
    ]


def _by_begin(windows: Windows, folds: int) -> list[Fold]:
    """As many windows to each fold; what touches a place of theirs is not seen."""
    length = windows.track_length
    begin, size = windows.stretch[:, 0] % length, np.diff(windows.stretch)[:, 0]
    fold = np.argsort(np.argsort(begin, kind="stable"), kind="stable") * folds // len(windows)
    parts = []
    for i in range(folds):
        own = fold == i
        low, high = begin[own].min(initial=np.inf), (begin + size)[own].max(initial=-np.inf)
        after = (begin - low) % length
        parts.append(
            Fold(np.flatnonzero(own), np.flatnonzero((after > high - low) & (after + size < length)))
        )
    return parts


def random_folds(windows: Windows, seed: int = 0, folds: int = FOLDS) -> list[Fold]:
    """Folds of windows at random."""
    if len(windows) < folds:
        raise ValueError(f"{len(windows)} windows make no {folds} folds; simulate for longer")
    fold = np.random.default_rng(seed).permutation(len(windows)) % folds
    return [Fold(np.flatnonzero(fold == i), np.flatnonzero(fold != i)) for i in range(folds)]


def _sector(s: FloatArray, length: float, count: int) -> IntArray:
    sector: IntArray = np.floor((s % length) / length * count).astype(np.int64)
    return np.minimum(sector, count - 1)
