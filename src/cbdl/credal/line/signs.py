"""Integrals of |h| on the line, h = sum_j beta_j A_j - b, minimised over beta: total variation and Wasserstein 1.

Total variation takes densities for A_j and b, Wasserstein 1 distribution functions. Their antiderivatives are
known, so there is no quadrature here. Cut the line into cells; then, for every beta,

    sum over cells |integral over the cell of h|  <=  integral |h|,

with equality if all roots of h are among the cuts. The left side is a linear programme in beta (`solvers.l1`) and a
lower bound on the infimum; the right side at its solution, with the roots of h found, is an upper bound. The
roots become cuts for the next programme. In between, Newton steps on the weights in use finish the work: with
u = sign(h), as long as h has simple roots,

    gradient_j = integral u (A_j - b),     Hessian_jk = 2 sum over roots A_j A_k / |h'|,

and for every u with |u| <= 1 the infimum is at least min_j integral u (A_j - b): the other lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal._optimum import Optimum
from cbdl.credal.line.divergence import Mixture
from cbdl.credal.line.mesh import Mesh, on_meshes
from cbdl.credal.solvers.l1 import least_deviation
from cbdl.credal.solvers.linprog import simplex

EPS = torch.finfo(torch.float64).eps

ROUNDS, STEPS = 6, 5
"""Linear programmes solved at most, and Newton steps after each; one programme is usual."""


def total_variation(sets: Mixture, target: Mixture) -> Optimum:
    """inf over beta of the integral of |q - p| / 2."""
    return _smallest(sets, target, 0).scaled(0.5)


def wasserstein1(sets: Mixture, target: Mixture) -> Optimum:
    """inf over beta of the integral of |F - G|, F and G the distribution functions."""
    return _smallest(sets, target, 1)


def _smallest(sets: Mixture, target: Mixture, level: int) -> Optimum:
    flat = tuple(t.flatten(1) for t in sets)
    loc, scale = torch.cat([flat[0], target[0]], -1), torch.cat([flat[1], target[1]], -1)
    active = torch.cat([flat[2], target[2]], -1) > 0

    def part(mesh: Mesh, *tensors: Tensor) -> tuple[Tensor, ...]:
        return _on_mesh(mesh, tensors[:3], tensors[3:], level)  # type: ignore[arg-type]

    m, M = sets[0].shape[1:]
    per_node = 8 * (10 * m + 4 * m * M + 60)
    value, gap, weights, error = on_meshes(part, loc, scale, active, *sets, *target, per_node=per_node)
    return Optimum(value, gap, weights, error)


@dataclass(frozen=True)
class _Line:
    """Sets and targets with their nodes: what rounds need of them."""

    mesh: Mesh
    sets: Mixture
    target: Mixture
    level: int
    A: Tensor  # (B, m, N): A_j - b at the nodes
    slope: Tensor  # (B, m, N): its derivative

    def take(self, rows: Tensor) -> _Line:
        mesh = Mesh(
            *(t[rows] for t in (self.mesh.anchor, self.mesh.offset, self.mesh.weight, self.mesh.coarse))
        )
        sets, target = (tuple(t[rows] for t in x) for x in (self.sets, self.target))
        return _Line(mesh, sets, target, self.level, self.A[rows], self.slope[rows])  # type: ignore[arg-type]

    def place(self, brackets: _Brackets, x: Tensor) -> Tensor:
        """Points of brackets in units of nodes: they sort like the points, without their size."""
        at, cell = brackets.owner, brackets.cell
        left = self.mesh.offset[at, cell]
        right = (self.mesh.anchor[at, cell + 1] - brackets.anchor) + self.mesh.offset[at, cell + 1]
        return cell + (x - left) / (right - left)


@dataclass(frozen=True)
class _Cuts:
    """Places (B, K) in units of nodes, sorted, and the antiderivatives (B, m, K) of A_j - b there."""

    place: Tensor
    inner: Tensor

    def cells(self, end: Tensor) -> Tensor:
        """(B, m, K + 1): the integrals over the cells from minus to plus infinity."""
        zero = torch.zeros_like(end)
        return torch.cat([zero.unsqueeze(-1), self.inner, end.unsqueeze(-1)], -1).diff(dim=-1)

    def joined(self, place: Tensor, inner: Tensor) -> _Cuts:
        both = torch.cat([self.place, place], -1)
        order = both.argsort(dim=-1, stable=True)
        values = torch.cat([self.inner, inner], -1)
        return _Cuts(
            both.gather(-1, order), values.gather(-1, order.unsqueeze(1).expand(-1, values.shape[1], -1))
        )


def _on_mesh(mesh: Mesh, sets: Mixture, target: Mixture, level: int) -> tuple[Tensor, ...]:
    line, cuts, end = _prepared(mesh, sets, target, level)
    batch, m = sets[0].shape[:2]
    size = end.abs().amax(-1) + cuts.cells(end).abs().sum(-1).amax(-1)
    best = _Best(end.new_full((batch,), torch.inf), end.new_zeros(batch), end.new_full((batch, m), 1 / m))
    rows = torch.arange(batch, device=end.device)
    for _ in range(ROUNDS):
        cells = cuts.cells(end)
        programme = least_deviation(cells, torch.zeros_like(cells[:, 0]))
        best.bound[rows] = torch.maximum(best.bound[rows], programme.value - programme.gap)
        beta = programme.weights
        for _ in range(STEPS):
            here = _exact(line, beta, end)
            best.keep(rows, beta, here)
            left = best.open(rows, size)
            if not left.any():
                break
            cuts = cuts.joined(here.place, here.inner)
            cuts = _Cuts(cuts.place[left], cuts.inner[left])
            rows, line, end = rows[left], line.take(left), end[left]
            beta = _newton(beta[left], here.gradient[left], here.hessian[left])
        if not best.open(rows, size).any():
            break
    # Antiderivatives are rounded once for every cut.
    return best.value, (best.value - best.bound).clamp_min(0), best.weights, 64 * EPS * size


@dataclass(frozen=True)
class _Here:
    """At given weights: the integral of |h| (B,), gradient and Hessian, and the roots as cuts."""

    value: Tensor
    gradient: Tensor
    hessian: Tensor
    place: Tensor
    inner: Tensor


@dataclass(frozen=True)
class _Best:
    """The best value, bound and weights of every set so far."""

    value: Tensor
    bound: Tensor
    weights: Tensor

    def keep(self, rows: Tensor, beta: Tensor, here: _Here) -> None:
        better = here.value < self.value[rows]
        self.weights[rows[better]] = beta[better]
        self.value[rows] = torch.minimum(self.value[rows], here.value)
        self.bound[rows] = torch.maximum(self.bound[rows], here.gradient.amin(-1))

    def open(self, rows: Tensor, size: Tensor) -> Tensor:
        """Which of the sets `rows` are not settled."""
        return self.value[rows] - self.bound[rows] > 2e-12 * self.value[rows] + 1e-15 * size[rows]


def _newton(beta: Tensor, gradient: Tensor, hessian: Tensor) -> Tensor:
    """One Newton step on the weights in use, cut short where one of them would become negative."""
    used = (beta > 1e-9).to(beta.dtype)
    m = beta.shape[-1]
    system = beta.new_zeros(len(beta), m + 1, m + 1)
    system[:, :m, :m] = hessian * used.unsqueeze(-1) * used.unsqueeze(-2)
    unit = system.diagonal(dim1=-2, dim2=-1).amax(-1).clamp_min(1e-300)
    system[:, :m, :m] /= unit[:, None, None]
    system[:, :m, m] = system[:, m, :m] = used
    right = torch.nn.functional.pad(-gradient * used / unit.unsqueeze(-1), (0, 1)).unsqueeze(-1)
    step = (torch.linalg.pinv(system, hermitian=True, rtol=1e-12) @ right).squeeze(-1)[:, :m] * used
    length = torch.where(step < 0, beta / torch.where(step < 0, -step, 1.0), torch.inf).amin(-1, keepdim=True)
    return simplex(beta + length.clamp_max(1.0) * step)


def _prepared(mesh: Mesh, sets: Mixture, target: Mixture, level: int) -> tuple[_Line, _Cuts, Tensor]:
    inner, A, slope = _levels(mesh.anchor, mesh.offset, sets, level)
    other = tuple(t.unsqueeze(1) for t in target)
    inner_b, b, slope_b = _levels(mesh.anchor, mesh.offset, other, level)  # type: ignore[arg-type]
    middle = (target[0] * target[2]).sum(-1)
    end = torch.zeros_like(inner[:, :, 0])
    if level:
        end = -((sets[0] - middle[:, None, None]) * sets[2]).sum(-1)
    line = _Line(mesh, sets, target, level, A - b, slope - slope_b)
    place = torch.arange(A.shape[-1], dtype=A.dtype, device=A.device).expand(A.shape[0], -1)
    # Padding stands at the end: cells of length 0.
    real = mesh.weight > 0
    return (
        line,
        _Cuts(
            torch.where(real, place, torch.inf),
            torch.where(real.unsqueeze(1), inner - inner_b, end.unsqueeze(-1)),
        ),
        end,
    )


@dataclass(frozen=True)
class _Brackets:
    """Flat intervals anchor + [low, high] of the cells `cell` of the sets `owner` in which h changes its sign
    once, from `sign`."""

    owner: Tensor
    cell: Tensor
    anchor: Tensor
    low: Tensor
    high: Tensor
    sign: Tensor


def _brackets(line: _Line, beta: Tensor) -> tuple[_Brackets, Tensor]:
    """Where the sign of h changes between nodes, and its sign at the last node.

    Two roots may hide between nodes at which the sign is the same: h has an extremum towards 0 there.
    """
    h, slope = ((beta.unsqueeze(1) @ x).squeeze(1) for x in (line.A, line.slope))
    real = line.mesh.weight > 0
    plus = h > 0
    same = plus[:, 1:] == plus[:, :-1]
    fall = torch.where(plus, slope, -slope)
    hidden = same & (fall[:, :-1] < 0) & (fall[:, 1:] > 0) & real[:, 1:]
    owner, cell = ((~same & real[:, 1:]) | hidden).nonzero(as_tuple=True)
    anchor, low = line.mesh.anchor[owner, cell], line.mesh.offset[owner, cell]
    high = (line.mesh.anchor[owner, cell + 1] - anchor) + line.mesh.offset[owner, cell + 1]
    sign = torch.where(plus[owner, cell], 1.0, -1.0).to(beta)
    twin = hidden[owner, cell]
    a, b = fall[owner, cell], fall[owner, cell + 1]
    turn = torch.where(twin, low + (high - low) * a / torch.where(twin, a - b, 1.0), high)
    at = tuple(t[owner] for t in line.sets), tuple(t[owner].unsqueeze(1) for t in line.target)
    up, down = (_levels(anchor[:, None], turn[:, None], x, line.level)[1].squeeze(-1) for x in at)  # type: ignore[arg-type]
    crossed = ((up * beta[owner]).sum(-1) - down.squeeze(-1)) * sign < 0
    first, second = ~twin | crossed, twin & crossed
    flat = (owner, cell, anchor)
    joined = [torch.cat([t[first], t[second]]) for t in flat]
    low, high = torch.cat([low[first], turn[second]]), torch.cat([turn[first], high[second]])
    order = joined[0].argsort(stable=True)
    every = (*joined, low, high, torch.cat([sign[first], -sign[second]]))
    last = plus.gather(-1, real.sum(-1, keepdim=True) - 1)
    return _Brackets(*(t[order] for t in every)), last


def _exact(line: _Line, beta: Tensor, end: Tensor) -> _Here:
    """The integral of |h| for given weights and what follows from its roots."""
    brackets, last = _brackets(line, beta)
    owner, anchor, sign = brackets.owner, brackets.anchor, brackets.sign
    sets, target = tuple(t[owner] for t in line.sets), tuple(t[owner].unsqueeze(1) for t in line.target)

    def at(rows: Tensor | slice, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Antiderivatives (R, m) of A_j - b, values of A_j, slopes of A_j - b at flat points."""
        mine, other = tuple(t[rows] for t in sets), tuple(t[rows] for t in target)
        inner, value, slope = _levels(anchor[rows, None], x[:, None], mine, line.level)  # type: ignore[arg-type]
        less, below, fall = _levels(anchor[rows, None], x[:, None], other, line.level)  # type: ignore[arg-type]
        return (inner - less).squeeze(-1), (value - below).squeeze(-1), (slope - fall).squeeze(-1)

    def difference(rows: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        _, value, slope = at(rows, x)
        weights = beta[owner[rows]] * sign[rows].unsqueeze(-1)
        return (value * weights).sum(-1), (slope * weights).sum(-1)

    x = _refined(difference, brackets.low, brackets.high)
    inner, value, slope = at(slice(None), x)
    # Twice the antiderivative at every change of sign, and the end.
    gradient = torch.where(last, end, -end).index_add(0, owner, 2 * sign.unsqueeze(-1) * inner)
    steep = (slope * beta[owner]).sum(-1).abs().clamp_min(1e-300)
    bend = 2 * value.unsqueeze(-1) * value.unsqueeze(-2) / steep[:, None, None]
    hessian = bend.new_zeros(*beta.shape, beta.shape[1]).index_add(0, owner, bend.nan_to_num(posinf=0.0))
    place, table = _table(owner, line.place(brackets, x), inner, end)
    return _Here((gradient * beta).sum(-1).clamp_min(0), gradient, hessian, place, table)


def _table(owner: Tensor, place: Tensor, inner: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
    """Flat roots as cuts of their sets: places (B, R), antiderivatives (B, m, R); padded at the end."""
    count = torch.bincount(owner, minlength=len(end))
    column = torch.arange(len(owner), device=owner.device) - (count.cumsum(0) - count)[owner]
    width = int(count.max())
    places, inners = end.new_full((len(end), width), torch.inf), end.unsqueeze(-1).repeat(1, 1, width)
    places[owner, column] = place
    inners[owner, :, column] = inner
    return places, inners


def _refined(
    function: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], low: Tensor, high: Tensor
) -> Tensor:
    """Roots of functions that are positive at `low` and not at `high`: Newton inside the bracket."""
    low, high = low.clone(), high.clone()
    small = 1e-14 * (high - low)
    x = 0.5 * (low + high)
    rows = torch.arange(len(x), device=x.device)
    for _ in range(80):
        if not len(rows):
            break
        here = x[rows]
        value, slope = function(rows, here)
        a, b = torch.where(value > 0, here, low[rows]), torch.where(value > 0, high[rows], here)
        step = here - value / torch.where(slope == 0, torch.inf, slope)
        new = torch.where((step > a) & (step < b), step, 0.5 * (a + b))
        x[rows], low[rows], high[rows] = new, a, b
        rows = rows[(new - here).abs() > small[rows] + 2 * EPS * here.abs()]
    return x


def _levels(anchor: Tensor, offset: Tensor, mix: Mixture, level: int) -> tuple[Tensor, Tensor, Tensor]:
    """(R, m, N) antiderivative, value and slope of densities (level 0) or distribution functions (level 1) at
    anchor + offset (R, N), for mixtures (R, m, M)."""
    loc, scale, weights = (t.unsqueeze(-1) for t in mix)
    d = (anchor[:, None, None] - loc) + offset[:, None, None]
    z = d / scale
    bell = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
    below = weights * 0.5 * torch.special.erfc(-z * math.sqrt(0.5))
    density = weights * bell / scale
    if level == 0:
        return below.sum(2), density.sum(2), (-density * z / scale).sum(2)
    return (d * below + weights * scale * bell).sum(2), below.sum(2), density.sum(2)
