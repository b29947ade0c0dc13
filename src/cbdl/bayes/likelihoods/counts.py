"""The likelihood of counts: 0, 1, 2, ... with a rate that the network gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from cbdl.bayes.counts import HIGH, LOW, poisson_log_density
from cbdl.bayes.targets import check_size

from .likelihood import Factory, Likelihood, event_sum


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Counts with rate exp(network output); any event shape, coordinates independent.

    Far from the data outputs may be anything: rates are described between 1.8e-35 and 2.4e17.

    - `net`: a function that makes a new network, or a module as its template

    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> likelihood = cbdl.likelihoods.Poisson(cbdl.nets.mlp(1, 1, (4,)))
    >>> model = cbdl.CBDL([cbdl.priors.Normal(0, 1)], [likelihood], cbdl.MeanField(epochs=1), verbose=False)
    >>> model.fit(X, np.arange(20) % 4).predict(X[:2]).probs.sum(-1).round(6).tolist()
    [[1.0], [1.0]]
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
        return event_sum(poisson_log_density(y, out.reshape(out.shape[:2] + y.shape)), y.ndim)

    def describe(self, out: Tensor, noise: Tensor, loc: Tensor, unit: Tensor) -> dict[str, Tensor]:
        return {"rate": out.reshape(out.shape[:3] + loc.shape).clamp(LOW, HIGH).exp()}

    def draw(self, out: Tensor, noise: Tensor, loc: Tensor, unit: Tensor, source: torch.Generator) -> Tensor:
        return torch.poisson(self.describe(out, noise, loc, unit)["rate"], generator=source)
