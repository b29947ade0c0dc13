"""Calibration of class probabilities: reliability, expected calibration error, Brier score, log loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cbdl.credal import ArrayLike
from cbdl.evaluate.estimate import Estimate, Floats, estimate
from cbdl.evaluate.predictions import (
    Predicted,
    checked_probabilities,
    class_labels,
    point_probabilities,
    with_outcomes,
)


@dataclass(frozen=True)
class Reliability:
    """By bins of confidence: their edges (bins + 1,), rows (bins,), mean confidence and accuracy (bins,), nan if empty.

    ece: sum over bins of their share of rows times how far accuracy and confidence are apart

    - `edges`: of the bins
    - `confidence`: mean of each bin
    """

    edges: Floats
    rows: npt.NDArray[np.int64]
    confidence: Floats
    accuracy: Floats
    ece: Estimate


def reliability(
    prediction: Predicted, y: ArrayLike | None = None, bins: int = 15, *, draws: int = 1000, seed: int = 0
) -> Reliability:
    """Confidence (the largest probability of the point prediction) against accuracy, in bins of equal width.

    - `prediction`: a credal set, probabilities (n, J) or (n, m, J), or the path of a saved file
    - `y`: labels (n,); of a saved file that holds them they may be left out
    - `bins`: how many, of equal width
    - `draws`: bootstrap samples behind the intervals; 0 for none
    - `seed`: of the random numbers; the same seed gives the same answer

    >>> round(reliability(np.array([[0.9, 0.1], [0.7, 0.3]]), [0, 1], bins=5, draws=0).ece.value, 6)
    0.4
    """
    if int(bins) != bins or bins < 1:
        raise ValueError(f"bins is {bins}; give a whole number of at least 1")
    credal, y = with_outcomes(prediction, y)
    p = point_probabilities(credal)
    labels = class_labels(y, *p.shape)
    confidence, right = p.max(-1), (p.argmax(-1) == labels).astype(np.float64)
    edges = np.linspace(0, 1, bins + 1)
    # a bin holds its upper edge, and the first one 0
    place = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)
    inside = np.eye(bins)[place]
    rows = inside.sum(0)

    def error(w: Floats) -> Floats:
        return np.asarray(np.abs((w * (right - confidence)) @ inside).sum(-1) / w.sum(-1))

    with np.errstate(invalid="ignore"):
        means = (right @ inside / rows, confidence @ inside / rows)
    ece = estimate(error, len(p), draws=draws, seed=seed)
    return Reliability(edges, rows.astype(np.int64), means[1], means[0], ece)


def brier(p: ArrayLike, y: ArrayLike) -> Floats:
    """(n,): sum over classes of (p_k - [y = k])^2, for probabilities (n, J) and labels (n,).

    - `p`: probabilities (n, J)
    - `y`: labels (n,)

    >>> brier([[0.7, 0.3], [0.5, 0.5]], [0, 1]).round(2)
    array([0.18, 0.5 ])
    """
    probs = checked_probabilities(p)
    return np.asarray(np.square(probs - np.eye(probs.shape[-1])[class_labels(y, *probs.shape)]).sum(-1))


def log_loss(p: ArrayLike, y: ArrayLike) -> Floats:
    """(n,): -log p(y), for probabilities (n, J) and labels (n,); infinite where what happened was impossible.

    - `p`: probabilities (n, J)
    - `y`: labels (n,)

    >>> log_loss([[0.7, 0.3], [0.5, 0.5]], [0, 1]).round(2)
    array([0.36, 0.69])
    """
    probs = checked_probabilities(p)
    own = np.take_along_axis(probs, class_labels(y, *probs.shape)[:, None], -1)[:, 0]
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(own))
