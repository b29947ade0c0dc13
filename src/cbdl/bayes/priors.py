"""Priors on the parameters of a network: Step 1 of Algorithm 1. Public as `cbdl.priors`.

A prior is independent over coordinates. `scale` is the standard deviation wherever there is one (Normal,
Laplace, StudentT, ScaleMixture's components): never a variance, never a rate. Cauchy and the horseshoes have
none; their docstrings say what `scale` is. With `fan_in=True` the scale of a weight is divided by the square
root of its fan-in.

A prior can differ by part of the network: a mapping of patterns to priors, the first pattern that matches
wins: `{"*.bias": Normal(0, 10), "head.*": Laplace(0, 1), "*": Normal(0, 1)}`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import torch
from torch import Tensor

from ._densities import (
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
    mixture_log_density,
    normal_log_density,
    regularised_horseshoe_log_density,
    student_log_density,
)
from ._random import generator
from .flat import Entry, matches, shorten

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


Parameters: TypeAlias = dict[str, Tensor]
"""The parameters of a family for each coordinate of one entry: float64 tensors (size,)."""


@dataclass(frozen=True)
class Family:
    """A family of densities on the line, elementwise: functions of (theta or generator, *parameters)."""

    name: str
    parameters: tuple[str, ...]
    log_density: Callable[..., Tensor]
    draw: Callable[..., Tensor]
    """(generator, *parameters) -> one draw of theta for each coordinate."""
    kl: Callable[..., Tensor] | None = None
    """KL(Normal(mu, sigma) || this) from (mu, sigma, *parameters); None: no closed form."""


NORMAL = Family("normal", ("loc", "scale"), normal_log_density, draw_normal, kl_to_normal)
LAPLACE = Family("laplace", ("loc", "scale"), laplace_log_density, draw_laplace, kl_to_laplace)
STUDENT = Family("student", ("loc", "scale", "df"), student_log_density, draw_student)
MIXTURE = Family("mixture", ("loc", "scale", "other", "weight"), mixture_log_density, draw_mixture)
HORSESHOE = Family("horseshoe", ("loc", "scale"), horseshoe_log_density, draw_horseshoe)
REGULARISED = Family(
    "regularised-horseshoe",
    ("loc", "scale", "slab"),
    regularised_horseshoe_log_density,
    draw_regularised_horseshoe,
)


def _positive(owner: object, **values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{type(owner).__name__}: {name} is {value:g}; it must be positive and finite")


def _finite(owner: object, **values: float) -> None:
    for name, value in values.items():
        if not math.isfinite(value):
            raise ValueError(f"{type(owner).__name__}: {name} is {value:g}; give a finite number")


class Prior:
    """What all priors share: their family, and its parameters for one entry of a layout."""

    @property
    def family(self) -> Family:
        raise NotImplementedError

    def parameters(self, entry: Entry) -> Parameters:
        """The family's parameters for the coordinates of `entry`, in the order of `family.parameters`."""
        raise NotImplementedError

    def _full(self, entry: Entry, fan_in: bool, scales: tuple[str, ...], **values: float) -> Parameters:
        by = 1 / math.sqrt(entry.fan_in) if fan_in else 1.0
        return {
            name: torch.full((entry.size,), value * (by if name in scales else 1.0), dtype=torch.float64)
            for name, value in values.items()
        }


class _LocationScale(Prior):
    """What families with a centre and one scale share."""

    loc: float
    scale: float
    fan_in: bool

    def __post_init__(self) -> None:
        _finite(self, loc=self.loc)
        _positive(self, scale=self.scale)

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
        _finite(self, loc=self.loc)
        _positive(self, scale=self.scale)
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
        _finite(self, loc=self.loc)
        _positive(self, scale=self.scale, other=self.other)
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
        _finite(self, loc=self.loc)
        _positive(self, scale=self.scale, slab=self.slab)

    def parameters(self, entry: Entry) -> Parameters:
        return self._full(
            entry, self.fan_in, ("scale", "slab"), loc=self.loc, scale=self.scale, slab=self.slab
        )


@dataclass(frozen=True)
class Centred(Prior):
    """`prior` moved to a centre that was drawn from it: coordinate i is centred at theta_i ~ prior, from
    `seed`.

    >>> [Centred(Normal(0.0, 1.0), seed) for seed in (0, 1)][1]                    # two networks to lean to
    Centred(prior=Normal(loc=0.0, scale=1.0, fan_in=False), seed=1)
    """

    prior: Prior
    seed: int = 0

    @property
    def family(self) -> Family:
        return self.prior.family

    def parameters(self, entry: Entry) -> Parameters:
        own = self.prior.parameters(entry)
        source = generator("cpu", self.seed, "centre", entry.name)
        return {**own, "loc": self.family.draw(source, *own.values())}


