"""How imprecise a set of categoricals is, without entropy: generalized Hartley and maximal imprecision.

Both are functions of the envelopes alone (paper: remark "no_belief" and the references of section 2.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import lru_cache

import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks

MAX_CLASSES = 20
"""Generalized Hartley looks at all 2^J events."""

CACHE = 1 << 22
"""Bytes of one block: small enough to stay near the processor."""


def generalized_hartley(P: Tensor) -> Tensor:
    """(B,) nats: the generalized Hartley measure of the lower envelope of `P` (B, m, J).

    GH = sum_A m(A) log|A|, with m the Moebius inverse of the lower probability. Exchanging the sums,

        GH = sum_A lowerP(A) c(|A|),   c(k) = sum_j (-1)^j C(J - k, j) log(k + j),

    one inner product over all events. c(k) < 0 for k < J, so GH grows with the set; it is 0 for one
    distribution and log J for the set of all. It needs no belief function: masses may be negative.

    >>> P = torch.tensor([[[0.5, 0.5], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    >>> generalized_hartley(P)
    tensor([0.0000, 0.6931], dtype=torch.float64)
    """
    return _measured(lower_envelope, P, instead="maximal_imprecision() or uncertainty()")


def box_hartley(lower: Tensor, upper: Tensor) -> Tensor:
    """(B,) nats: the same for all distributions between two bounds (B, J).

    >>> l, u = torch.tensor([[0.5, 0.5], [0.0, 0.0]]), torch.tensor([[0.5, 0.5], [1.0, 1.0]])
    >>> box_hartley(l.double(), u.double())
    tensor([0.0000, 0.6931], dtype=torch.float64)
    """
    return _measured(box_envelope, lower, upper, instead="uncertainty()")


def _measured(envelope: Callable[..., Tensor], *sets: Tensor, instead: str) -> Tensor:
    J = sets[0].shape[-1]
    if J > MAX_CLASSES:
        raise ValueError(
            f"generalized Hartley looks at all 2^J events and J is {J}, above {MAX_CLASSES}; merge classes, "
            f"or use {instead} without such a limit"
        )
    weight = _event_coefficients(J).to(sets[0].device)
    (value,) = in_chunks(
        lambda *part: (_folded(envelope(*part).mul_(weight)),), *sets, per_set=40 << J, memory=CACHE
    )
    # GH >= 0 holds exactly (it decreases in the lower probability, and is 0 for any one distribution).
    return value.clamp(0, math.log(J))


def maximal_imprecision(P: Tensor) -> Tensor:
    """(B,): sup over events A of upperP(A) - lowerP(A), for `P` (B, m, J).

    It is the largest total variation between two extremes: sup_A (max_i P_i(A) - min_j P_j(A)) =
    max_{i,j} sup_A (P_i(A) - P_j(A)), and the inner supremum is the total variation of P_i and P_j.
    """
    m, J = P.shape[1:]
    (distance,) = in_chunks(lambda p: (torch.cdist(p, p, p=1.0).amax((-2, -1)),), P, per_set=16 * m * (m + J))
    return (distance / 2).clamp_max(1.0)


def lower_envelope(P: Tensor) -> Tensor:
    """(b, 2^J): min_j P_j(A) of all events of `P` (b, m, J); bit i of the index: class i is in A."""
    out = event_probabilities(P[:, 0])
    for p in P.unbind(1)[1:]:
        torch.minimum(out, event_probabilities(p), out=out)
    return out


def box_envelope(lower: Tensor, upper: Tensor) -> Tensor:
    """(b, 2^J): the lower probability of all events between the bounds (b, J), which are coherent."""
    # The complement of event e is 2^J - 1 - e.
    return torch.maximum(event_probabilities(lower), 1 - event_probabilities(upper).flip(-1))


def upper_envelope(P: Tensor) -> Tensor:
    """(b, 2^J): max_j P_j(A) of all events of `P` (b, m, J)."""
    out = event_probabilities(P[:, 0])
    for p in P.unbind(1)[1:]:
        torch.maximum(out, event_probabilities(p), out=out)
    return out


def event_probabilities(p: Tensor) -> Tensor:
    """(b, 2^J): P(A) of all events of `p` (b, J), one addition each: P(A + {i}) = P(A) + p_i."""
    b, J = p.shape
    out = torch.zeros(b, 1 << J, dtype=p.dtype, device=p.device)
    for i in range(J):
        half = 1 << i
        torch.add(out[:, :half], p[:, i : i + 1], out=out[:, half : 2 * half])
    return out


def _folded(x: Tensor) -> Tensor:
    """(b,): the sums of x (b, 2^J), one half added to the other until one number is left; x is used up.

    Additions of single numbers in one order: the sum of a row has the same bits in every batch, on every processor
    and for every number of threads. It also has only J roundings after one another.
    """
    while x.shape[-1] > 1:
        left, right = x.chunk(2, -1)
        x = left.add_(right)
    return x[:, 0]


@lru_cache(maxsize=4)
def _event_coefficients(J: int) -> Tensor:
    """(2^J,): c(|A|) for every event A."""
    size = torch.zeros(1, dtype=torch.int64)
    for _ in range(J):
        size = torch.cat([size, size + 1])
    return _coefficients(J)[size]


@lru_cache(maxsize=MAX_CLASSES)
def _coefficients(J: int) -> Tensor:
    """(J + 1,): c(0) = 0 (the empty event has probability 0), c(1), ..., c(J).

    An alternating sum that cancels; so in 60 decimals first.
    """
    with localcontext() as context:
        context.prec = 60
        log = [Decimal(0)] + [Decimal(k).ln() for k in range(1, J + 1)]
        values = [0.0]
        for k in range(1, J + 1):
            terms = ((-1) ** j * math.comb(J - k, j) * log[k + j] for j in range(J - k + 1))
            values.append(float(sum(terms, Decimal(0))))
    return torch.tensor(values, dtype=torch.float64)
