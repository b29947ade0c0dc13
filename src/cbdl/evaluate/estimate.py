"""Numbers with their uncertainty: a score on n rows, and the bootstrap interval around it.

A bootstrap sample is a count per row. So every score here is a function of weights (D, n) and gives (D,) values: all
samples in a few matrix products, no loop over them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
"""From weights of rows (D, n) to the score under each of them (D,)."""

MEMORY = 1 << 25
"""Bytes of the weights that are looked at together."""


@dataclass(frozen=True)
class Estimate:
    """A score and the ends of its bootstrap interval; without a bootstrap the ends are nan.

    - `value`: on all rows
    - `low`: lower end
    - `high`: upper end
    """

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


def estimate(
    statistic: Statistic, sizes: int | Sequence[int], *, draws: int = 1000, level: float = 0.95, seed: int = 0
) -> Estimate:
    """The score on all rows with its percentile bootstrap interval.

    `sizes`: the number of rows, or the numbers of rows of several samples one after the other, each of which is
    resampled by itself. `draws=0`: no interval.

    - `statistic`: from weights of rows (samples, n) to scores (samples,)
    - `level`: of the interval
    - `seed`: of the random numbers; the same seed gives the same answer

    >>> scores = np.array([0.0, 1.0, 1.0, 0.0])
    >>> estimate(mean(scores), 4, draws=200)
    Estimate(value=0.5, low=0.0, high=1.0)
    """
    sizes = [sizes] if isinstance(sizes, int) else list(sizes)
    if not sizes or min(sizes) < 1:
        raise ValueError(f"sizes is {sizes}; a score needs at least one row in every sample")
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; it must lie strictly between 0 and 1")
    if int(draws) != draws or draws < 0:
        raise ValueError(f"draws is {draws}; give a whole number of bootstrap samples, or 0 for none")
    value = float(statistic(np.ones((1, sum(sizes))))[0])
    if not draws:
        return Estimate(value, np.nan, np.nan)
    source, step = np.random.default_rng(seed), max(1, MEMORY // (8 * sum(sizes)))
    values = []
    for start in range(0, int(draws), step):
        some = min(step, int(draws) - start)
        counts = [source.multinomial(n, np.full(n, 1 / n), size=some) for n in sizes]
        values.append(statistic(np.concatenate(counts, -1).astype(np.float64)))
    every = np.concatenate(values)
    # Nothing lies between a number and infinity.
    how: Literal["linear", "inverted_cdf"] = "linear" if np.isfinite(every).all() else "inverted_cdf"
    low, high = np.quantile(every, [(1 - level) / 2, (1 + level) / 2], method=how)
    return Estimate(value, float(low), float(high))


def mean(scores: npt.ArrayLike) -> Statistic:
    """The mean of one number per row (n,)."""
    values = np.asarray(scores, dtype=np.float64)

    def weighted(w: Floats) -> Floats:
        # An infinite score counts only where its row was drawn.
        finite = np.where(np.isfinite(values), values, 0.0)
        total = w @ finite / w.sum(-1)
        return np.where((w[:, ~np.isfinite(values)] > 0).any(-1), np.inf, total)

    if np.isnan(values).any() or (values == -np.inf).any():
        raise ValueError(f"scores[{int(np.flatnonzero(~(values > -np.inf))[0])}] is not a number")
    return weighted


def root_mean(scores: npt.ArrayLike) -> Statistic:
    """The root of the mean: from squared errors their root mean square."""
    plain = mean(scores)
    return lambda w: np.sqrt(plain(w))


@dataclass(frozen=True)
class Tied:
    """Rows in ascending order of a score, with those of equal score together."""

    order: npt.NDArray[np.intp]
    starts: npt.NDArray[np.intp]

    @classmethod
    def of(cls, score: npt.ArrayLike) -> Tied:
        """The groups of `score` (n,)."""
        values = np.asarray(score, dtype=np.float64)
        if values.ndim != 1 or not len(values) or np.isnan(values).any():
            raise ValueError(f"the score has shape {values.shape}; give one number per row, none of them nan")
        order = np.argsort(values, kind="stable")
        new = np.flatnonzero(np.diff(values[order]) > 0) + 1
        return cls(order, np.concatenate([[0], new]))

    def sums(self, x: Floats) -> Floats:
        """(D, groups): the sums of x (D, n) over groups, ascending."""
        return np.add.reduceat(x[:, self.order], self.starts, axis=-1)
