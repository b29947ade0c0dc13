"""The paper's "Artificial Pancreas Control": virtual patients, their sensor, training data and metrics."""

from cbdl.studies.pancreas.data import Episodes, Windows, simulate_episodes, training_windows, windows
from cbdl.studies.pancreas.meals import Meal, carbohydrates
from cbdl.studies.pancreas.metrics import GlucoseMetrics
from cbdl.studies.pancreas.patients import Patients, patient_names, virtual_patients
from cbdl.studies.pancreas.sensor import Sensor
from cbdl.studies.pancreas.simulation import Simulation

__all__ = [
    "Episodes",
    "GlucoseMetrics",
    "Meal",
    "Patients",
    "Sensor",
    "Simulation",
    "Windows",
    "carbohydrates",
    "patient_names",
    "simulate_episodes",
    "training_windows",
    "virtual_patients",
    "windows",
]
