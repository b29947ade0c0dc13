"""Kronecker-factored curvature: for each Linear and Conv2d layer (inputs a, derivatives g by its outputs)
A (x) G / N with A = sum_n a_n a_n^T and G = sum_n g_n^T g_n, a bias being the weight of an input that is 1.

The prior enters as D^(1/2) (A' (x) G' / N + I) D^(1/2) with D its precision, for which one precision a row
and one per column of the weight is exact (a scalar for the layer, fan-in, another one for the biases);
otherwise D is the product of its rows' and columns' geometric means. Positions that share a weight (time,
pixels) count as rows of their own. Parameters of other layers get the diagonal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap
from torch.nn import functional as F

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.flat import Layout
from cbdl.bayes.forward import Buffers
from cbdl.bayes.rows import TrainingData

from ._curvature import Part, budget, fisher_root, gauss_newton_diagonal, prior_precision


@dataclass(frozen=True)
class Layer:
    """A layer whose weight (and bias) is in the part: the shape of its output for one row."""

    name: str
    module: nn.Linear | nn.Conv2d
    bias: bool
    shape: tuple[int, ...]

    def inputs(self, x: Tensor) -> Tensor:
        """What the weight is multiplied with: one row's input (1, ...) -> (positions, inputs)."""
        if isinstance(self.module, nn.Conv2d):
            m = self.module
            size: Any = m.kernel_size
            x = F.unfold(x, size, dilation=m.dilation, padding=m.padding, stride=m.stride).mT  # type: ignore[arg-type]
        x = x.reshape(-1, x.shape[-1])
        return torch.cat([x, torch.ones_like(x[:, :1])], 1) if self.bias else x

    def outputs(self, g: Tensor) -> Tensor:
        """Derivatives (..., R, 1, *output) -> (..., R, positions, outputs)."""
        if isinstance(self.module, nn.Conv2d):
            return g.flatten(-2).squeeze(-3).mT
        return g.reshape(*g.shape[: g.ndim - len(self.shape)], -1, g.shape[-1])


def layers(cohort: Cohort, data: TrainingData, part: Part, buffers: Buffers) -> list[Layer]:
    """The layers of `part` that a Kronecker product serves: called once, with its weight in the part."""
    network, names = cohort.forward.network, set(part.layout.names)
    shapes: dict[str, list[tuple[int, ...]]] = {}
    modules = {n: m for n, m in network.named_modules() if _serves(m) and f"{n}.weight".lstrip(".") in names}
    hooks = [
        m.register_forward_hook(lambda _, __, out, n=n: shapes.setdefault(n, []).append(tuple(out.shape)))
        for n, m in modules.items()
    ]
    try:
        network.eval()
        network(data.held.x[:1])
    finally:
        for hook in hooks:
            hook.remove()
    return [
        Layer(n, m, f"{n}.bias".lstrip(".") in names, shapes[n][0])
        for n, m in modules.items()
        if len(shapes.get(n, [])) == 1
    ]


def _serves(module: nn.Module) -> bool:
    if type(module) is nn.Linear:
        return True
    return (
        type(module) is nn.Conv2d
        and module.groups == 1
        and module.padding_mode == "zeros"
        and not isinstance(module.padding, str)
    )


Rooted = Callable[
    [dict[str, Tensor], Tensor, Tensor, Buffers, Tensor], tuple[dict[str, Tensor], dict[str, Tensor]]
]
"""(nudges of the layers' outputs, theta, noise, buffers, rows) -> derivatives of the root of the Fisher information by
the nudges, and the layers' inputs."""


