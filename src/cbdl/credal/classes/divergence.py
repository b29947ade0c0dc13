"""Smooth divergences between a mixture of m distributions and one distribution, minimised over the mixture.

All of them are D(q, p) = sum_n w_n phi(q_n, p_n) with phi convex in q and q = sum_j beta_j P_j, so that

    gradient_j = sum_n w_n P_jn phi'(q_n),     Hessian_jk = sum_n w_n P_jn P_kn phi''(q_n).

The space may be finite (w = 1) or the nodes of a quadrature. Everything is computed from logarithms, because
densities underflow long before their ratios lose meaning, and from q phi' and q^2 phi'' with P_jn / q_n
beside them, which neither overflow nor cancel. Each phi is written so that it and its slope vanish at q = p:
near the hull the value keeps its digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal._optimum import Optimum
from cbdl.credal.solvers.simplex import minimise

Terms = tuple[Tensor, Tensor, Tensor]
"""phi, q phi' and q^2 phi'', all (B, N)."""

LARGE = 1e3
"""Above this, values are minimised relative to their size."""

TOLERANCE = 1e-13
"""Gap, relative to max(1, value), at which a set is done."""

ROUNDING = 8
"""Units in the last place by which a logarithm of a density, or a value, may be off."""

GROWTH, BLEND = 1.5, 0.01
"""High Renyi orders are reached by factors of GROWTH; how much of the safe start is kept on the way."""


def _gap(lq: Tensor, lp: Tensor) -> Tensor:
    """log(q / p); 0 where one of them is 0 (such places are dealt with by the caller)."""
    return torch.where(torch.isfinite(lq) & torch.isfinite(lp), lq - lp, 0.0)


def _kl(lq: Tensor, lp: Tensor, shift: Tensor, order: float) -> Terms:
    """q log(q / p) - q + p."""
    q, p, d = lq.exp(), lp.exp(), _gap(lq, lp)
    near = d > -1
    value = torch.where(near, q * (d + torch.expm1(-d.clamp_min(-1))), q * d - q + p)
    return torch.where(torch.isfinite(lq), value, p), q * d, q


def _reverse_kl(lq: Tensor, lp: Tensor, shift: Tensor, order: float) -> Terms:
    """p log(p / q) + q - p."""
    q, p, d = lq.exp(), lp.exp(), _gap(lq, lp)
    near = d < 1
    rest = torch.where(near, p * torch.expm1(d.clamp_max(1)), q - p)
    value = torch.where(near, p * (torch.expm1(d.clamp_max(1)) - d), q - p - p * d)
    finite = torch.isfinite(lp)
    return torch.where(finite, value, q), torch.where(finite, rest, q), p


def _hellinger(lq: Tensor, lp: Tensor, shift: Tensor, order: float) -> Terms:
    """(sqrt q - sqrt p)^2 / 2."""
    u, v = (lq / 2).exp(), (lp / 2).exp()
    return (u - v).square() / 2, u * (u - v) / 2, u * v / 4


def _chi2(lq: Tensor, lp: Tensor, shift: Tensor, order: float) -> Terms:
    """(q - p)^2 / p, divided by exp(shift)."""
    both = torch.isfinite(lq) & torch.isfinite(lp)
    u = torch.where(both, lq - (torch.where(both, lp, 0.0) + shift) / 2, -torch.inf).exp()
    v = ((lp - shift) / 2).exp()
    return (u - v).square(), 2 * u * (u - v), 2 * u.square()


def _reverse_chi2(lq: Tensor, lp: Tensor, shift: Tensor, order: float) -> Terms:
    """(p - q)^2 / q, divided by exp(shift)."""
    both = torch.isfinite(lq) & torch.isfinite(lp)
    u = ((lq - shift) / 2).exp()
    v = torch.where(both, lp - (torch.where(both, lq, 0.0) + shift) / 2, -torch.inf).exp()
    return (u - v).square(), (u - v) * (u + v), 2 * v.square()


def _jensen_shannon(lq: Tensor, lp: Tensor, shift: Tensor, order: float) -> Terms:
    """(q log(2q / (p + q)) + p log(2p / (p + q))) / 2."""
    q, p = lq.exp(), lp.exp()
    d = (_gap(lq, lp) / 2).tanh()  # (q - p) / (q + p)
    both = (q > 0) & (p > 0)
    log_q = torch.where(both, torch.log1p(d.clamp_min(-1 + 1e-16)), math.log(2))
    log_q = torch.where(both & (d < -0.5), math.log(2) + lq - torch.logaddexp(lq, lp), log_q)
    log_p = torch.where(both, torch.log1p((-d).clamp_min(-1 + 1e-16)), math.log(2))
    log_p = torch.where(both & (d > 0.5), math.log(2) + lp - torch.logaddexp(lq, lp), log_p)
    log_q, log_p = torch.where(q > 0, log_q, 0.0), torch.where(p > 0, log_p, 0.0)
    share = torch.where(both, p / torch.where(both, p + q, 1.0), 0.0)
    return (q * log_q + p * log_p) / 2, q * log_q / 2, q * share / 2


