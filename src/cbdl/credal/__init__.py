"""Sets of distributions: the mathematics of finitely generated credal sets. Knows no network."""

from cbdl.credal import across, capacity
from cbdl.credal.base import CredalSet, Region, Uncertainty
from cbdl.credal.categorical import CategoricalCredalSet
from cbdl.credal.entropy import reference_entropy
from cbdl.credal.euclidean import DiagonalNormalCredalSet
from cbdl.credal.line import MixtureCredalSet, NormalCredalSet

__all__ = [
    "CategoricalCredalSet",
    "CredalSet",
    "DiagonalNormalCredalSet",
    "MixtureCredalSet",
    "NormalCredalSet",
    "Region",
    "Uncertainty",
    "across",
    "capacity",
    "reference_entropy",
]
