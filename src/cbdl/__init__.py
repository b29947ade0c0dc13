"""Credal Bayesian Deep Learning: networks that know what they do not know."""

from importlib.metadata import version as _version
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from cbdl import baselines, constructions, credal, data, engines, evaluate, nets
from cbdl.bayes import likelihoods, priors
from cbdl.bayes.methods import (
    HMC,
    MCLMC,
    SGHMC,
    Dropout,
    Ensemble,
    Laplace,
    LastLayer,
    LowRank,
    MeanField,
)
from cbdl.bayes.methods.divergences import ChiSquared, Renyi
from cbdl.credal import (
    CategoricalCredalSet,
    DiagonalNormalCredalSet,
    IntervalCredalSet,
    MixtureCredalSet,
    NormalCredalSet,
)
from cbdl.model import CBDL, load

if _TYPE_CHECKING:
    from cbdl.estimators import CredalClassifier, CredalRegressor

__version__ = _version("cbdl")

__all__ = [
    "CBDL",
    "HMC",
    "MCLMC",
    "SGHMC",
    "CategoricalCredalSet",
    "ChiSquared",
    "CredalClassifier",
    "CredalRegressor",
    "DiagonalNormalCredalSet",
    "Dropout",
    "Ensemble",
    "IntervalCredalSet",
    "Laplace",
    "LastLayer",
    "LowRank",
    "MeanField",
    "MixtureCredalSet",
    "NormalCredalSet",
    "Renyi",
    "__version__",
    "baselines",
    "constructions",
    "credal",
    "data",
    "engines",
    "evaluate",
    "likelihoods",
    "load",
    "nets",
    "priors",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> _Any:
    """The estimators when they are first asked for: whoever does not use them does not wait for scikit-learn."""
    if name in ("CredalClassifier", "CredalRegressor"):
        from cbdl import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'cbdl' has no attribute {name!r}")
