"""Patients in time: one patient per lane, insulin and meals in, glucose out, minute by minute.

The simulated glucose is that under the skin, which is what a sensor sees and what the public reference implementation
reports. Insulin and eating are held for a minute; within it the body takes half-minute Runge-Kutta steps, and the gut
steps half as long.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cbdl.studies.pancreas.checks import checked, checked_count
from cbdl.studies.pancreas.dynamics import GLUCOSE, SKIN, Body, basal_state
from cbdl.studies.pancreas.gut import LIQUID, SOLID, Emptying, Gut
from cbdl.studies.pancreas.patients import PMOL_PER_UNIT, Array, Patients

EATING_RATE = 5.0
"""How fast a meal is eaten, g/min."""
MOST_INSULIN = 60.0
"""The pump's limit, U/min: 30 as basal rate and 30 as bolus, as the pumps of the reference implementation."""
MOST_CARBOHYDRATES = 1000.0
"""The largest meal, g."""
LEAST_GLUCOSE, MOST_GLUCOSE = 10.0, 600.0
"""Where the model has a meaning, mg/dL: initial values lie between, and an episode that leaves is over."""


class Simulation:
    """Patients with their state, advanced together.

    >>> from cbdl.studies.pancreas.patients import virtual_patients
    >>> simulation = Simulation(virtual_patients(["adult#001", "child#001"]), glucose=[150.0, 120.0])
    >>> simulation.step(insulin=simulation.patients.basal, carbohydrates=[60.0, 0.0], minutes=60).shape
    (2,)
    """

    def __init__(
        self, patients: Patients, glucose: npt.ArrayLike | None = None, steps_per_minute: int = 2
    ) -> None:
        """`glucose`: the initial values in mg/dL, (lanes,) or one for all; each patient's basal value if None."""
        self.patients = patients
        self.minutes = 0
        """Minutes since the start."""
        self._steps = checked_count(steps_per_minute, "steps_per_minute", "2 is accurate to 0.05 mg/dL")
        self._body, self._gut = Body(patients), Gut(patients)
        self._state = basal_state(patients)
        self._food = np.zeros((3, len(patients)))  # stomach and intestine
        lanes = (len(patients),)
        if glucose is not None:
            remedy = "initial glucose is in mg/dL (mmol/L times 18)"
            initial = checked(glucose, "glucose", lanes, LEAST_GLUCOSE, MOST_GLUCOSE, remedy)
            self._state[GLUCOSE] *= initial / self.glucose
        self._planned = np.zeros(lanes)  # announced and not yet eaten, g
        self._eating = np.zeros(lanes)  # eaten in the last minute, g
        self._meal = np.zeros(lanes)  # in the stomach when the meal began, and eaten since, mg
        self._emptying = Emptying.of(patients, self._meal)

    @property
    def glucose(self) -> Array:
        """Glucose now, mg/dL: (lanes,)."""
        glucose: Array = self._state[SKIN] / self.patients.Vg
        return glucose

    @property
    def state(self) -> Array:
        """The 13 states now, (13, lanes): `gut.STATES`, then `dynamics.STATES`."""
        return np.concatenate((self._food, self._state))

    def step(self, insulin: npt.ArrayLike, carbohydrates: npt.ArrayLike = 0.0, minutes: int = 5) -> Array:
        """Glucose (lanes,) after `minutes` with `insulin` U/min, and a meal of `carbohydrates` g that begins now."""
        lanes = (len(self.patients),)
        rate = _insulin(insulin, lanes)
        meal = _carbohydrates(carbohydrates, lanes)
        for _ in range(checked_count(minutes, "minutes", "time advances in whole minutes")):
            self._minute(rate, meal)
            meal = np.zeros(lanes)
        return self.glucose

    def run(self, insulin: npt.ArrayLike, carbohydrates: npt.ArrayLike = 0.0, *, minutes: int) -> Array:
        """Glucose at the end of each minute: (lanes, minutes).

        `insulin` (U/min) and `carbohydrates` (g, meals that begin in that minute) are (lanes, minutes), or broadcast.
        """
        minutes = checked_count(minutes, "minutes", "time advances in whole minutes")
        shape = (len(self.patients), minutes)
        rates = _insulin(insulin, shape)
        meals = _carbohydrates(carbohydrates, shape)
        trace = np.empty(shape)
        for t in range(minutes):
            self._minute(rates[:, t], meals[:, t])
            trace[:, t] = self.glucose
        return trace

    def take(self, lanes: npt.ArrayLike) -> Simulation:
        """A new simulation that goes on from `lanes` of this one: indices, repeated for several rollouts."""
        index = np.asarray(lanes, dtype=np.intp)
        copy = Simulation(self.patients.take(index), steps_per_minute=self._steps)
        copy.minutes = self.minutes
        copy._state, copy._food = self._state[:, index], self._food[:, index]
        copy._planned, copy._eating, copy._meal = (
            a[index] for a in (self._planned, self._eating, self._meal)
        )
        copy._emptying = Emptying.of(copy.patients, copy._meal)
        return copy

    def _minute(self, insulin: Array, meal: Array) -> None:
        self._eat(meal)
        self._food, appearance = self._gut.minute(
            self._food, 1000.0 * self._eating, self._emptying, self._steps
        )
        self._state = self._body.minute(self._state, insulin * PMOL_PER_UNIT / self.patients.BW, appearance)
        self.minutes += 1

    def _eat(self, meal: Array) -> None:
        """Announce `meal`, and take this minute's bite of what is planned."""
        planned = self._planned + meal
        bite = np.minimum(planned, EATING_RATE)
        if bite.any():
            begins = (bite > 0) & (self._eating == 0)
            start = np.where(begins, self._food[SOLID] + self._food[LIQUID], self._meal)
            self._meal = start + 1000.0 * bite
            self._emptying = Emptying.of(self.patients, self._meal)
        self._planned = planned - bite
        self._eating = bite


def _insulin(values: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
    remedy = "insulin is a rate in U/min (divide U/h by 60; spread a bolus over its minutes)"
    return checked(values, "insulin", shape, 0.0, MOST_INSULIN, remedy)


def _carbohydrates(values: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
    remedy = "a meal is given in grams, 0 for none"
    return checked(values, "carbohydrates", shape, 0.0, MOST_CARBOHYDRATES, remedy)
