"""Stacks of Linear layers and elementwise functions, for all members at once: one batched product a layer.

Networks this small are limited by the overhead of operations, not by arithmetic. So the gradient is written out
here (the chain rule through a stack is four lines) instead of recorded by autograd, and a caller that asks for many
gradients of the same shape lends the memory for what lies in between: large blocks that come from the system for every
operation and go back to it cost a third of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from .flat import Layout

Slope: TypeAlias = Callable[[Any, Tensor, Tensor, Tensor], Tensor]
"""(module, gradient by its output, its input, its output) -> gradient by its input, written over the first."""

aten: Any = torch.ops.aten

ELEMENTWISE: dict[type[nn.Module], Slope] = {
    nn.ReLU: lambda m, g, x, y: aten.threshold_backward(g, y, 0, grad_input=g),
    nn.Tanh: lambda m, g, x, y: aten.tanh_backward(g, y, grad_input=g),
    nn.Sigmoid: lambda m, g, x, y: aten.sigmoid_backward(g, y, grad_input=g),
    nn.GELU: lambda m, g, x, y: aten.gelu_backward(g, x, approximate=m.approximate, grad_input=g),
    nn.SiLU: lambda m, g, x, y: aten.silu_backward(g, x, grad_input=g),
    nn.LeakyReLU: lambda m, g, x, y: aten.leaky_relu_backward(g, x, m.negative_slope, False, grad_input=g),
    nn.ELU: lambda m, g, x, y: aten.elu_backward(g, m.alpha, 1, 1, False, x, grad_input=g),
    nn.Softplus: lambda m, g, x, y: aten.softplus_backward(g, x, m.beta, m.threshold, grad_input=g),
    nn.Mish: lambda m, g, x, y: aten.mish_backward(g, x),
    nn.Hardtanh: lambda m, g, x, y: aten.hardtanh_backward(g, x, m.min_val, m.max_val, grad_input=g),
    nn.Hardswish: lambda m, g, x, y: aten.hardswish_backward(g, x),
    nn.LogSigmoid: lambda m, g, x, y: g.mul_(torch.sigmoid(-x)),
}

INTO: dict[type[nn.Module], Callable[[Tensor, Tensor], Tensor]] = {
    nn.ReLU: lambda x, out: torch.clamp_min(x, 0, out=out),
    nn.Tanh: lambda x, out: torch.tanh(x, out=out),
    nn.SiLU: lambda x, out: aten.silu(x, out=out),
}
"""(input, where the output goes) -> output, for the functions that can write into given memory."""


class Space:
    """Memory that is lent again and again for what lies between a network's layers."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[str, int], Tensor] = {}

    def lend(self, what: str, place: int, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """The block of this name and shape, with whatever was written there before."""
        block = self._blocks.get((what, place))
        if block is None or block.shape != shape or block.dtype != like.dtype:
            block = self._blocks[what, place] = like.new_empty(shape)
        return block


@dataclass(frozen=True)
class Affine:
    """A Linear layer: where its weight and bias are among the layout's parameters."""

    weight: int
    bias: int | None


@dataclass(frozen=True)
class Pointwise:
    module: nn.Module
    slope: Slope


Step: TypeAlias = Affine | Pointwise


def plan(network: nn.Module, layout: Layout) -> list[Step] | None:
    """The layers of `network` in order; None if it is not such a stack, or not all of it is trainable."""
    if len({id(p) for p in network.parameters()}) != sum(
        1 for _ in network.named_parameters(remove_duplicate=False)
    ):
        return None  # tied parameters
    where = {name: i for i, name in enumerate(layout.names)}
    steps: list[Step] = []
    for name, module in _leaves(network, ""):
        kind = type(module)
        if _has_hooks(module):
            return None
        if kind is nn.Linear:
            weight, bias = where.get(f"{name}weight"), where.get(f"{name}bias")
            if weight is None or (bias is None and module.bias is not None):
                return None
            steps.append(Affine(weight, bias))
        elif kind in ELEMENTWISE:
            steps.append(Pointwise(module, ELEMENTWISE[kind]))
        elif isinstance(module, nn.Identity) or _flattens_rows(module):
            continue  # inputs are flat rows wherever this plan is used
        else:
            return None
    return steps if steps and isinstance(steps[0], Affine) else None


def _leaves(module: nn.Module, prefix: str) -> list[tuple[str, nn.Module]]:
    if type(module) is nn.Sequential and not _has_hooks(module):
        return [
            leaf for name, child in module.named_children() for leaf in _leaves(child, f"{prefix}{name}.")
        ]
    return [(prefix, module)]


def _flattens_rows(module: nn.Module) -> bool:
    return isinstance(module, nn.Flatten) and module.start_dim == 1 and module.end_dim == -1


def _has_hooks(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


def outputs(
    steps: list[Step], layout: Layout, theta: Tensor, x: Tensor, space: Space | None = None
) -> list[Tensor]:
    """What every step gives: (copies, batch, features) each, from theta (copies, P) and a shared minibatch x.

    The last one is the network's output; the others are what `gradient` needs. They hold until `space` is used again.
    """
    parts = torch.split_with_sizes(theta, layout.sizes, -1)
    space, copies = space or Space(), theta.shape[0]
    out: list[Tensor] = []
    h = x.flatten(1)
    for i, step in enumerate(steps):
        if isinstance(step, Affine):
            entry = layout.entries[step.weight]
            w = parts[step.weight].reshape(copies, *entry.shape)
            z = space.lend("values", i, (copies, h.shape[-2], entry.shape[0]), theta)
            if not out:  # the shared minibatch: one product for all copies, (batch, copies * features)
                every = torch.mm(h, w.reshape(-1, entry.shape[1]).mT)
                z.copy_(every.view(h.shape[0], copies, -1).transpose(0, 1))
            else:
                torch.bmm(h, w.mT, out=z)
            h = z if step.bias is None else z.add_(parts[step.bias].unsqueeze(1))
        elif (into := INTO.get(type(step.module))) is not None:
            h = into(h, space.lend("values", i, tuple(h.shape), theta))
        else:
            # not in place, even if the module says so: its input may be needed for the gradient
            h = step.module(h.clone() if getattr(step.module, "inplace", False) else h)
        out.append(h)
    return out


def gradient(
    steps: list[Step],
    layout: Layout,
    theta: Tensor,
    x: Tensor,
    seen: list[Tensor],
    by_out: Tensor,
    space: Space | None = None,
) -> Tensor:
    """The gradient by theta (copies, P) of a function whose gradient by the output is `by_out`, which is spent."""
    parts = torch.split_with_sizes(theta, layout.sizes, -1)
    space, copies, gradients = space or Space(), theta.shape[0], list(parts)
    x = x.flatten(1)
    for i in range(len(steps) - 1, -1, -1):
        step = steps[i]
        before = seen[i - 1] if i else x.expand(copies, *x.shape)
        if isinstance(step, Affine):
            gradients[step.weight] = torch.bmm(by_out.mT, before).view(copies, -1)
            if step.bias is not None:
                gradients[step.bias] = by_out.sum(1)
            if i:
                w = parts[step.weight].reshape(copies, *layout.entries[step.weight].shape)
                by_out = torch.bmm(by_out, w, out=space.lend("slopes", i, tuple(before.shape), theta))
        else:
            by_out = step.slope(step.module, by_out, before, seen[i])
    return torch.cat(gradients, 1)
