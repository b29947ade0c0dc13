"""Sets of distributions over classes: the simplex of three, a spider of more, an interval per class of any number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cbdl.credal import CategoricalCredalSet, CredalSet
from cbdl.plots.style import (
    COLOURS,
    SMALL,
    Classes,
    Floats,
    axes_for,
    legend,
    looks,
    names_of,
    numbers,
    one_set,
    over_classes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(3) / 2]])
"""Where the three classes stand."""
MOST = len(COLOURS)
"""Sets in one simplex: more could not be told apart."""
FULL = 30
"""Classes whose names still fit below the axis."""


def simplex(credal: CredalSet, ax: Axes | None = None, *, labels: Sequence[Any] | None = None) -> Axes:
    """Credal sets over three classes as polygons in the triangle of all distributions; dots are their extremes.

    One set or a batch (n,) of at most six. A corner is certainty of its class, the lines in between are at a quarter,
    a half and three quarters of it.

    - `credal`: one set or a batch, over three classes
    - `ax`: the Axes to draw on; None makes new ones
    - `labels`: names of the classes; None: those of the set, or numbers

    >>> import cbdl
    >>> ax = simplex(cbdl.CategoricalCredalSet([[0.7, 0.2, 0.1], [0.4, 0.3, 0.3]]), labels=["cat", "dog", "bird"])
    """
    sets = over_classes(credal)
    if sets.num_classes != 3:
        raise ValueError(
            f"credal is over {sets.num_classes} classes; a simplex shows three, spider and intervals show any number"
        )
    batch = sets.batch_shape
    if len(batch) > 1 or (batch and not 1 <= batch[0] <= MOST):
        raise ValueError(
            f"credal has the batch shape {batch}; give one set or up to {MOST}, as in credal[:5]"
        )
    ax = axes_for(ax, (4.2, 3.8))
    _triangle(ax, names_of(sets, labels))
    points = _vertices(sets) @ CORNERS
    for i, (own, look) in enumerate(zip(points.reshape(-1, *points.shape[-2:]), looks(), strict=False)):
        ring = own[_hull_order(own)]
        name = f"set {i}" if batch and batch[0] > 1 else None
        ax.fill(*ring.T, facecolor=look.colour, alpha=0.25, lw=0)
        ax.plot(*np.vstack([ring, ring[:1]]).T, color=look.colour, lw=1.2, ls=look.stroke)
        ax.plot(*own.T, look.mark, color=look.colour, ms=4, label=name)
    legend(ax, loc="upper right")
    return ax


def _vertices(sets: Classes) -> Floats:
    """(..., m, J): the extremes, of bounds per class the vertices."""
    return numbers(sets.probs if isinstance(sets, CategoricalCredalSet) else sets.hull().probs)


def _hull_order(points: Floats) -> list[int]:
    """The vertices of the hull of points (m, 2) counterclockwise, by Andrew's monotone chain."""
    order = np.lexsort((points[:, 1], points[:, 0])).tolist()

    def chain(places: list[int]) -> list[int]:
        kept: list[int] = []
        for i in places:
            while len(kept) > 1 and _turn(points[kept[-2]], points[kept[-1]], points[i]) <= 1e-12:
                kept.pop()
            kept.append(i)
        return kept[:-1]

    return (chain(order) + chain(order[::-1])) or order[:1]


def _turn(a: Floats, b: Floats, c: Floats) -> float:
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def _triangle(ax: Axes, names: Sequence[str]) -> None:
    """The frame, with lines of equal probability of each class, and the names at their corners."""
    for j in range(3):
        a, b = (CORNERS[(j + i) % 3] for i in (1, 2))
        for share in (0.25, 0.5, 0.75):
            line = np.array([(1 - share) * end + share * CORNERS[j] for end in (a, b)])
            ax.plot(*line.T, color="0.8", lw=0.6, zorder=0)
    ax.plot(*np.vstack([CORNERS, CORNERS[:1]]).T, color="0.3", lw=1)
    for (x, y), name, (dx, dy, ha, va) in zip(
        CORNERS,
        names,
        ((-3, -4, "center", "top"), (3, -4, "center", "top"), (0, 4, "center", "bottom")),
        strict=True,
    ):
        ax.annotate(name, (x, y), (dx, dy), textcoords="offset points", ha=ha, va=va)
    ax.set(aspect="equal", xlim=(-0.08, 1.08), ylim=(-0.1, 0.98))
    ax.set_axis_off()


