"""The hull itself: which elements are extreme, and what lies inside (paper, remark "rem_fin_1").

The paper assumes that no P_j is a mixture of the others. Here that is decided: P_j is extreme if its L1
distance to the hull of the others is above a tolerance, a linear programme for each element. A direction in
which one element alone is furthest proves it extreme without a programme; most elements have one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks
from cbdl.credal.solvers.l1 import least_deviation

TOLERANCE = 1e-9
"""L1 distance (twice the total variation) below which a vector counts as a mixture."""


def extreme_mask(P: Tensor, tolerance: float = TOLERANCE) -> Tensor:
    """(B, m): which of the vectors P (B, m, J) are not mixtures of the others; of equal ones the first stays.

    P_j is a mixture if min over beta, beta_j = 0, of sum_c |(beta P)_c - P_jc| is at most `tolerance`. The
    elements that stay generate every element that goes, within `tolerance`. Paper: remark "rem_fin_1".

    >>> P = torch.tensor([[[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [1.0, 0.0]]], dtype=torch.float64)
    >>> extreme_mask(P)
    tensor([[ True, False,  True, False]])
    """
    per_set = 8 * (3 * P.shape[1] * P.shape[2] + 8 * P.shape[1] ** 2)
    return in_chunks(lambda Q: (_extreme(Q, tolerance),), P, per_set=per_set)[0]


def _extreme(P: Tensor, tolerance: float) -> Tensor:
    rivals = ~_repeated(P, tolerance)
    kept = rivals & _furthest(P, rivals, tolerance)
    open_ = rivals & ~kept
    if open_.any():
        others = rivals.unsqueeze(1) & ~torch.eye(P.shape[1], dtype=torch.bool, device=P.device)
        kept = kept | (open_ & (_deviation(P, open_, others, tolerance) > tolerance))
    return _completed(P, rivals, kept, tolerance)


def _completed(P: Tensor, rivals: Tensor, kept: Tensor, tolerance: float) -> Tensor:
    """Elements put back until those that are kept generate all others.

    Two elements close to each other may each be a mixture only thanks to the other. Usually nothing is left
    to do after one look; every further look puts back the worst element of each set that still has one.
    """
    waiting = rivals & ~kept
    while waiting.any():
        reference = kept.unsqueeze(1).expand(-1, P.shape[1], -1)
        far = _deviation(P, waiting, reference, tolerance)
        waiting = waiting & (far > tolerance)
        worst = torch.nn.functional.one_hot(far.argmax(-1), P.shape[1]).to(torch.bool) & waiting
        kept, waiting = kept | worst, waiting & ~worst
    return kept


def _repeated(P: Tensor, tolerance: float) -> Tensor:
    """(B, m): elements that equal an earlier one that stays."""
    repeated = torch.zeros(P.shape[:2], dtype=torch.bool, device=P.device)
    for j in range(1, P.shape[1]):
        near = (P[:, :j] - P[:, j : j + 1]).abs().sum(-1) <= tolerance
        repeated[:, j] = (near & ~repeated[:, :j]).any(-1)
    return repeated


def _furthest(P: Tensor, rivals: Tensor, tolerance: float) -> Tensor:
    """(B, m): elements that are alone at the end in some direction, by more than the tolerance.

    A lead of t in a direction d with all |d_c| <= 1 is an L1 distance of t or more to all mixtures of others.
    Directions: single classes, up and down, and from the centre of the set to each element.
    """
    lead = torch.full(P.shape[:2], -torch.inf, dtype=P.dtype, device=P.device)
    if P.shape[1] == 1:
        return rivals
    for sign in (1, -1):
        scores = torch.where(rivals.unsqueeze(-1), sign * P, -torch.inf)
        top = scores.topk(2, dim=1)
        lead.scatter_reduce_(1, top.indices[:, 0], top.values[:, 0] - top.values[:, 1], "amax")
    outward = P - P.mean(1, keepdim=True)
    outward = outward / outward.abs().amax(-1, keepdim=True).clamp_min(1e-300)
    scores = torch.where(rivals.unsqueeze(1), outward @ P.mT, -torch.inf)
    own = scores.diagonal(dim1=1, dim2=2)
    rest = scores.masked_fill(torch.eye(P.shape[1], dtype=torch.bool, device=P.device), -torch.inf)
    # Rounding of an inner product of J terms stays far below this.
    margin = tolerance + 1e-15 * P.shape[-1]
    return torch.maximum(lead, own - rest.amax(-1)) > margin


def _deviation(P: Tensor, which: Tensor, others: Tensor, level: float) -> Tensor:
    """(B, m): for elements in `which`, the L1 distance to the hull of their `others` (B, m, m); 0 elsewhere.

    Rough, but on the right side of `level`. An element without others is infinitely far. Unwanted rows become
    copies of a wanted one: the same hull.
    """
    distance = torch.zeros(which.shape, dtype=P.dtype, device=P.device)
    sets, element = (which & others.any(-1)).nonzero(as_tuple=True)
    if len(sets):
        wanted = others[sets, element]
        first = wanted.to(torch.int8).argmax(-1, keepdim=True)
        index = torch.where(wanted, torch.arange(P.shape[1], device=P.device), first)
        distance[sets, element] = _in_parts(P, sets, index, P[sets, element], level)
    distance[which & ~others.any(-1)] = torch.inf
    return distance


def _in_parts(P: Tensor, sets: Tensor, index: Tensor, target: Tensor, level: float) -> Tensor:
    def part(sets: Tensor, index: Tensor, target: Tensor) -> tuple[Tensor, ...]:
        return (least_deviation(P[sets.unsqueeze(-1), index], target, level=level).value,)

    return in_chunks(part, sets, index, target, per_set=8 * (5 * P.shape[1] + 24) * P.shape[2])[0]


def contains(P: Tensor, p: Tensor, tolerance: float = TOLERANCE) -> Tensor:
    """(B,): whether p (B, J) is a mixture of the P (B, m, J): min over beta of |beta P - p|_1 <= `tolerance`.

    >>> P = torch.tensor([[[0.9, 0.1], [0.4, 0.6]]], dtype=torch.float64)
    >>> contains(P, torch.tensor([[0.7, 0.3]], dtype=torch.float64))
    tensor([True])
    """
    # Outside the box of lower and upper probabilities nothing is a member.
    inside = ((p <= P.amax(1) + tolerance) & (p >= P.amin(1) - tolerance)).all(-1)
    at = inside.nonzero().squeeze(-1)
    if len(at):
        inside[at] = least_deviation(P[at], p[at], level=tolerance).value <= tolerance
    return inside
