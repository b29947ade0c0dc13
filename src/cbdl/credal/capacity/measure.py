"""Capacities on a finite space, and the generalised Bayes' rule (paper: appendices "A further IP concept: the
core" and "new_bayes", definition "choq_int_and_cvx_lp").

A capacity is a set function v with v(empty) = 0 and v(all) = 1. Here it is a vector of 2^n values: bit i of the
index says whether outcome i is in the event, so v[0b101] is the value of {0, 2}. Batch dimensions come first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._border import (
    Array,
    ArrayLike,
    Border,
    border_of,
    check_finite,
    check_probabilities,
    check_shape,
    first,
    float64,
    probability_tolerance,
)
from cbdl.credal.capacity import core
from cbdl.credal.capacity.set_functions import (
    Event,
    choquet,
    convexity,
    event_mask,
    few_outcomes,
    moebius,
    outcomes,
    split,
    zeta,
)
from cbdl.credal.classes.hartley import event_probabilities, lower_envelope

MAX_OUTCOMES_OF_EXTREMES = 8
"""The core may have n! extreme points."""

FEW_OUTCOMES = 6
"""Up to so many, extreme points of the core are quicker and sharper than programmes over it."""

TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Capacity:
    """A set function on n outcomes, with v(empty) = 0 and v(all) = 1.

    Build one with `of`, `lower_envelope`, `upper_envelope`, `from_moebius` or `from_intervals`.

    >>> v = Capacity.lower_envelope([[0.5, 0.3, 0.2], [0.2, 0.6, 0.2]])
    >>> float(v([0, 1])), bool(v.is_convex()), bool(v.is_belief())
    (0.8, True, True)
    >>> v.core_extremes().round(3)
    array([[0.2, 0.6, 0.2],
           [0.5, 0.3, 0.2]])
    """

    n: int
    """The number of outcomes."""
    upper: bool
    """Whether it is read as an upper probability; its core is then {p : p(A) <= v(A)}."""
    _table: Tensor = field(repr=False)
    _border: Border = field(repr=False)

    # --- ways to build one -----------------------------------------------------------------------------

    @classmethod
    def of(cls, values: ArrayLike, *, upper: bool = False) -> Capacity:
        """From its values (..., 2^n)."""
        table = float64(values, "values")
        n = outcomes(table, "values")
        ends = torch.stack([table[..., 0], table[..., -1] - 1], -1).abs() > 1e-6
        if ends.any():
            at = list(first(ends)[:-1])
            raise ValueError(
                f"values{at} begins with {table[(*at, 0)]:g} and ends with {table[(*at, -1)]:g}; the empty event "
                "has 0 and the whole space 1"
            )
        table = table.clone()
        table[..., 0], table[..., -1] = 0.0, 1.0
        return cls(n, upper, table, border_of(values))

    @classmethod
    def lower_envelope(cls, probs: ArrayLike) -> Capacity:
        """v(A) = min_j P_j(A) of the extremes `probs` (..., m, n)."""
        P = float64(probs, "probs")
        check_shape(P, "probs", "m n")
        P = check_probabilities(P, "probs", probability_tolerance(probs))
        n = few_outcomes(P.shape[-1], "probs")
        table = lower_envelope(P.reshape(-1, *P.shape[-2:])).reshape(*P.shape[:-2], 1 << n)
        table[..., -1] = 1.0
        return cls(n, False, table, border_of(probs))

    @classmethod
    def upper_envelope(cls, probs: ArrayLike) -> Capacity:
        """v(A) = max_j P_j(A) of the extremes `probs` (..., m, n)."""
        return cls.lower_envelope(probs).conjugate()

    @classmethod
    def from_moebius(cls, masses: ArrayLike) -> Capacity:
        """v(A) = sum over B in A of masses[B], from `masses` (..., 2^n) that sum to 1; a lower probability."""
        m = float64(masses, "masses")
        n = outcomes(m, "masses")
        off = (m[..., 0].abs() > 1e-6) | ((m.sum(-1) - 1).abs() > 1e-6)
        if off.any():
            at = list(first(off))
            raise ValueError(
                f"masses{at} give {m[(*at, 0)]:g} to the empty event and sum to {m[tuple(at)].sum():g}; the first "
                "must be 0 and the sum 1"
            )
        return replace(cls.of(zeta(m)), _border=border_of(masses), n=n)

    @classmethod
    def from_intervals(cls, lower: ArrayLike, upper: ArrayLike) -> Capacity:
        """The lower envelope of all p with lower <= p <= upper, both (..., n).

            v(A) = max(sum over A of lower, 1 - sum outside A of upper)

        is the minimum of p(A), also where a bound is too wide to be reached. It is convex.
        """
        low, up = float64(lower, "lower"), float64(upper, "upper")
        if low.shape != up.shape:
            raise ValueError(
                f"lower has shape {tuple(low.shape)}, upper {tuple(up.shape)}; give both (..., n)"
            )
        check_shape(low, "lower", "n")
        check_finite(low, "lower")
        check_finite(up, "upper")
        n = few_outcomes(low.shape[-1], "lower")
        bad = (low < 0) | (up < low) | (up > 1 + TOLERANCE)
        if bad.any():
            at = first(bad)
            raise ValueError(
                f"the interval at {list(at)} is [{low[at]:g}, {up[at]:g}]; intervals lie in [0, 1] and do not "
                "end before they begin"
            )
        empty = (low.sum(-1) > 1 + TOLERANCE) | (up.sum(-1) < 1 - TOLERANCE)
        if empty.any():
            at = first(empty)
            raise ValueError(
                f"no probability lies in the intervals{list(at)}: lower sums to {low[at].sum():g}, upper to "
                f"{up[at].sum():g}; 1 must lie between"
            )
        inner, outer = (event_probabilities(x.reshape(-1, n)) for x in (low, up))
        table = torch.maximum(inner, 1 - outer.flip(-1)).clamp(0, 1).reshape(*low.shape[:-1], 1 << n)
        table[..., 0], table[..., -1] = 0.0, 1.0
        return cls(n, False, table, border_of(lower, upper))

    # --- what it says ----------------------------------------------------------------------------------

    @property
    def values(self) -> Array:
        """(..., 2^n)."""
        return self._border.out(self._table)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return tuple(self._table.shape[:-1])

    def __call__(self, event: Event) -> Array:
        """(...,): the value of an event: an outcome, a list of outcomes, or a mask (n,)."""
        return self._border.out(self._table[..., self._index(event)])

    def conjugate(self) -> Capacity:
        """1 - v(complement of A): the upper probability of a lower one, and back."""
        table = 1 - self._table.flip(-1)
        table[..., 0], table[..., -1] = 0.0, 1.0
        return replace(self, upper=not self.upper, _table=table)

    def moebius(self) -> Array:
        """(..., 2^n): the masses m(A) = sum over B in A of (-1)^|A - B| v(B), in n 2^n additions."""
        return self._border.out(moebius(self._table))

    def is_monotone(self, tolerance: float = TOLERANCE) -> Array:
        """(...,): whether A in B implies v(A) <= v(B)."""
        steps = [(t[1] - t[0]).amin(-1) for t in (split(self._table, i) for i in range(self.n))]
        return self._border.out(torch.stack(steps).amin(0) >= -tolerance)

    def is_convex(self, tolerance: float = TOLERANCE) -> Array:
        """(...,): whether v(A or B) + v(A and B) >= v(A) + v(B). Definition "choq_int_and_cvx_lp".

        It is enough that v(A+i+j) + v(A) >= v(A+i) + v(A+j) for all pairs of outcomes outside A.
        """
        return self._border.out(convexity(self._table, self.n) >= -tolerance)

    def is_concave(self, tolerance: float = TOLERANCE) -> Array:
        """(...,): whether v(A or B) + v(A and B) <= v(A) + v(B)."""
        return self._border.out(convexity(-self._table, self.n) >= -tolerance)

    def is_belief(self, tolerance: float = TOLERANCE) -> Array:
        """(...,): whether no Moebius mass is negative (paper: remark "no_belief")."""
        return self._border.out(moebius(self._table).amin(-1) >= -tolerance)

    def choquet(self, f: ArrayLike) -> Array:
        """(...,): the Choquet integral of f (..., n), whose batch is broadcast with that of the capacity.

            integral over t > 0 of v(f >= t)  +  integral over t < 0 of (v(f >= t) - 1)

        Paper: definition "choq_int_and_cvx_lp". For a convex lower probability it is the minimum of E[f] over the
        core, for a concave upper one the maximum.
        """
        return self._border.out(choquet(self._table, self._gamble(f)))

    # --- the core --------------------------------------------------------------------------------------

    def in_core(self, p: ArrayLike, tolerance: float = TOLERANCE) -> Array:
        """(...,): whether the probabilities p (..., n) are compatible with every value."""
        q = check_probabilities(self._gamble(p, "p"), "p", probability_tolerance(p))
        total = event_probabilities(q.reshape(-1, self.n)).reshape(*q.shape[:-1], 1 << self.n)
        return self._border.out((total >= self._lower() - tolerance).all(-1))

    def core_extremes(self) -> Array:
        """(..., E, n): the extreme points of the core; sets with fewer than E repeat their last one.

        For a convex lower (concave upper) probability the marginal vectors of all orders of the outcomes, else by
        double description. Paper: theorem "walley_core". A ValueError if the core is empty.
        """
        if self.n > MAX_OUTCOMES_OF_EXTREMES:
            raise ValueError(
                f"the core may have {self.n}! extreme points, above {MAX_OUTCOMES_OF_EXTREMES}!; merge outcomes, or "
                "use upper_expectation, which needs none of them"
            )
        points = self._extremes()
        most = max(len(p) for p in points)
        padded = [np.vstack([p, np.repeat(p[-1:], most - len(p), axis=0)]) for p in points]
        out = torch.from_numpy(np.stack(padded)).reshape(*self.batch_shape, most, self.n)
        return self._border.out(out.to(self._table.device))

    def is_coherent(self, tolerance: float = 1e-7) -> Array:
        """(...,): whether v is the envelope of its core, the assumption of theorem "walley_core" (c)."""
        extremes = float64(self.core_extremes(), "extremes").to(self._table.device)
        flat = extremes.reshape(-1, *extremes.shape[-2:])
        attained = lower_envelope(flat).reshape(self._table.shape)
        return self._border.out((attained - self._lower()).abs().amax(-1) <= tolerance)

    def upper_expectation(self, f: ArrayLike) -> Array:
        """(...,): max of E_p[f] over the core; a Choquet integral if that is exact, else a linear programme."""
        return self._border.out(self._upper_expectation(self._gamble(f)))

    def lower_expectation(self, f: ArrayLike) -> Array:
        """(...,): min of E_p[f] over the core."""
        return self._border.out(-self._upper_expectation(-self._gamble(f)))

    # --- inside ----------------------------------------------------------------------------------------

    def _lower(self) -> Tensor:
        return self.conjugate()._table if self.upper else self._table

    def _extremes(self) -> list[Any]:
        simple = (convexity(self._lower(), self.n) >= -1e-12) & (self._lower() >= 0).all(-1)
        flags = simple.reshape(-1).tolist()
        return self._each(lambda v, b: (core.marginal_vectors if flags[b] else core.vertices)(v))

    def _upper_expectation(self, f: Tensor) -> Tensor:
        upper = self._table if self.upper else self.conjugate()._table
        if (convexity(-upper, self.n) >= -1e-12).all():
            return choquet(upper, f)
        batch = torch.broadcast_shapes(self._table.shape[:-1], f.shape[:-1])  # type: ignore[no-untyped-call]
        every = f.expand(*batch, self.n).reshape(-1, self.n).cpu().numpy()
        spread = replace(self, _table=self._table.expand(*batch, -1))
        found = spread._each(lambda v, b: core.maximum(v, every[b]))
        return torch.tensor(found, dtype=torch.float64, device=f.device).reshape(batch)

    def _each(self, function: Callable[[Any, int], Any]) -> list[Any]:
        """`function(lower values, position)` for every capacity of the batch; an empty core is named."""
        out = []
        for b, v in enumerate(self._lower().reshape(-1, 1 << self.n).cpu().numpy()):
            try:
                out.append(function(v, b))
            except core.EmptyCore:
                at = [int(i) for i in np.unravel_index(b, self.batch_shape)]
                raise ValueError(
                    f"the core of capacity {at} is empty: no probability is compatible with all its values; "
                    "lower the lower values (raise the upper ones), or build it from extremes or intervals"
                ) from None
        return out

    def _gamble(self, f: ArrayLike, name: str = "f") -> Tensor:
        x = float64(f, name).to(self._table.device)
        check_finite(x, name)
        if x.ndim == 0 or x.shape[-1] != self.n:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}; it must be (..., {self.n}), a value an outcome"
            )
        return x

    def _index(self, event: Event) -> int:
        return int((1 << torch.arange(self.n))[event_mask(event, self.n)].sum())


# --- the generalised Bayes' rule --------------------------------------------------------------------------


def upper_posterior_bound(prior: Capacity, likelihoods: ArrayLike, event: Event) -> Array:
    """(...,): the bound of theorem "main1" on the upper posterior of `event`.

        sup_P int Lbar 1_A dP / c,   c = sup_P int Lbar 1_A dP + inf_P int Llow 1_{not A} dP,

    P in the core of the prior (batch (...)), Lbar and Llow the pointwise maximum and minimum of `likelihoods`
    (S, n). If the data are possible but int Lbar 1_A dP = 0 for all P the bound is 0.

    Equality with the upper posterior holds if the upper prior is concave AND the likelihoods contain
    Lbar 1_A + Llow 1_{not A}. The paper's proof calls the second immediate. It is, if the likelihood of every
    outcome may be chosen without regard to the others: that is the interval {L : Llow <= L <= Lbar}, see
    `upper_posterior(..., interval=True)`. It fails for a list of likelihood functions or their convex hull: (1, 1)
    and (2, 2) have the same posterior, 1/2 from a fair prior, and the bound is 2/3.
    """
    low, up = _likelihood_bounds(prior, likelihoods)
    inside = event_mask(event, prior.n).to(low)
    return prior._border.out(_bound(prior, low, up, inside))


def generalised_bayes(prior: Capacity, likelihoods: ArrayLike) -> Capacity:
    """The bound of `upper_posterior_bound` for all events at once: the updated upper probability.

    If the upper prior is concave so is the result (lemma "lemma_ccv"), and the rule can be applied again. The
    upper posterior of a list of likelihood functions, taken exactly, need not be concave.
    """
    low, up = _likelihood_bounds(prior, likelihoods)
    inside = torch.from_numpy(core.indicators(prior.n)).to(low)
    spread = replace(prior, _table=prior._table.unsqueeze(-2))
    table = _bound(spread, low, up, inside)
    table[..., 0], table[..., -1] = 0.0, 1.0
    return Capacity(prior.n, True, table, prior._border)


def upper_posterior(
    prior: Capacity, likelihoods: ArrayLike, event: Event, *, interval: bool = False
) -> Array:
    """(...,): the upper posterior of `event` itself,

        sup of int L 1_A dP / int L dP  over P in the core of the prior and L in the set of likelihoods,

    over pairs with a positive denominator. The set is the convex hull of `likelihoods` (S, n): the ratio is
    quasi-linear in L and in P, so the rows and the extreme points of the core are enough. With `interval=True`
    it is every function between the smallest and the largest row at each outcome, where Lbar 1_A + Llow
    1_{not A} is the best. On more than a few outcomes it is a linear-fractional programme over the core a row.
    """
    low, up = _likelihood_bounds(prior, likelihoods)
    inside = event_mask(event, prior.n).to(low)
    rows = float64(likelihoods, "likelihoods").to(low.device)
    best = up * inside + low * (1 - inside)
    candidates = (best[None] if interval else rows).cpu().numpy()
    keep = inside.cpu().numpy()

    def largest(v: Any, b: int) -> float:
        ratios = [core.maximum_ratio(v, L * keep, L) for L in candidates]
        return max((r for r in ratios if r is not None), default=0.0)

    def largest_of(points: Any) -> float:
        above, below = points @ (candidates * keep).T, points @ candidates.T
        return float(np.divide(above, below, out=np.zeros_like(above), where=below > 0).max())

    few = prior.n <= FEW_OUTCOMES
    values = [largest_of(points) for points in prior._extremes()] if few else prior._each(largest)
    return prior._border.out(
        torch.tensor(values, dtype=torch.float64).reshape(prior.batch_shape).to(low.device)
    )


def _bound(prior: Capacity, low: Tensor, up: Tensor, inside: Tensor) -> Tensor:
    above = prior._upper_expectation(up * inside)
    below = -prior._upper_expectation(-low * (1 - inside))
    total = above + below.clamp_min(0)
    return torch.where(above > 0, above / torch.where(total > 0, total, 1.0), 0.0)


def _likelihood_bounds(prior: Capacity, likelihoods: ArrayLike) -> tuple[Tensor, Tensor]:
    L = float64(likelihoods, "likelihoods").to(prior._table.device)
    if L.ndim != 2 or L.shape[-1] != prior.n or not len(L):
        raise ValueError(f"likelihoods has shape {tuple(L.shape)}; it must be (S, {prior.n})")
    check_finite(L, "likelihoods")
    if (L < 0).any():
        at = first(L < 0)
        raise ValueError(
            f"likelihoods{list(at)} is {L[at]:g}; likelihoods are at least 0 (exponentiate logs)"
        )
    up = L.amax(0)
    if not (prior._upper_expectation(up) > 0).all():
        raise ValueError(
            "likelihoods give the data probability 0 under every prior, so there is no posterior; "
            "check that they are positive where the prior is"
        )
    return L.amin(0), up
