"""Loops that numba compiles: highest density regions of mixtures, one after the other.

1. log p and its derivatives at nodes: even ones between the outermost locations, some more on either side.
2. Level and ends on polynomials between the nodes (as in `quintic`).
3. Steps on the mixture itself, for the level and all ends at once, each of which cubes the error, until the last one
   was so short that the next would be below rounding.
4. The proof that there are no other crossings of this level. In units of the least scale f = log p has f'' >= -1. So f
   lies above the parabolas through a node that bend as much, and at most width^2 / 8 above the higher end of a cell;
   and it rises along a cell if it does at its left end by more than the width, or falls if it does at its right end.
   Beyond the outermost locations it is monotone. A cell for which none of this says enough is halved.

Mixtures with which this does not come out are tried again with turning points among the nodes. What still does not (a
level that touches a mode, or too many ends) is for the general way (`hdr`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cbdl.credal.line.compiled.numbers import TINY, Doubles, U
from cbdl.credal.line.compiled.sum_loops import (
    LANES,
    PARTS,
    derivatives,
    laid_out,
    on_nodes,
    outside_of,
    walked,
)
from cbdl.ground.compiling import FORMULAS, SUMS, compiled

LEAST, MOST = math.log(1e-3), math.log(0.5)
"""Of log alpha: the nodes see no less, and with more the mass inside would have to be summed."""
CELL = 0.6
"""Width of a cell between locations, in least scales."""
NODES, SIDE, REACH = 4104, 14, 4.5
"""Nodes at most, no power of two: rows would share their places in the cache. Cells on either side, up to so many
scales from a location, the first about as wide as others."""
DOUBLINGS, STRAIGHT = 6, 30.0
"""Of the distance of nodes on a side, at most; length in least scales up to which all densities are followed from one
end: none is below rounding of the least number there."""
HALVINGS, DEPTH, SKETCHES, PARABOLAS = 10, 15.0, 24, 3
"""Halvings of the levels in question, from the highest down; steps on polynomials, and to a crossing on them."""
CLOSE = 1e-6
"""Of a level on polynomials."""
TURNS = 40
"""Steps to a turning point."""
ROUNDS, TRIES, SETTLED = 6, 3, 3e-5
"""Steps on the mixture; on parabolas for each; and the share of its natural length that the last one may have: after it
an end is known to full precision."""
SURE, SMALLEST = 1e-10, 2.0**-18
"""What log p and its slope may be off by, and more; the share of a cell down to which it is halved."""


@compiled(FORMULAS)
def at(y: Any, start: Any, unit: Any, loc: Doubles, scale: Doubles, weight: Doubles) -> tuple[Any, Any, Any]:
    """log p, p'/p and p''/p at one place, all in the least scale."""
    p, slope, bend = 0.0, 0.0, 0.0
    for k in range(len(loc)):
        if weight[k] > 0.0:
            each = unit / scale[k]
            z = (start - loc[k]) / scale[k] + each * y
            t = weight[k] * each * math.exp(-0.5 * z * z)
            p += t
            slope -= t * z * each
            bend += t * (z * z - 1.0) * each * each
    p = max(p, TINY)
    return math.log(p / math.sqrt(2 * math.pi)), slope / p, bend / p


@compiled(FORMULAS)
def turning(
    a: Any, b: Any, rises: bool, start: Any, unit: Any, loc: Doubles, scale: Doubles, weight: Doubles
) -> tuple[Any, Any, Any]:
    """A place from a to b where p turns, which rises at a or falls there; log p and p''/p at this place."""
    y, f, bend = 0.5 * (a + b), 0.0, 0.0
    for _ in range(TURNS):
        f, slope, bend = at(y, start, unit, loc, scale, weight)
        if (slope > 0.0) == rises:
            a = y
        else:
            b = y
        after = y - slope / bend
        if not a < after < b:
            after = 0.5 * (a + b)
        if abs(after - y) < CLOSE:
            break
        y = after
    return y, f, bend


@compiled(FORMULAS)
def cell_mass(w: Any, p: Any, d0: Any, b0: Any, q: Any, d1: Any, b1: Any) -> Any:
    """The integral of a density over a cell, from p, p'/p and p''/p at both ends: exact to degree five."""
    return w * (0.5 * (p + q) + w * (0.1 * (p * d0 - q * d1) + w / 120.0 * (p * b0 + q * b1)))


@compiled(FORMULAS)
def parabola(value: Any, first: Any, second: Any) -> Any:
    """The smaller root of value + first d + second d^2 / 2; Newton's step where that has none."""
    inside = math.sqrt(max(first * first - 2 * value * second, 0.0))
    if not inside > 0.0:
        inside = abs(first)
    return -2 * value / (first + math.copysign(inside, first))


