"""Set functions on n outcomes as vectors of length 2^n: transforms, convexity, the Choquet integral, events.

Bit i of the index says whether outcome i is in the event. Tensors (..., 2^n), float64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._border import ArrayLike, check_finite, first, float64

MAX_OUTCOMES = 16
"""A capacity on n outcomes has 2^n values."""

Event = int | Sequence[int] | ArrayLike
"""An outcome, a list of outcomes, or a mask (n,)."""


def split(table: Tensor, i: int) -> tuple[Tensor, Tensor]:
    """The values of the events without and with outcome i, in the same order: (..., 2^(n-1)) twice."""
    parts = table.reshape(*table.shape[:-1], -1, 2, 1 << i)
    return parts[..., 0, :].flatten(-2), parts[..., 1, :].flatten(-2)


def zeta(masses: Tensor) -> Tensor:
    out = masses.clone(memory_format=torch.contiguous_format)
    for i in range(out.shape[-1].bit_length() - 1):
        parts = out.view(*out.shape[:-1], -1, 2, 1 << i)
        parts[..., 1, :] += parts[..., 0, :]
    return out


def moebius(table: Tensor) -> Tensor:
    out = table.clone(memory_format=torch.contiguous_format)
    for i in range(out.shape[-1].bit_length() - 1):
        parts = out.view(*out.shape[:-1], -1, 2, 1 << i)
        parts[..., 1, :] -= parts[..., 0, :]
    return out


def convexity(table: Tensor, n: int) -> Tensor:
    """(...,): min over A, i, j of v(A+i+j) + v(A) - v(A+i) - v(A+j); infinity for one outcome."""
    least = torch.full(table.shape[:-1], torch.inf, dtype=table.dtype, device=table.device)
    for i in range(n):
        without, with_i = split(table, i)
        gain = with_i - without
        for j in range(i, n - 1):  # outcome j + 1 is bit j once bit i is gone
            none, both = split(gain, j)
            least = torch.minimum(least, (both - none).amin(-1))
    return least


def choquet(table: Tensor, f: Tensor) -> Tensor:
    ordered, order = f.sort(dim=-1, descending=True, stable=True)
    chain = (1 << order).cumsum(-1)
    batch = torch.broadcast_shapes(table.shape[:-1], f.shape[:-1])  # type: ignore[no-untyped-call]
    value = table.expand(*batch, -1).gather(-1, chain.expand(*batch, -1))
    step = ordered - torch.cat([ordered[..., 1:], torch.zeros_like(ordered[..., :1])], -1)
    return (value * step).sum(-1)


def outcomes(table: Tensor, name: str) -> int:
    check_finite(table, name)
    size = table.shape[-1] if table.ndim else 0
    if size < 2 or size & (size - 1):
        raise ValueError(
            f"{name} has shape {tuple(table.shape)}; the last length must be 2^n, a value an event"
        )
    return few_outcomes(size.bit_length() - 1, name)


def few_outcomes(n: int, name: str) -> int:
    if n > MAX_OUTCOMES:
        raise ValueError(
            f"{name} has {n} outcomes, above {MAX_OUTCOMES}; merge some: a capacity has 2^n values"
        )
    return n


def event_mask(event: Event, n: int) -> Tensor:
    """(n,) bool."""
    x = float64(event, "event")
    kind = event.dtype if isinstance(event, Tensor) else np.asarray(event).dtype
    if kind in (torch.bool, np.bool_):
        if x.shape != (n,):
            raise ValueError(f"event is a mask of shape {tuple(x.shape)}; it must be ({n},)")
        return x.bool()
    out = torch.zeros(n, dtype=torch.bool)
    bad = ~((x >= 0) & (x < n) & (x == x.floor()))
    if bad.any():
        at = first(bad)
        raise ValueError(f"event{list(at)} is {x[at]:g}; outcomes are whole numbers from 0 to {n - 1}")
    out[x.long()] = True
    return out
