"""The floor: the epistemic uncertainty that Monte Carlo noise alone would show.

Upper minus lower entropy takes a maximum and a minimum, so noise in m members always widens it. The floor of a
prediction is what m identical members, each an average over n independent draws, would show on average. It is
known from one member's draws. Let y be the noise of an average in the metric of the entropy's curvature at the
predictive q, y = (q_hat - q) / sqrt(q), and slope the entropy's gradient there. To second order

    H(q + noise) = H(q) + slope . y - |y|^2 / 2,

and for Normal noise with covariance C the expected upper minus lower entropy of m such averages is, to 7 %
(simulated for 2 to 12 members in 1 to 99 dimensions),

    floor^2 = R^2 a^2 + ((1 - 1/m) t / 2 + 0.43 R s)^2,   a^2 = slope' C slope,  t = tr C,  s^2 = tr C^2,

with R the expected range of m standard Normals. The three moments are estimated from the averages of up to 16
groups of draws, whose spread shows C without bias. The gradient at q_hat is itself noisy, which adds s^2 to a^2
and is subtracted.

Draws come in antithetic pairs (eps, -eps), and then groups hold whole pairs; or they are independent points, and a
group may be one of them; or they are taken from several chains in turn, and groups hold whole rounds: an average has
as many draws of each chain, so that what chains differ in is no noise of the draws. Where the draws cannot show their
noise the floor is unknown, nan: below 6 paired draws, 4 independent ones or 3 rounds; and for an odd number of paired
draws, where the last one lacks its partner and has by far the most noise, and noise of the first order beside the
others' of the second.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks

GROUPS = 16
"""Most groups of draws that are told apart: the floor of a row is then known to about 1 / sqrt(2 * 15) = 18 %."""

_SPREAD = 0.43  # how far the spread of |y|^2 among members moves their entropies, in units of R s; simulated
_LEAST = (
    0.33  # the least floor as a share of its second-order part, where subtracting s^2 leaves less; simulated
)

_JACKKNIFE = 0.6
"""Share of the jackknife in the first-order part, the rest from the tangent: leaving a group out parts its noise from
the gradient's, but adds variance. Simulated."""

_TAILS = 0.16
"""Pairs (eps, -eps) leave noise of second order in eps, with longer tails than the Normal's; they fade as groups
grow in number. Simulated."""

_NODES = 96
"""Nodes of an integral on the line, about."""
_LEAST_ORDER = 6  # nodes for each Normal that is used, at least
_CHUNK = 1 << 24  # bytes of working memory
_TINY = torch.finfo(torch.float64).tiny


def groups(draws: int, paired: bool = True, chains: int = 1) -> Tensor:
    """(draws,): the group of every draw. Groups are runs of whole pairs, or if draws are not `paired` of whole rounds
    of the `chains` that they are taken from in turn, as many as 16 and as equal as can be.

    >>> groups(5)
    tensor([0, 0, 1, 1, 2])
    >>> groups(5, paired=False)
    tensor([0, 1, 2, 3, 4])
    >>> groups(8, paired=False, chains=4)
    tensor([0, 0, 0, 0, 1, 1, 1, 1])
    """
    size = 2 if paired else chains
    units = (draws + size - 1) // size
    return torch.arange(draws) // size * min(units, GROUPS) // max(units, 1)


def known(draws: int, paired: bool = True, chains: int = 1) -> bool:
    """Whether so many draws can show their own noise."""
    return draws >= 6 and draws % 2 == 0 if paired else draws >= max(4, 3 * chains)


def weightings(draws: int, paired: bool = True, chains: int = 1) -> Tensor:
    """(1 + groups, draws): weights with which a prediction is averaged: over all draws, and over each group.

    >>> weightings(5)
    tensor([[0.2000, 0.2000, 0.2000, 0.2000, 0.2000],
            [0.5000, 0.5000, 0.0000, 0.0000, 0.0000],
            [0.0000, 0.0000, 0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000, 0.0000, 1.0000]], dtype=torch.float64)
    """
    each = torch.nn.functional.one_hot(groups(draws, paired, chains)).T.double()
    weights = torch.cat([torch.ones(1, draws, dtype=torch.float64), each])
    return weights / weights.sum(1, keepdim=True)


