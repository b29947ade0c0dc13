"""Accuracy against rejection: how right a model is on the rows of which it is least uncertain (paper, section 4).

Reject the most uncertain rows first. A good uncertainty makes the accuracy of the rest rise; the area under the
curve, the mean accuracy over all rates of rejection, is 1 at best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cbdl.evaluate.estimate import Estimate, Floats, Statistic, Tied, estimate


@dataclass(frozen=True)
class Rejection:
    """The curve: accuracy (n,) of what is kept when a share `rejected` (n,) of the rows is not; and its area.

    - `area`: under the curve, with its interval
    """

    rejected: Floats
    accuracy: Floats
    area: Estimate

    def at(self, share: float) -> float:
        """The accuracy when at least this share of the rows is rejected, and not more than needed.

        - `share`: of the rows, from 0 to below 1
        """
        if not 0 <= share < 1:
            raise ValueError(f"share is {share}; reject at least none and not all of the rows")
        place = int(np.searchsorted(self.rejected, share - 1e-12))
        if place == len(self.accuracy):
            raise ValueError(
                f"share is {share}; of {place} rows that leaves none, reject at most {self.rejected[-1]:g}"
            )
        return float(self.accuracy[place])


def rejection(
    correct: npt.ArrayLike, uncertainty: npt.ArrayLike, *, draws: int = 1000, seed: int = 0
) -> Rejection:
    """The curve of rows that are right or not, `correct` (n,), by their uncertainty (n,).

    Rows of equal uncertainty are rejected together: each of them counts as the mean of all. `correct` may also be any
    other score per row.

    - `draws`: bootstrap samples behind the intervals; 0 for none
    - `seed`: of the random numbers; the same seed gives the same answer

    >>> curve = rejection([1, 1, 0, 1, 0], [0.1, 0.2, 0.9, 0.4, 0.8], draws=0)
    >>> curve.accuracy
    array([0.6 , 0.75, 1.  , 1.  , 1.  ])
    >>> round(curve.area.value, 6)
    0.87
    """
    right = np.asarray(correct, dtype=np.float64)
    groups = Tied.of(uncertainty)
    if right.shape != groups.order.shape:
        raise ValueError(
            f"correct has shape {right.shape}; give one number for each of the {len(groups.order)} rows"
        )
    if not np.isfinite(right).all():
        at = int(np.flatnonzero(~np.isfinite(right))[0])
        raise ValueError(f"correct[{at}] is {right[at]}; give whether each row is right, or a finite score")
    n = len(right)
    share = groups.sums(right[None])[0] / groups.sums(np.ones((1, n)))[0]
    each = np.repeat(share, np.diff(np.append(groups.starts, n)))
    accuracy = (each.cumsum() / np.arange(1, n + 1))[::-1]
    area = estimate(rejection_area(right, uncertainty), n, draws=draws, seed=seed)
    return Rejection(np.arange(n) / n, accuracy, area)


def rejection_area(correct: npt.ArrayLike, uncertainty: npt.ArrayLike) -> Statistic:
    """The mean over all rates of rejection of the accuracy of what is kept.

    Of T rows with equal uncertainty, a share r of them right, after W rows of which C are right, the accuracies are
    (C + r t) / (W + t), t = 1 ... T; they sum to r T + (C - r W) (1/(W + 1) + ... + 1/(W + T)).
    """
    from scipy.special import digamma  # takes long to import, and few need it

    right, groups = np.asarray(correct, dtype=np.float64), Tied.of(uncertainty)

    def area(w: Floats) -> Floats:
        rows, hits = groups.sums(w), groups.sums(w * right)
        share = np.divide(hits, rows, out=np.zeros_like(hits), where=rows > 0)
        before, hits_before = rows.cumsum(-1) - rows, hits.cumsum(-1) - hits
        harmonic = digamma(before + rows + 1) - digamma(before + 1)
        sums = hits + (hits_before - share * before) * harmonic
        return np.asarray(sums.sum(-1) / rows.sum(-1))

    return area
