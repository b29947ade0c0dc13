"""The figures of a model on a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from cbdl import evaluate, plots
from cbdl.credal import CredalSet
from cbdl.prediction import averaged
from cbdl.report.asked import Asked
from cbdl.report.page import Block, Figure
from cbdl.tables.answers import Options


def figures(asked: Asked) -> list[Block]:
    sets = asked.sets
    blocks: list[Block] = [
        Figure(
            "noise-and-ignorance",
            "A dot per row: noise (aleatoric uncertainty) across, ignorance (epistemic uncertainty) upwards.",
            lambda figure: plots.aleatoric_epistemic(_by_outcome(asked), _panel(figure)),
        )
    ]
    if asked.y is not None:
        blocks += _scored_figures(asked)
    strangest = int(np.argmax(np.asarray(sets.uncertainty().epistemic)))
    shown = sets[strangest]
    row = int(asked.places[strangest]) + 1
    if asked.trained.classifies:
        blocks.append(
            Figure(
                "strangest",
                f"Row {row}, of which the model is most ignorant: lower and upper probability of every class.",
                lambda figure: plots.intervals(shown, _panel(figure), labels=shown.labels),
            )
        )
    else:
        blocks.append(
            Figure(
                "strangest",
                f"Row {row}, of which the model is most ignorant: the densities of its members, and regions of "
                f"{1 - asked.alpha:.3g}.",
                lambda figure: plots.density(shown, _panel(figure, 6.2), alpha=asked.alpha),
            )
        )
    return blocks


def _panel(figure: Any, width: float = 5.4, height: float = 3.6) -> Any:
    figure.set_size_inches(width, height)
    return figure.add_subplot()


def _by_outcome(asked: Asked) -> dict[str, CredalSet]:
    """The rows that are answered right and wrong, or within and outside of their region."""
    if asked.y is None:
        return {"rows": asked.sets}
    if asked.trained.classifies:
        good = np.asarray(averaged(asked.sets).center()).argmax(-1) == asked.y
        names = ("right", "wrong")
    else:
        good = np.asarray(asked.sets.region(asked.alpha).contains(asked.y))
        names = ("within the region", "outside of it")
    kinds = {names[0]: asked.sets[good], names[1]: asked.sets[~good]}
    return {name: sets for name, sets in kinds.items() if len(sets)}


def _scored_figures(asked: Asked) -> list[Block]:
    regions = {
        method: asked.sets.region(asked.alpha, method) for method in ("union", "lower-density", "minimal")
    }
    if asked.trained.conformity:
        regions["calibrated"] = asked.trained.region(asked.sets, Options(asked.alpha))
    table = {
        name: {"coverage": float(np.mean(r.contains(asked.y))), "size": float(np.mean(r.measure))}
        for name, r in regions.items()
    }
    blocks: list[Block] = [
        Figure(
            "regions",
            f"Coverage of regions of {1 - asked.alpha:.3g} against their size; upper left is best.",
            lambda figure: plots.coverage_width(table, _panel(figure), alpha=asked.alpha),
        )
    ]
    if not asked.trained.classifies:
        return blocks
    sets = averaged(asked.sets)
    right = np.asarray(sets.center()).argmax(-1) == asked.y
    measures = evaluate.uncertainties(sets, ["total", "aleatoric", "epistemic"])
    curves = {name: evaluate.rejection(right, values, draws=0) for name, values in measures.items()}
    reliable = evaluate.reliability(sets, asked.y, 10, draws=0)
    blocks += [
        Figure(
            "rejection",
            "Accuracy of what is kept when the rows of most uncertainty are not answered.",
            lambda figure: plots.rejection(curves, _panel(figure)),
        ),
        Figure(
            "reliability",
            "Accuracy against confidence of the average.",
            lambda figure: plots.reliability(reliable, _panel(figure, 4.2, 4.0)),
        ),
    ]
    return blocks
