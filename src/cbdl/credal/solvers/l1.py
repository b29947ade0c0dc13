"""Least absolute deviations over the simplex, batched and certified.

    min over beta in the simplex of  sum_n w_n |sum_j beta_j A_jn - b_n|

Total variation and Wasserstein 1 on a line are of this form. The dual is

    max over |u_n| <= 1 of  min_j (A w u)_j - (b w).u

and every u in the box proves a lower bound. A primal-dual interior point keeps both sides feasible from the
start and solves one m x m system per set and step, however many terms the sum has.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks
from cbdl.credal._optimum import Optimum
from cbdl.credal.solvers.linprog import PATIENCE, Factor, reach, simplex

RELATIVE, ABSOLUTE = 1e-12, 1e-15
"""Gap, relative to the value and to the size of A and b, at which a problem counts as solved. Zero is a
common value (a member of the hull) and roots are taken of it, hence the strict second number."""


def least_deviation(
    A: Tensor, b: Tensor, weights: Tensor | None = None, *, level: float | None = None
) -> Optimum:
    """min over beta in the simplex of sum_n w_n |(beta A)_n - b_n|, for A (B, m, N), b (B, N), w (B, N) >= 0.

    The optimum is at most `value` and at least `value - gap` (a feasible point of the dual). With `level`, a
    set is also done once it is proved on which side of `level` its optimum lies.

    >>> A = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    >>> round(least_deviation(A, torch.tensor([[0.5, 0.2]], dtype=torch.float64)).value.item(), 12)
    0.3
    """
    if weights is not None:
        A, b = A * weights.unsqueeze(-2), b * weights
    levels = A.new_full(A.shape[:1], torch.nan if level is None else level)
    value, gap, beta = in_chunks(_solve, A, b, levels, per_set=8 * (4 * A.shape[-2] + 24) * A.shape[-1])
    return Optimum(value, gap, beta, torch.zeros_like(value))


def _solve(A: Tensor, b: Tensor, level: Tensor) -> tuple[Tensor, ...]:
    size = torch.maximum(A.abs().sum(-1).amax(-1), b.abs().sum(-1))
    size = torch.where(size > 0, size, 1.0)
    A, b = A / size[:, None, None], b / size[:, None]
    value, bound, beta = _interior_point(A, b, level / size)
    # Sums are rounded; roots are taken of this bound, so it must not be above the truth.
    bound = (bound - ABSOLUTE).clamp_min(0)
    return value * size, (value - bound).clamp_min(0) * size, beta


@dataclass(frozen=True)
class _Point:
    """beta (B, m) with slack z = A u - t >= 0; the parts up, down (B, N) >= 0 of beta A - b = up - down, with
    slacks 1 - u and 1 + u; kept strictly positive."""

    beta: Tensor
    z: Tensor
    up: Tensor
    down: Tensor
    above: Tensor  # 1 - u
    below: Tensor  # 1 + u
    t: Tensor  # (B, 1)

    @property
    def u(self) -> Tensor:
        # Near a bound the smaller of the two slacks has the digits.
        return torch.where(self.above < self.below, 1 - self.above, self.below - 1)

    def take(self, rows: Tensor) -> _Point:
        return _Point(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def _mix(beta: Tensor, A: Tensor) -> Tensor:
    return (beta.unsqueeze(-2) @ A).squeeze(-2)


def _dot(A: Tensor, u: Tensor) -> Tensor:
    return (A @ u.unsqueeze(-1)).squeeze(-1)


def _start(A: Tensor, b: Tensor) -> _Point:
    """Feasible on both sides, and near the central path: u = 0, t = -1, uniform weights."""
    beta = A.new_full(A.shape[:2], 1.0 / A.shape[1])
    rest = _mix(beta, A) - b
    room = (rest.abs().sum(-1, keepdim=True) / A.shape[-1]).clamp_min(1.0 / A.shape[-1])
    one = torch.ones_like(rest)
    return _Point(
        beta, torch.ones_like(beta), rest.clamp_min(0) + room, (-rest).clamp_min(0) + room, one, one.clone(),
        -A.new_ones(A.shape[0], 1),
    )  # fmt: skip


def _interior_point(
    A: Tensor, b: Tensor, level: Tensor, *, max_steps: int = 100
) -> tuple[Tensor, Tensor, Tensor]:
    """The best value, the best bound and the best weights seen."""
    batch = A.shape[0]
    point = _start(A, b)
    value, bound = A.new_full((batch,), torch.inf), A.new_full((batch,), -torch.inf)
    beta = point.beta.clone()
    idle = torch.zeros(batch, dtype=torch.int64, device=A.device)
    rows = torch.arange(batch, device=A.device)
    for _ in range(max_steps):
        weights, u = simplex(point.beta), point.u.clamp(-1, 1)
        now = (_mix(weights, A) - b).abs().sum(-1)
        proved = _dot(A, u).amin(-1) - (b * u).sum(-1)
        before = value[rows] - bound[rows]
        better = now < value[rows]
        beta[rows[better]] = weights[better]
        value[rows] = torch.where(better, now, value[rows])
        bound[rows] = torch.where(proved > bound[rows], proved, bound[rows])
        gap = value[rows] - bound[rows]
        idle[rows] = torch.where(gap < 0.9 * before, 0, idle[rows] + 1)
        left = (gap > RELATIVE * value[rows] + ABSOLUTE) & (idle[rows] < PATIENCE) & torch.isfinite(now)
        left &= ~((value[rows] <= level[rows]) | (bound[rows] > level[rows]))
        if not left.any():
            break
        if not left.all():
            rows, point, A, b = rows[left], point.take(left), A[left], b[left]
        point = _step(A, b, point)
    return value, bound.clamp_min(0), beta


def _step(A: Tensor, b: Tensor, p: _Point) -> _Point:
    """One predictor-corrector step; the system is A diag(e) A' + diag(z / beta), bordered by sum beta = 1."""
    e = 1 / (p.up / p.above + p.down / p.below)
    factor = Factor((A * e.unsqueeze(-2)) @ A.mT + torch.diag_embed(p.z / p.beta))
    ones = factor.solve(torch.ones_like(p.beta))
    rest = _mix(p.beta, A) - b - (p.up - p.down)
    slack = _dot(A, p.u) - p.t - p.z
    short = 1 - p.beta.sum(-1, keepdim=True)

    def direction(c_beta: Tensor, c_up: Tensor, c_down: Tensor) -> tuple[Tensor, ...]:
        push = e * (rest - c_up / p.above + c_down / p.below)
        free = factor.solve(c_beta / p.beta - slack - _dot(A, push))
        dt = (short - free.sum(-1, keepdim=True)) / ones.sum(-1, keepdim=True)
        d_beta = free + dt * ones
        du = push + e * _mix(d_beta, A)
        d_up, d_down = (c_up + p.up * du) / p.above, (c_down - p.down * du) / p.below
        return d_beta, (c_beta - p.z * d_beta) / p.beta, d_up, d_down, du, dt

    count = p.beta.shape[-1] + 2 * b.shape[-1]

    def complementarity(q: tuple[Tensor, ...]) -> Tensor:
        beta, z, up, down, above, below = q
        total = (beta * z).sum(-1) + (up * above).sum(-1) + (down * below).sum(-1)
        return total.unsqueeze(-1) / count

    here = (p.beta, p.z, p.up, p.down, p.above, p.below)
    mu = complementarity(here)
    d = direction(-p.beta * p.z, -p.up * p.above, -p.down * p.below)
    after = complementarity(_moved(here, d, 1.0))
    sigma = (after / mu).clamp(0, 1) ** 3
    d = direction(
        sigma * mu - p.beta * p.z - d[0] * d[1],
        sigma * mu - p.up * p.above + d[2] * d[4],
        sigma * mu - p.down * p.below - d[3] * d[4],
    )
    safety = (1 - 0.1 * (after / mu).clamp(1e-4, 1)).clamp_max(0.99999)
    _, dual = _lengths(here, d, safety)
    beta, z, up, down, above, below = (x.clamp_min(1e-300) for x in _moved(here, d, safety))
    return _Point(beta, z, up, down, above, below, p.t + dual * d[5])


def _lengths(
    here: tuple[Tensor, ...], d: tuple[Tensor, ...], safety: Tensor | float
) -> tuple[Tensor, Tensor]:
    beta, z, up, down, above, below = here
    d_beta, dz, d_up, d_down, du, _ = d
    primal = torch.minimum(reach(beta, d_beta, safety), reach(up, d_up, safety))
    primal = torch.minimum(primal, reach(down, d_down, safety))
    dual = torch.minimum(reach(z, dz, safety), reach(above, -du, safety))
    return primal, torch.minimum(dual, reach(below, du, safety))


def _moved(here: tuple[Tensor, ...], d: tuple[Tensor, ...], safety: Tensor | float) -> tuple[Tensor, ...]:
    beta, z, up, down, above, below = here
    d_beta, dz, d_up, d_down, du, _ = d
    primal, dual = _lengths(here, d, safety)
    return (
        beta + primal * d_beta, z + dual * dz, up + primal * d_up, down + primal * d_down,
        above - dual * du, below + dual * du,
    )  # fmt: skip
