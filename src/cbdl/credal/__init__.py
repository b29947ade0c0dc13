"""Sets of distributions: the mathematics of finitely generated credal sets. Knows no network."""

from cbdl.credal import across, capacity
from cbdl.credal._border import Array, ArrayLike, check_alpha
from cbdl.credal._optimum import Certified
from cbdl.credal.base import CredalSet, Decomposition, Origin, Region, Uncertainty
from cbdl.credal.classes.categorical import CategoricalCredalSet
from cbdl.credal.classes.interval import IntervalCredalSet
from cbdl.credal.content import region_level
from cbdl.credal.entropy import reference_entropy
from cbdl.credal.euclidean.events import Box, HalfSpace
from cbdl.credal.euclidean.mixture import DiagonalMixture
from cbdl.credal.euclidean.sets import DiagonalNormalCredalSet
from cbdl.credal.line.sets import MixtureCredalSet, NormalCredalSet

__all__ = [
    "Array",
    "ArrayLike",
    "Box",
    "CategoricalCredalSet",
    "Certified",
    "CredalSet",
    "Decomposition",
    "DiagonalMixture",
    "DiagonalNormalCredalSet",
    "HalfSpace",
    "IntervalCredalSet",
    "MixtureCredalSet",
    "NormalCredalSet",
    "Origin",
    "Region",
    "Uncertainty",
    "across",
    "capacity",
    "check_alpha",
    "reference_entropy",
    "region_level",
]


def __dir__() -> list[str]:
    return sorted(__all__)
