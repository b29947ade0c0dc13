"""What compiled code must know of a likelihood: which formula, and one number of it."""

from __future__ import annotations

from dataclasses import dataclass

FIXED, LEARNED, VARYING, CLASSES = range(4)
"""Normal noise of a given scale, of a learned one, of one that varies with the input; classes by softmax."""


@dataclass(frozen=True)
class Rule:
    """A likelihood of one outcome per row, as compiled code knows it."""

    kind: int
    """`FIXED`, `LEARNED`, `VARYING` or `CLASSES`."""
    number: float = 0.0
    """The scale of the noise, or the least that it may be."""
