"""The level of an outcome as a function: see `cbdl.credal.CredalSet.level`."""

from __future__ import annotations

from cbdl.credal._border import Array, ArrayLike
from cbdl.credal.base import CredalSet


def region_level(credal: CredalSet, y: ArrayLike) -> Array:
    """(...,): the smallest level whose union region contains the outcome `y` (...,) of every set.

    - `credal`: a credal set

    >>> from cbdl import NormalCredalSet
    >>> float(region_level(NormalCredalSet([0.0, 10.0], [1.0, 1.0]), 11.96).round(3))
    0.95
    """
    return credal.level(y)
