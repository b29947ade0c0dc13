"""Conformal correction of regions: how imprecise regions and conformal prediction compare (the paper leaves it open).

Split conformal prediction with the score level(x, y) of `cbdl.credal.content`: the largest level that a share of
1 - alpha of fresh data needed makes a region that covers with probability at least 1 - alpha, whatever the model, if
calibration and new data are exchangeable. Three regions stand side by side: the plain credal region, the conformal
region of the averaged predictive, and the conformalised credal region.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cbdl.credal import CategoricalCredalSet, MixtureCredalSet, NormalCredalSet
from cbdl.credal._border import Array, check_alpha
from cbdl.credal.base import CredalSet, Region
from cbdl.credal.classes.regions import region_from_mask
from cbdl.credal.content import class_levels, region_level
from cbdl.credal.line.intervals import Intervals
from cbdl.credal.line.regions import LineRegion, finished


@dataclass(frozen=True)
class Comparison:
    """One region beside others: its mean size and, where outcomes are given, how many of them it holds."""

    name: str
    size: float
    coverage: float | None


@dataclass(frozen=True)
class Calibration:
    """What `CBDL.calibrate` learned: the level that regions must have to cover with 1 - alpha.

    credal, average: the levels for the credal set and for its centre of gravity; at 1 or more only the whole space
    covers (too few calibration points for this alpha)
    points:          calibration points
    """

    alpha: float
    credal: float
    average: float
    points: int

    def region(self, prediction: CredalSet) -> Region:
        """The conformalised credal region of new predictions."""
        return _at_level(prediction, self.credal)

    def average_region(self, prediction: CredalSet) -> Region:
        """The conformal region of the averaged predictive."""
        return _at_level(_centre(prediction), self.average)

    def compare(self, prediction: CredalSet, y: Any = None) -> list[Comparison]:
        """The plain credal region and the two conformal ones: mean sizes, and coverage of `y`."""
        regions = {
            "credal": prediction.region(self.alpha),  # type: ignore[attr-defined]
            "conformal average": self.average_region(prediction),
            "conformal credal": self.region(prediction),
        }
        return [
            Comparison(
                name, float(np.mean(np.asarray(r.measure))), None if y is None else _share(r.contains(y))
            )
            for name, r in regions.items()
        ]


def calibrate(prediction: CredalSet, y: Any, alpha: float) -> Calibration:
    """Levels from predictions for calibration inputs and their outcomes `y`."""
    check_alpha(alpha)
    sets = (prediction, _centre(prediction))
    credal, average = (np.sort(np.asarray(region_level(s, y)).reshape(-1)) for s in sets)
    return Calibration(alpha, _quantile(credal, alpha), _quantile(average, alpha), len(credal))


def _quantile(scores: Any, alpha: float) -> float:
    """The ceil((n + 1)(1 - alpha))-th smallest score; infinite if there are too few."""
    rank = math.ceil((len(scores) + 1) * (1 - alpha) - 1e-9)
    return float(scores[rank - 1]) if rank <= len(scores) else math.inf


def _centre(prediction: CredalSet) -> CredalSet:
    if isinstance(prediction, CategoricalCredalSet):
        return CategoricalCredalSet(prediction.center()[..., None, :])
    if isinstance(prediction, NormalCredalSet | MixtureCredalSet):
        return prediction.center()
    raise ValueError(
        f"calibrate: {type(prediction).__name__} is not supported; calibrate one output at a time"
    )


def _at_level(prediction: CredalSet, level: float) -> Region:
    """All outcomes whose level is at most `level`."""
    if isinstance(prediction, CategoricalCredalSet):
        mask = class_levels(prediction._P) <= level
        return region_from_mask(prediction._P, mask, prediction._border)
    assert isinstance(prediction, NormalCredalSet | MixtureCredalSet)
    if level >= 1:
        return _whole_line(prediction)
    return prediction.region(min(max(1 - level, 1e-12), 1 - 1e-12))


def _share(inside: Array) -> float:
    return float(np.mean(np.asarray(inside)))


def _whole_line(prediction: NormalCredalSet | MixtureCredalSet) -> LineRegion:
    sets = prediction._flat()
    ends = sets.loc.new_tensor([-math.inf, math.inf]).expand(len(sets), 1, 2)
    unknown = sets.loc.new_full((len(sets), 1), math.nan)
    batch = torch.Size(prediction.batch_shape)
    everything = Intervals(ends, torch.zeros_like(ends))
    return finished(sets, everything, unknown, unknown[:, 0], prediction._border, batch)
