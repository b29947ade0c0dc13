"""What compiled loops do with the bits of numbers. Imports numba, as loops do."""

from __future__ import annotations

from typing import Any

from numba import types

from cbdl.ground.compiling import instruction


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
def factor_and_power(typing: Any, x: Any) -> Any:
    """(f, n) with x = f 2^n and f from about sqrt(1/2) to sqrt(2), by the bits of a positive normal number."""
    kind, digits, bias, split = (
        (types.int32, 23, 127, 0x3F3504F3)
        if x == types.float32
        else (types.int64, 52, 1023, 0x3FE6A09E00000000)
    )

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        whole, real = context.get_value_type(kind), context.get_value_type(x)
        bits = builder.add(builder.bitcast(given[0], whole), whole((bias << digits) - split))
        factor = builder.add(builder.and_(bits, whole((1 << digits) - 1)), whole(split))
        # 2^digits + n by its bits, which no processor lacks instructions for
        power = builder.or_(builder.lshr(bits, whole(digits)), whole((bias + digits) << digits))
        power = builder.fsub(builder.bitcast(power, real), real(2.0**digits + bias))
        return context.make_tuple(builder, signature.return_type, (builder.bitcast(factor, real), power))

    two: Any = types.UniTuple(x, 2)  # type: ignore[no-untyped-call]
    return two(x), code
