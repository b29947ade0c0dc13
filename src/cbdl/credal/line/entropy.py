"""Entropies of Normal mixtures by quadrature, expectations, and the bounds of theorem "thm_rem_bounds_entropy"."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cbdl.credal._border import Border, float64
from cbdl.credal._optimum import Optimum
from cbdl.credal.entropy import upper_entropy
from cbdl.credal.line import compiled
from cbdl.credal.line.even import MOST, OVER, EvenGrid, nodes, on_even_grids
from cbdl.credal.line.intervals import complement, covered, union
from cbdl.credal.line.levels import Profile, crossings, shape_of
from cbdl.credal.line.mesh import Mesh, density, on_meshes
from cbdl.credal.line.mixture import Extremes
from cbdl.credal.line.regions import inside, region_probabilities
from cbdl.credal.solvers.roots import descend

EVEN, FINEST_GRID = 1e-10, 8
"""The error of an entropy with which an even grid is good enough, and how many times finer it may become for it."""

THIN = 4
"""The weights of the upper entropy are first found on every fourth node of an even grid."""

_PANELS = 32
"""Panels that a component lies on, about: it is evaluated so many times as often as where one place is asked for."""

FINEST = 64
"""Panels are split into at most so many when the error of an expectation is too large."""


def entropies(sets: Extremes) -> tuple[Tensor, Tensor]:
    """(B, m) twice: the differential entropy of each extreme in nats, and the estimated quadrature error."""
    if sets.loc.shape[-1] == 1:
        value = sets.scale[..., 0].log() + 0.5 * math.log(2 * math.pi * math.e)
        return value, torch.zeros_like(value)

    def part(grid: EvenGrid) -> tuple[Tensor, ...]:
        return grid.entropy(grid.p)

    value, error = _by_reach(*_way(sets, part, upper=False), _entropies_on_panels, sets.alone())
    return value.view(len(sets), sets.m), error.view(len(sets), sets.m)


def entropies_and_upper(sets: Extremes) -> tuple[Tensor, Tensor, Optimum]:
    """`entropies`, and max over beta of H(sum_j beta_j P_j) with the error of the quadrature, from one evaluation."""

    def part(grid: EvenGrid) -> tuple[Tensor, ...]:
        best = upper_entropy(grid.p, grid.weight, thin=THIN)
        value, error = grid.entropy((best.weights[:, None, :] @ grid.p)[:, 0])
        return (*grid.entropy(grid.p), value, best.gap, best.weights, error)

    value, error, *optimum = _by_reach(*_way(sets, part, upper=True), _all_on_panels, sets)
    return value, error, Optimum(*optimum)


Way = Callable[[Extremes, Tensor, int], tuple[Tensor, ...]]
"""way(sets, nodes of their coarsest grids, how many times finer ones are wanted)."""


def _way(sets: Extremes, part: Callable[[EvenGrid], tuple[Tensor, ...]], *, upper: bool) -> tuple[Way, int]:
    """`part` on even grids, the same by compiled loops where there are many sets and numba; and nodes at most."""
    if compiled.worth(sets.loc):
        return partial(compiled.entropies, upper=upper), compiled.most(sets.m)
    return partial(on_even_grids, part), MOST


def _by_reach(
    even: Way,
    most: int,
    panels: Callable[[Extremes], tuple[Tensor, ...]],
    sets: Extremes,
) -> tuple[Tensor, ...]:
    """Even grids for the sets with at most so many nodes, finer ones where the error (the last output) asks for it;
    panels for the others."""
    size = nodes(sets)
    rows = (size <= most).nonzero()[:, 0]
    far = (size > most).nonzero()[:, 0]
    where: list[Tensor] = []
    parts: list[tuple[Tensor, ...]] = []
    over = OVER
    while len(rows):
        answer = even(sets[rows], size[rows], over)
        good = answer[-1].flatten(1).amax(-1) if answer[-1].ndim > 1 else answer[-1]
        done = good <= EVEN
        where.append(rows[done])
        parts.append(tuple(t[done] for t in answer))
        rows, over = rows[~done], 2 * over
        if over > FINEST_GRID:
            far = torch.cat([far, rows])
            break
    if len(far):
        where.append(far)
        parts.append(panels(sets[far]))
    back = torch.cat(where).argsort()
    return tuple(torch.cat(column)[back] for column in zip(*parts, strict=True))


def _entropies_on_panels(sets: Extremes) -> tuple[Tensor, ...]:
    loc, scale, weights = sets.loc, sets.scale, sets.weights
    evaluate, bytes_ = _evaluation(sets)

    def part(mesh: Mesh, loc: Tensor, scale: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        return mesh.integrate(torch.special.entr(evaluate(mesh, loc, scale, weights)))

    per_node = bytes_ + 8 * 12
    pooled = loc.flatten(1), scale.flatten(1), weights.flatten(1) > 0
    return on_meshes(part, *pooled, loc, scale, weights, per_node=per_node, memory=1 << 24)


def _all_on_panels(sets: Extremes) -> tuple[Tensor, ...]:
    """Entropies of the extremes and their errors; value, gap, weights and error of the upper entropy: on the nodes of
    one mesh per set."""
    evaluate, bytes_ = _evaluation(sets)

    def part(mesh: Mesh, loc: Tensor, scale: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        p = evaluate(mesh, loc, scale, weights)
        best = upper_entropy(p, mesh.weight)
        q = (best.weights[:, None, :] @ p)[:, 0]
        value, error = mesh.integrate(torch.special.entr(q))
        return (*mesh.integrate(torch.special.entr(p)), value, best.gap, best.weights, error)

    per_node = bytes_ + 64 * sets.m
    loc, scale, weights = sets.loc, sets.scale, sets.weights
    pooled = loc.flatten(1), scale.flatten(1), weights.flatten(1) > 0
    return on_meshes(part, *pooled, loc, scale, weights, per_node=per_node, memory=1 << 25)


def _evaluation(sets: Extremes) -> tuple[Callable[[Mesh, Tensor, Tensor, Tensor], Tensor], int]:
    """How densities on meshes are evaluated, and the bytes that it takes for a node of one set."""
    if compiled.worth(sets.loc, nodes=_PANELS, counts=False):
        return compiled.densities, 0
    return density, 24 * sets.loc[0].numel()


def expectations(sets: Extremes, f: Callable[[Any], Any], border: Border) -> Tensor:
    """(B, m): the expectation of f under each extreme; panels are halved until the error is below 1e-10."""

    def part(mesh: Mesh, loc: Tensor, scale: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        values = _values(f, mesh, border)
        p = density(mesh, loc, scale, weights)
        value, error = mesh.integrate(values[:, None, :] * p)
        size = ((values.abs() * mesh.weight)[:, None, :] * p).sum(-1)
        return value, error, size

    answer = sets.loc.new_empty(len(sets), sets.m)
    rows, refine = torch.arange(len(sets), device=answer.device), 1
    per_node = 8 * (3 * sets.loc[0].numel() + 12 * sets.m)
    worst = 0.0
    while len(rows):
        some = sets[rows]
        pooled = some.loc.flatten(1), some.scale.flatten(1), some.weights.flatten(1) > 0
        value, error, size = on_meshes(
            part, *pooled, some.loc, some.scale, some.weights, per_node=per_node, refine=refine
        )
        answer[rows] = value
        on = (error > 1e-10 * size).any(-1)
        rows, refine = rows[on], 2 * refine
        if refine > FINEST:
            worst = float((error - 1e-10 * size).clamp_min(0).amax()) if on.any() else 0.0
            break
    if worst > 0:
        warnings.warn(
            f"the expectation of f has an estimated error of {worst:.1e}; f jumps or bends too sharply for "
            "quadrature (for an indicator ask for the probability of the event)",
            stacklevel=4,
        )
    return answer


def _values(f: Callable[[Any], Any], mesh: Mesh, border: Border) -> Tensor:
    y = mesh.y
    values = float64(f(border.out(y)), "f").to(y.device)
    if values.ndim == 0:
        values = values.expand(y.shape)
    if values.shape != y.shape:
        raise ValueError(
            f"f gives shape {tuple(values.shape)} for outcomes of shape {tuple(y.shape)}; it must work element "
            "by element"
        )
    if not torch.isfinite(values).all():
        at = y[~torch.isfinite(values)][0].item()
        raise ValueError(f"f is not finite at {at:g}; expectations need a finite function")
    return values


# --- Choquet integrals -----------------------------------------------------------------------------------


def entropy_bounds_on_line(sets: Extremes) -> tuple[Tensor, Tensor]:
    """(B,) twice: H(lower P) and H(upper P) in nats (theorem "thm_rem_bounds_entropy", continuous case).

    H(lower P) is the Choquet integral of -log(upper density) with respect to the lower probability, H(upper P)
    that of -log(lower density) with respect to the upper probability: integrals over t of P(f >= t), where
    {f >= t} is a union of intervals that is known exactly.
    """
    answer = sets.loc.new_empty(2, len(sets))
    for rows in sets.chunks(1 << 10):
        some = sets[rows]
        shape = shape_of(some.each())
        for which in (0, 1):
            answer[which, rows] = _choquet(some, shape, upper=which == 1)
    return answer[0], answer[1]


def _choquet(sets: Extremes, shape: Profile, *, upper: bool) -> Tensor:
    """integral of -log pi with respect to the envelope: t_0 + integral from t_0 of P(-log pi >= t) dt.

    `upper`: pi is the lower density and P the upper probability; else the other way round.
    """
    m, device = sets.m, sets.loc.device

    def survival(rows: Tensor, t: Tensor) -> Tensor:
        each = (rows[:, None] * m + torch.arange(m, device=device)).reshape(-1)
        ends = crossings(shape, (-t).repeat_interleave(m), each)
        high = inside(ends, len(rows), m)
        kept = covered(high, m) if upper else union(high)
        p = region_probabilities(sets[rows], complement(kept))
        return p.amax(-1) if upper else p.amin(-1)

    rows = torch.arange(len(sets), device=device)
    tops = shape.top.view(-1, m)
    start = -(tops.amin(-1) if upper else tops.amax(-1))
    # Beyond `end` less than 1e-16 is left, and it falls off exponentially.
    end = -descend(lambda r, u: 1e-16 - survival(r, -u), -start, 1.0, rows)[0]
    return start + _adaptive(survival, start, end)


def _adaptive(function: Callable[[Tensor, Tensor], Tensor], start: Tensor, end: Tensor) -> Tensor:
    """(B,): integrals of functions over [start, end]: Gauss-Kronrod panels, halved where the error is large.

    Panels are mapped by 3 s^2 - 2 s^3, which removes square-root singularities at their ends (a level that
    reaches a mode) and does no harm elsewhere.
    """
    from cbdl.credal.line.mesh import POINTS, _rule

    nodes, fine, coarse = _rule(start.device)
    place, slope = nodes * nodes * (3 - 2 * nodes), 6 * nodes * (1 - nodes)
    total = torch.zeros_like(start)
    owner = torch.arange(len(start), device=start.device).repeat_interleave(8)
    step = torch.arange(8, device=start.device, dtype=torch.float64).repeat(len(start)) / 8
    # Panels grow away from the start, near which the function changes most.
    a = start[owner] + (end - start)[owner] * step.square()
    b = start[owner] + (end - start)[owner] * (step + 0.125).square()
    for _ in range(60):
        if len(owner) == 0:
            break
        t = a[:, None] + (b - a)[:, None] * place
        value = function(owner.repeat_interleave(POINTS), t.reshape(-1)).view(-1, POINTS) * slope
        width = b - a
        much, less = width * (value @ fine), width * (value @ coarse)
        error = (much - less).abs()
        allowed = 1e-11 * (1 + start[owner].abs() + (end - start)[owner] * 1e-3)
        done = (error <= allowed) | (width <= 1e-12 * (1 + a.abs()))
        total.index_add_(0, owner[done], much[done])
        owner, a, b = owner[~done], a[~done], b[~done]
        middle = 0.5 * (a + b)
        owner, a, b = torch.cat([owner, owner]), torch.cat([a, middle]), torch.cat([middle, b])
    return total
