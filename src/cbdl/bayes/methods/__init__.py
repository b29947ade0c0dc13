"""Inference methods, one a file: settings as a frozen dataclass, `fit(cohort, data, run)`, the posterior, its
state.
"""

from cbdl.bayes.methods.ensemble import Ensemble
from cbdl.bayes.methods.laplace import Laplace
from cbdl.bayes.methods.last_layer import LastLayer
from cbdl.bayes.methods.mean_field import MeanField

METHODS: tuple[type, ...] = (MeanField, Ensemble, Laplace, LastLayer)
"""All methods: what a saved model may name."""

__all__ = ["METHODS", "Ensemble", "Laplace", "LastLayer", "MeanField"]
