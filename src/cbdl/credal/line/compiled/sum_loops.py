"""Loops that numba compiles: sums over all components of a mixture, at nodes, at ends of regions, in intervals and on
meshes.

Components are the lanes of vectors: their numbers are laid out side by side once, filled up with components of no
weight to whole vectors, and every place that is asked for is one pass over them.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cbdl.credal.line.compiled.numbers import TINY, Doubles, U, exp, log, mills
from cbdl.ground.compiling import FORMULAS, SUMS, compiled

Ints: TypeAlias = NDArray[np.int64]

LANES = 16
"""Components are filled up to a multiple of it."""
PARTS = 4
"""Numbers of a component: its location from the start, 1 / scale, the height of its density, and its weight."""
FAR = 1400.0
"""Squares of z beyond which densities no longer fall: exp(-700) is left of them."""
SHORT = 0.1
"""As `cbdl.credal.line.mixture.SHORT`."""


@compiled(FORMULAS)
def laid_out(start: Any, loc: Doubles, scale: Doubles, weight: Doubles, parts: Doubles) -> None:
    """The components of a mixture as `parts` (PARTS, at least K)."""
    K, whole = len(loc), parts.shape[1]
    for k in range(K):
        there = weight[k] > 0.0
        inverse = 1.0 / scale[k] if there else 1.0
        parts[0, k] = start - loc[k] if there else 0.0
        parts[1, k] = inverse
        parts[2, k] = weight[k] * inverse / math.sqrt(2 * math.pi)
        parts[3, k] = weight[k]
    for k in range(K, whole):
        parts[0, k], parts[1, k], parts[2, k], parts[3, k] = 0.0, 1.0, 0.0, 0.0


@compiled(SUMS)
def derivatives(y: Any, off: Doubles, inverse: Doubles, height: Doubles, K: Any) -> tuple[Any, Any, Any]:
    """p, p' and p'' at start + y."""
    p, slope, bend = 0.0, 0.0, 0.0
    for k in range(K):
        z = (off[k] + y) * inverse[k]
        square = z * z
        t = height[k] * exp(-0.5 * square if square < FAR else -0.5 * FAR)
        s = t * z * inverse[k]
        p += t
        slope -= s
        bend += (s * z - t * inverse[k]) * inverse[k]
    return p, slope, bend


@compiled(SUMS)
def mass_beyond(y: Any, sign: Any, off: Doubles, inverse: Doubles, weight: Doubles, K: Any) -> Any:
    """The mass below start + y for a sign of 1, above it for a sign of -1, to all digits where it is small."""
    total = 0.0
    for k in range(K):
        z = (off[k] + y) * inverse[k] * sign
        square, x = z * z, abs(z)
        q = exp(-0.5 * square if square < FAR else -0.5 * FAR) * mills(x)
        total += weight[k] * (q if z < 0.0 else 1.0 - q)
    return total


@compiled(SUMS)
def mass_between(a: Any, b: Any, off: Doubles, inverse: Doubles, weight: Doubles, K: Any) -> Any:
    """The mass from start + a to start + b; where both lie on one side of a location tails are subtracted."""
    total = 0.0
    for k in range(K):
        u, v = (off[k] + a) * inverse[k], (off[k] + b) * inverse[k]
        first, second = u * u, v * v
        q = exp(-0.5 * first if first < FAR else -0.5 * FAR) * mills(abs(u))
        r = exp(-0.5 * second if second < FAR else -0.5 * FAR) * mills(abs(v))
        one_side = q - r if u > 0.0 else r - q
        total += weight[k] * (1.0 - q - r if u <= 0.0 <= v else one_side)
    return total


@compiled(SUMS)
def outside_of(ends: Doubles, count: int, off: Doubles, inverse: Doubles, weight: Doubles, K: Any) -> Any:
    """The mass outside of intervals with these ends, from the start, to all digits."""
    total = mass_beyond(ends[0], 1.0, off, inverse, weight, K)
    total += mass_beyond(ends[count - 1], -1.0, off, inverse, weight, K)
    for j in range(1, count - 1, 2):
        total += mass_between(ends[j], ends[j + 1], off, inverse, weight, K)
    return total


@compiled(FORMULAS)
def on_nodes(grid: Doubles, n: int, unit: Any, parts: Doubles) -> None:
    """log p, p'/p, p''/p and p at n nodes grid[0], as the rows 1 to 4 of `grid`; all in units."""
    y, f, slope, bend, p = grid[0], grid[1], grid[2], grid[3], grid[4]
    K = U(parts.shape[1])
    for i in range(n):
        own, first, second = derivatives(y[i] * unit, parts[0], parts[1], parts[2], K)
        own = own if own * unit > TINY else TINY / unit
        p[i], slope[i], bend[i] = own * unit, first / own * unit, second / own * unit * unit
    for i in range(n):
        f[i] = log(p[i])


@compiled(FORMULAS)
def begun(y: Any, h: Any, parts: Doubles, runs: Doubles, K: Any) -> None:
    """`runs` (3, K): the densities at start + y, their ratios to those at a distance of h, and how these fall."""
    for k in range(K):
        z, e = (parts[0, k] + y) * parts[1, k], h * parts[1, k]
        runs[0, k] = parts[2, k] * exp(-0.5 * z * z)
        runs[1, k], runs[2, k] = exp(-e * (z + 0.5 * e)), exp(-e * e)


@compiled(SUMS)
def stepped(
    y: Any, off: Doubles, inverse: Doubles, g: Doubles, r: Doubles, q: Doubles, K: Any
) -> tuple[Any, Any, Any]:
    """As `derivatives`, from densities g at start + y, which go on to the next node, by r, as ratios do by q."""
    p, slope, bend = 0.0, 0.0, 0.0
    for k in range(K):
        z, t = (off[k] + y) * inverse[k], g[k]
        s = t * z * inverse[k]
        p += t
        slope -= s
        bend += (s * z - t * inverse[k]) * inverse[k]
        g[k] = t * r[k]
        r[k] *= q[k]
    return p, slope, bend


