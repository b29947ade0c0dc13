"""What a prior is: a family of densities, and its parameters for each entry of a layout."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TypeAlias

import torch
from torch import Tensor

from cbdl.bayes.flat import Entry, matches, shorten

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
    slope: Callable[..., tuple[Tensor, Tensor]] | None = None
    """(theta, *parameters) -> the log density up to a constant, and its derivative; None: autograd finds it."""


def check_positive(owner: object, **values: float) -> None:
    for name, value in values.items():
        if not (_is_finite(value) and value > 0):
            raise ValueError(
                f"{type(owner).__name__}: {name} is {_shown(value)}; it must be positive and finite"
            )


def check_finite(owner: object, **values: float) -> None:
    for name, value in values.items():
        if not _is_finite(value):
            raise ValueError(f"{type(owner).__name__}: {name} is {_shown(value)}; give a finite number")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except TypeError:  # a word, a list
        return False


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, Real) else repr(value)


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
