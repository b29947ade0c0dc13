"""Lines of the comparison: what each makes of its members' answers, for any rows.

All of them end in the same numbers per row: a point prediction, total, aleatoric and epistemic uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.optimize import minimize_scalar

from cbdl import baselines, constructions
from cbdl.credal import CategoricalCredalSet, IntervalCredalSet
from cbdl.credal.floor import class_floor
from cbdl.evaluate.estimate import Floats
from cbdl.studies.images.answers import DRAWS
from cbdl.studies.images.members import LINE_UPS, LineUp
from cbdl.studies.images.sources import VALIDATION
from cbdl.studies.shelf import Arrays

CBDL, EBNN, EBNN_LABEL, BNN = "CBDL", "EBNN", "EBNN label", "BNN"
ENSEMBLE, DROPOUT, WRAPPER, ROBUST = "ensemble", "dropout", "wrapper", "CreDRO"
OURS, AVERAGED = "ours", "ours averaged"
LINES = (CBDL, EBNN, EBNN_LABEL, BNN, ENSEMBLE, DROPOUT, WRAPPER, ROBUST, OURS, AVERAGED)
"""In the order of the tables."""
IMPRECISION = 0.1
"""Nats that a width of 1 counts for when rows are rejected: the best on corrupted validation rows of Fashion-MNIST and
CIFAR-10 among 0, 0.05, 0.1, 0.2, 0.3, 0.5 and 1 that costs MNIST no more than 0.001."""
CREDAL = (CBDL, WRAPPER, ROBUST, OURS)
"""Those that answer with a set."""


@dataclass(frozen=True, eq=False)
class Said:
    """What a line says of n rows: `point` (n, J), and (n,) each of the three uncertainties; `more` by name.

    width: upper minus lower probability of the class that the point prediction names; 0 of a single distribution
    """

    point: Floats
    total: Floats
    aleatoric: Floats
    epistemic: Floats
    width: Floats
    more: dict[str, Floats] = field(default_factory=dict)

    @property
    def doubt(self) -> Floats:
        """(n,): what rows are rejected by: the entropy of the point prediction and a little of how imprecise it is."""
        p = np.maximum(self.point, 1e-300)
        return np.asarray(-(p * np.log(p)).sum(-1) + IMPRECISION * self.width)

    def at(self, rows: slice) -> Said:
        """Of some of the rows."""
        more = {name: values[rows] for name, values in self.more.items()}
        own = (self.total[rows], self.aleatoric[rows], self.epistemic[rows])
        return Said(self.point[rows], *own, self.width[rows], more)


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of all members trained on one source by one seed, and the labels of the validation rows."""

    members: Mapping[tuple[LineUp, int], Arrays]
    labels: Floats

    def has(self, line_up: LineUp) -> bool:
        """Whether the members of a line-up are there."""
        return (line_up, 0) in self.members

    def stacked(self, line_up: LineUp, sets: Sequence[str], what: str) -> Floats:
        """(n, m, ...): of all members of a line-up, the rows of the sets one after the other."""
        own = [
            np.concatenate([self.members[line_up, place][f"{name}/{what}"] for name in sets])
            for place in range(LINE_UPS[line_up])
        ]
        return np.stack(own, 1).astype(np.float64)


def said(answers: Answers, sets: Sequence[str], thorough: bool) -> dict[str, Said]:
    """Every line whose members are there, on the rows of some sets, one after the other.

    `thorough`: with all measures and the floor.
    """
    lines: dict[str, Said] = {}
    if answers.has("mean field"):
        lines |= _of_the_paper(answers, sets, thorough)
    if answers.has("ordinary"):
        lines |= _of_ordinary_networks(answers, sets, thorough)
    if answers.has("robust"):
        probs = _probs(answers.stacked("robust", sets, "log_probs"))
        lines[ROBUST] = _credal(constructions.wrapper(probs), thorough)
    if answers.has("dropout"):
        probs, entropy = (answers.stacked("dropout", sets, what)[:, 0] for what in ("averages", "entropy"))
        lines[DROPOUT] = _drawn(probs[:, 0], entropy)
    return {name: lines[name] for name in LINES if name in lines}


