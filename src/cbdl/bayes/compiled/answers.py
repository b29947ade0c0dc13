"""Loops that numba compiles: what small networks put out, network after network, block of rows after block.

The forward half of `loops`, from whose pieces it is made: nothing is kept for a gradient, so that the values of two
layers are all that the nearest cache has to hold. Products are made of four units and sixteen rows at a time, whose
sums stay in registers while all inputs pass by.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from cbdl.bayes.compiled.loops import (
    BLOCK,
    FOUR,
    LOW,
    NOTHING,
    ONE,
    RELU,
    SILU,
    TANH,
    Doubles,
    Floats,
    Places,
    U,
    block_of,
    exp,
    fill,
    one,
    zero,
)
from cbdl.ground.bits import parts
from cbdl.ground.compiling import FORMULAS, SUMS, compiled, instruction

LN2 = np.float32(math.log(2))
L1, L2, L3, L4, L5 = (np.float32(2 / k) for k in (1, 3, 5, 7, 9))
"""Of log(1 + f) by s = f / (2 + f), to 2e-9 for f from sqrt(1/2) - 1 to sqrt(2) - 1."""


LANES = 16
"""Rows whose sums are in registers together: two vectors or one of most processors."""


def _dense(units: int) -> Any:
    """The instruction z_o = start_o + sum_i w[at + i + o across] h_i of LANES rows and so many units o: h (ins, rows)
    and z (outs, rows) are flat, and begin at h[source] and z[target]."""

    def meaning(
        typing: Any,
        w: Any,
        at: Any,
        across: Any,
        starts: Any,
        h: Any,
        source: Any,
        ins: Any,
        z: Any,
        target: Any,
    ) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            vector, whole = ir.VectorType(ir.FloatType(), LANES), ir.IntType(64)
            first = ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)
            block, allowed = whole(int(BLOCK)), ("contract",)

            def memory(i: int) -> Any:
                return context.make_array(signature.args[i])(context, builder, given[i]).data

            def place(data: Any, index: Any) -> Any:
                return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())

            def everywhere(number: Any) -> Any:
                some = ir.Constant(vector, ir.Undefined)
                some = builder.insert_element(some, number, ir.IntType(32)(0))
                return builder.shuffle_vector(some, ir.Constant(vector, ir.Undefined), first)

            weights, here, there = memory(0), memory(4), memory(7)
            begin = [everywhere(builder.extract_value(given[3], k)) for k in range(units)]
            entry = builder.block
            loop, after = builder.append_basic_block("inputs"), builder.append_basic_block("done")
            builder.branch(loop)
            builder.position_at_end(loop)
            i, sums = builder.phi(whole), [builder.phi(vector) for _ in range(units)]
            own = builder.load(place(here, builder.add(given[5], builder.mul(i, block))), align=4)
            behind = builder.add(given[1], i)
            more = []
            for k in range(units):
                number = builder.load(builder.gep(weights, [behind]))
                term = builder.fmul(everywhere(number), own, flags=allowed)
                more.append(builder.fadd(sums[k], term, flags=allowed))
                behind = builder.add(behind, given[2])
            then = builder.add(i, whole(1))
            i.add_incoming(whole(0), entry)
            i.add_incoming(then, loop)
            for total, start, new in zip(sums, begin, more, strict=True):
                total.add_incoming(start, entry)
                total.add_incoming(new, loop)
            builder.cbranch(builder.icmp_unsigned("<", then, given[6]), loop, after)
            builder.position_at_end(after)
            for k in range(units):
                index = builder.add(given[8], builder.mul(whole(k), block))
                builder.store(more[k], place(there, index), align=4)
            return context.get_dummy_value()

        one_place = types.uint64
        numbers: Any = types.UniTuple(types.float32, units)  # type: ignore[no-untyped-call]
        return types.void(w, one_place, one_place, numbers, h, one_place, one_place, z, one_place), code

    return instruction(meaning)


four_units, one_unit = _dense(4), _dense(1)


@compiled(SUMS)
def layer(
    theta: Floats, at: Any, biased: Any, bias: Any, h: Floats, ins: Any, z: Floats, outs: Any, n: Any
) -> None:
    """z_o = bias_o + sum_i w_oi h_i for all units: h (ins, rows), z (outs, rows), both flat."""
    whole = outs - outs % FOUR
    for o in range(NOTHING, whole, FOUR):
        b0 = theta[bias + o] if biased else zero
        b1 = theta[bias + o + ONE] if biased else zero
        b2 = theta[bias + o + U(2)] if biased else zero
        b3 = theta[bias + o + U(3)] if biased else zero
        for r in range(NOTHING, n, U(LANES)):
            four_units(theta, at + o * ins, ins, (b0, b1, b2, b3), h, r, ins, z, o * BLOCK + r)
    for o in range(whole, outs):
        b0 = theta[bias + o] if biased else zero
        for r in range(NOTHING, n, U(LANES)):
            one_unit(theta, at + o * ins, ins, (b0,), h, r, ins, z, o * BLOCK + r)


@compiled(FORMULAS)
def bend(function: Any, z: Floats, o: Any, n: Any) -> None:
    """A function of unit o's values, written over them."""
    y = o * BLOCK
    if function == RELU:
        for r in range(n):
            z[y + r] = zero if z[y + r] < zero else z[y + r]
    elif function == SILU:
        for r in range(n):
            z[y + r] = z[y + r] / (one + exp(-z[y + r]))
    elif function == TANH:
        for r in range(n):
            z[y + r] = one - (one + one) / (one + exp(z[y + r] + z[y + r]))


