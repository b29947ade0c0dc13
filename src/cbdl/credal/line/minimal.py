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
from cbdl.credal.line.ends import Dual, Ends, State, excess, level_set, revised, solve, widened
from cbdl.credal.line.grids import Grid, of_each, sampled_each
from cbdl.credal.line.hdr import coarse_level, hdr
from cbdl.credal.line.interval import shortest_interval
from cbdl.credal.line.intervals import Intervals
from cbdl.credal.line.levels import Crossings, Profile, crossings, profile
from cbdl.credal.line.mesh import two_sum
from cbdl.credal.line.mixture import EPS, Derivatives, Extremes
from cbdl.credal.line.sketch import LEAST, Sketch, sketched

STEPS = 80

START = 0.75
"""Up to this alpha the dual is maximised as it is."""

LAST = 0.99
"""Up to this alpha it still can be, if all else fails."""

PACE, ROUNDS, PROGRAMMES = 10.0, 3, 8
"""Above, 1 - alpha falls by such factors, with so many rounds each; programmes for sets that this does not settle."""

MANY = 4
"""If no more than one of so many sets is not solved from the shortest interval, all go on from there."""

HASTE, PATIENCE = (8, 1), (40, 4)
"""Steps on a sketch, and trials of each: at first it need not be solved where that is slow."""

NEAR, ROUGH = 1e-6, 1e-5
"""The gap, relative to the measure, at which the dual and its sketch are left to Newton's method on the ends."""

AGAIN, CUT, FIRST = 1e-2, 3e-3, 1e-4
"""What lambda s is for a start of that method, relative to the measure: after a step of alpha, with a new gap in the
shortest interval, and from a sketch."""

CHUNK = 1 << 18
"""Components of the sets that are worked on at a time: the last steps are for few sets, and cost as much for many."""

GOOD = 5e-11
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

    def dual(self, lam: Tensor) -> Dual:
        """D at lambda (B, m)."""
        sets = self.sets
        ends = crossings(_shape(self, lam), torch.zeros_like(lam[:, 0]))
        region = level_set(ends)
        density = sets.densities(ends.owner, ends.high, ends.low).exp()
        outer = density[:, :, None] * (density / ends.score.abs().clamp_min(1e-300)[:, None])[:, None, :]
        return Dual(
            -excess(sets, region, self.alpha),
            region.measure(len(sets)),
            lam.new_zeros(len(lam), sets.m, sets.m).index_add_(0, ends.owner, outer),
        )


def minimal_region(sets: Extremes, alpha: float) -> tuple[Intervals, Tensor, Tensor]:
    """(intervals, log lambda (B, m), gap (B,)) of the smallest region of each set."""
    prices, gap = torch.zeros_like(sets.loc[..., 0]), sets.loc.new_zeros(len(sets))
    parts: list[Ends] = []
    for rows in sets.chunks(CHUNK):
        region, prices[rows], gap[rows] = _optimum(sets[rows], alpha)
        parts.append(Ends(rows[region.owner], region.high, region.low))
    owner, high, low = (
        torch.cat(column) for column in zip(*((p.owner, p.high, p.low) for p in parts), strict=True)
    )
    return Ends(owner, high, low).padded(len(sets)), prices.log(), gap


def _optimum(sets: Extremes, alpha: float) -> tuple[Ends, Tensor, Tensor]:
    """Region, lambda and gap: of sets whose region is one interval from the shortest of these, of others in general."""
    shared = _prepare(sets, min(alpha, START))
    state = _from_interval(shared) if LEAST <= alpha <= START else _general(shared, alpha)
    region = widened(sets, alpha, state.region)
    return region, state.prices, (region.measure(len(sets)) - state.bound).clamp_min(0)


def _from_interval(shared: _Shared) -> State:
    """The optimum, from the shortest interval; of sets that are not near it the general way."""
    state, likely = shortest_interval(sketched(shared.grid, shared.values, shared.alpha))
    # What a few others want is mostly one gap, or one more interval: they go along.
    few = MANY * int((~likely).sum()) <= len(likely)
    usable = likely | (torch.isfinite(state.prices).all(-1) & few)
    missed, rows = torch.ones_like(likely), usable.nonzero()[:, 0]
    if 2 * len(rows) >= len(likely):  # else the general way has as many steps to take as for all
        some, missed[rows] = _try(shared[rows], state.take(rows), FIRST, rounds=1)
        state = state.put(rows, some)
    rows = (missed & usable).nonzero()[:, 0]
    if few and len(rows):
        some, missed[rows] = _try(shared[rows], state.take(rows), cut=CUT)
        state = state.put(rows, some)
    rows = missed.nonzero()[:, 0]
    return state.put(rows, _general(shared[rows], shared.alpha)) if len(rows) else state


def _general(shared: _Shared, alpha: float) -> State:
    """The optimum: up to START by the dual alone; above, its solution is followed as alpha grows."""
    state = _start(shared, HASTE)
    for then in _stages(shared.alpha, alpha):
        state = _follow(shared, state, then, AGAIN if then > shared.alpha else FIRST)
    return state


