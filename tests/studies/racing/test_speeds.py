"""Speeds: closed forms on circles and straights, and limits that hold and bind everywhere."""

import numpy as np
import pytest
from racing_cases import circle, wavy_track

from cbdl.studies.racing import Pace, Vehicle, make_lines
from cbdl.studies.racing.curves import ClosedCurve, closed_curve
from cbdl.studies.racing.speeds import speeds
from cbdl.studies.racing.vehicle import GRAVITY

CAR = Vehicle()


@pytest.mark.parametrize("grip", [0.5, 0.75, 1.0])
def test_on_a_circle_friction_alone_decides(grip):
    curve = closed_curve(circle(3.0, 300), 300)
    v = speeds(curve, CAR, Pace(grip, 20.0))
    np.testing.assert_allclose(v, np.sqrt(grip * CAR.mu * GRAVITY * 3.0), rtol=1e-3)


def test_before_and_after_a_corner_speed_changes_as_the_brakes_and_the_motor_allow():
    """A straight with one slow point: v^2 grows by 2 a d from it, to both sides."""
    bend = np.zeros(1000)
    bend[500] = 4.0
    straight = ClosedCurve(100.0, np.zeros((1000, 2)), np.zeros(1000), bend)
    pace = Pace(0.5, 6.0)
    v = speeds(straight, Vehicle(steering_rate_max=1e9), pace)
    force = 0.5 * CAR.mu * GRAVITY
    distance = 0.1 * np.abs(np.arange(1000) - 500)
    # At the slow point itself all the friction goes into the bend: the first step keeps its speed.
    expected = np.minimum(force / 4.0 + 2.0 * force * np.maximum(distance - 0.1, 0.0), 36.0)
    np.testing.assert_allclose(v**2, expected, rtol=1e-9)


def test_limits_hold_everywhere_and_one_of_them_binds():
    pace = Pace(0.8, 7.0)
    line = make_lines(wavy_track(seed=1, length=90.0), ("centre",), pace=pace)["centre"]
    v, bend, h = line.speed, np.abs(line.curve.curvature), line.curve.spacing
    force = pace.grip * CAR.mu * GRAVITY
    acceleration = (np.roll(v, -1) ** 2 - v**2) / (2.0 * h)
    gas = np.hypot(v**2 * bend, np.maximum(acceleration, 0.0))
    brakes = np.hypot(np.roll(v**2 * bend, -1), np.minimum(acceleration, 0.0))
    lateral = v**2 * bend
    assert max(gas.max(), brakes.max(), lateral.max()) <= force * (1.0 + 1e-9)
    assert v.max() <= pace.top_speed
    assert (acceleration <= CAR.a_max + 1e-9).all()
    motor = np.minimum(CAR.a_max, CAR.a_max * CAR.v_switch / v)
    slope = np.abs(np.roll(line.curve.curvature, -1) - np.roll(line.curve.curvature, 1)) / (2.0 * h)
    tight = 1.0 - 1e-6
    from_before = (np.roll(gas, 1) >= force * tight) | (np.roll(acceleration, 1) >= np.roll(motor, 1) * tight)
    to_next = (brakes >= force * tight) | (acceleration <= -CAR.a_max * tight)
    here = (lateral >= force * tight) | (v >= pace.top_speed * tight)
    servo = v * slope * CAR.wheelbase >= 0.75 * CAR.steering_rate_max * tight
    assert (from_before | to_next | here | servo).all()


@pytest.mark.parametrize("wrong", [{"grip": 0.0}, {"top_speed": -1.0}, {"grip": float("nan")}])
def test_wrong_paces_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Pace(**wrong)
