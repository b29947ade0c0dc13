"""The upper entropy of sets in R^d: what a mixture adds to the entropies of its parts, on simulated nodes.

    H(q) = sum_j beta_j H(P_j) + I(beta),    I(beta) = sum_j beta_j KL(P_j || q),    q = sum_j beta_j P_j.

Only I, which lies in [0, log m], is simulated. The nodes of extreme j need the log densities of the other extremes
relative to its own: a polynomial in the standard nodes, one matrix product. Everything else is done on a few sets at a
time, as many as the cache holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks
from cbdl.credal._optimum import Optimum
from cbdl.credal.euclidean.montecarlo import (
    REPLICATES,
    Nodes,
    disagreeing_first,
    normal_powers,
    others,
    standard_error,
)
from cbdl.credal.solvers.simplex import minimise

_CHUNK, _CACHE = 1 << 25, 1 << 22
"""Bytes of the nodes on which weights are found together, and of those that are worked on at a time."""

_INSIDE = 1e-9
"""So far inside the simplex the search for weights begins."""

EPS32 = torch.finfo(torch.float32).eps
_SLIP = 1e-3
"""Errors of log ratios up to which single precision is used; they are typically a hundredth of it."""


def maximise_information(loc: Tensor, scale: Tensor, linear: Tensor, samples: int, seed: int) -> Optimum:
    """max over beta of sum_j beta_j linear_j + I(beta).

    With linear_j = H(P_j) it is the upper entropy, with linear_j = -KL(P_j || p) it is -KL(q || p). On nodes of the
    equal mixture r,

        I(beta) ~ mean_n (sum_j beta_j rho_jn log rho_jn - s_n log s_n),  rho_jn = p_j / r,  s = beta rho,

    which is concave on every set of nodes. The weights found on one set are judged on fresh nodes: `value` is
    unbiased for the mixture q found, `error` its standard error, and `gap` = max_j (linear_j + KL(P_j ||
    q)) - value bounds what a better q could add (up to the same error). loc, scale (B, m, d); linear (B,
    m).
    """
    m = loc.shape[1]
    if m == 1:
        zero = linear.new_zeros(linear.shape[0])
        return Optimum(linear[:, 0].clone(), zero, torch.ones_like(linear), zero.clone())
    nodes = Nodes(samples, seed)
    size = REPLICATES << max(0, math.ceil(math.log2(samples / REPLICATES)))
    cached = {"per_set": 8 * m * m * size, "memory": _CACHE}

    def solve(loc: Tensor, scale: Tensor, linear: Tensor) -> tuple[Tensor, ...]:
        loc, scale = disagreeing_first(loc, scale)
        rho = loc.new_empty(len(loc), m, m, size)
        (slope,) = in_chunks(
            lambda a, s, out: (_shares(_log_ratios(nodes, 0, a, s), out),), loc, scale, rho, **cached
        )
        # At an optimum beta_j <= exp(linear_j - max linear): more would only be rounding times a large
        # number.
        relative = linear - linear.amax(-1, keepdim=True)
        beta = torch.minimum(_weights(rho, relative.clamp(min=-1e3) + slope, relative), relative.exp())
        beta = beta / beta.sum(-1, keepdim=True)
        judge = in_chunks(
            lambda a, s, b, c: _judge(_log_ratios(nodes, 1, a, s), b, c), loc, scale, linear, beta, **cached
        )
        return (*judge, beta)

    value, gap, error, beta = in_chunks(
        solve, loc, scale, linear, per_set=8 * m * m * size * 2, memory=_CHUNK
    )
    return Optimum(value, gap, beta, error)


def _log_ratios(nodes: Nodes, stage: int, loc: Tensor, scale: Tensor) -> Tensor:
    """(b, m, m - 1, N): log(p_k / p_j) at the nodes of P_j, for the other k; stage 0 or 1.

    The products are made in single precision where their rounding is far below what simulation can tell; what is made
    of them is in full, so that all that is small stays as small as it is.
    """
    m, d = loc.shape[1:]
    other = others(m, loc.device)
    delta = (loc[:, :, None] - loc[:, other]) / scale[:, other]
    ratio = scale[:, :, None] / scale[:, other]
    terms = torch.cat([-delta * ratio, (1 - ratio) * (1 + ratio) / 2], -1)
    shift = ratio.log().sum(-1, keepdim=True)
    height = shift - delta.square().sum(-1, keepdim=True) / 2
    key = d, nodes.samples, 2 * nodes.seed + stage, loc.device
    if EPS32 * float(terms.norm(dim=-1).amax()) * math.sqrt(d) < _SLIP:
        return (terms.float() @ normal_powers(*key, torch.float32)) + height
    exact = normal_powers(*key, torch.float64)
    # Large numbers may cancel to the worse: a squared distance is at least 0.
    return torch.minimum((terms @ exact).add_(height), exact[d:].sum(0) / 2 + shift)


def _relative(logs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """From log(p_k / p_j): the largest of all logs, own included, (b, m, N), and p_j and p_k relative to it."""
    top = logs.amax(2).clamp_(min=0)
    return top, (-top).exp_(), (logs - top[:, :, None]).exp_()


def _shares(logs: Tensor, rho: Tensor) -> Tensor:
    """E_r rho_k log rho_k, (b, m); `rho` (b, m, m, N) is filled: the own first and then the others, at P_j's nodes."""
    m = logs.shape[1]
    top = logs.amax(2).clamp_(min=0)
    torch.neg(top, out=rho[:, :, 0])
    torch.sub(logs, top[:, :, None], out=rho[:, :, 1:])
    total = rho.exp_().sum(2)
    rho *= (m / total)[:, :, None]
    level = total.log_().add_(top).sub_(math.log(m))
    means = torch.empty_like(rho[..., 0])
    means[:, :, 0] = -(rho[:, :, 0] * level).mean(-1)
    means[:, :, 1:] = logs.sub_(level[:, :, None]).mul_(rho[:, :, 1:]).mean(-1)
    return _folded(means) / m


