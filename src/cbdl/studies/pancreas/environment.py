"""A virtual patient with a sensor and a pump as a gymnasium environment: one episode of insulin control.

Needs gymnasium (`pip install "cbdl[studies]"`); nothing else in cbdl imports this module. Importing it registers
`cbdl/Pancreas-v0` for `gymnasium.make`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cbdl.studies.pancreas.checks import checked, checked_count, checked_range
from cbdl.studies.pancreas.meals import Meal, carbohydrates
from cbdl.studies.pancreas.metrics import blood_glucose_risk
from cbdl.studies.pancreas.patients import virtual_patients
from cbdl.studies.pancreas.sensor import HIGH, LOW, SAMPLE_MINUTES, Sensor
from cbdl.studies.pancreas.simulation import LEAST_GLUCOSE, MOST_GLUCOSE, MOST_INSULIN, Simulation

try:
    import gymnasium
except ImportError as error:
    raise ImportError('the environment needs gymnasium: pip install "cbdl[studies]"') from error

Observation: TypeAlias = npt.NDArray[np.float32]


class PancreasEnv(gymnasium.Env[Observation, npt.NDArray[np.float32]]):
    """Control of one patient's insulin every 5 minutes.

    Action: insulin in multiples of the patient's basal rate, (1,) in [0, highest_dose], held until the next step.
    Observation: the sensor's reading in mg/dL, (1,) in [39, 600]. Reward: minus Kovatchev's risk of true glucose at the
    end of the step. `info`: true `glucose`, its `risk`, `insulin` in U/min, `carbohydrates` in grams of the meals that
    began during the step, and `minutes` since the start. Terminated when true glucose leaves [10, 600]; truncated
    after `minutes`.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (gymnasium's own declaration)

    def __init__(
        self,
        patient: str = "adult#001",
        *,
        meals: Sequence[Meal] = (),
        minutes: int = 1440,
        initial_glucose: tuple[float, float] = (120.0, 190.0),
        highest_dose: float = 10.0,
    ) -> None:
        """Initial glucose is uniform on `initial_glucose`; `reset(options={"glucose": g})` sets it."""
        self._patients = virtual_patients([patient])
        self._minutes = checked_count(minutes, "minutes", "the length of an episode")
        if self._minutes % SAMPLE_MINUTES:
            raise ValueError(
                f"minutes is {minutes}; it must be a multiple of {SAMPLE_MINUTES}, the control step"
            )
        self._meals = carbohydrates(meals, self._minutes)
        self._initial = checked_range(
            initial_glucose, "initial_glucose", LEAST_GLUCOSE, MOST_GLUCOSE, "mg/dL"
        )
        self._basal = float(self._patients.basal[0])
        most = MOST_INSULIN / self._basal
        checked(
            highest_dose, "highest_dose", (), 0.0, most, "it is a multiple of basal within the pump's limit"
        )
        self._highest_dose = float(highest_dose)
        self.action_space = gymnasium.spaces.Box(0.0, highest_dose, (1,), np.float32)
        self.observation_space = gymnasium.spaces.Box(LOW, HIGH, (1,), np.float32)
        self._simulation: Simulation | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; `options={"glucose": 150.0}` sets the initial glucose."""
        super().reset(seed=seed)
        glucose = self.np_random.uniform(*self._initial)
        glucose = self._option(options, glucose)
        self._simulation = Simulation(self._patients, glucose)
        self._sensor = Sensor(self.np_random.spawn(1))
        return self._observation(self._simulation), self._info(self._simulation, insulin=0.0, grams=0.0)

    def step(self, action: npt.NDArray[np.float32]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Hold the dose `action` for 5 minutes."""
        simulation = self._simulation
        if simulation is None:
            raise RuntimeError(
                "no episode is under way: call reset() first, and again after an episode has ended"
            )
        insulin = self._dose(action) * self._basal
        now = slice(simulation.minutes, simulation.minutes + SAMPLE_MINUTES)
        simulation.run(insulin, self._meals[now], minutes=SAMPLE_MINUTES)
        glucose = float(simulation.glucose[0])
        terminated = not LEAST_GLUCOSE <= glucose <= MOST_GLUCOSE
        truncated = simulation.minutes >= self._minutes
        if terminated or truncated:
            self._simulation = None
        info = self._info(simulation, insulin, float(self._meals[now].sum()))
        return self._observation(simulation), -info["risk"], terminated, truncated, info

    def _option(self, options: dict[str, Any] | None, glucose: float) -> float:
        unknown = set(options or {}) - {"glucose"}
        if unknown:
            raise ValueError(
                f"options holds {sorted(unknown)}; the only option is 'glucose', the initial value"
            )
        chosen = (options or {}).get("glucose", glucose)
        remedy = "initial glucose is in mg/dL"
        return float(checked(chosen, "options['glucose']", (), LEAST_GLUCOSE, MOST_GLUCOSE, remedy))

    def _dose(self, action: npt.NDArray[np.float32]) -> float:
        dose = np.asarray(action, dtype=np.float32)
        if not self.action_space.contains(dose):
            high = self._highest_dose
            raise ValueError(
                f"action is {np.asarray(action).tolist()}; it must be one multiple of basal, shape (1,), between 0 and "
                f"{high:g}: clip it (np.clip(action, 0, {high:g})), or make the environment with a larger highest_dose"
            )
        return float(dose[0])

    def _observation(self, simulation: Simulation) -> Observation:
        return self._sensor.read(simulation.glucose).astype(np.float32)

    @staticmethod
    def _info(simulation: Simulation, insulin: float, grams: float) -> dict[str, Any]:
        glucose = simulation.glucose
        low, high = blood_glucose_risk(glucose)
        return {
            "glucose": float(glucose[0]),
            "risk": float(low[0] + high[0]),
            "insulin": insulin,
            "carbohydrates": grams,
            "minutes": simulation.minutes,
        }


gymnasium.register("cbdl/Pancreas-v0", entry_point="cbdl.studies.pancreas.environment:PancreasEnv")
