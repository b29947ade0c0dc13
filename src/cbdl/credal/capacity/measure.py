"""Capacities on a finite space (paper: appendix "A further IP concept: the core", definition
"choq_int_and_cvx_lp").

A capacity is a set function v with v(empty) = 0 and v(all) = 1 that grows with the event. Here it is a vector of 2^n
values: bit i of the index says whether outcome i is in the event, so v[0b101] is the value of {0, 2}. Batch
dimensions come first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any, TypeVar

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
from cbdl.credal.capacity.exact import Core, EmptyCore
from cbdl.credal.capacity.set_functions import (
    Event,
    checked,
    choquet,
    convexity,
    event_mask,
    few_outcomes,
    hits,
    moebius,
    outcomes,
    split,
    zeta,
)
from cbdl.credal.classes.hartley import event_probabilities, lower_envelope, upper_envelope

T = TypeVar("T")

MAX_OUTCOMES_OF_EXTREMES = 8
"""The core may have n! extreme points."""

TOLERANCE = 1e-9

EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True, eq=False)
class Capacity:
    """A set function on n outcomes, with v(empty) = 0 and v(all) = 1, that grows with the event.

    Build one with `of`, `lower_envelope`, `upper_envelope`, `from_moebius` or `from_intervals`.

    - `border`: in which kind of array answers come

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
    tables: tuple[Tensor, Tensor] = field(repr=False)
    """The lower and the upper probability, (..., 2^n) each: 1 - lower would lose the digits of a small upper one."""
    sharp: bool = field(repr=False)
    """Whether the small values of both tables have all their digits, not only those of numbers near 1."""
    border: Border = field(repr=False)

    # --- ways to build one -----------------------------------------------------------------------------

    @classmethod
    def of(cls, values: ArrayLike, *, upper: bool = False) -> Capacity:
        """From its values (..., 2^n)."""
        table = float64(values, "values")
        n = outcomes(table, "values")
        table = checked(table, "values", probability_tolerance(values))
        other = 1 - table.flip(-1)
        return cls(n, upper, (other, table) if upper else (table, other), False, border_of(values))

    @classmethod
    def lower_envelope(cls, probs: ArrayLike) -> Capacity:
        """v(A) = min_j P_j(A) of the extremes `probs` (..., m, n)."""
        P = float64(probs, "probs")
        check_shape(P, "probs", "m n")
        P = check_probabilities(P, "probs", probability_tolerance(probs))
        n = few_outcomes(P.shape[-1], "probs")
        flat = P.reshape(-1, *P.shape[-2:])
        low, up = (
            envelope(flat).reshape(*P.shape[:-2], 1 << n) for envelope in (lower_envelope, upper_envelope)
        )
        low[..., -1] = up[..., -1] = 1.0
        return cls(n, False, (low.clamp_max(1.0), up.clamp_max(1.0)), True, border_of(probs))

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
        m = m / m.sum(-1, keepdim=True)
        low = checked(zeta(m), "masses", probability_tolerance(masses))
        belief = bool((m >= 0).all())
        up = hits(m).clamp_max(1.0) if belief else 1 - low.flip(-1)
        up[..., -1] = 1.0
        return cls(n, False, (low, up), belief, border_of(masses))

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
        shape = (*low.shape[:-1], 1 << n)
        least = torch.maximum(inner, 1 - outer.flip(-1)).clamp(0, 1).reshape(shape)
        most = torch.minimum(outer, 1 - inner.flip(-1)).clamp(0, 1).reshape(shape)
        for table in (least, most):
            table[..., 0], table[..., -1] = 0.0, 1.0
        return cls(n, False, (least, most), False, border_of(lower, upper))

    # --- what it says ----------------------------------------------------------------------------------

    @property
    def values(self) -> Array:
        """(..., 2^n)."""
        return self.border.out(self._table)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return tuple(self._table.shape[:-1])

    def __call__(self, event: Event) -> Array:
        """(...,): the value of an event: an outcome, a list of outcomes, or a mask (n,)."""
        return self.border.out(self._table[..., self._index(event)])

    def conjugate(self) -> Capacity:
        """1 - v(complement of A): the upper probability of a lower one, and back."""
        return replace(self, upper=not self.upper)

    def moebius(self) -> Array:
        """(..., 2^n): the masses m(A) = sum over B in A of (-1)^|A - B| v(B), in n 2^n additions."""
        return self.border.out(moebius(self._table))

    def is_monotone(self, tolerance: float = TOLERANCE) -> Array:
        """(...,): whether A in B implies v(A) <= v(B). A capacity is: what is not, cannot be built."""
        steps = [(t[1] - t[0]).amin(-1) for t in (split(self._table, i) for i in range(self.n))]
        return self.border.out(torch.stack(steps).amin(0) >= -tolerance)

    def is_convex(self, tolerance: float = TOLERANCE) -> Array:
        """(...,): whether v(A or B) + v(A and B) >= v(A) + v(B). Definition "choq_int_and_cvx_lp".

        It is enough that v(A+i+j) + v(A) >= v(A+i) + v(A+j) for all pairs of outcomes outside A.
        """
        return self.border.out(convexity(self._table, self.n) >= -tolerance)

    def is_concave(self, tolerance: float = TOLERANCE) -> Array:
        """(...,): whether v(A or B) + v(A and B) <= v(A) + v(B)."""
        return self.border.out(convexity(-self._table, self.n) >= -tolerance)

    def is_belief(self, tolerance: float = TOLERANCE) -> Array:
        """(...,): whether no Moebius mass is negative (paper: remark "no_belief")."""
        return self.border.out(moebius(self._table).amin(-1) >= -tolerance)

    def choquet(self, f: ArrayLike) -> Array:
        """(...,): the Choquet integral of f (..., n), whose batch is broadcast with that of the capacity.

            integral over t > 0 of v(f >= t)  +  integral over t < 0 of (v(f >= t) - 1)

        Paper: definition "choq_int_and_cvx_lp". For a convex lower probability it is the minimum of E[f] over the
        core, for a concave upper one the maximum.
        """
        return self.border.out(choquet(self._table, self._gamble(f)))

    # --- the core --------------------------------------------------------------------------------------

    def in_core(self, p: ArrayLike, tolerance: float = TOLERANCE) -> Array:
        """(...,): whether the probabilities p (..., n) are compatible with every value."""
        q = check_probabilities(self._gamble(p, "p"), "p", probability_tolerance(p))
        total = event_probabilities(q.reshape(-1, self.n)).reshape(*q.shape[:-1], 1 << self.n)
        return self.border.out((total >= self.tables[0] - tolerance).all(-1))

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
        return self.border.out(out.to(self._table.device))

    def is_coherent(self, tolerance: float = 1e-7) -> Array:
        """(...,): whether v is the envelope of its core, the assumption of theorem "walley_core" (c)."""
        extremes = float64(self.core_extremes(), "extremes").to(self._table.device)
        flat = extremes.reshape(-1, *extremes.shape[-2:])
        attained = lower_envelope(flat).reshape(self._table.shape)
        return self.border.out((attained - self.tables[0]).abs().amax(-1) <= tolerance)

    def upper_expectation(self, f: ArrayLike) -> Array:
        """(...,): max of E_p[f] over the core; a Choquet integral if that is exact, else an exact programme."""
        return self.border.out(self.largest_mean(self._gamble(f)))

    def lower_expectation(self, f: ArrayLike) -> Array:
        """(...,): min of E_p[f] over the core."""
        return self.border.out(self.least_mean(self._gamble(f)))

    # --- for the rest of the package: tensors in, tensors out --------------------------------------------

    def expanded(self) -> Capacity:
        """With one more batch dimension, of length 1."""
        return replace(self, tables=(self.tables[0].unsqueeze(-2), self.tables[1].unsqueeze(-2)))

    def largest_mean(self, f: Tensor) -> Tensor:
        """(...,): `upper_expectation` for f (..., n)."""
        return self.corrected(choquet(self.tables[1], f), f, lambda polytope, g: polytope.maximum(g))

    def least_mean(self, f: Tensor) -> Tensor:
        """(...,): `lower_expectation`; not as -upper(-f), in which small values are lost beside large ones."""
        return self.corrected(
            choquet(self.tables[0], f), f, lambda polytope, g: -polytope.maximum([-x for x in g])
        )

    @cached_property
    def is_exactly_convex(self) -> Tensor:
        """(...,): whether Choquet integrals are extreme expectations: convex up to the rounding of the tables."""
        if self.sharp:
            low, up = self.tables
            least = [convexity(table, self.n, 4 * self.n * EPS) for table in (low, -up)]
            return torch.stack(least).amin(0) >= 0
        return convexity(-self._table if self.upper else self._table, self.n) >= -8 * self.n * EPS

    def corrected(self, values: Tensor, f: Tensor, programme: Callable[[Core, list[float]], float]) -> Tensor:
        """`values` (...,) of gambles f (..., n), replaced by the programme's where the capacity is not convex."""
        rough = (~self.is_exactly_convex).expand(values.shape)
        if not rough.any():
            return values
        owner = torch.arange(math.prod(self.batch_shape)).reshape(self.batch_shape).expand(values.shape)
        low, up = (t.reshape(-1, 1 << self.n).cpu().numpy() for t in self.tables)

        @cache
        def core_of(b: int) -> Core:
            return self._named(b, lambda: Core(low[b], up[b]))

        pairs = zip(owner[rough.cpu()].tolist(), f.expand(*values.shape, self.n)[rough].tolist(), strict=True)
        values = values.clone()
        values[rough] = values.new_tensor([programme(core_of(b), g) for b, g in pairs])
        return values

    # --- inside ----------------------------------------------------------------------------------------

    @property
    def _table(self) -> Tensor:
        return self.tables[int(self.upper)]

    def _extremes(self) -> list[Any]:
        low = self.tables[0]
        flags = (convexity(low, self.n) >= -1e-12).reshape(-1).tolist()
        every = enumerate(low.reshape(-1, 1 << self.n).cpu().numpy())
        kinds = (core.vertices, core.marginal_vectors)
        return [self._named(b, partial(kinds[flags[b]], v)) for b, v in every]

    def _named(self, b: int, function: Callable[[], T]) -> T:
        """`function()`, in whose error an empty core says which capacity of the flat batch it is."""
        try:
            return function()
        except EmptyCore:
            at = [int(i) for i in np.unravel_index(b, self.batch_shape)]
            raise ValueError(
                f"the core of capacity {at} is empty: no probability is compatible with all its values; "
                "lower the lower values (raise the upper ones), or build it from extremes or intervals"
            ) from None

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
