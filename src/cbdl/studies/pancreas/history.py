"""What a controller remembers: the last readings and doses of every lane, with gaps of the sensor."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cbdl.studies.pancreas.checks import check_bounds
from cbdl.studies.pancreas.data import BASAL
from cbdl.studies.pancreas.forecasts import HISTORY
from cbdl.studies.pancreas.patients import Array
from cbdl.studies.pancreas.sensor import HIGH

BRIDGED = 3
"""Missing readings in a row that a straight line replaces once the sensor is back; after more, history begins anew."""

Mask = npt.NDArray[np.bool_]


class History:
    """`readings` (lanes, HISTORY) up to now, nan where there are none; `doses` (lanes, D) before now, basal before the
    first."""

    def __init__(self, lanes: int, doses: int) -> None:
        """`doses`: D, how many of them are remembered."""
        self.readings: Array = np.full((lanes, HISTORY), np.nan)
        self.doses: Array = np.full((lanes, doses), BASAL)

    @property
    def complete(self) -> Mask:
        """(lanes,): whether every reading is there."""
        return np.asarray(~np.isnan(self.readings).any(1))

    def read(self, readings: npt.ArrayLike) -> Mask:
        """Take the readings of now; nan for a sensor that says nothing. Which are missing: (lanes,)."""
        own = _checked(readings, len(self.readings))
        self.readings = np.concatenate([self.readings[:, 1:], own[:, None]], axis=1)
        self._bridge()
        return np.isnan(own)

    def give(self, doses: Array) -> None:
        """Take the doses of now."""
        self.doses = np.concatenate([self.doses[:, 1:], doses[:, None]], axis=1)

    def _bridge(self) -> None:
        """Straight lines over short gaps that have just ended."""
        missing = np.isnan(self.readings)
        for gap in range(1, BRIDGED + 1):
            ended = ~missing[:, -1] & missing[:, -1 - gap : -1].all(1) & ~missing[:, -2 - gap]
            before, now = self.readings[ended, -2 - gap, None], self.readings[ended, -1:]
            share = np.arange(1, gap + 1) / (gap + 1)
            self.readings[ended, -1 - gap : -1] = before + share * (now - before)


def _checked(readings: npt.ArrayLike, lanes: int) -> Array:
    try:
        own = np.asarray(readings, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"readings is not an array of numbers: {error}") from None
    if own.shape != (lanes,):
        raise ValueError(
            f"readings has shape {own.shape}; give one per lane, ({lanes},), nan where there is none"
        )
    remedy = "a reading is in mg/dL, nan where the sensor says nothing"
    check_bounds(np.where(np.isnan(own), 0.0, own), "readings", 0.0, HIGH, remedy)
    return own
