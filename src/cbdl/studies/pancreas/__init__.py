"""The paper's "Artificial Pancreas Control": virtual patients, their sensor, forecasts, controllers, and the study.

From left to right: `patients`, `simulation` and `sensor` are the world, `data` and `members` what is learned of it,
`networks`, `disturbances` and `forecasts` the model M, `cost`, `evolution` and `controllers` the decisions, `episodes`
closed loops, `metrics` and `comparison` their scores, `runs` and `pages` the command.
"""

from cbdl.studies.pancreas.controllers import (
    Basal,
    BasalBolus,
    Decision,
    Moment,
    Oracle,
    Predictive,
    SensorWarning,
    highest_dose,
)
from cbdl.studies.pancreas.cost import Weights
from cbdl.studies.pancreas.data import Episodes, Windows, simulate_episodes, training_windows, windows
from cbdl.studies.pancreas.episodes import Cases, Days, run
from cbdl.studies.pancreas.forecasts import Forecaster, Triplet
from cbdl.studies.pancreas.meals import Meal, carbohydrates
from cbdl.studies.pancreas.members import Trained, train
from cbdl.studies.pancreas.metrics import GlucoseMetrics
from cbdl.studies.pancreas.networks import Networks
from cbdl.studies.pancreas.patients import Patients, patient_names, virtual_patients
from cbdl.studies.pancreas.sensor import Sensor
from cbdl.studies.pancreas.simulation import Simulation
from cbdl.studies.pancreas.study import STUDY

__all__ = [
    "STUDY",
    "Basal",
    "BasalBolus",
    "Cases",
    "Days",
    "Decision",
    "Episodes",
    "Forecaster",
    "GlucoseMetrics",
    "Meal",
    "Moment",
    "Networks",
    "Oracle",
    "Patients",
    "Predictive",
    "Sensor",
    "SensorWarning",
    "Simulation",
    "Trained",
    "Triplet",
    "Weights",
    "Windows",
    "carbohydrates",
    "highest_dose",
    "patient_names",
    "run",
    "simulate_episodes",
    "train",
    "training_windows",
    "virtual_patients",
    "windows",
]
