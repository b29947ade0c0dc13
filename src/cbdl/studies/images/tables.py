"""Means over seeds of what was measured, asked for by source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbdl.studies.images.runs import Result
from cbdl.studies.images.sources import SEVERITIES, Source

LEVELS: dict[str, tuple[int, ...]] = {"low": (1,), "medium": (2, 3), "high": (4, 5)}
"""The paper's groups of severities."""


@dataclass(frozen=True)
class Table:
    """All results; every question is answered by the mean over seeds."""

    results: tuple[Result, ...]

    @property
    def sources(self) -> list[Source]:
        """In the order in which they were run."""
        return list({own.source.name: own.source for own in self.results}.values())

    def of(self, source: Source) -> list[Result]:
        """One result per seed."""
        return [own for own in self.results if own.source.name == source.name]

    def lines(self, source: Source) -> list[str]:
        """The lines that were measured, in the order of the tables."""
        return list(self.of(source)[0].numbers["scores"])

    def foreign(self, source: Source) -> list[str]:
        """The foreign sets that its lines were asked about."""
        return self.of(source)[0].foreign

    def mean(self, source: Source, get: Callable[[dict[str, Any]], float]) -> float:
        """The mean over seeds of a number."""
        return float(np.mean([get(own.numbers) for own in self.of(source)]))

    def deviation(self, source: Source, foreign: str, line: str, measure: str) -> float | None:
        """The standard deviation over seeds of an AUROC; None for one seed, or where there is none."""
        own = [result.numbers["auroc"][foreign].get(line, {}).get(measure) for result in self.of(source)]
        values = [given["value"] for given in own if given is not None]
        return float(np.std(values, ddof=1)) if len(values) > 1 else None

    def auroc(self, source: Source, foreign: str, line: str, measure: str = "epistemic") -> float | None:
        """AUROC of foreign rows by a measure; None where the line was not measured or does not have it."""
        if measure not in self.of(source)[0].numbers["auroc"][foreign].get(line, {}):
            return None
        return self.mean(source, lambda n: n["auroc"][foreign][line][measure]["value"])

    def level(self, source: Source, noise: str, line: str, what: str, severities: Sequence[int]) -> float:
        """The mean over severities of a number of corrupted rows."""
        return self.mean(
            source,
            lambda n: float(np.mean([n["corrupted"][noise][str(s)][line][what] for s in severities])),
        )

    def over_noises(
        self, source: Source, line: str, what: str, severities: Sequence[int] = SEVERITIES
    ) -> float:
        """The same over all noises."""
        return float(
            np.mean([self.level(source, noise, line, what, severities) for noise in source.corruptions])
        )

    def means(self, source: Source, rows: str, line: str, measure: str) -> float:
        """The mean uncertainty of clean or foreign rows."""
        return self.mean(source, lambda n: n["means"][rows][line][measure])
