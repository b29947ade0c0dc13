"""Credal Bayesian Deep Learning: networks that know what they do not know."""

from importlib.metadata import version as _version

from cbdl import credal, engines, nets
from cbdl.bayes import likelihoods, priors
from cbdl.bayes.methods import (
    HMC,
    SGHMC,
    Dropout,
    Ensemble,
    Laplace,
    LastLayer,
    LowRank,
    MeanField,
)
from cbdl.bayes.methods.divergences import ChiSquared, Renyi
from cbdl.credal import CategoricalCredalSet, DiagonalNormalCredalSet, MixtureCredalSet, NormalCredalSet
from cbdl.model import CBDL
from cbdl.store import load

__version__ = _version("cbdl")

__all__ = [
    "CBDL",
    "HMC",
    "SGHMC",
    "CategoricalCredalSet",
    "ChiSquared",
    "DiagonalNormalCredalSet",
    "Dropout",
    "Ensemble",
    "Laplace",
    "LastLayer",
    "LowRank",
    "MeanField",
    "MixtureCredalSet",
    "NormalCredalSet",
    "Renyi",
    "__version__",
    "credal",
    "engines",
    "likelihoods",
    "load",
    "nets",
    "priors",
]