def class_floor(
    averages: Tensor, draws: Tensor, *, paired: bool = True, chains: int = 1, pooled: int = 1
) -> Tensor:
    """(rows,): the floor, in nats, of predictions over classes.

    averages: (rows, m, W, J) class probabilities averaged with each of the `weightings` of the row's draws; what
              follows them, for rows with fewer draws than others, is not read
    draws:    (rows,) draws behind each row, in antithetic pairs, or from so many chains in turn
    pooled:   so many of the m, side by side, are drawn together by the share of their variance that is noise
              (`cbdl.bayes.pooling`)
    """

    def part(n: int, averages: Tensor) -> Tensor:
        if pooled == 1:
            return whole(n, averages)
        members = averages.view(len(averages), -1, pooled, *averages.shape[2:]).mean(2)
        return torch.hypot(whole(n, members), whole(n, averages, left=True))

    def whole(n: int, averages: Tensor, left: bool = False) -> Tensor:
        rows, m, _, J = averages.shape
        if m == 1:
            return averages.new_zeros(rows)
        share = _shares(n, paired, chains)
        count = len(share)
        q = averages[:, :, :1].flatten(0, 1).clamp_min(_TINY)
        x = averages[:, :, 1 : 1 + count].flatten(0, 1)
        first, gram = _moments(x, q, torch.ones_like(q), share)
        floor = _floor(first, gram, share, m, 1 / max(J - 1, 1))
        if left:
            floor = floor * _left(gram, share, pooled, 1 / max(J - 1, 1))
        return floor.view(rows, m).mean(1)

    return _by_draws(
        part,
        draws,
        partial(known, paired=paired, chains=chains),
        averages.shape[1],
        (averages,),
        8 * 4 * averages[0].numel(),
    )


def line_floor(
    loc: Tensor,
    scale: Tensor,
    weights: Tensor,
    draws: Tensor,
    *,
    normals: int = 1,
    paired: bool = True,
    chains: int = 1,
) -> Tensor:
    """(rows,): the floor, in nats, of predictions on the line, where every draw is a mixture of some Normals.

    loc, scale, weights: (rows, m, length * normals), the Normals of a draw side by side; weights sum to 1
    draws, paired, chains: as in `class_floor`; what follows the draws of a row, up to `length`, is not read
    normals:             how many Normals make up a draw
    """

    def part(n: int, *mixtures: Tensor) -> Tensor:
        rows, m = mixtures[0].shape[:2]
        group = weightings(n, paired, chains)[1:]
        x, node = _densities(group, *(t[..., : n * normals].flatten(0, 1) for t in mixtures))
        share = _shares(n, paired, chains)
        q = (share[:, None] * x).sum(1, keepdim=True).clamp_min(_TINY)
        first, gram = _moments(x, q, node, share)
        return _floor(first, gram, share, m, 0.0).view(rows, m).mean(1)

    per_row = 8 * 4 * _NODES * loc[0].numel()
    return _by_draws(
        part,
        draws,
        partial(known, paired=paired, chains=chains),
        loc.shape[1],
        (loc, scale, weights),
        per_row,
    )


def normal_floor(
    loc: Tensor, scale: Tensor, draws: Tensor, *, paired: bool = True, chains: int = 1
) -> Tensor:
    """(rows,): the floor, in nats, of Normals with the mean and the variances of the mixture over draws.

    loc, scale: (rows, m, length) or (rows, m, length, d), of equal weights; the rest as in `line_floor`.

    The entropy of a Normal is sum log(variance) / 2 and has a gradient everywhere, so nothing is subtracted.
    Noise in the means moves the upper entropy only, by half the squared radius of the ball around the means.
    """
    loc, scale = (t.reshape(*t.shape[:3], -1) for t in (loc, scale))

    def part(n: int, loc: Tensor, scale: Tensor) -> Tensor:
        m, d = loc.shape[1], loc.shape[3]
        group, w = weightings(n, paired, chains)[1:], _shares(n, paired, chains)[:, None]
        root = _spreads(w[:, 0]).sqrt()
        off = loc[:, :, :n] - loc[:, :, :n].mean(2, keepdim=True)
        square = scale[:, :, :n].square() + off.square()
        variance = square.mean(2, keepdim=True)
        means, squares = torch.einsum("gn,krmnd->krmgd", group, torch.stack([off, square]))
        # How the entropy moves when a group is left out: the jackknife.
        others = (variance - w * squares) / (1 - w) - (w / (1 - w) * means).square()
        widths = (1 - w[:, 0]) / w[:, 0] * (variance / others).log().sum(-1) / 2
        widths = root * (widths - widths.mean(-1, keepdim=True))
        means = root[:, None] * means / variance.sqrt()
        gram = means @ means.mT
        t = gram.diagonal(dim1=-2, dim2=-1).sum(-1)
        s = _concentrated(gram, t, 1 / d).sqrt()
        high = (1 - 1 / m) / 2
        ball = high * t + (_range(m)[1] / 8 - high) * s
        a = _range(m)[0] * _factor(len(root)) * widths.square().sum(-1).sqrt()
        return torch.hypot(a, ball).mean(1)

    return _by_draws(
        part,
        draws,
        partial(known, paired=paired, chains=chains),
        loc.shape[1],
        (loc, scale),
        8 * 6 * loc[0].numel(),
    )


