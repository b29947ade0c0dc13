"""The smallest entropy between two bounds: a search over extreme points that looks at few of them.

Entropy is concave, so the minimum is at an extreme point: every class at a bound but for one, which takes what is
left. With each term h(x) = -x log x replaced by its chord between l_i and u_i, the problem is a continuous knapsack:
sort the chords' slopes, fill the cheapest. Its value L is a lower bound, its solution an extreme point, and only the
one class that is between its bounds makes a difference between the two. Let c be the slope at which the knapsack is
full. An extreme point at which the classes i of a set F are at the other bound has an entropy of at least

    L + sum_{i in F} |slope_i - c| w_i,

so that only few sets F can do better than what is known. Among those, a class i with l_i >= l_j and u_i >= u_j goes
before j: moving mass from j to i only lowers the entropy, hence p_i = u_i or p_j = l_j.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks
from cbdl.credal._border import EPS
from cbdl.credal.classes.box import free_mass

NODES = 1 << 12
"""Sets of classes looked at for one credal set: a count, not a time, so that answers repeat."""

CLOSED = 1e-13
"""A difference of entropies that is rounding."""

WITNESSES = 32
"""Classes, the widest, that may show others to be full or empty."""


def lower_entropy(lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(B,) the entropy in nats, (B,) its gap, (B, J) where it is attained, for l, u (B, J).

    The smallest entropy of the set lies in [value - gap, value]. The gap is 0 where the search came to its end, else
    the excess of one class over its chord.

    >>> l, u = torch.tensor([[0.2, 0.1, 0.3]]), torch.tensor([[0.5, 0.6, 0.6]])
    >>> lower_entropy(l.double(), u.double())[2]
    tensor([[0.3000, 0.1000, 0.6000]], dtype=torch.float64)
    """
    J = lower.shape[-1]
    value, gap, p = in_chunks(_relaxed, lower, upper, per_set=200 * J)
    at = (gap > CLOSED).nonzero().squeeze(-1)
    if len(at):
        low, high = lower[at], upper[at]
        state, undecided = _classified(low, high, gap[at])
        width = int(undecided.sum(-1).max())
        value[at], gap[at], p[at] = in_chunks(
            _searched,
            low,
            high,
            state,
            undecided,
            value[at],
            gap[at],
            p[at],
            per_set=16 * width * width + 400 * J,
        )
    return value, gap, p


@dataclass(frozen=True)
class _Knapsack:
    """The relaxation: p (B, J) its solution, up (B, J) the classes that are full in it, between (B, J) the one that is
    neither full nor empty, bound (B,) its value, cost (B, J) what the other bound costs each class."""

    p: Tensor
    up: Tensor
    between: Tensor
    bound: Tensor
    cost: Tensor


def _entropy(p: Tensor) -> Tensor:
    terms: Tensor = torch.special.entr(p)
    return terms.sum(-1)


def _knapsack(lower: Tensor, upper: Tensor) -> _Knapsack:
    room = upper - lower
    wide = room > 0
    rise = torch.special.entr(upper) - torch.special.entr(lower)
    slope = torch.where(wide, rise / torch.where(wide, room, 1.0), torch.inf)
    order = slope.argsort(dim=-1, stable=True)
    sorted_room, free = room.gather(-1, order), free_mass(lower)
    before = sorted_room.cumsum(-1) - sorted_room
    taken = torch.minimum((free - before).clamp_min(0), sorted_room)
    share = torch.empty_like(taken).scatter_(-1, order, taken)
    bound = _entropy(lower) + torch.where(wide, share * slope, 0.0).sum(-1)
    last = ((before < free).sum(-1, keepdim=True) - 1).clamp_min(0)
    full = slope.gather(-1, order.gather(-1, last))
    cost = torch.where(wide & torch.isfinite(full), (slope - full).abs() * room, 0.0)
    # By what was given: l + w may be an ulp away from u.
    up, empty = wide & (share >= room), share <= 0
    return _Knapsack(torch.where(up, upper, lower + share), up, wide & ~up & ~empty, bound, cost)


