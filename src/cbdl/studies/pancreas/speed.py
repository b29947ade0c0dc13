"""Seconds of one decision for 50 episodes in lock-step."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from cbdl.studies.pancreas.controllers import Predictive
from cbdl.studies.pancreas.forecasts import HISTORY, Forecaster
from cbdl.studies.pancreas.members import LINE_UPS, LineUp, Trained
from cbdl.studies.pancreas.runs import Results

EPISODES = 50
ROUNDS = 3
"""The fastest of so many is told: the machine has other work."""


@dataclass(frozen=True)
class Speed:
    """By line-up: seconds of a decision, and of the training of one patient's networks, mean over patients."""

    decision: dict[str, float]
    training: dict[str, float]


def measured_speed(results: Results) -> Speed:
    """With the networks of the first patient in all lanes."""
    decision = {
        own.name: decision_seconds(own, Trained.from_arrays(results.trained[own.trained_as][0]))
        for own in LINE_UPS
    }
    training = {
        name: float(np.mean([one["seconds"] for one in trained])) for name, trained in results.trained.items()
    }
    return Speed(decision, training)


def decision_seconds(line_up: LineUp, trained: Trained) -> float:
    """The fastest decision for 50 lanes, each with these networks."""
    z = np.full((1, EPISODES), trained.halfwidths[0])
    forecaster = Forecaster(
        trained.networks, "CBDL", z, kept=trained.kept[None], courses=line_up.courses, block=line_up.block
    )
    controller = Predictive(forecaster, 3.0)
    readings = np.linspace(90.0, 250.0, EPISODES)
    for _ in range(HISTORY - 1):
        controller.dose(readings)
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        controller.dose(readings)
        times.append(time.perf_counter() - begin)
    return min(times)
