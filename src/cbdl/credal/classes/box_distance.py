"""How far the distributions between two bounds are from one distribution (paper, proposition "dist_lemma").

All f-divergences, and with them the Renyi divergences and total variation, have the same nearest distribution:
`box.levelled`, a common ratio to p clamped to the bounds. Wasserstein distances are linear programmes over the plan and
the distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks
from cbdl.credal._border import EPS
from cbdl.credal._optimum import Optimum
from cbdl.credal.classes import distance as hull
from cbdl.credal.classes.box import cheapest, levelled
from cbdl.credal.classes.transport import ROUNDING, repaired
from cbdl.credal.solvers.linprog import interior_point


def distance(
    lower: Tensor, upper: Tensor, p: Tensor, kind: str, *, order: float | None, cost: hull.Cost
) -> Optimum:
    """inf over the set of d(q, p), for l, u, p (B, J); kinds as in `cbdl.credal.classes.distance`.

    The weights of the optimum are the nearest distribution itself.
    """
    q = levelled(lower, upper, p)
    if cost is not None and kind in ("w1", "w2"):
        return _wasserstein(lower, upper, p, q, 1 if kind == "w1" else 2, hull.cost_matrix(cost, p))
    answer = hull.distance(q.unsqueeze(1), p, kind, order=order, cost=cost)
    # The nearest distribution is known in closed form; what is left is rounding, of J terms.
    gap = torch.minimum(answer.gap + 8 * EPS * p.shape[-1] * (1 + answer.value), answer.value)
    return Optimum(answer.value, torch.where(torch.isfinite(answer.value), gap, 0.0), q, answer.error)


@dataclass(frozen=True)
class _Equations:
    """Rows of the plan minus what is above l, columns of the plan, and what is above l plus what is below u."""

    J: int

    def times(self, x: Tensor) -> Tensor:
        plan, above, below = self.parts(x)
        return torch.cat([plan.sum(-1) - above, plan.sum(-2), above + below], -1)

    def transposed(self, y: Tensor) -> Tensor:
        a, b, c = y.chunk(3, -1)
        return torch.cat([(a.unsqueeze(-1) + b.unsqueeze(-2)).flatten(1), c - a, c], -1)

    def normal(self, d: Tensor) -> Tensor:
        plan, above, below = self.parts(d)
        rows, columns = torch.diag_embed(plan.sum(-1) + above), torch.diag_embed(plan.sum(-2))
        minus, zero = torch.diag_embed(-above), torch.zeros_like(plan)
        return torch.cat(
            [
                torch.cat([rows, plan, minus], -1),
                torch.cat([plan.mT, columns, zero], -1),
                torch.cat([minus, zero, torch.diag_embed(above + below)], -1),
            ],
            -2,
        )

    def take(self, rows: Tensor) -> _Equations:
        return self

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        J = self.J
        return x[:, : J * J].reshape(-1, J, J), x[:, J * J : J * (J + 1)], x[:, J * (J + 1) :]


def _wasserstein(lower: Tensor, upper: Tensor, p: Tensor, near: Tensor, power: int, cost: Tensor) -> Optimum:
    size = (cost**power).max().clamp_min(torch.finfo(cost.dtype).tiny)
    scaled, J = cost**power / size, p.shape[-1]
    value, gap, q = in_chunks(
        lambda low, high, r, n: _transported(low, high, r, n, scaled),
        lower,
        upper,
        p,
        near,
        per_set=8 * (40 * J * J),
    )
    answer = Optimum(value, gap, q, torch.zeros_like(value)).scaled(float(size))
    return hull.rooted(answer) if power == 2 else answer


def _transported(
    lower: Tensor, upper: Tensor, p: Tensor, near: Tensor, cost: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """min of sum_ik c_ik pi_ik over plans with row sums between the bounds and column sums p."""
    batch, J = p.shape
    equations = _Equations(J)
    c = torch.cat([cost.flatten().expand(batch, -1), p.new_zeros(batch, 2 * J)], -1)
    best = interior_point(c, equations, torch.cat([lower, p, upper - lower], -1))
    plan, above, _ = equations.parts(best.x)
    q = levelled(lower, upper, (lower + above).clamp_min(0))
    value = (repaired(plan, q, p) * cost).sum((-1, -2))
    # What stays in its class costs nothing where the diagonal does, and the rest at most 1.
    moved = (near - p).abs().sum(-1) / 2
    close = (moved < value) & (cost.diagonal() == 0).all()
    value, q = torch.where(close, moved, value), torch.where(close.unsqueeze(-1), near, q)
    # Potentials: b is the largest that a allows, then a the largest that b allows.
    a = best.y[:, :J]
    b = (cost - a.unsqueeze(-1)).amin(-2)
    a = (cost - b.unsqueeze(-2)).amin(-1)
    bound = (cheapest(lower, upper, a) * a).sum(-1) + (p * b).sum(-1)
    # Sums of numbers up to 1 are rounded; roots are taken of this bound, so it must not be above the truth.
    bound = (bound - ROUNDING).clamp_min(0)
    return value, (value - bound).clamp_min(0), q