@compiled(FORMULAS)
def crossing(u: Any, w: Any, f0: Any, d0: Any, c0: Any, f1: Any, d1: Any, c1: Any) -> tuple[Any, Any, Any]:
    """Where along a cell (from 0 to 1) the polynomial through both ends is about u, with its derivatives there."""
    a, b, c = f0, d0 * w, 0.5 * w * w * c0
    value, slope, bend = f1 - a - b - c, d1 * w - b - 2 * c, 0.5 * w * w * c1 - c
    d, e, g = 10 * value - 4 * slope + bend, -15 * value + 7 * slope - 2 * bend, 6 * value - 3 * slope + bend
    t, first, second = min(max((u - f0) / (f1 - f0), 0.0), 1.0), 0.0, 0.0
    for turn in range(PARABOLAS + 1):
        first = b + t * (2 * c + t * (3 * d + t * (4 * e + t * 5 * g)))
        second = 2 * c + t * (6 * d + t * (12 * e + t * 20 * g))
        if turn < PARABOLAS:
            miss = a + t * (b + t * (c + t * (d + t * (e + t * g)))) - u
            move = t + parabola(miss, first, second)
            t = min(max(move, 0.0), 1.0) if move == move else 0.5
    return t, first, second


@compiled(SUMS)
def mass_above(u: Any, f: Doubles, mass: Doubles, n: Any) -> Any:
    """The masses around the nodes above a level."""
    total = 0.0
    for i in range(n):
        total += mass[i] if f[i] >= u else 0.0
    return total


@compiled(FORMULAS)
def cut(grid: Doubles, n: int, u: Any, ends: Doubles) -> tuple[Any, Any, int]:
    """The mass below a level, on polynomials between nodes; how fast it grows with the level; the number of ends."""
    y, f, slope, bend, p, cell = grid[0], grid[1], grid[2], grid[3], grid[4], grid[5]
    outside, rate, count = p[0] / abs(slope[0]) + p[n - 1] / abs(slope[n - 1]), 0.0, 0
    level = math.exp(u)
    for i in range(n - 1):
        below, after = f[i] < u, f[i + 1] < u
        if below and after:
            outside += cell[i]
        elif below != after:
            w = y[i + 1] - y[i]
            c0, c1 = bend[i] - slope[i] * slope[i], bend[i + 1] - slope[i + 1] * slope[i + 1]
            t, d, c = crossing(u, w, f[i], slope[i], c0, f[i + 1], slope[i + 1], c1)
            d /= w
            curve = c / (w * w) + d * d
            if below:
                outside += cell_mass(t * w, p[i], slope[i], bend[i], level, d, curve)
            else:
                outside += cell_mass((1 - t) * w, level, d, curve, p[i + 1], slope[i + 1], bend[i + 1])
            rate += level / max(abs(d), CLOSE)
            if count < len(ends):
                ends[count] = y[i] + t * w
            count += 1
    return outside, rate, count


@compiled(FORMULAS)
def sketch(grid: Doubles, n: int, log_alpha: float, ends: Doubles) -> int:
    """About the ends of the region, on polynomials between the nodes; how many, or 0 if it does not come out."""
    y, f, slope, bend, p, cell, node = grid[0], grid[1], grid[2], grid[3], grid[4], grid[5], grid[6]
    top = -math.inf
    node[0] = p[0] / abs(slope[0])
    for i in range(n - 1):
        cell[i] = cell_mass(y[i + 1] - y[i], p[i], slope[i], bend[i], p[i + 1], slope[i + 1], bend[i + 1])
        node[i] += 0.5 * cell[i]
        node[i + 1] = 0.5 * cell[i]
        top = max(top, f[i])
    node[n - 1] += p[n - 1] / abs(slope[n - 1])
    low, high, content = top - DEPTH, top, -math.expm1(log_alpha)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if mass_above(middle, f, node, U(n)) < content:
            high = middle
        else:
            low = middle
    u = 0.5 * (low + high)
    low, high = top - DEPTH, top
    for _ in range(SKETCHES):
        outside, rate, count = cut(grid, n, u, ends)
        miss = math.log(max(outside, TINY)) - log_alpha
        if miss > 0.0:
            high = u
        else:
            low = u
        after = u - miss * outside / rate
        if not low < after < high:
            after = 0.5 * (low + high)
        if abs(after - u) < CLOSE:
            break
        u = after
    sure = f[0] < u and f[n - 1] < u and 0 < count <= len(ends) and count % 2 == 0
    return count if sure else 0


