"""Which actions to take when only a set of distributions is known (paper: modified Step 6, and its peers).

Every rule looks at expected[b, a, j], the expected utility of action a under the extreme P_j of set b, and
keeps a non-empty set of actions. Inclusions that always hold:

    e-admissible  <=  maximality  <=  interval-dominance,   and every rule keeps an action of "maximality".

Two utilities that differ by less than `tolerance` times the largest |utility| of the set are equal.
"""

from __future__ import annotations

from typing import Literal, cast, get_args

import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks

Rule = Literal[
    "maximin", "gamma-maximin", "gamma-maximax", "maximality", "e-admissible", "interval-dominance"
]

ROUNDING = 1e-12


def decide(expected: Tensor, rule: str = "maximin", *, tolerance: float = ROUNDING) -> Tensor:
    """(B, A) bool: the actions that `rule` keeps, given `expected` (B, A, m).

    - "gamma-maximin": all maximisers of min_j E_j[u_a]. "maximin" is the same; with the identity as utility it
      is the paper's modified Step 6, argmax_y min_j p_j(y).
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
    """Optimal at an extreme: admissible. Not maximal: not. The others: a is admissible if and only if

        max over beta in the simplex of min_b sum_j beta_j E_j[u_a - u_b]  =  0,

    a matrix game; b runs over the maximal actions, because the best one at any beta is maximal.
    """
    from cbdl.credal._linprog import matrix_game

    kept = (expected >= expected.amax(1, keepdim=True) - tie.unsqueeze(-1)).any(-1)
    maximal = _maximal(expected, tie)
    sets, actions = (maximal & ~kept).nonzero().unbind(-1)
    if not len(sets):
        return kept

    def possible(b: Tensor, a: Tensor) -> tuple[Tensor]:
        game = expected[b, a].unsqueeze(1) - expected[b]
        game = torch.where(maximal[b].unsqueeze(-1), game, game.new_zeros(()))
        best = matrix_game(game)
        return (best.value + best.gap >= -tie[b, 0],)

    A, m = expected.shape[1:]
    (found,) = in_chunks(possible, sets, actions, per_set=64 * A * m)
    kept[sets, actions] = found
    return kept


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
