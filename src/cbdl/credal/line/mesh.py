"""Quadrature on the line that resolves every Normal component of a set, whatever its scale and place.

A component N(mu, s^2) asks for panels of about its own width on |y - mu| <= 9.5 s and for nothing elsewhere.
Where several overlap the narrowest decides; where none reaches there are no panels, so modes 1e6 apart cost
no more than modes side by side. Every panel carries the Gauss-Kronrod rule (7, 15); the embedded 7-point
rule gives the error estimate.

A scale of 1e-8 at a location of 1e6 leaves no room for nodes among the float64 numbers. Nodes are therefore
kept as anchor + offset, two numbers that are only added after the location of a component is taken away.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal._batch import MEMORY

REACH = 9.5
"""Scales from its location to which a component is resolved; beyond lie 2e-21 of its mass."""

WIDTH = 1.4
"""Width of a panel in units of the local scale."""

_GAUSS = 7  # points of the embedded rule
_KRONROD_NODES = [
    0.991455371120812639206854697526329,
    0.949107912342758524526189684047851,
    0.864864423359769072789712788640926,
    0.741531185599394439863864773280788,
    0.586087235467691130294144045516045,
    0.405845151377397166906606412076961,
    0.207784955007898467600689403773245,
    0.0,
]
_KRONROD_WEIGHTS = [
    0.022935322010529224963732008058970,
    0.063092092629978553290700663189204,
    0.104790010322250183839876322541518,
    0.140653259715525918745189590510238,
    0.169004726639267902826583426598550,
    0.190350578064785409913256402421014,
    0.204432940075298892414161999234649,
    0.209482141084727828012999174891714,
]
_GAUSS_WEIGHTS = [
    0.129484966168869693270611432679082,
    0.279705391489276667901467771423780,
    0.381830050505118944950369775488975,
    0.417959183673469387755102040816327,
]
POINTS = 15
_NOTHING = 32767  # the step of the local scale where no component reaches


def _rule(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes on [0, 1], the weights of 15 points, and of the 7 embedded ones (0 at the others)."""
    half = torch.tensor(_KRONROD_NODES, dtype=torch.float64, device=device)
    fine = torch.tensor(_KRONROD_WEIGHTS, dtype=torch.float64, device=device)
    coarse = torch.zeros_like(fine)
    coarse[1::2] = torch.tensor(_GAUSS_WEIGHTS, dtype=torch.float64, device=device)
    nodes = torch.cat([-half[:-1], half.flip(0)])
    return (
        (nodes + 1) / 2,
        torch.cat([fine[:-1], fine.flip(0)]) / 2,
        torch.cat([coarse[:-1], coarse.flip(0)]) / 2,
    )


