"""Likelihoods of real numbers: noise around a location, whose scale is given, learned, or varies with the input."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from cbdl.bayes._densities import HALF_LOG_2PI
from cbdl.bayes.targets import check_resolution, check_scale, check_size

from .likelihood import FLOOR, Factory, Likelihood, Slope, event_sum
from .rules import FIXED, LEARNED, VARYING, Rule

Scale: TypeAlias = float | Literal["learned", "heteroscedastic"]
ROUNDED = math.sqrt(12)
"""Rounding adds an error that is uniform within the resolution; this many of its standard deviations."""


class _LocationScale(Likelihood):
    """Noise around a location: targets of any event shape, coordinates independent."""

    space: ClassVar[Literal["real"]] = "real"
    scale: Scale
    resolution: float | tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_scale(self.scale)
        check_resolution(self.resolution)

    def floor(self, unit: Tensor) -> Tensor | float:
        """Scales that are learned are at least `FLOOR`, so that densities are bounded, and that of rounding."""
        if self.resolution == 0:
            return FLOOR
        own = unit.new_tensor(self.resolution)
        return FLOOR + (own.reshape(unit.shape) if own.ndim else own) / (ROUNDED * unit)

    def check(self, y: Tensor, whole: bool = True) -> None:
        if not y.is_floating_point():
            raise ValueError(f"y holds {y.dtype}; targets of a regression are real numbers")
        if isinstance(self.resolution, tuple) and len(self.resolution) != y[0].numel():
            raise ValueError(
                f"resolution has {len(self.resolution)} numbers, but y has shape {tuple(y.shape)}; give one number, "
                "or one for each coordinate of a target"
            )

    def check_outputs(self, out: tuple[int, ...], y: Tensor) -> None:
        check_size(type(self).__name__, out, y, 2 if self.scale == "heteroscedastic" else 1)

    def noise(self, unit: Tensor) -> Tensor:
        """One log scale per coordinate of the event, in standardised units; it starts at half the spread."""
        if self.scale != "learned":
            return unit.new_zeros(0)
        return unit.new_full((unit.numel(),), math.log(0.5))

    def noise_prior(self, unit: Tensor) -> tuple[Tensor, Tensor]:
        """Of a log scale: noise between a hundredth of the targets' spread and all of it is within 1.5 deviations."""
        noise = self.noise(unit)
        return torch.full_like(noise, math.log(0.1)), torch.full_like(noise, 1.5)

    def split(self, out: Tensor, noise: Tensor, event: torch.Size, unit: Tensor) -> tuple[Tensor, Tensor]:
        """Location and scale (standard deviation), standardised, each broadcastable to (members, draws,
        batch, *event).
        """
        lead = out.shape[:3]
        if self.scale == "heteroscedastic":
            loc, raw = out.chunk(2, -1) if _doubled(out, event) else out.reshape((*lead, 2, -1)).unbind(3)
            return loc.reshape(lead + event), self.floor(unit) + F.softplus(raw.reshape(lead + event))
        loc = out.reshape(lead + event)
        if self.scale == "learned":
            draws = noise.shape[1] if noise.ndim == 3 else 1
            return loc, self.floor(unit) + noise.exp().reshape((noise.shape[0], draws, 1, *event))
        return loc, self.scale / unit

    def log_density(self, out: Tensor, y: Tensor, noise: Tensor, unit: Tensor) -> Tensor:
        loc, scale = self.split(out, noise, y.shape[1:], unit)
        return event_sum(self.standard((y - loc) / scale) - scale.log(), y.ndim)

    def patience(self, out: Tensor, y: Tensor, noise: Tensor, unit: Tensor) -> Tensor | None:
        # a row weighs as much as its variance: the location then learns by least squares (Seitzer et al. 2022), where
        # otherwise rows that are fitted badly get a large scale, count little, and are never fitted
        if self.scale != "heteroscedastic":
            return None
        variance = self.split(out, noise, y.shape[1:], unit)[1].square().flatten(2)
        variance = variance.view(*out.shape[:3], -1).mean(-1)
        return variance / variance.mean(-1, keepdim=True)

    def describe(self, out: Tensor, noise: Tensor, loc: Tensor, unit: Tensor) -> dict[str, Tensor]:
        centre, scale = self.split(out, noise, loc.shape, unit)
        return {"loc": loc + unit * centre, "scale": (unit * scale).expand_as(centre)}

    def draw(self, out: Tensor, noise: Tensor, loc: Tensor, unit: Tensor, source: torch.Generator) -> Tensor:
        numbers = self.describe(out, noise, loc, unit)
        return numbers["loc"] + numbers["scale"] * self.standard_draw(numbers["loc"], source)

    @abstractmethod
    def standard(self, z: Tensor) -> Tensor:
        """log density of the noise with mean 0 and standard deviation 1."""

    @abstractmethod
    def standard_draw(self, like: Tensor, source: torch.Generator) -> Tensor:
        """Noise with mean 0 and standard deviation 1, in the shape of `like`."""


