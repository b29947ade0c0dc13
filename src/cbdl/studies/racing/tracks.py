"""Tracks: the F1TENTH files of centre lines and race lines, and an embedded track that needs no file.

A centre-line file has the columns x, y, width to the right, width to the left; a race-line file has s, x, y, heading,
curvature, speed, acceleration. The loop is closed, and its first point may or may not be repeated at the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from cbdl.studies.racing.curves import ClosedCurve, FloatArray, chords, closed_curve, crossing, distances
from cbdl.studies.racing.track_files import find_file, read_numbers

SPACING = 0.2
"""Metres between points of the smooth centre line."""
SMOOTHING = np.geomspace(0.25, 2.0, 25)
"""Metres: bends much longer than this stay as they are, noise that is shorter goes."""
MIN_POINTS = 10
GAP = 5.0
"""A step this many times the median one is a gap."""
MAX_STEP = 2.5
"""Metres between points above which a file says too little of the track's bends."""

CENTRE_COLUMNS = ("x_m", "y_m", "w_tr_right_m", "w_tr_left_m")
RACE_COLUMNS = ("s_m", "x_m", "y_m", "psi_rad", "kappa_radpm", "vx_mps", "ax_mps2")

EMBEDDED_CORNERS = (
    (66, 0, 5), (68, 13, 2), (49, 13, 3), (45, 17, 2), (38, 17, 2), (33, 11, 3), (23, 13, 4), (23, 27, 5),
    (53, 27, 1.8), (53, 30.7, 1.8), (14, 32, 6), (6, 44, 7), (-17, 44, 2.2), (-24, 35, 3), (-4, 24, 2), (-10, 12, 5),
    (-24, 8, 3), (-21, 0, 4),
)  # fmt: skip
"""The embedded track: corners of its centre line (x, y) and their radii, in metres. From the origin: a straight, a
double left, a chicane, a right-hander, a hairpin, a second straight, and two fast and three slow bends."""
SECOND_CORNERS = (
    (60, 0, 6), (66, 11, 3), (58, 19, 2), (45, 15, 4), (37, 24, 2.5), (50, 33, 3), (41, 43, 1.8), (22, 38, 7),
    (10, 45, 3), (-5, 42, 2), (-1, 29, 3), (18, 25, 3.5), (11, 12, 2.2), (-7, 17, 5), (-16, 8, 3), (-12, 0, 4),
)  # fmt: skip
"""Another one, 275 m long: the same car on a track that it has not been trained on."""
EMBEDDED_WIDTH = 1.1


@dataclass(frozen=True)
class Track:
    """A closed track: its smooth centre line, and what is beside each of the M points of it."""

    name: str
    centre: ClosedCurve
    left: FloatArray  # (M,): metres to the edge
    right: FloatArray
    places: tuple[str, ...]  # (M,): where the point comes from, for messages

    @property
    def length(self) -> float:
        return self.centre.length


@dataclass(frozen=True)
class RaceLine:
    """A race line as published: arc length, position (N, 2), heading, curvature, speed, acceleration."""

    name: str
    s: FloatArray
    xy: FloatArray
    heading: FloatArray
    curvature: FloatArray
    speed: FloatArray
    acceleration: FloatArray


def embedded_track(second: bool = False) -> Track:
    """A closed track of our own, 2.2 m wide, which needs no file; there are two."""
    corners = SECOND_CORNERS if second else EMBEDDED_CORNERS
    points = _rounded(np.array(corners, dtype=np.float64), step=0.4)
    widths = np.full(len(points), EMBEDDED_WIDTH)
    return make_track("embedded-2" if second else "embedded", points, widths, widths)


