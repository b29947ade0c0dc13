"""The smallest region that every element of the set covers: definition "ihdr-def", exactly, by duality.

    minimise |R|  subject to  P_j(R) >= 1 - alpha for all j

is a linear programme over functions 0 <= r(y) <= 1. Its dual is

    maximise over lambda >= 0   D(lambda) = (1 - alpha) sum_j lambda_j - integral (sum_j lambda_j p_j - 1)_+ dy,

concave, with gradient (1 - alpha) - P_j(R_lambda) where R_lambda = {y : sum_j lambda_j p_j(y) >= 1}, and with
Hessian - sum over the ends of R_lambda of p_j p_k / |q'|, q = sum_j lambda_j p_j. The level set {q = 1} of
an analytic q is finite, so at the maximum R_lambda is feasible and optimal: nothing is lost by the relaxation.

D is maximised by a primal-dual interior point. All numbers come from the crossings of q with 1; there is no
quadrature. Any feasible region R and any lambda >= 0 have |R| >= optimum >= D(lambda): the difference is the gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal.line.hdr import hdr
from cbdl.credal.line.intervals import Intervals, padded
from cbdl.credal.line.levels import Grid, Profile, crossings, evaluate, make_grid, profile
from cbdl.credal.line.mixture import Derivatives, Extremes
from cbdl.credal.solvers.roots import descend, last_nonnegative

STEPS = 80


@dataclass(frozen=True)
class _Shared:
    """What does not change with lambda: the sets, a grid for each, and every extreme's values on it (T, m)."""

    sets: Extremes
    grid: Grid
    values: Derivatives
    alpha: float

    def __getitem__(self, rows: Tensor) -> _Shared:
        grid, index = self.grid.take(rows)
        logp, score, bend = (v[index] for v in self.values)
        return _Shared(self.sets[rows], grid, (logp, score, bend), self.alpha)


@dataclass(frozen=True)
class _Dual:
    """D at lambda: region, coverage P_j (B, m), measure (B,), Hessian (B, m, m) of -D."""

    coverage: Tensor
    measure: Tensor
    hessian: Tensor


def minimal_region(sets: Extremes, alpha: float) -> tuple[Intervals, Tensor, Tensor]:
    """(intervals, log lambda (B, m), gap (B,)) of the smallest region of each set."""
    best, gap = torch.zeros_like(sets.loc[..., 0]), sets.loc.new_zeros(len(sets))
    owners: list[Tensor] = []
    ends: list[Tensor] = []
    for rows in sets.chunks():
        shared = _prepare(sets[rows], alpha)
        best[rows] = _maximise(shared)
        owner, points, gap[rows] = _feasible(shared, best[rows])
        owners.append(rows[owner])
        ends.append(points)
    owner, points = torch.cat(owners), torch.cat(ends)
    found = padded(owner, (points[:, 0], points[:, 1]), (points[:, 2], points[:, 3]), len(sets))
    return found, best.log(), gap


def _prepare(sets: Extremes, alpha: float) -> _Shared:
    grid = make_grid(sets.pooled())
    return _Shared(sets, grid, values_of_each(sets, grid), alpha)


def values_of_each(sets: Extremes, grid: Grid) -> Derivatives:
    """(T, m) three times: log p, p'/p and p''/p of every extreme on the one grid of its set."""
    B, m = len(sets), sets.m
    wide, index = grid.take(torch.arange(B, device=grid.owner.device).repeat_interleave(m))
    extreme = wide.owner % m
    logp, score, bend = (
        v.new_empty(len(grid.owner), m).index_put((index, extreme), v) for v in evaluate(sets.each(), wide)
    )
    return logp, score, bend


def _shape(shared: _Shared, lam: Tensor) -> Profile:
    """The shape of q = sum_j lambda_j p_j: its values on the grid are averages of those of the extremes."""
    logp, score, bend = shared.values
    terms = logp + lam.log()[shared.grid.owner]
    logq = torch.logsumexp(terms, -1)
    share = (terms - logq[:, None]).exp()
    values = logq, (share * score).sum(-1), (share * bend).sum(-1)
    return profile(shared.sets.pooled(lam), shared.grid, values)


def _dual(shared: _Shared, lam: Tensor) -> _Dual:
    sets = shared.sets
    ends = crossings(_shape(shared, lam), torch.zeros_like(lam[:, 0]))
    high, low = ends.high.view(-1, 2), ends.low.view(-1, 2)
    owner = ends.owner[::2]
    mass = sets.interval_masses(owner, (high[:, 0], low[:, 0]), (high[:, 1], low[:, 1]))
    length = (high[:, 1] - high[:, 0]) + (low[:, 1] - low[:, 0])
    density = sets.densities(ends.owner, ends.high, ends.low).exp()
    outer = density[:, :, None] * (density / ends.score.abs().clamp_min(1e-300)[:, None])[:, None, :]
    return _Dual(
        torch.zeros_like(lam).index_add_(0, owner, mass),
        torch.zeros_like(lam[:, 0]).index_add_(0, owner, length),
        lam.new_zeros(len(lam), sets.m, sets.m).index_add_(0, ends.owner, outer),
    )


