"""Normal densities on even nodes without an exponential per node, sixteen nodes at a time.

From one node to the next g = exp(-z^2 / 2) is multiplied by a ratio, which is itself multiplied by a constant: with
steps of sixteen nodes of distance h, g' = g r, r' = r q, r = exp(-16 h z - 128 h^2), q = exp(-256 h^2). Neighbours are
the lanes of vectors, whatever vectors the processor has; what a run starts from is computed for all components
together, as vectors too.

Rounding, in units of eps / 2: q is off by at most 3, and a product by 1 more; r is off by at most 100 at first
(its logarithm is up to 26, from three roundings), g by at most 300 within REACH scales. After n steps r is off by at
most 4 n more, and g by the sum of that, 2 n^2 + 101 n more. A run begins anew after TURNS steps. Densities are off by
at most SLIP, relative to themselves.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from cbdl.credal.line.compiled.numbers import Doubles, U, exp
from cbdl.ground.compiling import FORMULAS, SUMS, compiled, instruction

EPS = float(np.finfo(np.float64).eps)
REACH = 8.6
"""Scales from its location within which a component counts: beyond, its density is below rounding of its own."""
LANES, TURNS = U(16), U(12)
SLIP = (2 * 12**2 + 101 * 12 + 300) * EPS / 2
ROOT = 1 / math.sqrt(2 * math.pi)
PARTS = 10
"""Numbers of a run: where it begins, its steps, z there, the distance h, and what it starts from."""


@instruction
def add_run(
    typing: Any,
    p: Any,
    at: Any,
    steps: Any,
    g: Any,
    ratio: Any,
    bend: Any,
    r: Any,
    fall: Any,
    eight: Any,
    q: Any,
) -> Any:
    """p[at + 16 s + l] += g_l, g_l *= r_l, r_l *= q for s from 0 to `steps`, at least 1, and sixteen lanes l.

    g_0 = g, g_1 = g ratio, g_2 = g_1 ratio bend, ... for eight lanes; from these to the other eight, and from those to
    what follows, ratios are r, r fall, r fall^2, ..., which fall by the factor `eight` in between.
    """

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        vector, whole = ir.VectorType(ir.DoubleType(), 8), ir.IntType(64)
        places = context.make_array(signature.args[0])(context, builder, given[0]).data
        g, ratio, bend, r, fall, eight, q = given[3:]
        g0, r0, e0, q0 = (ir.Constant(vector, ir.Undefined) for _ in range(4))
        for lane in range(8):
            at, pairs = ir.Constant(ir.IntType(32), lane), ((g0, g), (r0, r), (e0, eight), (q0, q))
            g0, r0, e0, q0 = (builder.insert_element(v, x, at) for v, x in pairs)
            g, r, ratio = builder.fmul(g, ratio), builder.fmul(r, fall), builder.fmul(ratio, bend)
        r1 = builder.fmul(r0, e0)
        r2 = builder.fmul(r1, e0)
        starts = [(g0, builder.fmul(r0, r1)), (builder.fmul(g0, r0), builder.fmul(r1, r2))]
        entry = builder.block
        loop, after = builder.append_basic_block("run"), builder.append_basic_block("done")
        builder.branch(loop)
        builder.position_at_end(loop)
        step, *runs = builder.phi(whole), *((builder.phi(vector), builder.phi(vector)) for _ in starts)
        here = builder.gep(places, [builder.add(given[1], builder.mul(step, whole(16)))])
        for half, ((now, by), start) in enumerate(zip(runs, starts, strict=True)):
            place = builder.bitcast(builder.gep(here, [whole(8 * half)]), vector.as_pointer())
            builder.store(builder.fadd(builder.load(place, align=8), now), place, align=8)
            after_it = builder.fmul(now, by), builder.fmul(by, q0)
            for phi, first, other in zip((now, by), start, after_it, strict=True):
                phi.add_incoming(first, entry)
                phi.add_incoming(other, loop)
        more = builder.add(step, whole(1))
        step.add_incoming(whole(0), entry)
        step.add_incoming(more, loop)
        builder.cbranch(builder.icmp_unsigned("<", more, given[2]), loop, after)
        builder.position_at_end(after)
        return context.get_dummy_value()

    number = types.float64
    return types.void(p, types.uint64, types.uint64, *(number,) * 7), code


@compiled(FORMULAS)
def runs(
    loc: Doubles, scale: Doubles, weight: Doubles, low: Any, unit: Any, step: Any, N: Any, parts: Doubles
) -> None:
    """What the runs of all components start from, on N nodes from `low` on with a distance of `step` units."""
    for k in range(len(loc)):
        share, first = unit / scale[k], (low - loc[k]) / scale[k]
        h = step * share
        # whole blocks: what one component has stored, the next one then loads as it is
        begin = 16.0 * np.floor(0.0625 * max((-REACH - first) / h, 0.0))
        steps = np.ceil(0.0625 * (min((REACH - first) / h + 2.0, N) - begin))
        z = first + begin * h
        parts[0, k], parts[1, k], parts[2, k], parts[3, k] = begin, steps, z, h
        parts[4, k] = ROOT * weight[k] * share * exp(-0.5 * z * z)
        parts[5, k] = exp(-h * (z + 0.5 * h))
        parts[6, k] = exp(-h * h)
        parts[7, k] = exp(-8.0 * h * (z + 4.0 * h))
        parts[8, k], parts[9, k] = exp(-64.0 * h * h), exp(-256.0 * h * h)


@compiled(SUMS)
def mixture(
    p: Doubles,
    loc: Doubles,
    scale: Doubles,
    weight: Doubles,
    low: Any,
    unit: Any,
    step: Any,
    N: Any,
    parts: Doubles,
) -> None:
    """p_n = unit * density at low + n step unit, n from 0 to N, a multiple of eight; `parts` (PARTS, K) is memory."""
    for n in range(N):
        p[n] = 0.0
    runs(loc, scale, weight, low, unit, step, float(N), parts)
    for k in range(len(loc)):
        if weight[k] > 0.0 and parts[1, k] > 0.0:
            begin, left, h, bend = U(parts[0, k]), U(parts[1, k]), parts[3, k], parts[6, k]
            fall = bend * bend * bend * bend
            fall *= fall
            g, ratio, r, eight, q = parts[4, k], parts[5, k], parts[7, k], parts[8, k], parts[9, k]
            add_run(p, begin, min(left, TURNS), g, ratio, bend, r, fall, eight, q)
            while left > TURNS:
                left, begin = left - TURNS, begin + LANES * TURNS
                z = parts[2, k] + (float(begin) - parts[0, k]) * h
                g = ROOT * weight[k] * unit / scale[k] * exp(-0.5 * z * z)
                ratio, r = exp(-h * (z + 0.5 * h)), exp(-8.0 * h * (z + 4.0 * h))
                add_run(p, begin, min(left, TURNS), g, ratio, bend, r, fall, eight, q)
