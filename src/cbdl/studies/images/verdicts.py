"""Verdicts: the paper's claims, and what this study is held to, each with the value that this run reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from cbdl.studies.goal import Goal
from cbdl.studies.images import published
from cbdl.studies.images.lines import BNN, CBDL, EBNN, EBNN_LABEL, ENSEMBLE, OURS
from cbdl.studies.images.members import LINE_UPS
from cbdl.studies.images.sources import CLEAN, SOURCES, Source
from cbdl.studies.images.tables import LEVELS, Table

POINT = 0.01
PAIRS = 12
SINGLE = {
    ("mnist", "fashion"): 0.985,
    ("fashion", "mnist"): 0.96,
    ("mnist", "svhn"): 0.985,
    ("mnist", "cifar"): 0.985,
}
"""The AUROC that is asked of single pairs."""


# --- the paper --------------------------------------------------------------------------------------------


def claims(table: Table) -> Iterator[Goal]:
    """(1) to (4) of the summary, of the paper's line, source by source; none where its members were not trained."""
    sources = [source for source in table.sources if CBDL in table.lines(source)]
    for source in sources:
        yield from _growing(table, source)
    for source in sources:
        if source.grey:
            for other in (EBNN, BNN):
                gain = table.over_noises(source, CBDL, "area") - table.over_noises(source, other, "area")
                yield Goal(f"(2) {source.title}: area, CBDL - {other}", 0.0, None, gain, strict=True)
    for source in sources:
        ratios = [
            _ratio(table, source, name, "aleatoric") - _ratio(table, source, name, "epistemic")
            for name in table.foreign(source)
        ]
        yield Goal(f"(3) {source.title}: increase of AU - of EU, least", 0.0, None, min(ratios), strict=True)
    for source in sources:
        yield from _detecting(table, source)


def _growing(table: Table, source: Source) -> Iterator[Goal]:
    """High minus low severity, mean over noises."""
    for line, measure, words in (
        (CBDL, "epistemic", "EU"),
        (CBDL, "aleatoric", "AU"),
        (EBNN, "aleatoric", "AU"),
        (EBNN_LABEL, "aleatoric", "AU"),
    ):
        low, high = (table.over_noises(source, line, measure, LEVELS[level]) for level in ("low", "high"))
        yield Goal(f"(1) {source.title}: {words} of {line}, high - low", 0.0, None, high - low, strict=True)


def _ratio(table: Table, source: Source, foreign: str, measure: str) -> float:
    own, clean = (table.means(source, rows, CBDL, measure) for rows in (foreign, CLEAN))
    return own / max(clean, 1e-12)


def _detecting(table: Table, source: Source) -> Iterator[Goal]:
    own = [table.auroc(source, name, CBDL) for name in table.foreign(source)]
    for words, line, measure in (
        ("its AU", CBDL, "aleatoric"),
        ("EU of EBNN", EBNN, "epistemic"),
        ("EU of BNN", BNN, "epistemic"),
    ):
        others = [table.auroc(source, name, line, measure) for name in table.foreign(source)]
        gains = [a - b for a, b in zip(own, others, strict=True) if a is not None and b is not None]
        what = f"(4) {source.title}: AUROC by EU - by {words}, mean"
        yield Goal(what, 0.0, None, float(np.mean(gains)), strict=True)


# --- the goals --------------------------------------------------------------------------------------------


def goals(table: Table) -> Iterator[Goal]:
    """What is asked of our line on the four data sets."""
    real = [source for source in table.sources if source.name in SOURCES and OURS in table.lines(source)]
    yield from _members(table)
    yield from _pairs(table, [(source, name) for source in real for name in table.foreign(source)])
    areas = [table.over_noises(s, OURS, "area") - _area_of_the_ensemble(table, s) for s in real]
    equal = _count(areas, lambda gain: gain >= 0) if len(real) == len(SOURCES) else None
    yield Goal("data sets with an area of at least the deep ensemble's", 3, None, equal)
    for name, source in SOURCES.items():
        if source.grey:
            own = [table.mean(s, lambda n: n["scores"][OURS]["ece"]) for s in real if s.name == name]
            yield Goal(f"ECE, {source.title}", None, 0.01, own[0] if own else None)


def _area_of_the_ensemble(table: Table, source: Source) -> float:
    """By entropy or by the probability of an error, whichever is better."""
    return max(table.over_noises(source, ENSEMBLE, what) for what in ("area", "area_error"))


def _pairs(table: Table, pairs: list[tuple[Source, str]]) -> Iterator[Goal]:
    """Detection, trained on one and asked about another."""
    whole = len(pairs) == PAIRS
    own = [_auroc(table, *pair) for pair in pairs]
    gains = [
        value - published.AUROC[s.name][name]["CBDL"][0] for value, (s, name) in zip(own, pairs, strict=True)
    ]
    ahead = [value - _auroc(table, *pair, ENSEMBLE) for value, pair in zip(own, pairs, strict=True)]
    yield Goal(
        f"pairs with AUROC above the paper's, of {PAIRS}", PAIRS, None, _count(gains) if whole else None
    )
    yield Goal("AUROC by EU, mean of the twelve pairs", 0.955, None, float(np.mean(own)) if whole else None)
    for (name, foreign), bound in SINGLE.items():
        known = [value for value, (s, f) in zip(own, pairs, strict=True) if (s.name, f) == (name, foreign)]
        what = f"AUROC by EU, {SOURCES[name].title} -> {SOURCES[foreign].title}"
        yield Goal(what, bound, None, known[0] if known else None)
    yield Goal("pairs with AUROC above the deep ensemble's", 9, None, _count(ahead) if whole else None)


def _members(table: Table) -> Iterator[Goal]:
    """How far the worst member is behind the deterministic network, the mean of the ordinary ones."""
    known = [own.numbers["members"] for own in table.results if "ordinary" in own.numbers["members"]]
    for words, line_ups in (("ours", ("ordinary",)), ("all lines", tuple(LINE_UPS))):
        behind = [
            float(np.mean(members["ordinary"])) - min(members[name])
            for members in known
            for name in line_ups
            if name in members
        ]
        what = f"worst member of {words}, behind the deterministic network"
        yield Goal(what, None, POINT, max(behind) if behind else None)


def _auroc(table: Table, source: Source, foreign: str, line: str = OURS) -> float:
    value = table.auroc(source, foreign, line)
    assert value is not None
    return value


def _count(gains: list[float], counts: Callable[[float], bool] = lambda gain: gain > 0) -> float:
    return float(sum(counts(gain) for gain in gains))
