"""Lines to follow on a track, and the speeds that friction allows on them.

Every line is an offset n(s) to the left of the centre line. The centre, left and right lines keep a given offset as well as
a car can steer; the race line has the least curvature (and, where that leaves a choice, is short). Each step of Gauss and Newton is a quadratic programme with
bounds (the width of the track), because the curvature is nearly linear in small offsets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbdl.studies.racing.curves import ClosedCurve, closed_curve
from cbdl.studies.racing.quadratic import CircularMatrix, gram, minimise_in_box
from cbdl.studies.racing.tracks import Track
from cbdl.studies.racing.vehicle import GRAVITY, Vehicle

FloatArray = NDArray[np.float64]

SIDE = 0.55
"""Offset of the left and the right line, in metres."""
MARGIN = 0.2
"""Metres between the car and the edge of the track."""
SPACING = 0.1
"""Metres between points of a line."""
TARGETS = {"centre": 0.0, "left": SIDE, "right": -SIDE}
LINES = (*TARGETS, "race")
"""The names of the lines."""

ROUNDING = 0.45
"""Metres: how far apart bends of a line must be to be followed rather than rounded."""
STEERING_RESERVE = 0.75
"""The part of the steering that a line may use; the rest is for the controller and for slip."""

FOLD = 0.7
"""The part of the way from the centre line to the centre of its bend that a line may use."""
EASING = 1.5
"""Metres: how far around a bend that is too tight a line gives way."""
SHORTNESS = 0.006
"""The price of a metre of the race line: curvature beyond a radius of about 13 m is not worth a detour."""
FREE = 1e-6
"""The weight of an offset that does not matter."""
MAX_STEPS = 100
STRIDE = 0.25
"""Metres: how far one step may move a line; farther, its curvature is not linear."""
TOLERANCE = 1e-3
"""Metres: a step this small ends the search."""


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


@dataclass(frozen=True)
class Pace:
    """How hard the speeds push: the part of the friction that is used, and the highest speed."""

    grip: float = 0.75
    top_speed: float = 8.0


def make_lines(
    track: Track, names: Sequence[str] = LINES, vehicle: Vehicle | None = None, pace: Pace | None = None
) -> dict[str, Line]:
    """The named lines of a track, with their speeds."""
    vehicle, pace = vehicle or Vehicle(), pace or Pace()
    for name in names:
        if name not in LINES:
            raise ValueError(f"no line is called {name!r}; the lines are {', '.join(LINES)}")
    lines = {}
    race = race_offsets(track, vehicle)
    for name in names:
        n = race if name == "race" else side_offsets(track, TARGETS[name], vehicle, race)
        lines[name] = _line(name, track, n, vehicle, pace)
    return lines


def _line(name: str, track: Track, n: FloatArray, vehicle: Vehicle, pace: Pace) -> Line:
    points = track.centre.offset(n)
    curve = closed_curve(points, int(np.ceil(track.length / SPACING)))
    near = track.centre.spacing * np.interp(
        curve.s, _cumulative(points), np.arange(len(points) + 1, dtype=np.float64)
    )
    centre_s, _ = track.centre.project(curve.xy, near, reach=1.0)
    _check_drivable(track, name, curve, vehicle)
    return Line(name, curve, centre_s, speeds(curve, vehicle, pace))


def _check_drivable(track: Track, name: str, curve: ClosedCurve, vehicle: Vehicle) -> None:
    bend = np.abs(curve.curvature)
    i = int(np.argmax(bend))
    if bend[i] >= vehicle.curvature_max:
        x, y = curve.xy[i]
        raise ValueError(
            f"{track.name}: the corner near x = {x:.2f}, y = {y:.2f} is too tight: the {name} line through it has a radius "
            f"of {1.0 / bend[i]:.2f} m, the car needs {1.0 / vehicle.curvature_max:.2f} m; widen the corner, or check that "
            "the file is in metres at the scale of the car"
        )


def _cumulative(points: FloatArray) -> FloatArray:
    steps = np.roll(points, -1, axis=0) - points
    return np.concatenate([[0.0], np.cumsum(np.hypot(steps[:, 0], steps[:, 1]))])


# The shape of a line


@dataclass(frozen=True)
class _Bends:
    """Turning angles theta and mean side lengths l (N,) of a closed polygon, with derivatives (N, 3) by the offsets of
    the points before, at and after each corner."""

    theta: FloatArray
    length: FloatArray
    theta_by: FloatArray
    length_by: FloatArray

    def power(self, p: float) -> tuple[FloatArray, FloatArray]:
        """theta / l^p and its derivatives. p = 1: curvature; p = 1/2: its squares add up to the integral of curvature^2."""
        value = self.theta * self.length**-p
        by = self.length[:, None] ** -p * (self.theta_by - p * (self.theta / self.length)[:, None] * self.length_by)
        return value, by


def bends(centre: ClosedCurve, n: FloatArray) -> _Bends:
    """Of the polygon at offsets n (N,) from the centre line."""
    normals = centre.normals
    points = centre.offset(n)
    side = np.roll(points, -1, axis=0) - points
    size = np.hypot(side[:, 0], side[:, 1])
    unit = side / size[:, None]
    cross = unit[:, 0] * np.roll(unit[:, 1], 1) - unit[:, 1] * np.roll(unit[:, 0], 1)
    theta = -np.arctan2(cross, np.einsum("id,id->i", unit, np.roll(unit, 1, axis=0)))

    # Side i runs from point i to point i + 1: the direction's and the length's derivatives by both offsets.
    ahead = np.roll(normals, -1, axis=0)
    turn_tail = -(unit[:, 0] * normals[:, 1] - unit[:, 1] * normals[:, 0]) / size
    turn_head = (unit[:, 0] * ahead[:, 1] - unit[:, 1] * ahead[:, 0]) / size
    grow_tail, grow_head = -np.einsum("id,id->i", unit, normals), np.einsum("id,id->i", unit, ahead)

    def back(a: FloatArray) -> FloatArray:
        return np.roll(a, 1)

    theta_by = np.stack([-back(turn_tail), turn_tail - back(turn_head), turn_head], axis=1)
    length_by = 0.5 * np.stack([back(grow_tail), grow_tail + back(grow_head), grow_head], axis=1)
    return _Bends(theta, 0.5 * (size + back(size)), theta_by, length_by)


def bounds(track: Track, vehicle: Vehicle) -> tuple[FloatArray, FloatArray]:
    """Offsets between which the car stays on the track, and short of the point where normals meet."""
    clearance = 0.5 * vehicle.width + MARGIN
    lower, upper = clearance - track.right, track.left - clearance
    bend = track.centre.curvature
    lower = np.where(bend < 0.0, np.maximum(lower, FOLD / np.minimum(bend, -1e-9)), lower)
    upper = np.where(bend > 0.0, np.minimum(upper, FOLD / np.maximum(bend, 1e-9)), upper)
    narrow = upper - lower < 0.02
    if narrow.any():
        i = int(np.argmax(narrow))
        x, y = track.centre.xy[i]
        raise ValueError(
            f"{track.name}: {track.left[i] + track.right[i]:.2f} m wide near x = {x:.2f}, y = {y:.2f}; the car needs "
            f"{2.0 * clearance + 0.02:.2f} m: check the widths there"
        )
    return lower, upper


def race_offsets(track: Track, vehicle: Vehicle) -> FloatArray:
    """Offsets (N,) of the line of least curvature."""
    lower, upper = bounds(track, vehicle)
    aim = np.clip(0.0, lower, upper)
    return _fitted(_Shape(track.centre, aim, np.full(len(aim), FREE), SHORTNESS), aim, lower, upper)


def side_offsets(track: Track, target: float, vehicle: Vehicle, race: FloatArray) -> FloatArray:
    """Offsets (N,) of a drivable line near a target offset; sought from the race line, which is drivable."""
    lower, upper = bounds(track, vehicle)
    centre, limit = track.centre, STEERING_RESERVE * vehicle.curvature_max
    aim = np.clip(target, lower, upper)
    n, weight = race, np.full(len(aim), ROUNDING**-4)
    while True:
        n = _fitted(_Shape(centre, aim, weight, 0.0), n, lower, upper)
        tight = np.abs(bends(centre, n).power(1.0)[0]) > limit
        if not tight.any() or weight[tight].max() <= FREE:
            return n
        # Around a bend that is too tight, the line cares less for its offset.
        weight = np.maximum(weight * (1.0 - 0.8 * _nearness(centre, tight)), FREE)


def _nearness(centre: ClosedCurve, marked: NDArray[np.bool_]) -> FloatArray:
    """exp(-(d / EASING)^2) of the distance d along the curve to the nearest marked point."""
    N = len(marked)
    steps = np.abs(np.arange(N)[:, None] - np.flatnonzero(marked))
    distance = np.minimum(steps, N - steps).min(axis=1) * centre.spacing
    nearness: FloatArray = np.exp(-((distance / EASING) ** 2))
    return nearness


def _fitted(problem: "_Shape", n: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Gauss and Newton's steps in the box: none longer than STRIDE, each halved until the value falls."""
    value = problem.value(n)
    for _ in range(MAX_STEPS):
        H, g = problem.model(n)
        step = minimise_in_box(H, g, np.maximum(lower - n, -STRIDE), np.minimum(upper - n, STRIDE)).point
        while (new := problem.value(n + step)) > value and np.abs(step).max() > TOLERANCE:
            step = 0.5 * step
        if new > value:
            break
        n, value = n + step, new
        if np.abs(step).max() < TOLERANCE:
            break
    return n


