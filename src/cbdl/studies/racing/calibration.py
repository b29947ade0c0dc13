"""Calibrated tubes: radii such that whole trajectories are held, learned from windows that were not trained on.

The score of a window is the largest, over steps, of its distance from the nearest member, in units of that member's
scale. The conformal quantile of the scores of n windows is a radius that holds the whole trajectory of a fresh one with
probability 1 - alpha, if it is exchangeable with them.

`OutOfFold` needs no windows but those of the training. A window is scored by the one member that did without its
stretch; a fresh window is held if it is near any member. This is the jackknife-minmax region of Barber et al. (2021),
as a union over a credal set: it covers 1 - alpha if stretches are exchangeable, and as a rule more. The same windows
tell how far the members' densities are to be trusted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cbdl.studies.racing.curves import FloatArray
from cbdl.studies.racing.forecasts import Forecast
from cbdl.studies.racing.regions import Tube

POWERS = (1.0, 0.8, 0.6, 0.4, 0.2)
"""Powers of the scales to choose from: a network is too sure where it is sure, and too unsure where it is not."""
ALPHAS = (0.1, 0.05, 0.01)
"""Levels at which tubes are to be narrow."""
Scored = Sequence[tuple[Forecast, FloatArray]]
"""The forecast of every member for the windows that it has not seen, and their outcomes."""


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
class Scales:
    """Scales with a power and a factor, about their geometric means `typical` (horizon, 2)."""

    typical: FloatArray
    power: float
    factor: float = 1.0

    def __call__(self, scale: FloatArray) -> FloatArray:
        """Of scales (..., horizon, 2)."""
        tempered: FloatArray = self.factor * scale**self.power * self.typical ** (1.0 - self.power)
        return tempered

    def of(self, forecast: Forecast) -> Forecast:
        """The forecast with these scales; first, no member's is below that of all of them averaged."""
        return Forecast(forecast.loc, self(np.maximum(forecast.scale, forecast.averaged().scale)))


@dataclass(frozen=True)
class OutOfFold:
    """Scores (n,) of training windows, each by the member that has not seen it, and the scales that go with them."""

    values: FloatArray
    scales: Scales
    """Of tubes."""
    density: Scales
    """Of densities."""

    def shape(self, forecast: Forecast) -> Forecast:
        """What the tube is made of."""
        return self.scales.of(forecast)

    def tube(self, forecast: Forecast, alpha: float) -> Tube:
        """The calibrated tube of fresh windows."""
        return Tube(self.shape(forecast), conformal_quantile(self.values, alpha))


def out_of_fold(parts: Scored, powers: Sequence[float] = POWERS) -> OutOfFold:
    """From forecasts of windows that were not seen: scales of narrow tubes, scales of likely densities.

    The power of tubes is that whose tubes for these windows are narrowest, as a geometric mean over levels.
    """
    typical = np.exp(np.log(np.concatenate([forecast.scale[:, 0] for forecast, _ in parts])).mean(axis=0))
    choices = [Scales(typical, power) for power in powers]
    own = [(scales, _scores(scales, parts)) for scales in choices]
    scales, values = min(own, key=lambda pair: _log_width(pair[0], pair[1], parts))
    density, _ = min((_likeliest(scales, parts) for scales in choices), key=lambda pair: pair[1])
    return OutOfFold(values, scales, density)


def _scores(scales: Scales, parts: Scored) -> FloatArray:
    return np.concatenate([trajectory_scores(Forecast(f.loc, scales(f.scale)), y) for f, y in parts])


def _log_width(scales: Scales, values: FloatArray, parts: Scored) -> float:
    scale = np.concatenate([scales(forecast.scale).mean(axis=(1, 2, 3)) for forecast, _ in parts]).mean()
    return float(np.mean([np.log(conformal_quantile(values, alpha) * scale) for alpha in ALPHAS]))


def _likeliest(scales: Scales, parts: Scored) -> tuple[Scales, float]:
    """With the factor that makes the outcomes likeliest, and their mean loss then, up to a constant.

    A position loses |z|^2 / (2 c^2) + log(s_x s_y) + 2 log c, which is least at c^2 = mean |z|^2 / 2.
    """
    forecasts = [(Forecast(f.loc, scales(f.scale)), y) for f, y in parts]
    squared = np.concatenate([f.squared(y) for f, y in forecasts]).mean()
    logs = np.concatenate([np.log(f.scale).sum(axis=-1)[:, 0] for f, _ in forecasts]).mean()
    return replace(scales, factor=float(np.sqrt(0.5 * squared))), float(logs + np.log(squared))
