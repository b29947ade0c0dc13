"""Closed loops: days of many patients with their controllers, all in lock-step.

The protocol: a day of 24 hours that begins at 6:00, with unannounced meals at 7:30, 12:30 and 18:30. Adults eat 50, 75
and 75 g of carbohydrates; adolescents and children 0.8, 1.2 and 1.2 g per kg of body weight. Initial values are spread
evenly over the training range [120, 190] mg/dL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cbdl.studies.pancreas.checks import checked, checked_count
from cbdl.studies.pancreas.controllers import Controller, Moment
from cbdl.studies.pancreas.data import INITIAL_GLUCOSE
from cbdl.studies.pancreas.forecasts import Triplet
from cbdl.studies.pancreas.history import Mask
from cbdl.studies.pancreas.patients import Array, Patients, patient_names, virtual_patients
from cbdl.studies.pancreas.sensor import SAMPLE_MINUTES, Sensor
from cbdl.studies.pancreas.simulation import LEAST_GLUCOSE, MOST_GLUCOSE, Simulation

DAY = 1440
"""Minutes of an episode."""
MEAL_MINUTES = (90, 390, 750)
"""After 6:00."""
ADULT_GRAMS = (50.0, 75.0, 75.0)
GRAMS_PER_KG = (0.8, 1.2, 1.2)
"""Of adolescents and children."""


def initial_values(count: int) -> tuple[float, ...]:
    """`count` values in the training range, at the middles of equal parts.

    >>> initial_values(2)
    (137.5, 172.5)
    """
    low, high = INITIAL_GLUCOSE
    return tuple(float(low + (high - low) * (i + 0.5) / count) for i in range(count))


def meals(patients: Patients, minutes: int = DAY) -> Array:
    """Grams that patients begin to eat in each minute: (lanes, minutes)."""
    grams = np.zeros((len(patients), minutes))
    grown = np.array([name.startswith("adult") for name in patients.names])
    for minute, whole, per_kg in zip(MEAL_MINUTES, ADULT_GRAMS, GRAMS_PER_KG, strict=True):
        if minute < minutes:
            grams[:, minute] = np.where(grown, whole, per_kg * patients.BW)
    return grams


@dataclass(frozen=True)
class Cases:
    """The episodes of a comparison: every patient, seed and initial value, in this order."""

    names: tuple[str, ...]
    seeds: tuple[int, ...]
    initial: tuple[float, ...]
    minutes: int = DAY

    def __post_init__(self) -> None:
        virtual_patients(self.names)
        if checked_count(self.minutes, "minutes", "the length of an episode") % SAMPLE_MINUTES:
            raise ValueError(f"minutes is {self.minutes}; it must be a multiple of {SAMPLE_MINUTES}")
        remedy = "initial glucose is in mg/dL"
        checked(self.initial, "initial", (len(self.initial),), LEAST_GLUCOSE, MOST_GLUCOSE, remedy)

    @property
    def each(self) -> int:
        """Episodes per patient."""
        return len(self.seeds) * len(self.initial)

    def repeated(self, times: int) -> Lanes:
        """Every patient's episodes `times` times, one after the other, for as many controllers."""
        one = [(seed, value) for seed in self.seeds for value in self.initial] * times
        names = tuple(name for name in self.names for _ in one)
        seeds, initial = (tuple(own) * len(self.names) for own in zip(*one, strict=True))
        return Lanes(names, seeds, initial, self.minutes)


@dataclass(frozen=True)
class Lanes:
    """One episode per lane. The noise of its sensor depends on its patient, seed and initial value alone."""

    names: tuple[str, ...]
    seeds: tuple[int, ...]
    initial: tuple[float, ...]
    minutes: int

    @cached_property
    def patients(self) -> Patients:
        return virtual_patients(self.names)

    def sensor(self) -> Sensor:
        number = patient_names().index
        keys = zip(self.seeds, map(number, self.names), self.initial, strict=True)
        return Sensor(
            [np.random.default_rng((seed, 1 + patient, round(100 * value))) for seed, patient, value in keys]
        )


@dataclass(frozen=True, eq=False)
class Days:
    """What came of it, one lane each, at steps t = 0, ..., T - 1 of five minutes."""

    glucose: Array
    """True glucose at the end of every step, mg/dL: (lanes, T)."""
    readings: Array
    """What the controller saw at its beginning: (lanes, T)."""
    doses: Array
    """In multiples of basal: (lanes, T)."""
    held: Mask
    """Where basal was given for want of readings: (lanes, T)."""
    forecast: Triplet
    """For five steps later, each (lanes, T); nan where there was none."""


def run(controller: Controller, lanes: Lanes, dropouts: Mask | None = None) -> Days:
    """The whole episodes of all lanes; `dropouts` (lanes, T): where a sensor says nothing."""
    simulation, sensor = Simulation(lanes.patients, lanes.initial), lanes.sensor()
    food, basal = meals(lanes.patients, lanes.minutes), lanes.patients.basal
    steps = lanes.minutes // SAMPLE_MINUTES
    readings, glucose, decisions = [], [], []
    for t in range(steps):
        now = food[:, t * SAMPLE_MINUTES : (t + 1) * SAMPLE_MINUTES]
        seen = sensor.read(simulation.glucose)
        if dropouts is not None:
            seen = np.where(dropouts[:, t], np.nan, seen)
        decision = controller.decide(Moment(seen, now.sum(1), simulation))
        simulation.run((decision.doses * basal)[:, None], now, minutes=SAMPLE_MINUTES)
        readings.append(seen)
        glucose.append(simulation.glucose)
        decisions.append(decision)
    return Days(
        glucose=_over_time(glucose),
        readings=_over_time(readings),
        doses=_over_time([d.doses for d in decisions]),
        held=np.stack([d.held for d in decisions], axis=1),
        forecast=Triplet(*(_over_time([d.forecast[i] for d in decisions]) for i in range(3))),
    )


def _over_time(values: Sequence[npt.NDArray[np.float64]]) -> Array:
    return np.stack(values, axis=1)
