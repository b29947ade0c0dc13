"""Smooth divergences from a set of Normal mixtures on the line to one mixture, on quadrature nodes.

The problem in beta is that of `_divergence`; here are the places where its integrals live. A divergence of
power a, integral q^a p^(1-a) dy, may have its mass far from every component: between them for a < 1, in the
tails for a > 1. For two single Normals N(mu, s^2), N(nu, t^2) the integrand is itself a Normal shape,

    variance s^2 t^2 / v,   centre mu + (1 - a) (nu - mu) s^2 / v,   v = a t^2 + (1 - a) s^2,

and the mesh is made to resolve such shapes too. If v <= 0 the tail of q is too heavy and the integral infinite;
for mixtures the widest components decide, and v = 0 is infinite as well, whatever the centres.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cbdl.credal._optimum import Optimum
from cbdl.credal.classes.distance import back, only
from cbdl.credal.classes.divergence import error_of, integrand, log_powers, problem, smallest
from cbdl.credal.line.mesh import REACH, Mesh, log_density, on_meshes

Mixture = tuple[Tensor, Tensor, Tensor]
"""loc, scale and weights: (B, m, M) for a set, (B, M) for one mixture."""


REFINE = 2
"""Panels are split: the logarithm of a mixture bends faster than its components where they cross."""

ROUNDS, PARTS, SHARE = 10, 4, 1e-10
"""How often, and into how many, panels are cut whose error is more than SHARE of the integral."""

HOPELESS = 40.0
"""An extreme whose norm is exp(HOPELESS) times the least could get no weight that a float64 would show."""


def power_of(kind: str, order: float) -> float | None:
    """a, where the divergence is made of the integral of q^a p^(1-a) and its size matters; else None."""
    if kind == "renyi" and order == 1:
        return None
    return {"chi2": 2.0, "reverse-chi2": -1.0, "hellinger": 0.5, "renyi": order}.get(kind)


def line_divergence(sets: Mixture, target: Mixture, kind: str, order: float) -> Optimum:
    """inf over beta of the divergence of sum_j beta_j P_j from the target; infinite where all tails are."""
    usable = _usable(sets, target, power_of(kind, order))
    finite = usable.any(-1)
    loc, _, _ = sets
    value, gap = loc.new_full(finite.shape, torch.inf), loc.new_zeros(finite.shape)
    error, weights = torch.zeros_like(gap), loc.new_full(loc.shape[:2], 1 / loc.shape[1])
    if finite.any():
        index = only(sets[0][finite], usable[finite])[1]
        part = tuple(only(t[finite], usable[finite])[0] for t in sets)
        answer = _finite(part, tuple(t[finite] for t in target), kind, order)  # type: ignore[arg-type]
        value[finite], gap[finite], error[finite] = answer.value, answer.gap, answer.error
        weights[finite] = back(answer.weights, index)
    return Optimum(value, gap, weights, error)


def _usable(sets: Mixture, target: Mixture, a: float | None) -> Tensor:
    """(B, m): extremes that may have weight. v = a t^2 + (1 - a) s^2 > 0 for the widest components."""
    widest = torch.where(sets[2] > 0, sets[1], 0.0).amax(-1)
    other = torch.where(target[2] > 0, target[1], 0.0).amax(-1, keepdim=True)
    if a is None or 0 < a < 1:
        return torch.ones_like(widest, dtype=torch.bool)
    ratio = (widest / other) ** 2  # s^2 / t^2
    if a > 1:
        return (a - 1) * ratio < a
    # p^2 / q: one extreme with a wide enough tail makes every mixture with it finite.
    return ((1 - a) * ratio > -a).any(-1, keepdim=True).expand_as(widest)


def _finite(sets: Mixture, target: Mixture, kind: str, order: float) -> Optimum:
    flat = tuple(t.flatten(1) for t in sets)
    loc, scale = torch.cat([flat[0], target[0]], -1), torch.cat([flat[1], target[1]], -1)
    active = torch.cat([flat[2], target[2]], -1) > 0
    a = power_of(kind, order)
    outside = torch.full_like(sets[2], -torch.inf)
    if a is not None:
        centre, width, there, outside = _shapes(sets, target, a)
        loc, scale = torch.cat([loc, centre], -1), torch.cat([scale, width], -1)
        active = torch.cat([active, there], -1)

    def part(mesh: Mesh, *tensors: Tensor) -> tuple[Tensor, ...]:
        return _on_mesh(mesh, tensors[:3], tensors[3:6], tensors[6], kind, order)  # type: ignore[arg-type]

    m, M = sets[0].shape[1:]
    per_node = 8 * (10 * m + 3 * m * M + 30)
    value, gap, weights, error = on_meshes(
        part, loc, scale, active, *sets, *target, outside, per_node=per_node, refine=REFINE
    )
    return Optimum(value, gap, weights, error)


# --- where the integrals live --------------------------------------------------------------------------------


def _shapes(sets: Mixture, target: Mixture, a: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Centres and widths (B, S) of pair shapes, which of them exist, and the log of what they leave out.

    Between 0 and 1 the sum over pairs bounds the integral, and the largest pair of each component counts. Otherwise
    one component of the denominator alone gives a bound for each component on top, and the smallest is taken: above 1
    of all components of the target, below 0 of each extreme, because its weight is not known yet. What is
    left out, for weights of 1: (B, m, M) above 1, (B, m, M') below 0; see `_missed`.
    """
    mu, s, w = (t.unsqueeze(-1) for t in sets)
    nu, t, u = (x[:, None, None, :] for x in target)
    v = a * t**2 + (1 - a) * s**2
    exists = (v > 0) & (w > 0) & (u > 0)
    v = torch.where(exists, v, 1.0)
    size = a * (a - 1) * (mu - nu) ** 2 / (2 * v) - 0.5 * v.log() + (1 - a) * s.log() + a * t.log()
    shapes = ((mu + (1 - a) * (nu - mu) * s**2 / v).expand(exists.shape), s * t / v.sqrt(), exists)
    if 0 < a < 1:
        size = torch.where(exists, size + a * w.log() + (1 - a) * u.log(), -torch.inf)
        flat = [x.flatten(1, 2) for x in (size, *shapes)]
        best = [flat[0].argmax(d, keepdim=True) for d in (-1, -2)]
        pairs = zip((-1, -2), best, strict=True)
        taken = [[x.gather(d, i).flatten(1) for x in flat[1:]] for d, i in pairs]
        nothing = torch.full_like(sets[2], -torch.inf)
        return *(torch.cat(x, -1) for x in zip(*taken, strict=True)), nothing  # type: ignore[return-value]
    side = -1 if a > 1 else -2
    below = (1 - a) * u.log() if a > 1 else a * w.log()
    size, at = torch.where(exists, size + below, torch.inf).min(side, keepdim=True)
    outside = size.squeeze(side) + math.log(math.erfc(REACH / math.sqrt(2)))
    centre, width, there = (x.gather(side, at).flatten(1) for x in shapes)
    return centre, width, there, outside


