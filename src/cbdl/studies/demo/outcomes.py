"""The paper's example of a credal set: three distributions over five outcomes (its table "tab_ex")."""

from __future__ import annotations

from typing import Any

import numpy as np

from cbdl.credal import CategoricalCredalSet
from cbdl.plots import demo as figures
from cbdl.studies.part import Part

FIVE_OUTCOMES = np.array(
    [
        [0.7, 0.25, 0.03, 0.01, 0.01],
        [0.6, 0.2, 0.1, 0.05, 0.05],
        [0.5, 0.3, 0.15, 0.025, 0.025],
    ]
)
ALPHA = 0.1


def answer() -> dict[str, Any]:
    """Everything the kernel says about the example."""
    credal = CategoricalCredalSet(FIVE_OUTCOMES)
    split = credal.uncertainty()
    return {
        "alpha": ALPHA,
        "lower_probability": np.asarray(credal.lower_probabilities()).tolist(),
        "upper_probability": np.asarray(credal.upper_probabilities()).tolist(),
        "total": float(split.total),
        "aleatoric": float(split.aleatoric),
        "epistemic": float(split.epistemic),
        "epistemic_bracket": [float(split.epistemic_lower), float(split.epistemic_upper)],
        "gap": float(split.gap),
        "region": [int(i) + 1 for i in np.flatnonzero(credal.region(ALPHA, "minimal").mask)],
        "decision": int(credal.decide("maximin", single=True)) + 1,
    }


def part() -> Part:
    """The example as a part of the demo."""
    numbers = answer()
    low, high = numbers["lower_probability"], numbers["upper_probability"]
    rows = tuple(
        (str(i + 1), *(f"{x:.3f}" for x in (*FIVE_OUTCOMES[:, i], low[i], high[i]))) for i in range(5)
    )
    bracket = " to ".join(f"{x:.3f}" for x in numbers["epistemic_bracket"])
    region = ", ".join(map(str, numbers["region"]))
    return Part(
        "outcomes",
        "1. A credal set: the paper's example",
        "Three experts give three distributions over five outcomes. None can be ruled out, so all are kept, and every "
        "mixture of them: a credal set.",
        ("outcome", "P1", "P2", "P3", "lower", "upper"),
        rows,
        (
            f"aleatoric uncertainty (noise): {numbers['aleatoric']:.3f} nats, the entropy that all agree is there.",
            f"epistemic uncertainty (ignorance): {numbers['epistemic']:.3f} nats, what they disagree about. The paper "
            f"has a bracket, {bracket}; cbdl has the value, with proof.",
            f"{1 - ALPHA:.0%} region: {{{region}}}, the fewest outcomes that all agree to cover.",
            f"safest single outcome: {numbers['decision']}.",
        ),
        numbers,
        "Lower and upper probability of each outcome; dots are the three experts.",
        lambda figure: figures.outcomes(figure, FIVE_OUTCOMES),
    )
