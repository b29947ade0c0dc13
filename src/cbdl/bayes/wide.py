"""Stacks of Linear layers and elementwise functions, evaluated for all members by one wide matrix product a
layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from .flat import Layout

ELEMENTWISE = (
    nn.ReLU, nn.ReLU6, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.SELU, nn.CELU, nn.LeakyReLU,
    nn.Softplus, nn.Mish, nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.LogSigmoid, nn.Softsign,
    nn.Tanhshrink, nn.Identity,
)  # fmt: skip

Step: TypeAlias = Callable[[Tensor, dict[str, Tensor]], Tensor]


def plan(network: nn.Module, layout: Layout) -> list[Step] | None:
    """The layers of `network` as steps on (copies, batch, features); None if it is not such a stack."""
    steps: list[Step] = []
    tied = {id(p) for _, p in network.named_parameters()}
    if len(tied) != sum(1 for _ in network.named_parameters(remove_duplicate=False)):
        return None
    for name, module in _leaves(network, ""):
        if _has_hooks(module):
            return None
        if type(module) is nn.Linear:
            known = {f"{name}weight", f"{name}bias"} - ({f"{name}bias"} if module.bias is None else set())
            if not known <= set(layout.names):
                return None
            steps.append(_linear(f"{name}weight", None if module.bias is None else f"{name}bias"))
        elif type(module) in ELEMENTWISE and not getattr(module, "inplace", False):
            if type(module) is not nn.Identity:
                steps.append(_elementwise(module))
        elif type(module) is nn.Flatten and module.start_dim == 1 and module.end_dim == -1:
            # inputs are flat rows wherever this plan is used
            continue
        else:
            return None
    return steps if steps and any(isinstance(m, nn.Linear) for m in network.modules()) else None


def _leaves(module: nn.Module, prefix: str) -> list[tuple[str, nn.Module]]:
    if type(module) is nn.Sequential and not _has_hooks(module):
        return [
            leaf for name, child in module.named_children() for leaf in _leaves(child, f"{prefix}{name}.")
        ]
    return [(prefix, module)]


def _has_hooks(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


def _linear(weight: str, bias: str | None) -> Step:
    def step(h: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        w = parameters[weight]
        b = None if bias is None else parameters[bias].unsqueeze(1)
        if h.ndim == 2:  # the shared minibatch: no copy for each member
            h = h.expand(w.shape[0], *h.shape)
        return torch.bmm(h, w.mT) if b is None else torch.baddbmm(b, h, w.mT)

    return step


def _elementwise(module: nn.Module) -> Step:
    return lambda h, parameters: module(h)


def evaluate(steps: list[Step], parameters: dict[str, Tensor], x: Tensor) -> Tensor:
    """Outputs (copies, batch, out) from parameters (copies, *shape) and a shared minibatch x (batch,
    features).
    """
    h = x.flatten(1)
    for step in steps:
        h = step(h, parameters)
    if h.ndim == 2:
        raise ValueError("a network without a Linear layer is no stack")
    return h
