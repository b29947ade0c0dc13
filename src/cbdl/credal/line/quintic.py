"""Log densities between nodes: polynomials of degree five through values, slopes and curvatures at both ends of a cell.

In cells of 0.6 scales they are good to about 1e-6. What is solved on them is a start from which one step on the
mixtures themselves, whose number of components does not matter until then, reaches full precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal.line.mixture import parabola_step

Node = tuple[Tensor, Tensor, Tensor]
"""At nodes: log p, its slope and its curvature."""

STEPS, PARABOLAS = 4, 3
"""Steps to a turning point by the slope, and to a crossing by parabolas, which cube the error."""


@dataclass(frozen=True)
class Quintic:
    """Polynomials in t from 0 to 1 along cells: coefficients of t^0 to t^5 (6, ...)."""

    coefficients: Tensor

    def __getitem__(self, rows: Tensor) -> Quintic:
        return Quintic(self.coefficients[:, rows])

    def at(self, t: Tensor) -> Node:
        """Value, slope and curvature at t, by t; all by one scheme of Horner."""
        rest = self.coefficients.unbind()
        value, first, half = rest[5], torch.zeros_like(t), torch.zeros_like(t)
        for c in reversed(rest[:5]):
            half = torch.addcmul(first, half, t)
            first = torch.addcmul(value, first, t)
            value = torch.addcmul(c, value, t)
        return value, first, 2 * half

    def value(self, t: Tensor) -> Tensor:
        """The value alone."""
        *rest, value = self.coefficients.unbind()
        for c in reversed(rest):
            value = torch.addcmul(c, value, t)
        return value

    def root(self, level: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """t from `low` to `high`, between which the polynomial is monotone, where it is about `level`."""
        a, b = self.value(low), self.value(high)
        t = low + (high - low) * ((level - a) / torch.where(a == b, 1.0, b - a)).clamp(0, 1)
        for _ in range(PARABOLAS):
            value, first, second = self.at(t)
            t = (t + parabola_step(value - level, first, second)).nan_to_num(0.5).clamp(low, high)
        return t

    def turn(self) -> Tensor:
        """t from 0 to 1 where the slope, whose sign changes along the cell, is about 0."""
        low = torch.zeros_like(self.coefficients[0])
        high = low + 1
        a, b = self.at(low)[1], self.at(high)[1]
        t = a / (a - b)
        for _ in range(STEPS):
            _, first, second = self.at(t)
            on = (first > 0) == (a > 0)
            low, high = torch.where(on, t, low), torch.where(on, high, t)
            step = t - first / second
            t = torch.where((step > low) & (step < high), step, 0.5 * (low + high))
        return t


def quintic(width: Tensor, left: Node, right: Node) -> Quintic:
    """The polynomials for cells with these values at their ends."""
    f, d, c = left[0], left[1] * width, 0.5 * width.square() * left[2]
    value = right[0] - f - d - c
    slope = right[1] * width - d - 2 * c
    bend = 0.5 * right[2] * width.square() - c
    third, fourth = 10 * value - 4 * slope + bend, -15 * value + 7 * slope - 2 * bend
    return Quintic(torch.stack([f, d, c, third, fourth, 6 * value - 3 * slope + bend]))


def mass(width: Tensor, left: Node, right: Node) -> Tensor:
    """The integral of a density over cells, from log p and its derivatives at both ends: exact to degree five."""
    p, q = left[0].exp(), right[0].exp()
    bends = p * (left[2] + left[1].square()) + q * (right[2] + right[1].square())
    return width * (0.5 * (p + q) + width * (0.1 * (p * left[1] - q * right[1]) + width / 120 * bends))
