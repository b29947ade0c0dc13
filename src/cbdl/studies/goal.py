"""Goals and claims: what a study is held to, each with the value that the run reached; computed, never typed in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cbdl.studies.part import Part, cell

WORDS = {True: "yes", False: "no", None: "-"}


@dataclass(frozen=True)
class Goal:
    """`value` is None where the run has nothing to tell it from; it is then neither reached nor missed.

    >>> Goal("coverage", 0.94, 0.985, 0.95).reached, Goal("seconds", None, 40, 52.0, " s").asked
    (True, 'at most 40 s')
    """

    what: str
    low: float | None
    high: float | None
    value: float | None
    unit: str = ""
    strict: bool = False
    """Whether a value at the bound itself is too little."""

    @property
    def reached(self) -> bool | None:
        if self.value is None:
            return None
        if self.strict and self.value in (self.low, self.high):
            return False
        return (self.low is None or self.value >= self.low) and (self.high is None or self.value <= self.high)

    @property
    def asked(self) -> str:
        """The bound in words."""
        if self.low is not None and self.high is not None:
            return f"{self.low:g} to {self.high:g}{self.unit}"
        at_least, at_most = ("above", "below") if self.strict else ("at least", "at most")
        if self.high is None:
            return f"{at_least} {self.low:g}{self.unit}"
        return f"{at_most} {self.high:.4g}{self.unit}"


def of_goals(goals: Sequence[Goal], text: str, name: str = "goals", title: str = "Goals") -> Part:
    """Every goal with the value that was reached, as a part of the study."""
    reached = [goal.reached for goal in goals]
    return Part(
        name=name,
        title=title,
        text=text,
        header=("what", "asked", "value", "reached"),
        rows=tuple((g.what, g.asked, cell(g.value, 3), WORDS[g.reached]) for g in goals),
        lessons=(
            f"{reached.count(True)} reached, {reached.count(False)} missed, {reached.count(None)} not measured.",
        ),
        numbers={g.what: {"asked": g.asked, "value": _finite(g.value), "reached": g.reached} for g in goals},
    )


def _finite(value: float | None) -> float | None:
    """JSON knows no infinity."""
    return value if value is None or math.isfinite(value) else None
