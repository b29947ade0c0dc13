"""The smallest set of classes that a credal set covers: definition "ihdr-def" on a finite space.

    min |S|  such that  min_j P_j(S) >= target,

among the smallest sets the one with the largest lower probability, then the lexicographically first. Bounds
on the size and classes that provably do not matter leave few subsets to look at; these are enumerated all at
once. What is still too large goes to HiGHS, set by set, and comes back with a bound on the size; there the
choice among covers of the smallest size is the solver's.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks

SUBSETS = 1 << 16
"""Sets with at most so many candidate subsets are enumerated."""

NODES = 100
"""Branch-and-bound nodes that HiGHS may spend on one set: a count, not a time, so that answers repeat."""

CUTS = 50
"""Proposals of HiGHS that may fail the exact check before we settle for the bound."""

LEVELLED = 64
"""Above so many free classes the first smallest cover is kept: raising its level would take too long."""

STEP = 2e-6
"""HiGHS forgives 1e-6 in a constraint, so levels closer than this count as equal there."""

CACHE = 1 << 22
"""Bytes of one block of the enumeration: small enough to stay near the processor."""


def smallest_cover(P: Tensor, target: float, tolerance: float) -> tuple[Tensor, Tensor]:
    """(B, J) bool and (B,) int64: the smallest cover of `P` (B, m, J) and how many classes it may be from the
    smallest size (0: proven)."""
    m, J = P.shape[1:]
    lower, upper, mask = in_chunks(lambda p: _bounds(p, target), P, per_set=64 * m * J)
    gap = torch.zeros_like(lower)
    if _subsets(J, int(lower.amin()), int(upper.amax())) <= SUBSETS:
        return _enumerate(P, P.new_zeros(P.shape[:2]), lower, upper, target, tolerance)[0], gap
    forced, free = in_chunks(
        lambda p, k: _reduce(p, k, target, tolerance), P, upper, per_set=8 * m * J + 6 * J * J
    )
    width = free.sum(-1)
    size = forced.sum(-1)
    low, high = (lower - size).clamp_min(0), upper - size
    bucket = _buckets(width, low, high)
    for w in sorted(set(bucket.tolist())):
        rows = (bucket == w).nonzero().squeeze(-1)
        if w >= 0:
            mask[rows] = _enumerate_reduced(
                P[rows], forced[rows], free[rows], w, low[rows], high[rows], target, tolerance
            )
        else:
            mask[rows], gap[rows] = _branch_and_bound(
                P[rows], forced[rows], free[rows], mask[rows], lower[rows], target
            )
    return mask, gap


# --- bounds on the size, and classes that do not matter ----------------------------------------------------


def _bounds(P: Tensor, target: float) -> tuple[Tensor, Tensor, Tensor]:
    """A lower bound on the size, an upper bound, and a cover of that size.

    No cover is smaller than the credible set of any one extreme, or of any mixture of them. Covers: the first
    classes in the order of the lower, the upper and the mean probability.
    """
    mean = P.mean(-2, keepdim=True)
    reached = torch.cat([P, mean], -2).sort(dim=-1, descending=True).values.cumsum(-1)
    J = P.shape[-1]
    lower = 1 + (reached < target).sum(-1).amax(-1).clamp_max(J - 1)
    size = torch.full_like(lower, J)
    mask = torch.ones_like(P[:, 0], dtype=torch.bool)
    for score in (P.amin(-2), P.amax(-2), mean.squeeze(-2)):
        order = score.argsort(dim=-1, descending=True, stable=True)
        prefix = P.gather(-1, order.unsqueeze(-2).expand_as(P)).cumsum(-1).amin(-2)
        count = 1 + (prefix < target).sum(-1).clamp_max(J - 1)
        taken = torch.arange(J, device=P.device) < count.unsqueeze(-1)
        better = count < size
        mask = torch.where(better.unsqueeze(-1), torch.zeros_like(mask).scatter_(-1, order, taken), mask)
        size = torch.where(better, count, size)
    return torch.minimum(lower, size), size, mask


def _reduce(P: Tensor, upper: Tensor, target: float, tolerance: float) -> tuple[Tensor, Tensor]:
    """(b, J) twice: classes that every cover holds, and the other ones that the best cover may hold.

    Every cover holds y if the other classes miss the target under some extreme. Class a beats b if it is
    strictly more likely under every extreme, or never less likely and of lower index: then exchanging b for a
    makes a cover better. So the best cover that holds b holds all that beat b, and there is no room for b if
    these are as many as the upper bound on the size.
    """
    total = P.sum(-1, keepdim=True)
    forced = (total - P < target - tolerance).any(-2)
    J = P.shape[-1]
    least = torch.full((P.shape[0], J, J), torch.inf, device=P.device, dtype=P.dtype)
    for p in P.unbind(1):
        least = torch.minimum(least, p.unsqueeze(-1) - p.unsqueeze(-2))
    index = torch.arange(J, device=P.device)
    beats = (least > tolerance) | ((least >= 0) & (index.unsqueeze(-1) < index))
    room = beats.sum(-2) < upper.unsqueeze(-1)
    return forced, room & ~forced


# --- all subsets at once ----------------------------------------------------------------------------------


def _subsets(width: int, low: int, high: int) -> int:
    return sum(math.comb(width, k) for k in range(low, min(high, width) + 1))


def _buckets(width: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The padded width with which each set is enumerated; -1 where there are too many subsets."""
    kinds = torch.stack([width, low, high], -1).cpu().numpy()
    keys, back = np.unique(kinds, axis=0, return_inverse=True)
    sizes = []
    for w, lo, hi in keys.tolist():
        padded = next((b for b in (8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512) if b >= w), w)
        fits = next((b for b in (padded, w) if _subsets(b, lo, hi) <= SUBSETS), -1)
        sizes.append(fits)
    return torch.tensor(sizes)[torch.from_numpy(back.reshape(-1))].to(width.device)