def _relaxed(lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The knapsack's extreme point and its neighbours: every class in turn between its bounds."""
    best = _knapsack(lower, upper)
    value, p = _entropy(best.p), best.p
    for state in (best.up, best.up | best.between):
        better, point = _completed(lower, upper, state)
        improved = better < value
        value, p = torch.where(improved, better, value), torch.where(improved.unsqueeze(-1), point, p)
    return value, (value - best.bound).clamp_min(0), p


def _completed(lower: Tensor, upper: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """(n,) the smallest entropy when the classes are at the bounds that `state` says (n, J) but for one, (n, J) there.

    The one takes what is left. Infinite where no class can.
    """
    x = torch.where(state, upper, lower)
    left = 1 - x.sum(-1, keepdim=True)
    moved = x + left
    # A sum of J bounds is known to a few roundings.
    slack = 4 * EPS * x.shape[-1]
    fits = (moved >= lower - slack) & (moved <= upper + slack)
    moved = torch.clamp(moved, lower, upper)
    change = torch.special.entr(moved) - torch.special.entr(x)
    change = torch.where(fits, change, torch.inf)
    least, at = change.min(-1, keepdim=True)
    point = x.scatter(-1, at, moved.gather(-1, at))
    return torch.where(torch.isfinite(least[:, 0]), _entropy(point), torch.inf), point


# --- the search --------------------------------------------------------------------------------------------


def _searched(
    lower: Tensor, upper: Tensor, state: Tensor, undecided: Tensor, value: Tensor, gap: Tensor, p: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    knapsack = _knapsack(lower, upper)
    owner, states, finished = _grown(lower, upper, knapsack.cost, state, undecided, gap)
    better, points = in_chunks(
        lambda o, t: _completed(lower[o], upper[o], t), owner, states, per_set=100 * lower.shape[-1]
    )
    least = torch.full_like(value, torch.inf).scatter_reduce_(0, owner, better, "amin")
    improved = least < value
    at = ((better == least[owner]) & improved[owner]).nonzero().squeeze(-1)
    value, p = torch.where(improved, least, value), p.clone()
    p[owner[at]] = points[at]
    return value, torch.where(finished, 0.0, (value - knapsack.bound).clamp_min(0)), p


def _precedes(lower: Tensor, upper: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """(B, R, C) bool: class rows[r] goes before columns[c], l_i >= l_j and u_i >= u_j; of equal ones the first does."""
    (li, lj), (ui, uj) = (
        (x.gather(-1, rows).unsqueeze(-1), x.gather(-1, columns).unsqueeze(-2)) for x in (lower, upper)
    )
    i, j = rows.unsqueeze(-1), columns.unsqueeze(-2)
    return (li >= lj) & (ui >= uj) & ((li > lj) | (ui > uj) | (i < j))


def _classified(lower: Tensor, upper: Tensor, gap: Tensor) -> tuple[Tensor, Tensor]:
    """`_decided` by the widest classes, and where that leaves many open, by all that are open."""
    J = lower.shape[-1]
    some = (upper - lower).topk(min(WITNESSES, J), -1).indices
    state, undecided = in_chunks(_decided, lower, upper, gap, some, per_set=48 * WITNESSES * J)
    many = (undecided.sum(-1) > WITNESSES).nonzero().squeeze(-1)
    if len(many):
        width = int(undecided[many].sum(-1).max())
        first = _in_order(lower[many], upper[many], undecided[many])[:, :width]
        up, still = in_chunks(_decided, lower[many], upper[many], gap[many], first, per_set=48 * width * J)
        # What the first pass closed stays as it was.
        state[many] = torch.where(undecided[many], up, state[many])
        undecided[many] &= still
    return state, undecided


def _decided(lower: Tensor, upper: Tensor, gap: Tensor, some: Tensor) -> tuple[Tensor, Tensor]:
    """(B, J) twice: which classes are at their upper bound, and for which of them that is still open.

    Closed are classes that cost too much at the other bound; those that would take more than there is once all that
    go before them are full; those without which the rest cannot take all; and what follows from closed ones. Only
    the classes `some` (B, R) are asked who goes before whom: what they do not show stays open.
    """
    J, knapsack = lower.shape[-1], _knapsack(lower, upper)
    room, free, slack = upper - lower, free_mass(lower), 4 * EPS * lower.shape[-1]
    state, wide = knapsack.up, room > 0
    undecided = wide & (knapsack.cost < gap.unsqueeze(-1) + CLOSED)
    everyone = torch.arange(J, device=lower.device).expand(lower.shape)
    ahead, behind = _precedes(lower, upper, some, everyone), _precedes(lower, upper, everyone, some)
    mass = room.gather(-1, some)
    before, after = (
        (mass.unsqueeze(-2) @ ahead.to(room)).squeeze(-2),
        (behind.to(room) @ mass.unsqueeze(-1)).squeeze(-1),
    )
    rest = room.sum(-1, keepdim=True) - after - room
    empty, full = (x.gather(-1, some) for x in (wide & ~undecided & ~state, ~undecided & state))
    low = (before + room > free + slack) | (ahead & empty.unsqueeze(-1)).any(-2)
    high = (rest < free - slack) | (behind & full.unsqueeze(-2)).any(-1)
    state = torch.where(undecided & low, False, torch.where(undecided & high, True, state))
    return state, undecided & ~low & ~high


def _grown(
    lower: Tensor, upper: Tensor, cost: Tensor, state: Tensor, undecided: Tensor, gap: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """All states that may do better: (n,) the set they belong to, (n, J) the states; and (B,) the sets that have all.

    One open class after the other, in an order in which those that go before come before: low, up, or between its
    bounds, which only one class may be and which costs nothing for sure.
    """
    count = undecided.sum(-1)
    rank = _in_order(lower, upper, undecided)[:, : int(count.max())]
    room, price, first = (x.gather(-1, rank) for x in (upper - lower, cost, state))
    before, fixed = _precedes(lower, upper, rank, rank), state & ~undecided
    taken = torch.where(fixed, upper - lower, 0.0)
    left = free_mass(lower).squeeze(-1) + 4 * EPS * lower.shape[-1] - taken.sum(-1)
    nodes = _Nodes(
        owner=torch.arange(len(lower), device=lower.device),
        choice=torch.zeros_like(rank, dtype=torch.bool),
        spent=torch.zeros_like(left),
        left=left,
        all_at_bounds=torch.ones_like(count, dtype=torch.bool),
    )
    finished = torch.ones_like(count, dtype=torch.bool)
    # A closed class that is up may turn out to be the one between, and give back some.
    spare = taken.amax(-1)
    for step in range(rank.shape[-1]):
        nodes = _stepped(nodes, step, step < count, room, price, first, before, gap + CLOSED, spare)
        crowded = torch.bincount(nodes.owner, minlength=len(lower)) > NODES
        finished &= ~crowded
        nodes = nodes.take(~crowded[nodes.owner])
    states, at = fixed[nodes.owner], rank[nodes.owner]
    return nodes.owner, states.scatter(-1, at, nodes.choice | states.gather(-1, at)), finished


@dataclass(frozen=True)
class _Nodes:
    """owner (n,): the set; choice (n, E): which open classes are up; spent (n,): what that costs; left (n,): the mass
    that is still free; all_at_bounds (n,): whether no open class was put between its bounds."""

    owner: Tensor
    choice: Tensor
    spent: Tensor
    left: Tensor
    all_at_bounds: Tensor

    def take(self, rows: Tensor) -> _Nodes:
        return _Nodes(*(x[rows] for x in self.columns))

    @property
    def columns(self) -> tuple[Tensor, ...]:
        return self.owner, self.choice, self.spent, self.left, self.all_at_bounds


def _stepped(
    nodes: _Nodes,
    step: int,
    more: Tensor,
    room: Tensor,
    price: Tensor,
    first: Tensor,
    before: Tensor,
    most: Tensor,
    spare: Tensor,
) -> _Nodes:
    """The nodes after the class of rank `step` was put low, up or between; `more` (B,) says which sets have one.

    A class that the knapsack has low is not put between: that is the same state, at the same cost of nothing.
    """
    owner, spent = nodes.owner, nodes.spent
    is_open, paid, is_up = more[owner], price[owner, step], first[owner, step]
    low = replace(nodes, spent=spent + torch.where(is_open & is_up, paid, 0.0))
    raised = nodes.choice.clone()
    raised[:, step] = True
    up = replace(
        nodes,
        choice=raised,
        spent=spent + torch.where(is_up, 0.0, paid),
        left=nodes.left - room[owner, step],
    )
    between = replace(nodes, all_at_bounds=torch.zeros_like(nodes.all_at_bounds))
    returned = torch.where(nodes.all_at_bounds, spare[owner], 0.0)
    # Up or between only if everyone who goes before is up.
    free = is_open & ~(before[owner, :step, step] & ~nodes.choice[:, :step]).any(-1)
    good = (
        low.spent < most[owner],
        free & (up.spent < most[owner]) & (up.left + returned >= 0),
        free & is_up & nodes.all_at_bounds & (nodes.left >= 0),
    )
    parts = [branch.take(mask) for branch, mask in zip((low, up, between), good, strict=True)]
    return _Nodes(*(torch.cat(column) for column in zip(*(part.columns for part in parts), strict=True)))


def _in_order(lower: Tensor, upper: Tensor, undecided: Tensor) -> Tensor:
    """(B, J): the open classes by lower bound, upper bound and number (who goes before comes before), then the rest."""
    order = upper.argsort(dim=-1, descending=True, stable=True)
    order = order.gather(-1, lower.gather(-1, order).argsort(dim=-1, descending=True, stable=True))
    closed = (~undecided.gather(-1, order)).to(torch.uint8)
    return order.gather(-1, closed.argsort(dim=-1, stable=True))
