"""Which actions to take when only a set of distributions is known (paper: modified Step 6, and its peers).

Every rule looks at expected[b, a, j], the expected utility of action a under the extreme P_j of set b, and
keeps a non-empty set of actions. Inclusions that always hold:

    e-admissible  <=  maximality  <=  interval-dominance,   and every rule keeps an action of "maximality".

Two utilities that differ by less than `tolerance` times the largest |utility| of the set are equal.
"""

from __future__ import annotations

from typing import Literal, cast, get_args

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks
from cbdl.credal.solvers.linprog import matrix_game

Rule = Literal[
    "maximin", "gamma-maximin", "gamma-maximax", "maximality", "e-admissible", "interval-dominance"
]

ROUNDING = 1e-12


def decide(expected: Tensor, rule: str = "maximin", *, tolerance: float = ROUNDING) -> Tensor:
    """(B, A) bool: the actions that `rule` keeps, given `expected` (B, A, m).

    - "gamma-maximin": all maximisers of min_j E_j[u_a]. "maximin" is the same; with the identity as utility
      it is the paper's modified Step 6, argmax_y min_j p_j(y).
    - "gamma-maximax": all maximisers of max_j E_j[u_a].
    - "maximality": a stays unless some b has E_j[u_b - u_a] > 0 for all j.
    - "e-admissible": a stays if some mixture of the extremes makes it optimal.
    - "interval-dominance": a stays if max_j E_j[u_a] >= max_b min_j E_j[u_b].

    >>> import torch
    >>> P = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]], dtype=torch.float64)
    >>> decide(P.T[None], "maximin")       # the utility of saying y is 1 if y is right: expected = p_j(y)
    tensor([[False,  True, False]])
    >>> decide(P.T[None], "maximality")
    tensor([[ True,  True, False]])
    """
    if rule not in get_args(Rule):
        raise ValueError(f"rule is {rule!r}; give one of {', '.join(map(repr, get_args(Rule)))}")
    tie = tolerance * expected.abs().amax((-2, -1)).unsqueeze(-1)
    match cast(Rule, rule):
        case "maximin" | "gamma-maximin":
            return _maximisers(expected.amin(-1), tie)
        case "gamma-maximax":
            return _maximisers(expected.amax(-1), tie)
        case "interval-dominance":
            return expected.amax(-1) >= expected.amin(-1).amax(-1, keepdim=True) - tie
        case "maximality":
            return _maximal(expected, tie)
        case "e-admissible":
            return _e_admissible(expected, tie)


def _maximisers(value: Tensor, tie: Tensor) -> Tensor:
    return value >= value.amax(-1, keepdim=True) - tie


def _maximal(expected: Tensor, tie: Tensor) -> Tensor:
    A = expected.shape[1]
    (kept,) = in_chunks(lambda e, t: (~_dominated(e, t),), expected, tie, per_set=24 * A * A)
    return kept


def _dominated(expected: Tensor, tie: Tensor) -> Tensor:
    """(b, A): whether some action is better under every extreme, hence under every mixture of them."""
    b, A = expected.shape[:2]
    least = torch.full((b, A, A), torch.inf, dtype=expected.dtype, device=expected.device)
    for e in expected.unbind(-1):
        torch.minimum(least, e.unsqueeze(-2) - e.unsqueeze(-1), out=least)
    return (least > tie.unsqueeze(-1)).any(-1)


def _e_admissible(expected: Tensor, tie: Tensor) -> Tensor:
    """Optimal at an extreme or at the centre: admissible. Worse than a fixed mixture of actions under every
    extreme: not, because at every beta one of the mixed actions is better. The others: a is admissible if and
    only if

        max over beta in the simplex of min_b sum_j beta_j E_j[u_a - u_b]  =  0,

    a matrix game; b runs over the maximal actions, because the best one at any beta is maximal. It is decided
    within the certified gap of the game: an action that cannot be ruled out is kept.
    """
    winners = (expected >= expected.amax(1, keepdim=True) - tie.unsqueeze(-1)).any(-1)
    kept = winners | _maximisers(expected.mean(-1), tie)
    maximal = _maximal(expected, tie)
    share = winners.to(expected) / winners.sum(-1, keepdim=True)
    mixed = (share.unsqueeze(1) @ expected) - expected
    beaten = (mixed > tie.unsqueeze(-1)).all(-1)
    undecided = maximal & ~kept & ~beaten
    # Fewer rivals make a game easier, and an action that loses it is out; most fall to the winners alone.
    if 4 * int(winners.sum(-1).amax()) <= expected.shape[1]:
        undecided = _may_win(expected, undecided, winners, tie)
    return kept | _may_win(expected, undecided, maximal, tie)


def _may_win(expected: Tensor, actions: Tensor, rivals: Tensor, tie: Tensor) -> Tensor:
    """(B, A): those of `actions` that are as good as all `rivals` at some beta; both masks are (B, A)."""
    sets, own = actions.nonzero().unbind(-1)
    out = torch.zeros_like(actions)
    if not len(sets):
        return out
    R, m = int(rivals.sum(-1).amax()), expected.shape[-1]
    others = rivals.long().argsort(dim=-1, descending=True, stable=True)[:, :R]
    real = rivals.gather(-1, others).unsqueeze(-1)

    def possible(b: Tensor, a: Tensor) -> tuple[Tensor]:
        rows = expected[b.unsqueeze(-1), others[b]]
        # Padding is a rival that always draws.
        game = torch.where(real[b], expected[b, a].unsqueeze(1) - rows, rows.new_zeros(()))
        best = matrix_game(game)
        best_value, limit = best.value + best.gap, -tie[b, 0]
        unsure = (best.value < limit) & (best_value >= limit) & (best.gap > -1e3 * limit)
        for i in unsure.nonzero().squeeze(-1).tolist():
            best_value[i] = _game_by_highs(game[i])
        return (best_value >= limit,)

    (out[sets, own],) = in_chunks(possible, sets, own, per_set=32 * R * m)
    return out


def _game_by_highs(game: Tensor) -> float:
    """The value of one game, for the rare one whose certificate is too wide to decide. 0 up to 1e-9 is 0."""
    from scipy.optimize import linprog  # takes long to import, and few need it

    G = game.cpu().numpy() / float(game.abs().amax())
    R, m = G.shape
    programme = linprog(
        np.append(np.zeros(m), -1.0),
        A_ub=np.column_stack([-G, np.ones(R)]),
        b_ub=np.zeros(R),
        A_eq=np.append(np.ones(m), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * m + [(-2, 2)],
    )
    return (
        0.0
        if programme.x is None or -programme.fun >= -1e-9
        else -float(programme.fun) * float(game.abs().amax())
    )


def choose(mask: Tensor, seed: int) -> Tensor:
    """(B,) int64: one of the true entries of every row of `mask` (B, A), uniformly at random.

    One uniform number a row, so the choice of a row depends on the seed, its position and its own mask only.
    """
    count = mask.sum(-1)
    if (count == 0).any():
        raise ValueError(
            f"mask[{int((count == 0).nonzero()[0])}] keeps nothing; every row needs a true entry"
        )
    generator = torch.Generator().manual_seed(seed)
    u = torch.rand(mask.shape[0], generator=generator, dtype=torch.float64).to(mask.device)
    rank = (u * count).long().clamp_max(count - 1)
    return (mask.cumsum(-1) > rank.unsqueeze(-1)).to(torch.uint8).argmax(-1)
