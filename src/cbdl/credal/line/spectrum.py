"""Densities of Normal mixtures on even grids, from their characteristic functions.

The Fourier transform of a mixture of Normals is a sum of bells exp(-i w mu_k - s_k^2 w^2 / 2), which are below rounding
beyond w = 8.5 / s for the smallest scale s: a set that reaches over L is known from F = 8.5 L / (2 pi s) frequencies,
many times fewer numbers than a quadrature needs, and one fast transform gives every extreme on as fine a grid as is
asked for. On an even grid the sum of all values is the best of rules for functions that are analytic: its error falls
exponentially with the number of nodes. Sums over every second and every fourth node tell how large it is.

The densities are good to rounding of the highest one: enough for integrals, not for tails. Sets that reach over too
many of their smallest scales (F above MOST) are for `mesh`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal.line.mixture import EPS, Extremes

BAND = 8.5
"""Frequencies up to BAND / s count, and places up to BAND scales from a location: exp(-BAND^2 / 2) is rounding."""

MOST = 16384
"""Frequencies of a set at most."""

OVER = 2
"""Nodes for each one that the frequencies ask for."""

_BLOCK = 16
_CACHE = 1 << 22
"""Bytes of the frequencies of all components of the sets that are worked on at a time."""
_MEMORY = 1 << 24
"""Bytes of the densities of a group."""


@dataclass(frozen=True)
class EvenGrid:
    """Densities of the extremes of B sets in units of their smallest scale, on even grids.

    p:    (B, m, N) scale * density, not below 0
    step: (B,) distance of nodes in units of the scale
    unit: (B,) the smallest scale
    """

    p: Tensor
    step: Tensor
    unit: Tensor

    @property
    def weight(self) -> Tensor:
        """(B, N): the weights of the nodes."""
        return self.step[:, None].expand(len(self.p), self.p.shape[-1])

    def entropy(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """(B, ...) twice: the entropy of densities q (B, ..., N) in nats, and an estimate of its error.

        With a difference d2 of the sums with half the nodes and all, and d4 of those with a quarter and half, the
        error of the full sum is d2 (d2 / d4)^2 if it falls exponentially; d2 (d2 / d4) is taken. Noise that the
        transform leaves where there is no density counts with its logarithm over the whole grid.
        """
        terms = q.clamp_min(torch.finfo(torch.float64).tiny).log_().mul_(q)
        extra = (1,) * (q.ndim - 2)
        step = self.step.view(-1, *extra)
        fours = terms.view(*q.shape[:-1], -1, 4).sum(-2)
        odd, even = fours[..., 1] + fours[..., 3], fours[..., 0] + fours[..., 2]
        full, half, quarter = step * (odd + even), 2 * step * even, 4 * step * fours[..., 0]
        fine, coarse = (full - half).abs(), (half - quarter).abs()
        error = fine * (fine / coarse.clamp_min(torch.finfo(torch.float64).tiny)).clamp_max(1)
        width = step * q.shape[-1]
        noise = EPS * (4 * full.abs() + 40 * width * q.amax(-1))
        return self.unit.log().view(-1, *extra) - full, error + noise


def frequencies(sets: Extremes) -> Tensor:
    """(B,): how many frequencies the sets need, rounded up to few sizes that are quick to transform."""
    low, high, smallest = _reach(sets)
    count = ((high - low) / smallest * (BAND / (2 * math.pi))).clamp_max(1e9)
    power = torch.exp2(count.clamp_min(_BLOCK).log2().floor())
    # Steps of a quarter, in whole blocks.
    part = power / 4
    size = ((count / part).ceil() * part / _BLOCK).ceil() * _BLOCK
    return size.to(torch.int64).clamp_min(2 * _BLOCK)


def on_even_grids(
    function: Callable[[EvenGrid], tuple[Tensor, ...]], sets: Extremes, size: Tensor, over: int = OVER
) -> tuple[Tensor, ...]:
    """`function(grid)` for all sets, with `size` (B,) frequencies; every output is (b, ...)."""
    where: list[Tensor] = []
    parts: list[tuple[Tensor, ...]] = []
    for F in torch.unique(size).tolist():  # a few sizes
        rows = (size == F).nonzero()[:, 0]
        for some in rows.split(max(1, _MEMORY // (16 * over * F * sets.m))):
            parts.append(function(even_grid(sets[some], F, over)))
            where.append(some)
    back = torch.cat(where).argsort()
    return tuple(torch.cat(column)[back] for column in zip(*parts, strict=True))


def even_grid(sets: Extremes, F: int, over: int = OVER) -> EvenGrid:
    """The extremes of sets on a grid of 2 F over nodes."""
    low, _, smallest = _reach(sets)
    chunk = max(1, _CACHE // (16 * F * sets.loc[0].numel()))
    spectrum = torch.cat(
        [
            _spectrum(sets[i : i + chunk], low[i : i + chunk], smallest[i : i + chunk], F)
            for i in range(0, len(sets), chunk)
        ]
    )
    nodes = 2 * F * over
    step = smallest.new_full((len(sets),), math.pi / (BAND * over))
    p = torch.fft.irfft(spectrum, n=nodes).mul_(BAND * over / math.pi).clamp_min_(0)
    return EvenGrid(p, step, smallest)


def _reach(sets: Extremes) -> tuple[Tensor, Tensor, Tensor]:
    """(B,) each: from where to where the components of a set reach, and the smallest scale."""
    there = sets.weights > 0
    low = torch.where(there, sets.loc - BAND * sets.scale, math.inf).flatten(1).amin(-1)
    high = torch.where(there, sets.loc + BAND * sets.scale, -math.inf).flatten(1).amax(-1)
    return low, high, torch.where(there, sets.scale, math.inf).flatten(1).amin(-1)


def _spectrum(sets: Extremes, low: Tensor, smallest: Tensor, F: int) -> Tensor:
    """(B, m, F): sum_k weight_k exp(-i w (loc_k - low) - scale_k^2 w^2 / 2) at w = 0, 1, ... times BAND / (F s).

    The bells are not evaluated but multiplied up, 16 frequencies in a row: the ratio of neighbours,
    exp(-i t - c (2 n + 1)), is itself multiplied by exp(-2 c) each time. Every row starts from its own exponentials.
    """
    B, m, M = sets.loc.shape
    spacing = (BAND / F / smallest)[:, None, None]
    flat = (B, 1, m * M)
    angle = ((sets.loc - low[:, None, None]) * spacing).view(flat)
    decay = (sets.scale * spacing).square().view(flat) * 0.5
    first = torch.arange(0, F, _BLOCK, dtype=torch.float64, device=low.device)[:, None]
    size = (-decay * first.square()).exp_().mul_(sets.weights.view(flat))
    out = low.new_empty(2, _BLOCK, B, len(first), m * M)
    torch.mul(size, (angle * first).cos_(), out=out[0, 0])
    torch.mul(size, (angle * first).sin_(), out=out[1, 0])
    ratio = (-decay * (2 * first + 1)).exp_()
    real, imaginary = ratio * angle.cos(), ratio * angle.sin()
    fall = (-2 * decay).exp_()
    for n in range(1, _BLOCK):
        a, b = out[0, n - 1], out[1, n - 1]
        torch.mul(a, real, out=out[0, n]).addcmul_(b, imaginary, value=-1)
        torch.mul(a, imaginary, out=out[1, n]).addcmul_(b, real)
        real.mul_(fall)
        imaginary.mul_(fall)
    sums = out.view(2, _BLOCK, B, len(first), m, M).sum(-1)
    real, imaginary = sums.permute(0, 2, 4, 3, 1).reshape(2, B, m, F)
    return torch.complex(real, -imaginary)
