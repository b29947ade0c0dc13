"""Densities of Normal mixtures on even grids, for integrals.

The Fourier transform of a mixture of Normals is below rounding beyond the frequency BAND / s, s the smallest scale: a
grid with steps of pi s / BAND knows all there is to know of its density, and two fast transforms give it on as fine a
grid as is asked for. On an even grid the sum of all values is the best of rules for functions that are analytic: its
error falls exponentially with the number of nodes. Sums over every second and every fourth node tell how large it is.

No exponential is taken but at every sixteenth node: from one node to the next exp(-z^2 / 2) is multiplied by a ratio,
which is itself multiplied by a constant. The densities are good to rounding of the highest one: enough for integrals,
not for tails. Sets that reach over too many of their smallest scales (more than MOST nodes) are for `mesh`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal.line.mixture import EPS, Extremes

BAND = 8.5
"""Frequencies up to BAND / s count, and places up to BAND scales from a location: exp(-BAND^2 / 2) is rounding."""

STEP = math.pi / BAND
"""Between the nodes of the coarsest grid, in units of the smallest scale."""

MOST = 32768
"""Nodes of the coarsest grid of a set at most."""

OVER = 2
"""Nodes for each one of the coarsest grid."""

_WIDER, _WORTH = 3.0, 0.7
"""Components so many times as wide as most are summed apart, if the others then need at most such a share of nodes."""

_BLOCK = 16
_CACHE = 1 << 23
"""Bytes of the terms of all components that are worked on at a time."""
_MEMORY = 1 << 24
"""Bytes of the densities of a group."""
_SPARE = 1 << 21
"""Terms that may be added to the sets of a group so that they are of one size with the next: calls cost as much."""


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
        transforms leave where there is no density counts with its logarithm over the whole grid.
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


def nodes(sets: Extremes) -> Tensor:
    """(B,): how many nodes the coarsest grids of the sets have, rounded up to few sizes."""
    low, high, smallest = reach(sets)
    count = ((high - low) / smallest * (BAND / math.pi)).clamp_max(1e9)
    power = torch.exp2(count.clamp_min(2 * _BLOCK).log2().floor())
    # Steps of a quarter, in whole blocks.
    part = power / 4
    size = ((count / part).ceil() * part / _BLOCK).ceil() * _BLOCK
    return size.to(torch.int64).clamp_min(4 * _BLOCK)


def on_even_grids(
    function: Callable[[EvenGrid], tuple[Tensor, ...]], sets: Extremes, size: Tensor, over: int = OVER
) -> tuple[Tensor, ...]:
    """`function(grid)` for all sets, with `size` (B,) nodes times `over`; every output is (b, ...)."""
    where: list[Tensor] = []
    parts: list[tuple[Tensor, ...]] = []
    for N, rows in _groups(size, _SPARE // (over * sets.loc[0].numel())):
        for some in torch.split(rows, max(1, _MEMORY // (8 * over * N * sets.m))):
            parts.append(function(even_grid(sets[some], N, over)))
            where.append(some)
    back = torch.cat(where).argsort()
    return tuple(torch.cat(column)[back] for column in zip(*parts, strict=True))


def _groups(size: Tensor, spare: int) -> Iterator[tuple[int, Tensor]]:
    """Sizes with the rows that get them: few rows get the next size, if that adds no more than `spare` nodes."""
    sizes = torch.unique(size).tolist()
    taken = torch.zeros_like(size, dtype=torch.bool)
    for N, larger in zip(sizes, [*sizes[1:], None], strict=True):
        here = (size <= N) & ~taken
        rows = here.nonzero()[:, 0]
        if larger is None or len(rows) * (larger - N) > spare:
            taken |= here
            yield N, rows


def even_grid(sets: Extremes, N: int, over: int = OVER) -> EvenGrid:
    """The extremes of sets on grids of N * over nodes."""
    low, _, smallest = reach(sets)
    step = STEP
    there = sets.weights > 0
    # A component that is not there may lie anywhere, where its ratios would overflow.
    loc = torch.where(there, sets.loc - low[:, None, None], 0.0)
    scale = torch.where(there, sets.scale, smallest[:, None, None])
    unit = smallest[:, None, None] / scale
    first, each, height = -loc / scale, step * unit, sets.weights * unit / math.sqrt(2 * math.pi)
    wide = _wide(sets)
    start, count = _window(sets, ~wide, low, step * smallest, N)
    if count > _WORTH * N:
        p = _on_nodes(first, each, height, N)
    else:
        p = _on_nodes(first[..., wide], each[..., wide], height[..., wide], N)
        first, each, height = (x[..., ~wide] for x in (first, each, height))
        inner = _on_nodes(torch.addcmul(first, each, start[:, None, None].to(each)), each, height, count)
        place = start[:, None] + torch.arange(count, device=start.device)
        p.scatter_add_(2, place[:, None].expand_as(inner), inner)
    if over > 1:
        p = torch.fft.irfft(torch.fft.rfft(p), n=N * over).mul_(over).clamp_min_(0)
    return EvenGrid(p, smallest.new_full((len(sets),), step / over), smallest)


def _wide(sets: Extremes) -> Tensor:
    """(M,): which components are much wider than most others in some set, as the tails of predictives are."""
    typical = sets.scale.flatten(1).median(-1).values
    return (sets.scale > _WIDER * typical[:, None, None]).flatten(0, 1).any(0)


def _window(sets: Extremes, some: Tensor, low: Tensor, step: Tensor, N: int) -> tuple[Tensor, int]:
    """(B,) the nodes at which some of the components begin to count, and how many nodes do from there on."""
    if bool(some.all()) or not bool(some.any()):
        return torch.zeros_like(low, dtype=torch.int64), N
    least, most, _ = reach(Extremes(*(x[..., some] for x in (sets.loc, sets.scale, sets.weights))))
    # Where none of them is there, none has to be looked at.
    least, most = (torch.where(torch.isfinite(x), x, low) for x in (least, most))
    start, end = ((least - low) / step).floor(), ((most - low) / step).ceil()
    count = min(N, (int((end - start).amax()) // _BLOCK + 1) * _BLOCK)
    return start.to(torch.int64).clamp(0, N - count), count


def _on_nodes(first: Tensor, step: Tensor, height: Tensor, N: int) -> Tensor:
    """(B, m, N): the sums of all components, a few sets and nodes at a time."""
    size = first[0].numel()
    chunk = max(1, _CACHE // (8 * N * size))
    rows = max(_BLOCK, _CACHE // (8 * chunk * size) // _BLOCK * _BLOCK)
    p = first.new_empty(*first.shape[:2], N)
    for i in range(0, len(first), chunk):
        some = slice(i, i + chunk)
        for n in range(0, N, rows):
            count = min(rows, N - n)
            p[some, :, n : n + count] = _sums(first[some], step[some], height[some], n, count)
    return p


def _sums(first: Tensor, step: Tensor, height: Tensor, start: int, count: int) -> Tensor:
    """(B, m, count): sum_k height_k exp(-z_k^2 / 2), z_k = first_k + n step_k for n from `start` on; all (B, m, M)."""
    step = step[:, :, None]
    n = torch.arange(start, start + count, _BLOCK, dtype=torch.float64, device=first.device)
    z = torch.addcmul(first[:, :, None], step, n[:, None])
    terms = z.new_empty(_BLOCK, *z.shape)
    torch.mul(z, z, out=terms[0]).mul_(-0.5).exp_().mul_(height[:, :, None])
    # Far to the left, where the terms are 0, the ratio would overflow.
    ratio = z.add_(step, alpha=0.5).mul_(step).neg_().clamp_max_(600).exp_()
    fall = step.square().neg_().exp_()
    for k in range(1, _BLOCK):
        torch.mul(terms[k - 1], ratio, out=terms[k])
        ratio.mul_(fall)
    M = terms.shape[-1]
    sums = (terms.view(-1, M) @ terms.new_ones(M)).view(terms.shape[:-1])
    return sums.permute(1, 2, 3, 0).reshape(*first.shape[:2], count)


def reach(sets: Extremes) -> tuple[Tensor, Tensor, Tensor]:
    """(B,) each: from where to where the components of a set reach, and the smallest scale."""
    loc, scale = sets.loc, sets.scale
    if len(sets) and bool(sets.weights.amin() > 0):  # all of them are there: fewer passes over memory
        low = torch.add(loc, scale, alpha=-BAND).flatten(1).amin(-1)
        return low, torch.add(loc, scale, alpha=BAND).flatten(1).amax(-1), scale.flatten(1).amin(-1)
    there = sets.weights > 0
    low = torch.where(there, loc - BAND * scale, math.inf).flatten(1).amin(-1)
    high = torch.where(there, loc + BAND * scale, -math.inf).flatten(1).amax(-1)
    return low, high, torch.where(there, scale, math.inf).flatten(1).amin(-1)
