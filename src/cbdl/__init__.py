"""Credal Bayesian Deep Learning: networks that know what they do not know.

Every name is imported when it is first asked for: whoever asks for the version or for help does not wait for torch.
"""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from cbdl import (
        baselines,
        constructions,
        credal,
        data,
        engines,
        evaluate,
        likelihoods,
        nets,
        plots,
        priors,
    )
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
    from cbdl.estimators import CredalClassifier, CredalRegressor
    from cbdl.ground import memory
    from cbdl.model import CBDL
    from cbdl.steps import missing
    from cbdl.store import ModelError
    from cbdl.tables.frames import load

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
    "ModelError",
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
    "memory",
    "missing",
    "nets",
    "plots",
    "priors",
]

_ROOMS = {
    **{
        name: f"cbdl.{name}"
        for name in (
            "baselines",
            "constructions",
            "credal",
            "data",
            "engines",
            "evaluate",
            "likelihoods",
            "nets",
            "plots",
            "priors",
        )
    },
    "memory": "cbdl.ground.memory",
    "missing": "cbdl.steps.missing",
}
_HOMES = {
    "cbdl.bayes.methods": (
        "HMC",
        "MCLMC",
        "SGHMC",
        "Dropout",
        "Ensemble",
        "Laplace",
        "LastLayer",
        "LowRank",
        "MeanField",
    ),
    "cbdl.bayes.methods.divergences": ("ChiSquared", "Renyi"),
    "cbdl.credal": (
        "CategoricalCredalSet",
        "DiagonalNormalCredalSet",
        "IntervalCredalSet",
        "MixtureCredalSet",
        "NormalCredalSet",
    ),
    "cbdl.estimators": ("CredalClassifier", "CredalRegressor"),
    "cbdl.model": ("CBDL",),
    "cbdl.store": ("ModelError",),
    "cbdl.tables.frames": ("load",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> _Any:
    if name in _ROOMS:
        return _import_module(_ROOMS[name])
    if name not in _HOME:
        raise AttributeError(f"module 'cbdl' has no attribute {name!r}")
    value = getattr(_import_module(_HOME[name]), name)
    globals()[name] = value
    return value
