"""The highest density region of a Normal mixture (definition "hdr-def"), from its density, never from samples.

R = {y : p(y) >= c} with c the largest constant such that P(R) >= 1 - alpha. The mass outside is a smooth,
increasing function of u = log c with derivative sum over crossings of c / |p'/p|, and is solved for alpha by
Newton's method inside a bracket.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cbdl.credal.line.levels import Crossings, Grid, crossings, evaluate, make_grid, profile
from cbdl.credal.line.mixture import EPS, Mixtures, masses

CHUNK = 1 << 18
"""Components of the mixtures that are worked on at a time."""


def hdr(mix: Mixtures, alpha: float) -> tuple[Tensor, Crossings]:
    """(B,) the levels log c of mixtures whose weights sum to 1, and the ends of their (1 - alpha) regions."""
    step = max(1, CHUNK // mix.loc.shape[1])
    levels: list[Tensor] = []
    parts: list[Crossings] = []
    for i in range(0, len(mix), step):
        level, ends = _hdr(mix[i : i + step], alpha)
        levels.append(level)
        parts.append(Crossings(ends.owner + i, ends.high, ends.low, ends.rising, ends.score))
    return torch.cat(levels), joined(parts)


def joined(parts: list[Crossings]) -> Crossings:
    """Crossings of disjoint groups of owners as one list, by owner and place."""
    fields = ("owner", "high", "low", "rising", "score")
    columns = [torch.cat([getattr(part, name) for part in parts]) for name in fields]
    rank = columns[0].argsort(stable=True)
    return Crossings(*(c[rank] for c in columns))


def _hdr(mix: Mixtures, alpha: float) -> tuple[Tensor, Crossings]:
    grid = make_grid(mix)
    values = evaluate(mix, grid)
    shape = profile(mix, grid, values)
    level, low, high = _coarse_level(grid, values[0], shape.top, alpha), shape.top - math.inf, shape.top
    rows = torch.arange(len(mix), device=level.device)
    done: list[Crossings] = []
    before = torch.full_like(level, math.inf)
    for step in range(80):
        u = level[rows]
        ends = crossings(shape, u, rows if len(rows) < len(mix) else None)
        excess, slope = outside_excess(mix, ends, u, alpha, rows)
        a = torch.where(excess < 0, u, low[rows])
        b = torch.where(excess < 0, high[rows], u)
        low[rows], high[rows] = a, b
        newton = _newton(excess, slope, alpha)
        move = u + newton
        # Newton's step must stay inside and the miss must shrink; else halve (or go down by doubling steps).
        bad = ~((move >= a) & (move <= b)) | (excess.abs() > 0.5 * before[rows]) | (newton.abs() > 30)
        before[rows] = torch.where(bad, math.inf, excess.abs())
        halved = torch.where(torch.isinf(a), b - 2.0**step, 0.5 * (a + b))
        rounding = 4 * EPS * (1 + u.abs())
        still = (excess.abs() <= 2 * EPS * alpha + rounding * slope) | (b - a <= rounding)
        # After a step this small the next one is below rounding; the ends move along their tangents.
        near = ~bad & (newton.abs() * slope.clamp_min(1).square() <= 1e-7)
        # Where the mass hangs on the last bit of the level (a plateau), end on the side that covers enough.
        short = still & (excess > 2e-13 * min(alpha, 1 - alpha))
        level[rows] = torch.where(short, u - rounding, torch.where(still, u, torch.where(bad, halved, move)))
        final = (still & ~short) | (near & ~still)
        done.append(_kept(ends, final, rows, torch.where(still, 0.0, newton)))
        rows = rows[~final]
        if len(rows) == 0:
            break
    else:
        everything = torch.ones_like(rows, dtype=torch.bool)
        done.append(
            _kept(crossings(shape, level[rows], rows), everything, rows, torch.zeros_like(level[rows]))
        )
    return level, joined(done)


def _newton(excess: Tensor, slope: Tensor, alpha: float) -> Tensor:
    """Newton's step for log P(outside) = log alpha, which is nearly a straight line in the level."""
    outside = (excess + alpha).clamp_min(torch.finfo(torch.float64).tiny)
    step = -torch.log1p(excess / alpha) * outside if alpha <= 0.5 else -excess
    return step / slope.clamp_min(torch.finfo(torch.float64).tiny)


