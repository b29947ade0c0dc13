"""Loops that numba compiles: the potential of small networks and its gradient, chain after chain, block after block.

A network of sixteen units does so little for a row that calls of tensor operations, and the memory between them, cost
more than the arithmetic. Here a block of rows goes through the whole network, through the likelihood and back, and
never leaves the nearest cache. Rows lie side by side, (units, rows) in one flat array, so that every innermost loop
runs along them, as one vector instruction after the other. Products are made in tiles of four units by four, so that a
number that was loaded is used four times. Everything is in single precision; sums over all rows are in double.

The rows of one chain are summed in one order, whatever other chains there are and however many threads: the bits of
a chain depend on nothing but itself.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cbdl.bayes.compiled.products import BLOCK, NOTHING, ONE, ROWS, Floats, U, product, sums
from cbdl.bayes.likelihoods.rules import CLASSES, LEARNED, VARYING
from cbdl.ground.bits import factor_and_power, times_power
from cbdl.ground.compiling import FORMULAS, SUMS, compiled

Doubles: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Places: TypeAlias = NDArray[np.uint64]

RELU, SILU, TANH = U(1), U(2), U(3)
"""What follows a layer; 0: nothing."""

one, half, zero = np.float32(1), np.float32(0.5), np.float32(0)
HALF_LOG_2PI = np.float32(0.5 * math.log(2 * math.pi))
LOG2E = np.float32(1 / math.log(2))
ROUND = np.float32(1.5 * 2**23)
"""Added to a small number and taken away again it leaves the nearest whole one, whose bits are then at the end."""
LOW, HIGH = np.float32(-87), np.float32(88)
"""Whose exponentials single precision has."""
P1, P2, P3, P4, P5, P6 = (np.float32(math.log(2) ** k / math.factorial(k)) for k in range(1, 7))
"""Of 2^f for f in [-1/2, 1/2], to 1e-7."""
LN2, L1, L2, L3, L4 = (np.float32(number) for number in (math.log(2), 2 / 3, 2 / 5, 2 / 7, 2 / 9))
"""Of log(1 + f) by s^2, s = f / (2 + f), to 1e-8 from sqrt(1/2) to sqrt(2)."""
TINY = 1e-30
"""The least square of a gradient."""


@compiled(FORMULAS)
def exp(x: Any) -> Any:
    """exp(x) of single precision."""
    t = (LOW if x < LOW else HIGH if x > HIGH else x) * LOG2E
    m = t + ROUND
    f = t - (m - ROUND)
    p = one + f * (P1 + f * (P2 + f * (P3 + f * (P4 + f * (P5 + f * P6)))))
    return times_power(p, m)


@compiled(FORMULAS)
def log(x: Any) -> Any:
    """log(x) of positive numbers of single precision that are not subnormal."""
    factor, n = factor_and_power(x)
    f = factor - one
    s = f / (one + factor)
    z = s * s
    return n * LN2 + (f - s * (f - z * (L1 + z * (L2 + z * (L3 + z * L4)))))


# ---------------------------------------------------------------------------------------------- elements


@compiled(SUMS)
def row_sum(d: Floats, o: Any, n: Any) -> Any:
    """sum_r d_or."""
    y, s = o * BLOCK, zero
    for r in range(n):
        s += d[y + r]
    return s


@compiled(SUMS)
def fill(z: Floats, o: Any, number: Any, n: Any) -> None:
    """z_o = number."""
    for r in range(n):
        z[o * BLOCK + r] = number


@compiled(SUMS)
def times(z: Floats, slope: Floats, units: Any, n: Any) -> None:
    """z *= slope, both (units, rows), flat."""
    for o in range(units):
        for r in range(n):
            z[o * BLOCK + r] *= slope[o * BLOCK + r]


@compiled(FORMULAS)
def bend(function: Any, z: Floats, slope: Floats, o: Any, n: Any) -> None:
    """A function of unit o's values, written over them, and its derivatives there."""
    y = o * BLOCK
    if function == RELU:
        for r in range(n):
            slope[y + r] = one if z[y + r] > zero else zero
            z[y + r] = zero if z[y + r] < zero else z[y + r]
    elif function == SILU:
        for r in range(n):
            gate = one / (one + exp(-z[y + r]))
            value = z[y + r] * gate
            z[y + r] = value
            slope[y + r] = gate + value * (one - gate)
    elif function == TANH:
        for r in range(n):
            value = one - (one + one) / (one + exp(z[y + r] + z[y + r]))
            z[y + r] = value
            slope[y + r] = one - value * value
    else:
        for r in range(n):
            slope[y + r] = one


# ------------------------------------------------------------------------------------------- likelihoods


