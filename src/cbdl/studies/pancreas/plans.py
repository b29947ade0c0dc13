"""How long the profiles are, and which patients they have."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cbdl.studies.pancreas.controllers import GENERATIONS
from cbdl.studies.pancreas.data import SAMPLES
from cbdl.studies.pancreas.episodes import DAY, Cases, initial_values
from cbdl.studies.study import Profile

PATIENTS = (
    *(f"adult#{i:03d}" for i in range(1, 5)),
    *(f"adolescent#{i:03d}" for i in range(1, 4)),
    *(f"child#{i:03d}" for i in range(1, 4)),
)
"""Fixed in advance. The controller's weights were chosen on others: `TUNED_ON`."""
TUNED_ON = (
    *("adult#006", "adult#008", "adult#010"),
    *("adolescent#004", "adolescent#009", "adolescent#010"),
    *("child#004", "child#007", "child#010"),
)


@dataclass(frozen=True)
class Plan:
    """Sizes of a profile."""

    patients: tuple[str, ...]
    seeds: int
    """Of sensors, and of trainings if `per_seed`."""
    initial: int
    minutes: int
    samples: int
    epochs: int
    generations: int
    resamples: int
    """Of the bootstrap."""
    workers: int
    """Processes, at most."""
    per_seed: bool = False
    """Whether networks are trained anew for every seed; otherwise once for every patient."""

    def cases(self, names: tuple[str, ...], seed: int) -> Cases:
        """The episodes of these patients."""
        seeds = tuple(seed + i for i in range(self.seeds))
        return Cases(names, seeds, initial_values(self.initial), self.minutes)


_CPU = Plan(PATIENTS, 3, 5, DAY, SAMPLES, 200, GENERATIONS, 10_000, workers=2)
PLANS: dict[Profile, Plan] = {
    "smoke": Plan(("adult#001", "child#001"), 1, 1, 110, 300, 2, 1, 200, workers=1),
    "cpu": _CPU,
    "paper": replace(_CPU, per_seed=True, workers=8),
}
