"""What corruptions are made of: blurs, moved pixels, random fields. Batches of images (n, c, h, w) between 0 and 1.

Lengths are in pixels of an image of 32 x 32 and grow with the size, so that a severity means the same on every size.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def unit(x: Tensor) -> float:
    """What one pixel of a 32 x 32 image is in pixels of x."""
    return min(x.shape[-2:]) / 32


def uniform(source: torch.Generator, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
    return low + (high - low) * torch.rand(shape, generator=source)


def normal(source: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=source)


def blur(x: Tensor, sigma: float) -> Tensor:
    """x after a Gaussian of `sigma` pixels of x itself, one axis after the other; edges are repeated."""
    if sigma <= 0.05:
        return x
    radius = max(1, math.ceil(3 * sigma))
    t = torch.arange(-radius, radius + 1, dtype=x.dtype)
    kernel = torch.exp(-0.5 * (t / sigma) ** 2)
    kernel = kernel / kernel.sum()
    return _convolved(_convolved(x, kernel.view(1, 1, -1, 1)), kernel.view(1, 1, 1, -1))


def disk(x: Tensor, radius: float) -> Tensor:
    """x after a disk of `radius` pixels of x itself, whose edge is antialiased."""
    reach = math.ceil(radius)
    fine = torch.linspace(-reach - 0.5, reach + 0.5, 8 * (2 * reach + 1) + 1, dtype=x.dtype)
    fine = (fine[1:] + fine[:-1]) / 2
    inside = (fine[:, None] ** 2 + fine**2 <= radius**2).to(x)
    kernel = F.avg_pool2d(inside[None, None], 8)
    return _convolved(x, kernel / kernel.sum())


def _convolved(x: Tensor, kernel: Tensor) -> Tensor:
    n, c, h, w = x.shape
    down, right = kernel.shape[-2] // 2, kernel.shape[-1] // 2
    padded = F.pad(x.reshape(n * c, 1, h, w), (right, right, down, down), mode="replicate")
    return F.conv2d(padded, kernel.to(x)).view(n, c, h, w)


def grid(x: Tensor) -> tuple[Tensor, Tensor]:
    """(h, w) twice: the row and the column of every pixel."""
    rows, columns = (torch.arange(k, dtype=x.dtype) for k in x.shape[-2:])
    row, column = torch.meshgrid(rows, columns, indexing="ij")
    return row, column


def sampled(x: Tensor, row: Tensor, column: Tensor, outside: str = "border") -> Tensor:
    """x at other places, bilinear: row and column (n, h, w) in pixels. `outside`: "border", "reflection", "zeros"."""
    h, w = x.shape[-2:]
    places = torch.stack([(2 * column + 1) / w - 1, (2 * row + 1) / h - 1], -1)
    return F.grid_sample(x, places, mode="bilinear", padding_mode=outside, align_corners=False)


def smeared(x: Tensor, length: Tensor, angle: Tensor) -> Tensor:
    """x moved along a line of `length` pixels of x (n,) in direction `angle` (n,): the mean over the way, centred."""
    steps = max(3, 2 * math.ceil(float(length.max())) + 1)
    row, column = grid(x)
    total = torch.zeros_like(x)
    for t in torch.linspace(-0.5, 0.5, steps).tolist():
        down, right = (t * length * f(angle) for f in (torch.sin, torch.cos))
        total += sampled(x, row + down[:, None, None], column + right[:, None, None])
    return total / steps


def outside_of(x: Tensor) -> str:
    """What lies beyond the edge: nothing around grey digits, the mirror image around photographs."""
    return "zeros" if x.shape[1] == 1 else "reflection"


def fractal(source: torch.Generator, x: Tensor, roughness: float = 0.5) -> Tensor:
    """(n, 1, h, w) between 0 and 1: clouds, sums of noise of ever finer grain, each `roughness` times the last."""
    n, _, h, w = x.shape
    field, weight = torch.zeros(n, 1, h, w, dtype=x.dtype), 1.0
    cells = 2
    while cells <= max(h, w):
        noise = uniform(source, n, 1, cells + 1, cells + 1).to(x)
        field += weight * F.interpolate(noise, size=(h, w), mode="bicubic", align_corners=True)
        cells, weight = 2 * cells, weight * roughness
    return stretched(field)


def stretched(field: Tensor) -> Tensor:
    """Each field (n, 1, h, w) from its least value, 0, to its largest, 1."""
    low, high = field.amin((-2, -1), keepdim=True), field.amax((-2, -1), keepdim=True)
    return (field - low) / (high - low).clamp_min(1e-12)
