"""What rows are rejected by in our line: the probability of an error, as corrupted validation rows teach it.

Networks are surer of themselves than they should be where rows differ from those of training. One power of their
probabilities makes 1 - p(named class) the probability of an error on validation rows that are corrupted. How far the
set reaches for that class says more on some data sets than on others. Whether the power is taken, and what the width
counts for, is what serves best on the same rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from cbdl import constructions
from cbdl.evaluate.estimate import Floats
from cbdl.evaluate.rejection import rejection_area

WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
"""What a width of 1 may count for."""


def powered(log_probs: Floats) -> Floats:
    """Probabilities from multiples of their logarithms, and from logarithms in single precision: normalised."""
    p = np.exp(log_probs - log_probs.max(-1, keepdims=True))
    return np.asarray(p / p.sum(-1, keepdims=True))


def best_power(members: Floats, labels: Floats) -> float:
    """The power of members' probabilities under which their average has the least NLL; (n, m, J), by logarithm."""
    rows, y = np.arange(len(members)), labels.astype(np.int64)

    def loss(log_power: float) -> float:
        mean = powered(math.exp(log_power) * members).mean(1)
        return float(-np.log(np.maximum(mean[rows, y], 1e-12)).mean())

    return math.exp(minimize_scalar(loss, bounds=(-2.5, 1.5), method="bounded").x)


@dataclass(frozen=True)
class Rejector:
    """`power` of members' probabilities; `weight` of the width, upper minus lower probability of the named class."""

    power: float
    weight: float

    @classmethod
    def chosen(cls, members: Floats, known: Floats, point: Floats, labels: Floats) -> Rejector:
        """The best for rows in sets of equal size, one after the other, that all have the same labels.

        By the mean area under accuracy-rejection; members (n, m, J) by logarithm, known (n, m), point (n, J).
        """
        y = np.tile(labels, len(point) // len(labels))
        right = (point.argmax(-1) == y).reshape(-1, len(labels))

        def area(own: Rejector) -> float:
            doubts = own(members, known, point).reshape(right.shape)
            sets = zip(right, doubts, strict=True)
            return float(np.mean([rejection_area(r, d)(np.ones((1, len(r))))[0] for r, d in sets]))

        # of equal ones the first, which is the plainest
        return max((cls(p, w) for p in (1.0, best_power(members, y)) for w in WEIGHTS), key=area)

    def parts(self, members: Floats, known: Floats, point: Floats) -> tuple[Floats, Floats]:
        """The probability (n,) of an error, and the width (n,)."""
        probs, named = powered(self.power * members), point.argmax(-1)[:, None]
        sets = constructions.with_background(probs, known)
        ends = (probs.mean(1), sets.lower_probabilities(), sets.upper_probabilities())
        mean, low, high = (np.take_along_axis(np.asarray(end), named, -1)[:, 0] for end in ends)
        return 1 - mean, high - low

    def __call__(self, members: Floats, known: Floats, point: Floats) -> Floats:
        """(n,): the higher, the sooner a row is rejected."""
        error, width = self.parts(members, known, point)
        return np.asarray(error + self.weight * width)
