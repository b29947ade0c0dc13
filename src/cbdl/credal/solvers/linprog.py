"""Many small linear programmes at once, each with a certificate.

A primal-dual interior point (Mehrotra's predictor-corrector) that treats a batch of programmes as one
computation: per step one Cholesky of the normal matrix A D A' for every programme. Programmes that have
converged leave the batch. The answer is the best iterate seen; its bound is recomputed from the data, so that
a step that goes wrong can widen the gap but never make it lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks
from cbdl.credal._optimum import Optimum

TOLERANCE = 1e-13
"""Relative gap and residuals at which a programme counts as solved."""

PATIENCE = 6
"""Steps without progress after which rounding is taken to have won."""

ROUGH = 1e-12
"""Gap of a game, relative to its range, above which its equations are solved once more."""

DAMPING = 1e-14
"""Relative ridge on the normal matrix: redundant rows stay solvable."""


class Constraints(Protocol):
    """The matrix A (M, n) of every programme, known by its products alone."""

    def times(self, x: Tensor) -> Tensor:
        """A x: (B, n) -> (B, M)."""

    def transposed(self, y: Tensor) -> Tensor:
        """A' y: (B, M) -> (B, n)."""

    def normal(self, d: Tensor) -> Tensor:
        """A diag(d) A': (B, n) -> (B, M, M)."""

    def take(self, rows: Tensor) -> Constraints:
        """The same for some programmes of the batch."""


@dataclass(frozen=True)
class Dense:
    """A as it is, (B, M, n), or (1, M, n) where all programmes share it."""

    A: Tensor

    def times(self, x: Tensor) -> Tensor:
        return (self.A @ x.unsqueeze(-1)).squeeze(-1)

    def transposed(self, y: Tensor) -> Tensor:
        return (y.unsqueeze(-2) @ self.A).squeeze(-2)

    def normal(self, d: Tensor) -> Tensor:
        return (self.A * d.unsqueeze(-2)) @ self.A.mT

    def take(self, rows: Tensor) -> Dense:
        return self if self.A.shape[0] == 1 else Dense(self.A[rows])


@dataclass(frozen=True)
class Surplus:
    """A = [G, -I]: the inequalities G x >= b with their surplus as variables. G is (B, M, n - M)."""

    G: Tensor

    def times(self, x: Tensor) -> Tensor:
        n = self.G.shape[-1]
        return (self.G @ x[:, :n, None]).squeeze(-1) - x[:, n:]

    def transposed(self, y: Tensor) -> Tensor:
        return torch.cat([(y.unsqueeze(-2) @ self.G).squeeze(-2), -y], -1)

    def normal(self, d: Tensor) -> Tensor:
        n = self.G.shape[-1]
        return (self.G * d[:, None, :n]) @ self.G.mT + torch.diag_embed(d[:, n:])

    def take(self, rows: Tensor) -> Surplus:
        return Surplus(self.G[rows])


@dataclass(frozen=True)
class Point:
    """A primal-dual point: x (B, n) >= 0, multipliers y (B, M), reduced costs s (B, n) >= 0."""

    x: Tensor
    y: Tensor
    s: Tensor

    def take(self, rows: Tensor) -> Point:
        return Point(self.x[rows], self.y[rows], self.s[rows])


@dataclass(frozen=True)
class Solution:
    """x (B, n), dual (B, M), value (B,) = c.x, gap (B,): no feasible point is below value - gap.

    residual (B,): the largest |A x - b|; x is feasible up to it. A gap of infinity: no proof was found, the
    programme may be infeasible or unbounded.
    """

    x: Tensor
    dual: Tensor
    value: Tensor
    gap: Tensor
    residual: Tensor


