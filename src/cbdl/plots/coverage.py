"""Coverage beside what it costs: the width of regions, or the efficiency of sets of distributions of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cbdl.plots.results import column, rows_of
from cbdl.plots.style import axes_for, legend, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def coverage_width(
    table: Any, ax: Axes | None = None, *, alpha: float | None = 0.05, log: bool = False
) -> Axes:
    """Coverage upwards, the width (or size) of regions across, a mark per row of the table: upper left is best.

    The dotted line is the coverage that was asked for, 1 - alpha.

    - `table`: names to rows with "coverage" and "width" or "size"; also a list of rows, what a `Calibration` compares,
      or a data frame
    - `ax`: the Axes to draw on; None makes new ones
    - `alpha`: 1 - alpha was asked for; None: no line
    - `log`: whether widths are on a logarithmic axis

    >>> ax = coverage_width({"credal": {"coverage": 0.95, "width": 1.3}, "forest": {"coverage": 0.94, "width": 1.4}})
    """
    rows = rows_of(table)
    size = column(rows, "width", "size", "measure")
    column(rows, "coverage")
    ax = axes_for(ax)
    if alpha is not None:
        ax.axhline(1 - alpha, color="0.4", lw=1, ls=":")
    _marks(ax, rows, size)
    ax.set(xlabel=f"mean {size} of the region", ylabel="coverage")
    if log:
        ax.set_xscale("log")
    return ax


def coverage_efficiency(table: Any, ax: Axes | None = None) -> Axes:
    """Coverage of distributions of labels upwards, efficiency (1 - mean width) across: upper right is best.

    table: names to `cbdl.evaluate.label_coverage`, or to rows with "coverage" and "efficiency".

    - `ax`: the Axes to draw on; None makes new ones

    >>> ax = coverage_efficiency({"credal": {"coverage": 0.9, "efficiency": 0.8}})
    """
    rows = rows_of(table)
    column(rows, "coverage")
    ax = axes_for(ax)
    _marks(ax, rows, column(rows, "efficiency"))
    ax.set(xlabel="efficiency: 1 - mean width of the intervals", ylabel="coverage")
    return ax


def _marks(ax: Axes, rows: list[dict[str, Any]], across: str) -> None:
    """A mark per row, with bars where numbers come with an interval; the legend beside the axes if they are many.

    Later marks are smaller, so that those that coincide are all seen."""
    for look, size, row in zip(looks(), np.linspace(10, 5, len(rows)), rows, strict=False):
        x, y = row[across], row["coverage"]
        ax.errorbar(
            float(x),
            float(y),
            xerr=_bar(x),
            yerr=_bar(y),
            fmt=look.mark,
            ms=size,
            color=look.colour,
            elinewidth=0.9,
            ls="none",
            label=row["name"],
        )
    ax.margins(0.12)
    if len(rows) > 4:
        legend(ax, loc="center left", bbox_to_anchor=(1.0, 0.5))
    else:
        legend(ax)


def _bar(value: Any) -> list[list[float]] | None:
    """The lengths of an error bar, for a number with a bootstrap interval."""
    low, high = getattr(value, "low", None), getattr(value, "high", None)
    if low is None or high is None or low != low or high != high:
        return None
    return [[float(value) - float(low)], [float(high) - float(value)]]