# --- moments of the noise ------------------------------------------------------------------------------------


def _moments(x: Tensor, q: Tensor, node: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """slope . y_g (B, G) and y_g . y_h (B, G, G) of the groups' averages x (B, G, J) around q (B, 1, J).

    node: (B, 1, J) the measure of every outcome; share: (G,) of the draws in a group.
    """
    off = x - q
    surprise = -node * q.log()
    tangent = (off * surprise).sum(-1)
    odds = (share / (1 - share))[:, None]
    others = torch.addcmul(q, odds, off, value=-1).clamp_min_(_TINY)
    fall = (q * surprise).sum(-1) + (others.log() * others * node).sum(-1)
    y = off * (node / q).sqrt()
    return tangent + _JACKKNIFE * (fall / odds[:, 0] - tangent), y @ y.mT


def _shares(n: int, paired: bool, chains: int) -> Tensor:
    """(G,): the share of the draws that each group holds."""
    return torch.bincount(groups(n, paired, chains)).double() / n


def _spreads(w: Tensor) -> Tensor:
    """(G,): c_g such that sum_g c_g (x_g - q)(x_g - q)' has the covariance of q = sum_g w_g x_g as its mean,
    whatever the covariance of each x_g; G >= 3."""
    c = w.square() / (1 - 2 * w)
    return c / (1 + c.sum())


def _floor(first: Tensor, gram: Tensor, share: Tensor, m: int, least: float) -> Tensor:
    """(B,): the floor from the noise of G groups that hold so large shares of the draws; first (B, G), gram (B, G, G).

    least: the smallest that s^2 / t^2 can be.
    """
    c = _spreads(share)
    G, root = len(c), c.sqrt()
    gram = gram * root[:, None] * root
    t = gram.diagonal(dim1=1, dim2=2).sum(-1)
    s2 = _concentrated(gram, t, least)
    subtract = _between(gram, t, least) * (1 + _JACKKNIFE / (G - 2))
    R = _range(m)[0]
    a2 = (_factor(G) * root * (first - first.mean(-1, keepdim=True))).square().sum(-1)
    # Entropies are bounded where the second order is not: (1 - 1/m) t / 2 for small t, 3/4 log m for t = 1, the most.
    t = t.clamp_max(1)
    second = -(1 + t / 2) / 2 * torch.log1p(-t * (1 - 1 / m)) + _SPREAD * R * s2.sqrt()
    square = R * R * (a2 - subtract) + second.square()
    return torch.maximum(square, (_LEAST * second).square()).sqrt()


def _left(gram: Tensor, share: Tensor, m: int, least: float) -> Tensor:
    """(B,): the share of its floor that noise keeps where differences of m averages are multiplied by the root of
    1 - W / B (or 0), and B / W has the mean 1: that of the root of chi^2 - nu, where it is above 0, in the mean of chi.

    nu = (m - 1) t^2 / s^2 are the degrees of freedom.
    """
    root = _spreads(share).sqrt()
    gram = gram * root[:, None] * root
    t = gram.diagonal(dim1=1, dim2=2).sum(-1)
    dimension = t.square() / _concentrated(gram, t, least).clamp_min(_TINY)
    knots, shares = _table_of_shares()
    at = ((m - 1) * dimension).log().clamp(knots[0], knots[-1])
    place = torch.searchsorted(knots, at).clamp(1, len(knots) - 1)
    before, after = knots[place - 1], knots[place]
    return torch.lerp(shares[place - 1], shares[place], (at - before) / (after - before))


def _concentrated(gram: Tensor, t: Tensor, least: float) -> Tensor:
    """s^2 = tr C^2 without bias for Normal noise, from all products of groups; t^2 / s^2 is the noise's dimension."""
    f = gram.shape[-1] - 1
    s2 = (gram.square().sum((-2, -1)) - t.square() / f) * (f * f / ((f - 1) * (f + 2)))
    return torch.minimum(torch.maximum(s2, least * t.square()), t.square())


def _between(gram: Tensor, t: Tensor, least: float) -> Tensor:
    """The same from products of different groups, which a single outlying group moves little."""
    G = gram.shape[-1]
    pairs = gram.square().sum((-2, -1)) - gram.diagonal(dim1=-2, dim2=-1).square().sum(-1)
    part = G * (G - 1)
    s2 = (pairs - t.square() / part) / ((G * G - 2 * G + 2) / part - 2 / (part * (G - 1)))
    return torch.minimum(torch.maximum(s2, least * t.square()), t.square())


# --- on the line ----------------------------------------------------------------------------------------------


def _densities(group: Tensor, loc: Tensor, scale: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """(B, G, N): the density of every group (G, n) at nodes of its own mixture, and (B, 1, N) the nodes' measures.

    The integral of g is the mean of g / seen under `seen`, the mixture of some draws' Normals, and so a sum of means
    under Normals: a Gauss-Hermite rule for each. It is exact where it must be most, for draws that hardly differ.
    """
    size = loc.shape[1]
    stride = -(-size * _LEAST_ORDER // _NODES)
    z, share = _hermite(max(_LEAST_ORDER, _NODES * stride // size))
    k = torch.arange(0, size, stride)
    x = (loc[:, k, None] + scale[:, k, None] * z).flatten(1)
    normals = (x[:, None] - loc[..., None]).div_(scale[..., None]).square_().mul_(-0.5).exp_()
    normals *= (weights / scale / math.sqrt(2 * math.pi))[..., None]
    seen = normals[:, k].sum(1).clamp_min(_TINY)
    node = (weights[:, k, None] * share).flatten(1) / seen
    n = group.shape[1]
    return (group * n).repeat_interleave(size // n, 1) @ normals, node[:, None]


# --- constants of Normal noise --------------------------------------------------------------------------------


@cache
def _hermite(order: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights with which polynomials of degree < 2 order have their mean under the standard Normal."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    return torch.tensor(nodes), torch.tensor(weights / weights.sum())


@cache
def _range(m: int) -> tuple[float, float]:
    """Mean and mean square of the range of m standard Normal numbers."""
    x = torch.linspace(-9, 9, 721, dtype=torch.float64)
    h, F = float(x[1] - x[0]), torch.special.ndtr(x)
    mean = float((1 - F**m - (1 - F) ** m).sum()) * h
    # E range^2 = 2 int int_{x < y} P(min < x, max > y)
    lower, upper = 1 - F[:, None], F[None, :]
    both = 1 - lower**m - upper**m + (upper - F[:, None]).clamp_min(0) ** m
    return mean, float(2 * both.triu(1).sum() + both.diagonal().sum()) * h * h


@cache
def _table_of_shares() -> tuple[Tensor, Tensor]:
    """E[sqrt((chi^2 - nu)_+)] / E[chi] at logarithms of nu, the degrees of freedom, in rising order."""
    from scipy.special import gammaincinv

    knots = np.linspace(0, math.log(1e5), 48)
    x = (np.arange(2000) + 0.5) / 2000
    shares = []
    for nu in np.exp(knots):
        square = 2 * gammaincinv(nu / 2, x)
        shares.append(np.sqrt((square - nu).clip(0)).mean() / np.sqrt(square).mean())
    return torch.tensor(knots), torch.tensor(np.array(shares))


def _factor(count: int) -> float:
    """What a standard deviation from so many groups is multiplied by: Normal noise, and a little for longer tails."""
    f = count - 1
    normal = math.exp(math.lgamma(f / 2) - math.lgamma((f + 1) / 2)) * math.sqrt(f / 2)
    return normal * (1 + _TAILS / math.sqrt(count))


def _by_draws(
    part: Callable[..., Tensor],
    draws: Tensor,
    shown: Callable[[int], bool],
    m: int,
    tensors: tuple[Tensor, ...],
    per_row: int,
) -> Tensor:
    """part(n, ...) for the rows with n draws each, a bounded block at a time; 0 for one member, nan where unknown."""
    floor = torch.full(draws.shape, 0.0 if m == 1 else torch.nan, dtype=torch.float64)
    if m == 1:
        return floor
    for n in sorted({int(n) for n in draws.tolist()}):
        if shown(n):
            rows = draws == n
            (floor[rows],) = in_chunks(
                lambda *some, n=n: (part(n, *some),),
                *(t[rows] for t in tensors),
                per_set=per_row,
                memory=_CHUNK,
            )
    return floor
