"""What a credal set answers with: regions of outcomes, and uncertainty with its split (paper, sections 2.2 and 2.3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from cbdl.credal._border import Array, ArrayLike
from cbdl.credal.table import numbers_html, numbers_words, region_columns, region_html, region_words


class Region(ABC):
    """A set of outcomes that the whole credal set agrees to cover.

    Every region has `measure`, `lower_probability` and `upper_probability`, each (...,). One of classes has a `mask`
    (..., J), one on the line `intervals` (..., R, 2), padded with nan.

    >>> from cbdl import CategoricalCredalSet
    >>> region = CategoricalCredalSet([[0.9, 0.1], [0.1, 0.9]]).region(0.2)
    >>> region.contains(1), region.measure
    (array(True), array(2))
    """

    measure: Array
    lower_probability: Array
    upper_probability: Array

    @abstractmethod
    def contains(self, y: ArrayLike) -> Array:
        """Whether outcomes lie in the region.

        - `y`: outcomes: (...,), or (..., n) several for each set; in R^d (..., d)
        """

    def columns(self) -> dict[str, list[Any]]:
        """The regions of a batch (n,) column by column, as data frames have them."""
        return region_columns(self, tuple(np.shape(self.measure)))

    def __len__(self) -> int:
        if not np.shape(self.measure):
            raise TypeError("this is the region of a single set, without a batch: it has no length")
        return len(self.measure)

    def __bool__(self) -> bool:
        return True  # a single region has no length to ask

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Self:
        """The regions at `index` of the batch: `region[3]`, `region[:10]`, `region[mask]`."""
        batch = tuple(np.shape(self.measure))
        if not batch:
            raise IndexError("this is the region of a single set, without a batch to index")
        return self._picked(index, batch)

    def _picked(self, index: Any, batch: tuple[int, ...]) -> Self:
        """Every field that has an entry per set, at `index`."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        arrays = {
            n: x[index] for n, x in own.items() if tuple(getattr(x, "shape", ()))[: len(batch)] == batch
        }
        return replace(self, **arrays)  # type: ignore[type-var]

    def __repr__(self) -> str:
        return region_words(self)

    def _repr_html_(self) -> str:
        return region_html(self)

    @abstractmethod
    def hull(self) -> tuple[Array, Array]:
        """(lower, upper): the smallest interval around the region, the smallest box in R^d, the first and the last
        class. A ValueError where it is not known."""

    if TYPE_CHECKING:

        @property
        def mask(self) -> Array: ...
        @property
        def intervals(self) -> Array: ...

    else:

        def __getattr__(self, name: str) -> NoReturn:
            hint = {
                "mask": "regions of classes have a mask",
                "intervals": "regions on the line have intervals",
            }
            raise AttributeError(
                f"a {type(self).__name__} has no {name!r}" + (f"; {hint[name]}" if name in hint else "")
            )


class Numbers:
    """Answers that are arrays of the batch shape, field by field: they have its length, and are sliced as it is."""

    def __len__(self) -> int:
        return len(next(iter(vars(self).values())))

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: Any) -> Self:
        return replace(self, **{name: values[index] for name, values in vars(self).items()})  # type: ignore[type-var]

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return numbers_words(self)

    def _repr_html_(self) -> str:
        return numbers_html(self)


@dataclass(frozen=True, repr=False)
class Decomposition(Numbers):
    """Where the uncertainty of a prediction comes from. All fields have the batch shape, those of members (..., m).

    The entropy of every member is its `noise` plus its `doubt`. The paper's aleatoric uncertainty, the lowest of these
    entropies, holds the doubt of its member; the noise does not.

    noise:        what would be left if the parameters were known: their expected conditional entropy, per member
    doubt:        what knowing the parameters would tell about the outcome: the mutual information, per member
    noise_lower, noise_upper, doubt_lower, doubt_upper: over the members
    disagreement: between members: the epistemic uncertainty of the credal set
    """

    noise: Array
    doubt: Array
    noise_lower: Array
    noise_upper: Array
    doubt_lower: Array
    doubt_upper: Array
    disagreement: Array


@dataclass(frozen=True, repr=False)
class Uncertainty(Numbers):
    """Total uncertainty of a credal set and its split (section 2.3). All fields have the batch shape.

    total:            upper entropy of the whole hull
    aleatoric:        lower entropy (attained at an extreme, proposition "gen_entr_lem")
    epistemic:        total - aleatoric, exact up to `gap` and `error`
    epistemic_lower:  the paper's bracket: upper minus lower entropy of the extremes alone ...
    epistemic_upper:  ... and the same plus log m
    gap:              certificate: the true total lies in [total, total + gap]
    error:            numerical error of the entropies themselves (see `Certified`)

    >>> from cbdl import CategoricalCredalSet
    >>> u = CategoricalCredalSet([[0.9, 0.1], [0.1, 0.9]]).uncertainty()
    >>> round(float(u.total), 3), round(float(u.aleatoric), 3), round(float(u.epistemic), 3)
    (0.693, 0.325, 0.368)
    """

    total: Array
    aleatoric: Array
    epistemic: Array
    epistemic_lower: Array
    epistemic_upper: Array
    gap: Array
    error: Array
