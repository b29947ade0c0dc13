"""How far a set of distributions over classes is from one distribution (paper, proposition "dist_lemma").

d(Pi', psi) = inf over mixtures P' = sum_j beta_j P_j of d(P', psi): a convex problem in beta for all kinds.
Smooth divergences go through the interior point of `solvers.simplex`, total variation and Wasserstein through linear
programmes. Every answer is an interval [value - gap, value] that holds the infimum.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks
from cbdl.credal._border import check_finite, first
from cbdl.credal._optimum import Optimum
from cbdl.credal.classes.divergence import DIVERGENCES, evaluate, problem, smallest
from cbdl.credal.classes.transport import transport
from cbdl.credal.solvers.l1 import least_deviation


def kinds() -> tuple[str, ...]:
    """All kinds that `distance` knows."""
    return (*DIVERGENCES, "tv", "w1", "w2")


Cost = Tensor | Literal["index"] | None


def distance(P: Tensor, p: Tensor, kind: str, *, order: float | None = None, cost: Cost = None) -> Optimum:
    """inf over beta in the simplex of d(sum_j beta_j P_j, p), for P (B, m, J) and p (B, J). In nats.

    With q = sum_j beta_j P_j, `kind` is one of

    - "kl": sum_c q_c log(q_c / p_c), the paper's div(Pi' || psi); "reverse-kl": sum_c p_c log(p_c / q_c)
    - "tv": sum_c |q_c - p_c| / 2
    - "hellinger": H with H^2 = 1 - sum_c sqrt(q_c p_c), between 0 and 1
    - "chi2": sum_c (q_c - p_c)^2 / p_c; "reverse-chi2": sum_c (q_c - p_c)^2 / q_c
    - "renyi" of `order` a > 0: log(sum_c q_c^a p_c^(1-a)) / (a - 1); a = 1 is "kl"
    - "jensen-shannon": KL(q || (p+q)/2) / 2 + KL(p || (p+q)/2) / 2
    - "w1", "w2": Wasserstein; `cost` (J, J) holds the distances between classes, "index" means |i - j|, and
      None 0 or 1, for which W1 = TV and W2 = sqrt(TV). W2 is the root of the smallest mean squared distance.

    Infinite where every mixture is infinitely far, with gap 0. The roots in "hellinger" and "w2" halve the
    number of digits near 0; the gap says so. It also says where high orders of "renyi" (above about 4) on very
    peaked sets did not converge: there the function bends too sharply. Paper: proposition "dist_lemma".

    >>> P = torch.tensor([[[0.9, 0.1], [0.6, 0.4]]], dtype=torch.float64)
    >>> round(distance(P, torch.tensor([[0.5, 0.5]], dtype=torch.float64), "tv").value.item(), 9)
    0.1
    """
    order = check_kind(kind, kinds(), order)
    if cost is not None and kind not in ("w1", "w2"):
        raise ValueError(f'cost is given but kind is {kind!r}; only "w1" and "w2" have a cost, remove it')
    if kind == "tv":
        return least_deviation(P, p).scaled(0.5)
    if kind in ("w1", "w2"):
        return _wasserstein(P, p, 1 if kind == "w1" else 2, cost)
    answer = _divergence(P, p, kind, order)
    return rooted(answer) if kind == "hellinger" else answer


def check_kind(kind: str, kinds: tuple[str, ...], order: float | None) -> float:
    """The order of the divergence (1 where it has none); ValueError where `kind` and `order` do not fit."""
    if kind not in kinds:
        raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(map(repr, kinds))}")
    if kind != "renyi":
        if order is not None:
            raise ValueError(f'order is given but kind is {kind!r}; only "renyi" has an order, remove it')
        return 1.0
    if order is None or not 0 < float(order) < float("inf"):
        raise ValueError(f'order is {order!r}; kind "renyi" needs a finite order above 0, for example 2.0')
    return float(order)


def rooted(squared: Optimum) -> Optimum:
    """The root of a squared distance, with the interval transformed end by end."""
    value = squared.value.clamp_min(0).sqrt()
    low = (squared.value - squared.gap).clamp_min(0).sqrt()
    error = (squared.value + squared.error).sqrt() - value
    below = value - (squared.value - squared.error).clamp_min(0).sqrt()
    return Optimum(value, value - low, squared.weights, torch.maximum(error, below))


# --- divergences -------------------------------------------------------------------------------------------


def _divergence(P: Tensor, p: Tensor, kind: str, order: float) -> Optimum:
    per_set = 8 * (8 * P.shape[1] * P.shape[2] + 20 * P.shape[2] + 4 * P.shape[1] ** 2)

    def part(P: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        answer = _supported(P, p, kind, order)
        return answer.value, answer.gap, answer.weights

    value, gap, weights = in_chunks(part, P, p, per_set=per_set)
    return Optimum(value, gap, weights, torch.zeros_like(value))


def _supported(P: Tensor, p: Tensor, kind: str, order: float) -> Optimum:
    """The divergence on the part of the hull where it is finite; infinite where there is none."""
    usable = torch.ones(P.shape[:2], dtype=torch.bool, device=P.device)
    if kind in ("kl", "chi2") or (kind == "renyi" and order >= 1):
        usable = ~((P > 0) & (p == 0).unsqueeze(1)).any(-1)
        finite = usable.any(-1)
    elif kind in ("reverse-kl", "reverse-chi2"):
        finite = ~((P.amax(1) == 0) & (p > 0)).any(-1)
    elif kind == "renyi":
        finite = ((P.amax(1) > 0) & (p > 0)).any(-1)
    else:
        finite = torch.ones_like(usable[:, 0])
    value, gap = P.new_full(finite.shape, torch.inf), P.new_zeros(finite.shape)
    weights = P.new_full(P.shape[:2], 1 / P.shape[1])
    if finite.any():
        answer = _restricted(P[finite], p[finite], usable[finite], kind, order)
        value[finite], gap[finite], weights[finite] = answer.value, answer.gap, answer.weights
    return Optimum(value, gap, weights, torch.zeros_like(value))


def _restricted(P: Tensor, p: Tensor, usable: Tensor, kind: str, order: float) -> Optimum:
    P, index = only(P, usable)
    data = problem(P.log(), p.log())
    answer = smallest(data, kind, order)
    value, gap, beta = answer.value, answer.gap, answer.weights.clone()
    near = value < 1e-6
    if kind == "hellinger" and near.any():
        # Before a root is taken, members of the hull deserve all digits: the linear programme has them.
        exact = least_deviation(P[near], p[near]).weights
        again = evaluate(data.take(near), exact, kind)
        better = again < value[near]
        at = near.nonzero().squeeze(-1)[better]
        low = (value - gap)[at]
        value[at], beta[at] = again[better], exact[better]
        gap[at] = (value[at] - low).clamp_min(0)
    return Optimum(value, gap, back(beta, index), torch.zeros_like(value))


def only(P: Tensor, usable: Tensor) -> tuple[Tensor, Tensor]:
    """P (B, m, ...) with rows outside `usable` (B, m) replaced by the first usable one, and their origins.

    The hull is that of the usable rows, and all sets of the batch keep the same number of rows.
    """
    place = torch.arange(P.shape[1], device=P.device)
    index = torch.where(usable, place, usable.to(torch.int8).argmax(-1, keepdim=True))
    shape = (*index.shape, *([1] * (P.ndim - 2)))
    return P.gather(1, index.view(shape).expand(-1, -1, *P.shape[2:])), index


def back(beta: Tensor, index: Tensor) -> Tensor:
    """Weights of the rows that `only` gave, as weights of the rows it was given."""
    return torch.zeros_like(beta).scatter_add_(1, index, beta)


# --- Wasserstein -------------------------------------------------------------------------------------------


def _wasserstein(P: Tensor, p: Tensor, power: int, cost: Cost) -> Optimum:
    if cost is None:
        answer = least_deviation(P, p).scaled(0.5)
    elif isinstance(cost, str) and power == 1:
        _check_index(cost)
        # On a line W1 is the L1 distance of the distribution functions.
        last = max(1, P.shape[-1] - 1)
        answer = least_deviation(P.cumsum(-1)[..., :last], p.cumsum(-1)[..., :last])
    else:
        answer = _near_zero(P, p, cost_matrix(cost, P) ** power)
    return rooted(answer) if power == 2 else answer


def _near_zero(P: Tensor, p: Tensor, cost: Tensor) -> Optimum:
    """Optimal transport; near the hull, what stays in its class costs nothing and the rest at most max c."""
    answer = transport(P, p, cost)
    value, gap, weights = answer.value.clone(), answer.gap.clone(), answer.weights.clone()
    near = (value < 1e-6 * cost.max()).nonzero().squeeze(-1)
    if len(near) and (cost.diagonal() == 0).all():
        exact = least_deviation(P[near], p[near])
        again = exact.value / 2 * cost.max()
        better = again < value[near]
        at = near[better]
        low = (value - gap)[at]
        value[at], weights[at] = again[better], exact.weights[better]
        gap[at] = (value[at] - low.clamp_min(0)).clamp_min(0)
    return Optimum(value, gap, weights, answer.error)


def _check_index(cost: str) -> None:
    if cost != "index":
        raise ValueError(f'cost is {cost!r}; give a (J, J) array, "index" for |i - j|, or None for 0 and 1')


def cost_matrix(cost: Tensor | str, P: Tensor) -> Tensor:
    J = P.shape[-1]
    if isinstance(cost, str):
        _check_index(cost)
        place = torch.arange(J, dtype=P.dtype, device=P.device)
        return (place.unsqueeze(-1) - place).abs()
    if cost.shape != (J, J):
        raise ValueError(f"cost has shape {tuple(cost.shape)}; with {J} classes it must be ({J}, {J})")
    check_finite(cost, "cost")
    if (cost < 0).any():
        at = first(cost < 0)
        raise ValueError(f"cost{list(at)} is {cost[at].item():g}; distances between classes are at least 0")
    return cost.to(P)
