"""Normal mixtures at single points: log density, its derivatives, and masses of intervals.

A point is a pair (high, low) that stands for the exact sum of two float64 numbers, so that y - mu keeps its
digits when a narrow component sits far from zero. All evaluations are on flat lists: `owner` says to which
mixture of the batch a point belongs, so that mixtures with many crossings and with few share one pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from cbdl.credal._border import EPS as EPS

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_DEEP = 1e-290
"""Below this, relative to the highest component, a density is close to underflow."""

SHORT = 0.1
"""Intervals of so many scales, fewer far out, have no mass to speak of beside that of their tails."""
_ROOT = 2 * math.sqrt(10 / 7)
_GAUSS_NODES = [s * math.sqrt(5 + t * _ROOT) / 3 for s in (-1, 1) for t in (-1, 1)] + [0.0]
_GAUSS_WEIGHTS = [(322 - t * 13 * math.sqrt(70)) / 900 for _ in (-1, 1) for t in (-1, 1)] + [128 / 225]

Derivatives = tuple[Tensor, Tensor, Tensor]
"""log p, p' / p and p'' / p."""


@dataclass(frozen=True)
class Mixtures:
    """B mixtures of K Normals: sum_k weight_k N(loc_k, scale_k^2); the weights need not sum to 1.

    All (B, K).
    """

    loc: Tensor
    scale: Tensor
    weight: Tensor

    def __getitem__(self, rows: Tensor | slice) -> Mixtures:
        return Mixtures(self.loc[rows], self.scale[rows], self.weight[rows])

    def __len__(self) -> int:
        return self.loc.shape[0]

    @cached_property
    def height(self) -> Tensor:
        """(B, K): log(weight / (scale sqrt(2 pi))), -inf for a component that is not there."""
        return self.weight.log() - self.scale.log() - LOG_SQRT_2PI

    @property
    def active(self) -> Tensor:
        """(B, K): the components that are there."""
        return torch.isfinite(self.height)

    @cached_property
    def _packed(self) -> tuple[Tensor, Tensor]:
        """loc, 1 / scale and shifted height side by side (B, 3 K), to be gathered at once; and the shift (B,)."""
        shift = self.height.amax(-1)
        return torch.cat([self.loc, 1 / self.scale, self.height - shift[:, None]], -1), shift

    def at(self, owner: Tensor, high: Tensor, low: Tensor) -> Derivatives:
        """log p, p'/p and p''/p at flat points (R,). Made for speed: few passes over (R, K)."""
        packed, shift = self._packed
        K = self.loc.shape[1]
        loc, inverse, height = packed.index_select(0, owner).tensor_split((K, 2 * K), -1)
        z = (high[:, None] - loc).add_(low[:, None]).mul_(inverse)
        terms = torch.addcmul(height, z, z, value=-0.5).exp_()
        one = terms.new_ones(K)  # sums as products with ones: short rows are slow to sum otherwise
        total = terms @ one
        z.mul_(inverse)
        part = terms * z
        first = part @ one
        second = part.mul_(z) @ one - terms.mul_(inverse).mul_(inverse) @ one
        logp, score, bend = total.log() + shift[owner], -first / total, second / total
        deep = (total < _DEEP).nonzero()[:, 0]
        if len(deep):
            logp[deep], score[deep], bend[deep] = self.deep(owner[deep], high[deep], low[deep])
        return logp, score, bend

    def deep(self, owner: Tensor, high: Tensor, low: Tensor) -> Derivatives:
        """The same where everything underflows: each point is shifted by its own largest term."""
        loc, scale, height = self.loc[owner], self.scale[owner], self.height[owner]
        z = ((high[:, None] - loc) + low[:, None]) / scale
        terms = height - 0.5 * z.square()
        top = terms.amax(-1, keepdim=True)
        terms = (terms - top).exp()
        total = terms.sum(-1)
        first, second = (terms * z / scale).sum(-1), (terms * (z.square() - 1) / scale.square()).sum(-1)
        return top[:, 0] + total.log(), -first / total, second / total

    def logs(self, owner: Tensor, high: Tensor, low: Tensor) -> Tensor:
        """log p alone, at flat points (R,)."""
        packed, shift = self._packed
        K = self.loc.shape[1]
        loc, inverse, height = packed.index_select(0, owner).tensor_split((K, 2 * K), -1)
        z = (high[:, None] - loc).add_(low[:, None]).mul_(inverse)
        total = torch.addcmul(height, z, z, value=-0.5).exp_() @ z.new_ones(K)
        logp = total.log() + shift[owner]
        deep = (total < _DEEP).nonzero()[:, 0]
        if len(deep):
            logp[deep] = self.deep(owner[deep], high[deep], low[deep])[0]
        return logp

    def on(self, high: Tensor, low: Tensor) -> Derivatives:
        """The same at N points for each mixture: (B, N). Made for speed: few passes over (B, K, N)."""
        inverse = 1 / self.scale
        z = (high[:, None, :] - self.loc[:, :, None]).add_(low[:, None, :]).mul_(inverse[:, :, None])
        shift = self.height.amax(-1, keepdim=True)
        terms = torch.addcmul((self.height - shift)[:, :, None], z, z, value=-0.5).exp_()
        square = inverse.square()
        sums = torch.stack([torch.ones_like(square), square], 1) @ terms
        first = inverse[:, None, :] @ terms.mul_(z)
        second = square[:, None, :] @ terms.mul_(z)
        total = sums[:, 0]
        logp, score, bend = total.log() + shift, -first[:, 0] / total, (second[:, 0] - sums[:, 1]) / total
        at = (total < _DEEP).nonzero(as_tuple=True)
        if len(at[0]):
            logp[at], score[at], bend[at] = self.deep(at[0], high[at], low[at])
        return logp, score, bend