@dataclass(frozen=True)
class Mesh:
    """Nodes and weights on the line for B sets; padded nodes have weight 0 and a finite place.

    anchor, offset: (B, N), N a multiple of 15; the nodes are anchor + offset
    weight:         (B, N) of the 15-point rule
    coarse:         (B, N) of the embedded 7-point rule
    """

    anchor: Tensor
    offset: Tensor
    weight: Tensor
    coarse: Tensor

    @property
    def y(self) -> Tensor:
        """(B, N): the nodes, rounded to float64."""
        return self.anchor + self.offset

    def minus(self, loc: Tensor) -> Tensor:
        """(B, N, K): y - loc for loc (B, K), with all its digits near the narrow components."""
        return (self.anchor[:, :, None] - loc[:, None, :]) + self.offset[:, :, None]

    def integrate(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """(B, ...) twice: the integral of `values` (B, ..., N) over the mesh and an estimate of its error.

        The estimate is QUADPACK's: on each panel min(1, (200 d / a)^1.5) a, with d the difference of the two
        rules and a the integral of |f - mean f|; plus rounding.
        """
        total, error, rounding, _ = self._by_panel(values)
        return total.sum(-1), error.sum(-1) + rounding.sum(-1)

    def rough(self, values: Tensor, noise: Tensor, share: float) -> Tensor:
        """(B, panels) bool: those whose error is more than `share` of the integral of |values| (B, N).

        Not where the two rules differ by no more than the `noise` (B, N) of the values, which no finer panel would
        lower. Integrals below 1e-5 count as that: densities integrate to 1, and their difference needs no more.
        """
        _, error, _, difference = self._by_panel(values)
        size = (values.abs() * self.weight).sum(-1, keepdim=True).clamp_min(1e-5)
        noise = (noise * self.weight).view(len(values), -1, POINTS).sum(-1)
        return (error > share * size) & (difference > 2 * noise)

    def _by_panel(self, values: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(B, ..., panels) each: integral, its error, rounding, and the difference of the two rules."""
        shape = (values.shape[0], *([1] * (values.ndim - 2)), values.shape[-1])
        panels = (*values.shape[:-1], -1, POINTS)
        weight = self.weight.view(shape)
        terms = (values * weight).view(panels)
        fine = terms.sum(-1)
        coarse = (values * self.coarse.view(shape)).view(panels).sum(-1)
        widths = weight.view(*shape[:-1], -1, POINTS).sum(-1, keepdim=True)
        mean = fine[..., None] / widths.clamp_min(torch.finfo(torch.float64).tiny)
        spread = ((values.view(panels) - mean).abs() * weight.view(*shape[:-1], -1, POINTS)).sum(-1)
        difference = (fine - coarse).abs()
        ratio = 200 * difference / spread.clamp_min(torch.finfo(torch.float64).tiny)
        error = torch.where(spread > 0, ratio.clamp_max(1).pow(1.5) * spread, difference)
        return fine, error, 4 * torch.finfo(torch.float64).eps * terms.abs().sum(-1), difference

    def split(self, rows: Tensor, panels: Tensor, parts: int) -> Mesh:
        """The meshes `rows` (R,) with the marked `panels` (R, panels) cut into so many."""
        width = self.weight[rows].view(len(rows), -1, POINTS).sum(-1)
        start = self.offset[rows][:, ::POINTS] - width * _rule(rows.device)[0][0]
        count = torch.where(panels, parts, 1) * (width > 0)
        owner, old = count.nonzero(as_tuple=True)
        pieces = count[owner, old]
        run = torch.repeat_interleave(torch.arange(len(owner), device=rows.device), pieces)
        place = torch.arange(len(run), device=rows.device) - (pieces.cumsum(0) - pieces)[run]
        at = (owner[run], old[run])
        each = width[at] / pieces[run]
        anchor = self.anchor[rows][:, ::POINTS]
        cut = _Panels(at[0], anchor[at], start[at] + place * each, each, count.sum(-1))
        return _fill(cut, len(rows), int(cut.count.max()), anchor[:, 0])


@dataclass(frozen=True)
class Runs:
    """Maximal intervals of one local scale, of all sets, flat and in order.

    They start at anchor + offset; `gap` is the distance to the next run of the same set, 0 if they touch, and
    infinite after the last one.
    """

    owner: Tensor
    anchor: Tensor
    offset: Tensor
    length: Tensor
    unit: Tensor
    gap: Tensor


@dataclass(frozen=True)
class _Panels:
    """All panels of all sets, set after set: which set, start (as anchor + offset) and width."""

    owner: Tensor
    anchor: Tensor
    offset: Tensor
    width: Tensor
    count: Tensor  # (B,) panels of each set


def two_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """a + b as a float64 and the rounding error of it: together exact (Knuth)."""
    high = a + b
    rest = high - a
    return high, (a - (high - rest)) + (b - rest)


def runs(loc: Tensor, scale: Tensor, active: Tensor, reach: float = REACH) -> Runs:
    """Where components (B, K) must be resolved, and how finely.

    Local scales are rounded down to the smallest scale of the set times a power of the root of 2, so that sets of
    similar components have few runs, and a change of unit changes nothing.
    """
    ends, rests, first, last = _sorted_ends(loc, scale, reach)
    smallest = torch.where(active, scale, math.inf).amin(-1, keepdim=True)
    step = torch.where(active, (2 * (scale / smallest).log2()).floor(), _NOTHING).to(torch.int16)
    local = _narrowest(step, first, last)
    new = torch.ones_like(local, dtype=torch.bool)
    new[:, 1:] = local[:, 1:] != local[:, :-1]
    owner, start = new.nonzero(as_tuple=True)
    stop = torch.cat([start[1:], start.new_zeros(1)])
    stop = torch.where(stop == 0, local.shape[1], stop)
    wanted = local[owner, start] < _NOTHING
    owner, start, stop = owner[wanted], start[wanted], stop[wanted]
    anchor, offset = ends[owner, start], rests[owner, start]
    length = (ends[owner, stop] - anchor) + (rests[owner, stop] - offset)
    unit = smallest[owner, 0] * torch.exp2(0.5 * local[owner, start].to(torch.float64))
    gap = torch.full_like(length, math.inf)
    here, there = (owner[:-1], stop[:-1]), (owner[1:], start[1:])
    jump = (ends[there] - ends[here]) + (rests[there] - rests[here])
    gap[:-1] = torch.where(owner[1:] == owner[:-1], jump, math.inf)
    return Runs(owner, anchor, offset, length, unit, gap)


def _narrowest(step: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """(B, 2K - 1): of each segment between ends, the least step of the components (B, K) that cover it.

    Steps are few: for each one, from coarse to fine, the ends of its components are counted along the line.
    """
    local = torch.full((len(step), 2 * step.shape[1] - 1), _NOTHING, dtype=torch.int16, device=step.device)
    for one in torch.unique(step).flip(0).tolist():
        if one == _NOTHING:
            continue
        here = (step == one).to(torch.int32)
        change = torch.zeros(len(step), 2 * step.shape[1], dtype=torch.int32, device=step.device)
        change.scatter_(1, first, here).scatter_(1, last, -here)
        local.masked_fill_(change.cumsum(1, dtype=torch.int32)[:, :-1] > 0, one)
    return local


def _sorted_ends(loc: Tensor, scale: Tensor, reach: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The 2K ends loc -+ reach scale in order, as value and rest, and the ranks of each component's two ends."""
    low, low_rest = two_sum(loc, -reach * scale)
    high, high_rest = two_sum(loc, reach * scale)
    ends, rests = torch.cat([low, high], -1), torch.cat([low_rest, high_rest], -1)
    order = lexicographic(ends, rests)
    place = torch.arange(order.shape[-1], device=loc.device).expand_as(order)
    rank = torch.empty_like(order).scatter_(-1, order, place)
    first, last = rank.chunk(2, -1)
    return ends.gather(-1, order), rests.gather(-1, order), first, last


def lexicographic(high: Tensor, low: Tensor) -> Tensor:
    """The order of the sums high + low along the last dimension; |low| is below the rounding of high."""
    ordered, order = high.sort(dim=-1, stable=True)
    if not (ordered[..., 1:] == ordered[..., :-1]).any():
        return order
    order = low.argsort(dim=-1, stable=True)
    return order.gather(-1, high.gather(-1, order).argsort(dim=-1, stable=True))


def _panels(loc: Tensor, scale: Tensor, active: Tensor, refine: int) -> _Panels:
    stretches = runs(loc, scale, active)
    pieces = cells(stretches, WIDTH) * refine
    width = stretches.length / pieces.clamp_min(1)
    run = torch.repeat_interleave(torch.arange(len(pieces), device=loc.device), pieces)
    before = pieces.cumsum(0) - pieces
    place = torch.arange(len(run), device=loc.device) - before[run]
    count = torch.zeros(loc.shape[0], dtype=torch.int64, device=loc.device).index_add_(
        0, stretches.owner, pieces
    )
    start = stretches.offset[run] + place * width[run]
    return _Panels(stretches.owner[run], stretches.anchor[run], start, width[run], count)


def cells(stretches: Runs, width: float) -> Tensor:
    """Into how many cells of at most `width` local scales each run falls; 0 for runs of length 0."""
    # The small slack keeps 19 / 1.4 the same number of cells in every unit.
    pieces = (stretches.length / (stretches.unit * width) - 1e-9).ceil().clamp_min(1).to(torch.int64)
    return torch.where(stretches.length > 0, pieces, 0)


def _fill(panels: _Panels, sets: int, size: int, home: Tensor) -> Mesh:
    """The panels as a padded (B, 15 size) mesh; padding repeats a finite place with weight 0."""
    device = panels.width.device
    nodes, fine, coarse = _rule(device)
    before = panels.count.cumsum(0) - panels.count
    place = torch.arange(len(panels.owner), device=device) - before[panels.owner]
    flat = panels.owner * size + place

    def table(values: Tensor) -> Tensor:
        return torch.zeros(sets * size, dtype=torch.float64, device=device).index_copy_(0, flat, values)

    anchor = home[:, None].expand(sets, size).reshape(-1).index_copy(0, flat, panels.anchor)
    width = table(panels.width)[:, None]
    shape = (sets, size * POINTS)
    return Mesh(
        anchor[:, None].expand(-1, POINTS).reshape(shape),
        (table(panels.offset)[:, None] + width * nodes).view(shape),
        (width * fine).view(shape),
        (width * coarse).view(shape),
    )


def quadrature(
    loc: Tensor, scale: Tensor, active: Tensor | None = None, *, refine: int = 1, size: int | None = None
) -> Mesh:
    """A mesh for B sets of K components `loc`, `scale` (B, K) that resolves all of them.

    `active` (B, K) leaves out components (of weight 0). `refine` splits every panel into so many. `size`
    fixes the number of panels to which sets are padded; by default that of the largest set. For many sets
    prefer `on_meshes`, which groups sets of similar size.
    """
    active = torch.ones_like(loc, dtype=torch.bool) if active is None else active
    panels = _panels(loc, scale, active, refine)
    wanted = int(panels.count.max()) if size is None else size
    return _fill(panels, loc.shape[0], wanted, loc[:, 0])


def panel_counts(loc: Tensor, scale: Tensor, active: Tensor, refine: int = 1) -> Tensor:
    """(B,): the number of panels of each set, rounded up to a power of two or one and a half of it."""
    return bucket(_panels(loc, scale, active, refine).count)


def bucket(count: Tensor) -> Tensor:
    """Counts rounded up to a power of two or three quarters of one: few sizes, little padding."""
    power = torch.exp2(count.to(torch.float64).log2().ceil()).to(torch.int64)
    return torch.where(4 * count <= 3 * power, (3 * power) // 4, power).clamp_min(4)


def on_meshes(
    function: Callable[..., tuple[Tensor, ...]],
    loc: Tensor,
    scale: Tensor,
    active: Tensor | None,
    *tensors: Tensor,
    per_node: int,
    refine: int = 1,
    memory: int = MEMORY,
) -> tuple[Tensor, ...]:
    """`function(mesh, *tensors)` for B sets, on groups of sets whose meshes have the same padded size.

    The size of a set's mesh depends on the set alone, so its answer does not depend on the rest of the
    batch. `tensors` are (B, ...) and sliced along; every output is (b, ...) with trailing shape independent
    of the group. `per_node` is the working memory in bytes that `function` needs for one node of one set.
    """
    active = torch.ones_like(loc, dtype=torch.bool) if active is None else active
    ends = 2 * loc.shape[1]
    step = max(1, memory // (8 * ends * loc.shape[1] + 1024))
    counts = torch.cat(
        [
            panel_counts(loc[i : i + step], scale[i : i + step], active[i : i + step], refine)
            for i in range(0, loc.shape[0], step)
        ]
    )
    where: list[Tensor] = []
    parts: list[tuple[Tensor, ...]] = []
    for size in torch.unique(counts).tolist():  # a few dozen sizes at most
        members = (counts == size).nonzero()[:, 0]
        chunk = max(1, min(step, memory // (size * POINTS * per_node)))
        for rows in members.split(chunk):
            mesh = quadrature(loc[rows], scale[rows], active[rows], refine=refine, size=size)
            parts.append(function(mesh, *(t[rows] for t in tensors)))
            where.append(rows)
    back = torch.cat(where).argsort()
    return tuple(torch.cat(column)[back] for column in zip(*parts, strict=True))


def density(mesh: Mesh, loc: Tensor, scale: Tensor, weights: Tensor) -> Tensor:
    """(B, m, N): the densities of m mixtures of M Normals (B, m, M) at the nodes."""
    z = _standardised(mesh, loc, scale)
    height = weights / (scale * math.sqrt(2 * math.pi))
    return torch.einsum("bjkn,bjk->bjn", z.square_().mul_(-0.5).exp_(), height)


def log_density(mesh: Mesh, loc: Tensor, scale: Tensor, weights: Tensor) -> Tensor:
    """(B, m, N): the logarithms of the densities, finite also where the densities underflow."""
    z = _standardised(mesh, loc, scale)
    height = weights.log() - scale.log() - 0.5 * math.log(2 * math.pi)
    return torch.logsumexp(z.square_().mul_(-0.5).add_(height[..., None]), 2)


def cdf(mesh: Mesh, loc: Tensor, scale: Tensor, weights: Tensor) -> Tensor:
    """(B, m, N): the distribution functions of m mixtures at the nodes."""
    # torch.special.ndtr loses the lower tail; erfc does not.
    z = _standardised(mesh, loc, scale).mul_(-math.sqrt(0.5))
    return torch.einsum("bjkn,bjk->bjn", torch.special.erfc(z), 0.5 * weights)


def _standardised(mesh: Mesh, loc: Tensor, scale: Tensor) -> Tensor:
    """(B, m, M, N): (y - loc) / scale."""
    anchor, offset = mesh.anchor[:, None, None, :], mesh.offset[:, None, None, :]
    return ((anchor - loc[..., None]) + offset).div_(scale[..., None])
