"""Loops that numba compiles: entropies of mixtures on even grids, and upper entropies, set after set.

The same numbers as those of `even` and `cbdl.credal.entropy` by tensor operations. But all that is done with a set is
done while its densities are in the nearest cache, no set waits for others of its size, components are evaluated where
they count only, and a set is done when it is: sets that need few steps take few.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cbdl.credal.line.compiled.lanes import PARTS, SLIP, mixture
from cbdl.credal.line.compiled.numbers import TINY, Doubles, U, log
from cbdl.ground.compiling import FORMULAS, SUMS, compiled

Ints: TypeAlias = NDArray[np.int64]

EPS = float(np.finfo(np.float64).eps)
THIN = 4
"""Weights of the upper entropy are first found on every fourth node,"""
ROUGH, STEPS, INSIDE = 1e-6, 8.0, 1e-7
"""to this gap or in so many steps, so far inside the simplex;"""
MOST = 80.0
"""then on all nodes, in so many steps at most."""

# --- entropies on a grid ----------------------------------------------------------------------------------


@compiled(FORMULAS)
def logs(q: Doubles, log_q: Doubles, N: Any) -> None:
    """log q, where q is made positive."""
    for n in range(N):
        q[n] = q[n] if q[n] > TINY else TINY
        log_q[n] = log(q[n])


@compiled(SUMS)
def entropy(q: Doubles, log_q: Doubles, unit: Any, step: Any, N: Any) -> tuple[Any, Any]:
    """The entropy of a density in nats, and an estimate of its error, as `even.EvenGrid.entropy` has them.

    A density in the least scale is below 1, so that all terms have one sign: what densities are off by moves their sum
    by no more than this share of it, and of their mass.
    """
    a, b, c, d, top = 0.0, 0.0, 0.0, 0.0, 0.0
    for n in range(U(0), N, U(4)):
        a += q[n] * log_q[n]
        b += q[n + U(1)] * log_q[n + U(1)]
        c += q[n + U(2)] * log_q[n + U(2)]
        d += q[n + U(3)] * log_q[n + U(3)]
    for n in range(N):
        top = q[n] if q[n] > top else top
    full, half, quarter = step * (a + b + c + d), 2 * step * (a + c), 4 * step * a
    fine, coarse = abs(full - half), abs(half - quarter)
    error = fine * min(fine / max(coarse, TINY), 1.0)
    noise = EPS * (4 * abs(full) + 40 * step * float(N) * top) + SLIP * (abs(full) + 1.0)
    return math.log(unit) - full, error + noise


# --- the upper entropy ------------------------------------------------------------------------------------


@compiled(SUMS)
def blend(p: Doubles, beta: Doubles, q: Doubles, N: Any) -> None:
    """q = sum_j beta_j p_j."""
    for n in range(N):
        q[n] = beta[0] * p[0, n]
    for j in range(1, len(beta)):
        for n in range(N):
            q[n] += beta[j] * p[j, n]


@compiled(SUMS)
def dot(a: Doubles, b: Doubles, N: Any) -> Any:
    """sum_n a_n b_n."""
    s = 0.0
    for n in range(N):
        s += a[n] * b[n]
    return s


@compiled(SUMS)
def shares(p: Doubles, q: Doubles, out: Doubles, N: Any) -> None:
    """p / q."""
    for n in range(N):
        out[n] = p[n] / q[n]


@compiled(FORMULAS)
def factor(A: Doubles) -> None:
    """The lower Cholesky factor of A, in its place."""
    for j in range(len(A)):
        for k in range(j + 1):
            s = A[j, k]
            for i in range(k):
                s -= A[j, i] * A[k, i]
            A[j, k] = math.sqrt(s) if j == k else s / A[k, k]


@compiled(FORMULAS)
def solve(L: Doubles, x: Doubles) -> None:
    """x becomes A^-1 x, A = L L'."""
    m = len(x)
    for j in range(m):
        s = x[j]
        for i in range(j):
            s -= L[j, i] * x[i]
        x[j] = s / L[j, j]
    for j in range(m - 1, -1, -1):
        s = x[j]
        for i in range(j + 1, m):
            s -= L[i, j] * x[i]
        x[j] = s / L[j, j]


@compiled(FORMULAS)
def within(least: Any) -> Any:
    """The largest step t <= 1 that keeps 1 + t * least >= 0."""
    return 1.0 / max(-least, 1.0)


@compiled(FORMULAS)
def project(free: Doubles, ones: Doubles) -> None:
    """A step that leaves the sum of the weights as it is."""
    total = 0.0
    for j in range(len(free)):
        total += free[j]
    for j in range(len(free)):
        free[j] -= total * ones[j]


