"""Likelihoods of classes: labels 0, 1, ... from the outputs of a network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from cbdl.bayes._densities import worst_rows
from cbdl.bayes.targets import check_labels, check_variety, dims

from .likelihood import Factory, Likelihood, Slope
from .rules import CLASSES, Rule


def _softmax(out: Tensor) -> Tensor:
    """Along the last axis, which may lie apart in memory: `wide` puts rows side by side, and along them vectors run."""
    return out.mT.softmax(-2).mT if out.ndim > 1 and out.stride(-1) != 1 else out.softmax(-1)


def _draw_class(probs: Tensor, source: torch.Generator) -> Tensor:
    """Labels with probabilities (..., J): the class at which the running sum passes a uniform number."""
    u = torch.rand(probs.shape[:-1], generator=source, device=probs.device, dtype=probs.dtype)
    return (probs.cumsum(-1) < u.unsqueeze(-1)).sum(-1).clamp_max(probs.shape[-1] - 1)


@dataclass(frozen=True)
class Categorical(Likelihood):
    """Classes 0, ..., J - 1 with probabilities softmax(network output (batch, J)).

    `worst`: members learn from that share of every batch, the rows that they predict worst (a robust member).

    - `net`: a function that makes a new network, or a module as its template

    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> likelihood = cbdl.likelihoods.Categorical(cbdl.nets.mlp(1, 3, (4,)))
    >>> model = cbdl.CBDL([cbdl.priors.Normal(0, 1)], [likelihood], cbdl.MeanField(epochs=1), verbose=False)
    >>> model.fit(X, np.arange(20) % 3).predict(X[:2])
    CategoricalCredalSet(batch_shape=(2,), num_extremes=1, num_classes=3)
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

    def rule(self, unit: Tensor) -> Rule | None:
        return Rule(CLASSES) if self.worst == 1 else None

    def describe(self, out: Tensor, noise: Tensor, loc: Tensor, unit: Tensor) -> dict[str, Tensor]:
        return {"probs": _softmax(out)}

    def draw(self, out: Tensor, noise: Tensor, loc: Tensor, unit: Tensor, source: torch.Generator) -> Tensor:
        return _draw_class(out.softmax(-1), source)


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """Classes 0 and 1; the network's one output (batch,) or (batch, 1) is the log odds of class 1.

    - `net`: a function that makes a new network, or a module as its template

    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> likelihood = cbdl.likelihoods.Bernoulli(cbdl.nets.mlp(1, 1, (4,)))
    >>> model = cbdl.CBDL([cbdl.priors.Normal(0, 1)], [likelihood], cbdl.MeanField(epochs=1), verbose=False)
    >>> model.fit(X, (X[:, 0] > 0).astype(int)).predict(X[:2])
    CategoricalCredalSet(batch_shape=(2,), num_extremes=1, num_classes=2)
    """

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
