"""The credal wrapper: the box of an ensemble (Wang et al., ICLR 2025).

Each class keeps the smallest and the largest probability that any member gives it. The box holds the hull and
more: distributions that no single mixture of members gives. Its one prediction is the intersection
probability, `center()` of the set.
"""

from __future__ import annotations

from cbdl.constructions._given import hull_of
from cbdl.credal import ArrayLike, CategoricalCredalSet, IntervalCredalSet


def wrapper(members: ArrayLike | CategoricalCredalSet) -> IntervalCredalSet:
    """All distributions between the smallest and the largest probability per class; `members` (..., m, J).

    >>> box = wrapper([[0.7, 0.2, 0.1], [0.5, 0.4, 0.1]])
    >>> box.lower, box.upper, box.center().round(4)
    (array([0.5, 0.2, 0.1]), array([0.7, 0.4, 0.1]), array([0.6, 0.3, 0.1]))
    """
    hull = hull_of(members)
    return IntervalCredalSet.of(hull)