@dataclass(frozen=True)
class _Shape:
    """Half the integral of curvature^2 + weight (n - aim)^2 + shortness along the line."""

    centre: ClosedCurve
    aim: FloatArray
    weight: FloatArray
    shortness: float

    def value(self, n: FloatArray) -> float:
        shape, h = bends(self.centre, n), self.centre.spacing
        pull = h * self.weight * (n - self.aim) ** 2
        # Squares of the sides: their sum is least where the sum of the sides is, and it is quadratic.
        length = self.shortness / h * shape.length**2
        return 0.5 * float((shape.theta**2 / shape.length + pull + length).sum())

    def model(self, n: FloatArray) -> tuple[CircularMatrix, FloatArray]:
        """Gauss and Newton: Hessian and gradient of the sum of squares."""
        shape, h = bends(self.centre, n), self.centre.spacing
        bend, bend_by = shape.power(0.5)
        root = np.sqrt(self.shortness / h)
        length, length_by = root * shape.length, root * shape.length_by
        diagonals = gram(bend_by).diagonals + gram(length_by).diagonals
        diagonals[0] += h * self.weight
        slope = _transposed(bend_by, bend) + _transposed(length_by, length) + h * self.weight * (n - self.aim)
        return CircularMatrix(diagonals), slope


def _transposed(rows: FloatArray, values: FloatArray) -> FloatArray:
    """R' v for rows as in `gram`."""
    before, here, after = (rows * values[:, None]).T
    return np.roll(before, -1) + here + np.roll(after, 1)


