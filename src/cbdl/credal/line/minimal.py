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

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cbdl.credal.line.cells import taken
from cbdl.credal.line.ends import Ends, State, excess, level_set, revised, solve, widened
from cbdl.credal.line.hdr import hdr
from cbdl.credal.line.intervals import Intervals
from cbdl.credal.line.levels import Crossings, Grid, Profile, crossings, evaluate, make_grid, profile
from cbdl.credal.line.mesh import two_sum
from cbdl.credal.line.mixture import EPS, Derivatives, Extremes

STEPS = 80

START = 0.75
"""Up to this alpha the dual is maximised as it is."""

LAST = 0.99
"""Up to this alpha it still can be, if all else fails."""

PACE, ROUNDS, PROGRAMMES = 10.0, 2, 8
"""Above, 1 - alpha falls by such factors, with so many rounds each; programmes for sets that this does not settle."""

NEAR = 1e-6
"""The gap, relative to the measure, at which the dual is left to Newton's method on the ends."""

GOOD = 1e-9
"""A region with a gap of so much of its measure has the right intervals."""


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
    """D at lambda: its gradient, (1 - alpha) - P_j(R) (B, m), the measure of R (B,), Hessian (B, m, m) of -D."""

    short: Tensor
    measure: Tensor
    hessian: Tensor


def minimal_region(sets: Extremes, alpha: float) -> tuple[Intervals, Tensor, Tensor]:
    """(intervals, log lambda (B, m), gap (B,)) of the smallest region of each set."""
    prices, gap = torch.zeros_like(sets.loc[..., 0]), sets.loc.new_zeros(len(sets))
    parts: list[Ends] = []
    for rows in sets.chunks():
        region, prices[rows], gap[rows] = _optimum(sets[rows], alpha)
        parts.append(Ends(rows[region.owner], region.high, region.low))
    owner, high, low = (
        torch.cat(column) for column in zip(*((p.owner, p.high, p.low) for p in parts), strict=True)
    )
    return Ends(owner, high, low).padded(len(sets)), prices.log(), gap


def _optimum(sets: Extremes, alpha: float) -> tuple[Ends, Tensor, Tensor]:
    """Region, lambda and gap. Up to START by the dual alone; above, its solution is followed as alpha grows."""
    now = min(alpha, START)
    shared = _prepare(sets, now)
    prices = _maximise(shared)
    region = level_set(_level(shared, prices))
    state = State(region, prices, excess(sets, region, now) / min(now, 1 - now))
    for then in _stages(now, alpha):
        state = _follow(shared, state, then)
    region = widened(sets, alpha, state.region)
    return region, state.prices, _gap(replace(shared, alpha=alpha), region, state.prices)


def _stages(now: float, alpha: float) -> list[float]:
    """Levels on the way from `now` to alpha at which 1 - alpha falls to 1 / PACE each time."""
    ratio = (1 - alpha) / (1 - now)
    steps = max(1, math.ceil(-math.log(ratio) / math.log(PACE)))
    return [1 - (1 - now) * ratio ** (k / steps) for k in range(1, steps)] + [alpha]


def _follow(shared: _Shared, state: State, alpha: float) -> State:
    """From the optimum for one alpha to that for another."""
    shared = replace(shared, alpha=alpha)
    new, missed = _try(shared, state)
    for row in missed.nonzero():
        new = new.put(row, _afresh(shared[row], new.take(row)))
    return new


def _afresh(shared: _Shared, state: State) -> State:
    """The optimum for one set, whatever is known of it."""
    sets, alpha = shared.sets, shared.alpha
    small = min(alpha, 1 - alpha)
    shape = _shape(shared, torch.ones_like(state.prices)).grid
    inner = torch.isfinite(shape.unit)
    cuts: tuple[Tensor, Tensor] = two_sum(shape.high[inner], shape.low[inner])
    for _ in range(PROGRAMMES):
        answer = taken(sets, alpha, cuts)
        if answer is None:
            break
        region, prices, cuts = answer
        start = State(region, prices, excess(sets, region, alpha) / small)
        state, missed = _try(shared, start)
        if not missed:
            return state
    if alpha > LAST:
        return state
    prices = _maximise(shared)
    region = level_set(_level(shared, prices))
    return _try(shared, State(region, prices, excess(sets, region, alpha) / small))[0]


