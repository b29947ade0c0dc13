"""The highest density region of a Normal mixture (definition "hdr-def"), from its density, never from samples.

R = {y : p(y) >= c} with c the largest constant such that P(R) >= 1 - alpha. The mass outside is a smooth,
increasing function of u = log c with derivative sum over crossings of c / |p'/p|. Its logarithm, nearly a straight
line in u, is solved for log alpha by Newton's method inside a bracket: however small alpha is, nothing underflows.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cbdl.credal.line import compiled
from cbdl.credal.line.grids import Grid, sampled
from cbdl.credal.line.levels import SETTLED, Crossings, Profile, crossings, profile
from cbdl.credal.line.mixture import EPS, Mixtures, even_step, log_masses, piece_masses
from cbdl.credal.line.quintic import Node, mass, quintic
from cbdl.credal.line.single import single_regions

_TINY = torch.finfo(torch.float64).tiny
_DEEP = 1e-280
"""Below this a mass is computed by logarithms: it may be about to underflow."""
_COARSE = math.log(1e-6)
"""The smallest log alpha that the coarse start can see."""
_STEP = 0.4
"""How closely bisection finds the coarse start."""
_SKETCHES = 3
_HASTE = 1e-2
"""The last step of ends of a level that is not the final one, relative to their natural length."""
CHUNK = 1 << 18
"""Components of the mixtures that are worked on at a time."""


def hdr(mix: Mixtures, alpha: float) -> tuple[Tensor, Crossings]:
    """(B,) the levels log c of mixtures whose weights sum to 1, and the ends of their (1 - alpha) regions."""
    return hdr_at(mix, mix.loc.new_full((len(mix),), math.log(alpha)))


def hdr_at(mix: Mixtures, log_alpha: Tensor, slack: float = 0.0) -> tuple[Tensor, Crossings]:
    """The same for one alpha per mixture, given by its logarithm (B,), which may be as low as -1e12.

    With `slack`, the levels are lowered by so many units of rounding: no point is left out whose density rounds to c.
    """
    if compiled.worth(mix.loc):
        level, sure = compiled.regions(mix, log_alpha, slack)
    else:
        single = single_regions(mix, log_alpha)
        single = single.lowered(slack) if slack else single
        level, sure = torch.full_like(log_alpha, math.nan), single.crossings()
        level[single.rows] = single.level
    rest = level.isnan().nonzero()[:, 0]
    if len(rest) == 0:
        return level, joined([sure])
    level[rest], ends = _general(mix[rest], log_alpha[rest], slack)
    ends = Crossings(rest[ends.owner], ends.high, ends.low, ends.rising, ends.score)
    return level, joined([sure, ends])


def _general(mix: Mixtures, log_alpha: Tensor, slack: float) -> tuple[Tensor, Crossings]:
    """The same for regions of any shape."""
    step = even_step(len(mix), max(1, CHUNK // mix.loc.shape[1]))
    levels: list[Tensor] = []
    parts: list[Crossings] = []
    for i in range(0, len(mix), step):
        level, ends = _hdr(mix[i : i + step], log_alpha[i : i + step], slack)
        levels.append(level)
        parts.append(Crossings(ends.owner + i, ends.high, ends.low, ends.rising, ends.score))
    return torch.cat(levels), joined(parts)


def joined(parts: list[Crossings]) -> Crossings:
    """Crossings of disjoint groups of owners as one list, by owner and place."""
    fields = ("owner", "high", "low", "rising", "score")
    columns = [torch.cat([getattr(part, name) for part in parts]) for name in fields]
    rank = columns[0].argsort(stable=True)
    return Crossings(*(c[rank] for c in columns))


def _hdr(mix: Mixtures, log_alpha: Tensor, slack: float) -> tuple[Tensor, Crossings]:
    grid, values = sampled(mix)
    shape = profile(mix, grid, values)
    top = shape.top
    level, low, high = coarse_level(grid, values[0], top, log_alpha), top - math.inf, top
    level = _sketched_level(shape, top, level, log_alpha)
    alpha = log_alpha.exp()
    rows = torch.arange(len(mix), device=level.device)
    done: list[Crossings] = []
    before = torch.full_like(level, math.inf)
    near_ends: Crossings | None = None
    for step in range(80):
        u, wanted = level[rows], log_alpha[rows]
        # The first level is good to a few digits only: ends to some more are enough to find the next.
        settled = SETTLED if step else _HASTE
        ends = crossings(shape, u, rows if len(rows) < len(mix) else None, near_ends, settled)
        outside, slope = log_outside(mix, ends, u, rows)
        miss = outside - wanted
        a = torch.where(miss < 0, u, low[rows])
        b = torch.where(miss < 0, high[rows], u)
        low[rows], high[rows] = a, b
        newton = -miss / slope.clamp_min(_TINY)
        move = u + newton
        # Newton's step must stay inside and the miss must shrink; else halve (or go down by doubling steps).
        bad = ~((move >= a) & (move <= b)) | (miss.abs() > 0.5 * before[rows])
        bad |= newton.abs() > 30 + 0.5 * wanted.abs()
        before[rows] = torch.where(bad, math.inf, miss.abs())
        halved = torch.where(torch.isinf(a), b - 2.0**step, 0.5 * (a + b))
        rounding = 4 * EPS * (1 + u.abs())
        still = (miss.abs() <= 2 * EPS * (1 + wanted.abs()) + rounding * slope) | (b - a <= rounding)
        # After a step this small the next one is a few roundings; the ends move along their tangents.
        near = ~bad & (newton.abs() * slope.clamp_min(1).square() <= (0.0 if slack else 1e-7))
        # Where the mass hangs on the last bit of the level (a plateau), end on the side that covers enough.
        share = alpha[rows]
        short = still & (miss * share > 2e-13 * torch.minimum(share, 1 - share))
        level[rows] = torch.where(short, u - rounding, torch.where(still, u, torch.where(bad, halved, move)))
        final = ((still & ~short) | (near & ~still)) & (step > 0)
        done.append(_kept(ends, final, rows, torch.where(still, 0.0, newton)))
        near_ends = _kept(ends, ~final, rows, level[rows] - u)
        rows = rows[~final]
        if len(rows) == 0:
            break
    else:
        everything = torch.ones_like(rows, dtype=torch.bool)
        done.append(
            _kept(crossings(shape, level[rows], rows), everything, rows, torch.zeros_like(level[rows]))
        )
    if slack:
        level = level - slack * EPS * (1 + level.abs() + shape.top.abs())
        return level, crossings(shape, level)
    return level, joined(done)


def _kept(ends: Crossings, some: Tensor, rows: Tensor, shift: Tensor) -> Crossings:
    """The crossings of some mixtures, moved to the level that is higher by `shift`."""
    keep = some[ends.owner]
    owner, score = ends.owner[keep], ends.score[keep]
    moved = torch.where(shift[owner] == 0, 0.0, shift[owner] / score)
    cell = None if ends.cell is None else ends.cell[keep]
    return Crossings(rows[owner], ends.high[keep], ends.low[keep] + moved, ends.rising[keep], score, cell)


def coarse_level(grid: Grid, logp: Tensor, top: Tensor, log_alpha: Tensor) -> Tensor:
    """A level to start from: bisection with masses by the trapezoidal rule, then one step by linear cells."""
    count = grid.count
    column = torch.arange(int(count.max()), device=count.device)
    index = grid.first[:-1, None] + torch.minimum(column, count[:, None] - 1)
    # Relative to the highest point, single precision is plenty for a start.
    high, low, logp = grid.high[index], grid.low[index], (logp - top[grid.owner]).to(torch.float32)[index]
    width = ((high[:, 1:] - high[:, :-1]) + (low[:, 1:] - low[:, :-1])).mul_(top.exp()[:, None])
    width = width.to(torch.float32)
    density = logp.exp()
    mass = 0.5 * density * (torch.nn.functional.pad(width, (0, 1)) + torch.nn.functional.pad(width, (1, 0)))
    seen = log_alpha.clamp_min(_COARSE)
    content = (-torch.expm1(seen)).to(torch.float32)
    lower, upper = (seen - 60).to(torch.float32), torch.zeros_like(logp[:, 0])
    for _ in range(math.ceil(math.log2((60 - _COARSE) / _STEP))):
        middle = 0.5 * (lower + upper)
        over = torch.where(logp >= middle[:, None], mass, 0.0).sum(-1) < content
        lower, upper = torch.where(over, lower, middle), torch.where(over, middle, upper)
    level = 0.5 * (lower + upper)
    # log p taken as linear in each cell: the part above the level, and how fast it shrinks as the level rises.
    a, b, c = logp[:, :-1], logp[:, 1:], level[:, None]
    rise = (b - a).abs().clamp_min(1e-6)
    part = ((torch.maximum(a, b) - c) / rise).clamp(0, 1)
    cell = 0.5 * (torch.maximum(density[:, :-1], density[:, 1:]) + torch.minimum(a, b).clamp_min(c).exp())
    outside = (1 - (part * cell * width).sum(-1).to(torch.float64)).clamp_min(_TINY)
    slope = torch.where((part > 0) & (part < 1), width / rise, 0.0).sum(-1) * level.exp()
    step = -(outside.log() - seen) * outside / slope.to(torch.float64)
    start = level.to(torch.float64) + torch.where(torch.isfinite(step), step.clamp(-0.3, 0.3), 0.0)
    # Further out than can be seen here, the logarithm of the mass falls about as fast as the level.
    return top + start.clamp_max(-1e-6) + (log_alpha - seen)


def _sketched_level(shape: Profile, top: Tensor, start: Tensor, log_alpha: Tensor) -> Tensor:
    """A better level to start from: a few steps of Newton's method on polynomials between nodes."""
    grid, scale = shape.grid, top.exp()
    owner, logp = grid.owner, shape.logp - top[grid.owner]
    width = (grid.high[1:] - grid.high[:-1]).add_(grid.low[1:] - grid.low[:-1])
    there = torch.isfinite(logp)
    inner = there[1:] & there[:-1]  # every grid ends with nodes without density
    nodes = logp, shape.slope, shape.curve
    left, right = (logp[:-1], nodes[1][:-1], nodes[2][:-1]), (logp[1:], nodes[1][1:], nodes[2][1:])
    cell = torch.where(inner, mass(width, left, right), 0.0)
    seen, level = log_alpha.clamp_min(_COARSE), start - top
    for _ in range(_SKETCHES):
        below = logp < level[owner]
        low, high = below[:-1], below[1:]
        whole = torch.where(low & high, cell, 0.0)
        outside = torch.zeros_like(level).index_add_(0, owner[:-1], whole)
        cut = ((low != high) & inner).nonzero()[:, 0]
        at, size = owner[cut], width[cut]
        u, left, right = level[at], _at(nodes, cut), _at(nodes, cut + 1)
        line = quintic(size, left, right)
        t = line.root(u, torch.zeros_like(u), torch.ones_like(u))
        _, first, second = line.at(t)
        part = t * size
        here = u, first / size, second / size.square()
        piece = torch.where(low[cut], mass(part, left, here), mass(size - part, here, right))
        outside.index_add_(0, at, piece)
        fall = (u.exp() * size / first.abs().clamp_min(1e-6)).nan_to_num(0.0)
        rate = torch.zeros_like(level).index_add_(0, at, fall)
        miss = (outside * scale).clamp_min(_TINY).log() - seen
        step = -miss * outside / rate.clamp_min(_TINY)
        level = (level + torch.where(torch.isfinite(step), step.clamp(-0.5, 0.5), 0.0)).clamp_max(-1e-9)
    return torch.where(log_alpha >= _COARSE, top + level, start)


