"""How well chains have mixed: split R-hat and the effective number of draws (Gelman et al., BDA3; Geyer
1992).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cbdl.bayes.train import Record


@dataclass
class ChainsRecord(Record):
    """A record with what the chains say about themselves."""

    rhat: Tensor = field(default_factory=lambda: torch.empty(0))
    """Split R-hat of every parameter (members, P); symmetric networks have several modes and large values."""
    ess: Tensor = field(default_factory=lambda: torch.empty(0))
    """Effective number of draws of every parameter (members, P)."""


def split(chains: Tensor) -> Tensor:
    """Every chain as two halves: (..., chains, draws, P) -> (..., 2 chains, draws // 2, P)."""
    half = chains.shape[-2] // 2
    return torch.cat([chains[..., :half, :], chains[..., -half:, :]], -3)


def rhat(chains: Tensor) -> Tensor:
    """Split R-hat of every coordinate: (..., chains, draws, P) -> (..., P); 1 is mixed, NaN: under 4 draws."""
    if chains.shape[-2] < 4:
        return torch.full_like(chains[..., 0, 0, :], math.nan, dtype=torch.float64)
    parts = split(chains.double())
    n = parts.shape[-2]
    within = parts.var(-2).mean(-2)
    between = parts.mean(-2).var(-2)
    ratio = ((n - 1) / n + between / within).sqrt()
    # a coordinate that does not move at all, the same in every chain, has nothing left to mix
    return torch.where(within + between == 0, torch.ones_like(ratio), ratio)


def ess(chains: Tensor) -> Tensor:
    """The effective number of draws of every coordinate: (..., chains, draws, P) -> (..., P).

    Autocorrelations by FFT over split chains, summed by Geyer's initial monotone sequence; at most n log10 n.
    """
    if chains.shape[-2] < 4:
        return torch.full_like(chains[..., 0, 0, :], math.nan, dtype=torch.float64)
    parts = split(chains.double())
    m, n = parts.shape[-3], parts.shape[-2]
    centred = parts - parts.mean(-2, keepdim=True)
    spectrum = torch.fft.rfft(centred, 2 * n, dim=-2)
    autocovariance = torch.fft.irfft(spectrum.abs().square(), 2 * n, dim=-2)[..., :n, :].mean(-3) / n
    within = autocovariance[..., :1, :] * n / (n - 1)
    between = parts.mean(-2).var(-2).unsqueeze(-2)
    rho = 1 - (within - autocovariance) / (within * (n - 1) / n + between)
    even = n // 2 * 2
    pairs: Tensor = rho[..., 0:even:2, :] + rho[..., 1:even:2, :]
    positive = (pairs > 0).long().cumprod(-2)
    pairs = pairs.cummin(-2).values * positive
    time = (2 * pairs.sum(-2) - 1).clamp_min(1 / math.log10(max(m * n, 11)))
    return m * n / time