def linprog(
    c: Tensor, A: Tensor | Constraints, b: Tensor, *, upper: Tensor | None = None, start: Point | None = None
) -> Solution:
    """min c.x subject to A x = b, x >= 0, for every programme of the batch.

    c (B, n), A (B, M, n) or (1, M, n) or `Constraints`, b (B, M). `upper` (B, n): numbers that x is known not
    to exceed at some optimum. The bound is weak duality: for any y, c.x = b.y + (c - A'y).x, and negative
    reduced costs are charged at `upper`; without `upper`, a shift of y along a d with A'd > 0 removes them
    (if the feasible set is bounded there is such a d; the least squares candidate is tried).

    >>> one = torch.ones(1, 1, 2, dtype=torch.float64)
    >>> answer = linprog(torch.tensor([[1.0, 2.0]], dtype=torch.float64), one, one[..., 0])
    >>> round(answer.value.item(), 9)
    1.0
    """
    constraints = Dense(A) if isinstance(A, Tensor) else A
    best = interior_point(c, constraints, b, start)
    value = (c * best.x).sum(-1)
    gap = (value - _dual_bound(c, constraints, b, best.y, upper)).clamp_min(0)
    residual = (constraints.times(best.x) - b).abs().amax(-1)
    return Solution(best.x, best.y, value, gap, residual)


def _dual_bound(c: Tensor, A: Constraints, b: Tensor, y: Tensor, upper: Tensor | None) -> Tensor:
    """A lower bound on the optimum from the multipliers y, whether or not they are feasible."""
    reduced = c - A.transposed(y)
    if upper is not None:
        return (b * y).sum(-1) + (reduced.clamp_max(0) * upper).sum(-1)
    ones = torch.ones_like(c)
    shift = Factor(A.normal(ones)).solve(A.times(ones))
    gain = A.transposed(shift)
    length = torch.where(reduced < 0, -reduced / gain.clamp_min(1e-300), 0.0).amax(-1, keepdim=True)
    proved = (gain > 0.01).all(-1) | (reduced >= 0).all(-1)
    return torch.where(proved, (b * (y - length * shift)).sum(-1), -torch.inf)


def interior_point(
    c: Tensor, A: Constraints, b: Tensor, start: Point | None = None, *, max_steps: int = 100
) -> Point:
    """The best primal-dual point found for every programme."""
    point = _first_point(c, A, b) if start is None else start
    best = Point(point.x.clone(), point.y.clone(), point.s.clone())
    merit = c.new_full((c.shape[0],), torch.inf)
    idle = torch.zeros_like(merit, dtype=torch.int64)
    rows = torch.arange(c.shape[0], device=c.device)
    for _ in range(max_steps):
        now, before = _merit(c, A, b, point), merit[rows]
        _keep(best, point, rows, now < before)
        # Progress is a tenth at least: near the end, rounding makes the merit wander.
        idle[rows] = torch.where(now < 0.9 * before, 0, idle[rows] + 1)
        merit[rows] = torch.where(now < before, now, before)
        left = (merit[rows] > TOLERANCE) & (idle[rows] < PATIENCE) & torch.isfinite(now)
        if not left.any():
            break
        if not left.all():
            rows, point = rows[left], point.take(left)
            c, b, A = c[left], b[left], A.take(left)
        point = _step(c, A, b, point)
    return best


def _keep(best: Point, point: Point, rows: Tensor, better: Tensor) -> None:
    best.x[rows[better]] = point.x[better]
    best.y[rows[better]] = point.y[better]
    best.s[rows[better]] = point.s[better]


def _merit(c: Tensor, A: Constraints, b: Tensor, point: Point) -> Tensor:
    """The largest of relative gap and relative residuals."""
    value, bound = (c * point.x).sum(-1), (b * point.y).sum(-1)
    gap = (value - bound).abs() / (1 + value.abs())
    primal = (b - A.times(point.x)).abs().amax(-1) / (1 + b.abs().amax(-1))
    dual = (c - A.transposed(point.y) - point.s).abs().amax(-1) / (1 + c.abs().amax(-1))
    return torch.maximum(gap, torch.maximum(primal, dual))


def _first_point(c: Tensor, A: Constraints, b: Tensor) -> Point:
    """Mehrotra's start: least squares solutions, pushed into the interior."""
    factor = Factor(A.normal(torch.ones_like(c)))
    x = A.transposed(factor.solve(b))
    y = factor.solve(A.times(c))
    s = c - A.transposed(y)
    x = x + (-1.5 * x.amin(-1, keepdim=True)).clamp_min(0)
    s = s + (-1.5 * s.amin(-1, keepdim=True)).clamp_min(0)
    product = (x * s).sum(-1, keepdim=True)
    tiny = 1e-8 + 1e-3 * torch.maximum(x, s).amax(-1, keepdim=True)
    x_up = torch.maximum(0.5 * product / s.sum(-1, keepdim=True).clamp_min(1e-300), tiny)
    s_up = torch.maximum(0.5 * product / x.sum(-1, keepdim=True).clamp_min(1e-300), tiny)
    return Point(x + x_up.clamp_max(1e8), y, s + s_up.clamp_max(1e8))


