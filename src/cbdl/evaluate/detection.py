"""Detection of foreign rows by an uncertainty: AUROC, AUPR and FPR95 with bootstrap intervals.

The uncertainty is a score; a row is called foreign if its score is high. The area under the ROC curve is the
probability that a foreign row has the higher score, ties by half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cbdl.credal import CategoricalCredalSet, CredalSet, IntervalCredalSet
from cbdl.evaluate.estimate import Estimate, Floats, Statistic, Tied, estimate
from cbdl.evaluate.predictions import Predicted, prediction_of
from cbdl.evaluate.uncertainties import uncertainties


@dataclass(frozen=True)
class Detection:
    """How well one uncertainty tells the rows of one foreign data set from one's own.

    auroc: P(foreign row has the higher uncertainty), ties by half
    aupr:  average precision, foreign rows being the positives
    fpr95: share of foreign rows that are taken for own where 95 % of the own rows are

    - `measure`: which uncertainty
    - `foreign`: which data set
    """

    measure: str
    foreign: str
    auroc: Estimate
    aupr: Estimate
    fpr95: Estimate


def detection(
    own: Predicted,
    foreign: Predicted | Mapping[str, Predicted],
    measures: Sequence[str] | None = None,
    *,
    draws: int = 1000,
    seed: int = 0,
) -> list[Detection]:
    """All uncertainties (or those named in `measures`) against one foreign data set or several by name.

    - `own`: predictions of rows like those of training
    - `foreign`: predictions of other rows, or several of them by name
    - `draws`: bootstrap samples behind the intervals; 0 for none
    - `seed`: of the random numbers; the same seed gives the same answer

    >>> own, foreign = np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([[0.6, 0.4], [0.85, 0.15]])
    >>> [one] = detection(own, foreign, ["total"], draws=0)
    >>> one.auroc.value
    0.75
    """
    sets = foreign if isinstance(foreign, Mapping) else {"foreign": foreign}
    usual = prediction_of(own)
    inside = uncertainties(usual, measures)
    answers = []
    for name, other in sets.items():
        strange = prediction_of(other)
        if _classes(strange) != _classes(usual):
            raise ValueError(
                f"{name} is {strange!r} and own is {usual!r}; give what one model says about both"
            )
        outside = uncertainties(strange, list(inside))
        for measure, scores in inside.items():
            answers.append(_detection(measure, name, scores, outside[measure], draws, seed))
    return answers


def _classes(credal: CredalSet) -> int:
    """How many classes a set is over; 0 of sets of numbers."""
    return credal.num_classes if isinstance(credal, CategoricalCredalSet | IntervalCredalSet) else 0


def _detection(measure: str, name: str, inside: Floats, outside: Floats, draws: int, seed: int) -> Detection:
    scores = np.concatenate([inside, outside])
    positive = np.arange(len(scores)) >= len(inside)
    sizes = (len(inside), len(outside))
    parts = (
        estimate(statistic(scores, positive), sizes, draws=draws, seed=seed)
        for statistic in (auroc, aupr, fpr95)
    )
    return Detection(measure, name, *parts)


def _tied(scores: npt.ArrayLike, positive: npt.ArrayLike) -> tuple[Tied, Floats]:
    mask = np.asarray(positive, dtype=bool)
    groups = Tied.of(scores)
    if mask.shape != groups.order.shape or mask.all() or not mask.any():
        raise ValueError(
            f"positive has shape {mask.shape}; it must mark some of the {len(groups.order)} rows"
        )
    return groups, mask.astype(np.float64)


def auroc(scores: npt.ArrayLike, positive: npt.ArrayLike) -> Statistic:
    """The area under the ROC curve of scores (n,), where `positive` (n,) marks the rows that should be high."""
    groups, mask = _tied(scores, positive)

    def area(w: Floats) -> Floats:
        high, low = groups.sums(w * mask), groups.sums(w * (1 - mask))
        below = low.cumsum(-1) - low / 2
        return np.asarray((high * below).sum(-1) / (high.sum(-1) * low.sum(-1)))

    return area


def aupr(scores: npt.ArrayLike, positive: npt.ArrayLike) -> Statistic:
    """Average precision: the sum over thresholds of precision times the gain in recall."""
    groups, mask = _tied(scores, positive)

    def area(w: Floats) -> Floats:
        high = groups.sums(w * mask)[:, ::-1]
        every = groups.sums(w)[:, ::-1].cumsum(-1)
        precision = np.divide(high.cumsum(-1), every, out=np.zeros_like(every), where=every > 0)
        return np.asarray((high * precision).sum(-1) / high.sum(-1))

    return area


def fpr95(scores: npt.ArrayLike, positive: npt.ArrayLike) -> Statistic:
    """The share of positives at or below the lowest threshold that 95 % of the others do not exceed."""
    groups, mask = _tied(scores, positive)

    def share(w: Floats) -> Floats:
        low, high = groups.sums(w * (1 - mask)).cumsum(-1), groups.sums(w * mask).cumsum(-1)
        # A sum of counts is exact; 0.95 is not.
        at = (low < 0.95 * low[:, -1:] - 1e-9).sum(-1)
        return np.asarray(np.take_along_axis(high, at[:, None], -1)[:, 0] / high[:, -1])

    return share
