"""Meals: when they begin and how many grams of carbohydrates they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbdl.studies.pancreas.checks import checked, checked_count
from cbdl.studies.pancreas.patients import Array
from cbdl.studies.pancreas.simulation import MOST_CARBOHYDRATES


@dataclass(frozen=True)
class Meal:
    """A meal that begins `minute` minutes after the start and holds `grams` of carbohydrates."""

    minute: int
    grams: float

    def __post_init__(self) -> None:
        checked_count(self.minute, "minute", "minutes since the start of the episode", least=0)
        checked(self.grams, "grams", (), 0.0, MOST_CARBOHYDRATES, "a meal is given in grams, 0 for none")


def carbohydrates(meals: Sequence[Meal], minutes: int) -> Array:
    """Grams of the meals that begin in each minute: (minutes,), as `Simulation.run` takes them.

    >>> carbohydrates([Meal(1, 60.0)], 3).tolist()
    [0.0, 60.0, 0.0]
    """
    grams = np.zeros(checked_count(minutes, "minutes", "the length of the episode"))
    for i, meal in enumerate(meals):
        if meal.minute >= minutes:
            raise ValueError(
                f"meals[{i}] begins at minute {meal.minute}, after the episode's {minutes} minutes: "
                "drop it or make the episode longer"
            )
        grams[meal.minute] += meal.grams
    return grams
