"""Exponentials, logarithms and tails of Normals in double precision, as loops of them become vector instructions.

Exponentials and ratios are good to three units in the last place, logarithms to two.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cbdl.ground.bits import factor_and_power, times_power
from cbdl.ground.compiling import FORMULAS, compiled

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
L1, L2, L3, L4, L5, L6, L7 = (
    *(0.6666666666666735, 0.3999999999940942, 0.2857142874366239, 0.22222198432149784),
    *(0.1818357216161805, 0.15313837699209373, 0.14798198605116586),
)
"""Of log(1 + f) by s^2, s = f / (2 + f): minimax coefficients, nearly 2/3, 2/5, 2/7, ..."""

MIDDLE = 4.5
MILLS: tuple[float, ...] = (
    *(0.46641865659290194, -0.09445675888818685, 0.02384296476912002, 0.018922656662711215),
    *(-0.030376890965866106, 0.022616310447329088, -0.010591085334872206, 0.0027112460987931803),
    *(0.00011925566988852893, -0.0003530017691548341, 7.095225804767595e-05, 3.3835016900661945e-05),
    *(-1.4896614673513512e-05, -3.5858521624946496e-06, 2.55206815448405e-06, 5.261852829657511e-07),
    *(-4.2967161198496165e-07, -1.0798184253843731e-07, 7.087428867043833e-08, 2.4286503977672236e-08),
    *(-1.0599340809820322e-08, -4.453291002793951e-09, 1.2353990974186167e-09, 4.4783296877272375e-10),
    *(-8.071942836140241e-11,),
)
"""Of (1 + x) Q(x) / exp(-x^2 / 2) by t = (x - MIDDLE) / (x + MIDDLE): Chebyshev's expansion from x = 0 to infinity, as
powers of t; what follows is below 1e-17."""


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
    factor, n = factor_and_power(x)
    f = factor - 1.0
    s = f / (2.0 + f)
    z, h = s * s, 0.5 * f * f
    r = z * (L1 + z * (L2 + z * (L3 + z * (L4 + z * (L5 + z * (L6 + z * L7))))))
    return n * LN2 + (f - (h - s * (h + r)))


@compiled(FORMULAS)
def mills(x: Any) -> Any:
    """Q(x) / exp(-x^2 / 2) for x from 0 on: what lies beyond x of a standard Normal, without underflow."""
    t = (x - MIDDLE) / (x + MIDDLE)
    p = MILLS[19] + t * (MILLS[20] + t * (MILLS[21] + t * (MILLS[22] + t * (MILLS[23] + t * MILLS[24]))))
    p = MILLS[14] + t * (MILLS[15] + t * (MILLS[16] + t * (MILLS[17] + t * (MILLS[18] + t * p))))
    p = MILLS[9] + t * (MILLS[10] + t * (MILLS[11] + t * (MILLS[12] + t * (MILLS[13] + t * p))))
    p = MILLS[4] + t * (MILLS[5] + t * (MILLS[6] + t * (MILLS[7] + t * (MILLS[8] + t * p))))
    p = MILLS[0] + t * (MILLS[1] + t * (MILLS[2] + t * (MILLS[3] + t * p)))
    return p / (1.0 + x)
