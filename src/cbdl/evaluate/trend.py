"""Does uncertainty grow with the severity of a shift? A rank correlation says so without a scale (paper, section 4)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cbdl.evaluate.estimate import Estimate, Floats, Statistic, Tied, estimate


def trend(
    severity: npt.ArrayLike, uncertainty: npt.ArrayLike, *, draws: int = 1000, seed: int = 0
) -> Estimate:
    """Spearman's rank correlation of severity and uncertainty over rows (n,): 1 if it always grows, 0 without a trend.

    - `severity`: of the shift of each row (n,)
    - `uncertainty`: of each row (n,)
    - `draws`: bootstrap samples behind the intervals; 0 for none
    - `seed`: of the random numbers; the same seed gives the same answer

    >>> trend([0, 1, 2, 3], [0.1, 0.3, 0.2, 0.9], draws=0).value
    0.8
    """
    return estimate(ranked(severity, uncertainty), len(np.asarray(severity)), draws=draws, seed=seed)


def ranked(severity: npt.ArrayLike, uncertainty: npt.ArrayLike) -> Statistic:
    """Spearman's rank correlation of two numbers per row (n,), ties with their mean rank."""
    pair = [Tied.of(x) for x in (severity, uncertainty)]
    rows = [len(groups.order) for groups in pair]
    if rows[0] != rows[1]:
        raise ValueError(
            f"severity has {rows[0]} rows and uncertainty {rows[1]}; give both for the same rows"
        )

    def correlation(w: Floats) -> Floats:
        ranks = []
        for groups in pair:
            size = groups.sums(w)
            middle = size.cumsum(-1) - size / 2
            length = np.diff(np.append(groups.starts, w.shape[-1]))
            rank = np.empty_like(w)
            rank[:, groups.order] = np.repeat(middle, length, axis=-1)
            ranks.append(rank - (w * rank).sum(-1, keepdims=True) / w.sum(-1, keepdims=True))
        a, b = ranks
        spread = np.sqrt((w * a * a).sum(-1) * (w * b * b).sum(-1))
        same = np.divide((w * a * b).sum(-1), spread, out=np.zeros_like(spread), where=spread > 0)
        return np.asarray(same)

    return correlation
