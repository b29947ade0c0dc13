"""The smallest region of coverage: Newton's method on its ends and on the prices of coverage at once.

At the optimum of `minimal` the ends e of the region R and lambda satisfy, with q = sum_j lambda_j p_j,

    log q(e) = 0  at every end,     P_j(R) - (1 - alpha) = s_j >= 0,     lambda_j >= 0,     lambda_j s_j = 0.

To solve the first for e and then the rest for lambda is natural and, for alpha near 1, hopeless: the region around a
peak of q is as wide as the root of what the peak exceeds 1 by, so that a lambda that is off by 1e-10 leaves nothing of
a region of width 1e-5. As equations in e and lambda together they are smooth. The ends that solve them cover what they
should to all digits, and an error of log q at an end costs no more than itself times the width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal.line.hdr import complement_pieces
from cbdl.credal.line.intervals import Intervals, intersection, padded, side_by_side, union
from cbdl.credal.line.levels import Crossings
from cbdl.credal.line.mesh import two_sum
from cbdl.credal.line.mixture import EPS, Extremes

STEPS = 12
SETTLED = 1e-14
TINY = 1e-300


@dataclass(frozen=True)
class Ends:
    """K intervals of B sets, flat, by owner and place, disjoint: ends high + low, both (K, 2)."""

    owner: Tensor
    high: Tensor
    low: Tensor

    @property
    def widths(self) -> Tensor:
        """(K,)"""
        return (self.high[:, 1] - self.high[:, 0]) + (self.low[:, 1] - self.low[:, 0])

    @property
    def gaps(self) -> Tensor:
        """(K,): from the end of an interval to the start of the next one of the set; infinite after the last."""
        gap = torch.full_like(self.high[:, 0], torch.inf)
        between = (self.high[1:, 0] - self.high[:-1, 1]) + (self.low[1:, 0] - self.low[:-1, 1])
        gap[:-1] = torch.where(self.owner[1:] == self.owner[:-1], between, torch.inf)
        return gap

    def pair(self, side: int) -> tuple[Tensor, Tensor]:
        """The starts (0) or ends (1) as high and low."""
        return self.high[:, side], self.low[:, side]

    def padded(self, sets: int) -> Intervals:
        return padded(self.owner, self.pair(0), self.pair(1), sets)

    def places(self, sets: int) -> Tensor:
        """(K,): which interval of its set each one is."""
        count = torch.bincount(self.owner, minlength=sets)
        return torch.arange(len(self.owner), device=self.owner.device) - (count.cumsum(0) - count)[self.owner]

    def measure(self, sets: int) -> Tensor:
        """(B,): total lengths."""
        return self.high.new_zeros(sets).index_add_(0, self.owner, self.widths)

    def moved(self, step: Tensor) -> Ends:
        """With the ends shifted by (K, 2)."""
        return Ends(self.owner, *two_sum(self.high, self.low + step))

    def merged(self, sets: int) -> Ends:
        """Without overlaps."""
        if not (self.gaps < 0).any():
            return self
        return ends_of(union(self.padded(sets)))

    def only(self, keep: Tensor) -> Ends:
        """The intervals `keep` (K,) bool."""
        return Ends(self.owner[keep], self.high[keep], self.low[keep])

    def take(self, rows: Tensor, sets: int) -> Ends:
        """The intervals of the sets `rows` (R,), in order, whose owners count in `rows`."""
        place = torch.full((sets,), -1, dtype=torch.int64, device=rows.device)
        place[rows] = torch.arange(len(rows), device=rows.device)
        mine = self.only(place[self.owner] >= 0)
        return Ends(place[mine.owner], mine.high, mine.low)

    def put(self, rows: Tensor, other: Ends, sets: int) -> Ends:
        """The same with the intervals of the sets `rows` (R,) replaced by those of `other`."""
        stays = torch.ones(sets, dtype=torch.bool, device=rows.device)
        stays[rows] = False
        rest = self.only(stays[self.owner])
        owner = torch.cat([rest.owner, rows[other.owner]])
        order = owner.argsort(stable=True)
        high, low = torch.cat([rest.high, other.high]), torch.cat([rest.low, other.low])
        return Ends(owner[order], high[order], low[order])


@dataclass(frozen=True)
class Dual:
    """D at lambda: its gradient, (1 - alpha) - P_j(R) (B, m), the measure of R (B,), Hessian (B, m, m) of -D."""

    short: Tensor
    measure: Tensor
    hessian: Tensor


@dataclass(frozen=True)
class State:
    """Regions with the prices lambda and the slack s of coverage, (B, m) each; D(lambda) (B,), nan where not known."""

    region: Ends
    prices: Tensor
    slack: Tensor
    bound: Tensor

    @classmethod
    def of(cls, region: Ends, prices: Tensor, slack: Tensor) -> State:
        """With a D(lambda) that is not known."""
        return cls(region, prices, slack, torch.full_like(prices[:, 0], torch.nan))

    def take(self, rows: Tensor) -> State:
        region = self.region.take(rows, len(self.prices))
        return State(region, self.prices[rows], self.slack[rows], self.bound[rows])

    def put(self, rows: Tensor, other: State) -> State:
        prices, slack, bound = self.prices.clone(), self.slack.clone(), self.bound.clone()
        prices[rows], slack[rows], bound[rows] = other.prices, other.slack, other.bound
        return State(self.region.put(rows, other.region, len(prices)), prices, slack, bound)


def ends_of(x: Intervals) -> Ends:
    """Sorted disjoint intervals as flat ones."""
    at = x.valid.nonzero(as_tuple=True)
    return Ends(at[0], x.high[at], x.low[at])


def level_set(ends: Crossings) -> Ends:
    """{q >= 1} from the crossings of q with 1."""
    return Ends(ends.owner[::2], ends.high.view(-1, 2), ends.low.view(-1, 2))


def revised(old: Ends, level: Ends, sets: int) -> Ends:
    """The intervals of `old` where {q >= 1} has some: cut where it has gaps, and new ones where there are none.

    Both are narrow. A new interval as wide as {q >= 1} would cover far too much, a gap as wide as that of {q >= 1} far
    too little: that they are missing is why q differs from 1 there.
    """
    x, y = old.padded(sets), level.padded(sets)
    a, b = x.rounded()[:, :, None], y.rounded()[:, None]
    meet = torch.maximum(a[..., 0], b[..., 0]) <= torch.minimum(
        a[..., 1], b[..., 1]
    )  # false for padding: nan
    alone = ~meet.any(1)
    fresh = level.only(alone[level.owner, level.places(sets)])
    narrow = 0.495 * fresh.widths
    fresh = fresh.moved(torch.stack([narrow, -narrow], -1))
    cut = _slit(ends_of(intersection([x, y])), x)
    return ends_of(union(side_by_side([cut.padded(sets), fresh.padded(sets)])))


def _slit(cut: Ends, old: Intervals) -> Ends:
    """With gaps inside an interval of `old` made narrow."""
    gaps = torch.where(torch.isfinite(cut.gaps), cut.gaps, 0.0)
    middle = cut.high[:, 1] + (cut.low[:, 1] + 0.5 * gaps)
    new = (gaps > 0) & old[cut.owner].contains(middle[:, None])[:, 0]
    move = torch.zeros_like(cut.high)
    move[:, 1] = torch.where(new, 0.495 * gaps, 0.0)
    move[1:, 0] = -move[:-1, 1]
    return cut.moved(move)


def excess(sets: Extremes, region: Ends, alpha: float) -> Tensor:
    """(B, m): P_j(R) - (1 - alpha). Of inside and outside the smaller one is summed, so that its digits count."""
    total = sets.loc.new_zeros(len(sets), sets.m)
    high, low = region.high, region.low
    if alpha > 0.5:
        mass = sets.interval_masses(region.owner, region.pair(0), region.pair(1))
        return total.index_add_(0, region.owner, mass) - (1 - alpha)
    at = region.owner.repeat_interleave(2)
    owner, start, end = complement_pieces(Crossings(at, high.view(-1), low.view(-1), at, at), len(sets))
    return alpha - total.index_add_(0, owner, sets.interval_masses(owner, start, end))


def solve(sets: Extremes, alpha: float, start: State) -> State:
    """The optimum near regions with the right intervals; other sets end somewhere, and their gap will show it."""
    done, rows, now, part = start, torch.arange(len(sets), device=sets.loc.device), start, sets
    for _ in range(STEPS):
        now, error = _step(part, alpha, now)
        left = (error > SETTLED).nonzero()[:, 0]
        if len(left) < len(rows):
            done = done.put(rows, now)
            rows, now, part = rows[left], now.take(left), part[left]
        if len(rows) == 0:
            break
    return done.put(rows, now) if len(rows) else done


@dataclass(frozen=True)
class _Local:
    """At the ends (2 K,) of regions: log q, its slope inwards, and the shares lambda_j p_j / q (2 K, m)."""

    owner: Tensor
    side: Tensor
    rho: Tensor
    slope: Tensor
    share: Tensor


def _look(sets: Extremes, region: Ends, lam: Tensor) -> _Local:
    at = region.owner.repeat_interleave(2)
    high, low = region.high.view(-1), region.low.view(-1)
    side = high.new_tensor([-1.0, 1.0]).repeat(len(region.owner))
    logp, score, _ = sets.derivatives(at, high, low)
    terms = logp + lam.log()[at]
    rho = terms.logsumexp(-1)
    share = (terms - rho[:, None]).exp()
    return _Local(at, side, rho, -side * (share * score).sum(-1), share)


def _centred(sets: Extremes, region: Ends, lam: Tensor, slope: Tensor) -> Ends:
    """Short intervals beside their peak, where q falls at one end and rises at the other, moved on to it.

    Short gaps beside their dip likewise. An end that slopes the wrong way belongs to the shorter of both.
    """
    wrong = (slope <= 0).view(-1, 2)
    if not wrong.any():
        return region
    gaps = region.gaps
    before = torch.cat([gaps.new_full((1,), torch.inf), gaps[:-1]])
    by_gap = torch.stack([before, gaps], -1) < region.widths[:, None]
    beside = (wrong & ~by_gap).any(-1).nonzero()[:, 0]
    move = torch.zeros_like(region.high)
    move[beside] = _to_turn(sets, region, lam, beside, gap=False)[:, None]
    wrong_gap = (wrong[:, 1] & by_gap[:, 1])[:-1] | (wrong[:, 0] & by_gap[:, 0])[1:]
    left = wrong_gap.nonzero()[:, 0]
    step = _to_turn(sets, region, lam, left, gap=True)
    move[left, 1], move[left + 1, 0] = step, step
    return region.moved(move).merged(len(sets))


def _to_turn(sets: Extremes, region: Ends, lam: Tensor, which: Tensor, *, gap: bool) -> Tensor:
    """How far the intervals `which`, or the gaps after them, are from the turning point of q beside them."""
    last = which + 1 if gap else which
    start, end = region.pair(int(gap)), region.pair(int(not gap))
    anchor, low = start[0][which], start[1][which]
    length = (end[0][last] - anchor) + (end[1][last] - low)
    _, score, bend = sets.pooled(lam).at(region.owner[which], anchor, low + 0.5 * length)
    curve = (bend - score.square()) * (-1 if gap else 1)
    step = torch.where(curve < 0, score / curve.clamp_max(-TINY) * (1 if gap else -1), 0.0)
    return torch.minimum(torch.maximum(step, -20 * length), 20 * length)


def _step(sets: Extremes, alpha: float, state: State) -> tuple[State, Tensor]:
    """One step, and how far from the optimum the start was, relative to the measure (B,)."""
    lam, slack = state.prices, state.slack
    local = _look(sets, state.region, lam)
    region = _centred(sets, state.region, lam, local.slope)
    if region is not state.region:
        local = _look(sets, region, lam)
    at, rho, share = local.owner, local.rho, local.share
    slope = local.slope.abs().clamp_min(TINY)
    weight = rho.exp() / slope
    unit = region.measure(len(sets)).clamp_min(TINY)
    short = -excess(sets, region, alpha)
    total = (lam * slack).sum(-1)
    missed = rho.abs() * torch.minimum(rho.abs() / slope, region.widths.repeat_interleave(2))
    off = (short + slack).abs()
    error = total + (lam * off).sum(-1) + torch.zeros_like(total).index_add_(0, at, missed)
    # Also for those whose coverage costs nothing: 1e-10 of what may be missed is enough there.
    error = torch.maximum(error / unit, 1e-4 / min(alpha, 1 - alpha) * off.amax(-1))
    # The target for lambda slack falls to a tenth, and quadratically in the end.
    mu = ((total / unit).clamp_max(0.1) * total / sets.m)[:, None]
    matrix = torch.zeros_like(lam).unsqueeze(-1).repeat(1, 1, sets.m)
    matrix.index_add_(0, at, weight[:, None, None] * share[:, :, None] * share[:, None, :])
    right = lam * short + mu - torch.zeros_like(lam).index_add_(0, at, (weight * rho)[:, None] * share)
    x = _solved(matrix / unit[:, None, None], slack * lam / unit[:, None], right / unit[:, None])
    move = local.side * (rho + (share * x[at]).sum(-1)) / slope
    rise = (mu - lam * slack - slack * lam * x) / lam
    # Nearly whole steps in the end, when little is left: the error is squared.
    keep = (total / unit).clamp(1e-9, 0.01)[:, None]
    t = torch.minimum(_longest(x, torch.ones_like(x), keep), _longest(rise, slack, keep))
    t = torch.minimum(t, _widest(region, move.view(-1, 2), len(sets)))[:, None]
    moved = region.moved(t[region.owner] * move.view(-1, 2))
    moved = _without_lost(moved, region, rho.view(-1, 2), move.view(-1, 2), len(sets)).merged(len(sets))
    return State.of(moved, lam * (1 + t * x), slack + t * rise), error


def _without_lost(moved: Ends, region: Ends, rho: Tensor, move: Tensor, sets: int) -> Ends:
    """Without what a whole step would turn inside out: intervals where q is below 1 already, gaps where it is above."""
    closed = torch.zeros_like(moved.owner, dtype=torch.bool)
    closed[:-1] = (move[1:, 0] - move[:-1, 1] < -region.gaps[:-1]) & (rho[:-1, 1] > 0) & (rho[1:, 0] > 0)
    if closed.any():
        # The interval before such a gap ends where the one after it begins: they will be merged.
        after = closed.nonzero()[:, 0]
        high, low = moved.high.clone(), moved.low.clone()
        high[after, 1], low[after, 1] = moved.high[after + 1, 1], moved.low[after + 1, 1]
        return Ends(moved.owner, high, low)
    lost = (move[:, 1] - move[:, 0] < -region.widths) & (rho.amax(-1) < 0)
    keeps = moved.owner.new_zeros(sets).index_add_(0, moved.owner, (~lost).to(torch.int64))
    return moved.only(~lost | (keeps[moved.owner] == 0)) if lost.any() else moved


def _solved(matrix: Tensor, diagonal: Tensor, right: Tensor) -> Tensor:
    """x with (matrix + diagonal) x = right."""
    # Extremes may be equal: a little more on the diagonal, in proportion to what is there.
    plain = matrix.diagonal(dim1=1, dim2=2) * (1 + 1e-14) + diagonal + TINY
    matrix = matrix + torch.diag_embed(plain - matrix.diagonal(dim1=1, dim2=2))
    root = plain.rsqrt()
    factor, info = torch.linalg.cholesky_ex(matrix * root[:, :, None] * root[:, None, :])
    x = root * torch.cholesky_solve((root * right)[..., None], factor)[..., 0]
    plain = right / plain
    return torch.where((info == 0)[:, None] & torch.isfinite(x), x, plain)


def _longest(step: Tensor, value: Tensor, keep: Tensor) -> Tensor:
    """(B,): the largest t <= 1 that keeps value + t step at the share `keep` (B, 1) of value or more."""
    ratio = torch.where(step < 0, (keep - 1) * value / step.clamp_max(-TINY), 1.0)
    return ratio.amin(-1).clamp_max(1.0)


def _widest(region: Ends, move: Tensor, sets: int) -> Tensor:
    """(B,): the largest t <= 1 for which no interval and no gap becomes less than a fifth, or more than five times."""
    wider = move[:, 1] - move[:, 0]
    closer = torch.zeros_like(wider)
    closer[:-1] = move[1:, 0] - move[:-1, 1]
    t = move.new_ones(sets)
    for size, change in ((region.widths, wider), (region.gaps, closer)):
        shrink = torch.where(change < 0, -0.8 * size / change.clamp_max(-TINY), 1.0)
        t = t.scatter_reduce(0, region.owner, shrink, "amin")
    grow = torch.where(wider > 0, 4 * region.widths / wider.clamp_min(TINY), 1.0)
    return t.scatter_reduce(0, region.owner, grow, "amin")


def widened(sets: Extremes, alpha: float, region: Ends) -> Ends:
    """The region with its intervals stretched as little as makes every extreme's coverage at least 1 - alpha."""
    for _ in range(60):
        lacking = -excess(sets, region, alpha)
        if not (lacking > 0).any():
            break
        at = region.owner.repeat_interleave(2)
        density = sets.densities(at, region.high.view(-1), region.low.view(-1)).exp()
        half = 0.5 * region.widths
        gain = torch.zeros_like(lacking).index_add_(0, at, density * half.repeat_interleave(2)[:, None])
        stretch = torch.where(lacking > 0, lacking / gain.clamp_min(TINY) * (1 + 1e-3) + EPS, 0.0)
        stretch = stretch.amax(-1).clamp_max(1.0)[region.owner] * half
        room = torch.minimum(stretch, 0.4 * region.gaps)
        before = torch.cat([room.new_full((1,), torch.inf), region.gaps[:-1]])
        region = region.moved(torch.stack([-torch.minimum(stretch, 0.4 * before), room], -1))
    return region
