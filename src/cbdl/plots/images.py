"""Figures of the image study: accuracy against rejection, and detection of foreign data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cbdl.plots.style import SMALL, Floats, looks

Curves = Mapping[str, Sequence[float]]
"""Accuracies by line, at the same shares of rejected rows."""


def _draw(axes: Any, shares: Floats, curves: Curves) -> None:
    for look, (name, values) in zip(looks(), curves.items(), strict=False):
        axes.plot(shares, values, color=look.colour, ls=look.stroke, lw=1.3, label=name)
    axes.spines[["top", "right"]].set_visible(False)


def rejection(figure: Any, shares: Floats, curves: Mapping[str, Curves]) -> None:
    """A panel per severity."""
    figure.set_size_inches(2.3 * len(curves), 2.9)
    panels = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for axes, (title, own) in zip(panels, curves.items(), strict=True):
        _draw(axes, shares, own)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("share rejected")
    panels[0].set_ylabel("accuracy on the rest")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names), frameon=False, fontsize=SMALL)


def all_rejections(figure: Any, shares: Floats, curves: Mapping[str, Mapping[Any, Curves]]) -> None:
    """A row per noise, a column per severity."""
    columns = max(len(own) for own in curves.values())
    figure.set_size_inches(1.9 * columns, 1.35 * len(curves) + 0.6)
    panels = figure.subplots(len(curves), columns, sharex=True, sharey=True, squeeze=False)
    for line, (noise, own) in zip(panels, curves.items(), strict=True):
        for axes, lines in zip(line, own.values(), strict=True):
            _draw(axes, shares, lines)
        line[0].set_ylabel(noise.replace("_", "\n"), fontsize=SMALL)
    for axes, severity in zip(panels[0], next(iter(curves.values())), strict=True):
        axes.set_title(f"severity {severity}", fontsize=10)
    for axes in panels[-1]:
        axes.set_xlabel("share rejected", fontsize=SMALL)
    handles, names = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names), frameon=False, fontsize=SMALL)


def detection(figure: Any, pairs: Mapping[str, Mapping[str, Any]], lines: Sequence[str]) -> None:
    """AUROC by pair: a mark per line, a cross for the paper's."""
    figure.set_size_inches(7.2, 0.34 * len(pairs) + 1.4)
    axes = figure.subplots()
    at = list(range(len(pairs)))[::-1]
    for look, line in zip(looks(), lines, strict=False):
        known = [(own[line], y) for own, y in zip(pairs.values(), at, strict=True) if own[line] is not None]
        axes.plot(
            *zip(*known, strict=True), look.mark, ms=6, mfc="none", mew=1.3, color=look.colour, label=line
        )
    paper = [(own["paper"], y) for own, y in zip(pairs.values(), at, strict=True) if own["paper"] is not None]
    if paper:
        axes.plot(*zip(*paper, strict=True), "x", ms=6, color="0.25", label="the paper's CBDL")
    axes.set_yticks(at, list(pairs))
    axes.set_xlabel("AUROC by epistemic uncertainty")
    axes.grid(axis="y", lw=0.4, color="0.85")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=6, frameon=False, fontsize=SMALL)
