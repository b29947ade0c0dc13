"""Samples to draw: a few windows with their regions at 0.9, and a car followed through a held-out stretch."""

from typing import Any

import numpy as np

from cbdl.studies.racing.calibration import OutOfFold
from cbdl.studies.racing.curves import FloatArray, IntArray
from cbdl.studies.racing.forecasts import Forecast
from cbdl.studies.racing.physics import constant_turn
from cbdl.studies.racing.regions import union
from cbdl.studies.racing.traces import DT
from cbdl.studies.racing.windows import Windows, on_map

ALPHA = 0.1
SHARES = (0.5, 0.9, 0.97)
"""Samples by how far the car departs from going on as it is: the middle one of all windows, and two that turn."""
FRAMES = 5
SPACING, SLACK = 30, 10
"""Steps from one frame to the next, and by how many a frame may be late."""


def samples(windows: Windows, forecast: Forecast, calibration: OutOfFold | None) -> dict[str, Any]:
    """Tubes of the averaged forecast, of the credal set, and calibrated ones if there are, as lists of numbers."""
    surprise = np.linalg.norm(
        windows.future[:, -1, :2] - constant_turn(windows.history, windows.future.shape[1])[:, -1], axis=1
    )
    order = np.argsort(surprise, kind="stable")
    picked = order[[round(share * (len(order) - 1)) for share in SHARES]]
    return {
        "windows": _drawn(windows, forecast, picked, calibration),
        "frames": _drawn(windows, forecast, followed(windows), calibration),
    }


def followed(windows: Windows) -> IntArray:
    """Windows of one car, a frame apart, on the part of its way where it turns most; none if no car is seen so long."""
    best: tuple[float, IntArray] = (0.0, np.zeros(0, dtype=np.int64))
    for trace in np.unique(windows.trace):
        own = np.flatnonzero(windows.trace == trace)
        own = own[np.argsort(windows.step[own], kind="stable")]
        steps = windows.step[own]
        # For each window as the first: the first windows that are not before the next frames.
        wanted = steps[:, None] + SPACING * np.arange(FRAMES)
        place = np.minimum(np.searchsorted(steps, wanted), len(steps) - 1)
        whole = (np.abs(steps[place] - wanted) <= SLACK).all(axis=1)
        turn = np.where(whole, np.abs(windows.future[own[place], -1, 2]).sum(axis=1), 0.0)
        first = int(np.argmax(turn))
        if turn[first] > best[0]:
            best = float(turn[first]), own[place[first]]
    return best[1]


def _drawn(
    windows: Windows, forecast: Forecast, rows: IntArray, calibration: OutOfFold | None
) -> dict[str, Any]:
    some, own = windows[rows], forecast[rows]
    if len(rows) == 0:
        return {}
    tubes = {"EBNN": union(own.averaged(), ALPHA), "CBDL": union(own, ALPHA)}
    if calibration is not None:
        tubes["calibrated"] = calibration.tube(own, ALPHA)
    y = some.future[..., :2]
    return {
        "past": _short(some.history[..., :2]),
        "future": _short(y),
        "pose": _short(some.pose),
        "seconds": _short((some.step - some.step[0]) * DT),
        "road": _short(on_map(y, some.pose)),
        "tubes": {
            name: {
                "loc": _short(tube.forecast.loc),
                "semi": _short(tube.semi),
                "held": tube.holds(y).tolist(),
            }
            for name, tube in tubes.items()
        },
    }


def _short(values: FloatArray) -> Any:
    """Numbers as lists, to a tenth of a millimetre."""
    return np.round(values, 4).tolist()
