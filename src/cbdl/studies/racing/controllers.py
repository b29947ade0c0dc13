"""Drivers: pure pursuit and Stanley steer along a line, a PID turns wishes into a steering rate and an acceleration."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cbdl.studies.racing.lines import Line
from cbdl.studies.racing.vehicle import FloatArray, Vehicle

IntArray = NDArray[np.int64]

AROUND = np.arange(-4, 7)
"""Points of the line, from the nearest one of the last step, among which the nearest of this step is sought."""


@dataclass(frozen=True)
class Route:
    """Each car's own line, for look-up of many cars at once."""

    count: int  # points of each line
    first: IntArray  # (cars,): where the car's line begins in the arrays below
    spacing: FloatArray  # (cars,)
    x: FloatArray
    y: FloatArray
    heading: FloatArray
    curvature: FloatArray
    speed: FloatArray
    centre_s: FloatArray

    def at(self, index: IntArray) -> IntArray:
        """Where the points `index` (cars, ...) of the cars' lines are in the arrays."""
        first = self.first if index.ndim == 1 else self.first[:, None]
        place: IntArray = first + index % self.count
        return place

    def nearest(self, x: FloatArray, y: FloatArray, last: IntArray) -> IntArray:
        """The nearest points to (x, y), a little behind or ahead of the last ones; counts on from lap to lap."""
        place = self.at(last[:, None] + AROUND)
        gap = (self.x[place] - x[:, None]) ** 2 + (self.y[place] - y[:, None]) ** 2
        nearest: IntArray = last + AROUND[gap.argmin(axis=1)]
        return nearest

    def part(self, cars: slice) -> "Route":
        """The route of some of the cars."""
        return replace(self, first=self.first[cars], spacing=self.spacing[cars])


def make_route(lines: Sequence[Line]) -> Route:
    """The route of cars that follow these lines, one line per car; the lines have equally many points."""
    distinct = list({id(line): line for line in lines}.values())
    count = len(distinct[0].speed)
    if any(len(line.speed) != count for line in distinct):
        raise ValueError("lines with different numbers of points; make all of them for the same track")
    begin = {id(line): i * count for i, line in enumerate(distinct)}
    return Route(
        count,
        np.array([begin[id(line)] for line in lines], dtype=np.int64),
        np.array([line.curve.spacing for line in lines]),
        np.concatenate([line.curve.xy[:, 0] for line in distinct]),
        np.concatenate([line.curve.xy[:, 1] for line in distinct]),
        np.concatenate([line.curve.heading for line in distinct]),
        np.concatenate([line.curve.curvature for line in distinct]),
        np.concatenate([line.speed for line in distinct]),
        np.concatenate([line.centre_s for line in distinct]),
    )


class Controller(Protocol):
    """A driver: follows the line with one point of the car, and says which steering angle it wishes."""

    def tracked(self, car: Vehicle) -> float:
        """Distance of the tracked point ahead of the centre of mass."""
        ...

    def steering(
        self, x: FloatArray, y: FloatArray, state: FloatArray, index: IntArray, route: Route, car: Vehicle
    ) -> FloatArray:
        """The steering angles (cars,), given the tracked points, the states (7, cars) and the nearest points."""
        ...


@dataclass(frozen=True)
class PurePursuit:
    """Steers the rear axle on a circle through the point of the line at the look-ahead distance."""

    lookahead: float = 1.3
    slip: float = (
        0.0178  # expected of the rear tyre: radians per m/s^2 of lateral acceleration, 1 / (mu g C_Sr)
    )

    def tracked(self, car: Vehicle) -> float:
        return -car.lr

    def steering(
        self, x: FloatArray, y: FloatArray, state: FloatArray, index: IntArray, route: Route, car: Vehicle
    ) -> FloatArray:
        reach = int(np.ceil(1.8 * self.lookahead / float(route.spacing.min())))
        place = route.at(index[:, None] + np.arange(reach))
        dx, dy = route.x[place] - x[:, None], route.y[place] - y[:, None]
        gap = np.hypot(dx, dy)
        beyond = gap >= self.lookahead
        beyond[:, -1] = True
        first = np.maximum(beyond.argmax(axis=1), 1)
        cars = np.arange(len(index))
        near, far = gap[cars, first - 1], gap[cars, first]
        share = np.clip((self.lookahead - near) / np.maximum(far - near, 1e-9), 0.0, 1.0)
        tx = dx[cars, first - 1] * (1.0 - share) + dx[cars, first] * share
        ty = dy[cars, first - 1] * (1.0 - share) + dy[cars, first] * share
        # In a bend the axle does not move where the car points, but where the tyre slips to.
        course = state[4] - self.slip * state[3] ** 2 * route.curvature[place[:, 0]]
        side = ty * np.cos(course) - tx * np.sin(course)
        angle: FloatArray = np.arctan(2.0 * car.wheelbase * side / np.maximum(tx**2 + ty**2, 1e-9))
        return angle


@dataclass(frozen=True)
class Stanley:
    """Steers the front axle along and towards the line, the harder the slower the car, and damps its yaw."""

    gain: float = 4.0
    softening: float = 1.0  # m/s
    damping: float = 0.04  # seconds: without it the yaw oscillates at 8 m/s, because the servo hears late
    slip: float = 0.0206  # expected of the front tyre, 1 / (mu g C_Sf)

    def tracked(self, car: Vehicle) -> float:
        return car.lf

    def steering(
        self, x: FloatArray, y: FloatArray, state: FloatArray, index: IntArray, route: Route, car: Vehicle
    ) -> FloatArray:
        place = route.at(index)
        heading = route.heading[place]
        dx, dy = x - route.x[place], y - route.y[place]
        along = dx * np.cos(heading) + dy * np.sin(heading)
        curvature = route.curvature[place]
        left = dy * np.cos(heading) - dx * np.sin(heading) - 0.5 * curvature * along**2
        error = heading + curvature * along - state[4]
        error = np.arctan2(np.sin(error), np.cos(error))
        yaw_rate = state[3] * curvature
        slip = self.slip * state[3] * yaw_rate
        error += slip + self.damping * (yaw_rate - state[5])
        angle: FloatArray = error - np.arctan(self.gain * left / (self.softening + np.abs(state[3])))
        return angle


@dataclass
class PID:
    """Proportional, integral, derivative control of many loops at once; `limit` bounds the answer."""

    kp: float
    ki: float = 0.0
    kd: float = 0.0
    limit: float = np.inf
    _sum: FloatArray | None = field(default=None, repr=False)
    _last: FloatArray | None = field(default=None, repr=False)

    def __call__(self, error: FloatArray, dt: float) -> FloatArray:
        total = np.zeros_like(error) if self._sum is None else self._sum
        change = np.zeros_like(error) if self._last is None else (error - self._last) / dt
        wish = self.kp * error + self.ki * total + self.kd * change
        answer = np.minimum(np.maximum(wish, -self.limit), self.limit)
        # Where the answer is at its limit the sum stands still, or it would wind up.
        self._sum = total + dt * np.where(answer == wish, error, 0.0)
        self._last = error
        return answer


CONTROLLERS: dict[str, Controller] = {"pure-pursuit": PurePursuit(), "stanley": Stanley()}