def _try(shared: _Shared, state: State) -> tuple[State, Tensor]:
    """The optimum for another alpha, with slack in units of min(alpha, 1 - alpha), and which sets (B,) missed it.

    Where intervals are missing or too many, those of {q >= 1} are taken for another round.
    """
    sets, alpha = shared.sets, shared.alpha
    small = min(alpha, 1 - alpha)
    good = GOOD + 16 * EPS / small  # where peaks exceed 1 by little, D has fewer digits
    rows = torch.arange(len(sets), device=state.prices.device)
    missed = torch.zeros_like(rows, dtype=torch.bool)
    for _ in range(ROUNDS):
        part = solve(sets[rows], alpha, _warm(state.take(rows), small))
        part = replace(part, slack=excess(sets[rows], part.region, alpha) / small)
        sound = torch.isfinite(part.prices).all(-1)
        state = state.put(rows[sound], part.take(sound.nonzero()[:, 0]))
        gap = _gap(shared[rows], state.region.take(rows, len(sets)), state.prices[rows])
        off = ~(gap <= good * state.region.measure(len(sets))[rows]) | (state.slack[rows] < -good).any(-1)
        missed[rows] = off
        if not off.any():
            break
        rows = rows[off]
        again = level_set(_level(shared[rows], state.prices[rows]))
        again = revised(state.region.take(rows, len(sets)), again, len(rows))
        some = torch.zeros_like(rows).index_add_(0, again.owner, torch.ones_like(again.owner)) > 0
        rows, again = rows[some], again.take(some.nonzero()[:, 0], len(rows))
        if len(rows) == 0:
            break
        state = state.put(rows, State(again, state.prices[rows], state.slack[rows]))
    return state, missed


def _warm(state: State, small: float) -> State:
    """A start for `solve`: lambda s the same for all extremes, and so little that the peaks of q stay where they are.

    They exceed 1 by about (1 - alpha)^2 if that is small. `state` has the slack relative to min(alpha, 1 - alpha).
    """
    target = 0.01 * small * state.region.measure(len(state.prices))[:, None]
    slack = torch.maximum(state.slack * small, target / state.prices)
    return State(state.region, torch.maximum(state.prices, target / slack), slack)


def _level(shared: _Shared, prices: Tensor) -> Crossings:
    return crossings(_shape(shared, prices), torch.zeros_like(prices[:, 0]))


def _gap(shared: _Shared, region: Ends, prices: Tensor) -> Tensor:
    """(B,): the measure of a region above D(lambda), which no region of enough coverage falls below."""
    best = level_set(_level(shared, prices))
    bound = best.measure(len(prices)) - (prices * excess(shared.sets, best, shared.alpha)).sum(-1)
    return (region.measure(len(prices)) - bound).clamp_min(0)


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
    region = level_set(ends)
    density = sets.densities(ends.owner, ends.high, ends.low).exp()
    outer = density[:, :, None] * (density / ends.score.abs().clamp_min(1e-300)[:, None])[:, None, :]
    return _Dual(
        -excess(sets, region, shared.alpha),
        region.measure(len(sets)),
        lam.new_zeros(len(lam), sets.m, sets.m).index_add_(0, ends.owner, outer),
    )


def _maximise(shared: _Shared) -> Tensor:
    """lambda (B, m): primal-dual interior point; sets that are done leave the batch."""
    sets, alpha = shared.sets, shared.alpha
    level, _ = hdr(sets.each(), alpha)
    lam = (-level.view(len(sets), sets.m)).exp()  # right for extremes far apart, too large for similar ones
    slack = torch.full_like(lam, 0.5 * min(alpha, 1 - alpha))
    best, best_gap = lam.clone(), torch.full_like(lam[:, 0], torch.inf)
    rows = torch.arange(len(sets), device=lam.device)
    now, part = _dual(shared, lam), shared
    for _ in range(STEPS):
        g = now.short
        # What the gap would be if the region were feasible; infeasibility is charged at the current prices.
        gap = (lam * g.abs()).sum(-1) + lam.sum(-1) * g.clamp_min(0).amax(-1)
        better = gap < best_gap[rows]
        best[rows[better]], best_gap[rows[better]] = lam[better], gap[better]
        on = (gap > NEAR * now.measure).nonzero()[:, 0]
        if len(on) == 0:
            break
        rows, lam, slack, part = rows[on], lam[on], slack[on], part[on]
        now = _Dual(now.short[on], now.measure[on], now.hessian[on])
        # The target for lambda slack falls to a tenth, and quadratically in the end.
        total = (lam * slack).sum(-1)
        mu = (total / now.measure.clamp_min(1e-300)).clamp_max(0.1) * total / sets.m
        lam, slack, now = _step(part, lam, slack, now, mu)
    return best


def _step(part: _Shared, lam: Tensor, slack: Tensor, now: _Dual, mu: Tensor) -> tuple[Tensor, Tensor, _Dual]:
    """One Newton step on gradient D + slack = 0, lambda slack = mu, shortened until D does not fall behind."""
    g = now.short
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
        slope = ((new.short[todo] + mu[todo, None] / moved) * direction[todo]).sum(-1)
        # D + mu sum log lambda is concave along the step: far past its top the slope turns steeply negative.
        todo = todo[slope < -0.5 * (rate[todo] * unit[todo, 0]).abs()]
        if len(todo) == 0:
            break
        t[todo] *= 0.4
        again = _dual(part[todo], lam[todo] + t[todo, None] * direction[todo])
        new.short[todo], new.measure[todo], new.hessian[todo] = again.short, again.measure, again.hessian
    return lam + t[:, None] * direction, slack + ts[:, None] * slack_step, new


def _longest(step: Tensor, value: Tensor) -> Tensor:
    """(B,): the largest t <= 1 that keeps value + t step at 1/100 of value or more."""
    ratio = torch.where(step < 0, -0.99 * value / step.clamp_max(-1e-300), 1.0)
    return ratio.amin(-1).clamp_max(1.0)