@compiled(FORMULAS)
def log(x: Any) -> Any:
    """log(x) of single precision, of positive numbers that are not subnormal."""
    factor, power = parts(x)
    f = factor - one
    s = f / (one + one + f)
    z = s * s
    return power * LN2 + s * (L1 + z * (L2 + z * (L3 + z * (L4 + z * L5))))


@compiled(SUMS)
def pass_on(
    theta: Floats, layers: Places, block: Floats, here: Floats, there: Floats, n: Any
) -> tuple[Floats, Floats]:
    """What one network theta (P,) puts out for a block of inputs (features, rows): the memory where it is, and the
    other."""
    h, z, other = block, here, there
    for k in range(len(layers)):
        ins, outs, at, biased, bias, function = layers[k]
        layer(theta, at, biased, bias, h, ins, z, outs, n)
        for o in range(outs):
            bend(function, z, o, n)
        h, z, other = z, other, z
    return h, z


@compiled(SUMS)
def outputs(theta: Floats, layers: Places, x: Floats, out: Floats) -> None:
    """`out` (copies, outputs, rows) becomes what networks theta (copies, P) put out for rows x (rows, features).

    A row of `layers` is as `loops.forward` has it.
    """
    width = layers[:, 1].max() * BLOCK
    block = np.empty(U(x.shape[1]) * BLOCK, np.float32)
    here, there = np.empty(width, np.float32), np.empty(width, np.float32)
    for start in range(NOTHING, U(len(x)), BLOCK):
        n = block_of(x, start, block)
        rows = min(n, U(len(x)) - start)
        for c in range(len(theta)):
            h, _ = pass_on(theta[c], layers, block, here, there, n)
            for o in range(NOTHING, layers[-1, 1]):
                for r in range(rows):
                    out[c, o, start + r] = h[o * BLOCK + r]


@compiled(FORMULAS)
def classes(
    h: Floats,
    outs: Any,
    weight: Any,
    top: Floats,
    total: Floats,
    slant: Floats,
    mean: Floats,
    noise: Floats,
    n: Any,
) -> None:
    """Add weight * softmax(h) to `mean`, both (outs, rows), flat, and weight * its entropy to `noise` (rows,); h is
    spent. `top`, `total` and `slant` are memory."""
    for r in range(n):
        top[r], total[r], slant[r] = h[r], zero, zero
    for o in range(ONE, outs):
        for r in range(n):
            top[r] = top[r] if h[o * BLOCK + r] < top[r] else h[o * BLOCK + r]
    for o in range(outs):
        y = o * BLOCK
        for r in range(n):
            d = h[y + r] - top[r]
            d = LOW if d < LOW else d
            odds = exp(d)
            h[y + r] = odds
            total[r] += odds
            slant[r] += odds * d
    for r in range(n):
        share = one / total[r]
        noise[r] += weight * (log(total[r]) - slant[r] * share)
        total[r] = weight * share
    for o in range(outs):
        y = o * BLOCK
        for r in range(n):
            mean[y + r] += h[y + r] * total[r]


@compiled(SUMS)
def averages(
    theta: Floats,
    layers: Places,
    weights: Floats,
    x: Floats,
    first: Any,
    last: Any,
    probs: Doubles,
    noise: Doubles,
) -> None:
    """For rows `first` to `last` of x (rows, features): add the class probabilities of networks theta (members, draws,
    P), averaged over draws with `weights` (draws,), to probs (members, classes, rows), and their entropies to noise
    (members, rows)."""
    outs = layers[-1, 1]
    width = layers[:, 1].max() * BLOCK
    block = np.empty(U(x.shape[1]) * BLOCK, np.float32)
    here, there, mean = np.empty(width, np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
    top, total = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    slant, entropy = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for start in range(U(first), U(last), BLOCK):
        n = block_of(x[:last], start, block)
        rows = min(n, U(last) - start)
        for m in range(len(theta)):
            for o in range(outs):
                fill(mean, o, zero, n)
            fill(entropy, NOTHING, zero, n)
            for d in range(theta.shape[1]):
                h, _ = pass_on(theta[m, d], layers, block, here, there, n)
                classes(h, outs, weights[d], top, total, slant, mean, entropy, n)
            for o in range(NOTHING, outs):
                for r in range(rows):
                    probs[m, o, start + r] += mean[o * BLOCK + r]
            for r in range(rows):
                noise[m, start + r] += entropy[r]
