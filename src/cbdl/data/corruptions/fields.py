"""What corruptions are made of: blurs, moved pixels, random fields. Batches of images (n, c, h, w) between 0 and 1.

Lengths are in pixels of an image of 32 x 32 and grow with the size, so that a severity means the same on every size.
Whatever acts on rows and columns one after the other is a matrix for each, A x B': two products of small matrices for
the whole batch, much faster than a convolution or an interpolation of small images.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial

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


def separable(x: Tensor, matrix: Callable[[int], Tensor]) -> Tensor:
    """A x B' for every image, A and B being the matrices for its height and its width."""
    down, right = (matrix(k).to(x) for k in x.shape[-2:])
    # with the matrix on the right all images are one product
    return ((x @ right.T).mT @ down.T).mT


def blur(x: Tensor, sigma: float) -> Tensor:
    """x after a Gaussian of `sigma` pixels of x itself, one axis after the other; edges are repeated."""
    return x if sigma <= 0.05 else separable(x, lambda size: _gaussian(size, sigma))


@lru_cache(maxsize=32)
def _gaussian(size: int, sigma: float) -> Tensor:
    """(size, size): a Gaussian along one axis, cut off at three deviations."""
    radius = max(1, math.ceil(3 * sigma))
    t = torch.arange(-radius, radius + 1, dtype=torch.float64)
    kernel = torch.exp(-0.5 * (t / sigma) ** 2)
    return _banded(size, kernel / kernel.sum())


def _banded(size: int, kernel: Tensor) -> Tensor:
    """(size, size): a kernel (2 reach + 1,) along one axis; beyond the edge it is repeated."""
    reach = len(kernel) // 2
    place = (torch.arange(size)[:, None] + torch.arange(-reach, reach + 1)).clamp(0, size - 1)
    return torch.zeros(size, size, dtype=torch.float64).scatter_add_(1, place, kernel.expand(size, -1))


@lru_cache(maxsize=64)
def resampling(old: int, new: int, mode: str) -> Tensor:
    """(new, old): torch's interpolation along one axis; "bicubic" puts the first and last points onto the ends."""
    points = torch.eye(old, dtype=torch.float64)[:, None]
    if mode == "bicubic":
        # constant along the second axis, which the interpolation leaves as it is
        return F.interpolate(
            points[..., None].expand(-1, -1, -1, 2), (new, 2), mode=mode, align_corners=True
        )[:, 0, :, 0].T.contiguous()
    return F.interpolate(points, new, mode=mode)[:, 0].T.contiguous()


@lru_cache(maxsize=64)
def magnifying(size: int, factor: float) -> Tensor:
    """(size, size): the middle `factor` times as large, linear, along one axis; beyond the edge it is repeated."""
    middle = (size - 1) / 2
    place = (middle + (torch.arange(size, dtype=torch.float64) - middle) / factor).clamp(0, size - 1)
    low = place.floor().clamp_max(size - 1)
    share = place - low
    matrix = torch.zeros(size, size, dtype=torch.float64)
    matrix.scatter_add_(1, low.long()[:, None], 1 - share[:, None])
    return matrix.scatter_add_(1, (low.long() + 1).clamp_max(size - 1)[:, None], share[:, None])


def disk(x: Tensor, radius: float) -> Tensor:
    """x after a disk of `radius` pixels of x itself, whose edge is antialiased; edges of x are repeated.

    A disk is symmetric: a sum of few columns times the same row, each of which acts on one axis after the other.
    """
    if radius <= 0.1:  # nothing is wider than a pixel
        return x
    total = torch.zeros_like(x)
    for share, column in zip(*_disk(radius), strict=True):
        total += float(share) * separable(x, partial(_banded, kernel=column))
    return total


@lru_cache(maxsize=32)
def _disk(radius: float) -> tuple[Tensor, Tensor]:
    """Shares (terms,) and columns (terms, 2 reach + 1): the disk is the sum of share * column * column'."""
    reach = math.ceil(radius)
    fine = torch.linspace(-reach - 0.5, reach + 0.5, 8 * (2 * reach + 1) + 1, dtype=torch.float64)
    fine = (fine[1:] + fine[:-1]) / 2
    inside = (fine[:, None] ** 2 + fine**2 <= radius**2).double()
    kernel = F.avg_pool2d(inside[None, None], 8)[0, 0]
    shares, columns = torch.linalg.eigh(kernel / kernel.sum())
    seen = shares.abs() > 1e-5
    return shares[seen], columns.T[seen]


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
    reach = math.ceil(float(length.max()) / 2) + 1
    t = torch.linspace(-0.5, 0.5, 4 * reach + 1) * length[:, None]
    down, right = t * angle.sin()[:, None], t * angle.cos()[:, None]
    # Each point of the way is shared by the four pixels around it.
    size = 2 * reach + 1
    kernel = torch.zeros(len(x), size * size)
    row, column = (v + reach for v in (down, right))
    for r in (0, 1):
        for c in (0, 1):
            i, j = row.floor() + r, column.floor() + c
            share = (1 - (row - i).abs()).clamp_min(0) * (1 - (column - j).abs()).clamp_min(0)
            place = i.clamp(0, size - 1) * size + j.clamp(0, size - 1)
            kernel.scatter_add_(1, place.long(), share)
    kernel = (kernel / kernel.sum(-1, keepdim=True)).view(-1, 1, size, size)
    return _by_spectrum(x, kernel, reach)


def _by_spectrum(x: Tensor, kernel: Tensor, reach: int) -> Tensor:
    """x convolved with a kernel (n, 1, k, k) per image, by the Fourier transform; edges are repeated."""
    h, w = x.shape[-2:]
    padded = F.pad(x, (reach,) * 4, mode="replicate")
    size = list(padded.shape[-2:])  # what comes round from the other side stays within the margin
    product = torch.fft.rfft2(padded).mul_(torch.fft.rfft2(kernel.to(x), s=size))
    whole: Tensor = torch.fft.irfft2(product, s=size)
    return whole[..., 2 * reach : 2 * reach + h, 2 * reach : 2 * reach + w]


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
        field += weight * (_clouds(cells + 1, h).to(x) @ noise @ _clouds(cells + 1, w).to(x).T)
        cells, weight = 2 * cells, weight * roughness
    return stretched(field)


def _clouds(cells: int, size: int) -> Tensor:
    return resampling(cells, size, "bicubic")


def stretched(field: Tensor) -> Tensor:
    """Each field (n, 1, h, w) from its least value, 0, to its largest, 1."""
    low, high = field.amin((-2, -1), keepdim=True), field.amax((-2, -1), keepdim=True)
    return (field - low) / (high - low).clamp_min(1e-12)
