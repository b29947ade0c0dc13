"""The vehicle: derivatives of a public package, closed forms of steady cornering, and scipy's integrator."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from cbdl.studies.racing import Vehicle
from cbdl.studies.racing.vehicle import GRAVITY, derivatives, rolling_state, step

CAR = Vehicle()


def random_states(count, seed=0, low=0.5):
    rng = np.random.default_rng(seed)
    low_high = [(-50, 50), (-50, 50), (-0.5, 0.5), (low + 1e-9, 21), (-4, 4), (-6, 6), (-0.6, 0.6)]
    states = np.stack([rng.uniform(*ends, count) for ends in low_high])
    return states, np.stack([rng.uniform(-5, 5, count), rng.uniform(-14, 14, count)])


def test_derivatives_are_those_of_commonroad():
    """States and controls reach beyond all limits, so that the limits are compared too."""
    public = pytest.importorskip(
        "vehiclemodels.vehicle_dynamics_st", reason="commonroad-vehicle-models, extra dev"
    )
    car = replace(CAR, C_Sr=CAR.C_Sf)  # the package has one stiffness
    parameters = SimpleNamespace(
        tire=SimpleNamespace(p_dy1=car.mu, p_ky1=-car.C_Sf * car.mu),
        a=car.lf,
        b=car.lr,
        h_s=car.h,
        m=car.m,
        I_z=car.I,
        steering=SimpleNamespace(
            min=-car.steering_max,
            max=car.steering_max,
            v_min=-car.steering_rate_max,
            v_max=car.steering_rate_max,
        ),
        longitudinal=SimpleNamespace(
            v_min=car.v_min, v_max=car.v_max, v_switch=car.v_switch, a_max=car.a_max
        ),
    )
    states, controls = random_states(3000)
    truth = [public.vehicle_dynamics_st(x, u, parameters) for x, u in zip(states.T, controls.T, strict=True)]
    np.testing.assert_allclose(derivatives(states, controls, car), np.array(truth).T, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("speed", "angle"), [(4.0, 0.05), (7.0, -0.03), (1.0, 0.3)])
def test_steady_cornering_has_the_understeer_of_linear_tyres(speed, angle):
    """delta = L r / v + v r (1 / C_Sf - 1 / C_Sr) / (mu g)."""
    state = np.array([0.0, 0.0, angle, speed, 0.0, 0.0, 0.0])
    for _ in range(400):
        state = step(state, np.zeros(2), CAR)
    understeer = (1.0 / CAR.C_Sf - 1.0 / CAR.C_Sr) / (CAR.mu * GRAVITY)
    assert state[5] == pytest.approx(angle / (CAR.wheelbase / speed + understeer * speed), rel=1e-6)


def test_less_friction_means_more_slip():
    slips = []
    for mu in (1.0489, 0.7):
        state = np.array([0.0, 0.0, 0.05, 6.0, 0.0, 0.0, 0.0])
        for _ in range(400):
            state = step(state, np.zeros(2), replace(CAR, mu=mu))
        slips.append(abs(state[6]))
    assert slips[1] > 1.2 * slips[0]


def test_below_half_a_metre_per_second_the_wheels_roll_on_a_circle():
    angle, speed = 0.3, 0.4
    zero = np.zeros(())
    state = rolling_state(zero, zero, zero, np.array(speed), np.tan(angle) / CAR.wheelbase * np.ones(()), CAR)
    states = [state]
    for _ in range(600):
        states.append(step(states[-1], np.zeros(2), CAR))
    x, y = np.array(states).T[:2]
    rear = CAR.wheelbase / np.tan(angle)
    radius = np.hypot(rear, CAR.lr)
    centre = np.array([0.0, radius])  # the course at the start is along x
    np.testing.assert_allclose(np.hypot(x - centre[0], y - centre[1]), radius, rtol=1e-7)


def test_rolling_keeps_yaw_rate_and_slip_at_their_geometry():
    """The two states that the rolling model does not use follow steering and speed exactly."""
    rng = np.random.default_rng(1)
    zero = np.zeros(50)
    state = rolling_state(zero, zero, zero, rng.uniform(-0.3, 0.1, 50), rng.uniform(-1, 1, 50), CAR)
    control = np.stack([rng.uniform(-0.5, 0.5, 50), rng.uniform(-0.3, 0.3, 50)])
    for _ in range(100):
        state = step(state, control, CAR)
    _, _, angle, speed, _, rate, slip = state
    assert (speed < 0.5).all()
    expected = np.arctan(CAR.lr / CAR.wheelbase * np.tan(angle))
    np.testing.assert_allclose(slip, expected, atol=1e-8)
    np.testing.assert_allclose(rate, speed * np.cos(expected) * np.tan(angle) / CAR.wheelbase, atol=1e-8)


def test_a_car_that_slows_down_leaves_its_slip_behind():
    state = np.array([0.0, 0.0, 0.3, 0.6, 0.0, 3.0, -0.4])
    for _ in range(30):
        state = step(state, np.array([0.0, -1.5]), CAR)
    assert 0.0 <= state[3] < 0.5
    assert state[6] == pytest.approx(np.arctan(CAR.lr / CAR.wheelbase * np.tan(0.3)))


def test_steps_are_those_of_scipy_and_of_fourth_order():
    start = np.array([0.0, 0.0, 0.02, 5.0, 0.1, 0.0, 0.0])
    control = np.array([0.3, 1.0])  # within all limits for a second: the motion is smooth
    truth = solve_ivp(
        lambda _, x: derivatives(x, control, CAR), (0.0, 0.8), start, method="DOP853", rtol=1e-12, atol=1e-12
    ).y[:, -1]
    errors = []
    for dt in (0.01, 0.005):
        state = start
        for _ in range(round(0.8 / dt)):
            state = step(state, control, CAR, dt)
        errors.append(np.abs(state - truth).max())
    assert errors[0] < 1e-4
    assert 12.0 < errors[0] / errors[1] < 20.0


def test_a_car_does_not_depend_on_the_others_in_the_batch():
    states, controls = random_states(40, seed=2, low=-1.0)  # some roll, some slip
    together = step(states, controls, CAR)
    for i in range(40):
        np.testing.assert_allclose(
            step(states[:, i], controls[:, i], CAR), together[:, i], rtol=1e-13, atol=1e-13
        )


def test_steering_and_speed_stay_within_their_ends():
    state = np.tile(np.array([[0.0], [0.0], [0.0], [8.0], [0.0], [0.0], [0.0]]), 2)
    for _ in range(800):
        state = step(state, np.array([[9.0, -9.0], [30.0, -30.0]]), CAR)
        assert (np.abs(state[2]) <= CAR.steering_max).all()
        assert ((state[3] >= CAR.v_min) & (state[3] <= CAR.v_max)).all()
    assert state[3].tolist() == [CAR.v_max, CAR.v_min]
    assert np.isfinite(state).all()


def test_above_v_switch_the_motor_has_constant_power():
    state = np.zeros((7, 3))
    state[3] = [5.0, 7.319, 14.638]
    acceleration = derivatives(state, np.array([[0.0] * 3, [20.0] * 3]), CAR)[3]
    np.testing.assert_allclose(acceleration, [9.51, 9.51, 9.51 / 2])


@pytest.mark.parametrize("wrong", [{"mu": 0.0}, {"m": -1.0}, {"h": float("nan")}, {"v_min": 1.0}])
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Vehicle(**wrong)
