"""Linear and linear-fractional programmes over the core of a lower probability, in exact arithmetic.

    core = {p : p(A) >= level(A) for all events A, p(all) = 1}

Likelihoods may span hundreds of orders of magnitude: what decides a posterior may be 1e-300 of the largest
number in the programme, and no absolute tolerance of a floating point solver is small enough. Float64 numbers are
fractions, though, and there are few outcomes. So this is the simplex method on whole numbers: a vertex is n
events whose constraints are tight, an edge is left by letting go of one of them, and no number is ever rounded.
Inverses of matrices of zeros and ones have small whole numbers over one determinant, so that only sums of
probabilities are long.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

RELAXATIONS = (None, 50, 46, 40, 30)
"""A core that rounding has made empty is widened: all bounds by 2^-50 of themselves, and so on up to 1e-9."""


class EmptyCore(ValueError):
    """No probability dominates the lower probability."""


@lru_cache(maxsize=16)
def indicators(n: int) -> Float:
    """(2^n, n): the indicator vectors of all events."""
    return (np.arange(1 << n)[:, None] >> np.arange(n) & 1).astype(np.float64)


def whole(x: Sequence[float]) -> tuple[list[int], int]:
    """Float64 numbers as whole numbers over one denominator."""
    pairs = [float(value).as_integer_ratio() for value in x]
    below = max(denominator for _, denominator in pairs)  # powers of 2
    return [above * (below // denominator) for above, denominator in pairs], below


class Core:
    """The core of lower <= P <= upper, both (2^n,), with the vertex that the last programme ended at.

    Bounds from both sides keep their digits: 1 - 1e-30 is no float64 number, an upper probability of 1e-30 is.
    An `EmptyCore` if there is no such P.
    """

    def __init__(self, lower: Float, upper: Float) -> None:
        self.n = lower.size.bit_length() - 1
        self._events = indicators(self.n).astype(np.int64)
        numbers, one = whole([*lower.tolist(), *upper.tolist()])
        for bits in RELAXATIONS:
            low, high = _widened(numbers, one, bits)
            self._one = one if bits is None else one << bits
            self._level = np.array(
                [max(a, self._one - b) for a, b in zip(low, reversed(high), strict=True)], dtype=object
            )
            self._level[0], self._level[-1] = 0, self._one
            try:
                return self._find_vertex()
            except EmptyCore:
                pass
        raise EmptyCore

    # --- programmes ------------------------------------------------------------------------------------

    def maximum(self, f: Sequence[float]) -> float:
        """max f . p."""
        cost, below = whole(f)
        self._maximise(cost)
        return float(Fraction(self._value(cost), self._det * self._one * below))

    def maximum_ratio(self, above: Sequence[float], below: Sequence[float]) -> float | None:
        """max (above . p) / (below . p), both at least 0, where the denominator is positive; None if nowhere.

        Dinkelbach: the largest ratio is the one t at which max (above - t below) . p is 0. From one vertex to
        the next t grows, so it ends, and here it ends exactly.
        """
        numbers, _ = whole([*above, *below])
        a, b = numbers[: self.n], numbers[self.n :]
        self._maximise(b)
        while True:
            top, bottom = self._value(a), self._value(b)
            if bottom == 0:
                return None
            gain = [x * bottom - y * top for x, y in zip(a, b, strict=True)]
            self._maximise(gain)
            if self._value(gain) == 0:
                return top / bottom

    # --- the simplex method ----------------------------------------------------------------------------

    def _find_vertex(self) -> None:
        """Start where one outcome has everything and raise one violated event after the other to its level."""
        n = self.n
        self._tight = [1 << i for i in range(1, n)] + [(1 << n) - 1]
        self._bound = [0] * (n - 1) + [self._one]
        self._move()
        held = np.zeros(1 << n, dtype=np.bool_)
        while True:
            slack = self._slack()
            held |= slack >= 0
            if held.all():
                return
            event = int(slack.argmin())
            if not self._climb(self._events[event].tolist(), held, event):
                raise EmptyCore

    def _maximise(self, cost: list[int]) -> None:
        self._climb(cost, np.ones(1 << self.n, dtype=np.bool_), None)

    def _climb(self, cost: list[int], held: npt.NDArray[np.bool_], target: int | None) -> bool:
        """Move to the vertex at which cost . p is largest, or only until the event `target` has its level.

        Events that are not `held` are not looked at. True if the target was reached.
        """
        stuck = False
        while True:
            price = [
                sum(x * int(y) for x, y in zip(cost, column, strict=True)) for column in self._adjugate.T
            ]
            rising = [k for k in range(self.n - 1) if price[k] > 0]
            if not rising:
                return False
            # The steepest edge; while no step has any length, Bland's rule, which does not go in circles.
            k = min(rising, key=lambda k: self._tight[k]) if stuck else max(rising, key=lambda k: price[k])
            step = self._events @ self._adjugate[:, k]
            slack = self._slack()
            blocking = np.flatnonzero(held & (step < 0))
            event, length = _first(slack[blocking], step[blocking], blocking)
            if target is not None and step[target] > 0:
                reach = Fraction(-slack[target], int(step[target]))
                if length is None or reach <= length:
                    event, length = target, reach
            assert length is not None  # the core is bounded
            stuck = length == 0
            self._tight[k], self._bound[k] = event, self._level[event]
            self._move()
            if event == target:
                return True

    def _move(self) -> None:
        """The vertex of the tight events: p = adjugate . bound / (det one)."""
        rows = self._events[self._tight]
        inverse, det = np.linalg.inv(rows), np.linalg.det(rows)
        sign = 1 if det > 0 else -1
        self._det = sign * round(det)
        self._adjugate: Whole = np.rint(inverse * self._det).astype(np.int64)
        if not (rows @ self._adjugate == self._det * np.eye(self.n, dtype=np.int64)).all():
            raise ArithmeticError(f"the tight events {self._tight} have no exact inverse")
        self._p = np.array(
            [sum(int(x) * b for x, b in zip(row, self._bound, strict=True)) for row in self._adjugate],
            dtype=object,
        )

    def _slack(self) -> Any:
        """(2^n,) whole numbers: (p(A) - level(A)) det one."""
        total = np.zeros(1, dtype=object)
        for share in self._p:
            total = np.concatenate([total, total + share])
        return total - self._det * self._level

    def _value(self, cost: list[int]) -> int:
        return sum(x * y for x, y in zip(cost, self._p, strict=True))


def _widened(numbers: list[int], one: int, bits: int | None) -> tuple[list[int], list[int]]:
    half = len(numbers) // 2
    low, high = numbers[:half], numbers[half:]
    if bits is None:
        return low, high
    unit = 1 << bits
    return [x * (unit - 1) for x in low], [min(x * (unit + 1), one * unit) for x in high]


def _first(slack: Any, step: Whole, event: npt.NDArray[np.intp]) -> tuple[int, Fraction | None]:
    """The event whose slack is used up first along a step, the first one of several, and the length of the way."""
    if not len(event):
        return -1, None
    sizes = np.unique(-step)
    common = int(np.lcm.reduce(sizes.astype(object)))
    times = {int(size): common // int(size) for size in sizes}
    length = slack * np.array([times[int(-s)] for s in step], dtype=object)
    best = int(length.argmin())
    return int(event[best]), Fraction(int(length[best]), common)
