"""What a likelihood is: it turns outputs of the network into log densities of targets, and into the numbers that
describe the predictive distribution.

Shapes: outputs (members, draws, batch, *out), targets (batch, *event), noise (members, Q) the parameters of the noise
model of each member, or (members, draws, Q) those of each draw (Q = 0 for most likelihoods); log densities (members,
draws, batch).

Targets of regression are standardised; `unit` (*event) is what one standardised unit is in the user's units.
`scale` is a standard deviation in the user's units, everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor, nn

from cbdl.bayes._densities import HALF_LOG_2PI
from cbdl.bayes.counts import poisson_entropy
from cbdl.nets.instances import as_factory

from .rules import Rule

Factory: TypeAlias = Callable[[], nn.Module]
Slope: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Log densities (members, draws, batch), their derivatives by the outputs (like them) and by the noise parameters
(members, draws, batch, Q)."""

FLOOR = 1e-3
"""Learned and heteroscedastic scales are at least this part of the targets' spread: the density stays bounded."""


def _class_entropy(probs: Tensor) -> Tensor:
    # as torch.special.entr, which is several times as slow; where p is 0 the logarithm is finite
    tiny = torch.finfo(probs.dtype).tiny
    entropy: Tensor = -(probs * probs.clamp_min(tiny).log()).sum(-1)
    return entropy


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

    def floor(self, unit: Tensor) -> Tensor | float:
        """The least scale of the noise (*event), standardised, where noise parameters are log scales."""
        return FLOOR

    def floors(self, unit: Tensor) -> Tensor:
        """The same, one for each coordinate of the event, flat."""
        return torch.as_tensor(self.floor(unit)).to(unit).expand(unit.shape).reshape(-1)

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

    def rule(self, unit: Tensor) -> Rule | None:
        """What compiled loops know of it, for targets whose unit is `unit` (*event); None: nothing."""
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
        return event_sum(entropy, entropy.ndim - 2)

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


def event_sum(x: Tensor, target_dims: int) -> Tensor:
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