@dataclass(frozen=True)
class Pretrained(Prior):
    """Normal around pretrained parameters: loc = w, scale = ``max(delta |w|, floor)``, coordinate by coordinate
    (MOPED).

    - `state`: a `state_dict`: the parameters by name
    - `delta`: the scale of a weight, as a share of it
    - `floor`: the least scale

    >>> from torch import nn
    >>> {"head.*": Normal(0.0, 1.0), "*": Pretrained(nn.Linear(3, 2).state_dict(), delta=0.2)}["*"]
    Pretrained(delta=0.2, floor=0.001)
    """

    state: Mapping[str, Tensor] = field(repr=False)
    delta: float = 0.1
    floor: float = 1e-3
    family: ClassVar[Family] = NORMAL

    def __post_init__(self) -> None:
        _positive(self, delta=self.delta, floor=self.floor)

    def parameters(self, entry: Entry) -> Parameters:
        if entry.name not in self.state:
            raise ValueError(
                f"pretrained: the state dict has no {entry.name!r}; it has {shorten(self.state)}. "
                "Give the other "
                "parameters a prior of their own by a mapping of patterns"
            )
        loc = self.state[entry.name].detach().to("cpu", torch.float64)
        if tuple(loc.shape) != entry.shape:
            raise ValueError(
                f"pretrained: {entry.name!r} has shape {tuple(loc.shape)}, the network's is {entry.shape}"
            )
        loc = loc.reshape(-1).clone()
        if not torch.isfinite(loc).all():
            raise ValueError(f"pretrained: {entry.name!r} holds values that are not finite")
        return {"loc": loc, "scale": (self.delta * loc.abs()).clamp_min(self.floor)}


@dataclass(frozen=True)
class Coordinates(Prior):
    """A Normal of its own for every coordinate: `loc` and `scale` hold a tensor for each parameter's name.

    What a posterior becomes when it is the prior of the next data (`CBDL.update`).
    """

    loc: Mapping[str, Tensor] = field(repr=False)
    scale: Mapping[str, Tensor] = field(repr=False)
    family: ClassVar[Family] = NORMAL

    def parameters(self, entry: Entry) -> Parameters:
        values = {}
        for part, tensors in (("loc", self.loc), ("scale", self.scale)):
            if entry.name not in tensors or tensors[entry.name].numel() != entry.size:
                raise ValueError(
                    f"Coordinates: {part} has no tensor of shape {entry.shape} for {entry.name!r}"
                )
            values[part] = tensors[entry.name].detach().to("cpu", torch.float64).reshape(-1).clone()
        return values


PriorLike: TypeAlias = Prior | Mapping[str, Prior]


def prior_for(prior: PriorLike, name: str) -> Prior:
    """The prior of the parameter `name`: itself, or that of the first pattern that matches."""
    if isinstance(prior, Prior):
        return prior
    if not isinstance(prior, Mapping):
        raise ValueError(f"priors: {prior!r} is neither a prior nor a mapping of patterns to priors")
    for pattern, chosen in prior.items():
        if matches(name, pattern):
            if not isinstance(chosen, Prior):
                raise ValueError(f"priors: {pattern!r} is mapped to {chosen!r}, which is not a prior")
            return chosen
    raise ValueError(
        f"priors: no pattern matches the parameter {name!r} (patterns: {shorten(prior)}); add '*' "
        "for all others"
    )


def grid(
    loc: Sequence[float] = (-1.0, 0.0, 1.0),
    scale: Sequence[float] = (math.sqrt(3), math.sqrt(7)),
    **options: bool,
) -> list[Normal]:
    """Normal priors for all pairs: negative, no and positive bias, thin and fat tails (Section 3.1).

    The paper's example has variances 3 and 7; `scale` is a standard deviation, so the defaults are their
    roots.

    - `loc`: the centres
    - `options`: further settings of every `Normal`, such as fan_in=True

    >>> [(p.loc, p.scale) for p in grid(loc=[-1, 0], scale=[1, 3])]
    [(-1, 1), (-1, 3), (0, 1), (0, 3)]
    """
    return [Normal(a, b, **options) for a in loc for b in scale]


def seeded(prior: PriorLike, n: int, *, seed: int = 0) -> list[PriorLike]:
    """n priors of one family that differ by their seed, as in the paper's experiments (Section 4).

    What is drawn: for prior i = 0, ..., n - 1 a vector theta_i of P independent draws, one per coordinate, from
    `prior` itself (its location, scale and fan-in option; stream (seed + i, parameter name)). Prior i is
    `prior` with its location replaced by theta_i; scale and shape stay as given. So prior i is centred at one
    network that `prior` would have drawn. Nothing else is random.

    - `n`: how many priors
    - `seed`: of the first of them

    >>> seeded(Normal(0.0, 1.0), 2)[1]
    Centred(prior=Normal(loc=0.0, scale=1.0, fan_in=False), seed=1)
    """
    if n < 1:
        raise ValueError(f"seeded: n is {n}; ask for at least one prior")
    if isinstance(prior, Prior):
        return [Centred(prior, seed + i) for i in range(n)]
    return [{pattern: Centred(p, seed + i) for pattern, p in prior.items()} for i in range(n)]


def pretrained(state: Mapping[str, Tensor], *, delta: float = 0.1, floor: float = 1e-3) -> Pretrained:
    """Empirical Bayes from a pretrained `state_dict` (MOPED): ``Normal(w, max(delta |w|, floor))`` for every
    weight w.

    - `state`: the parameters by name
    - `delta`: the scale of a weight, as a share of it
    - `floor`: the least scale

    >>> from torch import nn
    >>> pretrained(nn.Linear(3, 2).state_dict())
    Pretrained(delta=0.1, floor=0.001)
    """
    return Pretrained(state, delta, floor)