def _own_first(m: int, device: torch.device) -> Tensor:
    """(m, m): j, and then the others."""
    return torch.cat([torch.arange(m, device=device)[:, None], others(m, device)], 1)


def _folded(x: Tensor) -> Tensor:
    """(b, m, ...): sums over the strata j of x (b, m, m, ...), whose third dimension is the own first, by extreme."""
    m = x.shape[1]
    place = _own_first(m, x.device).argsort(-1)
    return x[:, torch.arange(m, device=x.device)[:, None], place].sum(1)


class _Information:
    """The negative of sum_j beta_j c_j - mean_n s_n log s_n, its gradient and Hessian, on nodes rho (b, m, m, N).

    Sets that left are dropped with the next Hessian.
    """

    def __init__(self, rho: Tensor, slope: Tensor) -> None:
        b, m, _, N = rho.shape
        self.rho, self.slope, self.count = rho.view(b * m, m, N), slope, m * N
        self.order = _own_first(m, rho.device)
        self.place = self.order.argsort(-1)
        # E_r rho_j = 1 on the nodes only nearly: its gradient belongs to the function.
        self.one = _folded(rho.sum(-1)) / self.count

    def __call__(self, beta: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
        b, m = beta.shape
        self.s = torch.bmm(beta[:, self.order].view(b * m, 1, m), self.rho)[:, 0]
        each = torch.bmm(self.s.log()[:, None], self.rho.mT)  # from this side, several times as fast
        cross = _folded(each.view(b, m, m)) / self.count
        gradient = cross + self.one - self.slope
        return (beta * (cross - self.slope)).sum(-1), gradient, self._hessian

    def _hessian(self, stay: Tensor) -> Tensor:
        m = self.slope.shape[1]
        if stay.shape[0] < self.slope.shape[0]:
            every = (stay[:, None] * m + torch.arange(m, device=stay.device)).view(-1)
            self.rho, self.s = self.rho[every], self.s[every]
            self.slope, self.one = self.slope[stay], self.one[stay]
        (each,) = in_chunks(
            lambda r, s: (torch.bmm(r / s[:, None], r.mT),),
            self.rho,
            self.s,
            per_set=16 * m * self.s.shape[1],
            memory=_CACHE,
        )
        strata = torch.arange(m, device=stay.device)[:, None, None]
        return (
            each.view(-1, m, m, m)[:, strata, self.place[:, :, None], self.place[:, None]].sum(1) / self.count
        )


def _weights(rho: Tensor, slope: Tensor, relative: Tensor) -> Tensor:
    """(b, m): the best weights on the nodes, from those that are right for extremes far apart."""
    start = relative.softmax(-1).clamp(min=_INSIDE)
    start = start / start.sum(-1, keepdim=True)
    objective = _Information(rho, slope)
    return minimise(objective, *slope.shape, device=rho.device, tolerance=1e-9, start=start).point


def _judge(logs: Tensor, linear: Tensor, beta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Value, gap and standard error of the mixture beta (b, m) on fresh nodes, log(p_k / p_j) (b, m, m - 1, N)."""
    b, m = logs.shape[:2]
    other = others(m, logs.device)
    top, own, rest = _relative(logs)
    weight = m / (own + rest.sum(2))
    mixed = (beta[:, other][:, :, None] @ rest)[:, :, 0].addcmul_(own, beta[..., None])
    level = mixed.log().add_(top)
    deep = (mixed < 1e-290).nonzero(as_tuple=True)
    if len(deep[0]):
        at = logs[deep[0], deep[1], :, deep[2]] + beta.log()[:, other][deep[:2]]
        level[deep] = torch.logaddexp(at.logsumexp(-1), beta.log()[deep[:2]])
    own, rest = own * weight, rest.mul_(weight[:, :, None])
    means = logs.new_empty(b, m, m, REPLICATES)
    means[:, :, 0] = -(own * level).view(b, m, REPLICATES, -1).mean(-1)
    means[:, :, 1:] = logs.sub_(level[:, :, None]).mul_(rest).view(b, m, m - 1, REPLICATES, -1).mean(-1)
    divergence = _folded(means) / m  # (b, m, REPLICATES)
    information = (beta[..., None] * divergence).sum(1)
    value = torch.where(beta > 0, beta * linear, 0.0).sum(-1) + information.mean(-1)
    bound = (linear + divergence.mean(-1)).amax(-1)
    return value, (bound - value).clamp(min=0), standard_error(information)