def spider(credal: CredalSet, ax: Axes | None = None, *, labels: Sequence[Any] | None = None) -> Axes:
    """Lower and upper probability of every class on a ray of its own; between them lies the whole set.

    One set over three classes or more. The outer ring is the largest upper probability, rounded up to a tenth.

    - `credal`: one set over classes
    - `ax`: the Axes to draw on; None makes new ones
    - `labels`: names of the classes; None: those of the set, or numbers

    >>> import cbdl
    >>> ax = spider(cbdl.CategoricalCredalSet([[0.7, 0.1, 0.1, 0.1], [0.4, 0.3, 0.2, 0.1]]))
    """
    sets = over_classes(credal)
    one_set(sets)
    names = names_of(sets, labels)
    if len(names) < 3:
        raise ValueError(
            f"credal is over {len(names)} classes; a spider needs three, intervals shows any number"
        )
    ax = axes_for(ax, (4.4, 4.2))
    low, high = numbers(sets.lower_probabilities()), numbers(sets.upper_probabilities())
    reach = math.ceil(10 * float(high.max()) - 1e-9) / 10
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(names)) / len(names)
    rays = np.stack([np.cos(angle), np.sin(angle)], -1)

    def ring(radius: Any) -> Floats:
        points = np.asarray(radius)[..., None] / reach * rays
        return np.asarray(np.vstack([points, points[:1]]))

    for share in (0.25, 0.5, 0.75, 1.0):
        ax.plot(*ring(np.full(len(names), share * reach)).T, color="0.85", lw=0.6, zorder=0)
    for ray in rays:
        ax.plot(*np.array([[0, 0], ray]).T, color="0.85", lw=0.6, zorder=0)
    band = np.vstack([ring(high), ring(low)[::-1]])
    ax.fill(*band.T, facecolor=COLOURS[0], alpha=0.25, lw=0)
    ax.plot(*ring(high).T, color=COLOURS[0], lw=1.4, label="upper probability")
    ax.plot(*ring(low).T, color=COLOURS[1], lw=1.4, ls="--", label="lower probability")
    for (x, y), name in zip(1.12 * rays, names, strict=True):
        ax.text(x, y, name, ha="center", va="center", fontsize=SMALL)
    ax.text(0.02, 1.0, f"{reach:g}", fontsize=7, color="0.4", ha="left", va="bottom")
    ax.set(aspect="equal", xlim=(-1.3, 1.3), ylim=(-1.3, 1.3))
    ax.set_axis_off()
    legend(ax, loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=2)
    return ax


def intervals(
    credal: CredalSet,
    ax: Axes | None = None,
    *,
    labels: Sequence[Any] | None = None,
    alpha: float | None = None,
    truth: int | None = None,
) -> Axes:
    """[lower, upper] probability of every class as a bar, the extremes as dots; for any number of classes.

    With `alpha` the bars of classes outside the minimal region of 1 - alpha are hollow; `truth` is marked by an arrow.

    - `credal`: one set over classes
    - `ax`: the Axes to draw on; None makes new ones
    - `labels`: names of the classes; None: those of the set, or numbers

    >>> import cbdl
    >>> ax = intervals(cbdl.CategoricalCredalSet([[0.7, 0.2, 0.1], [0.4, 0.3, 0.3]]), alpha=0.3)
    """
    sets = over_classes(credal)
    one_set(sets)
    names = names_of(sets, labels)
    ax = axes_for(ax, (max(4.4, min(0.5 * len(names) + 1.6, 12.0)), 3.2))
    low, high = numbers(sets.lower_probabilities()), numbers(sets.upper_probabilities())
    place = np.arange(len(names))
    inside = np.ones(len(names), dtype=bool)
    if alpha is not None:
        inside = numbers(sets.region(alpha, "minimal").mask).astype(bool)
    for own, full in ((inside, True), (~inside, False)):
        if own.any():
            ax.bar(
                place[own],
                (high - low)[own],
                bottom=low[own],
                width=0.56,
                facecolor=(*_rgb(COLOURS[0]), 0.35) if full else "none",
                edgecolor=COLOURS[0],
                ls="-" if full else ":",
                lw=1,
                label=_said(alpha, full),
            )
    if isinstance(sets, CategoricalCredalSet):
        offset = np.linspace(-0.14, 0.14, sets.num_extremes) if sets.num_extremes > 1 else np.zeros(1)
        ax.plot(
            (place + offset[:, None]).ravel(),
            numbers(sets.probs).ravel(),
            "o",
            ms=3,
            color=COLOURS[1],
            label="extremes",
        )
    if truth is not None:
        ax.annotate("true", (truth, high[truth]), (0, 14), textcoords="offset points", ha="center",
                    fontsize=SMALL, arrowprops={"arrowstyle": "->"})  # fmt: skip
    every = max(1, -(-len(names) // FULL))
    ax.set(xlabel="class", ylabel="probability", ylim=(0, min(1.05, 1.15 * float(high.max()) + 0.02)))
    ax.set_xticks(place[::every], names[::every])
    if max(map(len, names)) > 4 and len(names) > 4:
        ax.tick_params(axis="x", rotation=45)
    legend(ax)
    return ax


def _said(alpha: float | None, inside: bool) -> str:
    if alpha is None:
        return "lower to upper"
    return f"in the {1 - alpha:.3g} region" if inside else "outside"


def _rgb(colour: str) -> tuple[float, float, float]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))  # type: ignore[return-value]
