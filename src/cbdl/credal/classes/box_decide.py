"""Decisions between two bounds: the rules of `cbdl.credal.decide` without a list of extremes.

Every rule asks for lower or upper expectations of utilities or of differences of two of them, which are sorts, except
E-admissibility: whether some distribution of the set makes an action best. For the classes themselves as actions it
has a closed form; for other utilities most actions are decided by a few distributions and by maximality, and the
rest are linear programmes.
"""

from __future__ import annotations

from typing import cast, get_args

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks
from cbdl.credal._border import EPS
from cbdl.credal.classes.box import cheapest, expectations
from cbdl.credal.decide import Rule


def decide(lower: Tensor, upper: Tensor, utility: Tensor | None, rule: str, tolerance: float) -> Tensor:
    """(B, A) bool: the actions that `rule` keeps, for l, u (B, J) and `utility` (A, J).

    None: the actions are the classes, with utility 1 if right.
    """
    if rule not in get_args(Rule):
        raise ValueError(f"rule is {rule!r}; give one of {', '.join(map(repr, get_args(Rule)))}")
    low, high = _envelope(lower, upper, utility)
    tie = tolerance * torch.maximum(low.abs(), high.abs()).amax(-1, keepdim=True)
    match cast(Rule, rule):
        case "maximin" | "gamma-maximin":
            return low >= low.amax(-1, keepdim=True) - tie
        case "gamma-maximax":
            return high >= high.amax(-1, keepdim=True) - tie
        case "interval-dominance":
            return high >= low.amax(-1, keepdim=True) - tie
        case "maximality":
            return _maximal(lower, upper, utility, tie)
        case "e-admissible":
            return (
                _best_class(lower, upper, tie)
                if utility is None
                else _best_action(lower, upper, utility, tie)
            )


def _envelope(lower: Tensor, upper: Tensor, utility: Tensor | None) -> tuple[Tensor, Tensor]:
    """(B, A) twice: lower and upper expected utility of every action."""
    if utility is None:
        return lower, upper
    A, J = utility.shape

    def part(low: Tensor, high: Tensor) -> tuple[Tensor]:
        return (expectations(low.unsqueeze(-2), high.unsqueeze(-2), utility),)

    (ends,) = in_chunks(part, lower, upper, per_set=100 * A * J)
    return ends[..., 0], ends[..., 1]


def _maximal(lower: Tensor, upper: Tensor, utility: Tensor | None, tie: Tensor) -> Tensor:
    """a stays unless some b has lowerE[u_b - u_a] > 0."""
    J = lower.shape[-1]
    if utility is None:
        (lead,) = in_chunks(
            lambda low, high, t: (_lead(low, high).amax(-1) <= t,), lower, upper, tie, per_set=64 * J * J
        )
        return lead
    A = utility.shape[0]
    kept = []
    for own in utility:
        rival = utility - own

        def part(low: Tensor, high: Tensor, rival: Tensor = rival) -> tuple[Tensor]:
            p = cheapest(low.unsqueeze(-2), high.unsqueeze(-2), rival)
            return ((p * rival).sum(-1).amax(-1),)

        (lead,) = in_chunks(part, lower, upper, per_set=100 * A * J)
        kept.append(lead <= tie.squeeze(-1))
    return torch.stack(kept, -1)


def _lead(lower: Tensor, upper: Tensor) -> Tensor:
    """(B, J, J): min of p_b - p_a at [a, b], -inf on the diagonal.

    p_b = l_b and p_a = u_a if the others, with mass between L and U, can make up for it; else the sum of the two is
    1 - L or 1 - U, and the one of them that can is at its bound.
    """
    a, b = upper.unsqueeze(-1), lower.unsqueeze(-2)
    pair = a + b
    most = upper.sum(-1)[:, None, None] - a - upper.unsqueeze(-2)
    least = lower.sum(-1)[:, None, None] - lower.unsqueeze(-1) - b
    too_much, too_little = pair + least > 1, pair + most < 1
    lead = torch.where(too_much, 2 * b - (1 - least), torch.where(too_little, (1 - most) - 2 * a, b - a))
    return lead.masked_fill(torch.eye(lower.shape[-1], dtype=torch.bool, device=lower.device), -torch.inf)


def _best_class(lower: Tensor, upper: Tensor, tie: Tensor) -> Tensor:
    """a is best somewhere if the others can stay at or below u_a: l_i <= u_a, and sum_i min(u_i, u_a) >= 1."""
    ordered = upper.sort(dim=-1, descending=True).values
    larger = torch.searchsorted(-ordered, -upper, side="left")
    sums = torch.cat([torch.zeros_like(ordered[..., :1]), ordered.cumsum(-1)], -1)
    room = sums[..., -1:] - sums.gather(-1, larger) + larger * upper
    slack = tie + 4 * EPS * lower.shape[-1]
    return (lower.amax(-1, keepdim=True) <= upper + slack) & (room >= 1 - slack * (1 + larger))


def _best_action(lower: Tensor, upper: Tensor, utility: Tensor, tie: Tensor) -> Tensor:
    """Best where it or a rival does best, or half-way between: admissible. Not maximal: not. Else a programme."""
    A, J = utility.shape
    maximal = _maximal(lower, upper, utility, tie)

    def winners(low: Tensor, high: Tensor, t: Tensor) -> tuple[Tensor]:
        p = cheapest(low.unsqueeze(-2), high.unsqueeze(-2), torch.cat([utility, -utility]))
        p = torch.cat([p, p.mean(-2, keepdim=True)], -2)
        gain = p @ utility.mT
        return ((gain >= gain.amax(-1, keepdim=True) - t.unsqueeze(-1)).any(-2),)

    (kept,) = in_chunks(winners, lower, upper, tie, per_set=400 * A * J)
    for b, a in (maximal & ~kept).nonzero().tolist():
        rivals = utility[a] - utility[maximal[b]]
        kept[b, a] = _largest_lead(lower[b], upper[b], rivals) >= -float(tie[b]) - 1e-9 * float(
            rivals.abs().max()
        )
    return kept


def _largest_lead(lower: Tensor, upper: Tensor, rivals: Tensor) -> float:
    """max over p of min over the rows of `rivals` (R, J) of their expectation."""
    from scipy.optimize import linprog  # takes long to import, and few need it

    R, J = rivals.shape
    best = linprog(
        np.append(np.zeros(J), -1.0),
        A_ub=np.column_stack([-rivals.cpu().numpy(), np.ones(R)]),
        b_ub=np.zeros(R),
        A_eq=np.append(np.ones(J), 0.0)[None],
        b_eq=[1.0],
        bounds=[*zip(lower.tolist(), upper.tolist(), strict=True), (None, None)],
    )
    # Whoever cannot be ruled out stays.
    return 0.0 if best.x is None else -float(best.fun)
