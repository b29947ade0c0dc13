"""Lines of the comparison: what each makes of its members' answers, for any rows.

All of them end in the same numbers per row: a point prediction, total, aleatoric and epistemic uncertainty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch

from cbdl import baselines, constructions
from cbdl.credal import CategoricalCredalSet, IntervalCredalSet
from cbdl.credal.floor import class_floor
from cbdl.evaluate.estimate import Floats
from cbdl.studies.images.answers import DRAWS
from cbdl.studies.images.members import LINE_UPS, LineUp
from cbdl.studies.images.rejector import Rejectors, best_power, powered
from cbdl.studies.images.sources import VALIDATION
from cbdl.studies.shelf import Arrays

CBDL, EBNN, EBNN_LABEL, BNN = "CBDL", "EBNN", "EBNN label", "BNN"
ENSEMBLE, DROPOUT, WRAPPER, ROBUST = "ensemble", "dropout", "wrapper", "CreDRO"
OURS, AVERAGED = "ours", "ours averaged"
LINES = (CBDL, EBNN, EBNN_LABEL, BNN, ENSEMBLE, DROPOUT, WRAPPER, ROBUST, OURS, AVERAGED)
"""In the order of the tables."""
CREDAL = (CBDL, WRAPPER, ROBUST, OURS)
"""Those that answer with a set."""


@dataclass(frozen=True, eq=False)
class Said:
    """What a line says of n rows: `point` (n, J), and (n,) each of the three uncertainties; `more` by name."""

    point: Floats
    total: Floats
    aleatoric: Floats
    epistemic: Floats
    more: dict[str, Floats] = field(default_factory=dict)
    own_doubt: Floats | None = None
    """(n,): what a line rejects rows by, where that is not the entropy of its point prediction."""

    @property
    def doubt(self) -> Floats:
        """(n,): what rows are rejected by."""
        if self.own_doubt is not None:
            return self.own_doubt
        p = np.maximum(self.point, 1e-300)
        return np.asarray(-(p * np.log(p)).sum(-1))

    @property
    def error(self) -> Floats:
        """(n,): the probability that the point prediction is wrong, by itself."""
        return np.asarray(1 - self.point.max(-1))

    def at(self, rows: slice) -> Said:
        """Of some of the rows."""
        more = {name: values[rows] for name, values in self.more.items()}
        own = (self.total[rows], self.aleatoric[rows], self.epistemic[rows])
        doubt = None if self.own_doubt is None else self.own_doubt[rows]
        return Said(self.point[rows], *own, more, doubt)


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of all members trained on one source by one seed, and the labels of the validation rows."""

    members: Mapping[tuple[LineUp, int], Arrays]
    labels: Floats

    @property
    def shifted(self) -> list[str]:
        """The names of the sets of corrupted validation rows."""
        ends = (
            name.removesuffix("/known") for name in self.members["ordinary", 0] if name.endswith("/known")
        )
        return [name for name in ends if name.startswith(f"{VALIDATION} ")]

    @cached_property
    def rejectors(self) -> Rejectors:
        """What rows are rejected by in our line, from corrupted validation rows."""
        sets = self.shifted
        members, known = (self.stacked("ordinary", sets, what) for what in ("log_probs", "known"))
        point = powered(sharpness(self) * members).mean(1)
        labels = self.labels[: len(point) // len(sets)]
        return Rejectors.learned(members, known, point, labels, [_kind(name) for name in sets])

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
        probs = powered(answers.stacked("robust", sets, "log_probs"))
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
    ours = _ours(sharp, known, thorough)
    return {
        ENSEMBLE: _averaged(baselines.from_draws(powered(members))),
        WRAPPER: _credal(constructions.wrapper(powered(members)), thorough),
        OURS: replace(ours, own_doubt=_doubt(answers, sets, members, known, ours.point)),
        AVERAGED: _average_of_ours(sharp, known),
    }


def best(answers: Answers) -> int:
    """The mean-field member with the lowest validation NLL."""
    draws = answers.stacked("mean field", [VALIDATION], "averages")[:, :, 0]
    y = answers.labels.astype(np.int64)[: len(draws)]
    own = np.take_along_axis(draws, y[:, None, None], -1)[..., 0]
    return int(np.log(np.maximum(own, 1e-12)).mean(0).argmax())


def sharpness(answers: Answers) -> float:
    """The power of the ordinary members' probabilities under which their average is best on validation rows."""
    return best_power(answers.stacked("ordinary", [VALIDATION], "log_probs"), answers.labels)


def _doubt(answers: Answers, sets: Sequence[str], members: Floats, known: Floats, point: Floats) -> Floats:
    """(n,): what rows are rejected by in our line, corrupted ones by what other kinds of corruption teach."""
    ends = np.cumsum([len(answers.members["ordinary", 0][f"{name}/known"]) for name in sets])
    parts = (np.split(own, ends[:-1]) for own in (members, known, point))
    rules = (answers.rejectors.of(_kind(name)) for name in sets)
    return np.concatenate([rule(*rows) for rule, *rows in zip(rules, *parts, strict=True)])


def _kind(name: str) -> str:
    """How the rows of a set are corrupted; "" where they are not."""
    return name.removeprefix(f"{VALIDATION} ").rpartition(" ")[0]


def _averaged(own: baselines.Averaged) -> Said:
    point = np.asarray(own.prediction.center())
    total, aleatoric, epistemic = map(np.asarray, (own.total, own.aleatoric, own.epistemic))
    return Said(point, total, aleatoric, epistemic)


def _drawn(probs: Floats, entropy: Floats) -> Said:
    """One network: H(mean p) = mean H(p), which is `entropy`, + mutual information."""
    total = np.asarray(CategoricalCredalSet(probs[:, None]).upper_entropy())
    return Said(probs, total, entropy, np.maximum(total - entropy, 0.0))


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
    return Said(center, total, aleatoric, epistemic, more)


def _ours(log_probs: Floats, known: Floats, thorough: bool) -> Said:
    """The networks' average with a background of every label. Its point is the element of the set in which the
    background is labelled as they would."""
    probs = powered(log_probs)
    return _credal(constructions.with_background(probs, known, "average"), thorough, probs.mean(1))


def _average_of_ours(log_probs: Floats, known: Floats) -> Said:
    """All members of ours, a network and a label of the background each, averaged: what a set adds, this lacks."""
    probs, share = powered(log_probs), known[..., None, None]
    classes = probs.shape[-1]
    members = share * probs[:, :, None] + (1 - share) * np.eye(classes)
    return _averaged(baselines.from_draws(members.reshape(len(probs), -1, classes)))
