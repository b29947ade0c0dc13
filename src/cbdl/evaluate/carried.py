"""Levels that were needed by other sets than those whose regions they will set.

Rows are left out by training again, more briefly and without them. Members that were trained briefly lie further apart,
and at the same level the union of their regions says more than that of the members that stay: their level covers too
little. What a region says is the probability that its own set's centre gives it. It is matched: a level becomes the one
at which regions of the whole model say on average what those at the old level said without the rows. Half widths of
regions of Normals are linear in the quantile of their level, so that a few levels tell all.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from cbdl.credal import CredalSet
from cbdl.evaluate.conformal import Conformity

Doubles = npt.NDArray[np.float64]

LEVELS = np.array([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
STEP = 1e-9
"""Quantiles are at least so far apart."""


def carried(needed: Conformity, without: CredalSet, whole: CredalSet, counts: Doubles) -> Conformity:
    """The levels `needed` of predictions like `without`, as levels of predictions like `whole`.

    without, whole: what both say about the same rows, (rows,) sets on the line
    counts:         (rows,) how often each row counts
    """
    from scipy.special import log_ndtr  # takes long to import, and few need it

    own = _quantile(np.log1p(-LEVELS))
    before, after = _contents(without, counts), _contents(whole, counts)
    moved = _line(_line(_quantile(needed.log_survival), own, before), after, own)
    survival = np.minimum(np.log(2) + log_ndtr(-np.maximum(moved, 0.0)), 0.0)
    return replace(needed, log_survival=survival)


def _contents(sets: CredalSet, counts: Doubles) -> Doubles:
    """The quantiles of the mean probability that the centre gives the region at each of the levels."""
    centre = sets.point()
    survival = [
        1 - np.average(np.asarray(centre.lower_probability(sets.region_at_level(level))), weights=counts)
        for level in LEVELS
    ]
    quantiles = _quantile(np.log(np.maximum(survival, np.finfo(float).tiny)))
    rise = STEP * np.arange(len(LEVELS))
    return np.asarray(np.maximum.accumulate(quantiles - rise) + rise)


def _quantile(log_survival: Doubles) -> Doubles:
    """z such that a standard Normal is beyond +-z with this probability."""
    from scipy.special import ndtri_exp  # as above

    return -np.asarray(ndtri_exp(np.minimum(log_survival, -np.finfo(float).tiny) - np.log(2)))


def _line(x: Doubles, x_known: Doubles, y_known: Doubles) -> Doubles:
    """Straight between what is known, and beyond its ends as the last pieces go."""
    slopes = np.diff(y_known) / np.diff(x_known)
    piece = np.clip(np.searchsorted(x_known, x) - 1, 0, len(slopes) - 1)
    return np.asarray(y_known[piece] + slopes[piece] * (x - x_known[piece]))