def _at(nodes: Node, index: Tensor) -> Node:
    return nodes[0][index], nodes[1][index], nodes[2][index]


def log_outside(
    mix: Mixtures, ends: Crossings, level: Tensor, rows: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(R,) twice: log P(outside) and its derivative in the level, for the mixtures `rows` (all by default).

    To all digits, whether nearly everything is outside or so little that only its logarithm can be told.
    """
    rows = torch.arange(len(mix), device=level.device) if rows is None else rows
    owner, low, high = complement_pieces(ends, len(rows))
    outside = torch.zeros_like(level).index_add_(0, owner, _mass(mix, rows[owner], low, high))
    logs = outside.clamp_min(_TINY).log()
    most = (outside > 0.5).nonzero()[:, 0]
    if len(most):
        logs[most] = torch.log1p(-_inside(mix, ends, rows, outside > 0.5)[most])
    if (outside < _DEEP).any():
        logs = torch.where(outside < _DEEP, _deep_outside(mix, ends, rows, outside < _DEEP), logs)
    share = (level - logs)[ends.owner].exp() / ends.score.abs().clamp_min(_TINY)
    return logs, torch.zeros_like(level).index_add_(0, ends.owner, share)


def _inside(mix: Mixtures, ends: Crossings, rows: Tensor, some: Tensor) -> Tensor:
    """(R,): P(inside) of those mixtures for which `some` (R,) is true; 0 for the others."""
    pair = torch.stack([ends.high, ends.low]).view(2, -1, 2)[:, some[ends.owner[::2]]]
    owner = ends.owner[::2][some[ends.owner[::2]]]
    mass = _mass(mix, rows[owner], (pair[0, :, 0], pair[1, :, 0]), (pair[0, :, 1], pair[1, :, 1]))
    return mass.new_zeros(len(rows)).index_add_(0, owner, mass).clamp_max(1 - EPS / 2)


def _deep_outside(mix: Mixtures, ends: Crossings, rows: Tensor, some: Tensor) -> Tensor:
    """(R,): log P(outside) of those mixtures for which `some` (R,) is true, by logarithms throughout."""
    owner, low, high = complement_pieces(ends, len(rows))
    here = some[owner]
    owner, low, high = owner[here], (low[0][here], low[1][here]), (high[0][here], high[1][here])
    each = _mass(mix, rows[owner], low, high, log=True)
    top = each.new_full((len(rows),), -math.inf).scatter_reduce(0, owner, each, "amax")
    share = (each - top[owner]).exp()
    return top + torch.zeros_like(top).index_add_(0, owner, share).clamp_min(_TINY).log()


def complement_pieces(
    ends: Crossings, sets: int
) -> tuple[Tensor, tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The intervals outside {p >= c}, with the two half-lines: owner, lower end, upper end."""
    total = len(ends.owner) + 2 * sets
    owner = torch.arange(sets, device=ends.owner.device).repeat(2)
    count = torch.zeros(sets, dtype=torch.int64, device=owner.device)
    count.index_add_(0, ends.owner, torch.ones_like(ends.owner))
    first = (count + 2).cumsum(0) - (count + 2)
    points = torch.zeros(2, total, dtype=torch.float64, device=owner.device)
    points[0, first] = -math.inf
    points[0, first + count + 1] = math.inf
    at = torch.arange(len(ends.owner), device=owner.device) + 2 * ends.owner + 1
    points[0, at], points[1, at] = ends.high, ends.low
    pair = points.view(2, -1, 2)
    owner = torch.repeat_interleave(torch.arange(sets, device=owner.device), count // 2 + 1)
    return owner, (pair[0, :, 0], pair[1, :, 0]), (pair[0, :, 1], pair[1, :, 1])


def _mass(
    mix: Mixtures, owner: Tensor, low: tuple[Tensor, Tensor], high: tuple[Tensor, Tensor], log: bool = False
) -> Tensor:
    if not log:
        return piece_masses(mix.loc, mix.scale, mix.weight, owner, low, high)
    return log_masses(
        mix.loc[owner],
        mix.scale[owner],
        mix.weight[owner],
        (low[0][:, None], low[1][:, None]),
        (high[0][:, None], high[1][:, None]),
    )
