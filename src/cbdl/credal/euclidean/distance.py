"""How far a set of diagonal Normals is from one diagonal Normal: inf over the hull (paper, proposition
"dist_lemma").

Every kind is convex in the weights beta of the mixture q, so each is solved with a certificate. Chi-squared
is a closed form. The others are simulated: weights found on one set of nodes are judged on fresh ones, so
that `value` is unbiased for the mixture found, `error` is its standard error, and `gap` a lower bound's
distance, up to that error. W2 is bracketed: `value` is the best extreme, `value - gap` the best moment
bound over the hull.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks
from cbdl.credal._border import check_finite, check_positive, float64
from cbdl.credal._optimum import Optimum
from cbdl.credal.euclidean import diagonal
from cbdl.credal.euclidean.information import maximise_information
from cbdl.credal.euclidean.montecarlo import (
    REPLICATES,
    disagreeing_first,
    log_ratios,
    normal_nodes,
    replicate_means,
    squared_distances,
    standard_error,
)
from cbdl.credal.solvers.l1 import least_deviation
from cbdl.credal.solvers.simplex import minimise

MAJORISATIONS = 100
"""Steps that prepare the interior point for Renyi divergences of orders above 1."""

KINDS = ("kl", "reverse-kl", "tv", "hellinger", "chi2", "renyi", "w2")


def target(p: Any, batch: torch.Size, d: int) -> tuple[Tensor, Tensor, torch.Size]:
    """loc and scale (..., d) of the pair p, and the batch shape of an answer for sets of shape `batch`."""
    if not isinstance(p, (tuple, list)) or len(p) != 2:
        raise ValueError(f"p is {type(p).__name__}; give a pair (loc, scale), each (..., {d})")
    loc, scale = float64(p[0], "p[0]"), float64(p[1], "p[1]")
    check_finite(loc, "p[0]")
    check_positive(scale, "p[1]", "give standard deviations")
    try:
        pair = np.broadcast_shapes(loc.shape, scale.shape, (d,))
        shape = torch.Size(np.broadcast_shapes(pair[:-1], batch))
    except ValueError:
        pair, shape = (), torch.Size()
    if not pair or pair[-1] != d:
        raise ValueError(
            f"p has loc {tuple(loc.shape)} and scale {tuple(scale.shape)}; they must broadcast to {(*batch, d)}, one "
            "Normal for each set (for another dimension see cbdl.credal.across)"
        )
    return loc.expand(*pair), scale.expand(*pair), shape


def distance(
    loc: Tensor,
    scale: Tensor,
    target_loc: Tensor,
    target_scale: Tensor,
    kind: str,
    order: float,
    samples: int,
    seed: int,
) -> Optimum:
    """min over beta of d(sum_j beta_j P_j, p); loc, scale (B, m, d), target (B, d).

    "kl" is KL(q || p), "reverse-kl" KL(p || q), "tv" half the L1 distance, "hellinger" sqrt(1 - integral
    sqrt(q p)), "chi2" the integral of (q - p)^2 / p, "renyi" that of q from p of the given order, "w2" the
    Wasserstein distance.
    """
    args = loc, scale, target_loc, target_scale
    m, d = loc.shape[1:]
    size = REPLICATES << max(0, math.ceil(math.log2(samples / REPLICATES)))

    def chunked(solve: Callable[..., tuple[Tensor, ...]], per_set: int) -> Optimum:
        return Optimum(*in_chunks(solve, *args, per_set=8 * per_set * 6))

    if kind == "kl":
        linear = -diagonal.kl(loc, scale, target_loc[:, None], target_scale[:, None])
        information = maximise_information(loc, scale, linear, samples, seed)
        return Optimum(
            (-information.value).clamp(min=0), information.gap, information.weights, information.error
        )
    if kind == "chi2":
        return chunked(_chi2, m * m * (d + 4))
    if kind == "w2":
        return chunked(_w2, m * m * (d + 4))
    if kind == "tv":
        return chunked(lambda a, b, c, d: _tv(a, b, c, d, samples, seed), (m + 1) ** 2 * size)
    if kind == "reverse-kl":
        return chunked(lambda a, b, c, d: _reverse_kl(a, b, c, d, samples, seed), (m + 1) * size)
    if kind == "renyi" and order == 2:
        squared = chunked(_chi2, m * m * (d + 4))
        lower = (squared.value - squared.gap).clamp(min=0).log1p()
        value = squared.value.log1p()
        gap = torch.where(torch.isinf(value), 0.0, value - lower)
        return Optimum(value, gap, squared.weights, squared.error)
    power = 0.5 if kind == "hellinger" else order
    integral = chunked(lambda a, b, c, d: _power(a, b, c, d, power, samples, seed), (m + 1) * m * size)
    return _hellinger(integral) if kind == "hellinger" else integral


# --- simulated ----------------------------------------------------------------------------------


def _rows_of(*tensors: Tensor) -> Callable[[Tensor], tuple[Tensor, ...]]:
    """Gathers the active sets once for each change of them, not at every step."""
    kept: list[Tensor] = []
    parts: list[tuple[Tensor, ...]] = []

    def at(rows: Tensor) -> tuple[Tensor, ...]:
        if not kept or kept[0] is not rows:
            kept[:] = [rows]
            parts[:] = [tensors if rows.numel() == tensors[0].shape[0] else tuple(t[rows] for t in tensors)]
        return parts[0]

    return at


def _tv(
    loc: Tensor, scale: Tensor, t_loc: Tensor, t_scale: Tensor, samples: int, seed: int
) -> tuple[Tensor, ...]:
    """min (1/2) E_r |q - p| / r on nodes of the equal mixture r of the extremes and the target.

    On the nodes it is a problem of least absolute deviations. For any |g| <= 1/2, min_j E_j[g] - E_p[g] is a lower
    bound; g = sign(q - p) / 2 makes it tight.
    """
    loc, scale = torch.cat([t_loc[:, None], loc], 1), torch.cat([t_scale[:, None], scale], 1)
    loc, scale = disagreeing_first(loc, scale)
    d, strata = loc.shape[-1], loc.shape[1]
    # The value is quadratic in an error of the weights, and this is the dear part: a quarter of the nodes is enough.
    few, many = max(REPLICATES, samples // 4), samples
    draws = ((few, 2 * seed), (many, 2 * seed + 1))
    nodes = [normal_nodes(d, n, key, loc.device).flatten(0, 1) for n, key in draws]
    rho = log_ratios(loc, scale, nodes[0]).exp() / (strata * nodes[0].shape[0])
    beta = least_deviation(rho[:, 1:], rho[:, 0]).weights
    rho = log_ratios(loc, scale, nodes[1]).exp()
    x = (beta[:, None] @ rho[:, 1:])[:, 0] - rho[:, 0]
    values = replicate_means(x.abs() / 2, strata)
    lower = ((rho[:, 1:] - rho[:, :1]) * (x.sign() / 2)[:, None]).mean(-1).amin(-1).clamp(min=0)
    value = values.mean(-1)
    return value, (value - lower).clamp(min=0), beta, standard_error(values)


def _reverse_kl(
    loc: Tensor, scale: Tensor, t_loc: Tensor, t_scale: Tensor, samples: int, seed: int
) -> tuple[Tensor, ...]:
    """min E_p log(p / q) on nodes of the target p.

    For every q' of the hull E_p log(q' / q) <= log max_j E_p[p_j / q], which is the certificate.
    """
    both = disagreeing_first(torch.cat([t_loc[:, None], loc], 1), torch.cat([t_scale[:, None], scale], 1))
    t_loc, loc = both[0][:, :1], both[0][:, 1:]
    t_scale, scale = both[1][:, :1], both[1][:, 1:]

    def log_p(stage: int) -> Tensor:
        z = normal_nodes(loc.shape[-1], samples, 2 * seed + stage, loc.device).flatten(0, 1)
        q = squared_distances(z, (t_loc - loc)[:, None], t_scale, scale)[:, 0]
        return -q / 2 - scale.log().sum(-1)[..., None]

    train = log_p(0)
    at = _rows_of((train - train.amax(1, keepdim=True)).exp())

    def objective(beta: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (u,) = at(rows)
        s = (beta[:, None] @ u).clamp(min=1e-300)
        v = u / s
        return -s[:, 0].log().mean(-1), -v.mean(-1), v @ v.mT / u.shape[-1]

    beta = minimise(objective, loc.shape[0], loc.shape[1], device=loc.device, tolerance=1e-9).point
    fresh = log_p(1)
    log_q = (fresh + beta.log()[..., None]).logsumexp(1)
    # Far from the hull the exact divergences of the extremes take out most noise; near it log(p / q) itself
    # is small.
    control = torch.where(beta > 1e-6, beta, 0.0)
    control = control / control.sum(-1, keepdim=True)
    exact = (control * diagonal.kl(t_loc, t_scale, loc, scale)).sum(-1)
    z = normal_nodes(loc.shape[-1], samples, 2 * seed + 1, loc.device).flatten(0, 1)
    log_t = -z.square().sum(-1) / 2 - t_scale.log().sum(-1)
    plain = replicate_means(log_t - log_q, 1)
    values = exact[:, None] + replicate_means((control[..., None] * fresh).sum(1) - log_q, 1)
    values = torch.where((standard_error(plain) < standard_error(values))[:, None], plain, values)
    value = values.mean(-1).clamp(min=0)
    ratio = (fresh - log_q[:, None]).logsumexp(-1) - math.log(fresh.shape[-1])
    gap = torch.minimum(ratio.amax(-1).clamp(min=0), value)
    return value, gap, beta, standard_error(values)


def _power(
    loc: Tensor, scale: Tensor, t_loc: Tensor, t_scale: Tensor, power: float, samples: int, seed: int
) -> tuple[Tensor, ...]:
    """The Renyi divergence log F / (a - 1), F = integral q^a p^(1-a), at its least over the hull."""
    both = disagreeing_first(torch.cat([t_loc[:, None], loc], 1), torch.cat([t_scale[:, None], scale], 1))
    t_loc, t_scale = both[0][:, :1], both[1][:, :1]
    (loc, scale), origin, possible = _drop_infinite(both[0][:, 1:], both[1][:, 1:], t_loc, t_scale, power)
    m, d = loc.shape[1:]
    tilted = diagonal.power_product(loc, scale, power, t_loc, t_scale)
    log_mass = tilted[0]
    reference = log_mass.amin(-1) if power > 1 else log_mass.amax(-1)
    nodes = [normal_nodes(d, samples, 2 * seed + stage, loc.device).flatten(0, 1) for stage in (0, 1)]
    # Weights at which all extremes contribute alike: where a > 1 and they differ much, uniform ones are hopeless.
    start = torch.softmax((reference[:, None] - log_mass) / power, -1) if power > 1 else None
    beta = _power_weights(*_power_nodes(nodes[0], loc, scale, tilted, reference, power), power, start)
    u, log_weight = _power_nodes(nodes[1], loc, scale, tilted, reference, power)
    s = (beta[:, None] @ u)[:, 0].clamp(min=1e-300)
    log_terms = log_weight + power * s.log()
    top = log_terms.amax(-1, keepdim=True)
    terms = (log_terms - top).exp()
    values = replicate_means(terms, m)
    F = values.mean(-1)
    # F^(1/a) is homogeneous, and convex (a > 1) or concave (a < 1) in beta: over the whole simplex it is bounded by
    # its least (greatest) slope, here in units of F^(1/a) itself.
    slope = (u / s[:, None] * terms[:, None]).mean(-1) / F[:, None]
    steepest = slope.amin(-1) if power > 1 else slope.amax(-1)
    value = ((reference + top[:, 0] + F.log()) / (power - 1)).clamp(min=0)
    gap = power / (1 - power) * steepest.clamp(min=1e-300).log()
    gap = torch.minimum(gap.clamp(min=0), value)
    error = standard_error(values) / F / abs(power - 1)
    weights = torch.zeros_like(beta).scatter_add_(1, origin, beta)
    return (
        torch.where(possible, value, torch.inf),
        torch.where(possible, gap, 0.0),
        weights,
        torch.where(possible, error, 0.0),
    )


def _power_nodes(
    z: Tensor,
    loc: Tensor,
    scale: Tensor,
    tilted: tuple[Tensor, Tensor, Tensor],
    reference: Tensor,
    power: float,
) -> tuple[Tensor, Tensor]:
    """u (b, m, N) = p_j / max_k p_k, and log W (b, N) such that F = mean W (beta u)^a exp(reference).

    The nodes come from the Normals that p_j^a p^(1-a) are multiples of: they dominate the integrand for every q,
    so its relative variance is bounded however far apart the distributions are.
    """
    log_mass, offset, spread = tilted
    b, m, _ = loc.shape
    own = squared_distances(z, loc[:, :, None] - loc[:, None] + offset[:, :, None], spread, scale)
    log_p = -own / 2 - scale.log().sum(-1)[:, None, :, None]
    log_p = log_p.transpose(1, 2).reshape(b, m, -1)
    # W = top^a p^(1-a) / r: p cancels, and differences come first, so that large numbers do too.
    below = log_p - log_p.amax(1, keepdim=True)
    weight = math.log(m) - (power * below - (log_mass - reference[:, None])[..., None]).logsumexp(1)
    return below.exp(), weight


def _drop_infinite(
    loc: Tensor, scale: Tensor, t_loc: Tensor, t_scale: Tensor, power: float
) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor]:
    """Extremes that no optimal mixture can use, replaced by the best one; where each came from; and whether
    any is left.

    The a-norm grows with the density, so beta_j <= (best integral / integral of j)^(1/a): e^-40 is nothing.
    """
    log_mass = diagonal.power_product(loc, scale, power, t_loc, t_scale)[0]
    if power < 1:
        everything = torch.arange(loc.shape[1], device=loc.device).expand(loc.shape[:2])
        return (loc, scale), everything, torch.ones_like(log_mass[:, 0], dtype=torch.bool)
    best = log_mass.argmin(-1, keepdim=True)
    least = log_mass.gather(1, best)
    possible = torch.isfinite(least)[:, 0]
    keep = log_mass - torch.where(torch.isfinite(least), least, 0.0) < 40 * power
    origin = torch.where(keep, torch.arange(loc.shape[1], device=loc.device), best)
    index = origin[..., None].expand_as(loc)
    loc, scale = loc.gather(1, index), scale.gather(1, index)
    no = ~possible[:, None, None]
    return (torch.where(no, t_loc, loc), torch.where(no, t_scale, scale)), origin, possible


def _power_weights(u: Tensor, log_weight: Tensor, power: float, start: Tensor | None) -> Tensor:
    """(b, m): the weights at which mean W (beta u)^a is greatest (a < 1) or least (a > 1)."""
    at = _rows_of(u, log_weight)

    def slopes(beta: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """log F, the share of every node in it, v = u / s, and the slopes of log F over a."""
        u, w = at(rows)
        s = (beta[:, None] @ u)[:, 0].clamp(min=1e-300)
        log_terms = w + power * s.log()
        log_F = log_terms.logsumexp(-1)
        share, v = (log_terms - log_F[:, None]).exp(), u / s[:, None]
        return log_F - math.log(s.shape[-1]), share, v, (v @ share[..., None])[..., 0]

    def objective(beta: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """+-F^(1/a), homogeneous and convex: over beta its values differ less than those of F."""
        log_F, share, v, slope = slopes(beta, rows)
        size = (log_F / power).exp() * (1.0 if power > 1 else -1.0)
        hessian = (power - 1) * ((v * share[:, None]) @ v.mT - slope[:, :, None] * slope[:, None])
        hessian = hessian * size[:, None, None]
        # beta is a null vector. Curvature along 1, which the simplex does not see, keeps the system regular.
        hessian = hessian + hessian.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None]
        return size, size[:, None] * slope, hessian

    if start is not None:
        # Large orders are nearly a maximum, on which Newton's steps fail. F(beta) is at most a sum of powers of
        # the beta_j that touches it at the present point; its minimiser never makes F larger.
        rows = torch.arange(u.shape[0], device=u.device)
        for _ in range(MAJORISATIONS):
            start = start * slopes(start, rows)[3].clamp(min=1e-30) ** (-1 / (power - 1))
            start = (start / start.sum(-1, keepdim=True)).clamp(min=1e-18)
            start = start / start.sum(-1, keepdim=True)
    return minimise(objective, u.shape[0], u.shape[1], device=u.device, tolerance=1e-9, start=start).point


def _hellinger(half: Optimum) -> Optimum:
    """From the Renyi divergence of order 1/2, D = -2 log(integral sqrt(q p)): sqrt(1 - exp(-D / 2))."""
    value = (-torch.expm1(-half.value / 2)).sqrt()
    lower = (-torch.expm1(-(half.value - half.gap).clamp(min=0) / 2)).sqrt()
    # The error of a square root: linear away from 0, itself a square root at 0.
    spread = half.error / 2 * (-half.value / 2).exp()
    error = torch.where(half.error > 0, spread / (value + spread.sqrt()).clamp(min=1e-150), 0.0)
    return Optimum(value, (value - lower).clamp(min=0), half.weights, error)


# --- closed forms -------------------------------------------------------------------------------


def _chi2(loc: Tensor, scale: Tensor, t_loc: Tensor, t_scale: Tensor) -> tuple[Tensor, ...]:
    """min beta^T M beta - 1, M_jk = integral p_j p_k / p: exact; infinite where every M_jj is."""
    (loc, scale), origin, possible = _drop_infinite(loc, scale, t_loc[:, None], t_scale[:, None], 2.0)
    log_m = diagonal.log_triple_product(loc, scale, t_loc, t_scale)
    reference = log_m.diagonal(dim1=-2, dim2=-1).amin(-1)
    at = _rows_of((log_m - reference[:, None, None]).exp())

    def objective(beta: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (M,) = at(rows)
        g = (M @ beta[..., None])[..., 0]
        return (beta * g).sum(-1), 2 * g, 2 * M

    minimum = minimise(objective, loc.shape[0], loc.shape[1], device=loc.device, tolerance=1e-12)
    log_value = reference + minimum.value.log()
    value = torch.where(possible, torch.expm1(log_value).clamp(min=0), torch.inf)
    gap = torch.where(torch.isinf(value), 0.0, minimum.gap * reference.exp())
    weights = torch.zeros_like(minimum.point).scatter_add_(1, origin, minimum.point)
    return value, gap, weights, torch.zeros_like(value)


def _w2(loc: Tensor, scale: Tensor, t_loc: Tensor, t_scale: Tensor) -> tuple[Tensor, ...]:
    """The best extreme above, the best moment bound below.

    W2^2 is convex under mixing, so min_j W2(P_j, p) is at least the infimum. Every coordinate's transport
    costs at least (mean difference)^2 + (sd difference)^2 (Gelbrich), and the sum of these is convex in
    beta:

        sum_i E_q (y_i - mu_i)^2 + s_i^2 - 2 s_i sd_i(q).
    """
    squared = diagonal.w2_squared(loc, scale, t_loc[:, None], t_scale[:, None])
    best, index = squared.min(-1)
    size = squared.amax(-1, keepdim=True).sqrt()
    unit = torch.where(size > 0, size, t_scale.amax(-1, keepdim=True))
    shift, s, t = (loc - t_loc[:, None]) / unit[..., None], scale / unit[..., None], t_scale / unit
    at = _rows_of(shift, shift.square() + s.square(), t)

    def objective(beta: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, x2, t = at(rows)
        mean = (beta[..., None] * x).sum(1, keepdim=True)
        # The variance about the mean, a sum of non-negative terms.
        about = (x - mean).square() + (x2 - x.square())
        sd = (beta[..., None] * about).sum(1).clamp(min=1e-300).sqrt()
        second = (beta[..., None] * x2).sum((1, 2)) + t.square().sum(-1)
        # d sd^2 / d beta_j up to a multiple of 1, which no step within the simplex sees.
        gradient = x2.sum(-1) - (t[:, None] * about / sd[:, None]).sum(-1)
        bend = (2 * t / sd)[:, None] * (x - mean)
        outer = (2 * t / sd.pow(3))[:, None] / 4 * about
        hessian = bend @ (x - mean).mT + outer @ about.mT
        return second - 2 * (t * sd).sum(-1), gradient, hessian

    minimum = minimise(objective, loc.shape[0], loc.shape[1], device=loc.device, tolerance=1e-12)
    lower = (minimum.value - minimum.gap).clamp(min=0).sqrt() * unit[:, 0]
    weights = torch.nn.functional.one_hot(index, loc.shape[1]).to(loc)
    value = best.sqrt()
    return value, (value - lower).clamp(min=0), weights, torch.zeros_like(value)
