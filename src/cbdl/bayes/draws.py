"""Base draws for prediction: common to all members of a cohort, in antithetic pairs, each a function of its number.

Monte Carlo noise must not pass for ignorance. Members that share their base draws differ by what they learned,
not by luck; a pair (eps, -eps) cancels the odd part of the error. Draw i depends on (seed, i) only, so that 40
draws begin with the same 20, and more can be added later.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ._random import generator


def common_normal(seed: int, draws: int, size: int, *, like: Tensor, start: int = 0) -> Tensor:
    """Standard Normal numbers (draws, size): draws number start, ..., start + draws - 1 of the stream `seed`.

    They have the device and the type of `like`.

    >>> both = common_normal(0, 4, 3, like=torch.zeros(()))
    >>> bool((both[0] == -both[1]).all() and (both[2] == -both[3]).all())
    True
    >>> later = common_normal(0, 3, 3, like=torch.zeros(()), start=1)
    >>> torch.equal(later, both[1:])
    True
    """
    first, last = start // 2, (start + draws + 1) // 2
    out = torch.empty((last - first, 2, size), device=like.device, dtype=like.dtype)
    for row, pair in enumerate(range(first, last)):
        source = generator(like.device, seed, "pair", pair)
        torch.randn(size, generator=source, out=out[row, 0])
    torch.neg(out[:, 0], out=out[:, 1])
    return out.view(-1, size)[start - 2 * first :][:draws]
