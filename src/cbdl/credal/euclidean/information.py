"""The upper entropy of sets in R^d: what a mixture adds to the entropies of its parts, on simulated nodes.

    H(q) = sum_j beta_j H(P_j) + I(beta),    I(beta) = sum_j beta_j KL(P_j || q),    q = sum_j beta_j P_j.

Only I, which lies in [0, log m], is simulated. The nodes of extreme j need the log densities of the other extremes
relative to its own: a polynomial in the standard nodes, one matrix product. Everything else is done on a few sets at a
time, as many as the cache holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

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

_CHUNK, _CACHE = 1 << 24, 1 << 21
"""Bytes of the nodes on which weights are found together (larger blocks are new memory from the system every time, a
sixth slower), and of those that are worked on at a time."""

_INSIDE = 1e-9
"""So far inside the simplex the search for weights begins."""

_FEWER, _ROUGH = 8, 1e-4
"""Weights are first found on so many times fewer nodes, to this gap."""

_SLIP, _FINE = 1e-3, 3e-6
"""Errors of log ratios up to which single precision is used (they are typically a hundredth of it), and the standard
error below which its answer is computed again in full: rounding stays far below what simulation can tell."""


class _Precision(NamedTuple):
    """In which numbers, to which gap and in how many steps weights are found; what counts for nothing.

    Shares of a density below exp(nothing) are raised to it; a mixture below `deep` comes from logarithms.
    """

    dtype: torch.dtype
    tolerance: float
    steps: int
    nothing: float
    deep: float
    tiny: float


_SINGLE = _Precision(torch.float32, 1e-5, 6, -40.0, 1e-12, 1e-37)
_DOUBLE = _Precision(torch.float64, 1e-9, 80, -math.inf, 1e-290, 0.0)


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
    loc, scale = disagreeing_first(loc, scale)
    answers = _solutions(loc, scale, linear, Nodes(samples, seed), _SINGLE)
    fine = (~(answers[2] >= _FINE)).nonzero()[:, 0]
    if len(fine):
        parts = _solutions(loc[fine], scale[fine], linear[fine], Nodes(samples, seed), _DOUBLE)
        for whole, part in zip(answers, parts, strict=True):
            whole[fine] = part
    value, gap, error, beta = answers
    return Optimum(value, gap, beta, error)


def _solutions(
    loc: Tensor, scale: Tensor, linear: Tensor, nodes: Nodes, precision: _Precision
) -> tuple[Tensor, ...]:
    """Value, gap, standard error (0 where single precision does not do) and weights."""
    m, d = loc.shape[1:]
    size = REPLICATES << max(0, math.ceil(math.log2(nodes.samples / REPLICATES)))
    per_set = precision.dtype.itemsize * m * m * size
    first, fresh = (
        normal_powers(d, nodes.samples, 2 * nodes.seed + stage, loc.device, precision.dtype)
        for stage in (0, 1)
    )

    def solve(loc: Tensor, scale: Tensor, linear: Tensor) -> tuple[Tensor, ...]:
        *polynomial, single = _polynomials(loc, scale, precision)
        rho = loc.new_empty(len(loc), m, m, size, dtype=precision.dtype)
        (slope,) = in_chunks(
            lambda a, b, c, out: (_shares(_log_ratios(first, a, b, c, precision), out, precision),),
            *polynomial,
            rho,
            per_set=per_set,
            memory=_CACHE,
        )
        beta = _weights(rho, slope, linear - linear.amax(-1, keepdim=True), precision)
        value, gap, error = in_chunks(
            lambda a, b, c, own, w: _judge(_log_ratios(fresh, a, b, c, precision), own, w, precision),
            *polynomial,
            linear,
            beta,
            per_set=per_set,
            memory=_CACHE,
        )
        return value, gap, torch.where(single, error, 0.0), beta

    return in_chunks(solve, loc, scale, linear, per_set=2 * per_set, memory=_CHUNK)


def _polynomials(loc: Tensor, scale: Tensor, precision: _Precision) -> tuple[Tensor, ...]:
    """log(p_k / p_j) at the nodes of P_j: terms (b, m, m - 1, 2 d) of nodes and their squares, the height, its part
    that is the ratio of scales, and for which sets the precision does.
    """
    m, d = loc.shape[1:]
    other = others(m, loc.device)
    delta = (loc[:, :, None] - loc[:, other]) / scale[:, other]
    ratio = scale[:, :, None] / scale[:, other]
    terms = torch.cat([-delta * ratio, (1 - ratio) * (1 + ratio) / 2], -1)
    shift = ratio.log().sum(-1, keepdim=True)
    height = shift - delta.square().sum(-1, keepdim=True) / 2
    large = torch.maximum(terms.norm(dim=-1) * math.sqrt(d), height[..., 0].abs()).amax((1, 2))
    enough = torch.finfo(precision.dtype).eps * large < _SLIP
    return *(x.to(precision.dtype) for x in (terms, height, shift)), enough | (precision is _DOUBLE)


def _log_ratios(
    powers: Tensor, terms: Tensor, height: Tensor, shift: Tensor, precision: _Precision
) -> Tensor:
    """(b, m, m - 1, N): log(p_k / p_j) at the nodes of P_j, for the other k."""
    logs = (terms @ powers).add_(height)
    if precision is _SINGLE:
        return logs
    # Large numbers may cancel to the worse: a squared distance is at least 0.
    return torch.minimum(logs, powers[len(powers) // 2 :].sum(0) / 2 + shift)


def _relative(logs: Tensor) -> tuple[Tensor, Tensor]:
    """From log(p_k / p_j): log p_j (b, m, N) and log p_k relative to the largest of all, own included."""
    top = logs.amax(2).clamp_(min=0)
    return -top, logs.sub_(top[:, :, None])


def _shares(logs: Tensor, rho: Tensor, precision: _Precision) -> Tensor:
    """E_r rho_k log rho_k, (b, m); `rho` (b, m, m, N) is filled: the own first and then the others, at P_j's nodes."""
    m, N = logs.shape[1], logs.shape[-1]
    own, rest = _relative(logs)
    torch.exp(own.clamp_(min=precision.nothing), out=rho[:, :, 0])
    torch.exp(rest.clamp_(min=precision.nothing), out=rho[:, :, 1:])
    total = rho.sum(2)
    rho *= (m / total)[:, :, None]
    sums = torch.empty_like(rho[..., 0])
    sums[:, :, 0] = own.mul_(rho[:, :, 0]).sum(-1)
    sums[:, :, 1:] = rest.mul_(rho[:, :, 1:]).sum(-1)
    # The product from this side is several times as fast.
    sums -= (total.log_().sub_(math.log(m))[:, :, None] @ rho.mT)[:, :, 0]
    return _folded(sums.double()) / (m * N)


