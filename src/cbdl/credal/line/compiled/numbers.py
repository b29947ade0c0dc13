"""Exponentials and logarithms in double precision, written out, so that loops of them become vector instructions.

Exponentials are good to three units in the last place, logarithms to two.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numba import types
from numpy.typing import NDArray

from cbdl.ground.bits import times_power
from cbdl.ground.compiling import FORMULAS, compiled, instruction

Doubles: TypeAlias = NDArray[np.float64]

U = np.uint64
"""Places in arrays have no sign: the compiler then knows that none is counted from the end, and makes vectors."""
TINY = 1e-300
"""In place of densities that are 0, whose logarithms are then finite."""

LOG2E, ROUND = 1 / math.log(2), 1.5 * 2.0**52
"""Added to a small number and taken away again, ROUND leaves the nearest whole one, whose bits are then at the end."""
LN2, LN2_HIGH = math.log(2), 0.693145751953125
LN2_LOW = 1.42860682030941723212e-6
"""log 2 = LN2_HIGH + LN2_LOW: of the first a multiple by up to 11 bits is exact."""
E2, E3, E4, E5, E6, E7, E8, E9, E10, E11, E12 = (1 / math.factorial(k) for k in range(2, 13))
SPLIT = 0x3FE6A09E00000000
"""The bits of about sqrt(1/2), from which the remaining factor of a number goes to sqrt(2)."""
L1, L2, L3, L4, L5, L6, L7 = (
    *(0.6666666666666735, 0.3999999999940942, 0.2857142874366239, 0.22222198432149784),
    *(0.1818357216161805, 0.15313837699209373, 0.14798198605116586),
)
"""Of log(1 + f) by s^2, s = f / (2 + f): minimax coefficients, nearly 2/3, 2/5, 2/7, ..."""


@instruction
def _parts(typing: Any, x: Any) -> Any:
    """(f, n) with x = f 2^n and f from about sqrt(1/2) to sqrt(2), by the bits of a positive normal number."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        whole, real = (context.get_value_type(t) for t in (types.int64, types.float64))
        bits = builder.add(builder.bitcast(given[0], whole), whole(0x3FF0000000000000 - SPLIT))
        factor = builder.add(builder.and_(bits, whole(0x000FFFFFFFFFFFFF)), whole(SPLIT))
        # 2^52 + n by its bits, which no processor lacks instructions for
        power = builder.or_(builder.lshr(bits, whole(52)), whole(0x4330000000000000))
        power = builder.fsub(builder.bitcast(power, real), real(2.0**52 + 1023))
        return context.make_tuple(builder, signature.return_type, (builder.bitcast(factor, real), power))

    two: Any = types.UniTuple(types.float64, 2)  # type: ignore[no-untyped-call]
    return two(types.float64), code


@compiled(FORMULAS)
def exp(x: Any) -> Any:
    """exp(x) for x from -700 to 700."""
    m = x * LOG2E + ROUND
    n = m - ROUND
    f = (x - n * LN2_HIGH) - n * LN2_LOW
    p = E6 + f * (E7 + f * (E8 + f * (E9 + f * (E10 + f * (E11 + f * E12)))))
    p = 1.0 + f * (1.0 + f * (E2 + f * (E3 + f * (E4 + f * (E5 + f * p)))))
    return times_power(p, m)


@compiled(FORMULAS)
def log(x: Any) -> Any:
    """log(x) of positive numbers that are not subnormal."""
    factor, n = _parts(x)
    f = factor - 1.0
    s = f / (2.0 + f)
    z, h = s * s, 0.5 * f * f
    r = z * (L1 + z * (L2 + z * (L3 + z * (L4 + z * (L5 + z * (L6 + z * L7))))))
    return n * LN2 + (f - (h - s * (h + r)))