def _start(shared: _Shared, effort: tuple[int, int]) -> State:
    """An optimum of the dual: of its sketch where that will do, to which Newton's method on the ends is near enough.

    `effort`: the steps on the sketch, and the trials of each.
    """
    small = min(shared.alpha, 1 - shared.alpha)
    if shared.alpha < LEAST:
        return _exact_start(shared)
    sketch = sketched(shared.grid, shared.values, shared.alpha)
    grid, values = of_each(shared.grid, shared.values)
    top = values[0].new_full((len(grid.count),), -math.inf).scatter_reduce(0, grid.owner, values[0], "amax")
    level = coarse_level(grid, values[0], top, torch.full_like(top, math.log(shared.alpha)))
    prices = _ascend(sketch, sketch.prices(level.view(len(shared.sets), -1)), ROUGH, *effort)
    region, dual = sketch.region(prices)
    return State.of(region, prices, -dual.short / small)


def _sketched_start(shared: _Shared) -> State:
    """The optimum of the sketch, with patience."""
    return _start(shared, PATIENCE)


def _exact_start(shared: _Shared) -> State:
    """An optimum of the dual itself."""
    prices = _maximise(shared)
    region = level_set(_level(shared, prices))
    small = min(shared.alpha, 1 - shared.alpha)
    return State.of(region, prices, excess(shared.sets, region, shared.alpha) / small)


def _stages(now: float, alpha: float) -> list[float]:
    """Levels on the way from `now` to alpha at which 1 - alpha falls to 1 / PACE each time."""
    ratio = (1 - alpha) / (1 - now)
    steps = max(1, math.ceil(-math.log(ratio) / math.log(PACE)))
    return [1 - (1 - now) * ratio ** (k / steps) for k in range(1, steps)] + [alpha]


def _follow(shared: _Shared, state: State, alpha: float, centre: float) -> State:
    """From the optimum for one alpha to that for another."""
    shared = replace(shared, alpha=alpha)
    new, missed = _try(shared, state, centre)
    for start in (_sketched_start, _exact_start) if alpha <= LAST else ():
        rows = missed.nonzero()[:, 0]
        if len(rows) == 0:
            break
        some = shared[rows]
        again, left = _try(some, start(some), ROUGH)
        new, missed[rows] = new.put(rows, again), left
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
        start = State.of(region, prices, excess(sets, region, alpha) / small)
        state, missed = _try(shared, start)
        if not missed:
            return state
    if alpha > LAST:
        return state
    return _try(shared, _exact_start(shared))[0]


def _try(
    shared: _Shared, state: State, centre: float = AGAIN, rounds: int = ROUNDS, cut: float = 0.0
) -> tuple[State, Tensor]:
    """The optimum for another alpha, with slack in units of min(alpha, 1 - alpha), and which sets (B,) missed it.

    Where intervals are missing or too many, those of {q >= 1} are taken for another round; before the first one too if
    there is a `cut`, which then stands for AGAIN.
    """
    sets, alpha = shared.sets, shared.alpha
    small = min(alpha, 1 - alpha)
    good = GOOD + 16 * EPS / small  # where peaks exceed 1 by little, D has fewer digits
    rows = torch.arange(len(sets), device=state.prices.device)
    missed = torch.ones_like(rows, dtype=torch.bool)
    for k in range(rounds):
        if k or cut:
            rows, state = _revised(shared, rows, state)
            centre = cut or AGAIN
        if len(rows) == 0:
            break
        part = solve(sets[rows], alpha, _warm(state.take(rows), small, centre))
        part = replace(part, slack=excess(sets[rows], part.region, alpha) / small)
        sound = torch.isfinite(part.prices).all(-1)
        state = state.put(rows[sound], part.take(sound.nonzero()[:, 0]))
        bound = state.bound.index_copy(0, rows, _bound(shared[rows], state.prices[rows]))
        state = replace(state, bound=bound)
        measure = state.region.measure(len(sets))[rows]
        off = ~(measure - bound[rows] <= good * measure) | (state.slack[rows] < -good).any(-1)
        off |= ~sound  # their region is not the one that the slack is of
        missed[rows] = off
        rows = rows[off]
    return state, missed


def _revised(shared: _Shared, rows: Tensor, state: State) -> tuple[Tensor, State]:
    """With the intervals of {q >= 1} for those `rows` where there are some, and which these are."""
    sets = len(shared.sets)
    level = level_set(_level(shared[rows], state.prices[rows]))
    again = revised(state.region.take(rows, sets), level, len(rows))
    some = torch.zeros_like(rows).index_add_(0, again.owner, torch.ones_like(again.owner)) > 0
    rows, again = rows[some], again.take(some.nonzero()[:, 0], len(rows))
    return rows, state.put(rows, replace(state.take(rows), region=again))