@lru_cache(maxsize=64)
def _own_first(m: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """(m, m): j, and then the others; where every extreme is in that order; and the places of j's pairs of extremes
    (m, m, m) in all pairs in those orders, one stratum after the other, flat. Not to be written to."""
    order = torch.cat([torch.arange(m, device=device)[:, None], others(m, device)], 1)
    place = order.argsort(-1)
    first = m * m * torch.arange(m, device=device)[:, None, None]
    return order, place, (first + m * place[:, :, None] + place[:, None]).flatten()


def _folded(x: Tensor) -> Tensor:
    """(b, m, ...): sums over the strata j of x (b, m, m, ...), whose third dimension is the own first, by extreme."""
    m = x.shape[1]
    place = _own_first(m, x.device)[1]
    return x.gather(2, place.expand_as(x)).sum(1)


class _Information:
    """The negative of sum_j beta_j c_j - mean_n s_n log s_n, its gradient and Hessian, on nodes rho (b, m, m, N).

    Sets that left are dropped with the next Hessian.
    """

    def __init__(self, rho: Tensor, slope: Tensor, tiny: float) -> None:
        b, m, _, N = rho.shape
        self.tiny = tiny
        self.rho, self.slope, self.count = rho.view(b * m, m, N), slope, m * N
        self.order, _, self.pairs = _own_first(m, rho.device)
        # E_r rho_j = 1 on the nodes only nearly: its gradient belongs to the function.
        self.one = _folded(rho.sum(-1).double()) / self.count

    def __call__(self, beta: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
        b, m = beta.shape
        share = beta.to(self.rho)[:, self.order].view(b * m, 1, m)
        self.s = torch.bmm(share, self.rho)[:, 0].clamp_(min=self.tiny)
        each = torch.bmm(self.s.log()[:, None], self.rho.mT)  # from this side, several times as fast
        cross = _folded(each.view(b, m, m).double()) / self.count
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
            per_set=2 * self.rho.element_size() * m * self.s.shape[1],
            memory=_CACHE,
        )
        each = each.view(-1, m**3).index_select(1, self.pairs).view(-1, m, m, m)
        return each.double().sum(1) / self.count


def _weights(rho: Tensor, slope: Tensor, relative: Tensor, precision: _Precision) -> Tensor:
    """(b, m): the best weights on the nodes: from those that are right for extremes far apart, on few nodes first."""
    slope = relative.clamp(min=-1e3) + slope
    few = rho.view(*rho.shape[:-1], REPLICATES, -1)[..., : rho.shape[-1] // (_FEWER * REPLICATES)].flatten(-2)
    start = relative.softmax(-1)
    for nodes, tolerance in ((few, _ROUGH), (rho, precision.tolerance)):
        if nodes.shape[-1] == 0:
            continue
        start = start.clamp(min=_INSIDE)
        start = minimise(
            _Information(nodes, slope, precision.tiny),
            *slope.shape,
            device=rho.device,
            tolerance=tolerance,
            max_steps=precision.steps,
            start=start / start.sum(-1, keepdim=True),
        ).point
    # At an optimum beta_j <= exp(linear_j - max linear): more would only be rounding times a large number.
    beta = torch.minimum(start, relative.exp())
    return beta / beta.sum(-1, keepdim=True)


def _judge(
    logs: Tensor, linear: Tensor, beta: Tensor, precision: _Precision
) -> tuple[Tensor, Tensor, Tensor]:
    """Value, gap and standard error of the mixture beta (b, m) on fresh nodes, log(p_k / p_j) (b, m, m - 1, N)."""
    b, m, _, N = logs.shape
    part = beta.to(logs)
    share = part[:, others(m, logs.device)][:, :, None]
    log_own, log_rest = _relative(logs)
    own, rest = log_own.exp(), log_rest.clamp(min=precision.nothing).exp_()
    mixed = (share @ rest)[:, :, 0].addcmul_(own, part[..., None])
    level = _log_mixture(mixed, log_own, log_rest, beta, precision.deep)
    weight = m / (own + rest.sum(2))
    own_term, terms = log_own.mul_(own), log_rest.mul_(rest)
    each = (share @ terms)[:, :, 0].addcmul_(own_term, part[..., None])
    each = each.addcmul_(mixed, level, value=-1).mul_(weight)
    level *= weight
    sums = logs.new_empty(b, m, m)
    sums[:, :, 0] = (own_term.mul_(weight) - own.mul_(level)).sum(-1)
    sums[:, :, 1:] = (weight[:, :, None] @ terms.mT - level[:, :, None] @ rest.mT)[:, :, 0]
    divergence = _folded(sums.double()) / (m * N)
    information = each.view(b, m, REPLICATES, -1).mean(-1).double().mean(1)
    value = torch.where(beta > 0, beta * linear, 0.0).sum(-1) + information.mean(-1)
    bound = (linear + divergence).amax(-1)
    return value, (bound - value).clamp(min=0), standard_error(information)


def _log_mixture(mixed: Tensor, log_own: Tensor, log_rest: Tensor, beta: Tensor, least: float) -> Tensor:
    """(b, m, N): log of the mixture; where it is below `least`, of the logarithms of its parts."""
    level = mixed.log()
    deep = (mixed < least).nonzero(as_tuple=True)
    if len(deep[0]):
        row, stratum, node = deep
        log_beta = beta.log()
        at = log_rest[row, stratum, :, node] + log_beta[:, others(beta.shape[1], beta.device)][row, stratum]
        own = log_own[deep] + log_beta[row, stratum]
        level[deep] = torch.logaddexp(at.logsumexp(-1), own).to(level)
    return level
