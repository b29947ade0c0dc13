"""Inference methods, one per file: settings as a frozen dataclass, `fit(cohort, data, run)`, the posterior, its state.

`protocol.py` says what a method and a posterior are; `checks.py` tells whether one keeps it.
"""

from cbdl.bayes.methods.dropout import Dropout
from cbdl.bayes.methods.ensemble import Ensemble
from cbdl.bayes.methods.hmc import HMC
from cbdl.bayes.methods.laplace import Laplace
from cbdl.bayes.methods.last_layer import LastLayer
from cbdl.bayes.methods.low_rank import LowRank
from cbdl.bayes.methods.mclmc import MCLMC
from cbdl.bayes.methods.mean_field import MeanField
from cbdl.bayes.methods.protocol import Method, Posterior, check_method_argument
from cbdl.bayes.methods.sghmc import SGHMC

METHODS: tuple[type[Method], ...] = (
    MeanField,
    MCLMC,
    LowRank,
    Laplace,
    Dropout,
    SGHMC,
    HMC,
    Ensemble,
    LastLayer,
)
"""All methods: what a saved model may name."""

__all__ = [
    "HMC",
    "MCLMC",
    "METHODS",
    "SGHMC",
    "Dropout",
    "Ensemble",
    "Laplace",
    "LastLayer",
    "LowRank",
    "MeanField",
    "Method",
    "Posterior",
    "check_method_argument",
]