@dataclass(frozen=True)
class Extremes:
    """B sets of m extremes, each a mixture of M Normals: loc, scale, weights (B, m, M)."""

    loc: Tensor
    scale: Tensor
    weights: Tensor

    def __getitem__(self, rows: Tensor | slice) -> Extremes:
        return Extremes(self.loc[rows], self.scale[rows], self.weights[rows])

    def __len__(self) -> int:
        return self.loc.shape[0]

    @property
    def m(self) -> int:
        return self.loc.shape[1]

    def chunks(self, components: int = 1 << 16) -> list[Tensor]:
        """The sets in even groups of at most so many components, as lists of rows: memory stays bounded."""
        rows = torch.arange(len(self), device=self.loc.device)
        step = even_step(len(self), max(1, components // self.loc[0].numel()))
        return [rows[i : i + step] for i in range(0, len(self), step)]

    def alone(self) -> Extremes:
        """Every extreme of every set as a set of its own: (B m, 1, M)."""
        return Extremes(*(t.flatten(0, 1).unsqueeze(1) for t in (self.loc, self.scale, self.weights)))

    def each(self) -> Mixtures:
        """The extremes of all sets as one batch of B m mixtures of M components."""
        return self._each

    @cached_property
    def _each(self) -> Mixtures:
        return mixtures(self.loc.flatten(0, 1), self.scale.flatten(0, 1), self.weights.flatten(0, 1))

    def pooled(self, factor: Tensor | None = None) -> Mixtures:
        """sum_j factor_j p_j with factor (B, m): B mixtures of m M components."""
        weights = self.weights if factor is None else self.weights * factor[..., None]
        return mixtures(self.loc.flatten(1), self.scale.flatten(1), weights.flatten(1))

    def interval_masses(
        self, owner: Tensor, start: tuple[Tensor, Tensor], end: tuple[Tensor, Tensor]
    ) -> Tensor:
        """(R, m): the probability of flat intervals (R,) of the sets `owner` under each extreme."""
        return piece_masses(self.loc, self.scale, self.weights, owner, start, end)

    def densities(self, owner: Tensor, high: Tensor, low: Tensor) -> Tensor:
        """(R, m): the logarithm of each extreme's density at flat points (R,) of the sets `owner`."""
        return self.each().logs(*self._each_at(owner, high, low)).view(-1, self.m)

    def derivatives(self, owner: Tensor, high: Tensor, low: Tensor) -> Derivatives:
        """(R, m) three times: log p, p'/p and p''/p of each extreme at flat points (R,) of the sets `owner`."""
        logp, score, bend = self.each().at(*self._each_at(owner, high, low))
        return logp.view(-1, self.m), score.view(-1, self.m), bend.view(-1, self.m)

    def _each_at(self, owner: Tensor, high: Tensor, low: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        index = (owner[:, None] * self.m + torch.arange(self.m, device=owner.device)).view(-1)
        return index, high.repeat_interleave(self.m), low.repeat_interleave(self.m)


def even_step(count: int, most: int) -> int:
    """The size of even groups of so many, none larger than `most`: a small rest would cost nearly as much as a group.

    >>> even_step(10, 4), even_step(8, 4), even_step(3, 4)
    (4, 4, 3)
    """
    groups = max(1, -(-count // most))
    return max(1, -(-count // groups))


def mixtures(loc: Tensor, scale: Tensor, weights: Tensor) -> Mixtures:
    """`Mixtures` from parameters of shape (B, K)."""
    return Mixtures(loc, scale, weights)


def piece_masses(
    loc: Tensor,
    scale: Tensor,
    weights: Tensor,
    owner: Tensor,
    start: tuple[Tensor, Tensor],
    end: tuple[Tensor, Tensor],
) -> Tensor:
    """(R, ...): `masses` of flat intervals (R,) under the mixtures `owner` of (B, ..., K); half-lines cost half."""
    below, above = torch.isinf(start[0]), torch.isinf(end[0])
    half = below != above
    answer = loc.new_empty(len(owner), *loc.shape[1:-1])
    shape = (-1, *(1,) * (loc.ndim - 1))
    rows = half.nonzero()[:, 0]
    if len(rows):
        at = owner[rows]
        high, low = (torch.where(below, b, a)[rows].view(shape) for a, b in zip(start, end, strict=True))
        sign = torch.where(below, -1.0, 1.0).to(loc)[rows].view(shape) * math.sqrt(0.5)
        z = (high - loc[at]).add_(low).div_(scale[at]).mul_(sign)
        answer[rows] = 0.5 * (torch.special.erfc(z).mul_(weights[at])).sum(-1)
    rows = (~half).nonzero()[:, 0]
    if len(rows):
        at = owner[rows]
        a, b = (tuple(t[rows].view(shape) for t in side) for side in (start, end))
        answer[rows] = masses(loc[at], scale[at], weights[at], (a[0], a[1]), (b[0], b[1]))
    return answer


def masses(
    loc: Tensor,
    scale: Tensor,
    weights: Tensor,
    low_end: tuple[Tensor, Tensor],
    high_end: tuple[Tensor, Tensor],
) -> Tensor:
    """Probability of intervals: sum over the last dimension of w (Phi(z_b) - Phi(z_a)), without cancellation.

    loc, scale, weights and the ends broadcast against each other with the components last. Where both ends
    lie above the location the upper tails are subtracted instead; across intervals so short that tails would cancel
    the density is integrated.
    """
    root = math.sqrt(0.5)
    a = ((low_end[0] - loc) + low_end[1]) / scale
    b = ((high_end[0] - loc) + high_end[1]) / scale
    width = ((high_end[0] - low_end[0]) + (high_end[1] - low_end[1])) / scale
    flip = a > 0
    left, right = torch.where(flip, -b, a), torch.where(flip, -a, b)
    mass = 0.5 * (torch.special.erfc(-root * right) - torch.special.erfc(-root * left))
    short = width * (1 + a.abs()) < SHORT
    if short.any():
        mass[short] = _short_mass(a[short], width[short])
    total: Tensor = (mass * weights).sum(-1)
    return total


def _short_mass(a: Tensor, width: Tensor) -> Tensor:
    """Phi(a + width) - Phi(a) by Gauss's rule of 5 points, exact to rounding for such widths."""
    total = torch.zeros_like(a)
    for node, weight in zip(_GAUSS_NODES, _GAUSS_WEIGHTS, strict=True):
        total += weight * torch.exp(-0.5 * (a + width * (0.5 + 0.5 * node)).square())
    return total * width * (0.5 / math.sqrt(2 * math.pi))


def log_masses(
    loc: Tensor,
    scale: Tensor,
    weights: Tensor,
    low_end: tuple[Tensor, Tensor],
    high_end: tuple[Tensor, Tensor],
) -> Tensor:
    """The logarithm of `masses`, finite also where these underflow.

    log(Phi(b) - Phi(a)) = log Phi(b) + log(1 - Phi(a) / Phi(b)), with both ends on the left of the location.
    """
    a = ((low_end[0] - loc) + low_end[1]) / scale
    b = ((high_end[0] - loc) + high_end[1]) / scale
    flip = a > 0
    a, b = torch.where(flip, -b, a), torch.where(flip, -a, b)
    high, low = torch.special.log_ndtr(b), torch.special.log_ndtr(a)
    share = torch.log(-torch.expm1((low - high).clamp_max(-EPS)))
    return torch.logsumexp(weights.log() + torch.where(b > a, high + share, -math.inf), -1)


def solve(
    function: Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor, Tensor]],
    low: Tensor,
    high: Tensor,
    start: Tensor,
    sign: Tensor,
    unit: Tensor,
) -> tuple[Tensor, Tensor]:
    """Roots of R functions in brackets [low, high], by steps on the local parabola with bisection as a guard.

    `function(rows, x)` gives value, slope and curvature of the functions `rows` at x, and the length of a
    step after which the next one would be below rounding. `sign` is the sign of the function at `high`.
    Returns the roots and the slopes there.
    """
    root, slope = start.clone(), torch.zeros_like(start)
    low, high = low.clone(), high.clone()
    last = high - low
    rows = torch.arange(len(start), device=start.device)
    for _ in range(120):
        if len(rows) == 0:
            break
        x = root[rows]
        value, first, second, settled = function(rows, x)
        above = value * sign[rows] >= 0
        a, b = torch.where(above, low[rows], x), torch.where(above, x, high[rows])
        step = parabola_step(value, first, second)
        move = x + step
        size = step.abs()
        # Also when steps do not shrink: a root that creeps along a bend would take for ever.
        bad = ~((move >= a) & (move <= b)) | (size > 0.5 * last[rows])
        move = torch.where(bad, a + 0.5 * (b - a), move)
        root[rows] = move
        slope[rows] = first + second * (move - x)
        tolerance = 2 * EPS * (x.abs() + unit[rows])
        more = ((move - x).abs() > tolerance) & (b - a > tolerance) & (bad | (size > settled))
        low[rows], high[rows], last[rows] = a, b, torch.where(bad, 0.5 * (b - a), size)
        rows = rows[more]
    return root, slope


def parabola_step(value: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """The smaller root of value + first d + second d^2 / 2; Newton's step where that has none."""
    inside = (first.square() - 2 * value * second).clamp_min_(0).sqrt_()
    inside = torch.where(inside > 0, inside, first.abs())
    return -2 * value / (first + torch.copysign(inside, first))
