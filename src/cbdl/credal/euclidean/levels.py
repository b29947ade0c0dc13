"""Ellipsoids and level sets in R^d: their levels, volumes and probabilities, for a batch of sets.

The union of ellipsoids is known up to the simulation of its overlaps. The levels of the other two come from simulation,
on the safe side of two independent ones: one in which a share of 1 - alpha and a little more is covered, and the one
that their probabilities are then estimated with. So no region is reported to cover less than 1 - alpha.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cbdl.credal.euclidean import diagonal, ellipsoids
from cbdl.credal.euclidean.montecarlo import normal_nodes, own_distances

ROUNDING = 1e-12
"""The node that a level comes from lies in the region, whatever the order of a sum."""

DOUBT = 3.0
"""Standard errors of its simulated volume by which a level set must be smaller than what is known better."""


def peak(scale: Tensor) -> Tensor:
    """(...,): log of the density at the mode."""
    return -scale.log().sum(-1) - scale.shape[-1] * diagonal.LOG_2PI / 2


def same_extremes(loc: Tensor, scale: Tensor) -> Tensor:
    """(b,): whether all extremes are one; then every ellipsoid method gives its highest density region
    exactly.
    """
    return ((loc == loc[:, :1]) & (scale == scale[:, :1])).all(-1).all(-1)


def facts(
    same: Tensor,
    scale: Tensor,
    alpha: float | Tensor,
    radius: float | Tensor,
    cover: tuple[Tensor, Tensor],
    log_size: tuple[Tensor, Tensor],
) -> tuple[Tensor, ...]:
    """The six common fields, exact where all extremes are one; `log_size`: logs of the volume and of its error."""
    probability, error = cover
    lower, low = probability.min(-1)
    upper, high = probability.max(-1)
    spread = torch.maximum(error.gather(1, low[:, None]), error.gather(1, high[:, None]))[:, 0]
    log_measure, log_error = log_size
    exact = ellipsoids.log_volume(scale[:, 0], torch.zeros_like(lower) + radius)
    log_measure = torch.where(same, exact, log_measure)
    return (
        log_measure.exp(),
        log_measure,
        torch.where(same, 0.0, log_error.exp()),
        torch.where(same, 1 - alpha, lower),
        torch.where(same, 1 - alpha, upper),
        torch.where(same, 0.0, spread),
    )


def union(
    loc: Tensor, scale: Tensor, alpha: float | Tensor, radius: float | Tensor, samples: int, seed: int
) -> tuple[Tensor, ...]:
    """The six common fields; alpha and radius are numbers or (b,)."""
    same = same_extremes(loc, scale)
    alpha, radius = (x + torch.zeros_like(loc[:, 0, 0]) for x in (alpha, radius))
    cover = ellipsoids.union_coverage(loc, scale, radius, alpha, samples, 2 * seed + 1)
    reach = radius[:, None].expand(loc.shape[:2])
    log_measure, log_error = ellipsoids.volume(loc, scale, loc, scale, reach, None, samples, 2 * seed + 1)
    # Ellipsoids whose boxes are apart in some coordinate are disjoint: the sum of the volumes is exact.
    wide = radius.sqrt()[:, None, None, None] * (scale[:, :, None] + scale[:, None])
    apart = (loc[:, :, None] - loc[:, None]).abs() > wide
    alone = torch.eye(loc.shape[1], dtype=torch.bool, device=loc.device)
    disjoint = (apart.any(-1) | alone).all(-1).all(-1)
    log_error = torch.where(disjoint, -math.inf, log_error)
    return facts(same, scale, alpha, radius, cover, (log_measure, log_error))


def _safe(alpha: float, draws: int) -> float:
    """A little less than alpha: a level that is found from so many draws shall not cover less than 1 - alpha. One
    binomial standard error is about two of the quasi-random draws'.
    """
    return max(alpha - math.sqrt(alpha * (1 - alpha) / draws), alpha / 2)


def _quantile(values: Tensor, alpha: float) -> Tensor:
    """(...,): the largest c with a share of at least 1 - alpha of `values` (..., N) >= c."""
    n = values.shape[-1]
    return values.kthvalue(min(n, int(alpha * n) + 1), dim=-1).values


def _distances(loc: Tensor, scale: Tensor, samples: int, seed: int) -> Tensor:
    """(b, j, k, N): squared distances from extreme k at the nodes of extreme j."""
    z = normal_nodes(loc.shape[-1], samples, seed, loc.device).flatten(0, 1)
    return own_distances(z, loc, scale)


def _level(design: Tensor, check: Tensor, alpha: float) -> Tensor:
    """(b,): the level that every extreme covers 1 - alpha of, by both simulations (b, j, N) of the level function."""
    first = _quantile(design, _safe(alpha, design.shape[-1]))
    return torch.minimum(first, _quantile(check, alpha)).amin(-1)


def lower_density(
    loc: Tensor, scale: Tensor, alpha: float, radius: float, samples: int, seed: int
) -> tuple[Tensor, ...]:
    """The six common fields of {min_j p_j >= c}, and log c."""
    same, top = same_extremes(loc, scale), peak(scale)
    design, check = (
        (top[:, None, :, None] - _distances(loc, scale, samples, 2 * seed + i) / 2).amin(2) for i in (0, 1)
    )
    log_level = torch.where(same, top[:, 0] - radius / 2, _level(design, check, alpha))
    reach = 2 * (top - log_level[:, None])

    def inside(q: Tensor) -> Tensor:
        return (top[:, None, :, None] - q / 2).amin(2) >= log_level[:, None, None] - ROUNDING

    cover = ellipsoids.coverage(loc, scale, inside, samples, 2 * seed + 1)
    size = ellipsoids.intersection_volume(loc, scale, reach, samples, 2 * seed + 1)
    return (*facts(same, scale, alpha, radius, cover, size), log_level)


def minimal(
    loc: Tensor, scale: Tensor, alpha: float, radius: float, samples: int, seed: int
) -> tuple[Tensor, ...]:
    """The six common fields of the smallest of three regions; log lambda, the gap, which it is, and log c.

    The volume of the level set is the one that simulation may miss, and where few nodes or none meet it the estimate is
    0. So it competes with `DOUBT` standard errors more than was estimated.
    """
    *fields, log_lambda, gap, log_error = _level_set(loc, scale, alpha, radius, samples, seed)
    bound = (fields[0] - gap).clamp(min=0)  # a volume is not negative, whatever simulation says
    *other, log_level = lower_density(loc, scale, alpha, radius, samples, seed)
    candidates = (fields, union(loc, scale, alpha, radius, samples, seed), other)
    surely = torch.logaddexp(fields[1], log_error + math.log(DOUBT))
    log_measures = torch.stack([surely, *(candidate[1] for candidate in candidates[1:])])
    valid = torch.stack([candidate[3] for candidate in candidates]) >= 1 - alpha - ROUNDING
    shape = torch.where(valid, log_measures, torch.inf).argmin(0)
    best = [torch.stack(one).gather(0, shape[None])[0] for one in zip(*candidates, strict=True)]
    return (*best, log_lambda, (best[0] - bound).clamp(min=0), shape, log_level)


def _level_set(
    loc: Tensor, scale: Tensor, alpha: float, radius: float, samples: int, seed: int
) -> tuple[Tensor, ...]:
    """The six common fields of {sum_j lambda_j p_j >= 1}, log lambda, the gap and log of the volume's error.

    lambda_j = nu_j / c_j, c_j the level of P_j's own highest density region; then 0 <= nu_j <= 1 at the optimum.
    """
    m = loc.shape[1]
    same, own_level = same_extremes(loc, scale), peak(scale) - radius / 2
    design, check = (
        ((radius - _distances(loc, scale, samples, 2 * seed + i)) / 2).clamp(max=600.0).exp() for i in (0, 1)
    )
    nu = _multipliers(design, alpha)
    # The level that the drawn nodes give with these proportions.
    first, second = ((nu[:, None, :, None] * heights).sum(2) for heights in (design, check))
    nu = nu / _level(first, second, alpha)[:, None]
    nu = torch.where(same[:, None], (torch.arange(m, device=loc.device) == 0).to(nu), nu)
    log_nu = nu.log()

    def inside(q: Tensor) -> Tensor:
        return ((radius - q) / 2 + log_nu[:, None, :, None]).logsumexp(2) >= -ROUNDING

    cover = ellipsoids.coverage(loc, scale, inside, samples, 2 * seed + 1)
    # If a sum of k terms reaches 1, one of them reaches 1 / k.
    terms = (nu > 0).sum(-1, keepdim=True).to(nu).log()
    reach = torch.where(nu > 0, radius + 2 * (log_nu + terms), -1.0)
    size = ellipsoids.volume(loc, scale, loc, scale, reach, inside, samples, 2 * seed + 1)
    fields = facts(same, scale, alpha, radius, cover, size)
    excess = nu * (cover[0] - (1 - alpha))
    gap = torch.where(excess == 0, 0.0, excess.sign() * (excess.abs().log() - own_level).exp()).sum(-1)
    log_error = torch.where(same, -math.inf, size[1])
    return (*fields, log_nu - own_level, torch.where(same, 0.0, gap.clamp(min=0)), log_error)


def _multipliers(heights: Tensor, alpha: float, sweeps: int = 60) -> Tensor:
    """(b, m): nu >= 0 at the maximum of the concave dual, by coordinates.

    heights (b, j, k, N) = p_k / c_k at the nodes of P_j. The dual's slope in nu_j is zero where P_j covers
    exactly 1 - alpha: nu_j is a quantile of (1 - sum_{k != j} nu_k p_k / c_k)_+ c_j / p_j under P_j.
    """
    nu = heights.new_ones(heights.shape[:2])
    active = torch.ones_like(nu[:, :1], dtype=torch.bool)
    for _ in range(sweeps):
        before = nu.clone()
        for j in range(nu.shape[1]):
            at = heights[:, j]
            rest = (nu[..., None] * at).sum(1) - nu[:, j, None] * at[:, j]
            needed = (1 - rest).clamp(min=0) / at[:, j]
            fresh = -_quantile(-needed, alpha)
            nu = nu.clone()
            nu[:, j] = torch.where(active[:, 0], fresh, nu[:, j])
        active = active & ((nu - before).abs().amax(-1, keepdim=True) > 1e-6)
        if not active.any():
            break
    return nu