def _maximise(shared: _Shared) -> Tensor:
    """lambda (B, m): primal-dual interior point; sets that are done leave the batch."""
    sets, alpha = shared.sets, shared.alpha
    level, _ = hdr(sets.each(), alpha)
    lam = (-level.view(len(sets), sets.m)).exp()  # right for extremes far apart, too large for similar ones
    slack = torch.full_like(lam, 0.5 * alpha)
    best, best_gap = lam.clone(), torch.full_like(lam[:, 0], torch.inf)
    rows = torch.arange(len(sets), device=lam.device)
    now, part = _dual(shared, lam), shared
    for _ in range(STEPS):
        g = (1 - alpha) - now.coverage
        # What the gap would be if the region were feasible; infeasibility is charged at the current prices.
        gap = (lam * g.abs()).sum(-1) + lam.sum(-1) * g.clamp_min(0).amax(-1)
        better = gap < best_gap[rows]
        best[rows[better]], best_gap[rows[better]] = lam[better], gap[better]
        on = (gap > 1e-13 * now.measure).nonzero()[:, 0]
        if len(on) == 0:
            break
        rows, lam, slack, part = rows[on], lam[on], slack[on], part[on]
        now = _Dual(now.coverage[on], now.measure[on], now.hessian[on])
        # The target for lambda slack falls to a tenth, and quadratically in the end.
        total = (lam * slack).sum(-1)
        mu = (total / now.measure.clamp_min(1e-300)).clamp_max(0.1) * total / sets.m
        lam, slack, now = _step(part, lam, slack, now, mu)
    return best


def _step(part: _Shared, lam: Tensor, slack: Tensor, now: _Dual, mu: Tensor) -> tuple[Tensor, Tensor, _Dual]:
    """One Newton step on gradient D + slack = 0, lambda slack = mu, shortened until D does not fall behind."""
    g = (1 - part.alpha) - now.coverage
    # Scaled by lambda, so that extremes of very different scale are on one footing.
    unit = now.measure.clamp_min(1e-300)[:, None]
    matrix = now.hessian * lam[:, :, None] * lam[:, None, :] / unit[..., None]
    matrix = matrix + torch.diag_embed(slack * lam / unit + 1e-15)
    right = (g * lam + mu[:, None]) / unit
    factor, info = torch.linalg.cholesky_ex(matrix)
    d = torch.cholesky_solve(right[..., None], factor)[..., 0]
    d = torch.where((info == 0)[:, None] & torch.isfinite(d), d, right / matrix.diagonal(dim1=1, dim2=2))
    direction = lam * d
    slack_step = (mu[:, None] - slack * direction) / lam - slack
    rate = (right * d).sum(-1)
    t = _longest(d, torch.ones_like(d))
    ts = _longest(slack_step, slack)
    new = _dual(part, lam + t[:, None] * direction)
    todo = torch.arange(len(lam), device=lam.device)
    for _ in range(30):
        moved = lam[todo] + t[todo, None] * direction[todo]
        slope = (((1 - part.alpha) - new.coverage[todo] + mu[todo, None] / moved) * direction[todo]).sum(-1)
        # D + mu sum log lambda is concave along the step: far past its top the slope turns steeply negative.
        todo = todo[slope < -0.5 * (rate[todo] * unit[todo, 0]).abs()]
        if len(todo) == 0:
            break
        t[todo] *= 0.4
        again = _dual(part[todo], lam[todo] + t[todo, None] * direction[todo])
        new.coverage[todo], new.measure[todo], new.hessian[todo] = (
            again.coverage,
            again.measure,
            again.hessian,
        )
    return lam + t[:, None] * direction, slack + ts[:, None] * slack_step, new


def _longest(step: Tensor, value: Tensor) -> Tensor:
    """(B,): the largest t <= 1 that keeps value + t step at 1/100 of value or more."""
    ratio = torch.where(step < 0, -0.99 * value / step.clamp_max(-1e-300), 1.0)
    return ratio.amin(-1).clamp_max(1.0)


def _feasible(shared: _Shared, lam: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Owners and ends (R, 4) of {q >= c}, c <= 1 as large as coverage allows, and the gap to D(lambda)."""
    sets, alpha = shared.sets, shared.alpha
    shape = _shape(shared, lam)

    def region(rows: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        ends = crossings(shape, u, rows)
        return ends.owner[::2], torch.stack([ends.high, ends.low], -1).view(-1, 4)

    def coverage(rows: Tensor, owner: Tensor, p: Tensor) -> Tensor:
        mass = sets[rows].interval_masses(owner, (p[:, 0], p[:, 1]), (p[:, 2], p[:, 3]))
        return lam.new_zeros(len(rows), sets.m).index_add_(0, owner, mass)

    def margin(rows: Tensor, u: Tensor) -> Tensor:
        return coverage(rows, *region(rows, u)).amin(-1) - (1 - alpha)

    rows = torch.arange(len(lam), device=lam.device)
    level = torch.zeros_like(lam[:, 0])
    owner, points = region(rows, level)
    at_one = coverage(rows, owner, points)
    length = _lengths(owner, points, len(lam))
    bound = length + (lam * ((1 - alpha) - at_one)).sum(-1)
    short = (at_one.amin(-1) < 1 - alpha).nonzero()[:, 0]
    if len(short):
        low, at_low = descend(margin, level[short], 1e-14, short)
        miss = at_one[short].amin(-1) - (1 - alpha)
        level[short] = last_nonnegative(margin, low, level[short], at_low, miss, short)
        owner, points = region(rows, level)
    return owner, points, (_lengths(owner, points, len(lam)) - bound).clamp_min(0)


def _lengths(owner: Tensor, points: Tensor, sets: int) -> Tensor:
    length = (points[:, 2] - points[:, 0]) + (points[:, 3] - points[:, 1])
    return points.new_zeros(sets).index_add_(0, owner, length)
