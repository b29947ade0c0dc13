"""Integrals over R^d by randomised quasi-Monte Carlo, with standard errors.

The nodes are scrambled Sobol points, made Normal: `REPLICATES` independent scrambles, so that the spread of
the replicates is an honest standard error. The same standard nodes z serve every set; those of extreme j
are mu_j + s_j z. So an answer does not depend on the batch, and repeated calls agree. The squared distance
of such a node from another extreme k is a polynomial in z: three matrix products, in which only differences
of locations enter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cbdl.credal._batch import MEMORY, in_chunks
from cbdl.credal._border import first, float64
from cbdl.credal._optimum import Optimum
from cbdl.credal.euclidean import diagonal

REPLICATES = 16
MAX_SAMPLES = 1 << 17
"""Draws of each extreme at which the search for a tolerance ends."""

_SOBOL_DIMENSIONS = 21201


class Nodes(NamedTuple):
    """Which nodes a set uses: how many draws of each extreme, and the seed of the scrambles."""

    samples: int
    seed: int


@lru_cache(maxsize=32)
def _uniform(d: int, samples: int, seed: int) -> Tensor:
    """(REPLICATES, n, d) in (0, 1), n * REPLICATES >= samples, n a power of 2."""
    n = 1 << max(0, math.ceil(math.log2(max(1, samples) / REPLICATES)))
    parts = []
    for replicate in range(REPLICATES):
        key = (seed * 1_000_003 + replicate) % (1 << 62)
        if d <= _SOBOL_DIMENSIONS:
            engine = torch.quasirandom.SobolEngine(d, scramble=True, seed=key)  # type: ignore[no-untyped-call]
            points = engine.draw(n, dtype=torch.float64)
        else:
            points = torch.rand(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(key))
        parts.append(points)
    # Sobol points are multiples of 2^-30 and may be 0: take the centre of the cell.
    return torch.stack(parts) * (1 - 2.0**-30) + 2.0**-31


def normal_nodes(d: int, samples: int, seed: int, device: torch.device) -> Tensor:
    """(REPLICATES, n, d): standard Normal nodes."""
    return _normal(d, samples, seed).to(device)


def ball_nodes(d: int, samples: int, seed: int, device: torch.device) -> Tensor:
    """(REPLICATES, n, d): uniform in the unit ball."""
    return _ball(d, samples, seed).to(device)


@lru_cache(maxsize=4)
def _normal(d: int, samples: int, seed: int) -> Tensor:
    z: Tensor = torch.special.ndtri(_uniform(d, samples, seed))
    return z


@lru_cache(maxsize=4)
def _ball(d: int, samples: int, seed: int) -> Tensor:
    u = _uniform(d + 1, samples, seed)
    z: Tensor = torch.special.ndtri(u[..., :d])
    return z / z.square().sum(-1, keepdim=True).sqrt() * u[..., d:].pow(1 / d)


@lru_cache(maxsize=4)
def normal_squares(d: int, samples: int, seed: int, device: torch.device) -> Tensor:
    """(N,): the squared lengths of the standard Normal nodes of all replicates."""
    return normal_nodes(d, samples, seed, device).square().sum(-1).flatten()


@lru_cache(maxsize=4)
def normal_powers(d: int, samples: int, seed: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """(2 d, N): the standard Normal nodes of all replicates and their squares."""
    return powers(normal_nodes(d, samples, seed, device).flatten(0, 1)).to(dtype)


@lru_cache(maxsize=4)
def ball_powers(d: int, samples: int, seed: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """(2 d, N): the same of the nodes in the ball."""
    return powers(ball_nodes(d, samples, seed, device).flatten(0, 1)).to(dtype)


def powers(z: Tensor) -> Tensor:
    """(2 d, N): nodes z (N, d) and their squares."""
    return torch.cat([z, z.square()], -1).T.contiguous()


@lru_cache(maxsize=64)
def others(m: int, device: torch.device) -> Tensor:
    """(m, m - 1): the indices from 0 to m - 1 without j, for every j; not to be written to."""
    rest = torch.arange(m - 1, device=device)
    return rest + (rest >= torch.arange(m, device=device)[:, None])


def squared_distances(z: Tensor, offset: Tensor, spread: Tensor, scale: Tensor) -> Tensor:
    """(b, p, k, N): |(y - loc_k) / scale_k|^2 at the nodes y = centre_p + spread_p z_n.

    z (N, d); offset (b, p, k, d) = centre_p - loc_k; spread (b, p, d); scale (b, k, d).
    """
    delta = offset / scale[:, None]
    ratio = spread[:, :, None] / scale[:, None]
    terms = torch.cat([2 * delta * ratio, ratio.square()], -1)
    return (terms @ powers(z)).add_(delta.square().sum(-1, keepdim=True)).clamp_(min=0)


def own_distances(z: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    """(b, m, m, N): the squared distance of every extreme's nodes from every extreme; loc, scale (b, m, d)."""
    return squared_distances(z, loc[:, :, None] - loc[:, None], scale, scale)