class Factor:
    """The Cholesky factor of a positive semidefinite matrix (B, M, M), scaled to a unit diagonal."""

    def __init__(self, matrix: Tensor) -> None:
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        # An empty row, or one that overflowed, must not spoil the others.
        usable = torch.isfinite(diagonal) & (diagonal > 1e-290)
        self._scale = torch.where(usable, diagonal, 1.0).rsqrt()
        self._matrix = torch.nan_to_num(
            matrix * self._scale.unsqueeze(-1) * self._scale.unsqueeze(-2), nan=0.0, posinf=0.0, neginf=0.0
        )
        ridge = DAMPING * torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
        self._factor, failed = torch.linalg.cholesky_ex(self._matrix + ridge)
        strength = 1e-12
        while failed.any() and strength < 2:
            # Only the failed ones get a stronger ridge: what else is in the batch must not matter.
            again = failed.nonzero().squeeze(-1)
            self._factor[again], failed[again] = torch.linalg.cholesky_ex(
                self._matrix[again] + strength / DAMPING * ridge
            )
            strength *= 100

    def solve(self, right: Tensor) -> Tensor:
        """Two steps of refinement win back the digits that the ridge costs."""
        scaled = (right * self._scale).unsqueeze(-1)
        answer = torch.cholesky_solve(scaled, self._factor)
        for _ in range(2):
            answer = answer + torch.cholesky_solve(scaled - self._matrix @ answer, self._factor)
        return answer.squeeze(-1) * self._scale


def reach(x: Tensor, dx: Tensor, safety: Tensor | float = 1.0) -> Tensor:
    """(B, 1): the step in [0, 1] along dx, `safety` times the longest that keeps x >= 0."""
    ratio = torch.where(dx < 0, -x / torch.where(dx < 0, dx, -1.0), torch.inf).amin(-1, keepdim=True)
    # A whole step, where there is room for it, removes the residuals entirely.
    return (safety * ratio).clamp_max(1.0)


