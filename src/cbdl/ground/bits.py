"""What compiled loops do with the bits of numbers. Imports numba, as loops do."""

from __future__ import annotations

from typing import Any

from numba import types

from cbdl.ground.compiling import instruction

SPLIT = 0x3F3504F3
"""The bits of sqrt(1/2) in single precision."""


@instruction
def times_power(typing: Any, p: Any, m: Any) -> Any:
    """p 2^n, where the last bits of m are n: n is added to the exponent of p."""
    kind, digits = (types.int32, 23) if p == types.float32 else (types.int64, 52)

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        whole = context.get_value_type(kind)
        bits, power = (builder.bitcast(own, whole) for own in given)
        sum_ = builder.add(bits, builder.shl(power, whole(digits)))
        return builder.bitcast(sum_, context.get_value_type(p))

    return p(p, m), code


@instruction
def parts(typing: Any, x: Any) -> Any:
    """(f, n) with x = f 2^n and f from about sqrt(1/2) to sqrt(2), by the bits of a positive normal number of single
    precision."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        whole, real = (context.get_value_type(t) for t in (types.int32, types.float32))
        bits = builder.add(builder.bitcast(given[0], whole), whole(0x3F800000 - SPLIT))
        factor = builder.add(builder.and_(bits, whole(0x007FFFFF)), whole(SPLIT))
        power = builder.sitofp(builder.sub(builder.lshr(bits, whole(23)), whole(127)), real)
        return context.make_tuple(builder, signature.return_type, (builder.bitcast(factor, real), power))

    two: Any = types.UniTuple(types.float32, 2)  # type: ignore[no-untyped-call]
    return two(types.float32), code
