"""Moved images: rotate, scale, shear, translate. Severity 0 to 4; x (n, c, h, w) between 0 and 1."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cbdl.data.corruptions.fields import blur, grid, outside_of, sampled, uniform


def _signs(source: torch.Generator, n: int) -> Tensor:
    return uniform(source, n).round() * 2 - 1


def _mapped(x: Tensor, matrix: Tensor, shift: Tensor) -> Tensor:
    """x with the pixel at p, from the middle, taken from matrix p + shift: (n, 2, 2) and (n, 2) in rows and columns."""
    row, column = grid(x)
    middle = [(k - 1) / 2 for k in x.shape[-2:]]
    here = torch.stack([row - middle[0], column - middle[1]])
    there = torch.einsum("nij,jhw->nihw", matrix, here) + shift[:, :, None, None]
    return sampled(x, there[:, 0] + middle[0], there[:, 1] + middle[1], outside_of(x))


def _entries(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    return torch.stack([torch.stack([a, b], -1), torch.stack([c, d], -1)], -2)


def rotate(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """By an angle, to either side."""
    angle = _signs(source, len(x)) * math.radians((12, 21, 31, 43, 57)[severity])
    turn = _entries(angle.cos(), -angle.sin(), angle.sin(), angle.cos())
    return _mapped(x, turn, torch.zeros(len(x), 2))


def scale(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Smaller, about the middle."""
    shrink = 1 / (0.86, 0.74, 0.63, 0.53, 0.44)[severity]
    factor, zero = torch.full((len(x),), shrink), torch.zeros(len(x))
    # what is finer than the new pixels is smoothed away first
    x = blur(x, 0.4 * math.sqrt(shrink**2 - 1))
    return _mapped(x, _entries(factor, zero, zero, factor), torch.zeros(len(x), 2))


def shear(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Rows are shifted against each other, to either side."""
    lean = _signs(source, len(x)) * (0.18, 0.34, 0.50, 0.68, 0.90)[severity]
    zero, one = torch.zeros(len(x)), torch.ones(len(x))
    return _mapped(x, _entries(one, zero, lean, one), torch.zeros(len(x), 2))


def translate(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """By a share of the size, in any direction."""
    far = (0.06, 0.10, 0.15, 0.20, 0.26)[severity] * min(x.shape[-2:])
    angle = uniform(source, len(x), high=2 * math.pi)
    one, zero = torch.ones(len(x)), torch.zeros(len(x))
    shift = far * torch.stack([angle.sin(), angle.cos()], -1)
    return _mapped(x, _entries(one, zero, zero, one), shift)
