"""Seconds of processor time: of the simulation, and of 1,000 predictions with regions, areas included."""

import time
from dataclasses import dataclass
from typing import Any

from cbdl.studies.racing.folds import track_folds
from cbdl.studies.racing.members import DRAWS, OURS, PAPER, LineUp, train
from cbdl.studies.racing.regions import union
from cbdl.studies.racing.runs import few
from cbdl.studies.racing.traces import simulate
from cbdl.studies.racing.windows import Windows
from cbdl.studies.racing.worlds import World

PREDICTIONS = 1000
ROUNDS = 5
"""The fastest of so many is told."""
ALPHA = 0.1


@dataclass(frozen=True)
class Speed:
    """Seconds, and how much was done in them."""

    simulation: float
    traces: int
    prediction: dict[str, float]
    """By line-up: the prediction of `predictions` windows, with regions and their areas."""
    predictions: int

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def measured_speed(world: World) -> Speed:
    """Of this machine as it is; the members are hardly trained, which takes predictions no less time."""
    some = few(world.windows, PREDICTIONS)
    seconds = {line_up.name: _seconds(line_up, some) for line_up in (PAPER, OURS)}
    begin = time.process_time()
    simulate(world.track, gains=world.length.gains, duration=world.duration)
    return Speed(time.process_time() - begin, world.cars, seconds, len(some))


def _seconds(line_up: LineUp, windows: Windows) -> float:
    trained = train(line_up, windows, track_folds(windows), seed=0, epochs=1)
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        tube = union(trained.forecast(windows, DRAWS), ALPHA)
        tube.areas.mean()
        times.append(time.process_time() - begin)
    return min(times)
