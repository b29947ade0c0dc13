"""Lines to follow on a track: centre, left, right and race line, each with the speeds that friction allows on it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbdl.studies.racing.curves import ClosedCurve, FloatArray, closed_curve, distances
from cbdl.studies.racing.offsets import race_offsets, side_offsets
from cbdl.studies.racing.speeds import Pace, speeds
from cbdl.studies.racing.tracks import Track
from cbdl.studies.racing.vehicle import Vehicle

SIDE = 0.55
"""Metres from the centre line to the left and the right line."""
TARGETS = {"centre": 0.0, "left": SIDE, "right": -SIDE}
LINES = (*TARGETS, "race")
"""The names of the lines."""
SPACING = 0.1
"""Metres between points of a line."""
STEERING = 0.75
"""The part of the steering's curvature that lines use if they can; the rest is for slip and corrections."""


@dataclass(frozen=True)
class Line:
    """A line to follow: a closed curve, the arc length of the centre line beside each of its points, and speeds."""

    name: str
    curve: ClosedCurve
    centre_s: FloatArray  # (M,)
    speed: FloatArray  # (M,), m/s

    @property
    def lap_time(self) -> float:
        """Seconds for one lap at these speeds."""
        return float(np.sum(2.0 * self.curve.spacing / (self.speed + np.roll(self.speed, -1))))


def make_lines(
    track: Track, names: Sequence[str] = LINES, vehicle: Vehicle | None = None, pace: Pace | None = None
) -> dict[str, Line]:
    """The named lines of a track, with their speeds."""
    vehicle, pace = vehicle or Vehicle(), pace or Pace()
    for name in names:
        if name not in LINES:
            raise ValueError(f"no line is called {name!r}; the lines are {', '.join(LINES)}")
    lines = {}
    limit = STEERING * vehicle.curvature_max
    race = race_offsets(track, vehicle)
    for name in names:
        n = race if name == "race" else side_offsets(track, TARGETS[name], vehicle, race, limit)
        lines[name] = _line(name, track, n, vehicle, pace)
    return lines


def _line(name: str, track: Track, n: FloatArray, vehicle: Vehicle, pace: Pace) -> Line:
    points = track.centre.offset(n)
    curve = closed_curve(points, int(np.ceil(track.length / SPACING)))
    along = distances(points)
    share = np.interp(curve.s, along * (curve.length / along[-1]), np.linspace(0.0, 1.0, len(along)))
    centre_s, _ = track.centre.project(curve.xy, share * track.length, reach=1.0)
    _check_drivable(track, name, curve, centre_s, vehicle)
    return Line(name, curve, centre_s, speeds(curve, vehicle, pace))


def _check_drivable(
    track: Track, name: str, curve: ClosedCurve, centre_s: FloatArray, vehicle: Vehicle
) -> None:
    bend = np.abs(curve.curvature)
    i = int(np.argmax(bend))
    if bend[i] >= vehicle.curvature_max:
        here = int(centre_s[i] // track.centre.spacing) % len(track.places)
        raise ValueError(
            f"{track.places[here]}: this corner is too tight: the {name} line through it has a radius of "
            f"{1.0 / bend[i]:.2f} m, and the car needs {1.0 / vehicle.curvature_max:.2f} m; widen the corner, or check "
            "that the file is in metres at the scale of the car"
        )
