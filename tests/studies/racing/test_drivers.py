"""Controllers: closed forms of pure pursuit, Stanley and PID."""

import numpy as np
import pytest
from racing_cases import circle_track

from cbdl.studies.racing import Vehicle, make_lines
from cbdl.studies.racing.controllers import PID, PurePursuit, Stanley, make_route
from cbdl.studies.racing.vehicle import rolling_state

CAR = Vehicle()


@pytest.fixture(scope="module", params=[False, True], ids=["left", "right"])
def ring(request):
    """A circle of 6 m, its centre line as a route, and the sense in which it turns."""
    line = make_lines(circle_track(6.0, clockwise=request.param), ("centre",))["centre"]
    return line.curve, make_route([line]), -1.0 if request.param else 1.0


def standing(x, y, yaw, speed=0.0):
    one = np.ones(1)
    return rolling_state(x * one, y * one, yaw * one, speed * one, 0.0 * one, CAR)


@pytest.mark.parametrize("lookahead", [0.8, 1.3, 2.5])
def test_pure_pursuit_on_a_circle_steers_its_radius(ring, lookahead):
    """The rear axle on the circle and along it: delta = atan(L / R), for every look-ahead distance."""
    curve, route, sense = ring
    index = np.array([30])
    (x, y), yaw = curve.xy[30], curve.heading[30]
    angle = PurePursuit(lookahead).steering(
        x * np.ones(1), y * np.ones(1), standing(x, y, yaw), index, route, CAR
    )
    assert angle[0] == pytest.approx(sense * np.arctan(CAR.wheelbase * abs(curve.curvature[30])), rel=2e-3)


@pytest.mark.parametrize("off", [-0.4, 0.1, 0.5])
def test_pure_pursuit_hits_the_point_at_the_look_ahead_distance(ring, off):
    """The circle of the steering angle, tangent to the car, passes through the line at that distance."""
    curve, route, _ = ring
    yaw = curve.heading[30] + 0.2
    x, y = curve.xy[30] + off * curve.normals[30]
    angle = PurePursuit(1.3).steering(
        np.array([x]), np.array([y]), standing(x, y, yaw), np.array([30]), route, CAR
    )[0]
    radius = CAR.wheelbase / np.tan(angle)
    centre = np.array([x - radius * np.sin(yaw), y + radius * np.cos(yaw)])
    near = np.hypot(*(curve.xy - [x, y]).T)
    ahead = (curve.xy - [x, y]) @ [np.cos(yaw), np.sin(yaw)] > 0.0
    target = curve.xy[np.argmin(np.where(ahead, np.abs(near - 1.3), np.inf))]
    assert np.hypot(*(target - centre)) == pytest.approx(abs(radius), abs=0.06)  # a step of points is 0.1


@pytest.mark.parametrize(("off", "turn", "speed"), [(0.3, 0.0, 2.0), (-0.2, 0.1, 5.0), (0.0, -0.3, 0.0)])
def test_stanley_is_its_formula(ring, off, turn, speed):
    curve, route, _ = ring
    yaw = curve.heading[30] + turn
    x, y = curve.xy[30] + off * curve.normals[30]
    driver = Stanley(gain=2.0, softening=1.0, damping=0.0, slip=0.0)
    state = standing(x, y, yaw, speed)
    angle = driver.steering(np.array([x]), np.array([y]), state, np.array([30]), route, CAR)[0]
    assert angle == pytest.approx(-turn - np.arctan(2.0 * off / (1.0 + speed)), abs=1e-6)


def test_the_nearest_point_counts_laps(ring):
    curve, route, _ = ring
    index = np.array([0])
    for k in range(0, 2 * route.count, 3):
        x, y = curve.xy[k % route.count]
        index = route.nearest(np.array([x]), np.array([y]), index)
        assert index[0] == k


def test_pid_of_a_constant_error():
    pid = PID(kp=2.0, ki=0.5, kd=7.0)
    answers = [pid(np.array([3.0]), 0.1)[0] for _ in range(5)]
    np.testing.assert_allclose(answers, 6.0 + 0.5 * 3.0 * 0.1 * np.arange(5))


def test_pid_of_a_growing_error():
    pid = PID(kp=0.0, kd=2.0)
    answers = [pid(np.array([0.3 * t]), 0.1)[0] for t in range(4)]
    np.testing.assert_allclose(answers, [0.0, 6.0, 6.0, 6.0])


def test_at_its_limit_the_integral_does_not_wind_up():
    pid = PID(kp=1.0, ki=10.0, limit=2.0)
    for _ in range(1000):
        assert pid(np.array([5.0]), 0.01)[0] == 2.0
    assert pid(np.array([-1.0]), 0.01)[0] == pytest.approx(-1.0)


def test_lines_of_different_tracks_do_not_make_a_route():
    lines = [make_lines(circle_track(radius), ("centre",))["centre"] for radius in (5.0, 6.0)]
    with pytest.raises(ValueError, match="make all of them for the same track"):
        make_route(lines)
