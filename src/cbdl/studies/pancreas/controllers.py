"""Controllers of insulin: the receding-horizon one of the paper, and what it is compared with.

A controller is asked every five minutes, for all lanes at once, and answers in multiples of basal. Paper: "Artificial
Pancreas Control" and its appendix: plans of k = 5 doses, CMA-ES with a fixed seed, the first dose is given and the rest
discarded.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from cbdl.studies.pancreas.checks import checked
from cbdl.studies.pancreas.cost import TARGET, Weights, cost
from cbdl.studies.pancreas.data import BASAL, LEAD, known_dose_range
from cbdl.studies.pancreas.evolution import Solver
from cbdl.studies.pancreas.forecasts import HORIZON, LOOKS, Forecaster, Triplet
from cbdl.studies.pancreas.history import History, Mask
from cbdl.studies.pancreas.patients import Array, Patients
from cbdl.studies.pancreas.sensor import SAMPLE_MINUTES
from cbdl.studies.pancreas.simulation import MOST_INSULIN, Simulation

GENERATIONS = 6
"""Of CMA-ES, for a decision; the plan before is where it starts."""
LOW_READING, HIGH_READING = 100.0, 180.0
"""mg/dL: below the one a plan holds no more than basal insulin, above the other no less (`guarded`)."""


class SensorWarning(UserWarning):
    """A sensor said nothing, and basal insulin was given instead of a plan."""


@dataclass(frozen=True)
class Moment:
    """What is there at a decision. A controller may look at what it is entitled to: readings, if it is a real one."""

    readings: Array
    """(lanes,) mg/dL; nan where a sensor says nothing."""
    meals: Array
    """(lanes,) grams of meals that begin before the next decision; who looks at them is told of meals."""
    simulation: Simulation
    """The patients themselves; for the oracle."""


@dataclass(frozen=True, eq=False)
class Decision:
    """Doses (lanes,) in multiples of basal; which lanes were held at basal for want of readings; and (G_l, G_m, G_u)
    five steps ahead, each (lanes,), nan where nothing was predicted."""

    doses: Array
    held: Mask
    forecast: Triplet

    @staticmethod
    def plain(doses: Array) -> Decision:
        """Without a forecast."""
        nothing = np.full(len(doses), np.nan)
        return Decision(doses, np.zeros(len(doses), dtype=bool), Triplet(nothing, nothing, nothing))


class Controller(Protocol):
    """Asked once per step, in order."""

    def decide(self, moment: Moment) -> Decision:
        """The doses of the next five minutes."""
        ...


# --- receding horizon ---------------------------------------------------------------------------------------


class Planner:
    """Plans of k doses in [0, highest] (lanes,), by CMA-ES from the last plan moved on by one step."""

    def __init__(
        self, highest: npt.ArrayLike, lanes: int, weights: Weights, seed: int, generations: int
    ) -> None:
        remedy = "the highest dose, a multiple of basal"
        self.highest = checked(highest, "highest", (lanes,), 0.1, 1000.0, remedy)
        self._solver = Solver(HORIZON, generations, seed)
        self._weights = weights
        basal = np.minimum(BASAL / self.highest, 1.0)
        self._plans = np.repeat(basal[:, None], HORIZON, axis=1)

    def solve(
        self, outlook: Predicts, least: Array | float = 0.0, most: Array | float = np.inf
    ) -> tuple[Array, Triplet]:
        """The first doses (lanes,) of plans between `least` and `most`, and what is predicted five steps ahead."""
        start = np.concatenate([self._plans[:, 1:], self._plans[:, -1:]], axis=1)
        highest = self.highest[:, None, None]

        def value(shares: Array) -> Array:
            doses = highest * shares
            return cost(outlook.triplets(doses), doses, self._weights)

        low, high = (np.minimum(end / self.highest, 1.0) for end in (least, most))
        self._plans = self._solver.solve(value, start, low, high)
        doses = highest * self._plans[:, None]
        return doses[:, 0, 0], Triplet(*(part[:, 0, 0] for part in outlook.triplets(doses)))


class Predicts(Protocol):
    """What comes of plans."""

    def triplets(self, plans: Array) -> Triplet:
        """Each (lanes, P, steps) for plans (lanes, P, k) in multiples of basal: from five steps ahead on, of the first
        k each, then of every kth."""
        ...


class Predictive:
    """The paper's controller around a model M.

    For the first 70 minutes, until its windows are full, it gives basal. So it does, with a `SensorWarning`, where a
    sensor says nothing; after a gap of at most 15 minutes it goes on with a straight line over the gap, after a longer
    one when its windows are full again.
    """

    def __init__(
        self,
        forecaster: Forecaster,
        highest: npt.ArrayLike,
        weights: Weights | None = None,
        *,
        seed: int = 0,
        generations: int = GENERATIONS,
    ) -> None:
        """`highest`: the highest dose in multiples of basal, (lanes,) or one for all."""
        self._forecaster = forecaster
        own = Weights() if weights is None else weights
        self._planner = Planner(highest, forecaster.lanes, own, seed, generations)
        self._history = History(forecaster.lanes, forecaster.doses)

    def decide(self, moment: Moment) -> Decision:
        return self.dose(moment.readings)

    def dose(self, readings: npt.ArrayLike) -> Decision:
        """The decision from the readings (lanes,) of now alone."""
        history = self._history
        missing = history.read(readings)
        if missing.any():
            lanes = ", ".join([*map(str, np.flatnonzero(missing)[:5]), *["..."] * int(missing.sum() > 5)])
            warnings.warn(
                f"{missing.sum()} of {len(missing)} sensors say nothing (lanes {lanes}): "
                "basal insulin is given there",
                SensorWarning,
                stacklevel=2,
            )
        held = ~history.complete
        decision = Decision.plain(np.full(len(held), BASAL))
        if not held.all():
            known = np.where(np.isnan(history.readings), TARGET, history.readings)
            doses, forecast = self._planner.solve(
                self._forecaster.now(known, history.doses), *guarded(known[:, -1])
            )
            decision = Decision(
                np.where(held, BASAL, doses),
                held,
                Triplet(*(np.where(held, np.nan, part) for part in forecast)),
            )
        history.give(decision.doses)
        return Decision(decision.doses, held, decision.forecast)


def guarded(readings: Array) -> tuple[Array, Array]:
    """The least and the most (lanes,) that plans may hold at these readings.

    Far from what they have learned, networks may say that insulin raises glucose; a controller that believes them gives
    none at 500 mg/dL. What everybody knows of insulin is kept to, whatever a network says.
    """
    return (
        np.where(readings > HIGH_READING, BASAL, 0.0),
        np.where(readings < LOW_READING, BASAL, np.inf),
    )


class Oracle:
    """The same plans and the same cost with the patients' own equations, state and food in place of a model.

    It sees true glucose and what has been eaten, and like the others not the meals to come.
    """

    def __init__(
        self,
        highest: npt.ArrayLike,
        lanes: int,
        weights: Weights | None = None,
        *,
        seed: int = 0,
        generations: int = GENERATIONS,
        looks: int = LOOKS,
    ) -> None:
        self._looks = looks
        self._planner = Planner(highest, lanes, Weights() if weights is None else weights, seed, generations)

    def decide(self, moment: Moment) -> Decision:
        doses, forecast = self._planner.solve(Rollouts(moment.simulation, self._looks))
        return Decision(doses, np.zeros(len(doses), dtype=bool), forecast)


class Rollouts:
    """What comes of plans, from copies of the patients."""

    def __init__(self, simulation: Simulation, looks: int = LOOKS) -> None:
        self._simulation, self._steps = simulation, HORIZON * looks

    def triplets(self, plans: Array) -> Triplet:
        lanes, count, steps = plans.shape
        copies = self._simulation.take(np.repeat(np.arange(lanes), count))
        after = LEAD - 1 + self._steps - steps
        doses = np.pad(plans.reshape(-1, steps), ((0, 0), (0, after)), constant_values=BASAL)
        rates = doses * copies.patients.basal[:, None]
        glucose = [copies.step(rate, minutes=SAMPLE_MINUTES) for rate in rates.T]
        ahead = np.stack(glucose[LEAD - 1 :], axis=-1).reshape(lanes, count, -1)
        ahead = np.concatenate([ahead[..., :HORIZON], ahead[..., 2 * HORIZON - 1 :: HORIZON]], axis=-1)
        return Triplet(ahead, ahead, ahead)


# --- without a model ----------------------------------------------------------------------------------------


class Basal:
    """Basal insulin, whatever happens."""

    def decide(self, moment: Moment) -> Decision:
        return Decision.plain(np.full(len(moment.readings), BASAL))


class BasalBolus:
    """Basal insulin, and with every meal, which it is told of, a bolus by the patient's own ratios.

    grams / CR, and (reading - 120) / CF where the reading is above 150 mg/dL, given within the five minutes. The meals
    of other controllers are unannounced.
    """

    CORRECTED_ABOVE = 150.0

    def __init__(self, patients: Patients) -> None:
        self._patients = patients

    def decide(self, moment: Moment) -> Decision:
        p, reading = self._patients, np.nan_to_num(moment.readings, nan=TARGET)
        above = np.where(reading > self.CORRECTED_ABOVE, reading - TARGET, 0.0)
        units = np.where(moment.meals > 0, moment.meals / p.CR + above / p.CF, 0.0)
        rate = np.minimum(p.basal + units / SAMPLE_MINUTES, MOST_INSULIN)
        return Decision.plain(rate / p.basal)


def highest_dose(patients: Patients, reach: float) -> Array:
    """The highest dose (lanes,) of the planning controllers, in multiples of basal: `reach` times as far from basal as
    in training (`data.dose_range`). Networks have not seen higher ones, and patients differ in what harms them."""
    high = np.array([known_dose_range(name)[1] for name in patients.names])
    return np.asarray(1.0 + reach * (high - 1.0))
