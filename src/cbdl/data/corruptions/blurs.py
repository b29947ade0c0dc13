"""Blurs: a lens out of focus, a moving camera, frosted glass. Severity 0 to 4; x (n, c, h, w) between 0 and 1."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from cbdl.data.corruptions.fields import blur, disk, grid, magnifying, separable, smeared, uniform, unit


def gaussian_blur(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """A soft lens."""
    return blur(x, (0.5, 0.8, 1.1, 1.5, 2.0)[severity] * unit(x))


def defocus_blur(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Every point becomes a disk."""
    return disk(x, (0.9, 1.3, 1.7, 2.2, 2.8)[severity] * unit(x))


def motion_blur(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """The camera moved along a line, in a direction of its own for every image."""
    length = torch.full((len(x),), (2.5, 4.0, 5.5, 7.5, 10.0)[severity] * unit(x))
    return smeared(x, length, uniform(source, len(x), high=math.pi))


def zoom_blur(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """The camera moved towards the middle: the mean of magnified images."""
    factors = torch.linspace(1, (1.08, 1.15, 1.23, 1.32, 1.44)[severity], 7).tolist()
    total = x.clone()
    for factor in factors[1:]:
        total += separable(x, partial(magnifying, factor=factor))
    return total.div_(len(factors))


def glass_blur(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Frosted glass: pixels are taken from places near by, then a soft lens."""
    far = (0.7, 1.0, 1.4, 1.9, 2.5)[severity] * unit(x)
    n, c, h, w = x.shape
    rows, columns = (
        (p + uniform(source, n, h, w, low=-far, high=far)).round().clamp(0, k - 1).long()
        for p, k in zip(grid(x), (h, w), strict=True)
    )
    place = (rows * w + columns).view(n, 1, -1).expand(-1, c, -1)
    return blur(x.reshape(n, c, -1).gather(-1, place).view(n, c, h, w), 0.4 * unit(x))