@compiled(FORMULAS)
def polished(
    unit: Any, parts: Doubles, log_alpha: float, ends: Doubles, score: Doubles, count: int, work: Doubles
) -> float:
    """The level of the region whose ends are moved to full precision, with p'/p there; nan if that does not come out.

    The ends are from the start of `parts`; `work` (4, ENDS) is memory.
    """
    f, bend, p, move = work[0], work[1], work[2], work[3]
    away, inverse, height, weight, K = parts[0], parts[1], parts[2], parts[3], U(parts.shape[1])
    for _ in range(ROUNDS):
        outside, level = outside_of(ends, count, away, inverse, weight, K), 0.0
        for j in range(count):
            p[j], score[j], bend[j] = derivatives(ends[j], away, inverse, height, K)
            if not p[j] > TINY:
                return math.nan
            f[j] = math.log(p[j])
            score[j] /= p[j]
            bend[j] /= p[j]
            level += f[j] / count
        # log p is a parabola near each end: its root for a level, and the mass between, make the mass outside a
        # function of the level alone.
        for turn in range(TRIES + 1):
            now, rate = outside, 0.0
            for j in range(count):
                curve = bend[j] - score[j] * score[j]
                m = parabola(f[j] - level, score[j], curve)
                move[j] = m
                gain = p[j] * m * (1 + m * (0.5 * score[j] + m * bend[j] / 6))
                now += gain if j % 2 == 0 else -gain
                rate += p[j] * (1 + score[j] * m) / abs(score[j] + curve * m)
            if turn < TRIES:
                now = max(now, TINY)
                level -= (math.log(now) - log_alpha) * now / rate
        off = 0.0
        for j in range(count):
            ends[j] += move[j]
            off = max(off, abs(move[j]) * max(1.0 / unit, abs(score[j])))
            score[j] += (bend[j] - score[j] * score[j]) * move[j]
        if off <= SETTLED:
            return level
        if not off < 1.0:
            return math.nan
    return math.nan


@compiled(FORMULAS)
def proved(
    grid: Doubles,
    n: int,
    outer: int,
    u: float,
    start: Any,
    unit: Any,
    loc: Doubles,
    scale: Doubles,
    weight: Doubles,
    ends: Doubles,
    count: int,
) -> bool:
    """Whether p crosses the level u exactly at the ends (in least scales, as u is)."""
    y, f, slope = grid[0], grid[1], grid[2]
    found, inside = 0, False
    for i in range(n - 1):
        left, f0, d0 = y[i], f[i], slope[i]
        whole = y[i + 1] - left
        right, f1, d1 = y[i + 1], f[i + 1], slope[i + 1]
        while True:
            w = right - left
            bow = w * w / 8
            rising = i < outer or d0 > w + SURE
            falling = i >= n - 1 - outer or d1 < -w - SURE
            crosses = False
            if max(f0, f1) + (0.0 if rising or falling else bow) < u - SURE:
                sure = not inside
            elif min(f0, f1) > u + SURE and (
                rising or falling or min(f0 + 0.5 * w * d0, f1 - 0.5 * w * d1) - bow > u + SURE
            ):
                sure = inside
            else:
                crosses = (rising and f0 < u < f1 and not inside) or (falling and f0 > u > f1 and inside)
                sure = crosses
            if crosses:
                slip = SURE * (1.0 + abs(left))
                if found == count or not left - slip <= ends[found] <= right + slip:
                    return False
                found += 1
                inside = not inside
            if not sure:
                if w <= SMALLEST * whole:
                    return False
                right = 0.5 * (left + right)
                f1, d1, _ = at(right, start, unit, loc, scale, weight)
                continue
            if right == y[i + 1]:
                break
            left, f0, d0 = right, f1, d1
            right, f1, d1 = y[i + 1], f[i + 1], slope[i + 1]
    return found == count and not inside