def _alpha(lq: Tensor, lp: Tensor, shift: Tensor, order: float) -> Terms:
    """(q^a p^(1-a) - a q + (a-1) p) / (a (a-1)): from it the Renyi divergence of order a. KL for a -> 1.

    Where `shift` is not 0 the value is large or far from 1: then q^a p^(1-a) exp(-shift) / (a (a-1)) alone.
    """
    a = order
    both = torch.isfinite(lq) & torch.isfinite(lp)
    e = (a - 1) * _gap(lq, lp)
    product = torch.where(both, (lq + e - shift).clamp_max(700), -torch.inf).exp()
    q, p = lq.exp(), lp.exp()
    near = both & (e.abs() < 1)
    slope = torch.where(near, q * torch.expm1(e.clamp(-1, 1)), product - q) / (a - 1)
    d = _gap(lq, lp)
    small = near & (d.abs() < 1)
    value = slope - torch.where(small, p * torch.expm1(d.clamp(-1, 1)), q - p)
    moved = shift != 0
    value = torch.where(moved, product / (a - 1), value) / a
    return value, torch.where(moved, product / (a - 1), slope), product


DIVERGENCES: dict[str, Callable[[Tensor, Tensor, Tensor, float], Terms]] = {
    "kl": _kl,
    "reverse-kl": _reverse_kl,
    "hellinger": _hellinger,
    "chi2": _chi2,
    "reverse-chi2": _reverse_chi2,
    "jensen-shannon": _jensen_shannon,
    "renyi": _alpha,
}


@dataclass(frozen=True)
class Problem:
    """P_jn = exp(log_top_n) ratio_jn; log_p (B, N); weights (B, N) or None; ratio (B, m, N) in [0, 1]."""

    ratio: Tensor
    log_top: Tensor
    log_p: Tensor
    weights: Tensor | None

    def take(self, rows: Tensor) -> Problem:
        weights = None if self.weights is None else self.weights[rows]
        return Problem(self.ratio[rows], self.log_top[rows], self.log_p[rows], weights)


def problem(log_P: Tensor, log_p: Tensor, weights: Tensor | None = None) -> Problem:
    """The data of a divergence from log probabilities or densities, log_P (B, m, N) and log_p (B, N)."""
    top = log_P.amax(1)
    some = torch.isfinite(top)
    ratio = torch.where(some.unsqueeze(1), (log_P - torch.where(some, top, 0.0).unsqueeze(1)).exp(), 0.0)
    return Problem(ratio, top, log_p, weights)


def smallest(data: Problem, kind: str, order: float = 1.0) -> Optimum:
    """min over beta in the simplex of D(beta P, p), D finite on the inside of the simplex.

    "renyi" gives the Renyi divergence itself, "hellinger" the squared distance. The lower end of the interval
    [value - gap, value] is never below 0, which every divergence respects.
    """
    if kind == "renyi" and order == 1.0:
        kind = "kl"
    start: Tensor | None = None
    for step in _orders(kind, order):
        shift, first = _scale(data, kind, step)
        if first is None or step < 3:
            start = first
        else:
            # A weight that is crushed too early recovers slowly: some of the first start stays.
            start = _descended(data, first if start is None else start, step)
            start = start + (first - start) * BLEND / step
        minimum = minimise(
            _Objective(data, kind, step, shift),
            *data.ratio.shape[:2],
            device=data.ratio.device,
            tolerance=TOLERANCE if step == order else 1e-4,
            start=start,
        )
        start = minimum.point
    upper, lower = minimum.value, minimum.value - minimum.gap
    if kind == "renyi":
        upper, lower = (_renyi(x, order, shift) for x in (upper, lower))
    else:
        size = shift.exp()
        upper, lower = upper * size, lower * size
    upper = upper.clamp_min(0)
    gap = torch.where(torch.isfinite(upper), upper - lower.clamp_min(0), 0.0).clamp_min(0)
    return Optimum(upper, gap, minimum.point, torch.zeros_like(upper))


