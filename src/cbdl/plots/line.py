"""Sets of distributions on the line: a fit with its regions over the input, a p-box, densities with regions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cbdl.credal import CredalSet
from cbdl.plots.style import (
    COLOURS,
    SMALL,
    STROKES,
    Floats,
    Line,
    axes_for,
    legend,
    numbers,
    on_the_line,
    one_batch,
    one_set,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 801
"""Places at which a density or a distribution function is drawn."""
METHODS = ("union", "lower-density", "minimal")


def band(
    x: npt.ArrayLike,
    credal: CredalSet,
    ax: Axes | None = None,
    *,
    alpha: float = 0.05,
    data: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    minimal: bool = True,
    shade: bool = True,
) -> Axes:
    """A regression over one input: what every member expects, the regions of 1 - alpha, and where ignorance is.

    Lines are the members' means; the band is the union region, dashes enclose the minimal one. The shade behind is the
    epistemic uncertainty: none at the least, full at the most.

    - `x`: (n,) the input of each set, ascending
    - `credal`: a batch (n,) on the line
    - `data`: (x, y) of training rows, drawn as dots
    - `ax`: the Axes to draw on; None makes new ones
    - `alpha`: the regions cover 1 - alpha
    - `minimal`: whether the minimal region is drawn
    - `shade`: whether ignorance is shaded

    >>> import cbdl
    >>> x = np.linspace(0, 1, 5)
    >>> credal = cbdl.NormalCredalSet(np.column_stack([x, 2 * x]), np.full((5, 2), 0.1))
    >>> ax = band(x, credal, minimal=False)
    """
    sets = on_the_line(credal)
    one_batch(sets)
    at = np.asarray(x, dtype=np.float64)
    if at.shape != sets.batch_shape or not (np.diff(at) > 0).all():
        raise ValueError(
            f"x has shape {at.shape}; give one ascending number for each of the {len(sets)} sets of credal"
        )
    ax = axes_for(ax, (6.4, 3.8))
    if shade:
        _shade(ax, at, numbers(sets.uncertainty().epistemic))
    label = f"union region, {1 - alpha:.3g}"
    for own, low, high in _bands(at, numbers(sets.region(alpha).intervals)):
        ax.fill_between(own, low, high, facecolor=COLOURS[0], alpha=0.25, lw=0, label=label)
        label = "_more"
    if minimal:
        label = f"minimal region, {1 - alpha:.3g}"
        for own, low, high in _bands(at, numbers(sets.region(alpha, "minimal").intervals)):
            ax.plot(own, np.stack([low, high], -1), color=COLOURS[1], lw=1, ls="--", label=[label, "_more"])
            label = "_more"
    lines = ax.plot(at, numbers(sets.mean()), color=COLOURS[0], lw=0.9)
    lines[0].set_label("means of the members")
    if data is not None:
        ax.plot(
            *(np.asarray(d, dtype=np.float64).ravel() for d in data), ".", ms=4, color="0.25", label="data"
        )
    ax.set(xlabel="x", ylabel="y", xlim=(at[0], at[-1]))
    legend(ax)
    return ax


def _shade(ax: Axes, x: Floats, epistemic: Floats) -> None:
    """The epistemic uncertainty as a shade of the background, whatever the limits of y become."""
    from matplotlib.colors import LinearSegmentedColormap

    clear = LinearSegmentedColormap.from_list("clear", [(1, 1, 1, 0), (0.9, 0.62, 0.0, 0.45)])
    edges = np.concatenate([x[:1], (x[1:] + x[:-1]) / 2, x[-1:]])
    mesh = ax.pcolormesh(
        edges,
        [0, 1],
        epistemic[None],
        cmap=clear,
        transform=ax.get_xaxis_transform(),
        zorder=-2,
        rasterized=True,
        vmin=float(epistemic.min()),
        vmax=float(max(epistemic.max(), epistemic.min() + 1e-12)),
    )
    mesh.set_label("_epistemic")
    ax.fill([], [], facecolor=clear(1.0), lw=0, label=f"epistemic, up to {epistemic.max():.2g} nats")


def _bands(x: Floats, intervals: Floats) -> Iterator[tuple[Floats, Floats, Floats]]:
    """(x, lower, upper) of the bands of regions (n, R, 2), padded with nan: one per interval for every stretch of x on
    which the number of intervals stays the same."""
    count = np.isfinite(intervals[..., 0]).sum(-1)
    middle = (x[1:] + x[:-1]) / 2
    for start, end in _stretches(count):
        before = [middle[start - 1]] if start else []
        after = [middle[end - 1]] if end < len(x) else []
        at = np.concatenate([before, x[start:end], after])
        for k in range(int(count[start])):
            low, high = (
                np.concatenate([ends[: len(before)], ends, ends[len(ends) - len(after) :]])
                for ends in intervals[start:end, k].T
            )
            yield at, low, high


def _stretches(count: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """(start, end) of every run of equal numbers."""
    cuts = np.flatnonzero(np.diff(count)) + 1
    return zip([0, *cuts.tolist()], [*cuts.tolist(), len(count)], strict=True)


def pbox(credal: CredalSet, ax: Axes | None = None) -> Axes:
    """Lower and upper distribution function; every distribution of the set lies between them. Thin: the extremes.

    - `credal`: one set on the line
    - `ax`: the Axes to draw on; None makes new ones

    >>> import cbdl
    >>> ax = pbox(cbdl.NormalCredalSet([0.0, 1.0], [1.0, 2.0]))
    """
    sets = on_the_line(credal)
    one_set(sets)
    ax = axes_for(ax)
    y = _grid(sets)
    low, high = numbers(sets.lower_cdf(y)), numbers(sets.upper_cdf(y))
    ax.fill_between(y, low, high, facecolor=COLOURS[0], alpha=0.2, lw=0)
    ax.plot(y, numbers(sets.cdf(y)), color="0.5", lw=0.7, zorder=1)
    ax.plot(y, high, color=COLOURS[0], lw=1.6, label="upper P(Y ≤ y)")
    ax.plot(y, low, color=COLOURS[1], lw=1.6, ls="--", label="lower P(Y ≤ y)")
    ax.set(xlabel="y", ylabel="probability", ylim=(0, 1.02), xlim=(y[0], y[-1]))
    legend(ax, loc="upper left")
    return ax


def density(
    credal: CredalSet,
    ax: Axes | None = None,
    *,
    alpha: float = 0.05,
    methods: Sequence[str] = METHODS,
) -> Axes:
    """The densities of the extremes with the space between their envelopes, and the regions of 1 - alpha as bars below.

    `methods`: which regions, in order.

    - `credal`: one set on the line
    - `ax`: the Axes to draw on; None makes new ones
    - `alpha`: the regions cover 1 - alpha

    >>> import cbdl
    >>> ax = density(cbdl.NormalCredalSet([0.0, 4.0], [1.0, 1.0]), alpha=0.1)
    """
    sets = on_the_line(credal)
    one_set(sets)
    ax = axes_for(ax, (5.6, 3.8))
    y = _grid(sets)
    low, high = numbers(sets.lower_density(y)), numbers(sets.upper_density(y))
    ax.fill_between(y, low, high, facecolor=COLOURS[0], alpha=0.2, lw=0, label="between the envelopes")
    for i, own in enumerate(np.exp(numbers(sets.log_density(y))).T):
        ax.plot(y, own, color=COLOURS[0], lw=1.1, ls=STROKES[i % len(STROKES)])
    step = 0.09 * float(high.max())
    for i, method in enumerate(methods):
        level = -(i + 1) * step
        region = sets.region(alpha, method)
        for a, b in numbers(region.intervals):
            if np.isfinite(a):
                ax.plot([a, b], [level, level], color=COLOURS[i + 1], lw=5, solid_capstyle="butt")
        size = float(numbers(region.measure))
        ax.text(y[-1], level, f" {method}, {size:.3g}", ha="left", va="center", fontsize=SMALL)
    ax.axhline(0, color="0.3", lw=0.8)
    ax.set(xlabel="y", ylabel="density", xlim=(y[0], y[-1]))
    ax.set_yticks([tick for tick in ax.get_yticks() if 0 <= tick <= 1.05 * high.max()])
    legend(ax)
    return ax


def _grid(sets: Line) -> Floats:
    """Outcomes from where nothing is yet to where all is over: a little beyond the region of 0.999."""
    low, high = (float(numbers(end)) for end in sets.region(1e-3).hull())
    margin = 0.08 * (high - low)
    return np.linspace(low - margin, high + margin, POINTS)
