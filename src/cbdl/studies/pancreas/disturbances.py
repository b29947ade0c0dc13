"""What nobody announced: the error of the forecast for now, and what may become of it.

Networks that have never seen a meal forecast as if there were none. The reading of now less what was forecast for it
five steps ago is the disturbance, as in offset-free model predictive control, and it is added to what is forecast from
now on. How long it goes on nobody knows: a `Course` says it, and several courses are several likelihoods, each of which
every member of a credal set is paired with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Course:
    """`start` times the disturbance until five steps from now, `keeps` times as much in every five steps after."""

    start: float
    keeps: float = 1.0

    def __post_init__(self) -> None:
        for name in ("start", "keeps"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}; it is a share, from 0 to 1")


NONE = Course(0.0)
"""The error was the sensor's noise."""
HALVES = Course(1.0, 0.5)
STAYS = Course(1.0)
"""Glucose goes on to rise, or to fall, by as much."""


def shares(courses: Sequence[Course], looks: int) -> Tensor:
    """Of the disturbance, in each five steps from now on: (courses, looks).

    >>> shares([NONE, HALVES], 3).tolist()
    [[0.0, 0.0, 0.0], [1.0, 0.5, 0.25]]
    """
    return torch.tensor([[own.start * own.keeps**look for look in range(looks)] for own in courses])
