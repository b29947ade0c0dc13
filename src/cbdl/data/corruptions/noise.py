"""Noise of sensors and transmission. Severity 0 to 4; x (n, c, h, w) between 0 and 1."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from cbdl.data.corruptions.fields import normal, uniform


def gaussian_noise(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Normal noise of the same size everywhere."""
    return x + (0.06, 0.10, 0.15, 0.21, 0.28)[severity] * normal(source, *x.shape)


def shot_noise(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Counts of photons: Poisson, the brighter the noisier."""
    photons = (150, 70, 35, 18, 9)[severity]
    return _counts(x, photons, source).to(x) / photons


def _counts(x: Tensor, photons: int, source: torch.Generator) -> Tensor:
    """Poisson numbers of rate photons * x, x rounded to bytes: the inverse distribution function, from tables."""
    guide, below = _tables(photons)
    level = (255 * x).round().long().reshape(-1)
    u = uniform(source, level.numel())
    count = guide.view(-1).index_select(0, level * GUIDE + (u * GUIDE).long())
    at = level * below.shape[1] + count
    flat = below.view(-1)
    left = (flat.index_select(0, at) <= u).nonzero().squeeze(-1)
    while len(left):
        at[left] += 1
        left = left[flat.index_select(0, at[left]) <= u[left]]
    return (at - level * below.shape[1]).view(x.shape)


GUIDE = 1024
"""Places of the unit interval whose counts are looked up; from there one goes up."""


@lru_cache(maxsize=8)
def _tables(photons: int) -> tuple[Tensor, Tensor]:
    """By byte: the count at which the search begins (256, GUIDE), and P(count or fewer) (256, counts)."""
    rate = torch.arange(256, dtype=torch.float64)[:, None] * photons / 255
    counts = torch.arange(int(photons + 12 * photons**0.5 + 30), dtype=torch.float64)
    below = torch.special.gammaincc(counts + 1, rate)
    below[:, -1] = 1.0
    start = torch.arange(GUIDE, dtype=torch.float64).expand(256, -1).contiguous() / GUIDE
    return torch.searchsorted(below, start, right=True), below.float()


def speckle_noise(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Normal noise in proportion to the brightness."""
    return x + (0.12, 0.20, 0.30, 0.42, 0.56)[severity] * x * normal(source, *x.shape)


def impulse_noise(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """A share of the pixels is black or white."""
    u = uniform(source, *x.shape)
    share = (0.02, 0.05, 0.09, 0.15, 0.23)[severity]
    return torch.where(u < share / 2, 0.0, torch.where(u > 1 - share / 2, 1.0, x))
