"""Conformal correction of regions: how imprecise regions and conformal prediction compare (the paper leaves it open).

Split conformal prediction with the score `CredalSet.level(y)`: the largest level that a share of 1 - alpha of fresh
data needed makes a region that covers with probability at least 1 - alpha, whatever the model, if calibration and new
data are exchangeable. Levels are kept as log(1 - level), so that this holds also for a model so overconfident that
every level rounds to 1. Three regions stand side by side: the plain credal region, the conformal region of the averaged
predictive, and the conformalised credal region.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cbdl.credal import Array, ArrayLike, CredalSet, Region, check_alpha
from cbdl.ground.shown import html_table


@dataclass(frozen=True, repr=False)
class Conformity:
    """How well regions hold outcomes that were not learned from: for each the level of the smallest region with it.

    log_survival: (n,) log(1 - level) of every outcome
    counts:       (n,) how often each counts
    how:          where the outcomes come from, in words
    """

    log_survival: npt.NDArray[np.float64]
    counts: npt.NDArray[np.float64]
    how: str = "held-out outcomes"

    def needed(self, alpha: float) -> float:
        """log(1 - level) that a share of 1 - `alpha` of fresh outcomes needs; -inf if only the whole space will do."""
        order, place = self._place(alpha)
        return -math.inf if place == len(order) else float(self.log_survival[order[place]])

    def enough(self, alpha: float) -> bool:
        """Whether there are enough outcomes to tell a share of 1 - `alpha`: 1 / alpha - 1 or more."""
        order, place = self._place(alpha)
        return place < len(order)

    def _place(self, alpha: float) -> tuple[npt.NDArray[np.intp], int]:
        """The outcomes by their levels, and which of them sets the level: the (n + 1)(1 - alpha)-th, rounded up."""
        check_alpha(alpha)
        order = np.argsort(-self.log_survival, kind="stable")
        total = np.cumsum(self.counts[order])
        rank = (total[-1] + 1) * (1 - alpha) - 1e-9
        # counts that are whole numbers make whole ranks
        rank = math.ceil(rank) if np.all(self.counts == np.round(self.counts)) else rank
        return order, int(np.searchsorted(total, rank - 1e-9))

    def region(self, prediction: CredalSet, alpha: float) -> Region:
        """The credal region of a new `prediction` at the level that covers 1 - `alpha`; at level 1 - alpha, the plain
        one, where there are too few outcomes to know better."""
        if not self.enough(alpha):
            return prediction.region(alpha)
        return prediction.region_at_level(log_survival=self.needed(alpha))

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads; null is the level of an outcome that only the whole space holds."""
        logs = [None if log == -math.inf else log for log in self.log_survival.tolist()]
        return {"log_survival": logs, "counts": self.counts.tolist(), "how": self.how}

    @classmethod
    def from_json(cls, given: Any) -> Conformity:
        """The inverse of `to_json`; a ValueError if it is not that."""
        if not isinstance(given, Mapping) or not isinstance(given.get("how"), str):
            raise ValueError("a calibration is an object with log_survival, counts and how")
        logs, counts = (_numbers(given.get(name), name) for name in ("log_survival", "counts"))
        if not len(logs) or logs.shape != counts.shape:
            raise ValueError(
                f"a calibration holds as many levels as counts, one at least; it has {len(logs)} and {len(counts)}"
            )
        if not (logs <= 0).all():
            raise ValueError("a calibration holds log(1 - level), which is at most 0")
        if not ((counts > 0) & (counts < math.inf)).all():
            raise ValueError("a calibration holds counts, which are positive and finite")
        return cls(logs, counts, given["how"])

    def _repr_html_(self) -> str:
        rows = [
            [f"{1 - a:g}", _spelled(self.needed(a)), "yes" if self.enough(a) else "no"]
            for a in (0.2, 0.1, 0.05)
        ]
        title = f"Conformity of {len(self.counts)} outcomes ({self.how})"
        return html_table(title, ["coverage", "level needed", "enough outcomes"], rows)

    def __repr__(self) -> str:
        levels = ", ".join(f"{1 - a:g}: {_spelled(self.needed(a))}" for a in (0.2, 0.1, 0.05))
        return f"Conformity of {len(self.counts)} outcomes ({self.how}); level needed to cover {levels}"


@dataclass(frozen=True)
class Comparison:
    """One region beside others: its mean size and, where outcomes are given, how many of them it holds."""

    name: str
    """Of the region."""
    size: float
    """Mean over rows."""
    coverage: float | None
    """The share of outcomes that it holds; None without any."""


@dataclass(frozen=True, repr=False)
class Calibration:
    """What `CBDL.calibrate` learned: the level that regions must have to cover with 1 - alpha.

    alpha:           regions are to cover with 1 - alpha
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
        """The conformalised credal region of a new `prediction`."""
        return prediction.region_at_level(log_survival=self.credal_log_survival)

    def average_region(self, prediction: CredalSet) -> Region:
        """The conformal region of the average of a `prediction`."""
        return prediction.point().region_at_level(log_survival=self.average_log_survival)

    def compare(self, prediction: CredalSet, y: ArrayLike | None = None) -> list[Comparison]:
        """The plain credal region of a `prediction` and the two conformal ones: mean sizes, and coverage of `y`."""
        regions = {
            "credal": prediction.region(self.alpha),
            "conformal average": self.average_region(prediction),
            "conformal credal": self.region(prediction),
        }
        return [
            Comparison(name, _mean(r.measure), None if y is None else _mean(r.contains(y)))
            for name, r in regions.items()
        ]

    def _repr_html_(self) -> str:
        logs = {"credal set": self.credal_log_survival, "average": self.average_log_survival}
        rows = [[name, f"{1 - self.alpha:g}", _spelled(log)] for name, log in logs.items()]
        return html_table(
            "Calibration", ["region of the", "level by itself", "level needed"], rows, [repr(self)]
        )

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
    scores = [conformity(s, y) for s in (prediction, prediction.point())]
    logs = [score.needed(alpha) for score in scores]
    levels = [-math.expm1(log) if s.enough(alpha) else math.inf for s, log in zip(scores, logs, strict=True)]
    return Calibration(alpha, levels[0], levels[1], len(scores[0].counts), logs[0], logs[1])


def conformity(
    prediction: CredalSet, y: ArrayLike, counts: ArrayLike | None = None, how: str = "held-out outcomes"
) -> Conformity:
    """The levels that predictions need to hold their outcomes `y`, each of which counts once or `counts` times."""
    logs = np.asarray(prediction.log_survival(y), dtype=np.float64).reshape(-1)
    return Conformity(
        logs, np.ones_like(logs) if counts is None else np.asarray(counts, dtype=np.float64), how
    )


def _numbers(given: Any, name: str) -> npt.NDArray[np.float64]:
    """A list of JSON numbers, where null stands for -inf."""
    plain = isinstance(given, list) and all(v is None or type(v) in (int, float) for v in given)
    try:
        if plain:
            return np.array([-math.inf if v is None else v for v in given], dtype=np.float64)
    except OverflowError:
        pass
    raise ValueError(f"a calibration holds {name} as a list of numbers")


def _spelled(log_survival: float) -> str:
    """A level as a person writes it, also where it rounds to 1."""
    if log_survival == -math.inf or log_survival > math.log(1e-4):
        return f"{-math.expm1(log_survival):.4g}"
    exponent = log_survival / math.log(10)
    return f"1 - {10 ** (exponent - math.floor(exponent)):.1f}e{math.floor(exponent)}"


def _mean(values: Array) -> float:
    return float(np.mean(np.asarray(values)))
