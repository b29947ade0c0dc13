"""Stacks of Linear layers and elementwise functions, for all members at once: one batched product a layer.

Networks this small are limited by the overhead of operations, not by arithmetic. So the gradient is written out
here (the chain rule through a stack is four lines) instead of recorded by autograd, and a caller that asks for many
gradients of the same shape lends the memory for what lies in between: large blocks that come from the system for every
operation and go back to it cost a third of the time. Values are kept as (copies, features, rows): all copies of the
first layer are then one product with the rows that they share, and long runs of numbers lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from cbdl.nets.scores import NormalScores

from .flat import Layout

Slope: TypeAlias = Callable[[Any, Tensor, Tensor, Tensor], Tensor]
"""(module, gradient by its output, its input, its output) -> gradient by its input, written over the first."""

aten: Any = torch.ops.aten

ELEMENTWISE: dict[type[nn.Module], Slope | None] = {
    nn.ReLU: lambda m, g, x, y: aten.threshold_backward(g, y, 0, grad_input=g),
    nn.Tanh: lambda m, g, x, y: aten.tanh_backward(g, y, grad_input=g),
    nn.Sigmoid: lambda m, g, x, y: aten.sigmoid_backward(g, y, grad_input=g),
    nn.GELU: lambda m, g, x, y: aten.gelu_backward(g, x, approximate=m.approximate, grad_input=g),
    nn.SiLU: None,  # by its gate, sigmoid(x), which is kept: to compute it anew would cost the most of all
    nn.LeakyReLU: lambda m, g, x, y: aten.leaky_relu_backward(g, x, m.negative_slope, False, grad_input=g),
    nn.ELU: lambda m, g, x, y: aten.elu_backward(g, m.alpha, 1, 1, False, x, grad_input=g),
    nn.Softplus: lambda m, g, x, y: aten.softplus_backward(g, x, m.beta, m.threshold, grad_input=g),
    nn.Mish: lambda m, g, x, y: aten.mish_backward(g, x),
    nn.Hardtanh: lambda m, g, x, y: aten.hardtanh_backward(g, x, m.min_val, m.max_val, grad_input=g),
    nn.Hardswish: lambda m, g, x, y: aten.hardswish_backward(g, x),
    nn.LogSigmoid: lambda m, g, x, y: g.mul_(torch.sigmoid(-x)),
}
"""The functions that a stack may have, and their slopes."""

INTO: dict[type[nn.Module], Callable[[Tensor, Tensor], Tensor]] = {
    nn.ReLU: lambda x, out: torch.clamp_min(x, 0, out=out),
    nn.Tanh: lambda x, out: torch.tanh(x, out=out),
}
"""(input, where the output goes) -> output, for the functions that can write into given memory."""


OVER: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {
    nn.ReLU: torch.relu_,
    nn.SiLU: lambda x: nn.functional.silu(x, inplace=True),
    nn.Tanh: torch.tanh_,
    nn.Sigmoid: torch.sigmoid_,
}
"""The functions that can write over their input, which costs half of what new memory does."""


@dataclass(frozen=True)
class Affine:
    """A Linear layer: where its weight and bias are among the layout's parameters."""

    weight: int
    bias: int | None


@dataclass(frozen=True)
class Pointwise:
    module: nn.Module
    slope: Slope | None


Step: TypeAlias = Affine | Pointwise


@dataclass(frozen=True)
class Stack:
    """A network as layers in order, and what is done to its inputs before the first of them, once for all copies."""

    steps: list[Step]
    before: nn.Module | None = None

    def inputs(self, x: Tensor) -> Tensor:
        """(batch, features) that the first layer sees."""
        return x if self.before is None else self.before(x.flatten(1))


class Space:
    """Memory that is lent again and again for what lies between a network's layers, and for the gradient."""

    def __init__(self) -> None:
        self._works: dict[tuple[int, int, torch.dtype], Work] = {}
        self._theta: tuple[Tensor, list[Tensor]] | None = None
        self._inputs: tuple[Tensor, Tensor] | None = None

    def inputs(self, stack: Stack, x: Tensor) -> Tensor:
        """What the first layer sees of x; of the same tensor again it is made once."""
        if stack.before is None:
            return x
        if self._inputs is None or self._inputs[0] is not x:
            self._inputs = x, stack.inputs(x)
        return self._inputs[1]

    def work(self, steps: list[Step], layout: Layout, theta: Tensor, rows: int) -> Work:
        """The blocks for so many networks and rows, with whatever was written there before."""
        key = len(theta), rows, theta.dtype
        if key not in self._works:
            self._works[key] = Work.of(steps, layout, theta, rows)
        return self._works[key]

    def parameters(self, layout: Layout, theta: Tensor) -> list[Tensor]:
        """The parts of theta, a view each (copies, *shape); of the same memory they are made once."""
        if self._theta is None or not _same_memory(self._theta[0], theta):
            self._theta = theta, _views(layout, theta)
        return self._theta[1]