@compiled(FORMULAS)
def newton(beta: Doubles, z: Doubles, gradient: Doubles, A: Doubles, bold: bool, memory: Doubles) -> None:
    """One step of `cbdl.credal.solvers.simplex`, from the Hessian A, whose lower half is spent; memory (4, m)."""
    m = len(beta)
    free, ones, target, move = memory[0], memory[1], memory[2], memory[3]
    mu, total = 0.0, 0.0
    for j in range(m):
        mu += beta[j] * z[j] / m
        A[j, j] += z[j] / beta[j]
        free[j], ones[j] = -gradient[j], 1.0
    factor(A)
    solve(A, free)
    solve(A, ones)
    for j in range(m):
        total += ones[j]
    for j in range(m):
        ones[j] /= total
        move[j] = free[j]
    project(move, ones)
    # Predictor, target 0: how far the complementarity can fall at once.
    low, high, first, second = math.inf, -math.inf, 0.0, 0.0
    for j in range(m):
        r, product = move[j] / beta[j], beta[j] * z[j]
        low, high = min(low, r), max(high, r)
        first, second = first + product * r / m, second + product * r * r / m
        target[j] = product * r * (1.0 + r)
    t_beta, t_z = within(low), within(-1.0 - high)
    after = (1 - t_z) * mu + (t_beta - t_beta * t_z - t_z) * first - t_beta * t_z * second
    sigma = min(max(after / mu, 0.0), 1.0) ** 3
    if not bold:
        sigma = max(sigma, 0.1)
    # Corrector: towards the centre, with the second-order term of the predictor.
    for j in range(m):
        target[j] = (target[j] + sigma * mu) / beta[j]
        move[j] = target[j]
    solve(A, move)
    for j in range(m):
        move[j] += free[j]
    project(move, ones)
    low, high = math.inf, math.inf
    for j in range(m):
        r = move[j] / beta[j]
        target[j] = target[j] / z[j] - r
        low, high = min(low, r), min(high, target[j] - 1.0)
    t = (min(max(1.0 - mu, 0.99), 1.0 - 1e-6) if bold else 0.99) * min(within(low), within(high))
    total = 0.0
    for j in range(m):
        beta[j] += t * move[j]
        z[j] *= 1.0 - t + t * target[j]
        total += beta[j]
    mu = 0.0
    for j in range(m):
        beta[j] /= total
        mu += beta[j] * z[j] / m
    if not bold:
        for j in range(m):
            z[j] = min(max(z[j], 1e-3 * mu / beta[j]), 1e3 * mu / beta[j])


@compiled(FORMULAS)
def optimum(
    p: Doubles,
    N: Any,
    step: Any,
    tolerance: float,
    most: float,
    beta: Doubles,
    rows: Doubles,
    memory: Doubles,
) -> float:
    """beta becomes the weights of the highest entropy on N nodes; the gap that is proved of them.

    `rows` (3, at least N) and `memory` (m + 7, m) are to work in. See `cbdl.credal.solvers.simplex.minimise`.
    """
    m = len(beta)
    q, log_q, share = rows[0], rows[1], rows[2]
    A, gradient, z, best = memory[:m], memory[m], memory[m + 1], memory[m + 2]
    best_gap, last, bold = math.inf, math.inf, True
    for turn in range(int(most) + 1):
        blend(p, beta, q, N)
        logs(q, log_q, N)
        value, least, gap = step * dot(q, log_q, N), math.inf, 0.0
        for j in range(m):
            gradient[j] = step * dot(p[j], log_q, N)
            least = min(least, gradient[j])
        for j in range(m):
            gap += (gradient[j] - least) * beta[j]
        if gap < best_gap:
            best_gap = gap
            for j in range(m):
                best[j] = beta[j]
        bold = bold and gap < 0.9 * last
        last = gap
        if turn == most or not gap > tolerance * max(abs(value), 1.0):
            break
        for j in range(m):
            shares(p[j], q, share, N)
            for k in range(j + 1):
                A[j, k] = step * dot(share, p[k], N)
            if turn == 0:
                z[j] = gradient[j] - least + 0.1 * gap
        newton(beta, z, gradient, A, bold, memory[m + 3 :])
    for j in range(m):
        beta[j] = best[j]
    return best_gap


@compiled(SUMS)
def thinned(p: Doubles, out: Doubles, N: Any) -> None:
    """Every fourth of N nodes."""
    for n in range(N // U(THIN)):
        out[n] = p[n * U(THIN)]


@compiled(FORMULAS)
def upper(
    p: Doubles, few: Doubles, N: Any, step: Any, beta: Doubles, rows: Doubles, memory: Doubles
) -> float:
    """The weights of the highest entropy, first on few nodes; the gap."""
    m = len(beta)
    for j in range(m):
        thinned(p[j], few[j], N)
        beta[j] = 1.0 / m
    optimum(few, N // U(THIN), step * THIN, ROUGH, STEPS, beta, rows, memory)
    total = 0.0
    for j in range(m):
        beta[j] = max(beta[j], INSIDE / m)
        total += beta[j]
    for j in range(m):
        beta[j] /= total
    return optimum(p, N, step, 9e-10 / max(math.log(float(N)), 1.0), MOST, beta, rows, memory)


@compiled(FORMULAS)
def entropies(
    first: int,
    last: int,
    step: float,
    loc: Doubles,
    scale: Doubles,
    weights: Doubles,
    low: Doubles,
    unit: Doubles,
    size: Ints,
    value: Doubles,
    error: Doubles,
    best: Doubles,
    beta: Doubles,
) -> None:
    """Entropies of the extremes of the sets `first` to `last`, with errors (B, m), on grids of `size` (B,) nodes.

    `best` (B, 3): the upper entropy, its gap and its error, with the weights `beta` (B, m); (B, 0) if not asked for.
    """
    m, most = loc.shape[1], 0
    for b in range(first, last):
        most = max(most, size[b])
    p, few, rows = np.empty((m, most)), np.empty((m, most // THIN)), np.empty((3, most))
    parts, memory = np.empty((PARTS, loc.shape[2])), np.empty((m + 7, m))
    for b in range(first, last):
        N = U(size[b])
        for j in range(m):
            mixture(p[j], loc[b, j], scale[b, j], weights[b, j], low[b], unit[b], step, N, parts)
            for n in range(N):
                rows[0, n] = p[j, n]
            logs(rows[0], rows[1], N)
            value[b, j], error[b, j] = entropy(rows[0], rows[1], unit[b], step, N)
        if best.shape[1] > 0:
            best[b, 1] = upper(p, few, N, step, beta[b], rows, memory)
            blend(p, beta[b], rows[0], N)
            logs(rows[0], rows[1], N)
            best[b, 0], best[b, 2] = entropy(rows[0], rows[1], unit[b], step, N)
