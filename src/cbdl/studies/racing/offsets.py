"""The shape of lines: offsets n(s) to the left of the centre line, within the width of the track.

The race line has the least curvature; other lines keep a given offset as well as a car can steer. Each step of Gauss
and Newton is a quadratic programme with bounds, because the curvature is nearly linear in small offsets.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbdl.studies.racing.curves import ClosedCurve, FloatArray
from cbdl.studies.racing.quadratic import CircularMatrix, gram, minimise_in_box
from cbdl.studies.racing.tracks import Track
from cbdl.studies.racing.vehicle import Vehicle

MARGIN = 0.2
"""Metres between the car and the edge of the track: drivers do not keep to a line more closely than this."""
FOLD = 0.7
"""The part of the way from the centre line to the centre of its bend that a line may use."""
ROUNDING = 0.45
"""Metres: how far apart bends of a line must be to be followed rather than rounded."""
EASING = 1.0
"""Metres: how far around a bend that is too tight a line gives way at first."""
SHORTNESS = 0.006
"""The price of a metre of the race line: curvature beyond a radius of about 13 m is not worth a detour."""
FREE = 1e-6
"""The weight of an offset that does not matter."""

MAX_STEPS = 100
STRIDE = 0.25
"""Metres: how far one step may move a line; farther, its curvature is not linear."""
TOLERANCE = 1e-3
"""Metres: a step this small ends the search."""
GAIN = 1e-6
"""So does a step that lowers the value by no more than this part of it."""


@dataclass(frozen=True)
class Bends:
    """Turning angles theta and mean side lengths l (N,) of a closed polygon, with derivatives (N, 3) by the offsets of
    the points before, at and after each corner."""

    theta: FloatArray
    length: FloatArray
    theta_by: FloatArray
    length_by: FloatArray

    def power(self, p: float) -> tuple[FloatArray, FloatArray]:
        """theta / l^p and its derivatives. p = 1: curvature; p = 1/2: squares add up to the integral of curvature^2."""
        scale = self.length**-p
        by = self.theta_by - (p * self.theta / self.length)[:, None] * self.length_by
        return self.theta * scale, by * scale[:, None]


def bends(centre: ClosedCurve, n: FloatArray) -> Bends:
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
    return Bends(theta, 0.5 * (size + back(size)), theta_by, length_by)


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
        raise ValueError(
            f"{track.places[i]}: the track is {track.left[i] + track.right[i]:.2f} m wide here and has a radius of "
            f"{1.0 / max(abs(bend[i]), 1e-3):.2f} m; too narrow for the car, which needs {2.0 * clearance:.2f} m: mend "
            "the widths or smooth the corner"
        )
    return lower, upper


def race_offsets(track: Track, vehicle: Vehicle) -> FloatArray:
    """Offsets (N,) of the line of least curvature."""
    lower, upper = bounds(track, vehicle)
    aim = np.clip(0.0, lower, upper)
    return _fitted(Shape(track.centre, aim, np.full(len(aim), FREE), SHORTNESS), aim, lower, upper)


def side_offsets(
    track: Track, target: float, vehicle: Vehicle, race: FloatArray, curvature: float
) -> FloatArray:
    """Offsets (N,) of a line near a target offset whose curvature stays below a limit where the track allows it.

    The search starts from the race line, whose points are well apart in every bend.
    """
    lower, upper = bounds(track, vehicle)
    centre = track.centre
    aim = np.clip(target, lower, upper)
    n, weight, easing = race, np.full(len(aim), ROUNDING**-4), EASING
    while True:
        n = _fitted(Shape(centre, aim, weight, 0.0), n, lower, upper)
        tight = np.abs(bends(centre, n).power(1.0)[0]) > curvature
        if not tight.any() or weight[tight].max() <= FREE:
            return n
        # Around a bend that is too tight, the line cares less for its offset, and does so earlier each time.
        weight = np.maximum(weight * (1.0 - 0.8 * _nearness(centre, tight, easing)), FREE)
        easing *= 1.3


def _nearness(centre: ClosedCurve, marked: NDArray[np.bool_], reach: float) -> FloatArray:
    """exp(-(d / reach)^2) of the distance d along the curve to the nearest marked point."""
    N = len(marked)
    steps = np.abs(np.arange(N)[:, None] - np.flatnonzero(marked))
    distance = np.minimum(steps, N - steps).min(axis=1) * centre.spacing
    nearness: FloatArray = np.exp(-((distance / reach) ** 2))
    return nearness


def _fitted(problem: "Shape", n: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Gauss and Newton's steps in the box: none longer than STRIDE, each halved until the value falls."""
    value = problem.value(n)
    for _ in range(MAX_STEPS):
        H, g = problem.model(n)
        step = minimise_in_box(H, g, np.maximum(lower - n, -STRIDE), np.minimum(upper - n, STRIDE)).point
        while (new := problem.value(n + step)) > value and np.abs(step).max() > TOLERANCE:
            step = 0.5 * step
        if new > value:
            break
        done = np.abs(step).max() < TOLERANCE or value - new < GAIN * value
        n, value = n + step, new
        if done:
            break
    return n


@dataclass(frozen=True)
class Shape:
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
    product: FloatArray = np.roll(before, -1) + here + np.roll(after, 1)
    return product