@compiled(FORMULAS)
def varying_scale(raw: Floats, least: Any, scale: Floats, n: Any) -> Any:
    """least + softplus(raw) of n rows, and the sum of their squares."""
    for r in range(n):
        scale[r] = one + exp(-abs(raw[r]))
    squares = 0.0
    for r in range(n):
        scale[r] = least + (zero if raw[r] < zero else raw[r]) + log(scale[r])
        squares += scale[r] * scale[r]
    return squares


@compiled(FORMULAS)
def normal(
    kind: int,
    number: Any,
    out: Floats,
    y: Floats,
    weight: Floats,
    patience: Any,
    d: Floats,
    scale: Floats,
    n: Any,
) -> tuple[Any, Any]:
    """The weighted NLL of n rows under Normal noise, its derivatives d by the outputs, and the one by a log scale.

    `number`: the scale, or the least of it. `patience`: rows count as much as their variance times this; 0: all one.
    """
    nll, by_noise = 0.0, 0.0
    for r in range(n):
        w, s = weight[r], scale[r]
        if patience > zero:
            w = w * s * s * patience
        q = (y[r] - out[r]) / s
        excess = q * q - one
        nll += w * (half * (excess + one) + log(s) + HALF_LOG_2PI)
        d[r] = -w * q / s
        if kind == VARYING:
            # scale = least + softplus(raw), whose derivative is 1 - exp(-softplus(raw))
            d[BLOCK + r] = -w * excess / s * (one - exp(number - s))
        elif kind == LEARNED:
            by_noise -= w * excess * (one - number / s)
    return nll, by_noise


@compiled(FORMULAS)
def classes(
    out: Floats, outs: Any, y: Places, weight: Floats, d: Floats, top: Floats, total: Floats, n: Any
) -> Any:
    """The weighted NLL of n rows under softmax(out), out (outs, rows), flat, and its derivatives d by the outputs."""
    for r in range(n):
        top[r], total[r] = out[r], zero
    for o in range(ONE, outs):
        for r in range(n):
            top[r] = top[r] if out[o * BLOCK + r] < top[r] else out[o * BLOCK + r]
    for o in range(outs):
        for r in range(n):
            odds = exp(out[o * BLOCK + r] - top[r])
            d[o * BLOCK + r] = odds
            total[r] += odds
    nll = 0.0
    for r in range(n):
        nll += weight[r] * (log(total[r]) + top[r] - out[y[r] * BLOCK + r])
        total[r] = weight[r] / total[r]
    for o in range(outs):
        for r in range(n):
            d[o * BLOCK + r] *= total[r]
    for r in range(n):
        d[y[r] * BLOCK + r] -= weight[r]
    return nll


# ---------------------------------------------------------------------------------------------- networks


@compiled(SUMS)
def forward(theta: Floats, layers: Places, x: Floats, values: Floats, slopes: Floats, n: Any) -> None:
    """What every layer gives for n rows x (features, rows): values and slopes (layers, units x rows).

    A row of `layers`: inputs, outputs, where weights begin, whether and where biases do, what function follows.
    """
    h = x
    for k in range(len(layers)):
        ins, outs, at, biased, bias, function = layers[k]
        z = values[k]
        for o in range(outs):
            fill(z, o, theta[bias + o] if biased else zero, n)
        product(theta, at, ONE, ins, h, ins, z, outs, n)
        if k < len(layers) - 1:
            for o in range(outs):
                bend(function, z, slopes[k], o, n)
        h = z


@compiled(SUMS)
def backward(
    theta: Floats,
    layers: Places,
    x: Floats,
    values: Floats,
    slopes: Floats,
    d: Floats,
    other: Floats,
    gradient: Floats,
    n: Any,
) -> None:
    """Add to `gradient` what n rows say, whose derivatives by the outputs are d (units, rows), flat, which is spent."""
    for k in range(len(layers) - 1, -1, -1):
        ins, outs, at, biased, bias, _ = layers[k]
        sums(d, outs, values[k - 1] if k > 0 else x, ins, gradient, at, n)
        if biased:
            for o in range(outs):
                gradient[bias + o] += row_sum(d, o, n)
        if k > 0:
            for i in range(ins):
                fill(other, i, zero, n)
            product(theta, at, ins, ONE, d, outs, other, ins, n)
            times(other, slopes[k - 1], ins, n)
            d, other = other, d


@compiled(SUMS)
def block_of(x: Floats, start: Any, block: Floats) -> Any:
    """Rows from `start` on, transposed into `block` (features, rows), flat; how many of its rows are to be used."""
    rows = min(BLOCK, U(len(x)) - start)
    n = (rows + ROWS - ONE) // ROWS * ROWS
    for i in range(U(x.shape[1])):
        for r in range(rows):
            block[i * BLOCK + r] = x[start + r, i]
        for r in range(rows, n):
            block[i * BLOCK + r] = zero
    return n


