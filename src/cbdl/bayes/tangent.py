"""Networks made linear in their parameters around a point: f(x, mode) + J(x) (theta - mode).

J(x) (theta - mode) is one derivative along a direction (forward mode), for all members and draws at once; no Jacobian
is formed.
"""

from __future__ import annotations

import warnings
from functools import cache

import torch
from torch import Tensor
from torch.func import functional_call, jvp, vmap

from .forward import Buffers, Forward, plain_attention


def linearised(forward: Forward, mode: Tensor, theta: Tensor, x: Tensor, buffers: Buffers) -> Tensor:
    """mode (members, P), theta (members, draws, P), x (batch, ...) -> (members, draws, batch, *out), in evaluation
    mode.
    """
    _load()
    network, constants, layout = forward.network, forward.constants, forward.layout
    network.eval()
    moves = theta - mode.unsqueeze(1)

    def one(own: Tensor, moves: Tensor, kept: Buffers) -> Tensor:
        def outputs(parameters: Tensor) -> Tensor:
            state = {**constants, **layout.view(parameters), **kept}
            out: Tensor = functional_call(network, state, (x,))
            return out

        def along(move: Tensor) -> Tensor:
            there: Tensor = jvp(outputs, (own,), (move,))[1]
            return there

        steps = torch.stack([along(m) for m in moves]) if forward.way == "loop" else vmap(along)(moves)
        return outputs(own) + steps

    with torch.no_grad(), plain_attention():
        if forward.way == "loop":
            members = range(len(mode))
            return torch.stack(
                [one(mode[i], moves[i], {n: b[i] for n, b in buffers.items()}) for i in members]
            )
        batched: Tensor = vmap(one)(mode, moves, buffers)
        return batched


def refusal(forward: Forward, mode: Tensor, x: Tensor, buffers: Buffers) -> str | None:
    """Why a network cannot be made linear, tried on one row; None if it can."""
    first = {n: b[:1] for n, b in buffers.items()}
    try:
        linearised(forward, mode[:1], mode[:1].unsqueeze(1), x[:1], first)
    except (RuntimeError, NotImplementedError) as error:
        return str(error).strip().splitlines()[0][:160]
    return None


@cache
def _load() -> None:
    """The first derivative along a direction makes torch compile its rules for them, and warn of its own compiler."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        jvp(torch.sin, (torch.zeros(1),), (torch.zeros(1),))
