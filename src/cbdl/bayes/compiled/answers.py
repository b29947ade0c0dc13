"""Loops that numba compiles: what small networks put out, network after network, block of rows after block.

The forward half of `loops`, from whose pieces it is made: nothing is kept for a gradient, so that the values of two
layers are all that the nearest cache has to hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cbdl.bayes.compiled.loops import RELU, SILU, TANH, Places, block_of, exp, fill, one, zero
from cbdl.bayes.compiled.products import BLOCK, NOTHING, ONE, Floats, U, product
from cbdl.ground.compiling import FORMULAS, SUMS, compiled


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
            h, z, other = block, here, there
            for k in range(len(layers)):
                ins, outs, at, biased, bias, function = layers[k]
                for o in range(outs):
                    fill(z, o, theta[c, bias + o] if biased else zero, n)
                product(theta[c], at, ONE, ins, h, ins, z, outs, n)
                for o in range(outs):
                    bend(function, z, o, n)
                h, z, other = z, other, z
            for o in range(NOTHING, layers[-1, 1]):
                for r in range(rows):
                    out[c, o, start + r] = h[o * BLOCK + r]
