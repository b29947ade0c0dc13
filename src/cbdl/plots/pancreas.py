"""Figures of the pancreas study: each draws on a matplotlib Figure that it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

COLOURS = ("0.55", "#009e73", "#0072b2", "#e69f00", "#d55e00", "#56b4e9")
UNSAFE, RIBBON, INSULIN, MEAL = "#f4c7c3", "#9ecae1", "#54278f", "#b35806"
STEP, LEAD = 5, 5
"""Minutes of a step, and steps from a prediction to what it is of."""
START = 6.0
"""Hours: when an episode begins."""


def traces(figure: Any, traces: Mapping[str, Mapping[str, Floats]], meals: Floats) -> None:
    """Glucose with its bands and the predicted ribbon above, insulin and meals below: a column per controller."""
    figure.set_size_inches(3.8 * len(traces), 5.2)
    panels = figure.subplots(2, len(traces), sharex=True, sharey="row", squeeze=False, height_ratios=(3, 1))
    top = max(310.0, 1.05 * max(float(np.nanmax(own["glucose"])) for own in traces.values()))
    for (above, below), (name, own) in zip(panels.T, traces.items(), strict=True):
        hours = START + STEP / 60 * np.arange(1, len(own["glucose"]) + 1)
        _bands(above, top)
        ahead = hours - STEP / 60 + LEAD * STEP / 60
        above.fill_between(ahead, own["low"], own["high"], color=RIBBON, lw=0, label="[G_l, G_u]")
        above.plot(hours - STEP / 60, own["readings"], ".", ms=2, color="0.5", label="readings")
        above.plot(hours, own["glucose"], color="black", lw=1.6, label="glucose")
        above.set(ylim=(30, top), xlim=(START, hours[-1]))
        above.set_title(name, fontsize=10)
        below.step(hours - STEP / 60, own["doses"], where="post", color=INSULIN, lw=1.2)
        for axes in (above, below):
            for minute in np.flatnonzero(meals):
                axes.axvline(START + minute / 60, color=MEAL, lw=1, ls="--")
            axes.spines[["top", "right"]].set_visible(False)
        below.set_xlabel("hour")
    for minute in np.flatnonzero(meals):
        place, axes = (START + minute / 60 + 0.2, 0.98), panels[0, 0]
        axes.annotate(
            f"{meals[minute]:.0f} g",
            place,
            xycoords=axes.get_xaxis_transform(),
            fontsize=8,
            color=MEAL,
            va="top",
        )
    panels[0, 0].set_ylabel("glucose (mg/dL)")
    panels[1, 0].set_ylabel("insulin\n(x basal)")
    panels[0, -1].legend(frameon=True, fontsize=8, loc="upper right")


def _bands(axes: Any, top: float) -> None:
    for low, high in ((0, 70), (300, top + 50)):
        axes.axhspan(low, high, color=UNSAFE, lw=0)
    axes.axhspan(70, 180, color="#e5f5e0", lw=0)
    for limit in (70, 180, 300):
        axes.axhline(limit, color="0.4", lw=0.6)


def grid(figure: Any, points: Mapping[str, Sequence[Floats]]) -> None:
    """The control-variability grid: lowest glucose to the right, highest upwards, zone A in the corner."""
    figure.set_size_inches(6.4, 5.6)
    axes = figure.add_subplot()
    rows, columns = (110.0, 180.0, 300.0, 400.0), (110.0, 90.0, 70.0, 50.0)
    names = [["A", "lower B", "lower C"], ["upper B", "B", "lower D"], ["upper C", "upper D", "E"]]
    shades = {"A": "#a1d99b", "B": "#e5f5e0", "C": "#fff3c4", "D": "#fdd9b5", "E": "#f4c7c3"}
    for r, own in enumerate(names):
        for c, name in enumerate(own):
            left, right = columns[c], columns[c + 1]
            axes.fill_between([left, right], rows[r], rows[r + 1], color=shades[name[-1]], lw=0)
            place = (left - 1, rows[r + 1] - 3)
            axes.annotate(name, place, fontsize=8, color="0.3", va="top", ha="left")
    for (name, (low, high)), colour in zip(points.items(), COLOURS, strict=False):
        inside = np.clip(low, 50, 110), np.clip(high, 110, 400)
        axes.plot(*inside, "o", ms=4, color=colour, alpha=0.75, mec="white", mew=0.3, label=name)
    axes.set(xlim=(111, 49), ylim=(107, 403), xlabel="lowest glucose, 2.5 % (mg/dL; beyond: at the edge)")
    axes.set_ylabel("highest glucose, 97.5 % (mg/dL)")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)


def pairs(figure: Any, pairs: Mapping[str, tuple[Floats, Floats]], names: Sequence[str]) -> None:
    """A panel per line-up, a line per patient from EBNN's unsafe time to CBDL's."""
    figure.set_size_inches(3.6 * len(pairs) + 0.8, 0.32 * len(names) + 1.4)
    panels = figure.subplots(1, len(pairs), sharey=True, sharex=True, squeeze=False)[0]
    places = np.arange(len(names))[::-1]
    most = max(1.0, *(float(own.max()) for pair in pairs.values() for own in pair))
    for axes, (name, (theirs, ours)) in zip(panels, pairs.items(), strict=True):
        worse = ours > theirs
        for colour, own in (("#d55e00", worse), ("#0072b2", ~worse)):
            axes.hlines(places[own], theirs[own], ours[own], color=colour, lw=1.5)
            axes.plot(ours[own], places[own], "o", ms=5, color=colour)
        axes.plot(theirs, places, "o", ms=5, mfc="white", mec="0.3")
        axes.set_title(f"{name}: EBNN (o) to CBDL", fontsize=9)
        axes.set_xlabel("unsafe time, %")
        axes.set_xlim(-0.03 * most, 1.03 * most)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(places, names)
