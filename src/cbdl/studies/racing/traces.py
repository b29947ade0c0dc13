"""Traces: cars with different drivers, lines and speeds on one track, simulated as one batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cbdl.studies.racing.controllers import CONTROLLERS, PID, Controller, IntArray, Route, make_route
from cbdl.studies.racing.lines import Line, make_lines
from cbdl.studies.racing.tracks import Track
from cbdl.studies.racing.vehicle import FloatArray, Vehicle, rolling_state, step

DT = 0.01
DURATION = 180.0
"""Seconds of a trace: 24 of them give as many windows as the paper has, on a track of any length."""
GAINS = (0.75, 0.85, 1.0)
DELAY = 2
"""Steps from a wish for a steering angle to the servo."""
PREVIEW = 0.1
"""Seconds by which the wish for a speed looks ahead, about the lag of the motor's control."""
LOST = 3.0
"""Metres from its line at which a car is lost; it stays there."""


@dataclass(frozen=True)
class Trace:
    """One car's run: its states DT apart, and its place on the track, until it leaves the track or time is up."""

    controller: str
    line: str
    gain: float
    states: FloatArray  # (T, 7): x, y, steering angle, speed, yaw, yaw rate, slip angle
    s: FloatArray  # (T,): along the centre line, counting on from lap to lap
    left: FloatArray  # (T,): to the left of the centre line
    on_track: bool  # False: the trace ends where the car hit the edge
    laps: float

    @property
    def name(self) -> str:
        return f"{self.controller}, {self.line} line, gain {self.gain:g}"


def simulate(
    track: Track,
    lines: Mapping[str, Line] | None = None,
    controllers: Mapping[str, Controller] | None = None,
    gains: Sequence[float] = GAINS,
    vehicle: Vehicle | None = None,
    duration: float = DURATION,
) -> list[Trace]:
    """Every controller on every line with every speed gain: one trace each, of `duration` seconds.

    A shift is a call with another vehicle (`replace(Vehicle(), mu=0.8)`), other gains or another track.
    """
    if not duration >= 10 * DT:
        raise ValueError(f"duration={duration}: give at least {10 * DT} seconds")
    if not gains or not all(np.isfinite(gain) and gain > 0.0 for gain in gains):
        raise ValueError(f"gains={gains}: give positive numbers; 1 drives at the line's own speeds")
    lines = make_lines(track) if lines is None else lines
    controllers = CONTROLLERS if controllers is None else controllers
    if not lines or not controllers:
        raise ValueError(f"lines={list(lines)}, controllers={list(controllers)}: give at least one of each")
    vehicle = vehicle or Vehicle()
    cars = [(controller, line, gain) for controller in controllers for line in lines for gain in gains]
    route = make_route([lines[line] for _, line, _ in cars])
    drivers = list(controllers.values())
    states, index = _run(
        route, drivers, np.array([gain for _, _, gain in cars]), vehicle, round(duration / DT)
    )
    near = (index // route.count) * track.length + route.centre_s[route.at(index.T).T]
    return [_trace(track, vehicle, *car, states[:, :, i], near[:, i]) for i, car in enumerate(cars)]


def _run(
    route: Route, drivers: Sequence[Controller], gains: FloatArray, car: Vehicle, steps: int
) -> tuple[FloatArray, IntArray]:
    """States (steps, 7, cars) and nearest points (steps, cars); the cars of a driver stand together."""
    share = len(gains) // len(drivers)
    slices = [slice(i * share, (i + 1) * share) for i in range(len(drivers))]
    groups = [(driver, g, route.part(g)) for driver, g in zip(drivers, slices, strict=True)]
    ahead = np.repeat([driver.tracked(car) for driver in drivers], share)
    index = np.zeros(len(gains), dtype=np.int64)
    start = route.at(index)
    state = rolling_state(
        route.x[start],
        route.y[start],
        route.heading[start],
        gains * route.speed[start],
        route.curvature[start],
        car,
    )
    servo, motor = PID(kp=1.0 / DT, limit=car.steering_rate_max), PID(kp=10.0, ki=1.0, limit=car.a_max)
    wishes = [state[2]] * DELAY
    states, indices = np.empty((steps, *state.shape)), np.empty((steps, len(gains)), dtype=np.int64)
    for k in range(steps):
        states[k] = state
        x, y = state[0] + ahead * np.cos(state[4]), state[1] + ahead * np.sin(state[4])
        index = route.nearest(x, y, index)
        indices[k] = index
        wish = [driver.steering(x[g], y[g], state[:, g], index[g], part, car) for driver, g, part in groups]
        wishes.append(np.concatenate(wish))
        place = route.at(index)
        preview = route.at(index + np.rint(PREVIEW * state[3] / route.spacing).astype(np.int64))
        control = np.stack(
            [servo(wishes.pop(0) - state[2], DT), motor(gains * route.speed[preview] - state[3], DT)]
        )
        lost = np.hypot(x - route.x[place], y - route.y[place]) > LOST
        state = np.where(lost, state, step(state, control, car, DT))
    return states, indices


def _trace(
    track: Track, car: Vehicle, controller: str, line: str, gain: float, states: FloatArray, near: FloatArray
) -> Trace:
    s, left = track.centre.project(states[:, :2], near, reach=1.5)
    room = np.minimum(track.centre.at(track.left, s) - left, track.centre.at(track.right, s) + left)
    outside = room < 0.5 * car.width
    end = int(np.argmax(outside)) if outside.any() else len(s)
    laps = float(s[end - 1] - s[0]) / track.length if end else 0.0
    return Trace(
        controller,
        line,
        gain,
        states[:end].copy(),
        s[:end],
        left[:end],
        on_track=not outside.any(),
        laps=laps,
    )