# Speeds


def speeds(curve: ClosedCurve, vehicle: Vehicle, pace: Pace) -> FloatArray:
    """The fastest speeds (M,) with (v^2 kappa)^2 + a^2 <= (grip mu g)^2, the motor's power and the servo's rate."""
    force = pace.grip * vehicle.mu * GRAVITY
    bend = np.abs(curve.curvature)
    slope = np.abs(np.gradient(curve.curvature, curve.spacing))
    steering = vehicle.steering_rate_max * STEERING_RESERVE / vehicle.wheelbase  # limit of v dkappa/ds
    limit = np.minimum(np.sqrt(force / np.maximum(bend, 1e-9)), steering / np.maximum(slope, 1e-9))
    v = np.minimum(limit, min(pace.top_speed, vehicle.v_max))
    # Each pass carries limits onwards; twice around the loop, so that its start has no say.
    v = _pass(v, bend, curve.spacing, force, vehicle.a_max, vehicle.v_switch)
    return _pass(v[::-1], bend[::-1], curve.spacing, force, vehicle.a_max, np.inf)[::-1].copy()


def _pass(v: FloatArray, bend: FloatArray, h: float, force: float, a_max: float, v_switch: float) -> FloatArray:
    """Lowers speeds (M,) until each can be reached from the one before."""
    v2, kappa = (v**2).tolist(), bend.tolist()
    M = len(v2)
    now = v2[-1]
    for i in range(2 * M):
        here, before = i % M, (i - 1) % M
        lateral = now * kappa[before]
        a = min(max(force * force - lateral * lateral, 0.0) ** 0.5, a_max)
        if now > v_switch * v_switch:
            a = min(a, a_max * v_switch / now**0.5)
        now = min(v2[here], now + 2.0 * a * h)
        v2[here] = now
    return np.sqrt(np.array(v2))
