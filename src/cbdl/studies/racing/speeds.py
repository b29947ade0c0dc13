"""Speeds on a line: as fast as friction, motor and servo allow."""

from dataclasses import dataclass

import numpy as np

from cbdl.studies.racing.curves import ClosedCurve, FloatArray
from cbdl.studies.racing.vehicle import GRAVITY, Vehicle

SERVO = 0.75
"""The part of the servo's rate that following a line may use; the rest is for corrections."""


@dataclass(frozen=True)
class Pace:
    """How hard the speeds push: the parts of the friction that are used, and the highest speed.

    Less for braking than for cornering: hard braking takes so much load off the rear axle that the car oversteers.
    """

    cornering: float = 0.85
    braking: float = 0.4  # and accelerating
    top_speed: float = 8.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not np.isfinite(value) or value <= 0.0:
                raise ValueError(f"Pace({name}={value}): give a positive number")


def speeds(curve: ClosedCurve, vehicle: Vehicle, pace: Pace) -> FloatArray:
    """The fastest speeds v (M,) with accelerations a in the ellipse of friction, within power and steering rate.

    (v^2 kappa / (cornering mu g))^2 + (a / (braking mu g))^2 <= 1
    """
    friction = vehicle.mu * GRAVITY
    bend = np.abs(curve.curvature) / (pace.cornering * friction)  # its part of the ellipse, per v^2
    slope = np.abs(np.roll(curve.curvature, -1) - np.roll(curve.curvature, 1)) / (2.0 * curve.spacing)
    steering = vehicle.steering_rate_max * SERVO / vehicle.wheelbase  # limit of v dkappa/ds
    limit = np.minimum(1.0 / np.sqrt(np.maximum(bend, 1e-9)), steering / np.maximum(slope, 1e-9))
    v = np.minimum(limit, min(pace.top_speed, vehicle.v_max))
    # Each pass carries limits onwards; twice around the loop, so that its start has no say.
    a_max = min(pace.braking * friction, vehicle.a_max)
    v = _pass(v, bend, curve.spacing, a_max, vehicle.a_max * vehicle.v_switch)
    # Brakes have no power limit.
    return _pass(v[::-1], bend[::-1], curve.spacing, a_max, np.inf)[::-1].copy()


def _pass(v: FloatArray, bend: FloatArray, h: float, a_max: float, power: float) -> FloatArray:
    """Lowers speeds (M,) until each can be reached from the one before; power is that of the motor, over mass."""
    v2, bends = (v**2).tolist(), bend.tolist()
    M = len(v2)
    now = v2[-1]
    for i in range(2 * M):
        here, before = i % M, (i - 1) % M
        lateral = now * bends[before]
        a = min(a_max * max(1.0 - lateral * lateral, 0.0) ** 0.5, power / now**0.5)
        now = min(v2[here], now + 2.0 * a * h)
        v2[here] = now
    speed: FloatArray = np.sqrt(np.array(v2))
    return speed
