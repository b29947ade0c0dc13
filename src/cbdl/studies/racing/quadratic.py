"""Quadratic programmes with bounds whose matrix couples each point of a closed curve with its neighbours.

    minimise  d' H d / 2 + g' d   subject to   lower <= d <= upper

H is symmetric, positive definite, and H[i, j] = 0 unless i and j are at most two apart on the circle of N points.
Ordered 0, N-1, 1, N-2, ... such a matrix has four bands, so that a step of the interior point costs O(N).
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solveh_banded

from cbdl.studies.racing.curves import FloatArray

REACH = 2
"""How far apart on the circle two coupled points may be."""
MAX_STEPS = 60
TOLERANCE = 1e-9


@dataclass(frozen=True)
class BoxOptimum:
    """A point of the box, the value there, and a bound on how much it exceeds the minimum."""

    point: FloatArray
    value: float
    gap: float


@dataclass(frozen=True)
class CircularMatrix:
    """A symmetric matrix on a circle: `diagonals[k][i]` is the entry (i, i + k mod N), k = 0, 1, 2."""

    diagonals: FloatArray  # (3, N)

    def __matmul__(self, d: FloatArray) -> FloatArray:
        product: FloatArray = self.diagonals[0] * d
        for k in range(1, REACH + 1):
            product = product + self.diagonals[k] * np.roll(d, -k) + np.roll(self.diagonals[k] * d, k)
        return product


def gram(rows: FloatArray) -> CircularMatrix:
    """R' R where row i of R has the entries `rows[i]` (N, 3) at i - 1, i, i + 1."""
    before, here, after = rows.T
    diagonal = np.roll(before**2, -1) + here**2 + np.roll(after**2, 1)
    next_one = np.roll(before * here, -1) + here * after
    next_two = np.roll(before * after, -1)
    return CircularMatrix(np.stack([diagonal, next_one, next_two]))


def minimise_in_box(H: CircularMatrix, g: FloatArray, lower: FloatArray, upper: FloatArray) -> BoxOptimum:
    """Primal-dual interior point (Mehrotra's predictor and corrector), from the middle of the box."""
    solve = _Folded(H)
    d = solve(np.zeros_like(g), -g)
    if (d >= lower).all() and (d <= upper).all():
        return BoxOptimum(d, _value(H, g, d), _gap(H @ d + g, d, lower, upper))
    d = 0.5 * (lower + upper)
    scale = max(float(np.abs(H @ d + g).max()), 1e-300)
    # Rooms to the bounds are carried along rather than computed: a difference would round to zero.
    room = np.stack([d - lower, upper - d])
    price = np.full_like(room, scale)
    sign = np.array([[1.0], [-1.0]])
    for _ in range(MAX_STEPS):
        slope = H @ d + g
        if _gap(slope, d, lower, upper) <= TOLERANCE * (1e-3 + abs(_value(H, g, d))):
            break
        weight = price / room
        total = weight.sum(axis=0)
        step = solve(total, -slope)
        change = -price - weight * sign * step
        length, price_length = min(_longest(room, sign * step), 1.0), min(_longest(price, change), 1.0)
        now = float((room * price).sum())
        ahead = float(((room + length * sign * step) * (price + price_length * change)).sum())
        target = now / room.size * (ahead / now) ** 3 - change * sign * step
        step = solve(total, -slope + (sign * target / room).sum(axis=0))
        change = target / room - price - weight * sign * step
        length = min(0.995 * _longest(room, sign * step), 1.0)
        price_length = min(0.995 * _longest(price, change), 1.0)
        d, room, price = d + length * step, room + length * sign * step, price + price_length * change
    d = np.clip(d, lower, upper)
    return BoxOptimum(d, _value(H, g, d), _gap(H @ d + g, d, lower, upper))


def _gap(slope: FloatArray, d: FloatArray, lower: FloatArray, upper: FloatArray) -> float:
    """A convex function lies above its tangent, and the tangent's minimum over the box is at a corner."""
    return float(np.maximum(slope * (d - lower), slope * (d - upper)).sum())


def _value(H: CircularMatrix, g: FloatArray, d: FloatArray) -> float:
    return float(0.5 * d @ (H @ d) + g @ d)


def _longest(room: FloatArray, step: FloatArray) -> float:
    """The longest multiple of the step that keeps room + step nonnegative."""
    shrinks = step < 0.0
    return float((room[shrinks] / -step[shrinks]).min(initial=np.inf))


class _Folded:
    """Solves (H + diag(w)) x = b, with the circle folded flat."""

    def __init__(self, H: CircularMatrix) -> None:
        N = H.diagonals.shape[1]
        if N < 2 * REACH + 2:
            raise ValueError(f"a circle of {N} points is too short; at least {2 * REACH + 2}")
        self.order = np.empty(N, dtype=np.int64)
        self.order[0::2] = np.arange((N + 1) // 2)
        self.order[1::2] = N - 1 - np.arange(N // 2)
        place = np.empty(N, dtype=np.int64)
        place[self.order] = np.arange(N)
        self.bands = np.zeros((2 * REACH + 1, N))
        for k in range(REACH + 1):
            i, j = place, np.roll(place, -k)
            self.bands[np.abs(i - j), np.minimum(i, j)] = H.diagonals[k]

    def __call__(self, weight: FloatArray, b: FloatArray) -> FloatArray:
        bands = self.bands.copy()
        bands[0] += weight[self.order]
        x = np.empty_like(b)
        x[self.order] = solveh_banded(bands, b[self.order], lower=True, check_finite=False)
        return x
