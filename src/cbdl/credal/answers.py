"""What a credal set answers with: regions of outcomes, and uncertainty with its split (paper, sections 2.2 and 2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cbdl.credal._border import Array, ArrayLike


class Region(Protocol):
    """A set of outcomes that the whole credal set agrees to cover."""

    @property
    def measure(self) -> Array: ...
    @property
    def lower_probability(self) -> Array: ...
    @property
    def upper_probability(self) -> Array: ...
    def contains(self, y: ArrayLike) -> Array:
        """Whether outcomes lie in the region."""

    def hull(self) -> tuple[Array, Array]:
        """(lower, upper): the smallest interval around the region, the smallest box in R^d, the first and the last
        class. A ValueError where it is not known."""


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
