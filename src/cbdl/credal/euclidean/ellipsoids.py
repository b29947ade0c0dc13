"""Volumes and probabilities of regions made of ellipsoids in R^d, by simulation with standard errors.

A region is given by the squared distances Q_k(y) = |(y - mu_k) / s_k|^2 alone: `inside(Q (b, p, k, N),
rows)` tells which nodes lie in it. So nothing depends on the location or the unit of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from cbdl.credal.euclidean.maximin import maximin
from cbdl.credal.euclidean.montecarlo import (
    ball_nodes,
    normal_nodes,
    own_distances,
    replicate_means,
    squared_distances,
    standard_error,
)

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
    return _proportion(inside(own_distances(z, loc, scale)).to(loc.dtype))


def _proportion(values: Tensor) -> tuple[Tensor, Tensor]:
    means = replicate_means(values, 1)
    # All nodes alike does not mean that all outcomes are.
    return means.mean(-1), standard_error(means).clamp(min=1 / values.shape[-1])


def union_coverage(
    loc: Tensor, scale: Tensor, radius: Tensor, alpha: Tensor, samples: int, seed: int
) -> tuple[Tensor, Tensor]:
    """The same for the union of {Q_k <= radius}, radius and alpha (b,): the own ellipsoid has 1 - alpha exactly,
    only the rest is simulated.
    """
    z = normal_nodes(loc.shape[-1], samples, seed, loc.device).flatten(0, 1)
    near = (own_distances(z, loc, scale) <= radius[:, None, None, None]).any(2)
    rest, error = _proportion((near & (z.square().sum(-1) > radius[:, None, None])).to(loc.dtype))
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
) -> tuple[Tensor, Tensor, Tensor]:
    """log of the volume of the region within a union of ellipsoids, the volume and its standard error, (b,)
    each.

    Nodes are uniform in each of the covering ellipsoids centre, spread (b, p, d), reach (b, p); a node
    counts 1 / (number of covering ellipsoids that hold it), so that overlaps are right (Karp and Luby).
    `inside` sees the distances from loc, scale (b, k, d); None: everything is inside.
    """
    u = ball_nodes(loc.shape[-1], samples, seed, loc.device).flatten(0, 1)
    wide = spread * reach.clamp(min=0).sqrt()[..., None]
    held = squared_distances(u, centre[:, :, None] - centre[:, None], wide, spread) <= reach[:, None, :, None]
    own = torch.eye(centre.shape[1], dtype=torch.bool, device=loc.device)[None, :, :, None]
    share = 1.0 / (held | own).sum(2)
    if inside is not None:
        share = share * inside(squared_distances(u, centre[:, :, None] - loc[:, None], wide, scale))
    each = log_volume(spread, reach)
    top = each.amax(-1, keepdim=True)
    parts = (each - top).exp()
    means = (parts[..., None] * replicate_means(share, 1)).sum(1)
    # Nodes that never leave, or never meet, the region: an event as rare as one node in all may still exist.
    error = torch.maximum(standard_error(means), parts.sum(-1) / u.shape[0])
    total = means.mean(-1)
    log_total = total.log() + top[:, 0]
    return log_total, log_total.exp(), error * top[:, 0].exp()


def intersection_volume(
    loc: Tensor, scale: Tensor, reach: Tensor, samples: int, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
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
    log_total = log_unit + means.mean(-1).log()
    return log_total, log_total.exp(), standard_error(means) * log_unit.exp()
