"""Large batches in bounded memory: the same computation on slices of the leading dimension."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

MEMORY = 1 << 27
"""Bytes of working memory that one chunk may use."""


def in_chunks(
    function: Callable[..., tuple[Tensor, ...]], *tensors: Tensor, per_set: int, memory: int = MEMORY
) -> tuple[Tensor, ...]:
    """`function(*tensors)`, on slices of dimension 0 small enough that `per_set` bytes each fit in `memory`.

    `function` treats every set alone, so the slices change nothing in the answer. Trailing shapes of its
    outputs may not depend on the slice.
    """
    size = max(1, memory // max(1, per_set))
    total = tensors[0].shape[0]
    if total <= size:
        return function(*tensors)
    parts = [function(*(t[i : i + size] for t in tensors)) for i in range(0, total, size)]
    return tuple(torch.cat(column) for column in zip(*parts, strict=True))
