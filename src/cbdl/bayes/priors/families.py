"""Families of priors with a few numbers each: Normal, Laplace, StudentT, Cauchy, mixtures, horseshoes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from cbdl.bayes._densities import (
    draw_horseshoe,
    draw_laplace,
    draw_mixture,
    draw_normal,
    draw_regularised_horseshoe,
    draw_student,
    horseshoe_log_density,
    kl_to_laplace,
    kl_to_normal,
    laplace_log_density,
    laplace_slope,
    mixture_log_density,
    normal_log_density,
    normal_slope,
    regularised_horseshoe_log_density,
    student_log_density,
    student_slope,
)
from cbdl.bayes.flat import Entry

from .prior import Family, Parameters, Prior, check_finite, check_positive

NORMAL = Family("normal", ("loc", "scale"), normal_log_density, draw_normal, kl_to_normal, normal_slope)
LAPLACE = Family("laplace", ("loc", "scale"), laplace_log_density, draw_laplace, kl_to_laplace, laplace_slope)
STUDENT = Family("student", ("loc", "scale", "df"), student_log_density, draw_student, slope=student_slope)
MIXTURE = Family("mixture", ("loc", "scale", "other", "weight"), mixture_log_density, draw_mixture)
HORSESHOE = Family("horseshoe", ("loc", "scale"), horseshoe_log_density, draw_horseshoe)
REGULARISED = Family(
    "regularised-horseshoe",
    ("loc", "scale", "slab"),
    regularised_horseshoe_log_density,
    draw_regularised_horseshoe,
)


class _LocationScale(Prior):
    """What families with a centre and one scale share."""

    loc: float
    scale: float
    fan_in: bool

    def __post_init__(self) -> None:
        check_finite(self, loc=self.loc)
        check_positive(self, scale=self.scale)

    def parameters(self, entry: Entry) -> Parameters:
        return self._full(entry, self.fan_in, ("scale",), loc=self.loc, scale=self.scale)


@dataclass(frozen=True)
class Normal(_LocationScale):
    """Normal with mean `loc` and standard deviation `scale`.

    - `fan_in`: divide the scale of a weight by the root of the number of its inputs

    >>> Normal(0.0, 3.0)
    Normal(loc=0.0, scale=3.0, fan_in=False)
    """

    loc: float = 0.0
    scale: float = 1.0
    fan_in: bool = False
    family: ClassVar[Family] = NORMAL


@dataclass(frozen=True)
class Laplace(_LocationScale):
    """Laplace with mean `loc` and standard deviation `scale`: density ``exp(-|t - loc| / b) / 2b`` with
    b = scale / sqrt 2.

    - `fan_in`: divide the scale of a weight by the root of the number of its inputs

    >>> {"*.bias": Normal(0.0, 10.0), "*": Laplace(0.0, 1.0)}["*"]                # by part of the network
    Laplace(loc=0.0, scale=1.0, fan_in=False)
    """

    loc: float = 0.0
    scale: float = 1.0
    fan_in: bool = False
    family: ClassVar[Family] = LAPLACE


@dataclass(frozen=True)
class StudentT(Prior):
    """Student's t with `df` > 2 degrees of freedom, mean `loc` and standard deviation `scale`.

    torch's and scipy's own scale of this density is scale * sqrt((df - 2) / df). With df <= 2 there is no
    standard deviation: use Cauchy for tails that heavy.

    - `fan_in`: divide the scale of a weight by the root of the number of its inputs

    >>> StudentT(df=4.0, scale=2.0, fan_in=True)
    StudentT(df=4.0, loc=0.0, scale=2.0, fan_in=True)
    """

    df: float = 3.0
    loc: float = 0.0
    scale: float = 1.0
    fan_in: bool = False
    family: ClassVar[Family] = STUDENT

    def __post_init__(self) -> None:
        check_finite(self, loc=self.loc)
        check_positive(self, scale=self.scale)
        if not (math.isfinite(self.df) and self.df > 2):
            raise ValueError(
                f"StudentT: df is {self.df:g}; a standard deviation exists for df > 2 only (for "
                "heavier tails: Cauchy)"
            )

    def parameters(self, entry: Entry) -> Parameters:
        spread = self.scale * math.sqrt((self.df - 2) / self.df)
        return self._full(entry, self.fan_in, ("scale",), loc=self.loc, scale=spread, df=self.df)


@dataclass(frozen=True)
class Cauchy(_LocationScale):
    """Cauchy around `loc`. It has no standard deviation: `scale` is half the width at half the height.

    - `fan_in`: divide the scale of a weight by the root of the number of its inputs

    >>> Cauchy(scale=0.5)
    Cauchy(loc=0.0, scale=0.5, fan_in=False)
    """

    loc: float = 0.0
    scale: float = 1.0
    fan_in: bool = False
    family: ClassVar[Family] = STUDENT

    def parameters(self, entry: Entry) -> Parameters:
        return self._full(entry, self.fan_in, ("scale",), loc=self.loc, scale=self.scale, df=1.0)


@dataclass(frozen=True)
class ScaleMixture(Prior):
    """weight * Normal(loc, scale) + (1 - weight) * Normal(loc, other): a spike and a slab.

    Both are standard deviations. The log density is a logsumexp, so nothing underflows in the tails.

    - `scale`: standard deviation of the slab
    - `other`: standard deviation of the spike
    - `weight`: of the slab, between 0 and 1
    - `loc`: the centre
    - `fan_in`: divide the scale of a weight by the root of the number of its inputs

    >>> ScaleMixture(scale=1.0, other=0.01, weight=0.25)
    ScaleMixture(scale=1.0, other=0.01, weight=0.25, loc=0.0, fan_in=False)
    """

    scale: float = 1.0
    other: float = 0.01
    weight: float = 0.5
    loc: float = 0.0
    fan_in: bool = False
    family: ClassVar[Family] = MIXTURE

    def __post_init__(self) -> None:
        check_finite(self, loc=self.loc)
        check_positive(self, scale=self.scale, other=self.other)
        if not 0 < self.weight < 1:
            raise ValueError(f"ScaleMixture: weight is {self.weight:g}; it must lie between 0 and 1")

    def parameters(self, entry: Entry) -> Parameters:
        values = {"loc": self.loc, "scale": self.scale, "other": self.other, "weight": self.weight}
        return self._full(entry, self.fan_in, ("scale", "other"), **values)


@dataclass(frozen=True)
class Horseshoe(_LocationScale):
    """theta ~ Normal(loc, lambda * scale), lambda half-Cauchy(1): the local scale is integrated out exactly.

    p(t) = exp(z) E1(z) / (scale sqrt(2 pi^3)) with z = (t - loc)^2 / (2 scale^2), infinite at loc; within
    1e-9 scales of it the density is held constant. It has no standard deviation; `scale` is the global scale
    tau.

    - `loc`: the centre
    - `fan_in`: divide the scale of a weight by the root of the number of its inputs

    >>> Horseshoe(scale=0.1)
    Horseshoe(scale=0.1, loc=0.0, fan_in=False)
    """

    scale: float = 0.1
    loc: float = 0.0
    fan_in: bool = False
    family: ClassVar[Family] = HORSESHOE


@dataclass(frozen=True)
class RegularisedHorseshoe(Prior):
    """The horseshoe with a slab: theta ~ Normal(loc, s), 1/s^2 = 1/(lambda scale)^2 + 1/slab^2, lambda
    half-Cauchy(1).

    `scale` is the global scale tau; `slab` is the standard deviation of the largest coefficients. The local
    scale is integrated out by a fixed quadrature (relative error below 1e-6 of the density). At the centre the density
    is infinite; closer than 1e-9 scales it is held constant.

    - `loc`: the centre
    - `fan_in`: divide the scale of a weight by the root of the number of its inputs

    >>> RegularisedHorseshoe(scale=0.1, slab=2.0)
    RegularisedHorseshoe(scale=0.1, slab=2.0, loc=0.0, fan_in=False)
    """

    scale: float = 0.1
    slab: float = 2.0
    loc: float = 0.0
    fan_in: bool = False
    family: ClassVar[Family] = REGULARISED

    def __post_init__(self) -> None:
        check_finite(self, loc=self.loc)
        check_positive(self, scale=self.scale, slab=self.slab)

    def parameters(self, entry: Entry) -> Parameters:
        return self._full(
            entry, self.fan_in, ("scale", "slab"), loc=self.loc, scale=self.scale, slab=self.slab
        )