def _orders(kind: str, order: float) -> list[float]:
    """The orders on the way: a high power bends too sharply for Newton steps from far away."""
    if kind != "renyi" or order <= 3:
        return [order]
    steps = math.ceil(math.log(order / 3) / math.log(GROWTH))
    return [3 * (order / 3) ** (i / steps) for i in range(steps)] + [order]


def _descended(data: Problem, beta: Tensor, a: float) -> Tensor:
    """Weights nearer to the minimum of sum_n w q^a p^(1-a), by steps that never fail.

    By Jensen's inequality beta_j -> beta_j G_j^(-1/(a-1)), scaled, with G the gradient, lowers the sum.
    """
    for _ in range(50):
        mixed = (beta.unsqueeze(1) @ data.ratio).squeeze(1)
        both = (mixed > 0) & torch.isfinite(data.log_p)
        lq = torch.where(both, mixed.log() + data.log_top, 0.0)
        log_g = torch.where(both, (a - 1) * (lq - torch.where(both, data.log_p, 0.0)), -torch.inf)
        log_g = log_g + torch.where(both, data.log_top, 0.0)
        if data.weights is not None:
            log_g = log_g + data.weights.log()
        peak = log_g.amax(-1, keepdim=True)
        G = (data.ratio @ (log_g - peak).exp().unsqueeze(-1)).squeeze(-1)
        beta = beta * G.clamp_min(1e-300) ** (-1 / (a - 1))
        beta = (beta / beta.amax(-1, keepdim=True)).clamp_min(1e-200)
        beta = beta / beta.sum(-1, keepdim=True)
    return beta


def evaluate(data: Problem, beta: Tensor, kind: str, order: float = 1.0) -> Tensor:
    """(B,): D(beta P, p) at given weights; kinds without a scale of their own."""
    zero = torch.zeros(beta.shape[0], dtype=beta.dtype, device=beta.device)
    return _Objective(data, kind, order, zero)(beta, torch.arange(len(beta), device=beta.device))[0]


def integrand(data: Problem, beta: Tensor, kind: str, order: float) -> tuple[Tensor, Tensor, Tensor]:
    """(B, N) the terms of the divergence at given weights, without w; (B, N) how far rounding may move each; a shift.

    Both are divided by exp of the shift (B,). For "renyi" the terms are those of the alpha divergence. Logarithms of
    densities are known to some units in their last place. All phi are homogeneous, so phi = q phi_q + p phi_p,
    and that is how far they move.
    """
    if kind == "renyi" and order == 1.0:
        kind = "kl"
    lq, lp = (beta.unsqueeze(1) @ data.ratio).squeeze(1).log() + data.log_top, data.log_p
    shift = _scale(data, kind, order)[0]
    value, slope, _ = DIVERGENCES[kind](lq, lp, shift.unsqueeze(-1), order)
    ulps = [1 + torch.where(torch.isfinite(x), x.abs(), 0.0) for x in (lq, lp)]
    moved = slope.abs() * ulps[0] + (value - slope).abs() * ulps[1]
    return value, ROUNDING * torch.finfo(torch.float64).eps * moved, shift


def error_of(value: Tensor, total: Tensor, error: Tensor, shift: Tensor, kind: str, order: float) -> Tensor:
    """(B,): the error of a divergence of this `value` whose `integrand` has the sum `total`, known to `error`."""
    if kind != "renyi" or order == 1.0:
        error = error * shift.exp()
    else:
        near = order * error * ((1 - order) * value).exp()
        far = error / total.abs().clamp_min(1e-300) / abs(order - 1)
        error = torch.where(shift == 0, near, far)
    error = error + ROUNDING * torch.finfo(torch.float64).eps * value
    # A value that no float can hold is infinite, and known to be.
    return torch.where(torch.isinf(value), 0.0, error)


def log_powers(log_P: Tensor, log_p: Tensor, weights: Tensor, a: float) -> Tensor:
    """(B, m): log sum_n w_n P_j^a p^(1-a) for each extreme, from log P (B, m, N), log p and w (B, N)."""
    return _log_power(Problem(log_P, log_P[:, 0], log_p, weights), log_P, a)


def _renyi(x: Tensor, a: float, shift: Tensor) -> Tensor:
    """The Renyi divergence from what was minimised: see `_Objective`."""
    if a > 1:
        near = torch.log1p((a - 1) * x.clamp_min(0))
        far = (a - 1) * x
        root = torch.where(shift == 0, near, shift / a + torch.where(far > 0, far, 1e-300).log())
        return root * a / (a - 1)
    near = torch.log1p((a * (a - 1) * x).clamp_min(-1))
    far = (a * (a - 1) * x).clamp_min(0).log() + shift
    return torch.where(shift == 0, near, far) / (a - 1)


