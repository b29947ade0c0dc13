"""Priors on the parameters of a network: Step 1 of Algorithm 1. Public as `cbdl.priors`.

A prior is independent over coordinates. `scale` is the standard deviation wherever there is one (Normal,
Laplace, StudentT, ScaleMixture's components): never a variance, never a rate. Cauchy and the horseshoes have
none; their docstrings say what `scale` is. With `fan_in=True` the scale of a weight is divided by the square
root of its fan-in.

A prior can differ by part of the network: a mapping of patterns to priors, the first pattern that matches
wins: `{"*.bias": Normal(0, 10), "head.*": Laplace(0, 1), "*": Normal(0, 1)}`.
"""

from .families import Cauchy, Horseshoe, Laplace, Normal, RegularisedHorseshoe, ScaleMixture, StudentT
from .placed import Centred, Coordinates, Pretrained
from .prior import Prior, PriorLike
from .several import grid, pretrained, seeded

__all__ = [
    "Cauchy",
    "Centred",
    "Coordinates",
    "Horseshoe",
    "Laplace",
    "Normal",
    "Pretrained",
    "Prior",
    "PriorLike",
    "RegularisedHorseshoe",
    "ScaleMixture",
    "StudentT",
    "grid",
    "pretrained",
    "seeded",
]


def __dir__() -> list[str]:
    return sorted(__all__)
