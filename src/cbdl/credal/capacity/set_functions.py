"""Set functions on n outcomes as vectors of length 2^n: transforms, convexity, the Choquet integral, events.

Bit i of the index says whether outcome i is in the event. Tensors (..., 2^n), float64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._border import ArrayLike, check_finite, first, float64, place

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


def hits(masses: Tensor) -> Tensor:
    """sum of masses[B] over the events B that meet A: 1 - zeta(masses) of the complement, without cancellation."""
    meet, miss = torch.zeros_like(masses), masses.clone(memory_format=torch.contiguous_format)
    for i in range(masses.shape[-1].bit_length() - 1):
        (meet_0, meet_1), (miss_0, miss_1) = split(meet, i), split(miss, i)
        # Bit i is now that of A: B with i meets an A with i, and changes nothing for an A without.
        meet = joined(meet_0 + meet_1, meet_0 + (meet_1 + miss_1), i)
        miss = joined(miss_0 + miss_1, miss_0, i)
    return meet


def joined(without: Tensor, with_i: Tensor, i: int) -> Tensor:
    """The inverse of `split`."""
    shape = (*without.shape[:-1], -1, 1 << i)
    return torch.stack([without.reshape(shape), with_i.reshape(shape)], -2).flatten(-3)


def grown(table: Tensor) -> Tensor:
    """The largest value of the parts of each event: the smallest monotone set function above `table`."""
    out = table.clone(memory_format=torch.contiguous_format)
    for i in range(out.shape[-1].bit_length() - 1):
        parts = out.view(*out.shape[:-1], -1, 2, 1 << i)
        torch.maximum(parts[..., 1, :], parts[..., 0, :], out=parts[..., 1, :])
    return out


def convexity(table: Tensor, n: int, slack: float = 0.0) -> Tensor:
    """(...,): min over A, i, j of v(A+i+j) + v(A) - v(A+i) - v(A+j) + slack |v(A+i+j)|; infinity for one outcome."""
    least = torch.full(table.shape[:-1], torch.inf, dtype=table.dtype, device=table.device)
    for i in range(n):
        without, with_i = split(table, i)
        gain = with_i - without
        for j in range(i, n - 1):  # outcome j + 1 is bit j once bit i is gone
            none, both = split(gain, j)
            room = slack * split(with_i, j)[1].abs() if slack else 0.0
            least = torch.minimum(least, (both - none + room).amin(-1))
    return least


def choquet(table: Tensor, f: Tensor) -> Tensor:
    """The Choquet integral; a sum of numbers >= 0 if f is, so that small values keep their digits."""
    ordered, order = f.sort(dim=-1, descending=True, stable=True)
    chain = (1 << order).cumsum(-1)
    batch = torch.broadcast_shapes(table.shape[:-1], f.shape[:-1])  # type: ignore[no-untyped-call]
    value = table.expand(*batch, -1).gather(-1, chain.expand(*batch, -1))
    step = ordered - torch.cat([ordered[..., 1:], torch.zeros_like(ordered[..., :1])], -1)
    # A mean of the values of f, also after rounding.
    return (value * step).sum(-1).clamp(ordered[..., -1], ordered[..., 0])


def outcomes(table: Tensor, name: str) -> int:
    check_finite(table, name)
    size = table.shape[-1] if table.ndim else 0
    if size < 2 or size & (size - 1):
        raise ValueError(
            f"{name} has shape {tuple(table.shape)}; the last length must be 2^n, a value an event"
        )
    return few_outcomes(size.bit_length() - 1, name)


def checked(table: Tensor, name: str, tolerance: float) -> Tensor:
    """A capacity: 0 for the empty event, 1 for the whole space, no less for an event than for its parts.

    What misses by no more than `tolerance` is set right; else a ValueError that names the event.
    """
    ends = torch.stack([table[..., 0], table[..., -1] - 1], -1).abs() > tolerance
    if ends.any():
        where = first(ends)[:-1]
        raise ValueError(
            f"{place(name, where)} begins with {table[(*where, 0)]:g} and ends with {table[(*where, -1)]:g}; the empty "
            "event has 0 and the whole space 1"
        )
    for i in range(table.shape[-1].bit_length() - 1):
        part, event = split(table, i)
        falls = event < part - tolerance
        if falls.any():
            *at, k = first(falls)
            small = (k >> i << i + 1) | (k & (1 << i) - 1)
            raise ValueError(
                f"{place(name, tuple(at))} gives the outcomes {_members(small | 1 << i)} {event[(*at, k)]:g}, less "
                f"than their part {_members(small)}, which has {part[(*at, k)]:g}; a capacity grows with the event: "
                "raise a lower probability to the largest of its parts (its core stays as it is), or lower an upper "
                "one to the least of the events around it"
            )
    table = grown(table).clamp(0, 1)
    table[..., 0], table[..., -1] = 0.0, 1.0
    return table


def _members(event: int) -> list[int]:
    return [i for i in range(event.bit_length()) if event >> i & 1]


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