def _missed(outside: Tensor, beta: Tensor, sets: Mixture, target: Mixture, a: float | None) -> Tensor:
    """(B,): log of the integral of q^a p^(1-a) outside the mesh, at most; `outside` from `_shapes`.

    A power above 1 is that of a norm: by Minkowski's inequality the roots of the components' parts add up, each
    times its weight.
    """
    if a is None or 0 < a < 1:
        return torch.full_like(beta[:, 0], -torch.inf)
    if a > 1:
        share = sets[2] * beta.unsqueeze(-1)
        parts = torch.where(share > 0, share.log() + outside / a, -torch.inf)
        return a * parts.flatten(1).logsumexp(-1)
    # Of the extremes with their weights, the one that bounds each component on top best.
    least = (outside + a * beta.log().unsqueeze(-1)).nan_to_num(nan=torch.inf).amin(1)
    return (1 - a) * torch.where(target[2] > 0, target[2].log() + least / (1 - a), -torch.inf).logsumexp(-1)


# --- the problem on a mesh -----------------------------------------------------------------------------------


def _on_mesh(
    mesh: Mesh, sets: Mixture, target: Mixture, outside: Tensor, kind: str, order: float
) -> tuple[Tensor, ...]:
    """Value, gap, weights and error; panels that are too wide for the integrand are cut, and all is done again.

    Where components of a mixture cross far from both, the logarithm of its density has a kink in the midst of panels
    that fit the density which is integrated.
    """
    best: tuple[Tensor, ...] = ()
    rows = torch.arange(len(outside), device=outside.device)
    for _ in range(ROUNDS):
        *answer, rough = _once(mesh, sets, target, outside, kind, order)
        if best:
            for whole, part in zip(best, answer, strict=True):
                whole[rows] = part
        else:
            best = tuple(x.clone() for x in answer)
        left = rough.any(-1).nonzero()[:, 0]
        if not len(left):
            break
        rows, mesh, outside = rows[left], mesh.split(left, rough[left], PARTS), outside[left]
        sets, target = (tuple(t[left] for t in x) for x in (sets, target))  # type: ignore[assignment]
    return best


def _once(
    mesh: Mesh, sets: Mixture, target: Mixture, outside: Tensor, kind: str, order: float
) -> tuple[Tensor, ...]:
    """Value, gap, weights, error on one mesh, and which of its panels (B, panels) are too wide."""
    log_p = log_density(mesh, *(t.unsqueeze(1) for t in target)).squeeze(1)
    a = power_of(kind, order)
    log_P, standing = _hopeful(log_density(mesh, *sets), log_p, mesh.weight, a)
    data = problem(log_P, log_p, mesh.weight)
    answer = smallest(data, kind, order)
    weights = torch.zeros_like(answer.weights).scatter_add(1, standing, answer.weights)
    values, rounding, shift = integrand(data, answer.weights, kind, order)
    total, error = mesh.integrate(values)
    # What lies outside the mesh, relative to the scale that the integrand was given.
    missed = (_missed(outside, weights, sets, target, a) - shift).exp()
    if kind == "renyi" and a is not None:
        missed = missed / abs(a * (a - 1))
    error = error + missed + (rounding * mesh.weight).sum(-1)
    error = error_of(answer.value, total, error, shift, kind, order)
    return answer.value, answer.gap, weights, error, mesh.rough(values, rounding, SHARE)


def _hopeful(log_P: Tensor, log_p: Tensor, weights: Tensor, a: float | None) -> tuple[Tensor, Tensor]:
    """Extremes that can get no weight are replaced by the best one: (B, m, N), and (B, m) which stands where.

    With N a norm, as the root of the integral of q^a p^(1-a) is for a > 1, N(sum_j beta_j P_j) >= beta_j N(P_j): at the
    optimum beta_j is at most min N / N(P_j). Numbers so far apart would not fit into one problem.
    """
    place = torch.arange(log_P.shape[1], device=log_P.device).expand(log_P.shape[:2])
    if a is None or a <= 1:
        return log_P, place
    norms = log_powers(log_P, log_p, weights, a) / a
    least, best = norms.min(-1, keepdim=True)
    standing = torch.where(norms > least + HOPELESS, best, place)
    return log_P.gather(1, standing.unsqueeze(-1).expand_as(log_P)), standing
