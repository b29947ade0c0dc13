"""What is measured of a forecast: errors, proper scores, and regions with their coverage, width and area."""

from typing import Any

import numpy as np

from cbdl.studies.racing.calibration import OutOfFold, conformal_tube
from cbdl.studies.racing.curves import FloatArray
from cbdl.studies.racing.forecasts import Forecast
from cbdl.studies.racing.regions import Boxes, Tube, step_boxes, trajectory_boxes, union
from cbdl.studies.racing.scores import Numbers, density_scores, point_scores, spread_rows

LEVELS = (0.9, 0.95, 0.99)
AREAS = 150
"""Windows, evenly spread, whose areas are taken."""
BOXED = 300
"""Windows, evenly spread, for which boxes of an exact level are solved."""
RADII = np.geomspace(0.2, 60.0, 64)
"""Radii of a curve of coverage against width."""
Curve = list[list[float]]
"""Rows of mean width, one-step and multi-step coverage, by growing radius."""

EBNN, CBDL = "EBNN", "CBDL"
EBNN_CONFORMAL, CBDL_CONFORMAL = "EBNN, conformal", "CBDL, conformal"
STEP_BOXES, TRAJECTORY_BOXES = "CBDL, exact boxes", "CBDL, exact trajectory box"
CALIBRATED = "CBDL, calibrated"
PLAIN = "plain"
"""Scores of the densities as they are predicted."""


def of_region(region: Tube | Boxes, y: FloatArray) -> Numbers:
    """One-step and multi-step coverage, mean width and area."""
    held = region.holds(y)
    return {
        "one": float(held.mean()),
        "multi": float(held.all(axis=1).mean()),
        "width": float(region.widths.mean()),
        "area": float(_few_rows(region).areas.mean()),
    }


def _few_rows(region: Tube | Boxes) -> Tube | Boxes:
    if isinstance(region, Boxes):
        return region
    return Tube(region.forecast[spread_rows(len(region.forecast), AREAS)], region.radius)


def curve(forecast: Forecast, y: FloatArray) -> Curve:
    """Coverage against width of tubes of all radii."""
    distance = np.sqrt(forecast.squared(y))
    farthest = np.sort(distance.max(axis=1))
    every = np.sort(distance.ravel())
    few = forecast[spread_rows(len(forecast), AREAS)]
    one, multi = (
        np.searchsorted(sorted_, RADII, side="right") / len(sorted_) for sorted_ in (every, farthest)
    )
    widths = [float(Tube(few, float(radius)).widths.mean()) for radius in RADII]
    return [[w, float(a), float(b)] for w, a, b in zip(widths, one, multi, strict=True)]


def at_width(points: Curve, width: float) -> tuple[float, float]:
    """One-step and multi-step coverage at a mean width, between the points of a curve.

    A union of members that disagree is never narrower than their disagreement: below that it holds nothing.
    """
    widths, one, multi = np.array(points).T
    return float(np.interp(width, widths, one, left=0.0)), float(np.interp(width, widths, multi, left=0.0))


def measured(
    forecast: Forecast,
    y: FloatArray,
    validation: tuple[Forecast, FloatArray],
    calibration: OutOfFold | None,
    seed: int,
) -> dict[str, Any]:
    """All numbers of the forecasts of some windows whose positions were y (W, horizon, 2)."""
    one, seen_one = forecast.averaged(), validation[0].averaged()
    rows = spread_rows(len(y), BOXED)
    regions: dict[str, dict[str, Numbers]] = {}
    for level in LEVELS:
        alpha = 1.0 - level
        tubes: dict[str, Tube] = {
            EBNN: union(one, alpha),
            CBDL: union(forecast, alpha),
            EBNN_CONFORMAL: conformal_tube(seen_one, validation[1], one, alpha),
            CBDL_CONFORMAL: conformal_tube(*validation, forecast, alpha),
        }
        if calibration is not None:
            tubes[CALIBRATED] = calibration.tube(forecast, alpha)
        own = {name: of_region(tube, y) for name, tube in tubes.items()}
        own[STEP_BOXES] = of_region(step_boxes(forecast[rows], alpha), y[rows])
        own[TRAJECTORY_BOXES] = of_region(trajectory_boxes(forecast[rows], alpha), y[rows])
        for name, numbers in own.items():
            regions.setdefault(name, {})[f"{level:g}"] = numbers
    curves = {EBNN: curve(one, y), CBDL: curve(forecast, y)}
    errors = point_scores(forecast.loc, y)
    scores = {PLAIN: {**errors, **density_scores(forecast, y, seed)}}
    if calibration is not None:
        curves[CALIBRATED] = curve(calibration.shape(forecast), y)
        scores[CALIBRATED] = {**errors, **density_scores(calibration.density.of(forecast), y, seed)}
    return {"windows": len(y), "scores": scores, "regions": regions, "curves": curves}


def measured_alone(
    forecast: Forecast, y: FloatArray, validation: tuple[Forecast, FloatArray]
) -> dict[str, Any]:
    """The same of a forecast of one Normal, which is no credal set."""
    regions = {EBNN: {}, EBNN_CONFORMAL: {}}  # type: dict[str, dict[str, Numbers]]
    for level in LEVELS:
        alpha = 1.0 - level
        regions[EBNN][f"{level:g}"] = of_region(union(forecast, alpha), y)
        regions[EBNN_CONFORMAL][f"{level:g}"] = of_region(conformal_tube(*validation, forecast, alpha), y)
    scores = {PLAIN: {**point_scores(forecast.loc, y), **density_scores(forecast, y)}}
    return {"windows": len(y), "scores": scores, "regions": regions, "curves": {EBNN: curve(forecast, y)}}
