"""Constant turn rate and velocity: what a car does if its driver holds the wheel and the pedal as they are."""

import numpy as np

from cbdl.studies.racing.curves import FloatArray
from cbdl.studies.racing.traces import DT

STRAIGHT = 1e-6
"""Radians of turn below which the formula for a straight line is exact to rounding."""


def constant_turn(history: FloatArray, horizon: int) -> FloatArray:
    """Positions (W, horizon, 2) after histories (W, steps, 4) of x, y, heading, speed, two steps at least.

    Turn rate and course are those of the last step; the course is where the car moves, which in a bend is not where it
    points. In the frame of the history.
    """
    if history.ndim != 3 or history.shape[1] < 2 or history.shape[2] != 4:
        raise ValueError(
            f"history has shape {history.shape}; give (windows, steps, 4) with at least two steps"
        )
    before, now = history[:, -2], history[:, -1]
    rate = (now[:, 2] - before[:, 2]) / DT
    move = now[:, :2] - before[:, :2]
    # Half a step after the middle of the last one; a car that stands still looks where it points.
    moving = np.hypot(move[:, 0], move[:, 1]) > 1e-9
    course = np.where(moving, np.arctan2(move[:, 1], move[:, 0]) + 0.5 * rate * DT, now[:, 2])
    time = DT * np.arange(1, horizon + 1)
    turn = rate[:, None] * time
    small = np.abs(turn) < STRAIGHT
    safe = np.where(small, 1.0, turn)
    ahead = np.where(small, 1.0, np.sin(turn) / safe) * now[:, 3, None] * time
    aside = np.where(small, 0.5 * turn, (1.0 - np.cos(turn)) / safe) * now[:, 3, None] * time
    cos, sin = np.cos(course)[:, None], np.sin(course)[:, None]
    moves = np.stack([ahead * cos - aside * sin, ahead * sin + aside * cos], axis=-1)
    positions: FloatArray = now[:, None, :2] + moves
    return positions