@lru_cache(maxsize=64)
def _masks(width: int, k: int) -> Tensor:
    """(C(width, k), width) float64 0/1: all subsets of size k in lexicographic order."""
    rows = np.array(list(itertools.combinations(range(width), k)), dtype=np.int64).reshape(
        math.comb(width, k), k
    )
    out = np.zeros((len(rows), width))
    np.put_along_axis(out, rows, 1.0, axis=1)
    return torch.from_numpy(out)


def _enumerate(
    P: Tensor, base: Tensor, lower: Tensor, upper: Tensor, target: float, tolerance: float
) -> tuple[Tensor, Tensor]:
    """(B, J) bool: the best S of the smallest size with min_j (base_j + P_j(S)) >= target; and whether found.

    lower, upper (B,): the sizes in question. Every set leaves the loop at the first size that does.
    """
    B, m, J = P.shape
    mask = torch.zeros(B, J, dtype=torch.bool, device=P.device)
    open_ = torch.ones(B, dtype=torch.bool, device=P.device)
    for k in range(int(lower.amin()), int(upper.amax()) + 1):
        rows = (open_ & (lower <= k)).nonzero().squeeze(-1)
        if k > J or not len(rows):
            continue
        masks = _masks(J, k).to(P.device)
        best, value = in_chunks(
            partial(_best_subset, masks=masks, target=target, tolerance=tolerance),
            P[rows],
            base[rows],
            per_set=24 * len(masks) + 8 * m * J,
            memory=CACHE,
        )
        covers = value >= target
        mask[rows[covers]] = masks[best[covers]].bool()
        open_[rows[covers]] = False
    return mask, ~open_


def _best_subset(
    P: Tensor, base: Tensor, masks: Tensor, target: float, tolerance: float
) -> tuple[Tensor, Tensor]:
    """(b,) twice: the first of the subsets whose lower probability is the largest, and that probability."""
    value = torch.full((P.shape[0], len(masks)), torch.inf, device=P.device, dtype=P.dtype)
    for j in range(P.shape[1]):
        torch.minimum(value, torch.addmm(base[:, j : j + 1], P[:, j], masks.T), out=value)
    top = value.amax(-1)
    # Sums of the same numbers in another order differ by rounding: such subsets tie.
    tie = torch.maximum(top - tolerance, top.clamp_max(target))
    first = (value >= tie.unsqueeze(-1)).to(torch.uint8).argmax(-1)
    return first, value.gather(-1, first.unsqueeze(-1)).squeeze(-1)


