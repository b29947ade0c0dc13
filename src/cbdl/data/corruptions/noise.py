"""Noise of sensors and transmission. Severity 0 to 4; x (n, c, h, w) between 0 and 1."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cbdl.data.corruptions.fields import normal, uniform


def gaussian_noise(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Normal noise of the same size everywhere."""
    return x + (0.06, 0.10, 0.15, 0.21, 0.28)[severity] * normal(source, *x.shape)


def shot_noise(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Counts of photons: Poisson, the brighter the noisier."""
    photons = (150, 70, 35, 18, 9)[severity]
    numpys = np.random.default_rng(int(torch.randint(2**62, (), generator=source)))
    return torch.from_numpy(numpys.poisson((x * photons).numpy())).to(x) / photons


def speckle_noise(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Normal noise in proportion to the brightness."""
    return x + (0.12, 0.20, 0.30, 0.42, 0.56)[severity] * x * normal(source, *x.shape)


def impulse_noise(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """A share of the pixels is black or white."""
    u = uniform(source, *x.shape)
    share = (0.02, 0.05, 0.09, 0.15, 0.23)[severity]
    return torch.where(u < share / 2, 0.0, torch.where(u > 1 - share / 2, 1.0, x))