def _doubled(out: Tensor, event: torch.Size) -> bool:
    """Whether it is the last axis of the event that the network gives twice, (..., 2d), not the flattened event."""
    return len(event) > 0 and out.shape[3:] == (*event[:-1], 2 * event[-1])


def _by_outputs(by_loc: Tensor, by_raw: Tensor, out: Tensor) -> Tensor:
    """Derivatives by location and by the number behind the scale (members, draws, batch, *event), by the outputs."""
    if _doubled(out, by_loc.shape[3:]):
        return torch.cat([by_loc, by_raw], -1)
    lead = by_loc.shape[:3]
    return torch.stack([by_loc.reshape(*lead, -1), by_raw.reshape(*lead, -1)], 3).reshape(out.shape)


NODES = 14
"""Normals that stand for a noise with heavier tails: within 1e-3 in total variation (df of at least 3)."""


def _scale_mixture(low: float, high: float, log_density: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Normals with variances exp(u), u on a grid from `low` to `high`, weighted by the density of u."""
    u = torch.linspace(low, high, NODES, dtype=torch.float64)
    return log_density(u).softmax(0), (0.5 * u).exp()


@dataclass(frozen=True)
class Normal(_LocationScale):
    """Normal noise around the network's output, coordinates independent: any event shape.

    `scale`: a number (the standard deviation, in the targets' units), "learned" (one number per coordinate,
    by maximum likelihood along with the posterior), or "heteroscedastic" (the network has twice the outputs;
    the second half are scales before softplus).
    `resolution`: what targets were rounded to, in their units, one number or one per coordinate; 0 says that they were
    not. Scales that are learned are then at least that of rounding, resolution / sqrt(12).

    - `net`: a function that makes a new network, or a module as its template

    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> likelihood = cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, (4,)), scale="learned")
    >>> model = cbdl.CBDL([cbdl.priors.Normal(0, 1)], [likelihood], cbdl.MeanField(epochs=1), verbose=False)
    >>> model.fit(X, X[:, 0]).predict(X[:2])
    MixtureCredalSet(batch_shape=(2,), num_extremes=1, num_components=20)
    """

    net: Factory
    scale: Scale = "learned"
    resolution: float | tuple[float, ...] = 0.0

    def standard(self, z: Tensor) -> Tensor:
        return -0.5 * z.square() - HALF_LOG_2PI

    def slope(self, out: Tensor, y: Tensor, noise: Tensor, unit: Tensor) -> Slope | None:
        loc, scale = self.split(out, noise, y.shape[1:], unit)
        z = (y - loc) / scale
        square = z.square()
        density = event_sum(-0.5 * square - (scale.log() + HALF_LOG_2PI), y.ndim)
        nothing = out.new_zeros(*out.shape[:3], 0)
        if self.scale == "heteroscedastic":
            # scale = floor + softplus(raw), whose derivative is 1 - exp(-softplus(raw))
            by_raw = (square - 1) / scale * -torch.expm1(self.floor(unit) - scale)
            return density, _by_outputs(z / scale, by_raw, out), nothing
        by_out = (z / scale).reshape(out.shape)
        if noise.numel() == 0:
            return density, by_out, nothing
        # scale = floor + exp(noise)
        by_noise = (square - 1) * (1 - self.floor(unit) / scale)
        return density, by_out, by_noise.reshape(*out.shape[:3], -1)

    def rule(self, unit: Tensor) -> Rule | None:
        if unit.numel() != 1:
            return None
        least = float(torch.as_tensor(self.floor(unit)))
        if self.scale == "heteroscedastic":
            return Rule(VARYING, least)
        return Rule(LEARNED, least) if self.scale == "learned" else Rule(FIXED, self.scale / float(unit))

    def standard_draw(self, like: Tensor, source: torch.Generator) -> Tensor:
        return torch.empty_like(like).normal_(generator=source)


@dataclass(frozen=True)
class Laplace(_LocationScale):
    """Laplace noise with standard deviation `scale` (see Normal for its kinds, and for `resolution`).

    - `net`: a function that makes a new network, or a module as its template

    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> likelihood = cbdl.likelihoods.Laplace(cbdl.nets.mlp(1, 1, (4,)), scale=0.5)
    >>> model = cbdl.CBDL([cbdl.priors.Normal(0, 1)], [likelihood], cbdl.MeanField(epochs=1), verbose=False)
    >>> model.fit(X, X[:, 0]).predict(X[:2]).num_extremes
    1
    """

    net: Factory
    scale: Scale = "learned"
    resolution: float | tuple[float, ...] = 0.0

    def standard(self, z: Tensor) -> Tensor:
        return -math.sqrt(2) * z.abs() - 0.5 * math.log(2)

    def standard_entropy(self) -> float:
        return 1 + 0.5 * math.log(2)

    def standard_draw(self, like: Tensor, source: torch.Generator) -> Tensor:
        a, b = (torch.empty_like(like).exponential_(generator=source) for _ in range(2))
        return (a - b) / math.sqrt(2)

    def normals(self) -> tuple[Tensor, Tensor]:
        # the variance is exponential with mean 1
        return _scale_mixture(-7.0, math.log(14.0), lambda u: u - u.exp())


@dataclass(frozen=True)
class StudentT(_LocationScale):
    """Student t noise with `df` > 2 degrees of freedom and standard deviation `scale` (see Normal for its
    kinds, and for `resolution`).

    - `net`: a function that makes a new network, or a module as its template

    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> likelihood = cbdl.likelihoods.StudentT(cbdl.nets.mlp(1, 1, (4,)), df=4.0)
    >>> model = cbdl.CBDL([cbdl.priors.Normal(0, 1)], [likelihood], cbdl.MeanField(epochs=1), verbose=False)
    >>> model.fit(X, X[:, 0]).predict(X[:2]).num_extremes
    1
    """

    net: Factory
    df: float = 4.0
    scale: Scale = "learned"
    resolution: float | tuple[float, ...] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.df) and self.df > 2):
            raise ValueError(f"df is {self.df:g}; a standard deviation exists for df > 2 only")

    def standard(self, z: Tensor) -> Tensor:
        df = self.df
        constant = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(math.pi * (df - 2))
        return constant - (df + 1) / 2 * torch.log1p(z.square() / (df - 2))

    def standard_entropy(self) -> float:
        from scipy.special import psi  # takes long to import, and few need it

        half, more = self.df / 2, (self.df + 1) / 2
        beta = math.lgamma(half) + math.lgamma(0.5) - math.lgamma(more)
        return more * float(psi(more) - psi(half)) + beta + 0.5 * math.log(self.df - 2)

    def standard_draw(self, like: Tensor, source: torch.Generator) -> Tensor:
        normal = torch.empty_like(like).normal_(generator=source)
        chi = torch._standard_gamma(torch.full_like(like, self.df / 2), generator=source) * 2
        return normal * ((self.df - 2) / chi).sqrt()

    def normals(self) -> tuple[Tensor, Tensor]:
        from scipy.special import gammaincinv  # takes long to import, and few need it

        # the variance is (df - 2) / chi-squared(df)
        low, high = (
            math.log((self.df - 2) / float(2 * gammaincinv(self.df / 2, p))) for p in (1 - 1e-5, 1e-6)
        )
        return _scale_mixture(low, high, lambda u: -0.5 * self.df * u - 0.5 * (self.df - 2) * (-u).exp())
