"""Highest density regions that are one interval, as those of most predictive distributions are.

They need no search for crossings:

1. Level and ends are found on polynomials between the nodes of a grid as fine as that of `grids`, in single precision.
2. A step on the mixture itself, for the level and both ends at once, cubes the error. It is repeated until the last one
   was so short that the next would be below rounding.
3. The same grid shows that there are no other crossings of this level. log p + y^2 / (2 s^2), s the least scale, is
   convex: above its tangents at the nodes and below its chords between them. So p is sure to be above the level in some
   cells and below in others; in the rest the signs of p' and p'' at the nodes show that it rises or falls.

Signs and bounds that rounding could turn count for nothing: such mixtures, and all others, are for the general way
(`hdr`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal.line.grids import BLOCK, CELL, Span, block_starts, span_of
from cbdl.credal.line.levels import Crossings
from cbdl.credal.line.mixture import EPS, Extremes, Mixtures, even_step, parabola_step
from cbdl.credal.line.quintic import Node, mass, quintic

LEAST, MOST = math.log(1e-3), math.log(0.5)
"""Of log alpha: the grid sees no less, and with more the mass inside would have to be summed."""

SETTLED = 3e-5
"""After a step of so much of its natural length an end is known to full precision: the error is a tenth of its cube."""

_REACH = 4.0
"""Scales from its location to which the grid follows a component; what is left there is added as a tail."""
_BLOCKS = 7
"""Blocks of nodes between the outermost locations at most."""
_FEW = 800
"""Mixtures whose grids may become larger by a block so that there is one size less: calls cost as much as that."""
_LARGE = 1 << 24
"""Bytes of all terms of the mixtures that are worked on at a time."""
_SLOPE, _BEND, _LOG = 1e-4, 1e-3, 1e-3
"""What p' / p, p'' / p and bounds of log p may be off by in single precision and the least scale, and more."""
_HALVINGS, _DEPTH, _STEPS = 7, 12.0, 2
"""Halvings of the levels that come into question, from the highest so far down; steps on the polynomials."""
_ROUNDS, _TRIES, _FAR = 3, 3, 1.0
"""Steps on the mixture itself, of natural lengths no longer than the last; and on parabolas for each."""
_TINY = torch.finfo(torch.float64).tiny


@dataclass(frozen=True)
class Single:
    """Regions of the mixtures `rows` (R,): log c (R,), and the ends start + low, low (R, 2), with p'/p there."""

    rows: Tensor
    level: Tensor
    start: Tensor
    low: Tensor
    score: Tensor

    def __getitem__(self, keep: Tensor) -> Single:
        return Single(*(t[keep] for t in (self.rows, self.level, self.start, self.low, self.score)))

    def of(self, rows: Tensor) -> Single:
        """The same as regions of some `rows` of more mixtures."""
        return Single(rows[self.rows], self.level, self.start, self.low, self.score)

    def lowered(self, units: float) -> Single:
        """With levels lower by so many units of rounding, and the ends moved outwards along the tangents there."""
        # log p is at most a few larger at the top; an end that has settled is off by some units more
        by = 2 * units * EPS * (8 + 2 * self.level.abs())
        low = self.low - by[:, None] / self.score
        return Single(self.rows, self.level - by, self.start, low, self.score)

    def crossings(self) -> Crossings:
        """As a list, by owner and place."""
        rising = torch.tensor([True, False], device=self.rows.device).repeat(len(self.rows))
        owner, start = self.rows.repeat_interleave(2), self.start.repeat_interleave(2)
        return Crossings(owner, start, self.low.reshape(-1), rising, self.score.reshape(-1))


