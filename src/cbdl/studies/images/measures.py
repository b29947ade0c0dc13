"""What is measured of the lines: scores of clean rows, uncertainty by noise and severity, rejection, detection."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from cbdl import evaluate
from cbdl.evaluate.calibration import brier, log_loss
from cbdl.evaluate.detection import auroc
from cbdl.evaluate.estimate import Floats, estimate
from cbdl.evaluate.rejection import rejection, rejection_area
from cbdl.studies.images.lines import Said

DRAWS = 200
"""Of the bootstrap."""
MEASURES = ("epistemic", "aleatoric", "total")
SHARES = np.linspace(0.0, 0.95, 20)
"""Shares of rejected rows at which curves are kept."""


def scores(own: Said, y: Floats) -> dict[str, float]:
    """Of clean rows: accuracy, NLL, Brier score, calibration error, area under accuracy-rejection."""
    right = own.point.argmax(-1) == y
    labels = y.astype(np.int64)
    return {
        "accuracy": float(right.mean()),
        "nll": float(np.minimum(log_loss(own.point, labels), 30.0).mean()),
        "brier": float(brier(own.point, labels).mean()),
        "ece": evaluate.reliability(own.point, labels, draws=0).ece.value,
        "area": area(own, y, "doubt"),
    }


def area(own: Said, y: Floats, measure: str) -> float:
    """The area under accuracy-rejection when the rows most uncertain by a measure go first."""
    right = own.point.argmax(-1) == y
    return float(rejection_area(right, getattr(own, measure))(np.ones((1, len(y))))[0])


def curve(own: Said, y: Floats, measure: str = "doubt") -> list[float]:
    """Accuracies when the `SHARES` of rows are rejected."""
    right = own.point.argmax(-1) == y
    whole = rejection(right, getattr(own, measure), draws=0)
    return [float(whole.at(float(share))) for share in SHARES]


def means(own: Said) -> dict[str, float]:
    """Mean uncertainties of rows."""
    named = {measure: getattr(own, measure) for measure in MEASURES} | own.more
    return {name: float(np.mean(values)) for name, values in named.items()}


def detection(clean: Said, foreign: Said) -> dict[str, dict[str, float]]:
    """By measure: how well it tells foreign rows from clean ones, AUROC with a bootstrap interval."""
    answers = {}
    for name in (*MEASURES, *clean.more):
        if name == "floor":
            continue
        pair = [said.more[name] if name in said.more else getattr(said, name) for said in (clean, foreign)]
        scores = np.concatenate(pair)
        positive = np.arange(len(scores)) >= len(pair[0])
        sizes = (len(pair[0]), len(pair[1]))
        value = estimate(auroc(scores, positive), sizes, draws=DRAWS if name == "epistemic" else 0)
        known = {"value": value.value}
        if name == "epistemic":
            known |= {"low": value.low, "high": value.high}
        answers[name] = known
    return answers


def spread_of_members(probs: Floats, y: Floats) -> list[float]:
    """Accuracy of every member (n, m, J)."""
    return [float(a) for a in (probs.argmax(-1) == y[:, None]).mean(0)]


def joined(lines: Mapping[str, Said], sizes: Sequence[int]) -> list[dict[str, Said]]:
    """The lines of sets that were asked one after the other, set by set."""
    ends = np.cumsum([0, *sizes])
    return [
        {name: own.at(slice(int(a), int(b))) for name, own in lines.items()}
        for a, b in itertools.pairwise(ends)
    ]
