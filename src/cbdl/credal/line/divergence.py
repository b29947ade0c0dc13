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
from cbdl.credal.classes.divergence import Problem, integrand, problem, smallest
from cbdl.credal.line.mesh import REACH, Mesh, log_density, on_meshes

Mixture = tuple[Tensor, Tensor, Tensor]
"""loc, scale and weights: (B, m, M) for a set, (B, M) for one mixture."""


REFINE = 2
"""Panels are split: the logarithm of a mixture bends faster than its components where they cross."""


def power_of(kind: str, order: float) -> float | None:
    """a, where the divergence is made of the integral of q^a p^(1-a) and its size matters; else None."""
    return (
        {"chi2": 2.0, "reverse-chi2": -1.0, "renyi": order}.get(kind)
        if order != 1 or kind != "renyi"
        else None
    )


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
    beyond = loc.new_full(loc.shape[:1], -torch.inf)
    if a is not None:
        centre, width, there, beyond = _shapes(flat, target, a)  # type: ignore[arg-type]
        loc, scale = torch.cat([loc, centre], -1), torch.cat([scale, width], -1)
        active = torch.cat([active, there], -1)

    def part(mesh: Mesh, *tensors: Tensor) -> tuple[Tensor, ...]:
        return _on_mesh(mesh, tensors[:3], tensors[3:6], tensors[6], kind, order)  # type: ignore[arg-type]

    m, M = sets[0].shape[1:]
    per_node = 8 * (10 * m + 3 * m * M + 30)
    value, gap, weights, error = on_meshes(
        part, loc, scale, active, *sets, *target, beyond, per_node=per_node, refine=REFINE
    )
    return Optimum(value, gap, weights, error)


def _shapes(flat: Mixture, target: Mixture, a: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Centres and widths (B, K') of pair shapes, which of them exist, and a bound on what all leave out.

    Below 1 the sum over pairs bounds the integral, and the largest pair of each component counts. Above 1 every
    component of the denominator alone gives a bound; the smallest is taken for each component on top.
    """
    mu, s, w = (t.unsqueeze(-1) for t in flat)
    nu, t, u = (x.unsqueeze(-2) for x in target)
    v = a * t**2 + (1 - a) * s**2
    exists = (v > 0) & (w > 0) & (u > 0)
    v = torch.where(exists, v, 1.0)
    log_size = a * (a - 1) * (mu - nu) ** 2 / (2 * v) - 0.5 * v.log() + (1 - a) * s.log() + a * t.log()
    if a > 1:
        log_size = log_size + (1 - a) * u.log()
    centre = (mu + (1 - a) * (nu - mu) * s**2 / v).expand(exists.shape)
    width = s * t / v.sqrt()
    if 0 < a < 1:
        log_size = torch.where(exists, log_size + a * w.log() + (1 - a) * u.log(), -torch.inf)
        best = [log_size.argmax(-1, keepdim=True), log_size.argmax(-2, keepdim=True)]
        taken = [
            [x.gather(d, i).flatten(1) for x in (centre, width, exists)]
            for d, i in zip((-1, -2), best, strict=True)
        ]
        return *(torch.cat([x, y], -1) for x, y in zip(*taken, strict=True)), log_size.new_full(
            mu.shape[:1], -torch.inf
        )  # type: ignore[return-value]
    side = -1 if a > 1 else -2
    size, at = torch.where(exists, log_size, torch.inf).min(side, keepdim=True)
    size = torch.where(torch.isfinite(size), size, -torch.inf).flatten(1)
    missed = size.logsumexp(-1) + math.log(math.erfc(REACH / math.sqrt(2)))
    parts = (x.gather(side, at).flatten(1) for x in (centre, width, exists))
    return next(parts), next(parts), next(parts), missed


def _on_mesh(
    mesh: Mesh, sets: Mixture, target: Mixture, missed: Tensor, kind: str, order: float
) -> tuple[Tensor, ...]:
    log_p = log_density(mesh, *(t.unsqueeze(1) for t in target)).squeeze(1)
    data: Problem = problem(log_density(mesh, *sets), log_p, mesh.weight)
    answer = smallest(data, kind, order)
    values, shift = integrand(data, answer.weights, kind, order)
    total, error = mesh.integrate(values)
    # What lies outside the mesh, relative to the scale that the integrand was given.
    error = error + (missed - shift).exp()
    if power_of(kind, order) is not None and kind == "renyi":
        error = error / total.clamp_min(1e-300) / abs(order - 1)
    else:
        error = error * shift.exp()
    return answer.value, answer.gap, answer.weights, error
