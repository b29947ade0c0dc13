"""The demo's figures: each draws on a matplotlib Figure that it is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
COLOURS = ("#0072b2", "#e69f00", "#cc79a7", "#d55e00")
"""Four colours that people who see fewer of them can tell apart."""
SHOWN = 6


def _plain(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)


def outcomes(figure: Any, probs: Floats) -> None:
    """Lower and upper probability of each outcome as a bar, the experts as dots: probs (m, J)."""
    figure.set_size_inches(6, 3)
    axes = figure.add_subplot()
    low, high = probs.min(0), probs.max(0)
    places = np.arange(1, probs.shape[1] + 1)
    axes.bar(places, high - low, bottom=low, width=0.5, color=COLOURS[0], alpha=0.3, label="lower to upper")
    for j, row in enumerate(probs):
        axes.plot(places + 0.12 * (j - 1), row, "o", ms=5, color=COLOURS[j], label=f"P{j + 1}")
    axes.set(xlabel="outcome", ylabel="probability", xticks=places, ylim=(0, None))
    axes.legend(frameon=False)
    _plain(axes)


def digits(figure: Any, drawn: Mapping[str, Mapping[str, Any]], limit: float) -> None:
    """The ignorance of each kind of images, and some of the images with their sets."""
    figure.set_size_inches(10, 1.35 * len(drawn) + 0.6)
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.25))
    edges = np.linspace(0, max(float(np.max(kind["epistemic"])) for kind in drawn.values()), 31)
    panels = left.subplots(len(drawn), 1, sharex=True)
    for axes, colour, (name, kind) in zip(panels, COLOURS, drawn.items(), strict=False):
        axes.hist(kind["epistemic"], edges, color=colour)
        axes.axvline(limit, color="black", lw=1, ls=":")
        axes.set_title(name, loc="left", fontsize=10)
        axes.set_yticks([])
        _plain(axes)
    panels[-1].set_xlabel("epistemic uncertainty (nats)")
    grid = right.subplots(len(drawn), SHOWN)
    for line, kind in zip(grid, drawn.values(), strict=True):
        for i, axes in enumerate(line):
            axes.imshow(kind["X"][i].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
            axes.set(xticks=[], yticks=[])
            axes.set_title(_set(kind["mask"][i]), fontsize=8)


def _set(mask: Any) -> str:
    """The digits of a set, with runs shortened so that the title fits."""
    inside = np.flatnonzero(mask)
    if len(inside) > 7:
        out = np.flatnonzero(~np.asarray(mask))
        return "all" if not len(out) else "all but " + ",".join(map(str, out))
    return "{" + ",".join(map(str, inside)) + "}"


def diabetes(figure: Any, drawn: Mapping[str, Any]) -> None:
    """Above: what the networks expect over the body-mass index, and the interval. Below: the ignorance."""
    figure.set_size_inches(8, 5.5)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2.2, 1))
    bmi = drawn["bmi"]
    for axes in (above, below):
        axes.axvspan(*drawn["seen"], color="0.92", lw=0)
        _plain(axes)
    above.fill_between(
        bmi, drawn["lower"], drawn["upper"], color=COLOURS[0], alpha=0.2, lw=0, label="95 % interval"
    )
    lines = above.plot(bmi, drawn["loc"], color=COLOURS[0], lw=1)
    lines[0].set_label("the networks")
    above.plot(*drawn["points"], ".", ms=3, color="0.45", label="training")
    above.set_ylabel("progression after a year")
    above.legend(frameon=False, loc="upper left")
    below.plot(bmi, drawn["epistemic"], color=COLOURS[3])
    below.set(xlabel="body-mass index", ylabel="epistemic (nats)", ylim=(0, None), xlim=(bmi[0], bmi[-1]))
