"""The numbers of one method on one split: its point prediction, its regions, its epistemic uncertainty.

Widths and interval scores are in standard deviations of the training targets, so that tables can be averaged; errors,
NLL and CRPS are in the units of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cbdl.credal import CredalSet
from cbdl.evaluate.calibration import log_loss, reliability
from cbdl.evaluate.detection import auroc
from cbdl.evaluate.real import crps, interval_score, log_density_loss, squared_error
from cbdl.tables.files import Floats

ALPHA = 0.05
LEAST = 1e-6
"""A smaller probability of a class counts as this in the NLL, for every method: a forest may say 0."""

Numbers = dict[str, float]
"""Scores by name; one that is not known is absent."""


def line(credal: CredalSet, y: Floats) -> Numbers:
    """Root mean squared error, NLL and CRPS of the averaged predictive."""
    return {
        "rmse": float(np.sqrt(squared_error(credal, y).mean())),
        "nll": float(log_density_loss(credal, y).mean()),
        "crps": float(crps(credal, y).mean()),
    }


def interval(lower: Floats, upper: Floats, y: Floats, unit: float) -> Numbers:
    """Coverage, mean width and mean interval score of intervals; the latter two in `unit`s."""
    return {
        "coverage": float(np.mean((lower <= y) & (y <= upper))),
        "width": float(np.mean(upper - lower) / unit),
        "interval_score": float(interval_score(lower, upper, y, ALPHA).mean() / unit),
    }


def classes(probs: Floats, y: npt.NDArray[np.int64]) -> Numbers:
    """Accuracy, NLL and calibration error (15 bins) of class probabilities (n, J)."""
    bounded = np.maximum(probs, LEAST)
    return {
        "accuracy": float(np.mean(probs.argmax(-1) == y)),
        "nll": float(log_loss(bounded / bounded.sum(-1, keepdims=True), y).mean()),
        "ece": reliability(probs, y, draws=0).ece.value,
    }


def sets(mask: npt.NDArray[np.bool_], y: npt.NDArray[np.int64]) -> Numbers:
    """Coverage and mean size of sets of classes (n, J), and the share that is empty or holds every class."""
    size = mask.sum(-1)
    return {
        "coverage": float(np.mean(mask[np.arange(len(y)), y])),
        "size": float(size.mean()),
        "empty": float(np.mean(size == 0)),
        "vacuous": float(np.mean(size == mask.shape[-1])),
    }


def detected(clean: Floats, foreign: Mapping[str, Floats], values: bool = True) -> Numbers:
    """How well an epistemic uncertainty tells foreign rows from clean ones (AUROC), and its means if `values`."""
    numbers: Numbers = {"epistemic": float(clean.mean())} if values else {}
    for name, score in foreign.items():
        both = np.concatenate([clean, score])
        area = auroc(both, np.arange(len(both)) >= len(clean))
        numbers[f"auroc_{name}"] = float(area(np.ones((1, len(both))))[0])
        if values:
            numbers[f"epistemic_{name}"] = float(score.mean())
    return numbers


def means(runs: list[Numbers]) -> Numbers:
    """The mean of every number that all runs have."""
    names = [name for name in runs[0] if all(name in run for run in runs)]
    return {name: float(np.mean([run[name] for run in runs])) for name in names}


def error(runs: list[Numbers], name: str) -> float | None:
    """The standard error of a mean over runs; None of fewer than two."""
    values: Any = [run[name] for run in runs if name in run]
    return None if len(values) < 2 else float(np.std(values, ddof=1) / np.sqrt(len(values)))
