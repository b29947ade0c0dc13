"""Plans: how much of the study each profile runs."""

from dataclasses import dataclass, field
from typing import Literal

from cbdl.studies.racing.members import DRAWS, LINE_UPS, OURS, PAPER, LineUp
from cbdl.studies.racing.worlds import Length
from cbdl.studies.study import Profile

SplitName = Literal["blocked", "random"]
SPLITS: tuple[SplitName, ...] = ("blocked", "random")


@dataclass(frozen=True)
class Plan:
    """A profile: how many seeds, which line-ups on which split, how long they are trained, on how many windows."""

    seeds: int
    line_ups: dict[SplitName, tuple[LineUp, ...]]
    epochs: float = 1.0
    """Times those of the line-up."""
    most: int | None = None
    """Training windows, evenly spread; None: all."""
    tests: int = 2000
    """Test windows of each kind, evenly spread, and validation windows."""
    draws: int = DRAWS
    """Of the parameters of members that have a distribution of them."""
    length: Length = field(default_factory=Length)


PLANS: dict[Profile, Plan] = {
    "smoke": Plan(
        1,
        {"blocked": LINE_UPS, "random": ()},
        epochs=0.1,
        most=400,
        tests=6,
        draws=4,
        length=Length(5.0, 5.0, (1.0,)),
    ),
    "cpu": Plan(3, {"blocked": LINE_UPS, "random": (PAPER, OURS)}),
    "paper": Plan(5, {"blocked": LINE_UPS, "random": LINE_UPS}, epochs=4.0, tests=100_000),
}