def _warm(state: State, small: float, centre: float) -> State:
    """A start for `solve`: lambda s the same for all extremes, and so little that the peaks of q stay where they are.

    They exceed 1 by about (1 - alpha)^2 if that is small. `state` has the slack relative to min(alpha, 1 - alpha).
    """
    measure = state.region.measure(len(state.prices))[:, None]
    target = centre * small * measure
    # What is small already is raised: the price of coverage that costs nothing, the slack of what is just enough.
    cheap = state.prices < state.slack * measure
    slack = torch.where(cheap, state.slack * small, torch.maximum(state.slack * small, target / state.prices))
    prices = torch.where(cheap, torch.maximum(state.prices, target / slack), state.prices)
    return State.of(state.region, prices, slack)


def _level(shared: _Shared, prices: Tensor) -> Crossings:
    return crossings(_shape(shared, prices), torch.zeros_like(prices[:, 0]))


def _bound(shared: _Shared, prices: Tensor) -> Tensor:
    """(B,): D(lambda), below which no region of enough coverage falls."""
    best = level_set(_level(shared, prices))
    return best.measure(len(prices)) - (prices * excess(shared.sets, best, shared.alpha)).sum(-1)


def _prepare(sets: Extremes, alpha: float) -> _Shared:
    return _Shared(sets, *sampled_each(sets), alpha)


def _shape(shared: _Shared, lam: Tensor) -> Profile:
    """The shape of q = sum_j lambda_j p_j: its values on the grid are averages of those of the extremes."""
    logp, score, bend = shared.values
    terms = logp + lam.log()[shared.grid.owner]
    logq = torch.logsumexp(terms, -1)
    share = (terms - logq[:, None]).exp()
    values = logq, (share * score).sum(-1), (share * bend).sum(-1)
    return profile(shared.sets.pooled(lam), shared.grid, values)


def _maximise(shared: _Shared) -> Tensor:
    """lambda (B, m) at the maximum of D."""
    level, _ = hdr(shared.sets.each(), shared.alpha)
    return _ascend(shared, (-level.view(len(shared.sets), -1)).exp(), NEAR)


def _ascend(
    shared: _Shared | Sketch, lam: Tensor, near: float, steps: int = STEPS, trials: int = 30
) -> Tensor:
    """lambda (B, m): primal-dual interior point; sets that are done leave the batch.

    The start is right for extremes far apart, too large for similar ones.
    """
    alpha = shared.alpha
    slack = torch.full_like(lam, 0.5 * min(alpha, 1 - alpha))
    best, best_gap = lam.clone(), torch.full_like(lam[:, 0], torch.inf)
    rows = torch.arange(len(lam), device=lam.device)
    now, part = shared.dual(lam), shared
    for _ in range(steps):
        g = now.short
        # What the gap would be if the region were feasible; infeasibility is charged at the current prices.
        gap = (lam * g.abs()).sum(-1) + lam.sum(-1) * g.clamp_min(0).amax(-1)
        better = gap < best_gap[rows]
        best[rows[better]], best_gap[rows[better]] = lam[better], gap[better]
        on = (gap > near * now.measure).nonzero()[:, 0]
        if len(on) == 0:
            break
        rows, lam, slack, part = rows[on], lam[on], slack[on], part[on]
        now = Dual(now.short[on], now.measure[on], now.hessian[on])
        # The target for lambda slack falls to a tenth, and quadratically in the end.
        total = (lam * slack).sum(-1)
        mu = (total / now.measure.clamp_min(1e-300)).clamp_max(0.1) * total / lam.shape[1]
        lam, slack, now = _step(part, lam, slack, now, mu, trials)
    return best


def _step(
    part: _Shared | Sketch, lam: Tensor, slack: Tensor, now: Dual, mu: Tensor, trials: int
) -> tuple[Tensor, Tensor, Dual]:
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
    new = part.dual(lam + t[:, None] * direction)
    todo = torch.arange(len(lam), device=lam.device)
    for _ in range(trials):
        moved = lam[todo] + t[todo, None] * direction[todo]
        slope = ((new.short[todo] + mu[todo, None] / moved) * direction[todo]).sum(-1)
        # D + mu sum log lambda is concave along the step: far past its top the slope turns steeply negative.
        before = (rate[todo] * unit[todo, 0]).abs()
        past = slope < -0.5 * before
        todo, secant = todo[past], (before / (before - slope))[past]
        if len(todo) == 0:
            break
        t[todo] *= secant.clamp(0.1, 0.6)
        again = part[todo].dual(lam[todo] + t[todo, None] * direction[todo])
        new.short[todo], new.measure[todo], new.hessian[todo] = again.short, again.measure, again.hessian
    return lam + t[:, None] * direction, slack + ts[:, None] * slack_step, new


def _longest(step: Tensor, value: Tensor) -> Tensor:
    """(B,): the largest t <= 1 that keeps value + t step at 1/100 of value or more."""
    ratio = torch.where(step < 0, -0.99 * value / step.clamp_max(-1e-300), 1.0)
    return ratio.amin(-1).clamp_max(1.0)
