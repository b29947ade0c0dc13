"""Figures of the tables study: each draws on a matplotlib Figure that it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MARKS = "osD^vP*X<>hd"
OWN = "#d55e00"
OTHER = ("#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "0.4")


def coverage(figure: Any, means: Mapping[str, Mapping[str, float]], size: str, label: str) -> None:
    """Coverage over the size of regions; the default model is red, the dotted line is what was asked for."""
    figure.set_size_inches(8, 4.5)
    axes = figure.add_subplot()
    axes.axhline(0.95, color="black", lw=1, ls=":")
    others = 0
    for i, (name, own) in enumerate(means.items()):
        ours = name.startswith("credal")
        colour = OWN if ours else OTHER[others % len(OTHER)]
        others += not ours
        face = "none" if ours and i else colour
        axes.plot(
            own[size],
            own["coverage"],
            MARKS[i % len(MARKS)],
            ms=8,
            color=colour,
            mfc=face,
            label=f"{name} ({own['tables']:.0f})",
            ls="none",
        )
    axes.set(xlabel=label, ylabel="coverage")
    axes.legend(
        frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), title="method (tables)"
    )
    axes.spines[["top", "right"]].set_visible(False)


def published(figure: Any, values: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> None:
    """A panel per table: NLL of this run as full marks, published ones (*) hollow; the first name is the model's."""
    figure.set_size_inches(2.2 * len(values) + 2.4, 0.32 * len(names) + 1.6)
    panels = np.atleast_1d(figure.subplots(1, len(values), sharey=True))
    for axes, (table, own) in zip(panels, values.items(), strict=True):
        for place, name in enumerate(names):
            if name in own:
                colour = OWN if place == 0 else OTHER[0]
                hollow = name.startswith("*")
                axes.plot(own[name], place, "o", ms=7, color=colour, mfc="none" if hollow else colour)
        axes.axvline(own[names[0]], color=OWN, lw=1, ls=":")
        axes.set_title(table, fontsize=10)
        axes.set(xlabel="NLL (nats)", yticks=range(len(names)), yticklabels=names)
        axes.margins(x=0.2)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].invert_yaxis()