def _of_the_paper(answers: Answers, sets: Sequence[str], thorough: bool) -> dict[str, Said]:
    """The hull of the mean-field members, their averages, and the best of them."""
    draws, entropy = (answers.stacked("mean field", sets, what) for what in ("averages", "entropy"))
    hull, chosen = CategoricalCredalSet(draws[:, :, 0]), best(answers)
    lines = {
        CBDL: _credal(hull, thorough),
        EBNN: _averaged(baselines.ebnn(hull, "paper")),
        EBNN_LABEL: _averaged(baselines.ebnn(hull, "label")),
        BNN: _drawn(draws[:, chosen, 0], entropy[:, chosen]),
    }
    if thorough:
        averages = torch.from_numpy(draws)
        lines[CBDL].more["floor"] = class_floor(averages, torch.full((len(averages),), DRAWS)).numpy()
    return lines


def _of_ordinary_networks(answers: Answers, sets: Sequence[str], thorough: bool) -> dict[str, Said]:
    """The deep ensemble, its box, and ours."""
    members, known = (answers.stacked("ordinary", sets, what) for what in ("log_probs", "known"))
    sharp = sharpness(answers) * members
    return {
        ENSEMBLE: _averaged(baselines.from_draws(_probs(members))),
        WRAPPER: _credal(constructions.wrapper(_probs(members)), thorough),
        OURS: _ours(sharp, known, thorough),
        AVERAGED: _average_of_ours(sharp, known),
    }


def best(answers: Answers) -> int:
    """The mean-field member with the lowest validation NLL."""
    draws = answers.stacked("mean field", [VALIDATION], "averages")[:, :, 0]
    y = answers.labels.astype(np.int64)[: len(draws)]
    own = np.take_along_axis(draws, y[:, None, None], -1)[..., 0]
    return int(np.log(np.maximum(own, 1e-12)).mean(0).argmax())


def sharpness(answers: Answers) -> float:
    """The power of the ordinary members' probabilities under which their average is best on validation rows (NLL)."""
    members = answers.stacked("ordinary", [VALIDATION], "log_probs")
    rows, y = np.arange(len(members)), answers.labels.astype(np.int64)

    def loss(log_power: float) -> float:
        mean = _probs(math.exp(log_power) * members).mean(1)
        return float(-np.log(np.maximum(mean[rows, y], 1e-12)).mean())

    return math.exp(minimize_scalar(loss, bounds=(-1.5, 1.5), method="bounded").x)


def _probs(log_probs: Floats) -> Floats:
    """Normalised: powers of probabilities, and those in single precision, do not sum to 1."""
    p = np.exp(log_probs - log_probs.max(-1, keepdims=True))
    return np.asarray(p / p.sum(-1, keepdims=True))


def _averaged(own: baselines.Averaged) -> Said:
    point = np.asarray(own.prediction.center())
    total, aleatoric, epistemic = map(np.asarray, (own.total, own.aleatoric, own.epistemic))
    return Said(point, total, aleatoric, epistemic, np.zeros(len(point)))


def _drawn(probs: Floats, entropy: Floats) -> Said:
    """One network: H(mean p) = mean H(p), which is `entropy`, + mutual information."""
    total = np.asarray(CategoricalCredalSet(probs[:, None]).upper_entropy())
    return Said(probs, total, entropy, np.maximum(total - entropy, 0.0), np.zeros(len(probs)))


def _credal(
    sets: CategoricalCredalSet | IntervalCredalSet, thorough: bool, point: Floats | None = None
) -> Said:
    split = sets.uncertainty()
    more = {}
    if thorough:
        more = {
            "epistemic_lower": np.asarray(split.epistemic_lower),
            "hartley": np.asarray(sets.generalized_hartley()),
        }
    center = np.asarray(sets.center()) if point is None else point
    total, aleatoric, epistemic = map(np.asarray, (split.total, split.aleatoric, split.epistemic))
    named = center.argmax(-1)[:, None]
    ends = (sets.lower_probabilities(), sets.upper_probabilities())
    low, high = (np.take_along_axis(np.asarray(end), named, -1)[:, 0] for end in ends)
    return Said(center, total, aleatoric, epistemic, high - low, more)


def _ours(log_probs: Floats, known: Floats, thorough: bool) -> Said:
    """The networks' box with a background of every label. Its point is their average: the element of the set in which
    the background is labelled as they would."""
    probs = _probs(log_probs)
    return _credal(constructions.with_background(probs, known), thorough, probs.mean(1))


def _average_of_ours(log_probs: Floats, known: Floats) -> Said:
    """All members of ours, a network and a label of the background each, averaged: what a set adds, this lacks."""
    probs, share = _probs(log_probs), known[..., None, None]
    classes = probs.shape[-1]
    members = share * probs[:, :, None] + (1 - share) * np.eye(classes)
    return _averaged(baselines.from_draws(members.reshape(len(probs), -1, classes)))
