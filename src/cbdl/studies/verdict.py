"""Verdicts: claims and goals of a study, each with the value that this run reached; computed, never typed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cbdl.studies.part import Part, cell


@dataclass(frozen=True)
class Verdict:
    """`value` is None where the run has nothing to tell it from; it then neither holds nor fails."""

    what: str
    bound: float
    value: float | None
    unit: str = ""
    kind: Literal["at least", "above", "at most"] = "at least"

    @property
    def holds(self) -> bool | None:
        if self.value is None:
            return None
        if self.kind == "at most":
            return self.value <= self.bound
        return self.value > self.bound if self.kind == "above" else self.value >= self.bound

    @property
    def asked(self) -> str:
        return f"{self.kind} {self.bound:g}{self.unit}"


def part(name: str, title: str, text: str, verdicts: Sequence[Verdict]) -> Part:
    """Each with what is asked, the value, and whether it holds."""
    words = {True: "yes", False: "no", None: "-"}
    holds = [verdict.holds for verdict in verdicts]
    return Part(
        name=name,
        title=title,
        text=text,
        header=("what", "asked", "value", "holds"),
        rows=tuple((v.what, v.asked, cell(v.value, 3), words[v.holds]) for v in verdicts),
        lessons=(
            f"{sum(h is True for h in holds)} hold, {sum(h is False for h in holds)} do not, "
            f"{sum(h is None for h in holds)} were not measured.",
        ),
        numbers={v.what: {"asked": v.asked, "value": v.value, "holds": v.holds} for v in verdicts},
    )
