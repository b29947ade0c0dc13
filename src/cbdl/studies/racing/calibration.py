"""Calibrated tubes: radii such that whole trajectories are held, learned from windows that were not trained on.

The score of a window is the largest, over steps, of its distance from the nearest member, in units of that member's
scale. The conformal quantile of the scores of n windows is a radius that holds the whole trajectory of a fresh one with
probability 1 - alpha, if it is exchangeable with them.

`OutOfFold` needs no windows but those of the training. A window is scored by the one member that did without its
stretch; a fresh window is held if it is near any member. This is the jackknife-minmax region of Barber et al. (2021),
as a union over a credal set: it covers 1 - alpha if stretches are exchangeable, and as a rule more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbdl.studies.racing.curves import FloatArray
from cbdl.studies.racing.forecasts import Forecast
from cbdl.studies.racing.regions import Tube

POWERS = (1.0, 0.8, 0.6, 0.4, 0.2)
"""Powers of the scales to choose from: a network is too sure where it is sure, and too unsure where it is not."""
ALPHAS = (0.1, 0.05, 0.01)
"""Levels at which tubes are to be narrow."""


def trajectory_scores(forecast: Forecast, y: FloatArray) -> FloatArray:
    """(W,): the radius at which a tube holds the whole of outcomes (W, horizon, 2)."""
    scores: FloatArray = np.sqrt(forecast.squared(y).max(axis=1))
    return scores


def conformal_tube(seen: Forecast, y: FloatArray, forecast: Forecast, alpha: float) -> Tube:
    """The tube of `forecast` with the radius that forecasts of windows with known outcomes ask for."""
    return Tube(forecast, conformal_quantile(trajectory_scores(seen, y), alpha))


def conformal_quantile(values: FloatArray, alpha: float) -> float:
    """The (n + 1)(1 - alpha)-th smallest of n values; the largest where there are too few to tell."""
    rank = int(np.ceil((len(values) + 1) * (1.0 - alpha) - 1e-9))
    return float(np.sort(values)[min(rank, len(values)) - 1])


@dataclass(frozen=True)
class OutOfFold:
    """Scores (n,) of training windows, each by the member that has not seen it, and what scales are compared with."""

    values: FloatArray
    typical: FloatArray  # (horizon, 2): the geometric mean of scales
    power: float

    def tempered(self, scale: FloatArray) -> FloatArray:
        """Scales (..., horizon, 2) with the power, in their own units."""
        tempered: FloatArray = scale**self.power * self.typical ** (1.0 - self.power)
        return tempered

    def shape(self, forecast: Forecast) -> Forecast:
        """What the tube is made of: no member's scale is below that of all of them averaged."""
        scale = np.maximum(forecast.scale, forecast.averaged().scale)
        return Forecast(forecast.loc, self.tempered(scale))

    def tube(self, forecast: Forecast, alpha: float) -> Tube:
        """The calibrated tube of fresh windows."""
        return Tube(self.shape(forecast), conformal_quantile(self.values, alpha))


def out_of_fold(parts: list[tuple[Forecast, FloatArray]], powers: Sequence[float] = POWERS) -> OutOfFold:
    """From the forecast of every member for the windows that it has not seen, and their outcomes.

    The power of the scales is that whose tubes for these windows are narrowest, as a geometric mean over levels.
    """
    choices = [_scored(parts, power) for power in powers]
    return min(choices, key=lambda own: _log_width(own, parts))


def _log_width(own: OutOfFold, parts: list[tuple[Forecast, FloatArray]]) -> float:
    scale = np.concatenate(
        [own.tempered(forecast.scale).mean(axis=(1, 2, 3)) for forecast, _ in parts]
    ).mean()
    return float(np.mean([np.log(conformal_quantile(own.values, alpha) * scale) for alpha in ALPHAS]))


def _scored(parts: list[tuple[Forecast, FloatArray]], power: float) -> OutOfFold:
    scales = np.concatenate([forecast.scale[:, 0] for forecast, _ in parts])
    empty = OutOfFold(np.zeros(0), np.exp(np.log(scales).mean(axis=0)), power)
    values = [
        trajectory_scores(Forecast(forecast.loc, empty.tempered(forecast.scale)), y) for forecast, y in parts
    ]
    return OutOfFold(np.concatenate(values), empty.typical, power)