@compiled(FORMULAS)
def doubled(runs: Doubles, K: Any) -> None:
    """Runs whose next node is twice as far."""
    for k in range(K):
        q = runs[2, k]
        runs[1, k] *= runs[1, k] * q
        q *= q
        runs[2, k] = q * q


@compiled(FORMULAS)
def walked(grid: Doubles, first: int, last: int, unit: Any, parts: Doubles, runs: Doubles) -> None:
    """As `on_nodes`, from the node `first` to the node `last` in either direction, without an exponential per node.

    Distances are equal or twice those before. In units of eps / 2, ratios are off by 60 at first (their logarithms are
    up to 18), by 4 more after every node, twice as much after doubling; densities by the sum of that, 1e-12 between the
    locations and 1e-11 on the sides.
    """
    y, f, slope, bend, p = grid[0], grid[1], grid[2], grid[3], grid[4]
    K, way = U(parts.shape[1]), 1 if last > first else -1
    h = y[first + way] - y[first]
    begun(y[first] * unit, h * unit, parts, runs, K)
    for i in range(first, last + way, way):
        if i != last and abs(y[i + way] - y[i]) > 1.5 * abs(h):
            doubled(runs, K)
            h *= 2.0
        own, d, c = stepped(y[i] * unit, parts[0], parts[1], runs[0], runs[1], runs[2], K)
        own = own if own * unit > TINY else TINY / unit
        p[i], slope[i], bend[i], f[i] = own * unit, d / own * unit, c / own * unit * unit, log(own * unit)


@compiled(FORMULAS)
def narrow(width: Any, a: Any, off: Doubles, inverse: Doubles, weight: Doubles, K: Any) -> bool:
    """Whether an interval from start + a is so short, for some component, that tails would cancel."""
    least = math.inf
    for k in range(K):
        own = width * inverse[k] * (1.0 + abs((off[k] + a) * inverse[k]))
        own = own if weight[k] > 0.0 else math.inf
        least = own if own < least else least
    return least < SHORT


@compiled(FORMULAS)
def masses(
    first: int,
    last: int,
    loc: Doubles,
    scale: Doubles,
    weights: Doubles,
    owner: Ints,
    start: Doubles,
    end: Doubles,
    mass: Doubles,
) -> None:
    """(R, m): the masses of the intervals `first` to `last` of the sets `owner`, nan where loops are not sure.

    `start` and `end` (R, 2): numbers and what is to be added to them; parameters (B, m, K).
    """
    K = -(-loc.shape[2] // LANES) * LANES
    parts = np.empty((PARTS, K))
    for r in range(first, last):
        b, here = owner[r], start[r, 0]
        low, high = start[r, 1], (end[r, 0] - here) + end[r, 1]
        finite = -math.inf < low < math.inf and -math.inf < high < math.inf
        for j in range(loc.shape[1]):
            mass[r, j] = math.nan
            if not finite:
                continue
            laid_out(here, loc[b, j], scale[b, j], weights[b, j], parts)
            if not narrow(high - low, low, parts[0], parts[1], parts[3], U(K)):
                mass[r, j] = mass_between(low, high, parts[0], parts[1], parts[3], U(K))


@compiled(FORMULAS)
def in_reach(
    anchor: Doubles, offset: Doubles, loc: Any, inverse: Any, points: Any, panels: Any
) -> tuple[Any, Any]:
    """The nodes from the first panel that a component reaches to the last one: from where and to where."""
    first, last, reach = panels, U(0), math.sqrt(FAR)
    for s in range(panels):
        left, right = s * points, (s + U(1)) * points - U(1)
        a = ((anchor[left] - loc) + offset[left]) * inverse
        b = ((anchor[right] - loc) + offset[right]) * inverse
        if (a < reach or b < reach) and (a > -reach or b > -reach):
            first, last = min(first, s), s + U(1)
    return first * points, last * points


@compiled(SUMS)
def add_component(
    p: Doubles, anchor: Doubles, offset: Doubles, loc: Any, inverse: Any, height: Any, begin: Any, end: Any
) -> None:
    """p_n += height exp(-z_n^2 / 2) at the nodes from `begin` to `end`."""
    for n in range(begin, end):
        z = ((anchor[n] - loc) + offset[n]) * inverse
        square = z * z
        p[n] += height * exp(-0.5 * square if square < FAR else -0.5 * FAR)


@compiled(FORMULAS)
def on_meshes(
    first: int,
    last: int,
    points: int,
    anchor: Doubles,
    offset: Doubles,
    loc: Doubles,
    scale: Doubles,
    weights: Doubles,
    p: Doubles,
) -> None:
    """p (B, m, N) becomes the densities of the extremes of the sets `first` to `last` at nodes anchor + offset (B, N).

    Nodes are those of panels of so many points, in order within each.
    """
    panels = U(anchor.shape[1] // points)
    for b in range(first, last):
        for j in range(loc.shape[1]):
            for n in range(anchor.shape[1]):
                p[b, j, n] = 0.0
            for k in range(loc.shape[2]):
                if weights[b, j, k] > 0.0:
                    mu, inverse = loc[b, j, k], 1.0 / scale[b, j, k]
                    height = weights[b, j, k] * inverse / math.sqrt(2 * math.pi)
                    begin, end = in_reach(anchor[b], offset[b], mu, inverse, U(points), panels)
                    add_component(p[b, j], anchor[b], offset[b], mu, inverse, height, begin, end)
