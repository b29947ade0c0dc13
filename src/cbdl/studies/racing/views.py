"""Views: what networks see of a window and what they predict, as arrays, and the forecast that comes of it.

`Plain` is the paper's: positions in, positions out. `Residual` knows some mechanics: the motion of the car as rates,
and what it does besides going on as it is. The residuals of all steps are a few smooth curves; what is predicted are
their coefficients, which are independent where the steps of a trajectory are not.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cbdl.studies.racing.curves import FloatArray
from cbdl.studies.racing.forecasts import Forecast
from cbdl.studies.racing.physics import constant_turn
from cbdl.studies.racing.traces import DT
from cbdl.studies.racing.windows import Windows

CURVES = 8
"""Curves per coordinate: what they leave of the residuals is a hundredth of a millimetre."""


class View(Protocol):
    """From windows to numbers, and from predicted numbers to a forecast; all windows are in the ego frame."""

    @property
    def targets_per_row(self) -> int:
        """How many numbers a network predicts."""

    def inputs(self, windows: Windows) -> FloatArray:
        """(W, inputs)."""

    def targets(self, windows: Windows) -> FloatArray:
        """(W, targets)."""

    def forecast(self, windows: Windows, loc: FloatArray, scale: FloatArray) -> Forecast:
        """From means and standard deviations (W, members, targets)."""


@dataclass(frozen=True)
class Plain:
    """Positions and context in, positions (x, y) of every step out."""

    horizon: int

    @property
    def targets_per_row(self) -> int:
        return 2 * self.horizon

    def inputs(self, windows: Windows) -> FloatArray:
        """The history without the present position and heading, which are always 0."""
        past = windows.history.reshape(len(windows), -1)
        keep = np.r_[: past.shape[1] - 4, past.shape[1] - 1]
        return np.concatenate([past[:, keep], windows.context], axis=1)

    def targets(self, windows: Windows) -> FloatArray:
        return windows.future[..., :2].reshape(len(windows), -1)

    def forecast(self, windows: Windows, loc: FloatArray, scale: FloatArray) -> Forecast:
        shape = (*loc.shape[:2], self.horizon, 2)
        return Forecast(loc.reshape(shape), scale.reshape(shape))


@dataclass(frozen=True)
class Residual:
    """Rates of motion and context in; out, how the car departs from constant turn rate and velocity."""

    curves: FloatArray  # (2, curves, horizon): orthonormal, of x and of y

    @property
    def targets_per_row(self) -> int:
        return 2 * int(self.curves.shape[1])

    def inputs(self, windows: Windows) -> FloatArray:
        return np.concatenate([rates(windows.history), windows.context], axis=1)

    def targets(self, windows: Windows) -> FloatArray:
        residual = windows.future[..., :2] - constant_turn(windows.history, self.curves.shape[2])
        targets: FloatArray = np.einsum("whd,dch->wdc", residual, self.curves).reshape(len(windows), -1)
        return targets

    def forecast(self, windows: Windows, loc: FloatArray, scale: FloatArray) -> Forecast:
        base = constant_turn(windows.history, self.curves.shape[2])
        shape = (*loc.shape[:2], *self.curves.shape[:2])
        mean = np.einsum("wmdc,dch->wmhd", loc.reshape(shape), self.curves, optimize=True)
        variance = np.einsum("wmdc,dch->wmhd", np.square(scale).reshape(shape), self.curves**2, optimize=True)
        return Forecast(base[:, None] + mean, np.sqrt(variance))


def residual_view(windows: Windows, curves: int = CURVES) -> Residual:
    """The view whose curves are the principal ones of these windows' residuals."""
    residual = windows.future[..., :2] - constant_turn(windows.history, windows.future.shape[1])
    some = residual[:: max(1, len(residual) // 5000)]
    curves = min(curves, *some.shape[:2])
    principal = [np.linalg.svd(some[..., i], full_matrices=False)[2][:curves] for i in range(2)]
    return Residual(np.stack(principal))


def rates(history: FloatArray) -> FloatArray:
    """(W, 7): turn rate and its change; speed, its first and second change; slip angle and its change.

    Parabolas through the headings and the speeds, and a straight line through the slip: the angle between where the car
    moves and where it points.
    """
    steps = history.shape[1]
    if steps < 3:
        raise ValueError(f"history has {steps} steps; rates need at least 3")
    time = DT * np.arange(1 - steps, 1)
    parabola = np.linalg.pinv(np.stack([np.ones(steps), time, time**2], axis=1)).T
    straight = np.linalg.pinv(np.stack([np.ones(steps - 1), time[1:] - 0.5 * DT], axis=1)).T
    move = np.diff(history[..., :2], axis=1)
    pointing = 0.5 * (history[:, 1:, 2] + history[:, :-1, 2])
    slip = np.arctan2(move[..., 1], move[..., 0]) - pointing
    slip = (slip + np.pi) % (2.0 * np.pi) - np.pi
    return np.concatenate(
        [(history[..., 2] @ parabola)[:, 1:], history[..., 3] @ parabola, slip @ straight], axis=1
    )
