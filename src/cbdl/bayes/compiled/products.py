"""Products of small layers and blocks of rows, in tiles whose sums stay in registers until they are whole.

Rows lie side by side: the values of units are (units, BLOCK) in one flat array. A tile of a product is four units by
two vectors of rows, and takes up all inputs before it is stored. A tile of a gradient is two units by four inputs, and
takes up all rows. Each has eight sums: so many that none waits for the one before it, so few that sixteen registers
hold them. Compilers do not find such tiles in plain loops, which store every sum again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numpy.typing import NDArray

from cbdl.ground.compiling import SUMS, compiled, instruction

Floats: TypeAlias = NDArray[np.float32]

U = np.uint64
"""Places in arrays have no sign: the compiler then knows that none is counted from the end, and makes vectors."""
BLOCK = U(128)
"""Rows that go through a network together; values of a unit are this far from those of the next."""
ROWS = U(32)
"""Blocks are filled up to a multiple of it with rows that count nothing: no tile then has a remainder of rows."""
ONE, TWO, FOUR, EIGHT, NOTHING = U(1), U(2), U(4), U(8), U(0)


@cache
def lanes() -> int:
    """Numbers of single precision in a vector of this processor."""
    features = get_host_cpu_features()
    return 16 if features.get("avx512f") else 8 if features.get("avx") else 4


WIDTH = U(2 * lanes())
"""Rows of a tile of a product."""

_INDEX = ir.IntType(64)
_NUMBER = ir.FloatType()


class _Code:
    """What a tile is written with: vectors at places of flat arrays, and sums that go around a loop."""

    def __init__(self, context: Any, builder: Any, signature: Any, given: Sequence[Any], width: int) -> None:
        self.builder, self.vector = builder, ir.VectorType(_NUMBER, width)
        self.given = [
            context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, given, strict=True)
        ]

    def at(self, place: Any, count: Any, step: Any) -> Any:
        """place + count * step."""
        return self.builder.add(place, self.builder.mul(_index(count), _index(step)))

    def pointer(self, array: Any, place: Any, kind: Any = None) -> Any:
        return self.builder.bitcast(self.builder.gep(array, [place]), (kind or self.vector).as_pointer())

    def load(self, array: Any, place: Any, kind: Any = None) -> Any:
        return self.builder.load(self.pointer(array, place, kind), align=4)

    def add(self, array: Any, place: Any, value: Any) -> None:
        """array[place:] += value, a number or a vector."""
        sum_ = self.builder.fadd(self.load(array, place, value.type), value)
        self.builder.store(sum_, self.pointer(array, place, value.type), align=4)

    def spread(self, number: Any) -> Any:
        """A vector of one number."""
        first = self.builder.insert_element(ir.Constant(self.vector, ir.Undefined), number, _lane(0))
        return self.builder.shuffle_vector(first, first, _lanes([0] * self.vector.count))

    def plus(self, sum_: Any, x: Any, y: Any) -> Any:
        """sum_ + x y, rounded once where the processor can."""
        by = self.builder.fmul(x, y, flags=("contract",))
        return self.builder.fadd(sum_, by, flags=("contract",))

    def around(
        self, starts: Sequence[Any], times: Any, body: Callable[[Any, list[Any]], list[Any]]
    ) -> list[Any]:
        """The values of `body(number, values)` after it has been gone through `times` times, at least once."""
        builder, entry = self.builder, self.builder.block
        loop, after = builder.append_basic_block("around"), builder.append_basic_block("after")
        builder.branch(loop)
        builder.position_at_end(loop)
        number, values = builder.phi(_INDEX), [builder.phi(start.type) for start in starts]
        ends = body(number, values)
        following = builder.add(number, _INDEX(1))
        for phi, start, end in zip([number, *values], [_INDEX(0), *starts], [following, *ends], strict=True):
            phi.add_incoming(start, entry)
            phi.add_incoming(end, loop)
        builder.cbranch(builder.icmp_unsigned("<", following, times), loop, after)
        builder.position_at_end(after)
        return ends

    def totals(self, vectors: list[Any]) -> Any:
        """One vector with the sum of each of 1, 2, 4, ... vectors."""
        group = self.vector.count  # so many numbers side by side belong to one sum
        while group > 1:
            group //= 2
            if len(vectors) > 1:
                width = 2 * vectors[0].type.count
                vectors = [
                    self._folded(a, b, width, group) for a, b in zip(vectors[::2], vectors[1::2], strict=True)
                ]
            else:
                vectors = [self._folded(vectors[0], vectors[0], vectors[0].type.count, group)]
        while len(vectors) > 1:
            side_by_side = _lanes(list(range(2 * vectors[0].type.count)))
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [self.builder.shuffle_vector(a, b, side_by_side) for a, b in pairs]
        return vectors[0]

    def _folded(self, a: Any, b: Any, width: int, group: int) -> Any:
        """Of the first `width` numbers of a and b, the first `group` of every two groups plus the second."""
        lower = [i for i in range(width) if i % (2 * group) < group]
        low, high = (
            self.builder.shuffle_vector(a, b, _lanes(own)) for own in (lower, [i + group for i in lower])
        )
        return self.builder.fadd(low, high)


def _index(value: Any) -> Any:
    return _INDEX(value) if isinstance(value, int) else value


def _lane(number: int) -> Any:
    return ir.Constant(ir.IntType(32), number)


def _lanes(numbers: list[int]) -> Any:
    return ir.Constant(ir.VectorType(ir.IntType(32), len(numbers)), numbers)


def _product_tile(units: int) -> Any:
    @instruction
    def tile(
        typing: Any, w: Any, at: Any, along: Any, across: Any, h: Any, x: Any, ins: Any, z: Any, y: Any
    ) -> Any:
        """z[y + o BLOCK + r] += sum_i w[at + i along + o across] h[x + i BLOCK + r], for r from 0 to WIDTH."""

        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            own = _Code(context, builder, signature, given, int(WIDTH))
            w, at, along, across, h, x, ins, z, y = own.given
            places = [own.at(y, o, int(BLOCK)) for o in range(units)]
            firsts = [own.at(at, o, across) for o in range(units)]

            def body(i: Any, sums: list[Any]) -> list[Any]:
                value = own.load(h, own.at(x, i, int(BLOCK)))
                weights = [own.load(w, own.at(first, i, along), _NUMBER) for first in firsts]
                return [own.plus(s, own.spread(a), value) for s, a in zip(sums, weights, strict=True)]

            sums = own.around([own.load(z, place) for place in places], ins, body)
            for place, value in zip(places, sums, strict=True):
                builder.store(value, own.pointer(z, place), align=4)
            return context.get_dummy_value()

        return types.void(w, *(types.uint64,) * 3, h, *(types.uint64,) * 2, z, types.uint64), code

    return tile


def _sum_tile(units: int, inputs: int) -> Any:
    @instruction
    def tile(typing: Any, d: Any, y: Any, h: Any, x: Any, n: Any, into: Any, at: Any, across: Any) -> Any:
        """into[at + i + o across] += sum_r d[y + o BLOCK + r] h[x + i BLOCK + r], for r from 0 to n."""

        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            own = _Code(context, builder, signature, given, lanes())
            d, y, h, x, n, into, at, across = own.given

            def body(number: Any, sums: list[Any]) -> list[Any]:
                r = builder.mul(number, _INDEX(lanes()))
                slopes = [own.load(d, builder.add(own.at(y, o, int(BLOCK)), r)) for o in range(units)]
                values = [own.load(h, builder.add(own.at(x, i, int(BLOCK)), r)) for i in range(inputs)]
                factors = [(a, b) for a in slopes for b in values]
                return [own.plus(s, a, b) for s, (a, b) in zip(sums, factors, strict=True)]

            zero = ir.Constant(own.vector, [0.0] * lanes())
            times = builder.udiv(n, _INDEX(lanes()))
            totals = own.totals(own.around([zero] * (units * inputs), times, body))
            for o in range(units):
                some = [inputs * o + i for i in range(inputs)]
                value = (
                    builder.shuffle_vector(totals, totals, _lanes(some))
                    if inputs > 1
                    else builder.extract_element(totals, _lane(o))
                )
                own.add(into, own.at(at, o, across), value)
            return context.get_dummy_value()

        return types.void(d, types.uint64, h, *(types.uint64,) * 2, into, *(types.uint64,) * 2), code

    return tile


product_4, product_2, product_1 = (_product_tile(units) for units in (4, 2, 1))
sums_2_4, sums_8_1, sums_1_4, sums_1_1 = (_sum_tile(*shape) for shape in ((2, 4), (8, 1), (1, 4), (1, 1)))


@compiled(SUMS)
def product(
    w: Floats, at: Any, along: Any, across: Any, h: Floats, ins: Any, z: Floats, outs: Any, n: Any
) -> None:
    """z_o += sum_i w[at + i along + o across] h_i for all units: h (ins, rows), z (outs, rows), both flat."""
    for r in range(NOTHING, n, WIDTH):
        for o in range(NOTHING, outs - outs % FOUR, FOUR):
            product_4(w, at + o * across, along, across, h, r, ins, z, o * BLOCK + r)
        o = outs - outs % FOUR
        if outs - o >= TWO:
            product_2(w, at + o * across, along, across, h, r, ins, z, o * BLOCK + r)
            o += TWO
        if outs > o:
            product_1(w, at + o * across, along, across, h, r, ins, z, o * BLOCK + r)


@compiled(SUMS)
def sums(d: Floats, outs: Any, h: Floats, ins: Any, into: Floats, at: Any, n: Any) -> None:
    """into[at + o ins + i] += sum_r d_or h_ir for all units: d (outs, rows), h (ins, rows), both flat."""
    whole, eights = ins - ins % FOUR, outs - outs % EIGHT
    for o in range(NOTHING, outs - outs % TWO, TWO):
        for i in range(NOTHING, whole, FOUR):
            sums_2_4(d, o * BLOCK, h, i * BLOCK, n, into, at + o * ins + i, ins)
    if outs % TWO:
        o = outs - ONE
        for i in range(NOTHING, whole, FOUR):
            sums_1_4(d, o * BLOCK, h, i * BLOCK, n, into, at + o * ins + i, ins)
    for i in range(whole, ins):
        for o in range(NOTHING, eights, EIGHT):
            sums_8_1(d, o * BLOCK, h, i * BLOCK, n, into, at + o * ins + i, ins)
        for o in range(eights, outs):
            sums_1_1(d, o * BLOCK, h, i * BLOCK, n, into, at + o * ins + i, ins)
