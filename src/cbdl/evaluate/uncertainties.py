"""All measures of uncertainty of a prediction by name, one number per row: what curves and detectors go by."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cbdl.credal import CategoricalCredalSet, CredalSet, IntervalCredalSet
from cbdl.evaluate.estimate import Floats
from cbdl.evaluate.predictions import Predicted, point_probabilities, prediction_of

HARTLEY = 20
"""Most classes for which the generalised Hartley measure looks at all events."""


def _width(credal: CredalSet) -> Floats:
    assert isinstance(credal, CategoricalCredalSet | IntervalCredalSet)
    return np.asarray(np.asarray(credal.upper_probabilities() - credal.lower_probabilities()).mean(-1))


def _imprecision_of_the_best(credal: CredalSet) -> Floats:
    """upperP - lowerP of the class that the point prediction names."""
    assert isinstance(credal, CategoricalCredalSet | IntervalCredalSet)
    best = point_probabilities(credal).argmax(-1)[:, None]
    spread = np.asarray(credal.upper_probabilities() - credal.lower_probabilities())
    return np.take_along_axis(spread, best, -1)[:, 0]


def _information(credal: CredalSet) -> Floats:
    assert isinstance(credal, CategoricalCredalSet)
    return np.asarray(credal.average_uncertainty().mutual_information)


BOXES: dict[str, Callable[[CredalSet], Floats]] = {
    "entropy": lambda c: -_plogp(point_probabilities(c)),
    "1 - max": lambda c: 1 - point_probabilities(c).max(-1),
    "width": _width,
    "best width": _imprecision_of_the_best,
    "hartley": lambda c: np.asarray(c.generalized_hartley()),
}
"""Of sets of classes, beside the entropies that every set has."""


def _plogp(p: Floats) -> Floats:
    return np.asarray(np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0).sum(-1))


def uncertainties(prediction: Predicted, measures: Sequence[str] | None = None) -> dict[str, Floats]:
    """(n,) each: "total", "aleatoric", "epistemic" and the paper's lower bound of it, "epistemic_lower".

    For classes also "entropy" and "1 - max" of the point prediction, "width" (the mean of upper minus lower
    probability), "best width" (that of the predicted class), "hartley" (at most 20 classes), and for hulls
    "information" (mutual information).

    `measures` picks some of them by name.

    - `prediction`: a credal set, probabilities (n, J) or (n, m, J), or the path of a saved file

    >>> from cbdl import CategoricalCredalSet
    >>> found = uncertainties(CategoricalCredalSet([[[0.9, 0.1], [0.1, 0.9]]]), ["epistemic", "width"])
    >>> {name: values.round(2).tolist() for name, values in found.items()}
    {'epistemic': [0.37], 'width': [0.8]}
    """
    credal = prediction_of(prediction)
    classes = isinstance(credal, CategoricalCredalSet | IntervalCredalSet)
    known: dict[str, Callable[[CredalSet], Floats]] = dict(BOXES) if classes else {}
    if isinstance(credal, CategoricalCredalSet):
        known["information"] = _information
    if isinstance(credal, CategoricalCredalSet | IntervalCredalSet) and credal.num_classes > HARTLEY:
        del known["hartley"]
    entropies = ("total", "aleatoric", "epistemic", "epistemic_lower")
    chosen = [*entropies, *known] if measures is None else list(measures)
    for name in chosen:
        if name not in known and name not in entropies:
            raise ValueError(f"measures has {name!r}; of this prediction give some of {[*entropies, *known]}")
    answers: dict[str, Floats] = {}
    split = credal.uncertainty() if set(chosen) & set(entropies) else None
    for name in chosen:
        value = getattr(split, name) if name in entropies else known[name](credal)
        answers[name] = np.asarray(value, dtype=np.float64)
    return answers