def _step(c: Tensor, A: Constraints, b: Tensor, point: Point) -> Point:
    """One predictor-corrector step: linear systems in the normal matrix A diag(x / s) A'."""
    x, y, s = point.x, point.y, point.s
    primal, dual = b - A.times(x), c - A.transposed(y) - s
    d = x / s
    factor = Factor(A.normal(d))

    def direction(target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        dy = factor.solve(primal - A.times(target / s - d * dual))
        ds = dual - A.transposed(dy)
        return target / s - d * ds, dy, ds

    mu = (x * s).mean(-1, keepdim=True)
    dx, _, ds = direction(-x * s)
    after = ((x + reach(x, dx) * dx) * (s + reach(s, ds) * ds)).mean(-1, keepdim=True)
    sigma = (after / mu).clamp(0, 1) ** 3
    dx, dy, ds = direction(sigma * mu - x * s - dx * ds)
    safety = (1 - 0.1 * (after / mu).clamp(1e-4, 1)).clamp_max(0.99999)
    forward, backward = reach(x, dx, safety), reach(s, ds, safety)
    return Point(
        (x + forward * dx).clamp_min(1e-300), y + backward * dy, (s + backward * ds).clamp_min(1e-300)
    )


# --- matrix games ------------------------------------------------------------------------------------------


def matrix_game(G: Tensor) -> Optimum:
    """max over beta in the simplex of min_a (G beta)_a, for G (B, A, m).

    The certificate: for every mixture lambda of rows, max_j (lambda G)_j is an upper bound (von Neumann). The
    optimum is at least `value` and at most `value + gap`. At a saddle point of pure strategies the gap is 0.

    >>> matrix_game(torch.tensor([[[1.0, -1.0], [-1.0, 1.0]]]).double()).weights
    tensor([[0.5000, 0.5000]], dtype=torch.float64)
    """
    rows, columns = G.shape[1:]
    size = 8 * 8 * (rows * columns + min(rows, columns) ** 2 + rows + columns)
    value, gap, weights = in_chunks(_game, G.to(torch.float64), per_set=size)
    return Optimum(value, gap, weights, torch.zeros_like(value))


def _game(G: Tensor) -> tuple[Tensor, ...]:
    # The normal matrix has one row for every row of the game: the shorter side is put there.
    if G.shape[1] <= G.shape[2]:
        columns, rows = _strategies(G)
    else:
        rows, columns = _strategies(-G.mT)
    value, weights = _better(G, columns)
    bound, _ = _better(-G.mT, rows)
    return value, (-bound - value).clamp_min(0), weights


def _better(G: Tensor, mixed: Tensor) -> tuple[Tensor, Tensor]:
    """The better of the mixture found and the best single column: exact where one column is optimal."""
    value = _worst(G, mixed)
    pure, column = G.amin(-2).max(-1)
    single = torch.nn.functional.one_hot(column, G.shape[-1]).to(G.dtype)
    use = pure >= value
    return torch.where(use, pure, value), torch.where(use.unsqueeze(-1), single, mixed)


def _worst(G: Tensor, mixed: Tensor) -> Tensor:
    return (G @ mixed.unsqueeze(-1)).squeeze(-1).amin(-1)


def _strategies(G: Tensor) -> tuple[Tensor, Tensor]:
    """Optimal mixtures of columns and of rows.

    With G moved and scaled into [1, 2]: min 1.x subject to G x >= 1, x >= 0; the mixture is x / sum x, that
    of the rows comes from the multipliers. Both sides have an interior, so the start is feasible.
    """
    low = G.amin((1, 2), keepdim=True)
    width = G.amax((1, 2), keepdim=True) - low
    G = 1 + (G - low) / torch.where(width > 0, width, 1.0)
    batch, rows, columns = G.shape
    x = G.new_full((batch, columns), 2.0 / columns)
    y = G.new_full((batch, rows), 0.25 / rows)
    c = torch.cat([torch.ones_like(x), torch.zeros_like(y)], -1)
    A = Surplus(G)
    surplus = (G @ x.unsqueeze(-1)).squeeze(-1) - 1
    start = Point(torch.cat([x, surplus], -1), y, c - A.transposed(y))
    best = interior_point(c, A, torch.ones_like(y), start)
    used, tight = best.x[:, :columns] > best.s[:, :columns], best.y > best.x[:, columns:]
    beta, lamda = simplex(best.x[:, :columns]), simplex(best.y)
    rough = _worst(G, beta) + _worst(-G.mT, lamda) < -ROUGH
    if rough.any():
        H, used, tight = G[rough], used[rough], tight[rough]
        beta[rough] = _polished(H, beta[rough], used, tight)
        lamda[rough] = _polished(-H.mT, lamda[rough], tight, used)
    return beta, lamda


def _polished(G: Tensor, mixed: Tensor, used: Tensor, tight: Tensor) -> Tensor:
    """The mixture of the `used` columns that makes all `tight` rows equal, if that is better.

    At an optimum these equations hold exactly. Solving them wins back what the normal equations lose in
    degenerate games: the smallest correction, by least squares.
    """
    start = simplex(mixed * used)
    system = G.new_zeros(G.shape[0], G.shape[1] + 1, G.shape[2] + 1)
    system[:, :-1, :-1] = G * tight.unsqueeze(-1) * used.unsqueeze(-2)
    system[:, :-1, -1] = -tight.to(G.dtype)
    system[:, -1, :-1] = used.to(G.dtype)
    level = _worst(G, start)
    right = (level.unsqueeze(-1) - (G @ start.unsqueeze(-1)).squeeze(-1)) * tight
    right = torch.nn.functional.pad(right, (0, 1))
    change = (torch.linalg.pinv(system, rtol=1e-11) @ right.unsqueeze(-1)).squeeze(-1)[:, :-1]
    new = simplex(start + change)
    return torch.where((_worst(G, new) > _worst(G, mixed)).unsqueeze(-1), new, mixed)


def simplex(x: Tensor) -> Tensor:
    """x with negative entries removed, scaled to sum 1; nothing left gives equal weights."""
    x = x.clamp_min(0)
    total = x.sum(-1, keepdim=True)
    return torch.where(total > 0, x / torch.where(total > 0, total, 1.0), 1.0 / x.shape[-1])
