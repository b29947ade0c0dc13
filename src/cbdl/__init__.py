"""Credal Bayesian Deep Learning: networks that know what they do not know."""

from importlib.metadata import version as _version

from cbdl import credal
from cbdl.credal import CategoricalCredalSet, DiagonalNormalCredalSet, MixtureCredalSet, NormalCredalSet

__version__ = _version("cbdl")

__all__ = [
    "CategoricalCredalSet",
    "DiagonalNormalCredalSet",
    "MixtureCredalSet",
    "NormalCredalSet",
    "__version__",
    "credal",
]