def _kept(ends: Crossings, final: Tensor, rows: Tensor, shift: Tensor) -> Crossings:
    """The crossings of the final mixtures, moved to the level that is higher by `shift`."""
    keep = final[ends.owner]
    owner, score = ends.owner[keep], ends.score[keep]
    moved = torch.where(shift[owner] == 0, 0.0, shift[owner] / score)
    return Crossings(rows[owner], ends.high[keep], ends.low[keep] + moved, ends.rising[keep], score)


def _coarse_level(grid: Grid, logp: Tensor, top: Tensor, alpha: float) -> Tensor:
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
    lower, upper = torch.full_like(logp[:, 0], math.log(alpha) - 60), torch.zeros_like(logp[:, 0])
    for _ in range(math.ceil(math.log2((60 - math.log(alpha)) / 0.1))):
        middle = 0.5 * (lower + upper)
        over = torch.where(logp >= middle[:, None], mass, 0.0).sum(-1) < 1 - alpha
        lower, upper = torch.where(over, lower, middle), torch.where(over, middle, upper)
    level = 0.5 * (lower + upper)
    # log p taken as linear in each cell: the part above the level, and how fast it shrinks as the level rises.
    a, b, c = logp[:, :-1], logp[:, 1:], level[:, None]
    rise = (b - a).abs().clamp_min(1e-6)
    part = ((torch.maximum(a, b) - c) / rise).clamp(0, 1)
    cell = 0.5 * (torch.maximum(density[:, :-1], density[:, 1:]) + torch.minimum(a, b).clamp_min(c).exp())
    inside = (part * cell * width).sum(-1)
    slope = torch.where((part > 0) & (part < 1), width / rise, 0.0).sum(-1) * level.exp()
    step = _newton((1 - inside - alpha).to(torch.float64), slope.to(torch.float64), alpha)
    level = level + torch.where(torch.isfinite(step), step.clamp(-0.3, 0.3), 0.0)
    return top + level.clamp_max(-1e-6)


def outside_excess(
    mix: Mixtures, ends: Crossings, level: Tensor, alpha: float, rows: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(R,) twice: P(outside) - alpha and its derivative in the level, for the mixtures `rows` (all by default).

    Whichever of inside and outside has the smaller target is summed, so that it is known to all its digits.
    """
    rows = torch.arange(len(mix), device=level.device) if rows is None else rows
    slope = torch.zeros_like(level).index_add_(
        0, ends.owner, level.exp()[ends.owner] / ends.score.abs().clamp_min(torch.finfo(torch.float64).tiny)
    )
    total = torch.zeros_like(level)
    if alpha <= 0.5:
        owner, low, high = complement_pieces(ends, len(rows))
        return total.index_add_(0, owner, _mass(mix, rows[owner], low, high)) - alpha, slope
    pair = torch.stack([ends.high, ends.low]).view(2, -1, 2)
    owner = ends.owner[::2]
    inside = _mass(mix, rows[owner], (pair[0, :, 0], pair[1, :, 0]), (pair[0, :, 1], pair[1, :, 1]))
    return (1 - alpha) - total.index_add_(0, owner, inside), slope


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


def _mass(mix: Mixtures, owner: Tensor, low: tuple[Tensor, Tensor], high: tuple[Tensor, Tensor]) -> Tensor:
    return masses(
        mix.loc[owner],
        mix.scale[owner],
        mix.weight[owner],
        (low[0][:, None], low[1][:, None]),
        (high[0][:, None], high[1][:, None]),
    )
