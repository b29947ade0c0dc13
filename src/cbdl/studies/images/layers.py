"""What a network sees on its way: the inputs of its layers, summarised, beside its outputs."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

import cbdl

ROWS = 500
"""Rows at a time."""


def network_of(model: cbdl.CBDL) -> nn.Module:
    """The one network of a model whose only member is a point."""
    [part] = model.learned.parts.values()
    theta, buffers = part.posterior.centre()[0], part.posterior.buffers
    network = copy.deepcopy(part.cohort.forward.network).eval()
    with torch.no_grad():
        for name, value in part.cohort.layout.view(theta).items():
            network.get_parameter(name).copy_(value)
        for name, values in buffers.items():
            network.get_buffer(name).copy_(values[0])
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def walk(network: nn.Module, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Outputs (n, J) of a sequence of layers, and what enters each of its layers with weights, the image first.

    Of maps (n, channels, h, w) mean and deviation of every channel; of vectors the vectors.
    """
    seen = []
    assert isinstance(network, nn.Sequential)
    for layer in network:
        if any(True for _ in layer.parameters()) and not isinstance(layer, nn.BatchNorm2d):
            seen.append(_summary(x))
        x = layer(x)
    return x, seen


def _summary(x: Tensor) -> Tensor:
    if x.ndim == 2:
        return x
    deviation, mean = torch.std_mean(x, (-2, -1), correction=0)
    return torch.cat([mean, deviation], 1)


def seen_by(network: nn.Module, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """`walk` of any number of rows, in float64: logits (n, J), and one matrix of features per layer."""
    where = next(network.parameters()).device
    with torch.no_grad():
        parts = [
            walk(network, rows.to(where).contiguous(memory_format=torch.channels_last))
            for rows in torch.split(x, ROWS)
        ]
    columns = zip(*(seen for _, seen in parts), strict=True)
    logits = torch.cat([out for out, _ in parts]).double().cpu()
    return logits, [torch.cat(column).double().cpu() for column in columns]
