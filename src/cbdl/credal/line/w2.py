"""Wasserstein 2 from a set of Normal mixtures on the line to one mixture, over the weights beta.

With F the distribution function of the mixture sum_j beta_j P_j, G that of the target and T(y) = G^-1(F(y)),

    W2^2 = integral (y - T(y))^2 q(y) dy         is convex in beta, with
    gradient_j = W2^2 - 2 integral (y - T(y)) (F_j - F) dy,      Hessian_jk = 2 integral (F_j - F)(F_k - F) / g(T) dy

(Kantorovich's potential has the slope 2 (y - T)). T is steep where the target has a valley: cells therefore end
at the edges of the mesh and also at the points that T maps to them, and every cell sees a smooth integrand. Both
F and its inverse are handled on the scale of z = Phi^-1(F), where tails keep their digits and Normals are linear.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal._optimum import Optimum
from cbdl.credal.line.divergence import Mixture
from cbdl.credal.line.mesh import POINTS, Mesh, on_meshes
from cbdl.credal.line.mesh import _rule as gauss_kronrod
from cbdl.credal.line.signs import wasserstein1
from cbdl.credal.solvers.linprog import matrix_game
from cbdl.credal.solvers.simplex import minimise

TAIL = 37.0
"""Largest |z| that is told apart: beyond, float64 has no probabilities left."""


CUTS = 40
"""Rounds of the fallback at most."""


def wasserstein2_squared(sets: Mixture, target: Mixture) -> Optimum:
    """inf over beta of W2^2 between sum_j beta_j P_j and the target."""
    # In units of the spread around the mean of the target: tolerances are relative to that.
    centre = (target[0] * target[2]).sum(-1)
    far = (
        torch.cat([(sets[0] - centre[:, None, None]).flatten(1), target[0] - centre[:, None]], -1)
        .abs()
        .amax(-1)
    )
    unit = far + torch.cat([sets[1].flatten(1), target[1]], -1).amax(-1)
    near = wasserstein1(sets, target).weights
    mine = ((sets[0] - centre[:, None, None]) / unit[:, None, None], sets[1] / unit[:, None, None], sets[2])
    goal = ((target[0] - centre[:, None]) / unit[:, None], target[1] / unit[:, None], target[2])
    flat = tuple(t.flatten(1) for t in mine)
    loc, scale = torch.cat([flat[0], goal[0]], -1), torch.cat([flat[1], goal[1]], -1)
    active = torch.cat([flat[2], goal[2]], -1) > 0

    def part(mesh: Mesh, *tensors: Tensor) -> tuple[Tensor, ...]:
        return _on_mesh(mesh, tensors[:3], tensors[3:6], tensors[6])  # type: ignore[arg-type]

    m, M = mine[0].shape[1:]
    per_node = 8 * (12 * m * M + 12 * goal[0].shape[1] + 10 * m + 60)
    value, gap, weights, error = on_meshes(part, loc, scale, active, *mine, *goal, near, per_node=per_node)
    return Optimum(value * unit**2, gap * unit**2, weights, error * unit**2)


def _on_mesh(mesh: Mesh, sets: Mixture, target: Mixture, near: Tensor) -> tuple[Tensor, ...]:
    problem = _Transport(_edges(mesh), sets, target)
    batch, m = near.shape
    minimum = minimise(problem.objective, batch, m, device=near.device, tolerance=1e-11, max_steps=12)
    rows = torch.arange(batch, device=near.device)
    best = _Best.of(minimum.point, problem.at(minimum.point, rows, fine=True))
    # Close to the hull the weights of Wasserstein 1 have more digits than a squared distance can show.
    best.keep(rows, near, problem.at(near, rows, fine=True))
    _cutting_planes(problem, best)
    value = best.value
    # Distances are differences of places of size 1; and a distribution function that is off by a rounding error sends
    # so much mass to the other side of a gap.
    jump = problem.edges.width().amax(-1)
    rounding = 4e-15 * (value.sqrt() + 4e-15) + 4 * torch.finfo(value.dtype).eps * jump.square()
    return value, (value - best.bound).clamp_min(0), best.weights, best.error + rounding


@dataclass(frozen=True)
class _Best:
    """The best value, bound, weights and error so far; and all linear bounds g.beta <= W2^2(beta)."""

    value: Tensor
    bound: Tensor
    weights: Tensor
    error: Tensor
    cuts: list[Tensor]

    @staticmethod
    def of(beta: Tensor, here: _At) -> _Best:
        bound = here.gradient.amin(-1).clamp_min(0)
        return _Best(here.value.clone(), bound, beta.clone(), here.error.clone(), [here.gradient])

    def keep(self, rows: Tensor, beta: Tensor, here: _At) -> None:
        better = here.value < self.value[rows]
        at = rows[better]
        self.value[at], self.error[at] = here.value[better], here.error[better]
        self.weights[at] = beta[better]
        self.bound[rows] = torch.maximum(self.bound[rows], here.gradient.amin(-1))
        cut = self.cuts[-1].clone()
        cut[rows] = here.gradient
        self.cuts.append(cut)


def _cutting_planes(problem: _Transport, best: _Best) -> None:
    """Kelley's method for sets on which Newton failed: far apart modes make W2^2 almost piecewise linear.

    The potentials found so far are linear bounds; the weights at which the largest of them is smallest solve a
    matrix game, whose value is a lower bound for all weights.
    """
    for step in range(CUTS):
        rows = (best.value - best.bound > 1e-8 * best.value + 1e-15).nonzero().squeeze(-1)
        if not len(rows):
            return
        game = matrix_game(-torch.stack([cut[rows] for cut in best.cuts], 1))
        best.bound[rows] = torch.maximum(best.bound[rows], -game.value - game.gap)
        # Every other time half way: bold steps alone zigzag.
        beta = game.weights if step % 2 else 0.5 * (game.weights + best.weights[rows])
        best.keep(rows, beta, problem.at(beta, rows, fine=True))


@dataclass(frozen=True)
class _Places:
    """Points anchor + offset (B, E) in rising order."""

    anchor: Tensor
    offset: Tensor

    def take(self, rows: Tensor) -> _Places:
        return _Places(self.anchor[rows], self.offset[rows])

    def width(self) -> Tensor:
        """(B, E - 1): the distances between neighbours."""
        return (
            (self.anchor[:, 1:] - self.anchor[:, :-1]) + (self.offset[:, 1:] - self.offset[:, :-1])
        ).clamp_min(0)


def _edges(mesh: Mesh) -> _Places:
    """The ends of all panels; padding repeats the last end."""
    anchor = mesh.anchor[:, ::POINTS]
    width = mesh.weight.view(len(anchor), -1, POINTS).sum(-1)
    first, last = mesh.offset[:, ::POINTS], mesh.offset[:, POINTS - 1 :: POINTS]
    margin = (width - (last - first)) / 2
    real = width > 0
    end = (real.sum(-1, keepdim=True) - 1).clamp_min(0)
    low, high = first - margin, last + margin
    final_anchor, final = anchor.gather(-1, end), high.gather(-1, end)
    low, high = torch.where(real, low, final), torch.where(real, high, final)
    anchor = torch.where(real, anchor, final_anchor)
    # Ends that touch the next start are dropped: they become copies of the last end, sorted to the end.
    gap = (anchor[:, 1:] - anchor[:, :-1]) + low[:, 1:] - high[:, :-1]
    apart = torch.nn.functional.pad(gap > 1e-6 * width[:, :-1], (0, 1), value=True)
    place = torch.arange(anchor.shape[1], device=anchor.device).to(anchor).expand_as(anchor)
    keys = torch.cat(
        [torch.where(real, place, torch.inf), torch.where(apart & real, place + 0.5, torch.inf)], -1
    )
    order = keys.argsort(dim=-1, stable=True)[:, : int(torch.isfinite(keys).sum(-1).max())]
    ends = torch.isfinite(keys.gather(-1, order))
    anchor = torch.where(ends, torch.cat([anchor, anchor], -1).gather(-1, order), final_anchor)
    return _Places(anchor, torch.where(ends, torch.cat([low, high], -1).gather(-1, order), final))


def _tails(anchor: Tensor, offset: Tensor, mix: Mixture) -> tuple[Tensor, Tensor, Tensor]:
    """(B, m, N) each: lower tails, upper tails and densities of mixtures (B, m, M) at anchor + offset (B, N)."""
    loc, scale, weights = (t.unsqueeze(-1) for t in mix)
    z = ((anchor[:, None, None] - loc) + offset[:, None, None]) / scale
    bell = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
    root = math.sqrt(0.5)
    # Not ndtr: it has no digits in the lower tail.
    lower, upper = 0.5 * torch.special.erfc(-z * root), 0.5 * torch.special.erfc(z * root)
    return (weights * lower).sum(2), (weights * upper).sum(2), (weights * bell / scale).sum(2)


def _score(lower: Tensor, upper: Tensor) -> Tensor:
    """z = Phi^-1(F) from both tails."""
    small = torch.minimum(lower, upper)
    z = torch.special.ndtri(small.clamp(1e-300, 0.5)).clamp_min(-TAIL)
    return torch.where(lower <= upper, z, -z)


def _inverse(edges: _Places, scores: Tensor, mix: Mixture, z: Tensor) -> tuple[_Places, Tensor]:
    """The points (B, N) at which the mixture (B, 1, M) has the scores z, and the cells they are in.

    `scores` (B, E) are those at the edges. Newton on a nearly straight line, inside the bracket of two edges.
    Beyond the outer edges there is no mass; the edge stands for all of it.
    """
    scores = scores.cummax(-1).values.contiguous()
    cell = (torch.searchsorted(scores, z.contiguous()) - 1).clamp(0, scores.shape[1] - 2)
    anchor, start = edges.anchor.gather(-1, cell), edges.offset.gather(-1, cell)
    full = edges.width().gather(-1, cell)
    z0, z1 = scores.gather(-1, cell), scores.gather(-1, cell + 1)
    share = ((z - z0) / (z1 - z0).clamp_min(1e-300)).clamp(0, 1)
    if mix[0].shape[-1] == 1:
        loc, scale, _ = (t[:, 0] for t in mix)
        return _Places(loc.expand_as(z), scale * z), cell
    x = (start + full * share).flatten()
    low, high = start.flatten(), (start + full).flatten()
    owner = torch.arange(len(z), device=z.device).repeat_interleave(z.shape[1])
    anchors, goal, small = anchor.flatten(), z.flatten(), 1e-13 * full.flatten()
    rows = ((share > 0) & (share < 1)).flatten().nonzero().squeeze(-1)
    for _ in range(60):
        if not len(rows):
            break
        here, at = x[rows], owner[rows]
        part = tuple(t[at] for t in mix)
        lower, upper, density = (t[:, 0, 0] for t in _tails(anchors[rows, None], here[:, None], part))  # type: ignore[arg-type]
        s = _score(lower, upper)
        a = torch.where(s < goal[rows], here, low[rows])
        b = torch.where(s < goal[rows], high[rows], here)
        slope = density * math.sqrt(2 * math.pi) * torch.exp(0.5 * s.square())
        step = here + (goal[rows] - s) / slope.clamp_min(1e-300)
        new = torch.where((step >= a) & (step <= b), step, 0.5 * (a + b))
        x[rows], low[rows], high[rows] = new, a, b
        rows = rows[(new - here).abs() > small[rows] + 4e-16 * here.abs()]
    return _Places(anchor, x.view_as(z)), cell


@dataclass(frozen=True)
class _At:
    """At given weights: W2^2, gradient, Hessian and the quadrature error."""

    value: Tensor
    gradient: Tensor
    hessian: Tensor
    error: Tensor


class _Transport:
    """W2^2 as a function of the weights."""

    def __init__(self, edges: _Places, sets: Mixture, target: Mixture) -> None:
        self.edges, self.sets = edges, sets
        self.target: Mixture = tuple(t.unsqueeze(1) for t in target)  # type: ignore[assignment]
        lower, upper, _ = _tails(edges.anchor, edges.offset, self.target)
        self.goal = _score(lower, upper).squeeze(1)
        self.lower, self.upper, _ = _tails(edges.anchor, edges.offset, sets)

    def objective(self, beta: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        here = self.at(beta, rows)
        return here.value, here.gradient, here.hessian

    def at(self, beta: Tensor, rows: Tensor, *, fine: bool = False) -> _At:
        sets = tuple(t[rows] for t in self.sets)
        target = tuple(t[rows] for t in self.target)
        nodes, weight, coarse = self._nodes(beta, rows, sets, fine)  # type: ignore[arg-type]
        lower, upper, density = _tails(nodes.anchor, nodes.offset, sets)  # type: ignore[arg-type]
        b = beta.unsqueeze(1)
        F, S, q = ((b @ t).squeeze(1) for t in (lower, upper, density))
        image, _ = _inverse(self.edges.take(rows), self.goal[rows], target, _score(F, S))  # type: ignore[arg-type]
        move = (nodes.anchor - image.anchor) + (nodes.offset - image.offset)
        square = q * move.square()
        value = (weight * square).sum(-1)
        # F_j - F from the tail that has the digits.
        apart = torch.where((F <= S).unsqueeze(1), lower - F.unsqueeze(1), S.unsqueeze(1) - upper)
        gradient = value.unsqueeze(-1) - 2 * (apart @ (weight * move).unsqueeze(-1)).squeeze(-1)
        g = _tails(image.anchor, image.offset, target)[2].squeeze(1)  # type: ignore[arg-type]
        root = apart * (2 * weight / g.clamp_min(1e-280)).sqrt().unsqueeze(1)
        hessian = root @ root.mT
        error = (value - (coarse * square).sum(-1)).abs() if fine else torch.zeros_like(value)
        return _At(value, gradient, hessian, error)

    def _nodes(self, beta: Tensor, rows: Tensor, sets: Mixture, fine: bool) -> tuple[_Places, Tensor, Tensor]:
        """Nodes and weights on cells between the edges and the points that T maps to edges."""
        edges = self.edges.take(rows)
        b = beta.unsqueeze(1)
        F, S = ((b @ t[rows]).squeeze(1) for t in (self.lower, self.upper))
        mixed = tuple(t.flatten(1).unsqueeze(1) for t in (sets[0], sets[1], sets[2] * beta.unsqueeze(-1)))
        scores = _score(F, S)
        extra, cell = _inverse(edges, scores, mixed, self.goal[rows])  # type: ignore[arg-type]
        # In units of edges, points sort without losing digits.
        place = torch.arange(scores.shape[1], device=scores.device).to(scores).expand_as(scores)
        start, full = edges.offset.gather(-1, cell), edges.width().gather(-1, cell)
        inside = (extra.offset - start) + (extra.anchor - edges.anchor.gather(-1, cell))
        inside = (inside / full.clamp_min(1e-300)).clamp(0, 1)
        order = torch.cat([place, cell + inside], -1).argsort(dim=-1, stable=True)
        every = _Places(
            torch.cat([edges.anchor, extra.anchor], -1).gather(-1, order),
            torch.cat([edges.offset, extra.offset], -1).gather(-1, order),
        )
        return _cells(every, fine)


def _cells(every: _Places, fine: bool) -> tuple[_Places, Tensor, Tensor]:
    node, weight, coarse = gauss_kronrod(every.anchor.device)
    if not fine:
        some = coarse > 0
        node, weight, coarse = node[some], coarse[some], coarse[some]
    width = every.width().unsqueeze(-1)
    anchor = every.anchor[:, :-1, None].expand(-1, -1, len(node)).flatten(1)
    offset = (every.offset[:, :-1, None] + width * node).flatten(1)
    return _Places(anchor, offset), (width * weight).flatten(1), (width * coarse).flatten(1)
