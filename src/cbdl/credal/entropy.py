"""Entropy of one distribution and of a whole credal set (paper, section 2.3 and appendix "bounds_entropy").

The lower entropy of a hull is attained at an extreme. The upper entropy, which the paper only brackets, is a
concave maximum over the mixture weights; it is solved here to a certificate. All in nats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks
from cbdl.credal._border import Array
from cbdl.credal._optimum import Optimum
from cbdl.credal.solvers.cholesky import outer_product
from cbdl.credal.solvers.simplex import Hessian, minimise
from cbdl.credal.table import numbers_words

_TINY = torch.finfo(torch.float64).tiny

_MANY = 40
"""From this many outcomes on, one matrix product per set is faster than a loop over outcomes."""

_SINGLE, _ROUGH, _STEPS, _INSIDE = 256, 1e-6, 8, 1e-7
"""From so many outcomes on, weights are first found in single precision: to this gap or in so many steps (rounding may
keep it from the gap), so far inside the simplex."""

_ASCENTS = 4
"""Cheap first-order steps before the Newton steps."""

_CHUNK, _LARGE = 1 << 26, 1 << 27
"""Bytes of a chunk: small enough for the cache, large enough to hide the cost of a call; the latter if J is large."""


def entropy(p: Tensor) -> Tensor:
    """(...,): H(p) = -sum_y p(y) log p(y) of every row of `p` (..., J), with 0 log 0 = 0.

    >>> entropy(torch.tensor([[0.5, 0.5], [1.0, 0.0]], dtype=torch.float64))
    tensor([0.6931, 0.0000], dtype=torch.float64)
    """
    # The logarithm is made finite where p is 0: much faster than torch.special.entr.
    return (p.clamp_min(_TINY).log_().unsqueeze(-2) @ p.unsqueeze(-1))[..., 0, 0].neg() + 0.0


def upper_entropy(P: Tensor, weights: Tensor | None = None, *, thin: int = 1) -> Optimum:
    """max over beta in the simplex of H(q), q = sum_j beta_j P_j, for every set of `P` (B, m, J).

    With `weights` (B, J), P holds densities at nodes and H(q) = -sum_n w_n q_n log q_n. `thin`: nodes are so even that
    every so-many-th tells where to begin.

    The gap is max_j CE(P_j, q) - sum_j beta_j CE(P_j, q) >= max H - H(q), where CE(p, q) = -sum_n w_n p_n
    log q_n (plus a constant, for quadrature weights under which the P_j do not quite sum to 1): the tangent
    plane of the concave H lies above it. Paper: proposition "gen_entr_lem", whose bound this makes exact.

    >>> P = torch.tensor([[[0.9, 0.1], [0.2, 0.8]]], dtype=torch.float64)
    >>> best = upper_entropy(P)
    >>> best.value, best.weights.round(decimals=4), bool(best.gap < 1e-9)
    (tensor([0.6931], dtype=torch.float64), tensor([[0.4286, 0.5714]], dtype=torch.float64), True)
    """
    m, J = P.shape[1:]
    value, gap, beta = in_chunks(
        lambda *some: _maximise(*some, thin=thin),
        *((P,) if weights is None else (P, weights)),
        per_set=8 * (4 * m * J + 4 * m * m),
        memory=_CHUNK if J < _SINGLE else _LARGE,
    )
    return Optimum(value, gap, beta, torch.zeros_like(value))


def _maximise(P: Tensor, weights: Tensor | None = None, *, thin: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    B, m, J = P.shape
    objective = (_FewOutcomes if J < _MANY else _ManyOutcomes)(P, weights)
    start = torch.full_like(P[..., 0], 1 / m)
    start = _mirror_ascent(objective, start) if J < _SINGLE else _single_precision(P, weights, start, thin)
    # Relative to |H|, which is at most log J for classes: all gaps end below 1e-9.
    tolerance = 9e-10 / max(1.0, math.log(J))
    best = minimise(objective, B, m, device=P.device, tolerance=tolerance, start=start)
    return -best.value, best.gap, best.point


def _single_precision(P: Tensor, weights: Tensor | None, start: Tensor, thin: int) -> Tensor:
    """(B, m): weights with a gap of about 1e-6, found with half the memory to move; the rest is done in full."""
    fewer = None if weights is None else weights[:, ::thin].float() * thin
    rough = _ManyOutcomes(P[..., ::thin].float(), fewer)

    def objective(beta: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Hessian]:
        value, gradient, hessian = rough(beta.float(), rows)
        return value.double(), gradient.double(), lambda stay: hessian(stay).double()

    start = _mirror_ascent(rough, start.float()).double()
    B, m = start.shape
    best = minimise(objective, B, m, device=P.device, tolerance=_ROUGH, max_steps=_STEPS, start=start).point
    best = best.clamp_min(_INSIDE / start.shape[1])
    return best / best.sum(-1, keepdim=True)


def _mirror_ascent(objective: _FewOutcomes | _ManyOutcomes, beta: Tensor) -> Tensor:
    """(B, m): a few times beta_j <- beta_j exp(CE(P_j, q)) / sum.

    They cost little beside a Newton step, save one or two of those, and never lower H (it is smooth with
    constant 1 relative to the entropy of beta). The weights stay well inside the simplex for what follows.
    """
    for _ in range(_ASCENTS):
        gradient = objective.gradient(beta)
        beta = beta * (gradient.amin(-1, keepdim=True) - gradient).exp()
        beta = (beta / beta.sum(-1, keepdim=True)).clamp_min(1e-3 / beta.shape[1])
    return beta / beta.sum(-1, keepdim=True)


class _FewOutcomes:
    """-H(beta P), its gradient sum_n w_n p_n (log q_n + 1) and Hessian sum_n w_n p_n p_n^T / q_n.

    Outcomes first, sets last: a loop over the outcomes, each operation over all sets. Sets that left are
    dropped with the next Hessian.
    """

    def __init__(self, P: Tensor, weights: Tensor | None) -> None:
        self.P = P.permute(2, 1, 0).contiguous()
        self.weights = None if weights is None else weights.T.contiguous()
        self._allocate()

    def __call__(self, beta: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Hessian]:
        self.q, log_q = self._mixture(beta)
        share = self.q * log_q if self.weights is None else self.q * log_q * self.weights
        return share.sum(0), self._gradient(log_q), self._hessian

    def gradient(self, beta: Tensor) -> Tensor:
        return self._gradient(self._mixture(beta)[1])

    def _mixture(self, beta: Tensor) -> tuple[Tensor, Tensor]:
        beta = beta.T.contiguous()
        q = self.P[:, 0] * beta[0]
        for p, b in zip(self.P.unbind(1)[1:], beta.unbind()[1:], strict=True):
            q.addcmul_(p, b)
        return _finite(q)

    def _gradient(self, log_q: Tensor) -> Tensor:
        slope = log_q + 1 if self.weights is None else (log_q + 1) * self.weights
        gradient = self.P[0] * slope[0]
        for p, s in zip(self.P.unbind()[1:], slope.unbind()[1:], strict=True):
            gradient.addcmul_(p, s)
        return gradient.T

    def _hessian(self, stay: Tensor) -> Tensor:
        if stay.shape[0] < self.P.shape[-1]:
            self.P, self.q = self.P[..., stay], self.q[:, stay]
            self.weights = None if self.weights is None else self.weights[:, stay]
            self._allocate()
        root = self.q.rsqrt() if self.weights is None else self.q.rsqrt() * self.weights.sqrt()
        torch.mul(self.P, root[:, None], out=self.scaled)
        self.hessian.zero_()
        for part, left, right in self.outer_products:
            part.addcmul_(left, right)
        return self.hessian.permute(2, 0, 1)

    def _allocate(self) -> None:
        self.scaled = torch.empty_like(self.P)
        self.hessian = self.P.new_empty(self.P.shape[1], *self.P.shape[1:])
        self.outer_products = [view for p in self.scaled for view in outer_product(self.hessian, p)]


class _ManyOutcomes:
    """The same function by one matrix product per set."""

    def __init__(self, P: Tensor, weights: Tensor | None) -> None:
        self.P, self.weights = P, weights

    def __call__(self, beta: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
        self.q, log_q = self._mixture(beta)
        share = self.q * log_q if self.weights is None else self.q * log_q * self.weights
        return share.sum(-1), self._gradient(log_q), self._hessian

    def gradient(self, beta: Tensor) -> Tensor:
        return self._gradient(self._mixture(beta)[1])

    def _mixture(self, beta: Tensor) -> tuple[Tensor, Tensor]:
        # Weights of a set that do not lie side by side would make it a loop over sets.
        return _finite(torch.bmm(beta.contiguous()[:, None], self.P)[:, 0])

    def _gradient(self, log_q: Tensor) -> Tensor:
        slope = log_q + 1 if self.weights is None else (log_q + 1) * self.weights
        return torch.bmm(slope[:, None], self.P.mT)[:, 0]  # from this side, several times as fast

    def _hessian(self, stay: Tensor) -> Tensor:
        if stay.shape[0] < self.P.shape[0]:
            self.P, self.q = self.P[stay], self.q[stay]
            self.weights = None if self.weights is None else self.weights[stay]
        root = self.q.rsqrt() if self.weights is None else self.q.rsqrt() * self.weights.sqrt()
        scaled = self.P * root[:, None]
        return torch.bmm(scaled, scaled.mT)


def _finite(q: Tensor) -> tuple[Tensor, Tensor]:
    """q and log q, both finite: where q vanishes all P_j do (or nearly), and the terms come out as 0."""
    q = q.clamp_min(torch.finfo(q.dtype).tiny)
    return q, q.log()


def entropy_bounds(P: Tensor) -> tuple[Tensor, Tensor]:
    """(...,) twice: H(lower P) and H(upper P), which enclose all entropies of the hull of `P` (..., m, J).

    H(lower P) = -sum_y lowerP(y) log upperP(y),    H(upper P) = -sum_y upperP(y) log lowerP(y),

    the second infinite if some class is possible under one extreme and impossible under another. Paper:
    theorem "thm_rem_bounds_entropy", countable case. They need no optimisation but are loose.
    """
    lower, upper = P.amin(-2), P.amax(-2)
    return -torch.special.xlogy(lower, upper).sum(-1), -torch.special.xlogy(upper, lower).sum(-1)


@dataclass(frozen=True, repr=False)
class AveragedUncertainty:
    """The usual split for one averaged distribution, for comparison. All fields have the batch shape.

    total:              H(sum_j w_j P_j)
    expected_entropy:   sum_j w_j H(P_j), read as aleatoric
    mutual_information: total - expected_entropy, read as epistemic
    """

    total: Array
    expected_entropy: Array
    mutual_information: Array

    def __repr__(self) -> str:
        return numbers_words(self)


def averaged_entropies(P: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """(...,) twice: H(sum_j w_j P_j) and sum_j w_j H(P_j), for `P` (..., m, J) and `weights` (..., m)."""
    mean = (weights.unsqueeze(-2) @ P).squeeze(-2)
    return entropy(mean), (weights * entropy(P)).sum(-1)


def reference_entropy(
    name: str, *, scale: float | None = None, df: float | None = None, classes: int | None = None
) -> float:
    """The entropy in nats of a well-known distribution: a value for `phi` in `abstain` (paper: "alea_check").

    "normal" (scale), "student-t" (df, scale), "cauchy" (scale), "uniform" (classes). `scale` is 1 by default.

    - `name`: which distribution
    - `df`: degrees of freedom
    - `classes`: how many

    >>> round(reference_entropy("normal", scale=2.0), 4), round(reference_entropy("uniform", classes=10), 4)
    (2.1121, 2.3026)
    """
    needs = {"normal": {"scale"}, "student-t": {"df", "scale"}, "cauchy": {"scale"}, "uniform": {"classes"}}
    if name not in needs:
        raise ValueError(f"name is {name!r}; give one of {', '.join(map(repr, needs))}")
    given = {"scale": scale, "df": df, "classes": classes}
    for parameter, number in given.items():
        if number is None and parameter in needs[name] and parameter != "scale":
            raise ValueError(f"{name!r} needs {parameter}; give reference_entropy({name!r}, {parameter}=...)")
        if number is not None and parameter not in needs[name]:
            raise ValueError(f"{parameter} means nothing for {name!r}; it takes {sorted(needs[name])}")
        if number is not None and not 0 < number < math.inf:
            raise ValueError(f"{parameter} is {number}; it must be a positive finite number")
    if classes is not None:
        if classes != int(classes):
            raise ValueError(f"classes is {classes}; it must be a whole number")
        return math.log(classes)
    unit = {"normal": _NORMAL, "cauchy": math.log(4 * math.pi)}
    return math.log(1.0 if scale is None else scale) + (unit[name] if df is None else _student_t(df))


_NORMAL = 0.5 * math.log(2 * math.pi * math.e)


def _student_t(df: float) -> float:
    """(n + 1)/2 (psi((n + 1)/2) - psi(n/2)) + log(sqrt(n) B(n/2, 1/2)), n = df."""
    if df > 200:
        # The terms above grow and cancel; the series in 1/n does not.
        return _NORMAL + 1 / df + 1 / (4 * df**2) - 1 / (6 * df**3) - 1 / (8 * df**4)
    half = torch.tensor([(df + 1) / 2, df / 2], dtype=torch.float64)
    slope = float(torch.digamma(half).diff().neg())
    log_beta = math.lgamma(df / 2) + math.lgamma(0.5) - math.lgamma((df + 1) / 2)
    return (df + 1) / 2 * slope + 0.5 * math.log(df) + log_beta
