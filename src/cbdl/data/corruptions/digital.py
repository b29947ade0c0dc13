"""What processing does to images: contrast, elastic, pixelate, jpeg, saturate. Severity 0 to 4; x between 0 and 1."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from cbdl.data.corruptions.fields import blur, grid, normal, outside_of, resampling, sampled, separable, unit


def contrast(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Less of it: towards the mean of every channel."""
    keep = (0.70, 0.52, 0.37, 0.25, 0.15)[severity]
    mean = x.mean((-2, -1), keepdim=True)
    return mean + keep * (x - mean)


def elastic(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Rubber: every pixel is moved by a smooth random field."""
    far = (0.6, 0.95, 1.35, 1.8, 2.4)[severity] * unit(x)
    moves = blur(normal(source, len(x), 2, *x.shape[-2:]), 3.0 * unit(x))
    moves = far * moves / moves.square().mean((-2, -1), keepdim=True).sqrt().clamp_min(1e-12)
    row, column = grid(x)
    return sampled(x, row + moves[:, 0], column + moves[:, 1], outside_of(x))


def pixelate(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Fewer and larger pixels; at first only half of them shows."""
    block, share = ((2.0, 0.55), (2.0, 1.0), (2.67, 1.0), (4.0, 1.0), (5.33, 1.0))[severity]

    def coarse(size: int) -> Tensor:
        few = max(1, round(size / (block * unit(x))))
        return resampling(few, size, "nearest-exact") @ resampling(size, few, "area")

    return x + share * (separable(x, coarse) - x)


def saturate(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Garish colours: saturation (1 - least / largest channel) times a factor, plus some."""
    if x.shape[1] != 3:
        raise ValueError("saturate needs colour images (n, 3, h, w); grey ones have no saturation")
    factor, more = ((1.6, 0.0), (2.2, 0.03), (3.2, 0.06), (5.0, 0.10), (9.0, 0.16))[severity]
    value, least = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    spread = (value - least).clamp_min(1e-6)
    now = spread / value.clamp_min(1e-6)
    then = (factor * now + more).clamp_max(1)
    # hue and value stay: the channels keep their order between the least and the largest
    return value - (value - x) / spread * then * value


# --- jpeg --------------------------------------------------------------------------------------------------

# The tables of the standard (ITU-T T.81, annex K) for brightness and colour at quality 50.
LIGHT = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
COLOUR = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *((99,) * 8,) * 4,
)
TO_YCC = ((0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312))


def jpeg(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Lossy compression: blocks of 8 x 8, their cosine transform rounded, colour at half the resolution."""
    return compressed(x, (45, 28, 18, 11, 6)[severity])


def compressed(x: Tensor, quality: int) -> Tensor:
    """x as a JPEG file of that quality would show it (without the file)."""
    scale = 5000 / quality if quality < 50 else 200 - 2 * quality
    light, colour = (((x.new_tensor(t) * scale + 50) / 100).floor().clamp(1, 255) for t in (LIGHT, COLOUR))
    if x.shape[1] == 1:
        return (_rounded(255 * x - 128, light) + 128) / 255
    to = x.new_tensor(TO_YCC)
    ycc = torch.einsum("ij,njhw->nihw", to, 255 * x)
    y = _rounded(ycc[:, :1] - 128, light) + 128
    h, w = x.shape[-2:]
    half = F.avg_pool2d(F.pad(ycc[:, 1:], (0, w % 2, 0, h % 2), mode="replicate"), 2)
    c = F.interpolate(_rounded(half, colour), scale_factor=2.0, mode="bilinear", align_corners=False)[
        ..., :h, :w
    ]
    back = torch.linalg.inv(to.double()).to(x)
    return torch.einsum("ij,njhw->nihw", back, torch.cat([y, c], 1)) / 255


def _rounded(x: Tensor, table: Tensor) -> Tensor:
    """x (n, c, h, w) after its 8 x 8 blocks were rounded in the cosine basis by the table (8, 8)."""
    h, w = x.shape[-2:]
    x = F.pad(x, (0, -w % 8, 0, -h % 8), mode="replicate")
    every = table.repeat(x.shape[-2] // 8, x.shape[-1] // 8)
    spectrum = (separable(x, _blocks) / every).round_() * every
    return separable(spectrum, lambda size: _blocks(size).T)[..., :h, :w]


@lru_cache(maxsize=8)
def _blocks(size: int) -> Tensor:
    """(size, size): the cosine transform of every 8 pixels along one axis."""
    return torch.kron(torch.eye(size // 8, dtype=torch.float64), _cosines())


def _cosines() -> Tensor:
    """(8, 8): the orthonormal cosine transform."""
    k = torch.arange(8, dtype=torch.float64)
    basis = torch.cos(math.pi * (2 * k + 1) * k[:, None] / 16) / 2
    basis[0] /= math.sqrt(2)
    return basis