def _scale(data: Problem, kind: str, order: float) -> tuple[Tensor, Tensor | None]:
    """log of a number within a factor of m (or m^2) of the optimum, where that may be huge or tiny; 0 else.

    For norms of q / p, no mixture is below 1 / m of the smallest among the extremes, because all densities
    are at least 0. A start that weighs extremes by the inverse of their own value is then near too.
    """
    zero = torch.zeros_like(data.log_top[:, 0])
    power = 2.0 if kind == "chi2" else order
    if kind == "chi2" or (kind == "renyi" and order > 1):
        logs = _log_power(data, (data.ratio.log() + data.log_top.unsqueeze(1)), power)
        least = logs.amin(-1, keepdim=True)
        start = ((least - logs) / power).clamp_min(-600).exp()
        large = least.squeeze(-1) > math.log(LARGE)
        return torch.where(large, least.squeeze(-1), 0.0), start / start.sum(-1, keepdim=True)
    if kind == "reverse-chi2" or (kind == "renyi" and order < 1):
        power = -1.0 if kind == "reverse-chi2" else order
        size = _log_power(data, data.log_top.unsqueeze(1), power).squeeze(-1)
        moved = size > math.log(LARGE) if kind == "reverse-chi2" else size < -math.log(LARGE)
        return torch.where(moved, size, 0.0), None
    return zero, None


def _log_power(data: Problem, lq: Tensor, a: float) -> Tensor:
    """(B, k): log sum_n w_n q^a p^(1-a) for log q (B, k, N)."""
    lp = data.log_p.unsqueeze(1)
    both = torch.isfinite(lq) & torch.isfinite(lp)
    terms = a * torch.where(both, lq, 0.0) + (1 - a) * torch.where(both, lp, 0.0)
    if data.weights is not None:
        terms = terms + data.weights.log().unsqueeze(1)
    return torch.where(both, terms, -torch.inf).logsumexp(-1).clamp_min(-1e300)


class _Objective:
    """Value, gradient and Hessian for `minimise`.

    A Renyi divergence of order a < 1 is an increasing function of the alpha divergence (`_alpha`). For a > 1
    that one spans too many decades; its root (sum q^a p^(1-a))^(1/a), a norm and so convex, does not, and
    (root - 1) / (a - 1) is minimised; (root / scale) / (a - 1) where it is large.
    """

    def __init__(self, data: Problem, kind: str, order: float, shift: Tensor) -> None:
        self._data, self._terms, self._order, self._shift = data, DIVERGENCES[kind], order, shift
        self._root = kind == "renyi" and order > 1
        self._rows: Tensor | None = None

    def __call__(self, beta: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if rows is not self._rows:
            self._rows, self._now = rows, self._data.take(rows)
        data, shift = self._now, self._shift[rows]
        mixed = (beta.unsqueeze(1) @ data.ratio).squeeze(1)
        value, slope, curve = self._terms(
            mixed.log() + data.log_top, data.log_p, shift.unsqueeze(-1), self._order
        )
        if data.weights is not None:
            value, slope, curve = value * data.weights, slope * data.weights, curve * data.weights
        share = torch.where(
            mixed.unsqueeze(1) > 0, data.ratio / torch.where(mixed > 0, mixed, 1.0).unsqueeze(1), 0.0
        )
        gradient = (share @ slope.unsqueeze(-1)).squeeze(-1)
        hessian = (share * curve.unsqueeze(1)) @ share.mT
        if self._root:
            return self._rooted(value.sum(-1), gradient, hessian, shift)
        return value.sum(-1), gradient, hessian

    def _rooted(self, value: Tensor, gradient: Tensor, hessian: Tensor, shift: Tensor) -> Terms:
        """The same for S^(1/a), from those of the alpha divergence (S - 1) / (a (a-1))."""
        a = self._order
        total = torch.where(shift == 0, 1 + a * (a - 1) * value, a * (a - 1) * value)
        grow = torch.log1p(a * (a - 1) * value.clamp_min(0)) / a
        root = torch.where(shift == 0, torch.expm1(grow), total ** (1 / a)) / (a - 1)
        factor = total ** (1 / a - 1)
        # The root is flat along beta itself; the small factor keeps rounding from making it bend downwards.
        full = torch.where(shift == 0, 1.0, 0.0).unsqueeze(-1) + (a - 1) * gradient
        outer = full.unsqueeze(-1) * full.unsqueeze(-2) * ((1 - 1e-3) / total)[:, None, None]
        return root, factor[:, None] * gradient, factor[:, None, None] * (hessian - outer)
