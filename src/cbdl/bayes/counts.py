"""Counts as classes: Poisson probabilities of 0, 1, ..., cap - 1, and of everything from cap on, in bounded memory.

With all draws' rates below the cap's, the last class has next to no mass. Where rates are so large that the classes
would not fit into memory, the cap is lower and the last class says honestly how much lies beyond.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from cbdl.ground import memory

TAIL = 1e-9
"""Counts beyond this upper tail of every draw share the last class, if memory allows so many classes."""
LOW, HIGH = -80.0, 40.0
"""Bounds of a log rate that is described: rates of 1.8e-35 to 2.4e17 are numbers in float32, 0 and inf are none."""


def poisson_log_density(y: Tensor, log_rate: Tensor) -> Tensor:
    """log P(N = y). Beyond a log rate of 40 the rate goes on linearly, so that values and slopes stay finite."""
    bounded = log_rate.clamp(max=HIGH)
    rate = bounded.exp() * (1 + (log_rate - bounded))
    return y * log_rate - rate - torch.lgamma(y + 1)


def poisson_entropy(rate: Tensor) -> Tensor:
    """The entropy of Poisson counts (...), in nats: summed up to a rate of 30, beyond that by its asymptotic series,
    which is then good to 1e-6.

    >>> poisson_entropy(torch.tensor([0.0, 1.0, 1e6], dtype=torch.float64))
    tensor([0.0000, 1.3048, 8.3267], dtype=torch.float64)
    """
    large = rate.clamp_min(30.0)
    inverse = 1 / large
    series = 0.5 * (2 * math.pi * math.e * large).log()
    series = series - inverse / 12 - inverse.square() / 24 - 19 * inverse**3 / 360
    few = rate.clamp(max=30.0)
    total = torch.zeros_like(few)
    for n in range(90):  # P(N >= 90) < 1e-17 at a rate of 30
        log_p = torch.xlogy(few.new_tensor(float(n)), few) - few - math.lgamma(n + 1)
        total = total - torch.where(log_p > -700, log_p * log_p.exp(), 0.0)
    return torch.where(rate > 30, series, total)


def count_cap(largest_rate: float, answers: int, max_memory: int | None = None) -> int:
    """How many counts get a class of their own, if `answers` distributions are to be held.

    As many as the tail asks for (Chernoff: P(N >= r + t) <= exp(-t^2 / (2 (r + t / 3)))), at most as many as an eighth
    of the memory limit holds, at least one.
    """
    bound = -2 * math.log(TAIL)
    wanted = math.ceil(largest_rate + bound / 6 + math.sqrt((bound / 6) ** 2 + bound * largest_rate)) + 1
    return max(1, min(wanted, memory.limit(max_memory) // (64 * max(1, answers)) - 1))


def count_probabilities(rate: Tensor, cap: int) -> Tensor:
    """(...) -> (..., cap + 1): P(N = 0), ..., P(N = cap - 1), P(N >= cap) under Poisson(rate), in float64.

    Rates from 0 on. A probability is exp of a sum whose terms may be large: its relative error is about 1e-16 times
    rate log(rate).

    >>> count_probabilities(torch.tensor([0.0, 1.0]), 2)
    tensor([[1.0000, 0.0000, 0.0000],
            [0.3679, 0.3679, 0.2642]], dtype=torch.float64)
    """
    from scipy.special import gammainc  # takes long to import, and few need it

    rate = rate.double().unsqueeze(-1)
    n = torch.arange(cap, dtype=torch.float64, device=rate.device)
    p = (torch.xlogy(n, rate) - rate - torch.lgamma(n + 1)).exp()
    # P(N >= cap) = P(Gamma(cap) <= rate), without a difference of nearly equal numbers; torch's own is good to 1e-9
    tail = torch.from_numpy(np.asarray(gammainc(cap, rate.cpu().numpy())))
    return torch.cat([p, tail.to(rate.device)], -1)


def count_mixtures(rate: Tensor, weights: Tensor, cap: int, max_memory: int | None = None) -> Tensor:
    """(rows, m, W, cap + 1): `count_probabilities` averaged over draws with each of W weightings.

    rate (m, draws, rows), weights (W, draws) that sum to 1. Beyond the answer, an eighth of the memory limit is used.
    """
    if rate.ndim != 3:
        raise ValueError("counts with several outputs have no credal set yet; use predict_samples")
    m, draws, rows = rate.shape
    weights = weights.double().to(rate.device)
    # four tensors of this size live at a time
    size = max(1, memory.limit(max_memory) // (8 * 4 * 8 * (cap + 1)))
    some = max(1, min(draws, size // m))
    few = max(1, size // (m * some))
    out = torch.zeros(rows, m, weights.shape[0], cap + 1, dtype=torch.float64)
    for a in range(0, rows, few):
        for d in range(0, draws, some):
            probs = count_probabilities(rate[:, d : d + some, a : a + few], cap)
            out[a : a + few] += torch.einsum("wd,mdrj->rmwj", weights[:, d : d + some], probs).cpu()
    return out
