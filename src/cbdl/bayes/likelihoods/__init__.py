"""Likelihoods: a network factory and a noise model (Step 2 of Algorithm 1). Public as `cbdl.likelihoods`.

`likelihood` says what all of them keep; `classes`, `counts` and `real` hold those of each kind of outcome.
"""

from cbdl.bayes.targets import check_scale

from .classes import Bernoulli, Categorical
from .counts import Poisson
from .likelihood import FLOOR, Factory, Likelihood, Slope, agree
from .real import Laplace, Normal, Scale, StudentT

__all__ = [
    "FLOOR",
    "Bernoulli",
    "Categorical",
    "Factory",
    "Laplace",
    "Likelihood",
    "Normal",
    "Poisson",
    "Scale",
    "Slope",
    "StudentT",
    "agree",
    "check_scale",
]


def __dir__() -> list[str]:
    return sorted(__all__)
