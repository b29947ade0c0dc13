"""Loops that numba compiles: what small networks put out, network after network, block of rows after block.

The forward half of `loops`, from whose pieces it is made: nothing is kept for a gradient, so that the values of two
layers are all that the nearest cache has to hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cbdl.bayes.compiled.loops import (
    LOW,
    RELU,
    SILU,
    TANH,
    Doubles,
    Places,
    block_of,
    exp,
    fill,
    log,
    one,
    zero,
)
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
def pass_on(
    theta: Floats, layers: Places, block: Floats, here: Floats, there: Floats, n: Any
) -> tuple[Floats, Floats]:
    """What one network theta (P,) puts out for a block of inputs (features, rows): the memory where it is, and the
    other."""
    h, z, other = block, here, there
    for k in range(len(layers)):
        ins, outs, at, biased, bias, function = layers[k]
        for o in range(outs):
            fill(z, o, theta[bias + o] if biased else zero, n)
        product(theta, at, ONE, ins, h, ins, z, outs, n)
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
    norm: Floats,
    mean: Floats,
    noise: Floats,
    square: Floats,
    n: Any,
) -> None:
    """Add weight * softmax(h) to `mean`, both (outs, rows), flat, weight * its entropy to `noise` (rows,) and weight *
    its squared length to `square` (rows,); h is spent. `top`, `total`, `slant` and `norm` are memory."""
    for r in range(n):
        top[r], total[r], slant[r], norm[r] = h[r], zero, zero, zero
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
            norm[r] += odds * odds
    for r in range(n):
        share = one / total[r]
        noise[r] += weight * (log(total[r]) - slant[r] * share)
        total[r] = weight * share
        square[r] += total[r] * share * norm[r]
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
    square: Doubles,
) -> None:
    """For rows `first` to `last` of x (rows, features): add the class probabilities of networks theta (members, draws,
    P), averaged over draws with `weights` (draws,), to probs (members, classes, rows), their entropies to noise
    (members, rows) and their squared lengths to square (members, rows)."""
    outs = layers[-1, 1]
    width = layers[:, 1].max() * BLOCK
    block = np.empty(U(x.shape[1]) * BLOCK, np.float32)
    here, there, mean = np.empty(width, np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
    top, total = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    slant, norm = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    entropy, length = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for start in range(U(first), U(last), BLOCK):
        n = block_of(x[:last], start, block)
        rows = min(n, U(last) - start)
        for m in range(len(theta)):
            for o in range(outs):
                fill(mean, o, zero, n)
            fill(entropy, NOTHING, zero, n)
            fill(length, NOTHING, zero, n)
            for d in range(theta.shape[1]):
                h, _ = pass_on(theta[m, d], layers, block, here, there, n)
                classes(h, outs, weights[d], top, total, slant, norm, mean, entropy, length, n)
            for o in range(NOTHING, outs):
                for r in range(rows):
                    probs[m, o, start + r] += mean[o * BLOCK + r]
            for r in range(rows):
                noise[m, start + r] += entropy[r]
                square[m, start + r] += length[r]
