"""What all credal sets share: envelopes, entropies, uncertainty, abstention (paper, sections 2.2 and 2.3).

A credal set here is the convex hull of m distributions P_1, ..., P_m (its extremes; remark "rem_fin_1").
Each kind of space supplies a few primitives on the extremes; everything that follows from them for the
whole hull is derived here, once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, overload

import torch
from torch import Tensor

from cbdl.credal._border import Array, ArrayLike, Border, float64, log_of_base
from cbdl.credal._optimum import Certified, Optimum

Gamble = ArrayLike | Callable[[Any], Any]
"""A function on the outcomes: its values, or a callable."""

Base = float | Literal["classes"] | None
"""The unit of entropy: None for nats, a number (2 for bits), or "classes" (the maximum is 1)."""


class Region(Protocol):
    """A set of outcomes that the whole credal set agrees to cover."""

    @property
    def measure(self) -> Array: ...
    @property
    def lower_probability(self) -> Array: ...
    @property
    def upper_probability(self) -> Array: ...
    def contains(self, y: ArrayLike) -> Array: ...


@dataclass(frozen=True)
class Uncertainty:
    """Total uncertainty of a credal set and its split (section 2.3). All fields have the batch shape.

    total:            upper entropy of the whole hull
    aleatoric:        lower entropy (attained at an extreme, proposition "gen_entr_lem")
    epistemic:        total - aleatoric, exact up to `gap` and `error`
    epistemic_lower:  the paper's bracket: upper minus lower entropy of the extremes alone ...
    epistemic_upper:  ... and the same plus log m
    gap:              certificate: the true total lies in [total, total + gap]
    error:            numerical error of the entropies themselves (see `Optimum.error`)
    """

    total: Array
    aleatoric: Array
    epistemic: Array
    epistemic_lower: Array
    epistemic_upper: Array
    gap: Array
    error: Array


class CredalSet(ABC):
    """The convex hull of finitely many distributions. Batch dimensions come first."""

    _border: Border
    _batch: torch.Size
    _extremes: int
    _classes: int | None = None
    _noise: Callable[[], Array] | None = None

    members: tuple[Any, ...] | None = None
    """What the extremes are, in order, where a model made the set: its (prior, likelihood) pairs."""

    # --- what each kind of space supplies, as float64 tensors ------------------------------------------

    @abstractmethod
    def _probabilities(self, event: Any) -> Tensor:
        """(..., m): the probability of `event` under each extreme."""

    @abstractmethod
    def _expectations(self, gamble: Gamble) -> Tensor:
        """(..., m): the expectation of `gamble` under each extreme."""

    @abstractmethod
    def _entropies(self) -> tuple[Tensor, Tensor]:
        """(..., m) twice: the entropy of each extreme in nats, and the numerical error of it."""

    @abstractmethod
    def _upper_entropy(self) -> Optimum:
        """sup over the hull of the entropy, in nats, with its certificate."""

    # --- shape -----------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the batch of sets; () for a single one."""
        return tuple(self._batch)

    @property
    def num_extremes(self) -> int:
        """m, the number of distributions that generate the set."""
        return self._extremes

    @property
    def noise(self) -> Array | None:
        """The epistemic uncertainty (nats) that Monte Carlo noise alone would show, where a model made the set."""
        return None if self._noise is None else self._noise()

    # --- envelopes (proposition "extrema_gen_lem": computed on the extremes, true for the hull) -----------

    def lower_probability(self, event: Any) -> Array:
        """inf over the hull of P(event). Paper: proposition "extrema_gen_lem"."""
        return self._border.out(self._probabilities(event).amin(-1))

    def upper_probability(self, event: Any) -> Array:
        """sup over the hull of P(event) = 1 - lower_probability(complement)."""
        return self._border.out(self._probabilities(event).amax(-1))

    def lower_expectation(self, f: Gamble) -> Array:
        """inf over the hull of E[f]."""
        return self._border.out(self._expectations(f).amin(-1))

    def upper_expectation(self, f: Gamble) -> Array:
        """sup over the hull of E[f]."""
        return self._border.out(self._expectations(f).amax(-1))

    # --- entropy ---------------------------------------------------------------------------------------

    def entropies(self, base: Base = None) -> Array:
        """(..., m): the Shannon entropy of each extreme. On a continuum it is the differential entropy, which
        depends on the unit of the outcome and may be negative."""
        return self._border.out(self._entropies()[0] / self._unit(base))

    def lower_entropy(self, base: Base = None) -> Array:
        """inf over the hull of H(P), attained at an extreme: H is concave (proposition "gen_entr_lem")."""
        return self._border.out(self._entropies()[0].amin(-1) / self._unit(base))

    @overload
    def upper_entropy(self, base: Base = None, *, certificate: Literal[False] = False) -> Array: ...
    @overload
    def upper_entropy(self, base: Base = None, *, certificate: Literal[True]) -> Certified: ...
    def upper_entropy(self, base: Base = None, *, certificate: bool = False) -> Array | Certified:
        """max over weights beta of H(sum_j beta_j P_j): the whole hull, which the paper only brackets.

        With `certificate=True`, the value with its duality gap and the maximising weights.
        """
        optimum = self._upper_entropy().scaled(1 / self._unit(base))
        return optimum.out(self._border) if certificate else self._border.out(optimum.value)

    def uncertainty(self, base: Base = None) -> Uncertainty:
        """Total uncertainty split into aleatoric and epistemic, exact, with the paper's bracket beside it.

        Differential entropies depend on the unit of the outcome and may be negative; the epistemic part is a
        difference of two of them and does not.
        """
        unit = self._unit(base)
        entropies, errors = self._entropies()
        upper = self._upper_entropy()
        lower = entropies.amin(-1)
        # The hull holds its extremes: rounding must not put the maximum below the best of them.
        total = torch.maximum(upper.value, entropies.amax(-1))
        bracket = entropies.amax(-1) - lower
        error = torch.maximum(upper.error, errors.amax(-1))
        out = self._border.out
        return Uncertainty(
            total=out(total / unit),
            aleatoric=out(lower / unit),
            epistemic=out((total - lower) / unit),
            epistemic_lower=out(bracket / unit),
            epistemic_upper=out((bracket + math.log(self._extremes)) / unit),
            gap=out(upper.gap / unit),
            error=out(error / unit),
        )

    def abstain(self, phi: ArrayLike) -> Array:
        """Whether the aleatoric uncertainty (lower entropy, nats) exceeds `phi`, so that no region should be
        given. Reference values: `cbdl.credal.reference_entropy`. Paper: appendix "alea_check"."""
        return self._border.out(self._entropies()[0].amin(-1) > float64(phi, "phi"))

    def _unit(self, base: Base) -> float:
        return log_of_base(base, self._classes)
