"""One table of scores for a prediction and its outcomes, every number with its bootstrap interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbdl.credal import (
    ArrayLike,
    CategoricalCredalSet,
    CredalSet,
    IntervalCredalSet,
    MixtureCredalSet,
    NormalCredalSet,
)
from cbdl.evaluate import real
from cbdl.evaluate.calibration import brier, log_loss, reliability
from cbdl.evaluate.estimate import Estimate, Floats, estimate, mean, root_mean
from cbdl.evaluate.predictions import (
    Predicted,
    class_labels,
    point_probabilities,
    prediction_of,
    with_outcomes,
)
from cbdl.evaluate.rejection import rejection_area
from cbdl.evaluate.uncertainties import uncertainties


def scores(
    prediction: Predicted,
    y: ArrayLike | None = None,
    alpha: float = 0.05,
    method: str = "minimal",
    *,
    draws: int = 1000,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Every score that fits the prediction.

    Classes: accuracy, log loss, Brier score and calibration error of the point prediction; coverage and size of the
    region of 1 - alpha; area under accuracy-rejection by total, aleatoric and epistemic uncertainty. The line:
    root mean squared error, log loss and CRPS of the averaged predictive; coverage, width and interval score of the
    region (its hull, for the interval score).

    - `prediction`: a credal set, probabilities (n, J) or (n, m, J), or the path of a saved file
    - `y`: outcomes, one for each row; of a saved file that holds them they may be left out
    - `alpha`: 1 - alpha is the probability to cover, between 0 and 1
    - `method`: of the region: "minimal", "union" or "lower-density"
    - `draws`: bootstrap samples behind the intervals; 0 for none
    - `seed`: of the random numbers; the same seed gives the same answer

    >>> table = scores(np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), [0, 1, 1], draws=0)
    >>> {name: round(table[name].value, 3) for name in ("accuracy", "brier", "size")}
    {'accuracy': 0.667, 'brier': 0.273, 'size': 2.0}
    """
    credal, y = with_outcomes(prediction, y)
    if isinstance(credal, CategoricalCredalSet | IntervalCredalSet):
        rows = _of_classes(credal, y)
        rejections = _rejections(credal, rows["accuracy"], draws, seed)
    elif isinstance(credal, NormalCredalSet | MixtureCredalSet):
        rows, rejections = _of_the_line(credal, y, alpha, method), {}
    else:
        raise ValueError(f"{type(credal).__name__} has no table of scores; take one output at a time")
    region = credal.region(alpha, method)
    rows["coverage"] = np.asarray(region.contains(y), dtype=np.float64)
    rows["size"] = np.asarray(region.measure, dtype=np.float64)
    n = len(rows["size"])
    table = {
        name: estimate((root_mean if name == "rmse" else mean)(values), n, draws=draws, seed=seed)
        for name, values in rows.items()
    }
    if isinstance(credal, CategoricalCredalSet | IntervalCredalSet):
        table["ece"] = reliability(credal, y, draws=draws, seed=seed).ece
    return table | rejections


def _of_classes(credal: CredalSet, y: ArrayLike) -> dict[str, Floats]:
    p = point_probabilities(credal)
    labels = class_labels(y, *p.shape)
    return {
        "accuracy": (p.argmax(-1) == labels).astype(np.float64),
        "log loss": log_loss(p, labels),
        "brier": brier(p, labels),
    }


def _of_the_line(credal: CredalSet, y: ArrayLike, alpha: float, method: str) -> dict[str, Floats]:
    low, high = credal.region(alpha, method).hull()
    return {
        "rmse": real.squared_error(credal, y),
        "log loss": real.log_density_loss(credal, y),
        "crps": real.crps(credal, y),
        "interval score": real.interval_score(low, high, np.asarray(y), alpha),
    }


def _rejections(credal: CredalSet, right: Floats, draws: int, seed: int) -> dict[str, Estimate]:
    by = uncertainties(credal, ["total", "aleatoric", "epistemic"])
    return {
        f"rejection area by {name}": estimate(rejection_area(right, u), len(right), draws=draws, seed=seed)
        for name, u in by.items()
    }


@dataclass(frozen=True)
class LabelCoverage:
    """How often the set holds the true distribution of labels, and 1 - the mean width of its intervals.

    Either is easy alone: the whole simplex covers everything, one point is as efficient as can be.

    - `coverage`: the share of rows whose distribution the set holds
    - `efficiency`: 1 - the mean width of the intervals
    """

    coverage: Estimate
    efficiency: Estimate


def label_coverage(
    prediction: Predicted, distributions: ArrayLike, *, draws: int = 1000, seed: int = 0
) -> LabelCoverage:
    """Coverage of label distributions (n, J), such as those of several annotators, against efficiency.

    - `prediction`: a credal set, probabilities (n, J) or (n, m, J), or the path of a saved file
    - `draws`: bootstrap samples behind the intervals; 0 for none
    - `seed`: of the random numbers; the same seed gives the same answer

    >>> found = label_coverage(np.array([[[0.9, 0.1], [0.5, 0.5]]] * 2), [[0.7, 0.3], [0.2, 0.8]], draws=0)
    >>> found.coverage.value, round(found.efficiency.value, 6)
    (0.5, 0.6)
    """
    credal = prediction_of(prediction)
    inside = np.asarray(credal.contains(distributions), dtype=np.float64)
    narrow = 1 - uncertainties(credal, ["width"])["width"]
    cover, efficiency = (estimate(mean(x), len(narrow), draws=draws, seed=seed) for x in (inside, narrow))
    return LabelCoverage(cover, efficiency)
