"""Fully connected networks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from cbdl.nets.scores import NormalScores

MOST_LAYERS = 1000
"""No network here is deeper: a description that asks for more is a mistake, or meant to keep a machine busy."""
_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}


def build_mlp(
    inputs: int,
    outputs: int,
    hidden: Sequence[int] = (64, 64),
    activation: str = "relu",
    quantiles: Sequence[Sequence[float]] | None = None,
    ramps: int = 0,
) -> nn.Module:
    if activation not in _ACTIVATIONS:
        raise ValueError(f"activation is {activation!r}; give one of {', '.join(sorted(_ACTIVATIONS))}")
    if isinstance(hidden, int):
        raise ValueError(f"hidden is {hidden}; give the width of each hidden layer, as in ({hidden},)")
    if len(hidden) > MOST_LAYERS:
        raise ValueError(f"hidden has {len(hidden)} layers; give at most {MOST_LAYERS}")
    sizes = (inputs, *hidden, outputs)
    if quantiles is not None and len(quantiles) != inputs:
        raise ValueError(f"quantiles has {len(quantiles)} columns; the network has {inputs} inputs")
    if any(int(n) != n or n < 1 for n in sizes):
        raise ValueError(f"the layers have {sizes} units; each must be a whole number of at least 1")
    layers: list[nn.Module] = []
    if quantiles is not None and any(len(own) for own in quantiles):
        first = NormalScores(quantiles, ramps)
        layers.append(first)
        sizes = (inputs + first.further, *sizes[1:])
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), _ACTIVATIONS[activation]()]
    return nn.Sequential(*layers[:-1])
