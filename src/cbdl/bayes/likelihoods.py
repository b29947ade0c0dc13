"""Likelihoods: a network factory and a noise model (Step 2 of Algorithm 1). Public as `cbdl.likelihoods`.

A likelihood turns outputs of the network into log densities of targets, and into the numbers that describe
the predictive distribution. Shapes: outputs (members, draws, batch, *out), targets (batch, *event), noise
(members, Q) the parameters of the noise model of each member, or (members, draws, Q) those of each draw (Q = 0 for
most likelihoods); log densities (members, draws, batch).

Targets of regression are standardised; `unit` (*event) is what one standardised unit is in the user's units.
`scale` is a standard deviation in the user's units, everywhere.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cbdl.nets.instances import as_factory

from ._densities import HALF_LOG_2PI, worst_rows
from .counts import HIGH, LOW, poisson_entropy, poisson_log_density
from .targets import check_labels, check_scale, check_size, check_variety, dims

__all__ = [
    "Bernoulli",
    "Categorical",
    "Factory",
    "Laplace",
    "Likelihood",
    "Normal",
    "Poisson",
    "Scale",
    "StudentT",
    "agree",
    "check_scale",
]

Factory: TypeAlias = Callable[[], nn.Module]
Scale: TypeAlias = float | Literal["learned", "heteroscedastic"]
FLOOR = 1e-3
"""Learned and heteroscedastic scales are at least this part of the targets' spread: the density stays
bounded.
"""


Slope: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Log densities (members, draws, batch), their derivatives by the outputs (like them) and by the noise parameters
(members, draws, batch, Q)."""


