"""Speeds: closed forms on circles and straights, and limits that hold and bind everywhere."""

import numpy as np
import pytest
from racing_cases import circle, wavy_track

from cbdl.studies.racing import Pace, Vehicle, make_lines
from cbdl.studies.racing.curves import ClosedCurve, closed_curve
from cbdl.studies.racing.speeds import speeds
from cbdl.studies.racing.vehicle import GRAVITY

CAR = Vehicle()


@pytest.mark.parametrize("cornering", [0.5, 0.75, 1.0])
def test_on_a_circle_friction_alone_decides(cornering):
    curve = closed_curve(circle(3.0, 300), 300)
    v = speeds(curve, CAR, Pace(cornering, top_speed=20.0))
    np.testing.assert_allclose(v, np.sqrt(cornering * CAR.mu * GRAVITY * 3.0), rtol=1e-3)


def test_before_and_after_a_corner_speed_changes_as_the_brakes_and_the_motor_allow():
    """A straight with one slow point: v^2 grows by 2 a d from it, to both sides."""
    bend = np.zeros(1000)
    bend[500] = 4.0
    straight = ClosedCurve(100.0, np.zeros((1000, 2)), np.zeros(1000), bend)
    v = speeds(straight, Vehicle(steering_rate_max=1e9), Pace(0.5, 0.3, 6.0))
    friction = CAR.mu * GRAVITY
    distance = 0.1 * np.abs(np.arange(1000) - 500)
    # At the slow point itself all the friction goes into the bend: the first step keeps its speed.
    expected = np.minimum(0.5 * friction / 4.0 + 2.0 * 0.3 * friction * np.maximum(distance - 0.1, 0.0), 36.0)
    # What the bend leaves of the friction there is the root of a rounding error, about 1e-8.
    np.testing.assert_allclose(v**2, expected, rtol=1e-7)


@pytest.mark.parametrize("pace", [Pace(), Pace(0.8, 0.8, 7.0), Pace(0.6, 1.2, 12.0)])
def test_limits_hold_everywhere_and_one_of_them_binds(pace):
    line = make_lines(wavy_track(seed=1, length=90.0), ("centre",), pace=pace)["centre"]
    v, h = line.speed, line.curve.spacing
    bend = v**2 * np.abs(line.curve.curvature) / (pace.cornering * CAR.mu * GRAVITY)
    brakes_max = min(pace.braking * CAR.mu * GRAVITY, CAR.a_max)
    acceleration = (np.roll(v, -1) ** 2 - v**2) / (2.0 * h)
    # Speed grows by the friction that the point before leaves, and falls by what the point after leaves.
    gas = np.hypot(bend, np.maximum(acceleration, 0.0) / brakes_max)
    brakes = np.hypot(np.roll(bend, -1), np.minimum(acceleration, 0.0) / brakes_max)
    motor = CAR.a_max * CAR.v_switch / v
    slope = np.abs(np.roll(line.curve.curvature, -1) - np.roll(line.curve.curvature, 1)) / (2.0 * h)
    servo = v * slope * CAR.wheelbase / (0.75 * CAR.steering_rate_max)
    assert max(gas.max(), brakes.max(), bend.max(), servo.max(), v.max() / pace.top_speed) <= 1.0 + 1e-9
    assert (acceleration <= motor + 1e-9).all()
    tight = 1.0 - 1e-6
    from_before = (np.roll(gas, 1) >= tight) | (np.roll(acceleration / motor, 1) >= tight)
    here = (bend >= tight) | (v >= pace.top_speed * tight) | (servo >= tight)
    assert (from_before | (brakes >= tight) | here).all()


@pytest.mark.parametrize("wrong", [{"cornering": 0.0}, {"braking": float("nan")}, {"top_speed": -1.0}])
def test_wrong_paces_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Pace(**wrong)
