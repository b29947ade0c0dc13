"""Drawn over or redrawn: dotted lines, zigzags, stripes, edges. Severity 0 to 4; x (n, c, h, w) between 0 and 1."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from cbdl.data.corruptions.fields import blur, grid, uniform, unit


def _along(x: Tensor, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """(n, h, w) twice: how far along and how far beside a random line through the image every pixel is, in pixels."""
    n, (h, w) = len(x), x.shape[-2:]
    angle = uniform(source, n, 1, 1, high=math.pi)
    offset = uniform(source, n, 1, 1, low=-0.25, high=0.25) * min(h, w)
    row, column = grid(x)
    row, column = row - (h - 1) / 2, column - (w - 1) / 2
    return column * angle.cos() + row * angle.sin(), row * angle.cos() - column * angle.sin() - offset


def _drawn(x: Tensor, stroke: Tensor) -> Tensor:
    """x under white strokes (n, h, w) between 0 and 1."""
    return torch.maximum(x, stroke.unsqueeze(1).to(x))


def dotted_line(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """One line of dots per step of severity."""
    for _ in range(severity + 1):
        along, beside = _along(x, source)
        half, period = 0.6 * unit(x), 3.2 * unit(x)
        line = (half + 0.5 - beside.abs()).clamp(0, 1)
        dots = (1.5 * torch.cos(2 * math.pi * along / period) + 0.5).clamp(0, 1)
        x = _drawn(x, line * dots)
    return x


def zigzag(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """One zigzag per step of severity."""
    for _ in range(severity + 1):
        along, beside = _along(x, source)
        period, height = 7.0 * unit(x), 2.2 * unit(x)
        wave = height * (4 * ((along / period) % 1 - 0.5).abs() - 1)
        # the distance to a slope of 4 height / period is shorter than that measured across
        steep = math.sqrt(1 + (4 * height / period) ** 2)
        x = _drawn(x, (0.6 * unit(x) + 0.5 - (beside - wave).abs() / steep).clamp(0, 1))
    return x


def stripe(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """A vertical band in which black is white."""
    share = (0.10, 0.18, 0.27, 0.37, 0.48)[severity]
    w = x.shape[-1]
    middle = uniform(source, len(x), 1, 1, 1, low=0.4, high=0.6) * w
    column = torch.arange(w, dtype=x.dtype) + 0.5
    inside = ((column - middle).abs() <= share * w / 2).expand(-1, *x.shape[1:])
    return torch.where(inside, 1 - x, x)


def canny_edges(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """The image gives way to its edges (Canny's), at last to them alone."""
    share = (0.25, 0.45, 0.65, 0.83, 1.0)[severity]
    return (1 - share) * x + share * edges(x.mean(1, keepdim=True)).to(x)


LOW, HIGH = 0.08, 0.2
"""Slopes of brightness per pixel: above HIGH an edge, above LOW an edge if it is connected to one."""


def edges(x: Tensor) -> Tensor:
    """(n, 1, h, w): 1 at edges of grey images, 0 elsewhere: thin ridges of the slope, followed while they are weak."""
    soft = blur(x, 1.0 * unit(x))
    padded = F.pad(soft, (1, 1, 1, 1), mode="replicate")
    sobel = x.new_tensor([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8 * unit(x)
    across, down = (F.conv2d(padded, k[None, None]) for k in (sobel, sobel.T))
    slope = (across.square() + down.square()).sqrt()
    # the two neighbours in the direction of the slope, of four
    sector = ((torch.atan2(down, across) / (math.pi / 4)).round().long() % 4).squeeze(1)
    wide = F.pad(slope, (1, 1, 1, 1))
    h, w = x.shape[-2:]
    steps = ((0, 1), (1, 1), (1, 0), (1, -1))
    pairs = [
        torch.maximum(*(wide[:, 0, 1 + s * r : 1 + s * r + h, 1 + s * c : 1 + s * c + w] for s in (1, -1)))
        for r, c in steps
    ]
    beside = torch.stack(pairs, -1).gather(-1, sector.unsqueeze(-1)).squeeze(-1).unsqueeze(1)
    ridge = slope * (slope >= beside)
    strong, weak = ridge > HIGH / 2, ridge > LOW / 2
    for _ in range(max(h, w)):
        grown = (F.max_pool2d(strong.to(x), 3, 1, 1) > 0) & weak
        if torch.equal(grown, strong):
            break
        strong = grown
    return strong.to(x)
