"""A start for the smallest region of coverage, when alpha is near 1, from a linear programme over cells of the line.

With the line cut into cells, the region of least length is the programme

    minimise sum_i a_i  subject to  sum_i (P_j(cell i) / |cell i|) a_i >= 1 - alpha for all j,  0 <= a_i <= |cell i|,

a_i the length taken of each cell. It knows which peaks to use, which no step from one region to the next can be sure
of. Of a cell that is taken in part the part around its highest point counts for more than the rest, so there the line
is cut again; widths of 1e-9 are reached in a few programmes.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cbdl.credal.line.ends import Ends, ends_of
from cbdl.credal.line.intervals import padded, union
from cbdl.credal.line.mesh import lexicographic, two_sum
from cbdl.credal.line.mixture import Extremes

TINY = 1e-300


def taken(
    sets: Extremes, alpha: float, cuts: tuple[Tensor, Tensor]
) -> tuple[Ends, Tensor, tuple[Tensor, Tensor]] | None:
    """Of one set: the region, the prices (1, m), and the cuts (N,) with those that make it better next time.

    None if no choice of cells covers enough, or the programme cannot be solved.
    """
    from scipy.optimize import linprog  # takes long to import, and few need it

    high, low = cuts
    start, end = (high[:-1], low[:-1]), (high[1:], low[1:])
    length = (end[0] - start[0]) + (end[1] - start[1])
    owner = torch.zeros_like(length, dtype=torch.int64)
    density = sets.interval_masses(owner, start, end) / length[:, None]
    unit = float(((1 - alpha) / density.amax(0)).sum())
    answer = linprog(
        np.ones(len(length)),
        -density.T.numpy() * (unit / (1 - alpha)),
        -np.ones(sets.m),
        bounds=np.stack([np.zeros(len(length)), (length / unit).clamp_max(1e6).numpy()], -1),
    )
    if answer.status != 0:
        return None
    prices = torch.tensor(-answer.ineqlin.marginals[None], dtype=torch.float64) * (unit / (1 - alpha))
    prices = torch.maximum(prices, 1e-30 * prices.amax())
    amount = torch.tensor(answer.x, dtype=torch.float64) * unit
    used = (amount > 1e-9 * unit).nonzero()[:, 0]
    whole = amount[used] > (1 - 1e-7) * length[used]
    left, right = _parts(sets, prices, (start[0][used], start[1][used]), length[used], amount[used])
    left, right = torch.where(whole, 0.0, left), torch.where(whole, length[used], right)
    ends = [two_sum(start[0][used], start[1][used] + x) for x in (left, right)]
    return ends_of(union(padded(owner[used], ends[0], ends[1], 1))), prices, _joined(cuts, *ends)


def _parts(
    sets: Extremes, prices: Tensor, start: tuple[Tensor, Tensor], length: Tensor, amount: Tensor
) -> tuple[Tensor, Tensor]:
    """Where in its cell the part of each amount around the highest point of q begins and ends."""
    q, owner = sets.pooled(prices), torch.zeros_like(length, dtype=torch.int64)
    low, high = torch.zeros_like(length), length.clone()
    for _ in range(50):
        middle = 0.5 * (low + high)
        rising = q.at(owner, start[0], start[1] + middle)[1] > 0
        low, high = torch.where(rising, middle, low), torch.where(rising, high, middle)
    left = torch.minimum((low - 0.5 * amount).clamp_min(0), length - amount)
    return left, left + amount


def _joined(cuts: tuple[Tensor, Tensor], *more: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    high, low = torch.cat([cuts[0], *(p[0] for p in more)]), torch.cat([cuts[1], *(p[1] for p in more)])
    high, low = two_sum(high, low)
    order = lexicographic(high[None], low[None])[0]
    high, low = high[order], low[order]
    new = torch.ones_like(high, dtype=torch.bool)
    new[1:] = (high[1:] - high[:-1]) + (low[1:] - low[:-1]) > 0
    return high[new], low[new]
