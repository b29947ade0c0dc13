"""How good the answers are: scores with bootstrap intervals, rejection, detection, calibration, conformal regions."""

from cbdl.evaluate.calibration import Reliability, brier, log_loss, reliability
from cbdl.evaluate.detection import Detection, detection
from cbdl.evaluate.estimate import Estimate, estimate
from cbdl.evaluate.predictions import Saved, load, save
from cbdl.evaluate.real import crps, interval_score
from cbdl.evaluate.rejection import Rejection, rejection
from cbdl.evaluate.scores import LabelCoverage, label_coverage, scores
from cbdl.evaluate.trend import trend
from cbdl.evaluate.uncertainties import uncertainties

__all__ = [
    "Detection",
    "Estimate",
    "LabelCoverage",
    "Rejection",
    "Reliability",
    "Saved",
    "brier",
    "crps",
    "detection",
    "estimate",
    "interval_score",
    "label_coverage",
    "load",
    "log_loss",
    "rejection",
    "reliability",
    "save",
    "scores",
    "trend",
    "uncertainties",
]


def __dir__() -> list[str]:
    return sorted(__all__)
