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
