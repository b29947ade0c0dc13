"""The car: a single-track model with F1TENTH's parameters, many cars at once.

The equations are those of the CommonRoad single-track model (linear tyres whose load shifts with the acceleration),
about the centre of mass. Below 0.5 m/s, where slip angles are not defined, the wheels roll without slip.
A state is an array (7, ...): x, y, steering angle, speed, yaw, yaw rate, slip angle; a control is an array (2, ...):
steering rate, acceleration. Metres, seconds, radians.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

GRAVITY = 9.81
ROLLING = 0.5
"""Below this speed (also in reverse) the wheels roll without slip."""


@dataclass(frozen=True)
class Vehicle:
    """The F1TENTH car, 1:10. `replace(vehicle, mu=0.8)` is the same car on a slippery floor."""

    mu: float = 1.0489  # friction
    C_Sf: float = 4.718  # cornering stiffness, front and rear, per radian and unit of load
    C_Sr: float = 5.4562
    lf: float = 0.15875  # from the centre of mass to the axles
    lr: float = 0.17145
    h: float = 0.074  # height of the centre of mass
    m: float = 3.74
    I: float = 0.04712  # noqa: E741  the letter of the equations
    width: float = 0.31
    steering_max: float = 0.4189
    steering_rate_max: float = 3.2
    v_switch: float = 7.319  # above this speed the motor has constant power
    a_max: float = 9.51
    v_min: float = -5.0
    v_max: float = 20.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not np.isfinite(value) or (value <= 0.0 and name != "v_min"):
                raise ValueError(f"Vehicle({name}={value}): give a positive number")
        if not np.isfinite(self.v_min) or self.v_min > 0.0:
            raise ValueError(
                f"Vehicle(v_min={self.v_min}): the lowest speed is at most 0 (negative: reverse)"
            )

    @property
    def wheelbase(self) -> float:
        return self.lf + self.lr

    @property
    def curvature_max(self) -> float:
        """Of the tightest circle that the steering allows, without slip."""
        return float(np.tan(self.steering_max) / self.wheelbase)


def limited(state: FloatArray, control: FloatArray, car: Vehicle) -> tuple[FloatArray, FloatArray]:
    """Steering rate and acceleration that the servo and the motor can give in this state."""
    angle, speed = state[2], state[3]
    # At an end of its range a quantity may only come back: the bound on that side is zero.
    rate = np.maximum(control[0], -car.steering_rate_max * (angle > -car.steering_max))
    rate = np.minimum(rate, car.steering_rate_max * (angle < car.steering_max))
    power = (car.a_max * car.v_switch) / np.maximum(speed, car.v_switch)
    acceleration = np.maximum(control[1], -car.a_max * (speed > car.v_min))
    return rate, np.minimum(acceleration, power * (speed < car.v_max))


def derivatives(state: FloatArray, control: FloatArray, car: Vehicle) -> FloatArray:
    """d/dt of the state (7, ...) under a control (2, ...)."""
    rate, acceleration = limited(state, control, car)
    speed = state[3]
    rolls = speed < ROLLING
    if not rolls.any():
        return _slipping(state, speed, rate, acceleration, car)
    slipping = _slipping(state, np.maximum(speed, ROLLING), rate, acceleration, car)
    return np.where(rolls, _rolling(state, rate, acceleration, car), slipping)


def _slipping(
    state: FloatArray, speed: FloatArray, rate: FloatArray, acceleration: FloatArray, car: Vehicle
) -> FloatArray:
    _, _, angle, _, yaw, yaw_rate, slip = state
    shift = acceleration * car.h
    # Lateral force per radian of slip, over mass and wheelbase: the load moves to the rear under acceleration.
    front = (GRAVITY * car.lr - shift) * (car.mu * car.C_Sf / car.wheelbase)
    rear = (GRAVITY * car.lf + shift) * (car.mu * car.C_Sr / car.wheelbase)
    balance = car.lr * rear - car.lf * front
    damping = car.lf**2 * front + car.lr**2 * rear
    turn = yaw_rate / speed
    out = np.empty_like(state)
    course = yaw + slip
    out[0] = speed * np.cos(course)
    out[1] = speed * np.sin(course)
    out[2] = rate
    out[3] = acceleration
    out[4] = yaw_rate
    out[5] = (balance * slip - damping * turn + car.lf * front * angle) * (car.m / car.I)
    out[6] = (balance * turn - (rear + front) * slip + front * angle) / speed - yaw_rate
    return out


def _rolling(state: FloatArray, rate: FloatArray, acceleration: FloatArray, car: Vehicle) -> FloatArray:
    _, _, angle, speed, yaw, _, _ = state
    tangent = np.tan(angle)
    share = car.lr / car.wheelbase
    slip = np.arctan(share * tangent)
    slip_rate = share * rate * (1.0 + tangent**2) / (1.0 + (share * tangent) ** 2)
    bend = np.cos(slip) * tangent / car.wheelbase  # yaw rate over speed
    bend_rate = (
        np.cos(slip) * (1.0 + tangent**2) * rate - np.sin(slip) * slip_rate * tangent
    ) / car.wheelbase
    return np.stack(
        [
            speed * np.cos(yaw + slip),
            speed * np.sin(yaw + slip),
            rate,
            acceleration,
            speed * bend,
            acceleration * bend + speed * bend_rate,
            slip_rate,
        ]
    )


def step(state: FloatArray, control: FloatArray, car: Vehicle, dt: float = 0.01) -> FloatArray:
    """One step of Runge and Kutta's fourth order; steering and speed stay within their ends."""
    first = derivatives(state, control, car)
    second = derivatives(state + (0.5 * dt) * first, control, car)
    third = derivatives(state + (0.5 * dt) * second, control, car)
    fourth = derivatives(state + dt * third, control, car)
    new: FloatArray = state + (dt / 6.0) * (first + 2.0 * (second + third) + fourth)
    # Limits are seen at the stages only: a step may end a little outside.
    new[2] = np.minimum(np.maximum(new[2], -car.steering_max), car.steering_max)
    new[3] = np.minimum(np.maximum(new[3], car.v_min), car.v_max)
    rolls = new[3] < ROLLING
    if rolls.any():
        # A car that has just slowed down brings slip that rolling wheels do not have.
        new[5:] = np.where(rolls, _rolling_turn(new[2], new[3], car), new[5:])
    return new


def _rolling_turn(angle: FloatArray, speed: FloatArray, car: Vehicle) -> FloatArray:
    """Yaw rate and slip angle (2, ...) of wheels that roll without slip."""
    tangent = np.tan(angle)
    slip = np.arctan(car.lr / car.wheelbase * tangent)
    return np.stack([speed * np.cos(slip) * tangent / car.wheelbase, slip])


def rolling_state(
    x: FloatArray, y: FloatArray, course: FloatArray, speed: FloatArray, curvature: FloatArray, car: Vehicle
) -> FloatArray:
    """States of cars whose rear axles roll on curves of the given curvature."""
    angle = np.clip(np.arctan(car.wheelbase * curvature), -car.steering_max, car.steering_max)
    yaw_rate, slip = _rolling_turn(angle, speed, car)
    return np.stack([x, y, angle, speed, course - slip, yaw_rate, slip])