@compiled(SUMS)
def mean_variances(
    place: Floats, first: int, last: int, layers: Places, x: Floats, number: Any, variances: Doubles
) -> None:
    """The mean variance of the noise over all rows, for the chains `first` to `last`."""
    values = np.empty((len(layers), layers[:, 1].max() * BLOCK), np.float32)
    slopes = np.empty_like(values)
    block, scale = np.empty(U(x.shape[1]) * BLOCK, np.float32), np.empty(BLOCK, np.float32)
    variances[first:last] = 0.0
    for start in range(NOTHING, U(len(x)), BLOCK):
        n = block_of(x, start, block)
        for c in range(first, last):
            forward(place[c], layers, block, values, slopes, n)
            variances[c] += varying_scale(values[-1, BLOCK:], number, scale, min(n, U(len(x)) - start))
    variances[first:last] /= len(x)


@compiled(SUMS)
def add(
    place: Floats,
    first: int,
    last: int,
    layers: Places,
    kind: int,
    number: Any,
    x: Floats,
    y: Floats,
    labels: Ints,
    weight: Floats,
    factor: Any,
    variances: Doubles,
    value: Doubles,
    slope: Floats,
) -> None:
    """Add factor times the weighted NLL of all rows to `value`, and its gradient to `slope` (chains, P + Q).

    For the chains `first` to `last` of `place` (chains, P + Q). `weight` (1 or chains, rows); `variances` (chains,) of
    `mean_variances` make rows count by their variance, and are 0 where they do not.
    """
    width = max(layers[:, 1].max(), U(2)) * BLOCK
    values = np.empty((len(layers), width), np.float32)
    slopes, d, other = np.empty_like(values), np.empty(width, np.float32), np.empty(width, np.float32)
    block = np.empty(U(x.shape[1]) * BLOCK, np.float32)
    scale, w, top, outcome = np.zeros((4, BLOCK), np.float32)
    label, noise, outs = np.zeros(BLOCK, np.uint64), place.shape[1] - 1, layers[-1, 1]
    for start in range(NOTHING, U(len(x)), BLOCK):
        n = block_of(x, start, block)
        rows = min(n, U(len(x)) - start)
        for r in range(rows, n):
            w[r], outcome[r], label[r] = zero, zero, NOTHING
        for r in range(rows):
            if kind == CLASSES:
                label[r] = U(labels[start + r])
            else:
                outcome[r] = y[start + r]
        for c in range(first, last):
            own = weight[c if len(weight) > 1 else 0]
            for r in range(rows):
                w[r] = factor * own[start + r]
            forward(place[c], layers, block, values, slopes, n)
            out = values[-1]
            if kind == CLASSES:
                value[c] += classes(out, outs, label, w, d, top, scale, n)
            else:
                if kind == VARYING:
                    varying_scale(out[BLOCK:], number, scale, n)
                else:
                    learned = np.float32(math.exp(place[c, noise])) if kind == LEARNED else zero
                    fill(scale, NOTHING, number + learned, n)
                patience = np.float32(1 / variances[c]) if variances[c] > 0 else zero
                nll, by_noise = normal(kind, number, out, outcome, w, patience, d, scale, n)
                value[c] += nll
                if kind == LEARNED:
                    slope[c, noise] += np.float32(by_noise)
            backward(place[c], layers, block, values, slopes, d, other, slope[c], n)


# ------------------------------------------------------------------------------------------------ motion


@compiled(SUMS)
def turn(direction: Floats, slope: Floats, time: Floats, after: Floats, gain: Floats) -> None:
    """`cbdl.bayes.methods._microcanonical.turn` for all chains: directions (chains, d), and the energy gained."""
    d = direction.shape[1]
    for c in range(len(direction)):
        u, g, out = direction[c], slope[c], after[c]
        square, dot = zero, zero
        for i in range(d):
            square += g[i] * g[i]
            dot += u[i] * g[i]
        norm = math.sqrt(square) if not square < TINY else math.sqrt(TINY)
        delta, down = time[c] * norm / (d - 1), -dot / norm
        zeta = math.exp(-delta)
        length = 1 + down + (1 - down) * zeta * zeta
        along = np.float32((1 - zeta) * (1 + zeta + down * (1 - zeta)) / (-norm * length))
        ahead = np.float32(2 * zeta / length)
        for i in range(d):
            out[i] = along * g[i] + ahead * u[i]
        gain[c] = (d - 1) * (delta + math.log(0.5 * length))