def _rounded(corners: FloatArray, step: float) -> FloatArray:
    """Points about `step` apart on a closed polygon whose corners (x, y, radius) are rounded by arcs.

    The first point is the one nearest to the origin.
    """
    xy, radius = corners[:, :2], corners[:, 2]
    into = xy - np.roll(xy, 1, axis=0)
    into /= np.hypot(into[:, 0], into[:, 1])[:, None]
    out = np.roll(into, -1, axis=0)
    turn = np.arctan2(into[:, 0] * out[:, 1] - into[:, 1] * out[:, 0], (into * out).sum(axis=1))
    cut = (radius * np.tan(0.5 * np.abs(turn)))[:, None]
    begin, end = xy - cut * into, xy + cut * out
    pieces = []
    for i in range(len(xy)):
        side = np.sign(turn[i]) * radius[i] * np.array([-into[i, 1], into[i, 0]])
        angle = abs(turn[i]) * np.linspace(0.0, 1.0, 200, endpoint=False)[:, None]
        pieces.append(begin[i] + side - np.cos(angle) * side + np.sin(angle) * radius[i] * into[i])
        pieces.append(np.linspace(end[i], begin[(i + 1) % len(xy)], 2000, endpoint=False))
    points = np.vstack(pieces)
    points = np.roll(points, -int(np.argmin((points**2).sum(axis=1))), axis=0)
    along, closed = distances(points), np.vstack([points, points[:1]])
    even = along[-1] * np.arange(round(along[-1] / step)) / round(along[-1] / step)
    return np.stack([np.interp(even, along, closed[:, i]) for i in range(2)], axis=1)


def load_track(path: str | Path) -> Track:
    """A track from its centre-line file, or from the folder that holds `*_centerline.csv`."""
    file = find_file(Path(path), "*_centerline.csv")
    table, lines = read_numbers(file, CENTRE_COLUMNS, "centre-line", ",")
    name = file.stem.removesuffix("_centerline")
    places = [f"{file}, line {n}" for n in lines]
    return make_track(name, table[:, :2], table[:, 2], table[:, 3], places, source=str(file))


def load_race_line(path: str | Path) -> RaceLine:
    """A published race line from its file, or from the folder that holds `*_raceline.csv`."""
    file = find_file(Path(path), "*_raceline.csv")
    table, lines = read_numbers(file, RACE_COLUMNS, "race-line", ";")
    _check_points(str(file), table[:, 1:3], [f"{file}, line {n}" for n in lines])
    return RaceLine(file.stem.removesuffix("_raceline"), table[:, 0], table[:, 1:3], *table[:, 3:].T)


def make_track(
    name: str,
    points: FloatArray,
    right: FloatArray,
    left: FloatArray,
    places: Sequence[str] | None = None,
    source: str | None = None,
) -> Track:
    """A track from points (N, 2) of its centre line with the widths (N,) beside them.

    For messages: `places` says where each point comes from, `source` where all of them do.
    """
    points, right, left = (np.asarray(a, dtype=np.float64) for a in (points, right, left))
    if points.ndim != 2 or points.shape[1] != 2 or not right.shape == left.shape == (len(points),):
        raise ValueError(
            f"{name}: points {points.shape}, right {right.shape}, left {left.shape}: "
            "give points (N, 2) and widths (N,) on both sides"
        )
    places = places or [f"{name}, point {i}" for i in range(len(points))]
    keep = _check_points(source or name, points, places)
    for side, widths in (("right", right), ("left", left)):
        good = np.isfinite(widths) & (widths > 0.0)
        _refuse(~good, places, f"the width to the {side} is not a positive number")
    return _smooth(
        name, points[keep], right[keep], left[keep], [places[int(i)] for i in np.flatnonzero(keep)]
    )


def _smooth(
    name: str, points: FloatArray, right: FloatArray, left: FloatArray, places: Sequence[str]
) -> Track:
    knots = np.concatenate([[0.0], np.cumsum(_steps(points))])
    length, N = knots[-1], len(points)
    file = CubicSpline(knots, np.vstack([points, points[:1]]), bc_type="periodic")
    M = max(64, int(np.ceil(length / SPACING)))
    smooth = _without_noise(file(np.linspace(0.0, length, N, endpoint=False)), length, M)
    centre = closed_curve(smooth, M)
    distance = distances(smooth)
    t = np.interp(centre.s * (distance[-1] / centre.length), distance, np.linspace(0.0, length, M + 1))
    # Where the smooth line has moved, the edges of the track have not.
    shift = np.einsum("md,md->m", centre.xy - file(t), centre.normals)
    right, left = (np.interp(t, knots, np.append(widths, widths[0])) for widths in (right, left))
    here = tuple(places[i] for i in np.searchsorted(knots[:-1], t, side="right") - 1)
    return Track(name, centre, left - shift, right + shift, here)