class Likelihood(ABC):
    """What all likelihoods share. `space` says what is predicted; S likelihoods must agree on it."""

    net: Factory
    """Makes a new network; a module instance is taken as the template of one (`cbdl.nets.instances`)."""
    space: ClassVar[Literal["classes", "real", "counts"]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "net", as_factory(self.net))

    def noise(self, unit: Tensor) -> Tensor:
        """Initial noise parameters (Q,) of a member."""
        return unit.new_zeros(0)

    def noise_prior(self, unit: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation, each (Q,), of the Normal prior of the noise parameters, for methods that sample
        them."""
        noise = self.noise(unit)
        return noise, torch.ones_like(noise)

    @abstractmethod
    def check(self, y: Tensor, whole: bool = True) -> None:
        """A ValueError if the targets (rows, *event) cannot come from this noise model.

        `whole`: these are all the targets there are, not a sample of a stream.
        """

    @abstractmethod
    def check_outputs(self, out: tuple[int, ...], y: Tensor) -> None:
        """A ValueError if a network with outputs `out` (without the batch) cannot describe the targets."""

    @abstractmethod
    def log_density(self, out: Tensor, y: Tensor, noise: Tensor, unit: Tensor) -> Tensor:
        """log p(y | out) of the (standardised) targets: (members, draws, batch)."""

    def slope(self, out: Tensor, y: Tensor, noise: Tensor, unit: Tensor) -> Slope | None:
        """`log_density` with its derivatives, where they are written out; else None."""
        return None

    def emphasis(self, density: Tensor) -> Tensor | None:
        """The weight of every row of a batch in training, from its log density (members, draws, batch); None: all 1."""
        return None

    def patience(self, out: Tensor, y: Tensor, noise: Tensor, unit: Tensor) -> Tensor | None:
        """The weight of every row (members, draws, batch) while an optimisation begins, so that what is not learned yet
        is not taken for noise; None: all 1.
        """
        return None

    @abstractmethod
    def describe(self, out: Tensor, noise: Tensor, loc: Tensor, unit: Tensor) -> dict[str, Tensor]:
        """The predictive distribution's numbers in the user's units, each (members, draws, batch, ...).

        Classes: "probs" (..., J). Real: "loc" and "scale" (standard deviation), both (..., *event). Counts:
        "rate".
        """

    def entropy(self, numbers: Mapping[str, Tensor]) -> Tensor:
        """The entropy (members, draws, batch) of the outcome under every draw, from what `describe` says, in nats."""
        if "probs" in numbers:
            return _class_entropy(numbers["probs"])
        if "rate" in numbers:
            entropy = poisson_entropy(numbers["rate"])
        else:
            entropy = numbers["scale"].log() + self.standard_entropy()
        return _event_sum(entropy, entropy.ndim - 2)

    def standard_entropy(self) -> float:
        """The entropy of the noise of a real outcome whose standard deviation is 1, in nats; here of a Normal."""
        return 0.5 + HALF_LOG_2PI

    def normals(self) -> tuple[Tensor, Tensor]:
        """The noise of a real outcome as a mixture of Normals: weights, and scales in units of its standard
        deviation, each (components,)."""
        return torch.ones(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)

    @abstractmethod
    def draw(self, out: Tensor, noise: Tensor, loc: Tensor, unit: Tensor, source: torch.Generator) -> Tensor:
        """An outcome in the user's units for every output: (members, draws, batch, *event)."""


def _class_entropy(probs: Tensor) -> Tensor:
    # as torch.special.entr, which is several times as slow; where p is 0 the logarithm is finite
    tiny = torch.finfo(probs.dtype).tiny
    entropy: Tensor = -(probs * probs.clamp_min(tiny).log()).sum(-1)
    return entropy


def _softmax(out: Tensor) -> Tensor:
    """Along the last axis, which may lie apart in memory: `wide` puts rows side by side, and along them vectors run."""
    return out.mT.softmax(-2).mT if out.ndim > 1 and out.stride(-1) != 1 else out.softmax(-1)


def _draw_class(probs: Tensor, source: torch.Generator) -> Tensor:
    """Labels with probabilities (..., J): the class at which the running sum passes a uniform number."""
    u = torch.rand(probs.shape[:-1], generator=source, device=probs.device, dtype=probs.dtype)
    return (probs.cumsum(-1) < u.unsqueeze(-1)).sum(-1).clamp_max(probs.shape[-1] - 1)


# ----------------------------------------------------------------------------------------------- classes


@dataclass(frozen=True)
class Categorical(Likelihood):
    """Classes 0, ..., J - 1 with probabilities softmax(network output (batch, J)).

    `worst`: members learn from that share of every batch, the rows that they predict worst (a robust member).
    """

    net: Factory
    worst: float = 1.0
    space: ClassVar[Literal["classes"]] = "classes"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.worst <= 1:
            raise ValueError(f"worst is {self.worst}; it is a share of the rows, above 0 and at most 1")

    def emphasis(self, density: Tensor) -> Tensor | None:
        return None if self.worst == 1 else worst_rows(density, self.worst)

    def check(self, y: Tensor, whole: bool = True) -> None:
        check_labels(y)
        if whole:
            check_variety(y)

    def check_outputs(self, out: tuple[int, ...], y: Tensor) -> None:
        if len(out) != 1 or out[0] < 2:
            raise ValueError(
                f"Categorical: the network's output is (batch, {dims(out)}); it must be (batch, classes)"
            )
        check_labels(y, out[0])

    def log_density(self, out: Tensor, y: Tensor, noise: Tensor, unit: Tensor) -> Tensor:
        members, draws, batch, classes = out.shape
        target = y.expand(members, draws, batch).reshape(-1)
        return -F.cross_entropy(out.reshape(-1, classes), target, reduction="none").view(
            members, draws, batch
        )

    def slope(self, out: Tensor, y: Tensor, noise: Tensor, unit: Tensor) -> Slope | None:
        if self.worst < 1:
            return None
        log_p = out.log_softmax(-1)
        at = y.view(1, 1, -1, 1).expand(*out.shape[:3], 1)
        by_out = log_p.exp().neg_().scatter_add_(-1, at, torch.ones_like(log_p[..., :1]))
        return log_p.gather(-1, at).squeeze(-1), by_out, out.new_zeros(*out.shape[:3], 0)

    def describe(self, out: Tensor, noise: Tensor, loc: Tensor, unit: Tensor) -> dict[str, Tensor]:
        return {"probs": _softmax(out)}

    def draw(self, out: Tensor, noise: Tensor, loc: Tensor, unit: Tensor, source: torch.Generator) -> Tensor:
        return _draw_class(out.softmax(-1), source)


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """Classes 0 and 1; the network's one output (batch,) or (batch, 1) is the log odds of class 1."""

    net: Factory
    space: ClassVar[Literal["classes"]] = "classes"

    def check(self, y: Tensor, whole: bool = True) -> None:
        check_labels(y, 2)
        if whole:
            check_variety(y)

    def check_outputs(self, out: tuple[int, ...], y: Tensor) -> None:
        if math.prod(out) != 1:
            raise ValueError(
                f"Bernoulli: the network's output is (batch, {dims(out)}); it must be (batch, 1)"
            )
        check_labels(y, 2)

    def log_density(self, out: Tensor, y: Tensor, noise: Tensor, unit: Tensor) -> Tensor:
        logit = out.reshape(out.shape[:3])
        return -F.softplus(torch.where(y == 1, -logit, logit))

    def describe(self, out: Tensor, noise: Tensor, loc: Tensor, unit: Tensor) -> dict[str, Tensor]:
        one = torch.sigmoid(out.reshape(out.shape[:3]))
        zero = torch.sigmoid(-out.reshape(out.shape[:3]))
        return {"probs": torch.stack([zero, one], -1)}

    def draw(self, out: Tensor, noise: Tensor, loc: Tensor, unit: Tensor, source: torch.Generator) -> Tensor:
        return _draw_class(self.describe(out, noise, loc, unit)["probs"], source)


# ------------------------------------------------------------------------------------------------- counts


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Counts with rate exp(network output); any event shape, coordinates independent.

    Far from the data outputs may be anything: rates are described between 1.8e-35 and 2.4e17.
    """

    net: Factory
    space: ClassVar[Literal["counts"]] = "counts"

    def check(self, y: Tensor, whole: bool = True) -> None:
        bad = (y < 0) | (y != y.round()) if y.is_floating_point() else y < 0
        if bad.any():
            at = tuple(bad.nonzero()[0].tolist())
            raise ValueError(f"y{list(at)} is {y[at].item():g}; Poisson targets are counts 0, 1, 2, ...")

    def check_outputs(self, out: tuple[int, ...], y: Tensor) -> None:
        check_size("Poisson", out, y, 1)

    def log_density(self, out: Tensor, y: Tensor, noise: Tensor, unit: Tensor) -> Tensor:
        return _event_sum(poisson_log_density(y, out.reshape(out.shape[:2] + y.shape)), y.ndim)

    def describe(self, out: Tensor, noise: Tensor, loc: Tensor, unit: Tensor) -> dict[str, Tensor]:
        return {"rate": out.reshape(out.shape[:3] + loc.shape).clamp(LOW, HIGH).exp()}

    def draw(self, out: Tensor, noise: Tensor, loc: Tensor, unit: Tensor, source: torch.Generator) -> Tensor:
        return torch.poisson(self.describe(out, noise, loc, unit)["rate"], generator=source)


# --------------------------------------------------------------------------------------------- real numbers


class _LocationScale(Likelihood):
    """Noise around a location: targets of any event shape, coordinates independent."""

    space: ClassVar[Literal["real"]] = "real"
    scale: Scale

    def __post_init__(self) -> None:
        super().__post_init__()
        check_scale(self.scale)

    def check(self, y: Tensor, whole: bool = True) -> None:
        if not y.is_floating_point():
            raise ValueError(f"y holds {y.dtype}; targets of a regression are real numbers")

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
            return loc.reshape(lead + event), FLOOR + F.softplus(raw.reshape(lead + event))
        loc = out.reshape(lead + event)
        if self.scale == "learned":
            scale = FLOOR + noise.exp()
            draws = noise.shape[1] if noise.ndim == 3 else 1
            return loc, scale.reshape((noise.shape[0], draws, 1, *event))
        return loc, self.scale / unit

    def log_density(self, out: Tensor, y: Tensor, noise: Tensor, unit: Tensor) -> Tensor:
        loc, scale = self.split(out, noise, y.shape[1:], unit)
        return _event_sum(self.standard((y - loc) / scale) - scale.log(), y.ndim)

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

    def normals(self) -> tuple[Tensor, Tensor]:
        """Weights and scales (n,) of the Normals around 0 whose mixture is the noise of standard deviation 1."""
        one = torch.ones(1, dtype=torch.float64)
        return one, one


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
    """

    net: Factory
    scale: Scale = "learned"

    def standard(self, z: Tensor) -> Tensor:
        return -0.5 * z.square() - HALF_LOG_2PI

    def slope(self, out: Tensor, y: Tensor, noise: Tensor, unit: Tensor) -> Slope | None:
        loc, scale = self.split(out, noise, y.shape[1:], unit)
        z = (y - loc) / scale
        square = z.square()
        density = _event_sum(-0.5 * square - (scale.log() + HALF_LOG_2PI), y.ndim)
        nothing = out.new_zeros(*out.shape[:3], 0)
        if self.scale == "heteroscedastic":
            # scale = FLOOR + softplus(raw), whose derivative is 1 - exp(-softplus(raw))
            by_raw = (square - 1) / scale * -torch.expm1(FLOOR - scale)
            return density, _by_outputs(z / scale, by_raw, out), nothing
        by_out = (z / scale).reshape(out.shape)
        if noise.numel() == 0:
            return density, by_out, nothing
        # scale = FLOOR + exp(noise)
        by_noise = (square - 1) * (1 - FLOOR / scale)
        return density, by_out, by_noise.reshape(*out.shape[:3], -1)

    def standard_draw(self, like: Tensor, source: torch.Generator) -> Tensor:
        return torch.empty_like(like).normal_(generator=source)


@dataclass(frozen=True)
class Laplace(_LocationScale):
    """Laplace noise with standard deviation `scale` (see Normal for its kinds)."""

    net: Factory
    scale: Scale = "learned"

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
    kinds).
    """

    net: Factory
    df: float = 4.0
    scale: Scale = "learned"

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


# ------------------------------------------------------------------------------------------------- shared


def _event_sum(x: Tensor, target_dims: int) -> Tensor:
    """The sum over the event: (members, draws, batch, *event) -> (members, draws, batch)."""
    return x.flatten(3).sum(3) if target_dims > 1 else x


def agree(likelihoods: tuple[Likelihood, ...]) -> None:
    """A ValueError unless all likelihoods predict the same space."""
    for s, other in enumerate(likelihoods):
        if other.space != likelihoods[0].space:
            raise ValueError(
                f"likelihoods[{s}] predicts {other.space}, likelihoods[0] predicts {likelihoods[0].space}; "
                "all must predict the same space"
            )
