"""Shapes of a step's region: the kernel's regions at one level, and what a union of ellipses needs to hold as many.

A union covers under every member because it has all of their ellipses; a minimal region has no more than it needs. Only
at equal coverage is the smaller one the better one, so each is set beside the union, and the ellipse of the averaged
Normal, scaled until they hold as many outcomes.
"""

import numpy as np

from cbdl.credal import DiagonalNormalCredalSet
from cbdl.studies.racing.curves import FloatArray
from cbdl.studies.racing.forecasts import Forecast
from cbdl.studies.racing.regions import Tube
from cbdl.studies.racing.scores import Numbers, spread_rows

ALPHA = 0.1
METHODS = ("union", "minimal", "lower-density", "box")
WINDOWS, EVERY = 40, 5
"""Windows, evenly spread, and every so manieth step of them: a minimal region takes milliseconds."""
DRAWS = 512
"""Of each member, where a volume has no closed form."""


def shapes(forecast: Forecast, y: FloatArray) -> dict[str, Numbers]:
    """By method: one-step coverage and mean area, and the areas of union and ellipse that hold as many."""
    rows = spread_rows(len(y), WINDOWS)
    some = Forecast(
        forecast.loc[rows][:, :, EVERY - 1 :: EVERY], forecast.scale[rows][:, :, EVERY - 1 :: EVERY]
    )
    outcome = y[rows][:, EVERY - 1 :: EVERY]
    sets = DiagonalNormalCredalSet(some.loc.swapaxes(1, 2), some.scale.swapaxes(1, 2), samples=DRAWS)
    one = some.averaged()
    numbers = {}
    for method in METHODS:
        region = sets.region(ALPHA, method)
        held = float(np.asarray(region.contains(outcome)).mean())
        numbers[method] = {
            "one": held,
            "area": float(np.asarray(region.measure).mean()),
            "union_area": _area_that_holds(some, outcome, held),
            "ellipse_area": _area_that_holds(one, outcome, held),
        }
    return numbers


def _area_that_holds(forecast: Forecast, y: FloatArray, share: float) -> float:
    """The mean area of ellipses around the members, or their union, with a radius that holds this share of steps.

    Many radii do: the area is the geometric mean of those of the first and of the last one.
    """
    distances = np.sort(np.sqrt(forecast.squared(y)), axis=None)
    held = max(1, round(share * len(distances)))
    radii = distances[[held - 1, min(held, len(distances) - 1)]]
    areas = [Tube(forecast, float(radius)).areas.mean() for radius in radii]
    return float(np.sqrt(np.prod(areas)))
