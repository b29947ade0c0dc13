"""Conformal correction of regions: how imprecise regions and conformal prediction compare (the paper leaves it open).

Split conformal prediction with the score `CredalSet.level(y)`: the largest level that a share of 1 - alpha of fresh
data needed makes a region that covers with probability at least 1 - alpha, whatever the model, if calibration and new
data are exchangeable. Levels are kept as log(1 - level), so that this holds also for a model so overconfident that
every level rounds to 1. Three regions stand side by side: the plain credal region, the conformal region of the averaged
predictive, and the conformalised credal region.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cbdl.credal import Array, ArrayLike, CredalSet, Region, check_alpha


@dataclass(frozen=True)
class Comparison:
    """One region beside others: its mean size and, where outcomes are given, how many of them it holds."""

    name: str
    size: float
    coverage: float | None


@dataclass(frozen=True, repr=False)
class Calibration:
    """What `CBDL.calibrate` learned: the level that regions must have to cover with 1 - alpha.

    credal, average: the levels for the credal set and for its centre of gravity; infinite if there were too few
                     calibration points for this alpha, so that only the whole space covers
    points:          calibration points
    credal_log_survival, average_log_survival: log(1 - level), which tells levels apart that round to 1
    """

    alpha: float
    credal: float
    average: float
    points: int
    credal_log_survival: float
    average_log_survival: float

    def region(self, prediction: CredalSet) -> Region:
        """The conformalised credal region of new predictions."""
        return prediction.region_at_level(log_survival=self.credal_log_survival)

    def average_region(self, prediction: CredalSet) -> Region:
        """The conformal region of the averaged predictive."""
        return prediction.point().region_at_level(log_survival=self.average_log_survival)

    def compare(self, prediction: CredalSet, y: ArrayLike | None = None) -> list[Comparison]:
        """The plain credal region and the two conformal ones: mean sizes, and coverage of `y`."""
        regions = {
            "credal": prediction.region(self.alpha),
            "conformal average": self.average_region(prediction),
            "conformal credal": self.region(prediction),
        }
        return [
            Comparison(name, _mean(r.measure), None if y is None else _mean(r.contains(y)))
            for name, r in regions.items()
        ]

    def __repr__(self) -> str:
        promise = f"Calibrated on {self.points} outcomes to cover {1 - self.alpha:.4g} of new ones"
        if math.isinf(self.credal):
            needed = math.ceil(1 / self.alpha - 1 - 1e-9)
            return f"{promise}: only the whole space does, because that takes at least {needed} outcomes."
        lean = (
            "wider than it is by itself: the set is overconfident"
            if self.credal > 1 - self.alpha
            else "no wider than it is by itself: the set is cautious enough"
        )
        return (
            f"{promise}: the credal region must have the level {_spelled(self.credal_log_survival)}, {lean}. "
            f"The region of the average must have the level {_spelled(self.average_log_survival)}."
        )


def calibrate(prediction: CredalSet, y: ArrayLike, alpha: float) -> Calibration:
    """Levels from predictions for calibration inputs and their outcomes `y`."""
    check_alpha(alpha)
    scores = [np.asarray(s.log_survival(y)).reshape(-1) for s in (prediction, prediction.point())]
    (credal, credal_logs), (average, average_logs) = (_quantile(s, alpha) for s in scores)
    return Calibration(alpha, credal, average, len(scores[0]), credal_logs, average_logs)


def _quantile(log_survival: npt.NDArray[np.float64], alpha: float) -> tuple[float, float]:
    """The ceil((n + 1)(1 - alpha))-th smallest level, and its log survival; (inf, -inf) if there are too few."""
    n = len(log_survival)
    rank = math.ceil((n + 1) * (1 - alpha) - 1e-9)
    if rank > n:
        return math.inf, -math.inf
    logs = float(np.sort(log_survival)[n - rank])
    return -math.expm1(logs), logs


def _spelled(log_survival: float) -> str:
    """A level as a person writes it, also where it rounds to 1."""
    if log_survival == -math.inf or log_survival > math.log(1e-4):
        return f"{-math.expm1(log_survival):.4g}"
    exponent = log_survival / math.log(10)
    return f"1 - {10 ** (exponent - math.floor(exponent)):.1f}e{math.floor(exponent)}"


def _mean(values: Array) -> float:
    return float(np.mean(np.asarray(values)))