@compiled(FORMULAS)
def doublings(far: Any) -> int:
    """How often the distance of the nodes on a side has to double, from 1 on, for them to come so far."""
    wide, reach = 0, float(SIDE)
    while reach < far and wide <= DOUBLINGS:
        wide, reach = wide + 1, 0.0
        for i in range(SIDE):
            reach += 2.0 ** (i * (wide + 1) // SIDE)
    return wide


@compiled(FORMULAS)
def nodes(
    grid: Doubles,
    begin: Any,
    end: Any,
    unit: Any,
    loc: Doubles,
    scale: Doubles,
    weight: Doubles,
    parts: Doubles,
    runs: Doubles,
) -> Any:
    """The nodes for a mixture with locations from `begin` to `end`, and its values there; how many, or 0: too many.

    `parts` are its components, laid out from `begin`; `runs` (3, as many) is memory. Nodes between the locations are
    even, and those on either side at the same distance, which doubles as often as is needed to come out far enough.
    """
    left, right = 0.0, 0.0
    for k in range(len(loc)):
        if weight[k] > 0.0:
            left = max(left, begin - (loc[k] - REACH * scale[k]))
            right = max(right, loc[k] + REACH * scale[k] - end)
    left, right, length = left / unit, right / unit, (end - begin) / unit
    if not length <= CELL * (NODES // 2 - 2 * SIDE - 1):  # turning points have to find room
        return 0
    inner = math.ceil(length / CELL)
    n = inner + 1 + 2 * SIDE
    y, h = grid[0], length / inner if inner > 0 else CELL
    for i in range(inner + 1):
        y[SIDE + i] = i * h
    wide = doublings(max(left, right) / h)
    if wide <= DOUBLINGS and length <= STRAIGHT:
        for i in range(SIDE):
            step = h * 2.0 ** (i * (wide + 1) // SIDE)
            y[SIDE - 1 - i], y[SIDE + inner + 1 + i] = y[SIDE - i] - step, y[SIDE + inner + i] + step
        walked(grid, SIDE, n - 1, unit, parts, runs)
        walked(grid, SIDE - 1, 0, unit, parts, runs)
        return n
    for i in range(SIDE):
        t = (SIDE - i) / SIDE
        even = CELL * SIDE * t
        y[i] = -(even + max(left - CELL * SIDE, 0.0) * t**4 if left > CELL * SIDE else left * t)
        y[n - 1 - i] = length + (even + (right - CELL * SIDE) * t**4 if right > CELL * SIDE else right * t)
    on_nodes(grid, n, unit, parts)
    return n


@compiled(FORMULAS)
def turned(
    grid: Doubles, n: int, fine: Doubles, start: Any, unit: Any, loc: Doubles, scale: Doubles, weight: Doubles
) -> int:
    """The same nodes with turning points between them; how many."""
    more = 0
    for i in range(n):
        for row in range(5):
            fine[row, more] = grid[row, i]
        more += 1
        a, b = grid[2, i], grid[2, min(i + 1, n - 1)]
        if a * b < 0.0:
            y, f, bend = turning(grid[0, i], grid[0, i + 1], a > 0.0, start, unit, loc, scale, weight)
            fine[0, more], fine[1, more], fine[2, more] = y, f, 0.0
            fine[3, more], fine[4, more] = bend, math.exp(f)
            more += 1
    return more


@compiled(FORMULAS)
def regions(
    first: int,
    last: int,
    loc: Doubles,
    scale: Doubles,
    weight: Doubles,
    log_alpha: Doubles,
    start: Doubles,
    level: Doubles,
    low: Doubles,
    score: Doubles,
    count: Any,
) -> None:
    """Of the mixtures `first` to `last`: levels, nan where not sure, and the ends start + low, with p'/p there.

    Parameters (B, K); low and score (B, ENDS), of which the first `count` (B,) are ends.
    """
    most = low.shape[1]
    grid, fine = np.empty((7, NODES)), np.empty((7, NODES))
    work, ends = np.empty((4, most)), np.empty(most)
    parts = np.empty((PARTS, -(-loc.shape[1] // LANES) * LANES))
    runs = np.empty((3, parts.shape[1]))
    for b in range(first, last):
        level[b], count[b], start[b] = math.nan, 0, math.nan
        if not LEAST <= log_alpha[b] <= MOST:
            continue
        begin, end, unit = math.inf, -math.inf, math.inf
        for k in range(loc.shape[1]):
            if weight[b, k] > 0.0:
                begin, end = min(begin, loc[b, k]), max(end, loc[b, k])
                unit = min(unit, scale[b, k])
        laid_out(begin, loc[b], scale[b], weight[b], parts)
        n = nodes(grid, begin, end, unit, loc[b], scale[b], weight[b], parts, runs)
        for turn in range(2 if n > 0 else 0):
            if turn == 0:
                own = sketch(grid, n, log_alpha[b], ends)
            else:
                more = turned(grid, n, fine, begin, unit, loc[b], scale[b], weight[b])
                own = sketch(fine, more, log_alpha[b], ends)
            if own == 0:
                continue
            for j in range(own):
                low[b, j] = ends[j] * unit
            u = polished(unit, parts, log_alpha[b], low[b], score[b], own, work)
            if math.isnan(u):
                continue
            for j in range(own):
                ends[j] = low[b, j] / unit
            shown = u + math.log(unit)
            if proved(grid, n, SIDE, shown, begin, unit, loc[b], scale[b], weight[b], ends, own):
                level[b], count[b], start[b] = u, own, begin
                break
