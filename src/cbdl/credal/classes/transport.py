"""Optimal transport from a mixture of m distributions over J classes to one distribution, over both the plan
and the mixture: a linear programme with J^2 + m variables and 2 J equations.

    min over plans pi >= 0 and weights beta >= 0 of  sum_ik c_ik pi_ik
    subject to  sum_k pi_ik = sum_j beta_j P_ji,   sum_i pi_ik = p_k      (the weights then sum to 1)

The interior point's own plan is not trusted: it is repaired until its margins are exact, the potentials are
replaced by their c-transforms, and the gap lies between these two.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks
from cbdl.credal._optimum import Optimum
from cbdl.credal.solvers.linprog import interior_point, simplex

ROUNDING = 2e-15
"""What rounding may do to a bound, relative to the largest cost."""


@dataclass(frozen=True)
class _Margins:
    """The equations: rows of the plan minus the mixture, columns of the plan. P is (B, m, J)."""

    P: Tensor

    def times(self, x: Tensor) -> Tensor:
        plan, beta = _split(x, self.P)
        mixture = (beta.unsqueeze(1) @ self.P).squeeze(1)
        return torch.cat([plan.sum(-1) - mixture, plan.sum(-2)], -1)

    def transposed(self, y: Tensor) -> Tensor:
        u, v = y.chunk(2, -1)
        plan = (u.unsqueeze(-1) + v.unsqueeze(-2)).flatten(1)
        return torch.cat([plan, -(self.P @ u.unsqueeze(-1)).squeeze(-1)], -1)

    def normal(self, d: Tensor) -> Tensor:
        plan, beta = _split(d, self.P)
        rows = torch.diag_embed(plan.sum(-1)) + (self.P.mT * beta.unsqueeze(1)) @ self.P
        upper = torch.cat([rows, plan], -1)
        return torch.cat([upper, torch.cat([plan.mT, torch.diag_embed(plan.sum(-2))], -1)], -2)

    def take(self, rows: Tensor) -> _Margins:
        return _Margins(self.P[rows])


def _split(x: Tensor, P: Tensor) -> tuple[Tensor, Tensor]:
    J = P.shape[-1]
    return x[:, : J * J].reshape(-1, J, J), x[:, J * J :]


def transport(P: Tensor, p: Tensor, cost: Tensor) -> Optimum:
    """The smallest cost of moving a mixture of P (B, m, J) to p (B, J), for cost (J, J) >= 0."""
    J = P.shape[-1]
    size = cost.abs().max().clamp_min(torch.finfo(cost.dtype).tiny)

    def part(P: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        return _solve(P, p, cost / size)

    value, gap, weights = in_chunks(part, P, p, per_set=8 * (20 * J * J + 10 * P.shape[1] * J))
    return Optimum(value, gap, weights, torch.zeros_like(value)).scaled(float(size))


def _solve(P: Tensor, p: Tensor, cost: Tensor) -> tuple[Tensor, ...]:
    batch, m, J = P.shape
    c = torch.cat([cost.flatten().expand(batch, -1), P.new_zeros(batch, m)], -1)
    best = interior_point(c, _Margins(P), torch.cat([torch.zeros_like(p), p], -1))
    plan, beta = _split(best.x, P)
    beta = simplex(beta)
    value = (repaired(plan, (beta.unsqueeze(1) @ P).squeeze(1), p) * cost).sum((-1, -2))
    # Potentials: v is the largest that u allows, then u the largest that v allows.
    u = best.y[:, :J]
    v = (cost - u.unsqueeze(-1)).amin(-2)
    u = (cost - v.unsqueeze(-2)).amin(-1)
    bound = (P @ u.unsqueeze(-1)).squeeze(-1).amin(-1) + (p * v).sum(-1)
    # Sums of numbers up to 1 are rounded; roots are taken of this bound, so it must not be above the truth.
    bound = (bound - ROUNDING).clamp_min(0)
    return value, (value - bound).clamp_min(0), beta


def repaired(plan: Tensor, q: Tensor, p: Tensor) -> Tensor:
    """A plan with margins q and p: rows and columns scaled down, the rest moved as a product."""
    plan = plan.clamp_min(0)
    for axis, margin in ((-1, q), (-2, p)):
        total = plan.sum(axis)
        plan = plan * torch.where(total > margin, margin / total.clamp_min(1e-300), 1.0).unsqueeze(axis)
    rest_q, rest_p = (q - plan.sum(-1)).clamp_min(0), (p - plan.sum(-2)).clamp_min(0)
    rest = rest_q.sum(-1, keepdim=True).clamp_min(1e-300)
    return plan + rest_q.unsqueeze(-1) * (rest_p / rest).unsqueeze(-2)
