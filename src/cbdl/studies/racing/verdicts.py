"""Verdicts: what the paper claims and what this study is held to, each with the value that this run reached."""

from collections.abc import Iterator, Sequence

import numpy as np

from cbdl.studies.goal import Goal
from cbdl.studies.racing.measures import CALIBRATED, CBDL, EBNN, LEVELS
from cbdl.studies.racing.members import OURS, PAPER
from cbdl.studies.racing.runs import IN, RACE, SHIFTS
from cbdl.studies.racing.speed import Speed
from cbdl.studies.racing.tables import Table

POINTS = 0.02
"""By how much coverage at equal width is to be better."""
SIMULATION, PREDICTION = 15.0, 1.0
"""Seconds."""


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None


# --- the paper --------------------------------------------------------------------------------------------


def claims(table: Table) -> Iterator[Goal]:
    """Of the paper's line-up: CBDL covers more than EBNN everywhere; and what becomes of that at equal width."""
    for split in table.splits:
        for test in (IN, RACE):
            for kind, words in (("one", "one-step"), ("multi", "multi-step")):
                gains = [_gain(table, split, test, level, kind) for level in LEVELS]
                known = [gain for gain in gains if gain is not None]
                what = f"{split}, {test}: {words}, CBDL - EBNN"
                yield Goal(what, 0.0, None, min(known) if known else None, strict=True)
        falls = [_fall(table, split, region, level) for region in (EBNN, CBDL) for level in LEVELS]
        known = [fall for fall in falls if fall is not None]
        yield Goal(
            f"{split}: multi-step, {IN} - {RACE}",
            0.0,
            None,
            min(known) if known else None,
            strict=True,
        )
        for test in (IN, RACE):
            gains = [_gain_at_width(table, split, test, level) for level in LEVELS]
            known = [gain for gain in gains if gain is not None]
            what = f"{split}, {test}: multi-step at EBNN's width"
            yield Goal(what, 0.0, None, min(known) if known else None, strict=True)


def _gain(table: Table, split: str, test: str, level: float, kind: str) -> float | None:
    ours, theirs = (
        _mean(table.regions(split, test, PAPER.name, region, level, kind)) for region in (CBDL, EBNN)
    )
    return None if ours is None or theirs is None else ours - theirs


def _gain_at_width(table: Table, split: str, test: str, level: float) -> float | None:
    widths = table.regions(split, test, PAPER.name, EBNN, level, "width")
    held = table.regions(split, test, PAPER.name, EBNN, level, "multi")
    return _ahead(table, split, test, (PAPER.name, CBDL), widths, held)


def _fall(table: Table, split: str, region: str, level: float) -> float | None:
    near, far = (_mean(table.regions(split, test, PAPER.name, region, level, "multi")) for test in (IN, RACE))
    return None if near is None or far is None else near - far


# --- the goals --------------------------------------------------------------------------------------------


def goals(table: Table, speed: Speed | None) -> Iterator[Goal]:
    """Coverage in distribution, coverage at equal width out of distribution, and seconds."""
    for level in LEVELS:
        held = table.regions("blocked", IN, OURS.name, CALIBRATED, level, "multi")
        yield Goal(f"multi-step coverage at {level:g}, {IN}", level, None, _mean(held))
    for test in SHIFTS:
        for level in LEVELS:
            yield Goal(
                f"{test}, at EBNN's {level:g} width: ours - MF EBNN",
                POINTS,
                None,
                ahead_of_ebnn(table, test, level, PAPER.name),
            )
    for test in SHIFTS:
        yield Goal(
            f"{test}, at EBNN's 0.9 width: ours - our EBNN",
            POINTS,
            None,
            ahead_of_ebnn(table, test, 0.9, OURS.name),
        )
    simulation = None if speed is None else speed.simulation
    yield Goal("simulation of 24 traces", None, SIMULATION, simulation, " s")
    for name in (PAPER.name, OURS.name):
        seconds = None if speed is None else speed.prediction[name]
        yield Goal(f"1,000 predictions with regions, {name}", None, PREDICTION, seconds, " s")


def ahead_of_ebnn(table: Table, test: str, level: float, line_up: str) -> float | None:
    """Multi-step coverage of our calibrated tubes, scaled to the width of an EBNN's region, over that EBNN's own."""
    widths = table.regions("blocked", test, line_up, EBNN, level, "width")
    held = table.regions("blocked", test, line_up, EBNN, level, "multi")
    return _ahead(table, "blocked", test, (OURS.name, CALIBRATED), widths, held)


def _ahead(
    table: Table,
    split: str,
    test: str,
    region: tuple[str, str],
    widths: Sequence[float],
    held: Sequence[float],
) -> float | None:
    if not widths or len(table.curves(split, test, *region)) != len(widths):
        return None
    scaled = table.at_widths(split, test, *region, widths)
    return _mean([own[1] - theirs for own, theirs in zip(scaled, held, strict=True)])
