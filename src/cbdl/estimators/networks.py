"""Networks for a table of given widths."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from torch import nn

from cbdl.bayes.likelihoods import Factory
from cbdl.nets import mlp
from cbdl.nets.scores import Columns

Architecture: TypeAlias = Sequence[int] | Callable[[int, int], nn.Module]
"""The widths of the hidden layers, or a function (inputs, outputs) -> network."""


def factories(
    given: Any,
    inputs: int,
    outputs: int,
    activation: str,
    quantiles: Columns | None = None,
    ramps: int = 0,
) -> list[Factory]:
    """One factory for each architecture; `quantiles` of columns whose Normal scores are further inputs, and so many
    `ramps` of each."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not len(given):
        raise ValueError(
            f"architectures is {given!r}; give one or more networks, each by the widths of its hidden layers: "
            "[(32,), (16, 16)]"
        )
    return [_factory(one, s, inputs, outputs, activation, quantiles, ramps) for s, one in enumerate(given)]


def _factory(
    given: Any, s: int, inputs: int, outputs: int, activation: str, quantiles: Columns | None, ramps: int
) -> Factory:
    if callable(given):
        return functools.partial(given, inputs, outputs)
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ValueError(
            f"architectures[{s}] is {given!r}; give the widths of the hidden layers, as in (16, 16), or a "
            "function (inputs, outputs) -> network"
        )
    return cast(Factory, mlp(inputs, outputs, tuple(given), activation, quantiles, ramps))
