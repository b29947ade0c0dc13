"""Priors that stand somewhere else for every coordinate: at a draw, at pretrained weights, at what was learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from cbdl.bayes._random import generator
from cbdl.bayes.flat import Entry, shorten

from .families import NORMAL
from .prior import Family, Parameters, Prior, check_positive


@dataclass(frozen=True)
class Centred(Prior):
    """`prior` moved to a centre that was drawn from it: coordinate i is centred at theta_i ~ prior, from
    `seed`.

    >>> from cbdl.bayes.priors import Normal
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
    >>> from cbdl.bayes.priors import Normal
    >>> {"head.*": Normal(0.0, 1.0), "*": Pretrained(nn.Linear(3, 2).state_dict(), delta=0.2)}["*"]
    Pretrained(delta=0.2, floor=0.001)
    """

    state: Mapping[str, Tensor] = field(repr=False)
    delta: float = 0.1
    floor: float = 1e-3
    family: ClassVar[Family] = NORMAL

    def __post_init__(self) -> None:
        check_positive(self, delta=self.delta, floor=self.floor)

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
