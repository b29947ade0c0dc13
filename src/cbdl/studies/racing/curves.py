"""Closed curves in the plane by arc length: position, heading, curvature, the nearest point, crossings."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.spatial import cKDTree

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class ClosedCurve:
    """A smooth closed curve at M points of equal spacing; the first point is not repeated at the end."""

    length: float
    xy: FloatArray  # (M, 2)
    heading: FloatArray  # (M,), continuous: no jumps of 2 pi
    curvature: FloatArray  # (M,), positive to the left

    @property
    def spacing(self) -> float:
        return self.length / len(self.xy)

    @property
    def s(self) -> FloatArray:
        return np.arange(len(self.xy), dtype=np.float64) * self.spacing

    @property
    def normals(self) -> FloatArray:
        """To the left, (M, 2)."""
        return np.stack([-np.sin(self.heading), np.cos(self.heading)], axis=1)

    def at(self, values: FloatArray, s: FloatArray) -> FloatArray:
        """Values (M,) of the curve's points at arc lengths s, linearly between points."""
        place = s / self.spacing
        below = np.floor(place).astype(np.int64)
        share = place - below
        M = len(values)
        between: FloatArray = values[below % M] * (1.0 - share) + values[(below + 1) % M] * share
        return between

    def offset(self, n: FloatArray) -> FloatArray:
        """Points (M, 2) at a distance n (M,) to the left."""
        return self.xy + n[:, None] * self.normals

    def project(self, points: FloatArray, near: FloatArray, reach: float) -> tuple[FloatArray, FloatArray]:
        """Arc length and distance to the left of the nearest point within `reach` of arc length `near`.

        points (T, 2), near (T,). A search that is local cannot jump to another stretch of a track that passes close by.
        """
        half = int(np.ceil(reach / self.spacing))
        candidates = np.rint(near / self.spacing).astype(np.int64)[:, None] + np.arange(-half, half + 1)
        M = len(self.xy)
        gaps = self.xy[candidates % M] - points[:, None]
        nearest = np.argmin(np.einsum("tcd,tcd->tc", gaps, gaps), axis=1)
        index = np.take_along_axis(candidates, nearest[:, None], axis=1)[:, 0]
        return self._foot(points, index)

    def _foot(self, points: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """Newton's steps from the nearest points of the curve, in its Taylor series there."""
        M = len(self.xy)
        here, bend = index % M, self.curvature[index % M]
        growth = (self.curvature[(index + 1) % M] - self.curvature[(index - 1) % M]) / (2.0 * self.spacing)
        cos, sin = np.cos(self.heading[here]), np.sin(self.heading[here])
        dx, dy = (points - self.xy[here]).T
        ahead, left = dx * cos + dy * sin, dy * cos - dx * sin  # seen from the nearest point
        along = np.zeros_like(ahead)
        for _ in range(3):
            turn = along * (bend + 0.5 * growth * along)
            x = ahead - along * (1.0 - bend**2 * along**2 / 6.0)
            y = left - along**2 * (0.5 * bend + growth * along / 6.0)
            offset = y * np.cos(turn) - x * np.sin(turn)
            slack = np.maximum(1.0 - (bend + growth * along) * offset, 0.1)
            along = along + (x * np.cos(turn) + y * np.sin(turn)) / slack
            along = np.minimum(np.maximum(along, -self.spacing), self.spacing)
        return index * self.spacing + along, offset


def closed_curve(points: FloatArray, count: int) -> ClosedCurve:
    """The periodic cubic spline through points (N, 2), at `count` points of equal spacing."""
    knots = distances(points)
    spline = CubicSpline(knots, np.vstack([points, points[:1]]), bc_type="periodic")
    length, at = _arc_length(spline, knots[-1], max(8 * count, 8 * len(points)))
    t = at(length * np.arange(count) / count)
    first, second = spline(t, 1), spline(t, 2)
    curvature = (first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]) / np.hypot(*first.T) ** 3
    heading = np.unwrap(np.arctan2(first[:, 1], first[:, 0]))
    return ClosedCurve(length, spline(t), heading, curvature)


class _Inverse:
    """From arc length back to a spline's parameter."""

    def __init__(self, length: FloatArray, t: FloatArray) -> None:
        self.length, self.t = length, t

    def __call__(self, s: FloatArray) -> FloatArray:
        return np.interp(s, self.length, self.t)


def _arc_length(spline: CubicSpline, end: float, count: int) -> tuple[float, _Inverse]:
    t = np.linspace(0.0, end, count + 1)
    speed = np.hypot(*spline(t, 1).T)
    middle = np.hypot(*spline(0.5 * (t[1:] + t[:-1]), 1).T)
    length = np.concatenate([[0.0], np.cumsum((speed[1:] + speed[:-1] + 4.0 * middle) * (end / count / 6.0))])
    return float(length[-1]), _Inverse(length, t)


def chords(points: FloatArray) -> FloatArray:
    """Distances (N,) from each point of a closed polygon to the next."""
    steps = np.roll(points, -1, axis=0) - points
    lengths: FloatArray = np.hypot(steps[:, 0], steps[:, 1])
    return lengths


def distances(points: FloatArray) -> FloatArray:
    """Distances (N + 1,) along a closed polygon from its first point to each point, and to the first again."""
    return np.concatenate([[0.0], np.cumsum(chords(points))])


def crossing(points: FloatArray) -> tuple[int, int] | None:
    """The first two sides (by index of their first points) of a closed polygon that cross, or None."""
    ends = np.roll(points, -1, axis=0)
    middle = 0.5 * (points + ends)
    pairs = cKDTree(middle).query_pairs(float(chords(points).max()), output_type="ndarray")
    distance = pairs[:, 1] - pairs[:, 0]
    pairs = pairs[(distance > 1) & (distance < len(points) - 1)]
    i, j = pairs[:, 0], pairs[:, 1]
    apart = (_side(points[i], ends[i], points[j]) * _side(points[i], ends[i], ends[j]) > 0.0) | (
        _side(points[j], ends[j], points[i]) * _side(points[j], ends[j], ends[i]) > 0.0
    )
    crossed = pairs[~apart & ~_parallel_apart(points[i], ends[i], points[j], ends[j])]
    if len(crossed) == 0:
        return None
    i, j = crossed[np.lexsort((crossed[:, 1], crossed[:, 0]))[0]]
    return int(i), int(j)


def _side(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    """Twice the signed area of the triangles a, b, c."""
    area: FloatArray = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])
    return area


def _parallel_apart(a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray) -> NDArray[np.bool_]:
    """Boxes of the sides a-b and c-d do not meet: tells collinear sides apart, whose areas are all zero."""
    low = np.maximum(np.minimum(a, b), np.minimum(c, d))
    high = np.minimum(np.maximum(a, b), np.maximum(c, d))
    return np.logical_or(low[:, 0] > high[:, 0], low[:, 1] > high[:, 1])
