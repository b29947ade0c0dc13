"""What rows are rejected by in our line: the probability of an error, as corrupted validation rows teach it.

Networks are surer of themselves than they should be where rows differ from those of training, and name some classes
far more often than others there. One power of their probabilities and one factor for each class make
1 - p(named class) the probability of an error on validation rows that are corrupted. How far the set reaches for that
class says more on some data sets than on others. Whether power and factors are taken, and what the width counts for, is
what serves best on kinds of corruption that they were not learned from; and rows of one kind are rejected by what other
kinds teach, so that nobody is to know the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize, minimize_scalar

from cbdl import constructions
from cbdl.evaluate.estimate import Floats
from cbdl.evaluate.rejection import rejection_area

WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
"""What a width of 1 may count for."""
FOLDS = 5
"""Parts of the kinds of corruption, each judged with what the others teach."""
RIDGE = 0.005
"""Beside the mean NLL: half of this times the square of every logarithm that is learned."""


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
    """Members' probabilities to a `power`, times the exponential of an offset per class; `weight` of the width, upper
    minus lower probability of the named class."""

    power: float = 1.0
    offsets: tuple[float, ...] = (0.0,)
    """(J,), or one for all."""
    weight: float = 0.0

    @classmethod
    def learned(cls, members: Floats, labels: Floats) -> Rejector:
        """Power and offsets under which the average of members (n, m, J), by logarithm, has the least NLL of n labels.

        -mean log p(y) + RIDGE/2 (log(power)^2 + |offsets|^2)
        """
        n, m, classes = members.shape
        place = labels.astype(np.int64)[:, None, None].repeat(m, 1)

        def loss(theta: Floats) -> tuple[float, Floats]:
            power = math.exp(theta[0])
            probs = powered(power * members + theta[1:])
            own = np.maximum(np.take_along_axis(probs, place, -1), 1e-12)  # (n, m, 1)
            # of log(sum_m p_m(y)) by the logarithms of member m: its share of the sum times (label - p_m)
            share = own / own.sum(1, keepdims=True)
            slope = share * probs
            np.put_along_axis(slope, place, np.take_along_axis(slope, place, -1) - share, -1)
            gradient = np.array([power * (slope * members).sum(), *slope.sum((0, 1))]) / n
            value = -np.log(own.mean(1)).mean() + RIDGE / 2 * theta @ theta
            return float(value), gradient + RIDGE * theta

        theta = minimize(loss, np.zeros(1 + classes), jac=True, method="L-BFGS-B").x
        return cls(math.exp(theta[0]), tuple(map(float, theta[1:])))

    def parts(self, members: Floats, known: Floats, point: Floats) -> tuple[Floats, Floats]:
        """The probability (n,) of an error, and the width (n,)."""
        probs, named = powered(self.power * members + np.array(self.offsets)), point.argmax(-1)[:, None]
        sets = constructions.with_background(probs, known)
        ends = (probs.mean(1), sets.lower_probabilities(), sets.upper_probabilities())
        mean, low, high = (np.take_along_axis(np.asarray(end), named, -1)[:, 0] for end in ends)
        return 1 - mean, high - low

    def __call__(self, members: Floats, known: Floats, point: Floats) -> Floats:
        """(n,): the higher, the sooner a row is rejected."""
        error, width = self.parts(members, known, point)
        return np.asarray(error + self.weight * width)


@dataclass(frozen=True)
class Rejectors:
    """The rule for rows of any kind, and for every kind of corruption the one that others teach."""

    whole: Rejector
    without: dict[str, Rejector]

    @classmethod
    def learned(
        cls, members: Floats, known: Floats, point: Floats, labels: Floats, kinds: Sequence[str]
    ) -> Rejectors:
        """From rows in sets of equal size, one after the other, that all have the same labels.

        By the mean area under accuracy-rejection of sets of a kind that power and offsets were not learned from;
        members (n, m, J) by logarithm, known (n, m), point (n, J), and the kind of every set.
        """
        y = np.tile(labels, len(kinds))
        right = (point.argmax(-1) == y).reshape(len(kinds), -1)
        parts = {kind: place % FOLDS for place, kind in enumerate(dict.fromkeys(kinds))}
        own = np.array([parts[kind] for kind in kinds])
        rules, areas = [], []
        for part in range(own.max() + 1):
            judged = own == part
            here = judged.repeat(len(labels))
            rest = ~here if not here.all() else here  # one kind alone teaches itself
            rules.append((Rejector(), Rejector.learned(members[rest], y[rest])))
            rows = members[here], known[here], point[here]
            areas.append([_areas(rule.parts(*rows), right[judged]) for rule in rules[-1]])
        of_all, of_part = (Rejector(), Rejector.learned(members, y)), np.array(areas)
        total = of_part.sum(0)
        others = [total - given if len(rules) > 1 else given for given in of_part]
        by_part = [_best(*pair) for pair in zip(rules, others, strict=True)]
        return cls(_best(of_all, total), {kind: by_part[part] for kind, part in parts.items()})

    def of(self, kind: str) -> Rejector:
        """The rule for rows that are corrupted so; the whole one for others."""
        return self.without.get(kind, self.whole)


def _areas(parts: tuple[Floats, Floats], right: npt.NDArray[np.bool_]) -> list[float]:
    """By weight: the sum of the areas of sets, right (sets, rows)."""
    error, width = (own.reshape(right.shape) for own in parts)
    ones = np.ones((1, right.shape[1]))
    return [
        sum(float(rejection_area(*own)(ones)[0]) for own in zip(right, error + weight * width, strict=True))
        for weight in WEIGHTS
    ]


def _best(rules: tuple[Rejector, Rejector], areas: Floats) -> Rejector:
    """The rule with the weight of the largest area (rules, weights); of equal ones the first, the plainest."""
    rule, weight = np.unravel_index(areas.argmax(), areas.shape)
    return replace(rules[int(rule)], weight=WEIGHTS[int(weight)])
