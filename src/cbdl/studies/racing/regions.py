"""Regions for a car's future: at every step a set in the plane, and how many outcomes they hold.

`Tube` is a union of ellipses around the members' means; `Boxes` are rectangles. What is asked of both: which steps of a
trajectory they hold, how wide they are, and how large.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from cbdl.studies.racing.areas import union_area
from cbdl.studies.racing.curves import FloatArray
from cbdl.studies.racing.forecasts import Forecast


@dataclass(frozen=True)
class Tube:
    """{y : |(y - loc_j) / scale_j| <= radius for some member j}, radius one number, or (horizon,) one per step."""

    forecast: Forecast
    radius: float | FloatArray

    def holds(self, y: FloatArray) -> NDArray[np.bool_]:
        """(W, horizon): whether outcomes (W, horizon, 2) are inside."""
        inside: NDArray[np.bool_] = self.forecast.squared(y) <= np.square(self.radius)
        return inside

    @cached_property
    def semi(self) -> FloatArray:
        """(W, m, horizon, 2): the semi-axes."""
        radii = np.broadcast_to(self.radius, self.forecast.scale.shape[2])
        semi: FloatArray = self.forecast.scale * radii[:, None]
        return semi

    @property
    def widths(self) -> FloatArray:
        """(W, horizon): the mean side of the smallest box around the region."""
        loc = self.forecast.loc
        sides: FloatArray = (loc + self.semi).max(axis=1) - (loc - self.semi).min(axis=1)
        mean: FloatArray = sides.mean(axis=-1)
        return mean

    @property
    def areas(self) -> FloatArray:
        """(W, horizon)."""
        return union_area(self.forecast.loc.swapaxes(1, 2), self.semi.swapaxes(1, 2))


@dataclass(frozen=True)
class Boxes:
    """{y : lower <= y <= upper}, bounds (W, horizon, 2)."""

    lower: FloatArray
    upper: FloatArray

    def holds(self, y: FloatArray) -> NDArray[np.bool_]:
        """(W, horizon): whether outcomes (W, horizon, 2) are inside."""
        return np.asarray(((self.lower <= y) & (y <= self.upper)).all(axis=-1))

    @property
    def widths(self) -> FloatArray:
        """(W, horizon): the mean side."""
        mean: FloatArray = (self.upper - self.lower).mean(axis=-1)
        return mean

    @property
    def areas(self) -> FloatArray:
        """(W, horizon)."""
        area: FloatArray = (self.upper - self.lower).prod(axis=-1)
        return area


def union(forecast: Forecast, alpha: float) -> Tube:
    """At every step the union of the members' highest density ellipses: the paper's IHDR; of one member, its HDR."""
    return Tube(forecast, float(np.sqrt(chdtri(2, alpha))))


def step_boxes(forecast: Forecast, alpha: float) -> Boxes:
    """At every step the box of lower probability exactly 1 - alpha."""
    lower, upper = forecast.credal_set().region(alpha, "box").hull()
    return Boxes(np.asarray(lower), np.asarray(upper))


def trajectory_boxes(forecast: Forecast, alpha: float) -> Boxes:
    """Boxes that hold all steps together with a lower probability of exactly 1 - alpha, if steps are independent."""
    lower, upper = forecast.credal_set(joint=True).region(alpha, "box").hull()
    shape = (len(forecast), *forecast.loc.shape[2:])
    return Boxes(np.asarray(lower).reshape(shape), np.asarray(upper).reshape(shape))
