"""Speeds on a line: as fast as friction, motor and servo allow."""

from dataclasses import dataclass

import numpy as np

from cbdl.studies.racing.curves import ClosedCurve, FloatArray
from cbdl.studies.racing.vehicle import GRAVITY, Vehicle

SERVO = 0.75
"""The part of the servo's rate that following a line may use; the rest is for corrections."""


@dataclass(frozen=True)
class Pace:
    """How hard the speeds push: the part of the friction that is used, and the highest speed."""

    grip: float = 0.75
    top_speed: float = 8.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not np.isfinite(value) or value <= 0.0:
                raise ValueError(f"Pace({name}={value}): give a positive number")


def speeds(curve: ClosedCurve, vehicle: Vehicle, pace: Pace) -> FloatArray:
    """The fastest speeds (M,) with (v^2 kappa)^2 + a^2 <= (grip mu g)^2, the motor's power and the servo's rate."""
    force = pace.grip * vehicle.mu * GRAVITY
    bend = np.abs(curve.curvature)
    slope = np.abs(np.roll(curve.curvature, -1) - np.roll(curve.curvature, 1)) / (2.0 * curve.spacing)
    steering = vehicle.steering_rate_max * SERVO / vehicle.wheelbase  # limit of v dkappa/ds
    limit = np.minimum(np.sqrt(force / np.maximum(bend, 1e-9)), steering / np.maximum(slope, 1e-9))
    v = np.minimum(limit, min(pace.top_speed, vehicle.v_max))
    # Each pass carries limits onwards; twice around the loop, so that its start has no say.
    v = _pass(v, bend, curve.spacing, force, vehicle.a_max, vehicle.v_switch)
    # Brakes have no power limit.
    return _pass(v[::-1], bend[::-1], curve.spacing, force, vehicle.a_max, np.inf)[::-1].copy()


def _pass(
    v: FloatArray, bend: FloatArray, h: float, force: float, a_max: float, v_switch: float
) -> FloatArray:
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
    speed: FloatArray = np.sqrt(np.array(v2))
    return speed