def _steps(points: FloatArray) -> FloatArray:
    """Distances (N,) from point to point along the track, not along the zigzag of noise.

    Each side counts as far as it goes in the direction of itself with its neighbours, which on a circle is its own.
    """
    side = np.roll(points, -1, axis=0) - points
    course = np.roll(points, -2, axis=0) - np.roll(points, 1, axis=0)
    along = np.einsum("nd,nd->n", side, course) / np.maximum(np.hypot(course[:, 0], course[:, 1]), 1e-9)
    steps: FloatArray = np.maximum(along, 0.2 * np.hypot(side[:, 0], side[:, 1]))
    return steps


def _without_noise(xy: FloatArray, length: float, count: int) -> FloatArray:
    """Minimises the integral of |c - p|^2 + l^4 |c''|^2 for points p (N, 2) of equal spacing; c at `count` points.

    In waves along the curve this is a division. The length l is chosen by generalised cross-validation: small for a
    clean file, larger for a noisy one.
    """
    waves = np.fft.rfft(xy, axis=0)
    frequency = 2.0 * np.pi * np.arange(len(waves)) / length
    removed = 1.0 - 1.0 / (1.0 + (SMOOTHING[:, None] * frequency) ** 4)  # (lengths, waves)
    # Each wave but the mean stands for two, one in each direction.
    misfit = 2.0 * removed**2 @ (np.abs(waves) ** 2).sum(axis=1)
    best = int(np.argmin(misfit / (2.0 * removed.sum(axis=1)) ** 2))
    return np.fft.irfft(waves * (1.0 - removed[best])[:, None], n=count, axis=0) * (count / len(xy))


def _check_points(name: str, points: FloatArray, places: Sequence[str]) -> NDArray[np.bool_]:
    """Which points to keep (a repeated one goes); raises on a loop that is not one. name: file or track."""
    _refuse(
        ~(np.isfinite(points[:, 0]) & np.isfinite(points[:, 1])),
        places,
        "a coordinate is not a finite number",
    )
    keep = chords(points) > 1e-6
    kept = points[keep]
    here = [places[int(i)] for i in np.flatnonzero(keep)]
    if len(kept) < MIN_POINTS:
        raise ValueError(
            f"{name}: {len(kept)} different points; a closed track needs at least {MIN_POINTS}, and about two per "
            "metre for its bends to be known"
        )
    steps = chords(kept)
    usual, widest = float(np.median(steps)), int(np.argmax(steps))
    if steps[widest] > GAP * usual:
        where = "the last point and the first" if widest == len(kept) - 1 else "this point and the next"
        raise ValueError(
            f"{here[widest]}: a gap of {steps[widest]:.2f} m between {where} (the usual step is {usual:.2f} m); fill "
            "in the missing points; the loop must be closed and in driving order"
        )
    if usual > MAX_STEP:
        raise ValueError(
            f"{name}: its points are {usual:.1f} m apart, too far to know its bends (at most {MAX_STEP} m); add "
            "points, or scale the track down to the car (1:10) if it is a real circuit in full size"
        )
    sides = crossing(kept)
    if sides is not None:
        raise ValueError(
            f"{here[sides[0]]}: the track crosses itself, with the stretch at {here[sides[1]]}; "
            "bridges are not supported: give a track without crossings, its points in driving order"
        )
    return keep


def _refuse(bad: NDArray[np.bool_], places: Sequence[str], what: str) -> None:
    if bad.any():
        raise ValueError(f"{places[int(np.argmax(bad))]}: {what}; mend or remove this point")