def _enumerate_reduced(
    P: Tensor,
    forced: Tensor,
    free: Tensor,
    width: int,
    low: Tensor,
    high: Tensor,
    target: float,
    tolerance: float,
) -> Tensor:
    """The same on the free classes only, gathered into `width` columns in index order; missing ones are 0."""
    base = (P * forced.unsqueeze(-2)).sum(-1)
    order = free.long().argsort(dim=-1, descending=True, stable=True)[:, :width]
    real = free.gather(-1, order)
    columns = P.gather(-1, order.unsqueeze(-2).expand(-1, P.shape[1], -1)) * real.unsqueeze(-2)
    chosen, _ = _enumerate(columns, base, low, high, target, tolerance)
    return forced | torch.zeros_like(forced).scatter_(-1, order, chosen & real)


# --- HiGHS, one set at a time -----------------------------------------------------------------------------


def _branch_and_bound(
    P: Tensor, forced: Tensor, free: Tensor, cover: Tensor, lower: Tensor, target: float
) -> tuple[Tensor, Tensor]:
    """`_cover_by_milp` for every set; in numpy, because HiGHS is."""
    mask, gap = cover.clone(), torch.zeros_like(lower)
    for b in range(P.shape[0]):
        p, fixed, open_ = P[b].cpu().numpy(), forced[b].cpu().numpy(), free[b].cpu().numpy()
        best, bound = _cover_by_milp(p, fixed, open_, cover[b].cpu().numpy(), int(lower[b]), target)
        mask[b] = torch.from_numpy(best).to(mask.device)
        gap[b] = int(best.sum()) - bound
    return mask, gap


Bool = npt.NDArray[np.bool_]
Float = npt.NDArray[np.float64]


def _cover_by_milp(
    P: Float, forced: Bool, free: Bool, cover: Bool, bound: int, target: float
) -> tuple[Bool, int]:
    """The smallest cover that HiGHS finds, starting from `cover`, and a lower bound on the size of any.

    HiGHS forgives 1e-6 in a constraint; we do not. Its programme is a little too generous, a proposal is
    checked in exact terms, and one that fails is cut off: a cover needs a class outside of it.
    """
    columns = np.flatnonzero(free)
    rows = P[:, columns]
    need = target - P[:, forced].sum(1)
    fixed = int(forced.sum())
    cuts: list[Float] = []
    while bound < cover.sum():
        size = (np.ones(len(columns)), bound - fixed, cover.sum() - 1 - fixed)
        constraints = [(rows, need - 1e-9, np.inf), size, *((c, 1, np.inf) for c in cuts)]
        programme = _milp(np.ones(len(columns)), constraints)
        if programme.status == 2:
            bound = int(cover.sum())
            break
        if programme.mip_dual_bound is not None and np.isfinite(programme.mip_dual_bound):
            bound = max(bound, fixed + math.ceil(programme.mip_dual_bound - 1e-6))
        if programme.x is None:
            break
        chosen = programme.x > 0.5
        if (rows[:, chosen].sum(1) >= need).all():
            cover = forced.copy()
            cover[columns[chosen]] = True
            if programme.status != 0:
                break
        elif len(cuts) == CUTS:
            break
        else:
            cuts.append((~chosen).astype(np.float64))
    if len(columns) <= LEVELLED:
        cover = _raise_level(P, rows, columns, forced, cover)
    return cover, min(bound, int(cover.sum()))


def _raise_level(P: Float, rows: Float, columns: npt.NDArray[np.intp], forced: Bool, cover: Bool) -> Bool:
    """A cover of the same size whose lower probability is the largest up to STEP: ask for more until it fails.

    (One programme with the level as a continuous variable would do, but HiGHS then writes to stdout.)
    """
    base = P[:, forced].sum(1)
    k = cover.sum() - forced.sum()
    size = (np.ones(len(columns)), k, k)
    while True:
        level = P[:, cover].sum(1).min()
        programme = _milp(np.zeros(len(columns)), [(rows, level + STEP - base, np.inf), size])
        if programme.x is None:
            return cover
        better = forced.copy()
        better[columns[programme.x > 0.5]] = True
        if better.sum() != cover.sum() or P[:, better].sum(1).min() <= level:
            return cover
        cover = better


def _milp(cost: Float, constraints: list[tuple[Any, Any, Any]]) -> Any:
    """HiGHS on 0/1 variables x, with lower <= A x <= upper for each (A, lower, upper)."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # takes long to import, and few need it

    options = {"node_limit": NODES, "mip_rel_gap": 0.0}
    return milp(
        cost,
        constraints=[LinearConstraint(*parts) for parts in constraints],
        integrality=np.ones(len(cost)),
        bounds=Bounds(0, 1),
        options=options,
    )
