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
    """Folds by sectors of the lap, in turn."""
    begin, end = windows.stretch.T
    longest = float((end - begin).max())
    laps = int(np.clip(windows.track_length / (folds * ROOM * longest), 1, SECTORS))
    count = folds * laps
    first, last = (_sector(s, windows.track_length, count) for s in (begin, end))
    parts = []
    for fold in range(folds):
        inside = first % folds == fold
        left_out = np.flatnonzero(inside & (first == last))
        seen = np.flatnonzero(~inside & (last % folds != fold))
        if len(left_out) == 0 or len(seen) == 0:
            raise ValueError(
                f"{windows.track}: no windows lie in sectors {fold}, {fold + folds}, ... of {count} as a whole; "
                "simulate whole laps, or take a shorter horizon"
            )
        parts.append(Fold(left_out, seen))
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