def _moments(
    cohort: Cohort, theta: Tensor, noise: Tensor, buffers: Buffers, data: TrainingData, chosen: list[Layer]
) -> dict[str, tuple[Tensor, Tensor]]:
    """A (members, inputs, inputs) and G (members, outputs, outputs) of every layer, float64."""
    cohort.forward.network.eval()
    nudge = {layer.name: theta.new_zeros(layer.shape) for layer in chosen}
    by_row = vmap(_rooted(cohort, data, chosen), in_dims=(None, None, None, None, 0))
    sums: dict[str, tuple[Tensor, Tensor]] = {}
    cost = sum(int(torch.Size(layer.shape).numel()) * 16 for layer in chosen)
    for batch in data.parts(max(1, min(512, budget() // (cost * theta.shape[0])))):
        weight = (batch.weight * data.size).expand(batch.x.shape[0]).sqrt()
        if cohort.forward.way == "loop":
            g, a = _one_by_one(by_row, nudge, theta, noise, buffers, batch.x)
        else:
            g, a = vmap(by_row, in_dims=(None, 0, 0, 0, None))(nudge, theta, noise, buffers, batch.x)
        for layer in chosen:
            left = (a[layer.name] * weight[:, None, None]).flatten(1, 2).double()
            right = (layer.outputs(g[layer.name]) * weight[:, None, None, None]).flatten(1, 3).double()
            both = (left.mT @ left, right.mT @ right)
            old = sums.get(layer.name)
            sums[layer.name] = both if old is None else (old[0] + both[0], old[1] + both[1])
    return sums


def _rooted(cohort: Cohort, data: TrainingData, chosen: list[Layer]) -> Rooted:
    """For one member and one row."""
    network, constants = cohort.forward.network, cohort.forward.constants

    def root(
        nudge: dict[str, Tensor], own: Tensor, q: Tensor, kept: Buffers, row: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        seen: dict[str, Tensor] = {}

        def hook(layer: Layer) -> Any:
            def tap(_: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> Tensor:
                seen[layer.name] = layer.inputs(given[0])
                return out + nudge[layer.name]

            return layer.module.register_forward_hook(tap)

        hooks = [hook(layer) for layer in chosen]
        try:
            state = {**constants, **cohort.layout.view(own), **kept}
            out = functional_call(network, state, (row.unsqueeze(0),))
        finally:
            for h in hooks:
                h.remove()
        event = data.held.y.shape[1:]
        return fisher_root(cohort.likelihood, out[None, None], q[None], event, cohort.unit)[0, 0, 0], seen

    rooted: Rooted = jacrev(root, has_aux=True)
    return rooted


def _one_by_one(
    by_row: Rooted, nudge: dict[str, Tensor], theta: Tensor, noise: Tensor, buffers: Buffers, x: Tensor
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """All members in turn, for networks that cannot be batched over them."""
    parts = [
        by_row(nudge, theta[i], noise[i], {n: b[i] for n, b in buffers.items()}, x)
        for i in range(theta.shape[0])
    ]
    g, a = ({n: torch.stack([p[side][n] for p in parts]) for n in nudge} for side in (0, 1))
    return g, a


def kronecker(
    cohort: Cohort, theta: Tensor, noise: Tensor, buffers: Buffers, data: TrainingData, part: Part
) -> tuple[dict[str, Tensor], Tensor]:
    """Factors of the posterior's spread by layer, and half the log determinant of its precision (members,).

    A layer's draw is left (eps * scale) right^T with eps (outputs, inputs) standard Normal.
    """
    chosen = layers(cohort, data, part, buffers)
    prior = part.layout.view(prior_precision(cohort, theta)[:, part.index])
    half = theta.new_zeros(theta.shape[0], dtype=torch.float64)
    spread: dict[str, Tensor] = {}
    sums = _moments(cohort, theta, noise, buffers, data, chosen) if chosen else {}
    for layer in chosen:
        a, g = sums[layer.name]
        positions = int(torch.Size(layer.shape).numel()) // g.shape[-1]
        a = a / (data.size * positions)
        log = _block(prior, layer).log()
        row = log.mean(2)
        column = log.mean(1) - log.mean((1, 2)).unsqueeze(1)
        up, down = (-0.5 * row).exp(), (-0.5 * column).exp()
        by_g, u = torch.linalg.eigh(g * up.unsqueeze(2) * up.unsqueeze(1))
        by_a, v = torch.linalg.eigh(a * down.unsqueeze(2) * down.unsqueeze(1))
        own = by_g.clamp_min(0).unsqueeze(2) * by_a.clamp_min(0).unsqueeze(1) + 1
        spread[f"{layer.name}|left"] = up.unsqueeze(2) * u
        spread[f"{layer.name}|right"] = down.unsqueeze(2) * v
        spread[f"{layer.name}|scale"] = own.rsqrt()
        half += 0.5 * (own.log().sum((1, 2)) + row.sum(1) * a.shape[-1] + column.sum(1) * g.shape[-1])
    rest = _rest(cohort, part, chosen)
    if rest is not None:
        own = gauss_newton_diagonal(cohort, theta, noise, buffers, data, rest)
        own += prior_precision(cohort, theta)[:, rest.index]
        spread["|rest"] = own.rsqrt()
        half += 0.5 * own.log().sum(1)
    return spread, half


def _names(layer: Layer) -> tuple[str, str]:
    return f"{layer.name}.weight".lstrip("."), f"{layer.name}.bias".lstrip(".")


def _block(named: dict[str, Tensor], layer: Layer) -> Tensor:
    """Weight and bias of a layer as one matrix (..., outputs, inputs)."""
    weight, bias = _names(layer)
    w = named[weight].flatten(2)
    return torch.cat([w, named[bias].unsqueeze(2)], 2) if layer.bias else w


def _rest(cohort: Cohort, part: Part, chosen: list[Layer]) -> Part | None:
    served = {n for layer in chosen for n in _names(layer)}
    left = [e for e in part.layout.entries if e.name not in served]
    if not left:
        return None
    parts = [Part.of(cohort.layout, e.name, part.index.device) for e in left]
    moved, start = [], 0
    for e in left:
        moved.append(type(e)(e.name, e.shape, start, e.fan_in))
        start += e.size
    return Part(Layout(tuple(moved)), torch.cat([p.index for p in parts]))


def spread_out(spread: dict[str, Tensor], layout: Layout, eps: Tensor) -> Tensor:
    """Standard Normal numbers (members, draws, p) -> draws with the spread's covariance, around 0."""
    return _through(spread, layout, eps, lambda x: x)


def deviations(spread: dict[str, Tensor], layout: Layout) -> Tensor:
    """Standard deviations of all coordinates (members, p): the squares of the factors act on variances of 1."""
    members = next(iter(spread.values())).shape[0]
    one = next(iter(spread.values())).new_ones(members, 1, layout.size)
    return _through(spread, layout, one, torch.square)[:, 0].sqrt()


def _through(
    spread: dict[str, Tensor], layout: Layout, x: Tensor, power: Callable[[Tensor], Tensor]
) -> Tensor:
    """x (members, draws, p) multiplied by the factors of every layer, each after `power`."""
    whole = layout.view(x)
    done: dict[str, Tensor] = {}
    for key in spread:
        name, _, kind = key.rpartition("|")
        if kind != "left":
            continue
        left, right, scale = (power(spread[f"{name}|{k}"]).unsqueeze(1) for k in ("left", "right", "scale"))
        weight, bias = f"{name}.weight".lstrip("."), f"{name}.bias".lstrip(".")
        w = whole[weight]
        block = w.flatten(3)
        with_bias = right.shape[-1] == block.shape[-1] + 1
        if with_bias:
            block = torch.cat([block, whole[bias].unsqueeze(3)], 3)
        block = left @ (block * scale) @ right.mT
        done[weight] = block[..., : w[0, 0, 0].numel()].reshape(w.shape)
        if with_bias:
            done[bias] = block[..., -1]
    if "|rest" in spread:
        sigma, start = power(spread["|rest"]), 0
        for e in [e for e in layout.entries if e.name not in done]:
            own = sigma[:, start : start + e.size].reshape(sigma.shape[0], 1, *e.shape)
            done[e.name] = whole[e.name] * own
            start += e.size
    return torch.cat([done[e.name].flatten(2) for e in layout.entries], 2)