def disagreeing_first(loc: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """The coordinates of (b, m, d), for each set in the order in which the extremes differ most.

    The first coordinates of a Sobol sequence are the most even ones. Coordinates in which all agree drop out
    of every ratio of densities, wherever they stand.
    """
    least, most = scale.amin(1), scale.amax(1)
    differ = (loc.amax(1) - loc.amin(1)) / least + (most / least).log()
    order = differ.argsort(dim=-1, descending=True, stable=True)[:, None].expand_as(loc)
    return loc.gather(-1, order), scale.gather(-1, order)


def log_ratios(loc: Tensor, scale: Tensor, z: Tensor) -> Tensor:
    """(b, m, m N): log(p_k / r) at the nodes of all extremes, r their equal mixture; at most log m."""
    b, m, _ = loc.shape
    log_p = own_distances(z, loc, scale).mul_(-0.5).sub_(scale.log().sum(-1)[:, None, :, None])
    log_p -= log_p.logsumexp(2, keepdim=True) - math.log(m)
    return log_p.transpose(1, 2).reshape(b, m, -1)


def standard_error(values: Tensor) -> Tensor:
    """(...,): of the mean of independent replicates (..., REPLICATES)."""
    return values.std(-1) / math.sqrt(values.shape[-1])


def replicate_means(values: Tensor, strata: int) -> Tensor:
    """(..., REPLICATES): the mean over strata and draws of values (..., strata * REPLICATES * n)."""
    return values.reshape(*values.shape[:-1], strata, REPLICATES, -1).mean((-3, -1))


def until(
    solve: Callable[[Tensor, int], Optimum],
    batch: int,
    samples: int,
    tolerance: float | None,
    device: torch.device,
) -> Optimum:
    """`solve(rows, samples)`, with the samples doubled for those sets whose standard error exceeds
    `tolerance`.

    The rule looks at each set alone. The search ends at `MAX_SAMPLES`; the error that is reported then says
    so.
    """
    estimate = solve(torch.arange(batch, device=device), samples)
    while tolerance is not None and samples < MAX_SAMPLES:
        rows = (estimate.error > tolerance).nonzero()[:, 0]
        if rows.numel() == 0:
            break
        samples *= 4
        again = solve(rows, samples)
        for whole, part in zip(_fields(estimate), _fields(again), strict=True):
            whole[rows] = part
    return estimate


def _fields(optimum: Optimum) -> tuple[Tensor, ...]:
    return optimum.value, optimum.gap, optimum.weights, optimum.error


def simulate(
    f: Callable[[Tensor], Any], loc: Tensor, scale: Tensor, samples: int, seed: int, name: str
) -> Tensor:
    """(REPLICATES, ..., m): the mean of f over the nodes of each extreme; loc, scale (..., m, d).

    f sees points (n, m, ..., d), so that the batch dimensions stand where a region of the same batch
    expects them.
    """
    loc, scale = loc.movedim(-2, 0), scale.movedim(-2, 0)
    d = loc.shape[-1]
    step = max(1, MEMORY // (8 * 4 * loc.numel()))
    means = []
    for z in normal_nodes(d, samples, 2 * seed, loc.device):
        total = torch.zeros(loc.shape[:-1], dtype=loc.dtype, device=loc.device)
        for part in z.split(step):
            y = loc + scale * part.reshape(-1, *[1] * (loc.ndim - 1), d)
            total = total + _values(f(y), y, name).sum(0)
        means.append(total / z.shape[0])
    return torch.stack(means).movedim(1, -1)


def _values(numbers: Any, y: Tensor, name: str) -> Tensor:
    values = float64(numbers, f"{name}(y)").to(y.device)
    if values.shape != y.shape[:-1]:
        raise ValueError(
            f"{name} maps y of shape {tuple(y.shape)} to {tuple(values.shape)}; it must give one number "
            f"for each point, {tuple(y.shape[:-1])}"
        )
    bad = ~torch.isfinite(values)
    if bad.any():
        at = first(bad)
        raise ValueError(
            f"{name}(y) is {values[at].item()} at y = {y[at].tolist()}; it must be finite everywhere"
        )
    return values


def choquet(values: Tensor, *, upper: bool) -> tuple[Tensor, Tensor]:
    """(b,) twice: the Choquet integral with respect to the upper or lower envelope of the extremes, and its
    error.

    values (b, m, N): the integrand at the nodes of each extreme. The envelope of the survival functions is
    that of the quantile functions, so the integral is the mean of the largest (or least) of the i-th
    smallest values.
    """

    def mean(x: Tensor) -> Tensor:
        ordered = x.sort(dim=-1).values
        return (ordered.amax(1) if upper else ordered.amin(1)).mean(-1)

    parts = values.reshape(*values.shape[:-1], REPLICATES, -1).movedim(2, 0)
    return mean(values), standard_error(torch.stack([mean(part) for part in parts], -1))


def entropy_bounds(loc: Tensor, scale: Tensor, samples: int, seed: int) -> tuple[Tensor, ...]:
    """H(lower P), H(upper P) and the standard error of each, (B,) each; loc, scale (B, m, d).

    Exact where all extremes are one. Paper: theorem "thm_rem_bounds_entropy", continuous case.
    """
    m, d = loc.shape[1:]

    def solve(loc: Tensor, scale: Tensor) -> tuple[Tensor, ...]:
        z = normal_nodes(d, samples, 2 * seed + 1, loc.device).flatten(0, 1)
        height = -scale.log().sum(-1) - d * diagonal.LOG_2PI / 2
        log_p = height[:, None, :, None] - own_distances(z, loc, scale) / 2
        lower, lower_error = choquet(-log_p.amax(2), upper=False)
        upper, upper_error = choquet(-log_p.amin(2), upper=True)
        same = ((loc == loc[:, :1]) & (scale == scale[:, :1])).all(-1).all(-1)
        exact = diagonal.entropy(scale[:, 0])
        values = (torch.where(same, exact, x) for x in (lower, upper))
        errors = (torch.where(same, 0.0, x) for x in (lower_error, upper_error))
        return (*values, *errors)

    return in_chunks(solve, loc, scale, per_set=8 * m * m * max(REPLICATES, samples) * 6)
