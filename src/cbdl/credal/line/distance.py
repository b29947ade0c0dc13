"""How far a set of Normal mixtures on the line is from one mixture (paper, proposition "dist_lemma").

d(Pi', psi) = inf over mixtures P' = sum_j beta_j P_j of d(P', psi), a convex problem in beta. Divergences are
integrals on quadrature nodes (`divergence`); total variation and Wasserstein 1 need only the roots of a
known function (`signs`); Wasserstein 2 goes through the monotone map (`w2`). Every answer is an
interval [value - gap, value], with the error of the integrals beside it.
"""

from __future__ import annotations

from torch import Tensor

from cbdl.credal._optimum import Optimum
from cbdl.credal.classes.distance import check_kind, rooted
from cbdl.credal.classes.divergence import DIVERGENCES
from cbdl.credal.line.divergence import line_divergence
from cbdl.credal.line.signs import total_variation, wasserstein1
from cbdl.credal.line.w2 import wasserstein2_squared

KINDS = (*DIVERGENCES, "tv", "w1", "w2")
"""All kinds that `distance` knows."""


def distance(
    loc: Tensor,
    scale: Tensor,
    weights: Tensor,
    target_loc: Tensor,
    target_scale: Tensor,
    target_weights: Tensor,
    kind: str,
    *,
    order: float | None = None,
) -> Optimum:
    """inf over beta in the simplex of d(q, p), q = sum_j beta_j P_j. In nats, or in the unit of the outcome.

    Each P_j is a mixture of Normals, `loc`, `scale`, `weights` (B, m, M); p is one, (B, M'). `kind`:

    - "kl": integral q log(q / p), the paper's div(Pi' || psi); "reverse-kl": integral p log(p / q)
    - "tv": integral |q - p| / 2
    - "hellinger": H with H^2 = 1 - integral sqrt(q p), between 0 and 1
    - "chi2": integral (q - p)^2 / p; "reverse-chi2": integral (q - p)^2 / q
    - "renyi" of `order` a > 0: log(integral q^a p^(1-a)) / (a - 1); a = 1 is "kl"
    - "jensen-shannon": KL(q || (p+q)/2) / 2 + KL(p || (p+q)/2) / 2
    - "w1": integral |F - G|; "w2": root of integral (y - G^-1(F(y)))^2 q(y) dy

    "chi2", and "renyi" above order 1, are infinite where the tail of q is too heavy: with s and t the largest
    scales in q and p, where (a - 1) s^2 >= a t^2 (a = 2 for "chi2"). Extremes with such tails get no weight; if
    all have them the distance is infinite, with gap 0. `error` estimates the error of the integrals. The roots
    in "hellinger" and "w2" halve the number of digits near 0; the gap says so.

    >>> import torch
    >>> one = torch.ones(1, 1, 1, dtype=torch.float64)
    >>> optimum = distance(0 * one, one, one, *(t[:, 0] for t in (one, one, one)), "w2")
    >>> round(optimum.value.item(), 9)
    1.0
    """
    order = check_kind(kind, KINDS, order)
    sets, target = (loc, scale, weights), (target_loc, target_scale, target_weights)
    if kind == "tv":
        return total_variation(sets, target)
    if kind == "w1":
        return wasserstein1(sets, target)
    if kind == "w2":
        return rooted(wasserstein2_squared(sets, target))
    answer = line_divergence(sets, target, kind, order)
    return rooted(answer) if kind == "hellinger" else answer
