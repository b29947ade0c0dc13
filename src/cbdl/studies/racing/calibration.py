"""Calibrated tubes: radii such that whole trajectories are held, learned from windows that were not trained on.

The score of a window is the largest, over steps, of its distance from the nearest member, in units of that member's
scale. The conformal quantile of the scores of n windows is a radius that holds the whole trajectory of a fresh one with
probability 1 - alpha, if it is exchangeable with them.

`OutOfFold` needs no windows but those of the training. A window is scored by the one member that did without its
stretch; a fresh window is held if it is near any member. This is the jackknife-minmax region of Barber et al. (2021),
as a union over a credal set: it covers 1 - alpha if stretches are exchangeable, and as a rule more.
"""

from dataclasses import dataclass

import numpy as np

from cbdl.studies.racing.curves import FloatArray
from cbdl.studies.racing.forecasts import Forecast
from cbdl.studies.racing.regions import Tube

POWER = 0.8
"""Scales count with this power: a network is too sure where it is sure, and too unsure where it is not."""


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
    power: float = POWER

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


def out_of_fold(parts: list[tuple[Forecast, FloatArray]], power: float = POWER) -> OutOfFold:
    """From the forecast of every member for the windows that it has not seen, and their outcomes."""
    scales = np.concatenate([forecast.scale[:, 0] for forecast, _ in parts])
    empty = OutOfFold(np.zeros(0), np.exp(np.log(scales).mean(axis=0)), power)
    values = [
        trajectory_scores(Forecast(forecast.loc, empty.tempered(forecast.scale)), y) for forecast, y in parts
    ]
    return OutOfFold(np.concatenate(values), empty.typical, power)