def single_regions(mix: Mixtures, log_alpha: Tensor) -> Single:
    """The regions of those of B mixtures, weights summing to 1, that are sure to be one interval; log alpha (B,)."""
    span = span_of(Extremes(*(t[:, None] for t in (mix.loc, mix.scale, mix.weight))), _REACH)
    blocks = (((span.end - span.start) / (CELL * span.unit) + 1) / BLOCK).clamp_max(_BLOCKS + 1).ceil()
    blocks = torch.where((log_alpha >= LEAST) & (log_alpha <= MOST), blocks, math.inf)
    none = log_alpha[:0]
    done = [Single(none.long(), none, none, none[:, None].expand(0, 2), none[:, None].expand(0, 2))]
    for size in range(1, _BLOCKS + 1):
        rows = (blocks <= size).nonzero()[:, 0]
        if len(rows) < min(_FEW * (size + 2), int((blocks <= _BLOCKS).sum())):
            continue  # they go with those that are larger by a block
        blocks[rows] = math.inf
        chunk = max(1, _LARGE // (4 * BLOCK * (size + 2) * mix.loc.shape[1]))
        for some in torch.split(rows, even_step(len(rows), chunk)):
            if len(some):
                part, here = mix[some], span[some]
                rough = _rough(part, here, size)
                ends = _sketched(rough, log_alpha[some])
                found = _polished(part, here, ends * here.unit[:, None], log_alpha[some])
                done.append(_proven(rough, here.unit, found).of(some))
    return _joined(done)


def _joined(parts: list[Single]) -> Single:
    columns = zip(*((p.rows, p.level, p.start, p.low, p.score) for p in parts), strict=True)
    return Single(*(torch.cat(column) for column in columns))


def _proven(rough: _Rough, unit: Tensor, found: Single) -> Single:
    """Those whose level has no other crossings than the ends."""
    unit = unit[found.rows]
    sure, low, high = rough[found.rows].edges((found.level + unit.log()).float()[:, None])
    ends = found.low / unit[:, None]
    return found[sure & ((ends >= low) & (ends <= high)).all(-1)]


@dataclass(frozen=True)
class _Rough:
    """p, log p and its slope, and p''/p of B mixtures at the places (B, N), in units of the least scale."""

    place: Tensor
    p: Tensor
    logp: Tensor
    slope: Tensor
    bend: Tensor

    def __getitem__(self, rows: Tensor) -> _Rough:
        return _Rough(*(t[rows] for t in (self.place, self.p, self.logp, self.slope, self.bend)))

    def edges(self, level: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B,) bool: whether {p >= level} is surely one interval; and the places (B, 2) before and after its ends."""
        above, below, rising, falling = self._cells(level)
        edge, inside = ~above & ~below, ~below
        start, end = edge & rising, edge & falling
        once = (inside[:, 1:] & below[:, :-1]).sum(-1) == 1
        wrong = (edge & ~rising & ~falling).any(-1) | inside[:, 0] | inside[:, -1]
        # First it rises over the level, then it is above, then it falls.
        wrong |= (start[:, 1:] & above[:, :-1]).any(-1) | (end[:, :-1] & above[:, 1:]).any(-1)
        wrong |= (start[:, 1:] & end[:, :-1]).any(-1)
        first = torch.stack([start, end], 1).to(torch.uint8)
        low = first.argmax(-1)
        high = low + first.sum(-1)
        return once & ~wrong, self.place.gather(1, low).double(), self.place.gather(1, high).double()

    def _cells(self, level: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(B, N - 1) bool each: whether p is sure to be above the level, below it, to rise, and to fall."""
        logp, slope, bend = self.logp, self.slope, self.bend
        width = self.place.diff(dim=-1)
        up, down = slope > _SLOPE, slope < -_SLOPE
        # |p'| may dip to 0 between two nodes where p'' changes its sign; its tangents, twice as steep, bound it.
        share = (logp - logp.amax(-1, keepdim=True)).exp_()
        steep, curve = (slope.abs() - _SLOPE) * share, (2 * bend.abs() + _BEND) * share
        d0, d1, k0, k1 = steep[:, :-1], steep[:, 1:], curve[:, :-1], curve[:, 1:]
        meet = ((d0 - d1 + k1 * width) / (k0 + k1)).clamp_min_(0)
        dips = ~(d0 - k0 * meet > 0)
        hill, bowl = bend < _BEND, bend > -_BEND
        rising = up[:, :-1] & up[:, 1:] & ~(dips & hill[:, :-1] & bowl[:, 1:])
        falling = down[:, :-1] & down[:, 1:] & ~(dips & bowl[:, :-1] & hill[:, 1:])
        # Beyond the outermost locations p is monotone.
        rising[:, :BLOCK], falling[:, :BLOCK] = True, False
        rising[:, -BLOCK:], falling[:, -BLOCK:] = False, True
        left, right, bow = logp[:, :-1], logp[:, 1:], width.square() / 8
        tangent = torch.minimum(left + 0.5 * width * slope[:, :-1], right - 0.5 * width * slope[:, 1:]) - bow
        least, most = torch.minimum(left, right), torch.maximum(left, right)
        monotone = rising | falling
        above = torch.where(monotone, least, torch.minimum(tangent, least)) > level + _LOG
        below = torch.where(monotone, most, most + bow) < level - _LOG
        return above, below, rising, falling


def _rough(mix: Mixtures, span: Span, blocks: int) -> _Rough:
    """The values on even nodes between the outermost locations, and eight on either side out to the reach.

    As in `grids`: exp(-z^2 / 2) goes from one node to the next by a ratio, and sums with the coefficients 1, a, a loc,
    a^2, ... (a = 1 / scale^2) give p and its derivatives.
    """
    unit = span.unit[:, None]
    there = mix.weight > 0
    loc = torch.where(there, (mix.loc - span.start[:, None]) / unit, 0.0).float()
    inverse = torch.where(there, unit / mix.scale, 1.0).float()
    height = mix.weight.float().mul_(inverse).mul_(1 / math.sqrt(2 * math.pi))
    first, step = ((t / unit).float() for t in block_starts(span, blocks))
    at = (first[:, :, None] - loc[:, None]).mul_(inverse[:, None])
    width = step[:, :, None] * inverse[:, None]
    terms = at.new_empty(len(loc), BLOCK, *at.shape[1:])
    torch.mul(at, at, out=terms[:, 0]).mul_(-0.5).exp_().mul_(height[:, None])
    ratio = at.add_(width, alpha=0.5).mul_(width).neg_().exp_()
    fall = width.square_().neg_().exp_()
    for n in range(1, BLOCK):
        torch.mul(terms[:, n - 1], ratio, out=terms[:, n])
        ratio.mul_(fall)
    middle = ((span.end - span.start) / span.unit * 0.5).float()[:, None]
    a = inverse.square()
    c = a * (loc - middle)
    coefficients = torch.stack([torch.ones_like(a), a, c, a * a, a * c, c * c], 1)
    sums = coefficients @ terms.view(len(loc), -1, loc.shape[1]).mT
    total, by_a, by_c, by_aa, by_ac, by_cc = sums.unbind(1)
    place = (first[:, None] + step[:, None] * torch.arange(BLOCK, device=first.device)[:, None]).flatten(1)
    y = place - middle
    bend = (by_cc - y * (2 * by_ac - y * by_aa) - by_a).div_(total)
    values = (place, total, total.log(), (by_c - y * by_a).div_(total), bend)
    # By place: the first block leads to the left.
    order = torch.arange(place.shape[1], device=first.device).view(BLOCK, -1).T
    order = torch.cat([order[:1].flip(1), order[1:]]).reshape(-1)
    return _Rough(*(v.index_select(1, order) for v in values))


def _sketched(rough: _Rough, log_alpha: Tensor) -> Tensor:
    """About the first and last end (B, 2) of regions, on polynomials between the nodes."""
    p, logp, slope = rough.p, rough.logp, rough.slope
    curve = rough.bend - slope.square()
    left, right = (logp[:, :-1], slope[:, :-1], curve[:, :-1]), (logp[:, 1:], slope[:, 1:], curve[:, 1:])
    cell = mass(rough.place.diff(dim=-1), left, right)
    level = _coarse(logp, cell, log_alpha)
    tails = p[:, [0, -1]] / slope[:, [0, -1]].abs()
    before = torch.cat([tails[:, :1], cell], -1).cumsum_(-1)
    after = torch.cat([tails[:, 1:], cell.flip(-1)], -1).cumsum_(-1).flip(-1)
    tables = (rough.place, logp, slope, curve)
    # Both sides alike: from outside to inside.
    inwards = torch.tensor([1, -1], device=p.device)
    last = p.shape[1] - 1
    for _ in range(_STEPS):
        above = (logp >= level[:, None]).to(torch.uint8)
        inner = torch.stack([above.argmax(-1), last - above.flip(-1).argmax(-1)], -1).clamp_(1, last - 1)
        outer = inner - inwards
        index = torch.cat([outer, inner], -1)
        place, value, score, bend = (t.gather(1, index).double().view(-1, 2, 2) for t in tables)
        rest = before.gather(1, outer[:, :1]) + after.gather(1, outer[:, 1:])
        score = score * inwards
        here: Node = (value[:, 0], score[:, 0], bend[:, 0])
        width = (place[:, 1] - place[:, 0]) * inwards
        line = quintic(width, here, (value[:, 1], score[:, 1], bend[:, 1]))
        u = level[:, None].expand_as(width)
        t = line.root(u, torch.zeros_like(u), torch.ones_like(u))
        _, first, second = line.at(t)
        piece = mass(t * width, here, (u, first / width, second / width.square()))
        outside, rate = rest[:, 0] + piece.sum(-1), width / first
        step = -(outside.log() - log_alpha) * outside / (rate * u.exp()).sum(-1)
        level = level + step
    return place[:, 0] + inwards * (t * width + step[:, None] * rate)


def _coarse(logp: Tensor, cell: Tensor, log_alpha: Tensor) -> Tensor:
    """(B,): about the level, from the masses around nodes."""
    node = 0.5 * torch.nn.functional.pad(cell, (0, 1))
    node[:, 1:] += 0.5 * cell
    content = (-torch.expm1(log_alpha)).float()
    high = logp.amax(-1)
    low = high - _DEPTH
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        over = torch.where(logp >= middle[:, None], node, 0.0).sum(-1) < content
        low, high = torch.where(over, low, middle), torch.where(over, middle, high)
    return (0.5 * (low + high)).double()


def _polished(mix: Mixtures, span: Span, ends: Tensor, log_alpha: Tensor) -> Single:
    """Level and ends to full precision, from ends (B, 2) relative to the start of the span; where they are reached."""
    rows = torch.arange(len(mix), device=ends.device)
    done: list[Single] = []
    for _ in range(_ROUNDS):
        anchor, unit = span.start[rows], span.unit[rows]
        some = mix if len(rows) == len(mix) else mix[rows]
        level, move, score = _step(some, anchor, ends, log_alpha[rows])
        ends = ends + move
        off = (move.abs() / torch.minimum(unit[:, None], 1 / score.abs())).amax(-1)
        done.append(Single(rows, level, anchor, ends, score)[off <= SETTLED])
        more = ((off > SETTLED) & (off < _FAR)).nonzero()[:, 0]
        if len(more) == 0:
            break
        rows, ends = rows[more], ends[more]
    return _joined(done)


def _step(mix: Mixtures, anchor: Tensor, low: Tensor, log_alpha: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Level (B,), how far the ends anchor + low (B, 2) should move, and p'/p there."""
    shift = mix.height.amax(-1, keepdim=True)
    inverse = (1 / mix.scale)[:, None]
    z = (anchor[:, None] - mix.loc)[:, None].add(low[..., None]).mul_(inverse)
    sides = z.new_tensor([-math.sqrt(0.5), math.sqrt(0.5)])[:, None]
    outside = 0.5 * (torch.special.erfc(z * sides) @ mix.weight[..., None]).sum((1, 2))
    terms = torch.addcmul((mix.height - shift)[:, None], z, z, value=-0.5).exp_()
    one = z.new_ones(z.shape[-1])  # sums as products with ones: short rows are slow to sum otherwise
    total = terms @ one
    z.mul_(inverse)
    part = terms * z
    score = -(part @ one) / total
    bend = (part.mul_(z) @ one - terms.mul_(inverse).mul_(inverse) @ one) / total
    return _solved(total.log() + shift, score, bend, outside, log_alpha)


def _solved(
    logp: Tensor, score: Tensor, bend: Tensor, outside: Tensor, log_alpha: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same from what is known at the ends (B, 2), and the mass outside (B,).

    log p is a parabola near each end: its roots for a level u, and the mass between, make the mass outside a function
    of u alone.
    """
    curve = bend - score.square()
    p, sign = logp.exp(), logp.new_tensor([1.0, -1.0])
    level = logp.mean(-1)
    for _ in range(_TRIES):
        move = parabola_step(logp - level[:, None], score, curve)
        gain = p * move * (1 + move * (0.5 * score + move * bend / 6))
        now = (outside + (sign * gain).sum(-1)).clamp_min(_TINY)
        rate = (p * (1 + score * move) / (score + curve * move).abs()).sum(-1)
        level = level - (now.log() - log_alpha) * now / rate
    move = parabola_step(logp - level[:, None], score, curve)
    return level, move, score + curve * move
