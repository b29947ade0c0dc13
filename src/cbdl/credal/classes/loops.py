"""Loops that numba compiles: unions of credible sets over many classes.

The least probability of a credible set is found without sorting: probabilities are added up in drawers, by their
leading bits, from the largest down; only the drawer in which the target is reached has to be put in order.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numba import types
from numpy.typing import NDArray

from cbdl.ground.compiling import FORMULAS, compiled, instruction

Doubles: TypeAlias = NDArray[np.float64]

DRAWERS = 512
SHIFT, TOP = 49, 0x3FF0000000000000 >> 49
"""A drawer is an eighth of a power of 2 wide: sign, exponent and three bits; TOP is that of 1. The last of 64 powers
holds all that is less."""


@instruction
def _leading(typing: Any, x: Any) -> Any:
    """The leading bits of a number."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        whole = context.get_value_type(types.int64)
        return builder.ashr(builder.bitcast(given[0], whole), whole(SHIFT))

    return types.int64(types.float64), code


@compiled(FORMULAS)
def drawer(p: Any) -> Any:
    """Of a probability: 0 for 1 and what rounding makes of it, more for less."""
    place = TOP - _leading(p)
    return 0 if place < 0 else DRAWERS - 1 if place >= DRAWERS else place


@compiled(FORMULAS)
def least(p: Doubles, target: float, sums: Doubles, some: Doubles) -> tuple[Any, bool]:
    """The least probability of the credible set of p (J,), and whether one that does not belong is equal.

    The class that makes the sum reach the target belongs. `sums` (DRAWERS,) and `some` (J,) are memory.
    """
    J = len(p)
    for i in range(DRAWERS):
        sums[i] = 0.0
    for j in range(J):
        sums[drawer(p[j])] += p[j]
    last, before = 0, 0.0
    while last < DRAWERS - 1 and before + sums[last] < target:
        before += sums[last]
        last += 1
    count = 0
    for j in range(J):
        if drawer(p[j]) == last:
            some[count] = p[j]
            count += 1
    if count == 0:  # the sums are those of rounding: the target lies on the edge of a drawer
        return 0.0, True
    some[:count].sort()
    for i in range(count - 1, -1, -1):
        before += some[i]
        if before >= target or i == 0:
            if i > 0:
                return some[i], some[i - 1] == some[i]
            # the rest lies in other drawers, or there is none
            return some[0], before < target and last < DRAWERS - 1
    return 0.0, True


@compiled(FORMULAS)
def union(first: int, last: int, P: Doubles, target: float, mask: Any, tied: Any) -> None:
    """Which classes belong to the credible set of some extreme, for the sets `first` to `last` of P (B, m, J).

    mask (B, J); tied (B,): sets to be looked at again, in which classes are equally likely where it matters.
    """
    m, J = P.shape[1:]
    sums, some = np.empty(DRAWERS), np.empty(J)
    for b in range(first, last):
        own = mask[b]
        for j in range(J):
            own[j] = False
        tied[b] = False
        for k in range(m):
            p = P[b, k]
            lowest, equal = least(p, target, sums, some)
            if equal:
                tied[b] = True
            for j in range(J):
                own[j] |= p[j] >= lowest
