"""How the networks of a cohort are evaluated: the one place that chooses between ways with the same results.

- `wide`: stacks of Linear and elementwise layers, one batched matrix product a layer over all members.
- `passes`: such stacks of few units, by compiled loops; for answers to large questions.
- `vmap`: any network that `torch.func.vmap` can batch over members and draws.
- `loop`: member after member; for convolutions on the CPU with channels-last memory (measured faster there
  than the grouped convolutions of vmap), for networks with randomness of their own (dropout), and for all
  that vmap refuses.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from cbdl.ground import memory

from . import passes, wide
from ._random import mix, seeded
from .flat import Layout

log = logging.getLogger("cbdl")

Way: TypeAlias = Literal["wide", "passes", "vmap", "loop"]
Buffers: TypeAlias = dict[str, Tensor]
"""Buffers of the network (running statistics), each (members, *shape)."""
Score: TypeAlias = Callable[[Tensor, Tensor, slice], Tensor]
"""(outputs (g, draws, batch, *out), noise (g, Q), which members) -> nll (g, draws): differentiable."""
Slope: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor] | None]
"""Outputs and noise of all members -> nll, its derivatives by outputs and by noise (g, draws, Q); None: not written."""
Weigh: TypeAlias = Callable[[Tensor, slice], Tensor]
"""(nll (g, draws), which members) -> weight of each draw in the gradient (g, draws)."""

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


@dataclass
class Forward:
    """Evaluates the networks of a cohort: theta (members, draws, P), x (batch, ...) -> (members, draws,
    batch, *out).
    """

    network: nn.Module
    layout: Layout
    constants: dict[str, Tensor]
    seeds: tuple[int, ...]
    """One per member; the source of a network's own randomness (dropout) in training."""
    way: Way = "loop"
    _stack: wide.Stack = field(default_factory=lambda: wide.Stack([]))

    @classmethod
    def choose(
        cls,
        network: nn.Module,
        layout: Layout,
        constants: dict[str, Tensor],
        seeds: tuple[int, ...],
        x: Tensor,
        way: Way | None = None,
    ) -> Forward:
        """The fastest way that works for this network; tried on a few rows x before it is trusted."""
        forward = cls(network, layout, constants, seeds)
        stack = wide.plan(network, layout) if x.ndim == 2 and x.is_floating_point() else None
        if way == "loop":
            return forward
        if stack is not None and way in (None, "wide"):
            forward.way, forward._stack = "wide", stack
        elif way == "wide":
            raise ValueError("this network is not a stack of Linear and elementwise layers")
        elif way is None and _prefers_loop(network, x.device):
            return forward
        else:
            forward.way = "vmap"
        reason = forward._refused(x)
        if reason is not None:
            if way is not None:
                raise ValueError(f"the way {way!r} does not work for this network: {reason}")
            log.info("%s cannot be batched (%s); its members are evaluated in a loop", _name(network), reason)
            forward.way = "loop"
        return forward

    @property
    def stack(self) -> wide.Stack | None:
        """The network as layers in order; None if it is evaluated in another way than `wide`."""
        return self._stack if self.way in ("wide", "passes") else None

    def answering(self, x: Tensor, theta: Tensor, work: int) -> Forward:
        """The same networks as they answer a question of so many rows times networks, which are like x and theta."""
        stack = self.stack
        if stack is None or x.dtype != theta.dtype or not passes.worth(stack.steps, self.layout, theta, work):
            return self
        return replace(self, way="passes")

    def __getstate__(self) -> dict[str, Any]:
        # the steps hold functions, which cannot be pickled; they follow from the network
        return {**self.__dict__, "_stack": wide.Stack([])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.way in ("wide", "passes"):
            self._stack = wide.plan(self.network, self.layout) or wide.Stack([])

    def __call__(self, theta: Tensor, x: Tensor, buffers: Buffers) -> Tensor:
        """Outputs in evaluation mode, without a gradient."""
        if self.stack is None:  # whose functions are the same in both modes
            self.network.eval()
        with torch.no_grad():
            return self._run(theta, x, buffers, slice(None), step=None)[0]

    def to(self, dtype: torch.dtype) -> Forward:
        """The same networks with their real numbers as `dtype`."""
        network = copy.deepcopy(self.network).to(dtype)
        stack = wide.plan(network, self.layout) if self.stack is not None else None
        constants = cast(self.constants, dtype)
        return replace(self, network=network, constants=constants, _stack=stack or self._stack)

    def rows(self, copies: int, x: Tensor) -> int:
        """How many rows of x so many networks evaluate at once: activations stay below a quarter of the limit."""
        if self.way == "loop":
            return 1024
        width = max((e.shape[0] for e in self.layout.entries if len(e.shape) > 1), default=1)
        places = max(1, x[:1].numel() // max(1, x.shape[-1])) if x.ndim > 2 else 1
        return max(16, min(1024, memory.limit() // 16 // (copies * width * places)))

    def gradient(
        self,
        theta: Tensor,
        noise: Tensor,
        x: Tensor,
        buffers: Buffers,
        score: Score,
        weigh: Weigh,
        step: int = 0,
        *,
        slope: Slope | None = None,
        training: bool = True,
        space: wide.Space | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One training step's nll (members, draws) and the gradients of (weight * nll).sum(draws).

        Returns nll, the gradient by theta (members, draws, P) and by noise (members, Q). `buffers` are
        updated in place (the mean over draws of what each draw would have left). With `training=False` the
        networks are in evaluation mode: no dropout, and the buffers stay as they are. `slope` are the score's
        derivatives, where they are written out; `space` is memory that may be written to, for who calls often.
        """
        if self.way == "wide":  # such a stack is the same in training and in evaluation
            return self._wide_gradient(theta, noise, x, score, weigh, slope, space)
        self.network.train(training)
        if self.way != "loop":
            return self._gradient(theta, noise, x, buffers, score, weigh, slice(None), step)
        # member after member: memory of one network's activations, whatever the number of members
        parts = [
            self._gradient(
                theta[i : i + 1], noise[i : i + 1], x, buffers, score, weigh, slice(i, i + 1), step
            )
            for i in range(theta.shape[0])
        ]
        nll, by_theta, by_noise = (torch.cat(p) for p in zip(*parts, strict=True))
        return nll, by_theta, by_noise

    def _wide_gradient(
        self,
        theta: Tensor,
        noise: Tensor,
        x: Tensor,
        score: Score,
        weigh: Weigh,
        slope: Slope | None,
        space: wide.Space | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As `_gradient`, with the network's part written out, and the score's where it has one."""
        members, draws, size = theta.shape
        flat, space = theta.detach().reshape(-1, size), space or wide.Space()
        with torch.no_grad():
            x = space.inputs(self._stack, x)
            seen = wide.outputs(self._stack.steps, self.layout, flat, x, space)
        out = _apart(seen[-1].mT, members, draws)
        if slope is not None:
            with torch.no_grad():
                slopes = slope(out, noise)
                if slopes is not None:
                    nll, by_out, by_noise = slopes
                    weight = weigh(nll, slice(None)).view(-1, 1, 1)
                    by_out = by_out.reshape_as(seen[-1].mT).mul_(weight)
                    by_theta = wide.gradient(self._stack.steps, self.layout, flat, x, seen, by_out, space)
                    by_noise = (by_noise * weight.view(members, draws, 1)).sum(1)
                    return nll, by_theta.view(members, draws, size), by_noise
        return self._wide_by_graph(flat, noise, x, score, weigh, seen, members, space)

    def _wide_by_graph(
        self,
        flat: Tensor,
        noise: Tensor,
        x: Tensor,
        score: Score,
        weigh: Weigh,
        seen: list[Tensor],
        members: int,
        space: wide.Space,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same for a score without written derivatives: autograd sees the score, not the network."""
        draws, size = flat.shape[0] // members, flat.shape[1]
        out = _apart(seen[-1].mT, members, draws).detach().requires_grad_()
        inputs = [out]
        if noise.numel() > 0:
            noise = noise.detach().requires_grad_()
            inputs.append(noise)
        with torch.enable_grad():
            nll = score(out, noise, slice(None))
            value = nll.detach()
            gradients = _weighted_gradients(nll, weigh(value, slice(None)).detach(), inputs)
        with torch.no_grad():
            by_out = gradients[0].reshape_as(seen[-1].mT)
            by_theta = wide.gradient(self._stack.steps, self.layout, flat, x, seen, by_out, space)
        by_noise = gradients[1] if len(gradients) > 1 else torch.zeros_like(noise)
        return value, by_theta.view(members, draws, size), by_noise

    def _gradient(
        self,
        theta: Tensor,
        noise: Tensor,
        x: Tensor,
        buffers: Buffers,
        score: Score,
        weigh: Weigh,
        rows: slice,
        step: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        theta = theta.detach().requires_grad_()
        noise = noise.detach().requires_grad_(noise.numel() > 0)
        with torch.enable_grad():
            out, after = self._run(theta, x, buffers, rows, step)
            nll = score(out, noise, rows)
            seen = nll.detach()
            inputs = [theta, noise] if noise.requires_grad else [theta]
            gradients = _weighted_gradients(nll, weigh(seen, rows).detach(), inputs)
        for name, value in after.items():
            buffers[name][rows] = value
        return seen, gradients[0], gradients[1] if noise.requires_grad else torch.zeros_like(noise)

    def _run(
        self, theta: Tensor, x: Tensor, buffers: Buffers, rows: slice, step: int | None
    ) -> tuple[Tensor, Buffers]:
        """Outputs and, in training (step given), the buffers that the call leaves."""
        members, draws, _ = theta.shape
        own = {name: b[rows] for name, b in buffers.items()}
        if self.stack is not None:
            output = passes.output if self.way == "passes" else wide.output
            out = output(self._stack.steps, self.layout, theta.flatten(0, 1), self._stack.inputs(x))
            return _apart(out, members, draws), {}
        if self.way == "vmap":
            return self._vmapped(theta, x, own, step is not None)
        return self._looped(theta, x, own, rows, step)

    def _vmapped(self, theta: Tensor, x: Tensor, own: Buffers, training: bool) -> tuple[Tensor, Buffers]:
        members, draws, _ = theta.shape
        parameters = self.layout.view(theta.flatten(0, 1))
        copies = {n: b.repeat_interleave(draws, 0) if draws > 1 else b.clone() for n, b in own.items()}

        def one(parameters: dict[str, Tensor], buffers: Buffers) -> tuple[Tensor, Buffers]:
            state = {**self.constants, **parameters, **buffers}
            out = functional_call(self.network, state, (x,))
            return out, {name: state[name] for name in buffers} if training else {}

        with plain_attention():
            out, after = vmap(one, randomness="error")(parameters, copies)
        after = {n: _over_draws(_apart(b, members, draws)) for n, b in after.items()}
        return _apart(out, members, draws), after

    def _looped(
        self, theta: Tensor, x: Tensor, own: Buffers, rows: slice, step: int | None
    ) -> tuple[Tensor, Buffers]:
        members, draws, _ = theta.shape
        x = _channels_last(x)
        outputs, left = [], []
        for i in range(members):
            for d in range(draws):
                state = {**self.constants, **self.layout.view(theta[i, d])}
                state.update({name: b[i].clone() if step is not None else b[i] for name, b in own.items()})
                seed = None if step is None else mix(self.seeds[(rows.start or 0) + i], "network", step, d)
                outputs.append(_seeded_call(self.network, state, x, seed))
                left.append({name: state[name].detach() for name in own} if step is not None else {})
        out = _apart(torch.stack(outputs), members, draws)
        after = {n: _over_draws(_apart(torch.stack([b[n] for b in left]), members, draws)) for n in left[0]}
        return out, after

    def _refused(self, x: Tensor) -> str | None:
        """Why the chosen way cannot be trusted with this network, or None: it must agree with the loop."""
        network = self.network
        two = self.layout.flatten(dict(network.named_parameters())).to(x.device)
        theta = torch.stack([two, two * 0.5 + 0.01]).unsqueeze(1)
        buffers = {n: torch.stack([b.detach(), b.detach()]).to(x.device) for n, b in network.named_buffers()}
        plain = Forward(network, self.layout, self.constants, self.seeds)
        try:
            with warnings.catch_warnings():
                # an operation that vmap only emulates, one element after the other, warns of it
                warnings.filterwarnings("error", "There is a performance drop")
                ours, truth = self(theta, x, buffers), plain(theta, x, buffers)
                if ours.shape != truth.shape or not _close(ours, truth):
                    return "its outputs differ from those of single networks"
                if x.shape[0] > 1:
                    network.train()
                    self._run(theta, x, buffers, slice(None), step=0)
        except (
            Exception
        ) as error:  # whatever a network of the user raises under vmap: the loop will show it if real
            return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:120] if str(error) else ''}"
        return None


def cast(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Named tensors with their real numbers as `dtype`."""
    return {n: t.to(dtype) if t.is_floating_point() else t for n, t in tensors.items()}


def _close(ours: Tensor, truth: Tensor) -> bool:
    return torch.allclose(ours, truth, rtol=1e-3, atol=1e-4, equal_nan=True)


@contextmanager
def plain_attention() -> Iterator[None]:
    """Attention without its fused kernels, which vmap cannot batch."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel([SDPBackend.MATH]):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _weighted_gradients(nll: Tensor, weight: Tensor, inputs: list[Tensor]) -> tuple[Tensor, ...]:
    """The gradients of sum(weight * nll). The same as `grad_outputs=weight`, for which torch imports sympy."""
    return torch.autograd.grad((weight * nll).sum(), inputs)


def _apart(x: Tensor, members: int, draws: int) -> Tensor:
    """(members * draws, ...) -> (members, draws, ...)"""
    return x.reshape(members, draws, *x.shape[1:])


def _over_draws(b: Tensor) -> Tensor:
    """Buffers (members, draws, *shape) after one call for each draw -> (members, *shape)."""
    if b.shape[1] == 1 or not b.is_floating_point():
        return b[:, 0].detach()
    return b.mean(1).detach()


def _seeded_call(network: nn.Module, state: dict[str, Tensor], x: Tensor, seed: int | None) -> Tensor:
    if seed is None:
        out: Tensor = functional_call(network, state, (x,))
        return out
    with seeded(seed, x.device):
        random: Tensor = functional_call(network, state, (x,))
    return random


def _prefers_loop(network: nn.Module, device: torch.device) -> bool:
    """Convolutions on the CPU are faster one after the other; dropout needs each member's own stream."""
    for module in network.modules():
        if device.type == "cpu" and isinstance(module, CONVOLUTIONS):
            return True
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0:
            return True
    return False


def _channels_last(x: Tensor) -> Tensor:
    if x.ndim == 4 and x.is_floating_point():
        return x.contiguous(memory_format=torch.channels_last)
    return x


def _name(network: nn.Module) -> str:
    return type(network).__name__
