"""Volumes and probabilities of regions made of ellipsoids in R^d, by simulation with standard errors.

A region is given by the squared distances Q_k(y) = |(y - mu_k) / s_k|^2 alone: `inside(Q (b, p, k, N),
rows)` tells which nodes lie in it. So nothing depends on the location or the unit of the data.

Which of the covering ellipsoids hold a node is decided in single precision wherever its rounding cannot change the
answer; the few nodes that lie closer to an edge are looked at again in full.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from cbdl.credal.euclidean.maximin import maximin
from cbdl.credal.euclidean.montecarlo import (
    REPLICATES,
    ball_nodes,
    ball_powers,
    normal_nodes,
    normal_squares,
    own_distances,
    replicate_means,
    squared_distances,
    standard_error,
)

EPS32 = torch.finfo(torch.float32).eps
SURE = 1e-2
"""Single precision is of use where its rounding is less than this share of a squared radius."""

_ALIKE = math.log(4)
"""Ellipsoids whose log volumes differ by less are about as large: both tell what they share equally well."""

Inside = Callable[[Tensor], Tensor]
"""inside(Q (b, p, k, N)) -> bool (b, p, N)."""


def log_volume(scale: Tensor, radius: Tensor) -> Tensor:
    """(...,): of {y : |(y - mu) / s|^2 <= radius}; -inf where radius <= 0. scale (..., d), radius (...,)."""
    d = scale.shape[-1]
    unit = d / 2 * math.log(math.pi) - math.lgamma(d / 2 + 1)
    return unit + d / 2 * radius.clamp(min=0).log() + scale.log().sum(-1)


def coverage(loc: Tensor, scale: Tensor, inside: Inside, samples: int, seed: int) -> tuple[Tensor, Tensor]:
    """(b, m) twice: the probability of the region under each extreme, and its standard error (at least 1 /
    samples).
    """
    z = normal_nodes(loc.shape[-1], samples, seed, loc.device).flatten(0, 1)
    return _proportion(replicate_means(inside(own_distances(z, loc, scale)).to(loc.dtype), 1), len(z))


def _proportion(means: Tensor, nodes: int) -> tuple[Tensor, Tensor]:
    """From the means of the replicates (..., REPLICATES); so many nodes in all."""
    # All nodes alike does not mean that all outcomes are.
    return means.mean(-1), standard_error(means).clamp(min=1 / nodes)


def union_coverage(
    loc: Tensor, scale: Tensor, radius: Tensor, alpha: Tensor, samples: int, seed: int
) -> tuple[Tensor, Tensor]:
    """The same for the union of {Q_k <= radius}, radius and alpha (b,): the own ellipsoid has 1 - alpha exactly,
    only the rest is simulated.
    """
    z = normal_nodes(loc.shape[-1], samples, seed, loc.device)
    count, squared = z.shape[1], normal_squares(loc.shape[-1], samples, seed, loc.device)
    # Only nodes outside of the own ellipsoid can add to it: about a share of alpha, the same for all sets of a radius.
    far = (squared > radius.amin()).nonzero()[:, 0]
    near = (own_distances(z.flatten(0, 1)[far], loc, scale) <= radius[:, None, None, None]).any(2)
    rest = (near & (squared[far] > radius[:, None, None])).to(loc.dtype)
    means = loc.new_zeros(*loc.shape[:2], REPLICATES).index_add_(2, far // count, rest) / count
    rest, error = _proportion(means, count * REPLICATES)
    return (1 - alpha[:, None] + rest).clamp(max=1.0), error


def volume(
    loc: Tensor,
    scale: Tensor,
    centre: Tensor,
    spread: Tensor,
    reach: Tensor,
    inside: Inside | None,
    samples: int,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """log of the volume of the region within a union of ellipsoids, and log of its standard error, (b,) each.

    Nodes are uniform in each of the covering ellipsoids centre, spread (b, p, d), reach (b, p); a node counts
    1 / (number of ellipsoids about as large as its own that hold it), and nothing if a much larger one does, so that
    overlaps are right (Karp and Luby): what a small one shares with a large one is told best by the nodes of the small
    one. `inside` sees the distances from loc, scale (b, k, d); None: everything is inside.
    """
    u = ball_nodes(loc.shape[-1], samples, seed, loc.device).flatten(0, 1)
    wide = spread * reach.clamp(min=0).sqrt()[..., None]
    nodes = tuple(
        ball_powers(loc.shape[-1], samples, seed, loc.device, t) for t in (torch.float32, torch.float64)
    )
    each = log_volume(spread, reach)
    top = each.amax(-1, keepdim=True)
    share = _shares(nodes, centre, spread, wide, reach, _tiers(each - top))
    if inside is not None:
        share *= inside(squared_distances(u, centre[:, :, None] - loc[:, None], wide, scale))
    parts = (each - top).exp()
    means = (parts[..., None] * replicate_means(share, 1)).sum(1)
    # Nodes that never leave, or never meet, the region: an event as rare as one node in all may still exist.
    error = torch.maximum(standard_error(means), parts.sum(-1) / u.shape[0])
    return means.mean(-1).log() + top[:, 0], error.log() + top[:, 0]


def _tiers(log_sizes: Tensor) -> Tensor:
    """(b, p): 0 for the largest and those down to a quarter of it, 1 for the next such group, and so on."""
    ordered, order = log_sizes.sort(dim=-1, descending=True, stable=True)
    tiers = torch.zeros_like(order)
    head = ordered[:, 0]
    for i in range(1, order.shape[1]):
        below = ordered[:, i] < head - _ALIKE
        head = torch.where(below, ordered[:, i], head)
        tiers[:, i] = tiers[:, i - 1] + below
    return torch.empty_like(tiers).scatter_(1, order, tiers)


def _shares(
    nodes: tuple[Tensor, ...], centre: Tensor, spread: Tensor, wide: Tensor, reach: Tensor, tiers: Tensor
) -> Tensor:
    """(b, p, N): what the nodes u of `ball_powers`, at centre_p + wide_p u, count for.

    Only pairs of an ellipsoid with one of its own tier, or of one before, are looked at.
    """
    b, p = tiers.shape
    apart = ~torch.eye(p, dtype=torch.bool, device=centre.device)
    row, own, other = ((tiers[:, None] <= tiers[:, :, None]) & apart).nonzero(as_tuple=True)
    delta = (centre[row, own] - centre[row, other]) / spread[row, other]
    ratio = wide[row, own] / spread[row, other]
    held = _held(nodes, delta, ratio, reach[row, other])
    if len(row) == b * p * (p - 1):  # all are of one tier
        return held.view(b, p, p - 1, held.shape[1]).sum(2).double().add_(1).reciprocal_()
    # One of a larger tier outweighs all that could be in the own one.
    weight = torch.where(tiers[row, own] > tiers[row, other], 2.0 * p, 1.0)
    count = held.new_zeros(b * p, nodes[0].shape[1])
    count.index_add_(0, row * p + own, held.mul_(weight.to(held)[:, None]))
    share = count.double().add_(1).reciprocal_()
    return torch.threshold_(share, 1 / (p + 0.5), 0.0).view(b, p, -1)


def _held(nodes: tuple[Tensor, ...], delta: Tensor, ratio: Tensor, reach: Tensor) -> Tensor:
    """(n, N): 1 where |delta + ratio u|^2 <= reach, else 0, at the nodes u; delta, ratio (n, d), reach (n,)."""
    d = delta.shape[-1]
    terms = torch.cat([2 * delta * ratio, ratio.square()], -1)
    room = reach - delta.square().sum(-1)
    # The errors of 2 d products, of their factors and of their sum: nodes and their squares have norms of at most 1.
    slip = EPS32 * ((2 * d + 4) * math.sqrt(2) * terms.norm(dim=-1) + room.abs())
    single = slip < SURE * reach
    parts = delta, ratio, reach, terms, room, slip
    if single.all():
        return _decided(nodes, *parts)
    held = torch.empty(len(terms), nodes[0].shape[1], dtype=torch.float32, device=delta.device)
    for pairs, some in ((single.nonzero()[:, 0], nodes), ((~single).nonzero()[:, 0], nodes[1:])):
        if len(pairs):
            held[pairs] = _decided(some, *(x[pairs] for x in parts))
    return held


def _decided(
    nodes: tuple[Tensor, ...],
    delta: Tensor,
    ratio: Tensor,
    reach: Tensor,
    terms: Tensor,
    room: Tensor,
    slip: Tensor,
) -> Tensor:
    """`_held` in the first precision of `nodes`; where that is not the full one, nodes next to an edge in full."""
    powers = nodes[0]
    squared = terms.to(powers) @ powers
    room, slip = room[:, None], slip[:, None]
    if powers.dtype == torch.float64:
        return (squared <= room).float()
    sure, maybe = squared <= (room - slip).to(powers), squared <= (room + slip).to(powers)
    inside = sure.float()
    near = _where(sure ^ maybe)
    if len(near):
        at, node = near // squared.shape[1], near % squared.shape[1]
        exact = (delta[at] + ratio[at] * nodes[1][: delta.shape[-1], node].T).square().sum(-1)
        inside[at, node] = (exact <= reach[at]).float()
    return inside


def _where(mask: Tensor) -> Tensor:
    """The flat places of a mask; numpy is many times as fast as torch where they are few."""
    if mask.device.type != "cpu":
        return mask.view(-1).nonzero()[:, 0]
    return torch.from_numpy(np.flatnonzero(mask.numpy()))


def intersection_volume(
    loc: Tensor, scale: Tensor, reach: Tensor, samples: int, seed: int
) -> tuple[Tensor, Tensor]:
    """The same for the intersection of {Q_k <= reach_k}, reach (b, k), which holds the maximin point of the
    densities.

    It is convex, so from that point each ray leaves it once, at a root of quadratics: the volume is that of
    the unit ball times the mean of (length of the ray)^d, with rays in units of the maximin spread. Every
    ray counts, however small the intersection is beside the ellipsoids.
    """
    d = loc.shape[-1]
    best = maximin(loc, scale)
    u = normal_nodes(d, samples, seed, loc.device).flatten(0, 1)
    u = u / u.norm(dim=-1, keepdim=True)
    delta = (best.offset[:, None] - (loc - loc[:, :1])) / scale
    ratio = best.spread[:, None] / scale
    room = (reach - delta.square().sum(-1)).clamp(min=0)[..., None]
    a, b = ratio.square() @ u.square().T, (delta * ratio) @ u.T
    root = (b.square() + a * room).sqrt()
    # The positive root of a t^2 + 2 b t = room, without cancellation.
    length = torch.where(b > 0, room / (b + root), (root - b) / a).amin(1)
    each = d * length.log()
    top = each.amax(-1, keepdim=True)
    means = replicate_means((each - top).exp(), 1)
    log_unit = log_volume(best.spread, torch.ones_like(best.gap)) + top[:, 0]
    return log_unit + means.mean(-1).log(), log_unit + standard_error(means).log()