def _same_memory(a: Tensor, b: Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()


def _views(layout: Layout, theta: Tensor) -> list[Tensor]:
    """The parts of theta (copies, P), a view each: (copies, *shape)."""
    parts = torch.split_with_sizes(theta, layout.sizes, -1)
    return [part.view(-1, *entry.shape) for part, entry in zip(parts, layout.entries, strict=True)]


@dataclass(frozen=True)
class Work:
    """Memory for one gradient: (copies, features, batch) each, by the number of the step that writes it."""

    values: dict[int, Tensor]
    gates: dict[int, Tensor]
    slopes: dict[int, Tensor]
    gradient: Tensor
    """(copies, P)"""
    parts: list[Tensor]
    """Of the gradient, a view each: (copies, *shape)."""
    one: Tensor

    @classmethod
    def of(cls, steps: list[Step], layout: Layout, theta: Tensor, rows: int) -> Work:
        values: dict[int, Tensor] = {}
        gates: dict[int, Tensor] = {}
        slopes: dict[int, Tensor] = {}
        shape = (len(theta), 0, rows)
        for i, step in enumerate(steps):
            if isinstance(step, Affine):
                if i:
                    slopes[i] = theta.new_empty(shape)
                shape = (len(theta), layout.entries[step.weight].shape[0], rows)
                values[i] = theta.new_empty(shape)
            elif step.slope is None or type(step.module) in INTO:
                values[i] = theta.new_empty(shape)
                if step.slope is None:
                    gates[i] = theta.new_empty(shape)
        gradient = theta.new_empty(len(theta), layout.size)
        return cls(values, gates, slopes, gradient, _views(layout, gradient), theta.new_ones(()))


def plan(network: nn.Module, layout: Layout) -> Stack | None:
    """`network` as a stack of layers; None if it is not one, or not all of it is trainable."""
    if len({id(p) for p in network.parameters()}) != sum(
        1 for _ in network.named_parameters(remove_duplicate=False)
    ):
        return None  # tied parameters
    where = {name: i for i, name in enumerate(layout.names)}
    steps: list[Step] = []
    before: nn.Module | None = None
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
        elif kind is NormalScores and before is None and not steps:
            before = module
        else:
            return None
    return Stack(steps, before) if steps and isinstance(steps[0], Affine) else None


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


def output(steps: list[Step], layout: Layout, theta: Tensor, x: Tensor) -> Tensor:
    """What the networks theta (copies, P) put out for a shared minibatch x: (copies, batch, features)."""
    parts = _views(layout, theta)
    h = x.flatten(1).mT
    for step in steps:
        if isinstance(step, Affine):
            h = _affine(step, parts, h)
        elif h.requires_grad:
            h = step.module(h)
        else:  # the layer before has made it, and nobody else sees it
            h = OVER.get(type(step.module), step.module)(h)
    return h.mT


def outputs(steps: list[Step], layout: Layout, theta: Tensor, x: Tensor, space: Space) -> list[Tensor]:
    """What every step gives: (copies, features, batch) each, from theta (copies, P) and a shared minibatch x.

    The last one is the network's output; the others are what `gradient` needs. They hold until `space` is used again.
    """
    parts, work = space.parameters(layout, theta), space.work(steps, layout, theta, len(x))
    out: list[Tensor] = []
    h = x.flatten(1).mT
    for i, step in enumerate(steps):
        if isinstance(step, Affine):
            h = _affine(step, parts, h, work.values[i])
        elif step.slope is None:
            gate = torch.sigmoid(h, out=work.gates[i])
            h = torch.mul(h, gate, out=work.values[i])
        elif (into := INTO.get(type(step.module))) is not None:
            h = into(h, work.values[i])
        else:
            # not in place, even if the module says so: its input may be needed for the gradient
            h = step.module(h.clone() if getattr(step.module, "inplace", False) else h)
        out.append(h)
    return out


def _affine(step: Affine, parts: list[Tensor], h: Tensor, into: Tensor | None = None) -> Tensor:
    """The layer's output (copies, features, batch) for h, which is (features, batch) where all copies share it."""
    w, bias = parts[step.weight], None if step.bias is None else parts[step.bias]
    if h.ndim == 3:
        return torch.bmm(w, h, out=into) if bias is None else torch.baddbmm(bias.unsqueeze(2), w, h, out=into)
    flat = None if into is None else into.view(-1, h.shape[1])
    w = w.reshape(-1, h.shape[0])
    z = torch.mm(w, h, out=flat) if bias is None else torch.addmm(bias.reshape(-1, 1), w, h, out=flat)
    return z.view(len(parts[step.weight]), -1, h.shape[1])


def gradient(
    steps: list[Step],
    layout: Layout,
    theta: Tensor,
    x: Tensor,
    seen: list[Tensor],
    by_out: Tensor,
    space: Space,
) -> Tensor:
    """The gradient by theta (copies, P) of a function whose gradient by the output is `by_out` (copies, batch,
    features), which is spent; `seen` are the `outputs` in `space`, where the gradient is too until it is used again.
    """
    parts, work = space.parameters(layout, theta), space.work(steps, layout, theta, len(x))
    x, slope = x.flatten(1), by_out.mT
    for i in range(len(steps) - 1, -1, -1):
        step = steps[i]
        if not isinstance(step, Affine):
            slope = _through(step, i, slope, seen, work)
            continue
        by_weight = work.parts[step.weight]
        if step.bias is not None:
            torch.sum(slope, 2, out=work.parts[step.bias])
        if i == 0:
            by_weight.copy_(torch.mm(slope.reshape(-1, len(x)), x).view_as(by_weight))
        else:
            torch.bmm(slope, seen[i - 1].mT, out=by_weight)
            slope = torch.bmm(parts[step.weight].mT, slope, out=work.slopes[i])
    return work.gradient


def _through(step: Pointwise, i: int, slope: Tensor, seen: list[Tensor], work: Work) -> Tensor:
    """The gradient by the input of step `i`, which is elementwise, written over that by its output."""
    if step.slope is None:
        gate = work.gates[i]
        # y + gate (1 - y), for y = x gate
        return slope.mul_(torch.lerp(seen[i], work.one, gate, out=gate))
    return step.slope(step.module, slope, seen[i - 1], seen[i])
