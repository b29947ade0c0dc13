"""Figures of the racing study: each draws on a matplotlib Figure that it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LINES = {"centre": "0.35", "left": "#0072b2", "right": "#009e73", "race": "#d55e00"}
COLOURS = ("0.6", "#0072b2", "#e69f00", "#d55e00", "#cc79a7")
REGION, MISSED_REGION = "#f7d48a", "#f3aaa6"
"""Light and opaque: a union of ellipses is one area."""
MISSED, TRUTH, EXPECTED = "#d00000", "#1a9641", "#b35806"
EVERY = 4
"""Steps from one drawn region to the next."""
TICKS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)
"""Centimetres."""
LEAST = 0.02
"""Metres: the smallest view of a sample."""


def track_map(figure: Any, track: Any, lines: Mapping[str, Any]) -> None:
    """The track with its four lines, and a close look at its tightest bend."""
    figure.set_size_inches(11, 5.5)
    whole, close = figure.subplots(1, 2, width_ratios=(1.5, 1))
    tight = lines["centre"].curve.xy[int(np.argmax(np.abs(lines["centre"].curve.curvature)))]
    for axes, weight in ((whole, 0.9), (close, 1.6)):
        _edges(axes, track)
        for name, line in lines.items():
            closed = np.vstack([line.curve.xy, line.curve.xy[:1]])
            axes.plot(*closed.T, lw=weight, color=LINES[name], label=f"{name}, lap {line.lap_time:.1f} s")
        axes.set_aspect("equal")
        axes.set_xlabel("x (m)")
    start = track.centre.xy[0]
    whole.plot(*start, "k>", ms=7)
    whole.annotate("start", start, xytext=(0, 7), textcoords="offset points", fontsize=8, ha="center")
    reach = 8.0
    close.set(xlim=(tight[0] - reach, tight[0] + reach), ylim=(tight[1] - reach, tight[1] + reach))
    close.set_title("its tightest bend", fontsize=10)
    box = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]]) * reach + tight
    whole.plot(*box.T, color="black", lw=0.8, ls=":")
    whole.set_ylabel("y (m)")
    whole.legend(frameon=False, fontsize=8, loc="best")


def _edges(axes: Any, track: Any) -> None:
    for side in (track.left, -track.right):
        edge = track.centre.offset(side)
        axes.plot(*np.vstack([edge, edge[:1]]).T, color="black", lw=0.7)


def coverage(
    figure: Any, panels: Mapping[str, Mapping[str, tuple[list[Any], list[tuple[float, float]]]]]
) -> None:
    """A panel per kind of test windows: multi-step coverage against mean width, and the three levels as dots."""
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure.set_size_inches(4.0 * columns, 3.2 * rows + 0.4)
    every = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
    for axes, (test, curves) in zip(every, panels.items(), strict=False):
        for level in (0.9, 0.95, 0.99):
            axes.axhline(level, color="black", lw=0.6, ls=":")
        for colour, (name, (lines, points)) in zip(COLOURS, curves.items(), strict=False):
            widths, held = mean_curve(lines)
            axes.plot(100 * widths, held, color=colour, lw=1.6, label=name)
            axes.plot([100 * w for w, _ in points], [c for _, c in points], "o", ms=5, color=colour)
        ends = [100 * w for _, points in curves.values() for w, _ in points]
        low, high = 0.5 * min(ends), 1.6 * max(ends)
        axes.set(xscale="log", xlim=(low, high), ylim=(0, 1.02))
        ticks = [tick for tick in TICKS if low <= tick <= high]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_title(test, fontsize=10)
        axes.set_xlabel("mean width (cm)", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in every[len(panels) :]:
        axes.set_axis_off()
    every[0].set_ylabel("multi-step coverage", fontsize=9)
    every[0].legend(frameon=False, fontsize=7, loc="lower right")


def mean_curve(curves: Sequence[Any]) -> tuple[Floats, Floats]:
    """Widths, and the mean over curves of the multi-step coverage there."""
    own = [np.array(curve) for curve in curves]
    low, high = max(c[0, 0] for c in own), min(c[-1, 0] for c in own)
    widths = np.geomspace(low, high, 200)
    held = np.mean([np.interp(widths, c[:, 0], c[:, 2]) for c in own], axis=0)
    return widths, held


def samples(figure: Any, shown: Sequence[tuple[str, str, Mapping[str, Any]]]) -> None:
    """A row per line-up and region, a column per window: every fourth region, and the missed steps in red."""
    count = len(shown[0][2]["future"])
    figure.set_size_inches(3.4 * count, 2.3 * len(shown) + 0.4)
    panels = figure.subplots(len(shown), count, squeeze=False)
    for row, (line_up, tube, own) in zip(panels, shown, strict=True):
        for place, axes in enumerate(row):
            future, past = np.array(own["future"][place]), np.array(own["past"][place])
            loc, semi = (np.array(own["tubes"][tube][key][place]) for key in ("loc", "semi"))
            _tube(axes, loc, semi, future, np.array(own["tubes"][tube]["held"][place]))
            axes.plot(*past.T, color="black", lw=1.5)
            axes.plot(*loc.mean(axis=0).T, color=EXPECTED, lw=0.8, ls="--")
            _view(axes, np.concatenate([past[-3:], future]), 0.35)
            if place == 0:
                axes.set_ylabel(f"{line_up}\n{tube}", fontsize=9)
    for place, (top, bottom) in enumerate(zip(panels[0], panels[-1], strict=True)):
        top.set_title(f"window {place + 1}", fontsize=10)
        bottom.set_xlabel("ahead (m)", fontsize=8)


def frames(figure: Any, frames: Mapping[str, Any], track: Any) -> None:
    """A car and its regions on the map, frame after frame, each seen from where the car is."""
    count = len(frames["pose"])
    figure.set_size_inches(3.2 * count, 3.4)
    panels = figure.subplots(1, count)
    own = frames["tubes"]["calibrated"]
    roads = np.array(frames["road"])
    poses = np.array(frames["pose"])
    both = np.concatenate([poses[:, None, :2], roads], axis=1)
    middles, reach = (
        0.5 * (both.min(axis=1) + both.max(axis=1)),
        0.5 * float(np.ptp(both, axis=1).max()) + 0.5,
    )
    for place, axes in enumerate(panels):
        _edges(axes, track)
        loc, semi = (np.array(own[key][place]) for key in ("loc", "semi"))
        _tube(axes, loc, semi, np.array(frames["future"][place]), np.array(own["held"][place]), poses[place])
        _car(axes, poses[place])
        x, y = middles[place]
        axes.set(xlim=(x - reach, x + reach), ylim=(y - reach, y + reach), xticks=[], yticks=[])
        axes.set_aspect("equal")
        axes.set_title(f"{frames['seconds'][place]:.1f} s", fontsize=9)


def _tube(
    axes: Any,
    loc: Floats,
    semi: Floats,
    future: Floats,
    held: npt.NDArray[np.bool_],
    pose: Floats | None = None,
) -> None:
    """Ellipses of every fourth step, where the car went, and dots where the region does not hold it."""
    from matplotlib.collections import EllipseCollection

    steps = np.arange(EVERY - 1, loc.shape[1], EVERY)
    where = _placed(loc[:, steps], pose).reshape(-1, 2)
    widths, heights = 2.0 * semi[:, steps].reshape(-1, 2).T
    turns = np.full(len(where), 0.0 if pose is None else float(np.degrees(pose[2])))
    colours = np.tile(np.where(held[steps], REGION, MISSED_REGION), len(loc))
    axes.add_collection(
        EllipseCollection(
            widths,
            heights,
            turns,
            units="xy",
            offsets=where,
            offset_transform=axes.transData,
            facecolors=colours,
            edgecolors="none",
        )
    )
    went = _placed(future, pose)
    axes.plot(*went.T, color=TRUTH, lw=1.4)
    axes.plot(*went[~held].T, ".", color=MISSED, ms=3.5)


def _placed(xy: Floats, pose: Floats | None) -> Floats:
    """From the car's frame to the map."""
    if pose is None:
        return xy
    cos, sin = np.cos(pose[2]), np.sin(pose[2])
    return np.stack(
        [pose[0] + xy[..., 0] * cos - xy[..., 1] * sin, pose[1] + xy[..., 0] * sin + xy[..., 1] * cos],
        axis=-1,
    )


def _car(axes: Any, pose: Floats) -> None:
    corners = np.array([[0.28, 0.15], [-0.28, 0.15], [-0.28, -0.15], [0.28, -0.15]])
    axes.fill(*_placed(corners, pose).T, color="black")


def _view(axes: Any, points: Floats, margin: float) -> None:
    low, high = points.min(axis=0), points.max(axis=0)
    room = margin * max(float((high - low).max()), LEAST)
    axes.set(xlim=(low[0] - 0.3 * room, high[0] + 0.3 * room), ylim=(low[1] - room, high[1] + room))
    axes.set_aspect("equal")
    axes.locator_params(nbins=4)
    axes.tick_params(labelsize=7)
