"""Means and spreads over seeds of what the runs measured, and comparisons at equal width."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbdl.studies.racing.measures import PLAIN, Curve, at_width
from cbdl.studies.racing.runs import Result


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over seeds; one seed has no deviation."""

    mean: float
    deviation: float | None

    def __format__(self, digits: str) -> str:
        mean = format(self.mean, digits)
        return mean if self.deviation is None else f"{mean} ({format(self.deviation, digits)})"


def spread(values: Sequence[float | None]) -> Spread | None:
    """Of the values that are known; None if there are none."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    deviation = float(np.std(known, ddof=1)) if len(known) > 1 else None
    return Spread(float(np.mean(known)), deviation)


class Table:
    """All results, asked for by split, kind of test windows and line-up."""

    def __init__(self, results: Sequence[Result]) -> None:
        self.results = tuple(results)

    @property
    def splits(self) -> list[str]:
        """In the order in which they were run."""
        return list(dict.fromkeys(own.case.split for own in self.results))

    def tests(self, split: str) -> list[str]:
        """Kinds of test windows."""
        own = [name for result in self.results if result.case.split == split for name in result.tests]
        return list(dict.fromkeys(own))

    def line_ups(self, split: str) -> list[str]:
        """Names of the line-ups."""
        return list(dict.fromkeys(own.line_up for own in self.results if own.case.split == split))

    def of(self, split: str, test: str, line_up: str) -> list[Result]:
        """One result per seed."""
        return [
            own
            for own in self.results
            if own.case.split == split and test in own.tests and own.line_up == line_up
        ]

    def score(self, split: str, test: str, line_up: str, name: str, density: str = PLAIN) -> Spread | None:
        """A score of the forecasts; None where they have no such densities."""
        own = [result.tests[test]["scores"].get(density) for result in self.of(split, test, line_up)]
        return spread([None if scores is None else scores[name] for scores in own])

    def region(
        self, split: str, test: str, line_up: str, region: str, level: float, name: str
    ) -> Spread | None:
        """Coverage, width or area of a region."""
        return spread(self.regions(split, test, line_up, region, level, name))

    def regions(
        self, split: str, test: str, line_up: str, region: str, level: float, name: str
    ) -> list[float]:
        """The same, one per seed; empty where there is no such region."""
        own = [result.tests[test]["regions"].get(region) for result in self.of(split, test, line_up)]
        return [numbers[f"{level:g}"][name] for numbers in own if numbers is not None]

    def shape(self, split: str, test: str, line_up: str, method: str, name: str) -> Spread | None:
        """Coverage or area of a region of the kernel; None where none was measured."""
        own = [result.tests[test].get("shapes") for result in self.of(split, test, line_up)]
        return spread([None if numbers is None else numbers[method][name] for numbers in own])

    def curves(self, split: str, test: str, line_up: str, region: str) -> list[Curve]:
        """Coverage against width, one curve per seed; empty where there is none."""
        own = [result.tests[test]["curves"].get(region) for result in self.of(split, test, line_up)]
        return [curve for curve in own if curve is not None]

    def at_widths(
        self, split: str, test: str, line_up: str, region: str, widths: Sequence[float]
    ) -> list[tuple[float, float]]:
        """One-step and multi-step coverage of a region that is scaled to these widths, one per seed."""
        curves = self.curves(split, test, line_up, region)
        return [at_width(own, width) for own, width in zip(curves, widths, strict=True)]
