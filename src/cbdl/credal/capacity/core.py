"""The extreme points of a core on a finite space (paper: appendix "A further IP concept: the core").

    core(v) = {p in the simplex : p(A) >= v(A) for all events A}

Set functions are vectors of length 2^n: bit i of the index says whether outcome i is in the event. Programmes over
a core need no extreme points: `exact`.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from cbdl.credal.capacity.exact import EmptyCore, Float, indicators

Bool = npt.NDArray[np.bool_]

TOLERANCE = 1e-9
"""Points of the core closer than this are the same point; constraints missed by less are met."""


def marginal_vectors(v: Float) -> Float:
    """(E, n): the distinct marginal vectors of a convex `v` (2^n,), which are the extreme points of its core.

    For every order of the outcomes, p(next) = v(first ... next) - v(first ...).
    """
    n = v.size.bit_length() - 1
    orders = np.array(list(itertools.permutations(range(n))), dtype=np.int64)
    chain = np.cumsum(1 << orders, axis=1)
    gain = np.diff(v[chain], axis=1, prepend=v[0])
    points = np.empty_like(gain)
    np.put_along_axis(points, orders, gain, axis=1)
    return _distinct(points)


def vertices(v: Float) -> Float:
    """(E, n): the extreme points of the core of any `v` (2^n,), by double description.

    Start with the corners of the simplex. Every event cuts off the points with p(A) < v(A) and puts new ones where
    the cut meets an edge: two points share an edge if no third one meets all constraints that both meet.
    """
    n = v.size.bit_length() - 1
    events = indicators(n)
    used, level = np.eye(n), np.zeros(n)
    points = np.eye(n)
    for a in range(1, (1 << n) - 1):
        slack = points @ events[a] - v[a]
        out, inside = slack < -TOLERANCE, slack > TOLERANCE
        if not out.any():
            continue
        if out.all():
            raise EmptyCore
        tight = np.abs(points @ used.T - level) <= TOLERANCE
        i, k = _edges(tight, np.flatnonzero(inside), np.flatnonzero(out), n)
        share = (slack[i] / (slack[i] - slack[k]))[:, None]
        points = _distinct(np.vstack([points[~out], points[i] + share * (points[k] - points[i])]))
        used, level = np.vstack([used, events[a]]), np.append(level, v[a])
    return np.maximum(points, 0.0)


def _edges(
    tight: Bool, first: npt.NDArray[np.intp], second: npt.NDArray[np.intp], n: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The pairs of `first` x `second` that share an edge, given which constraints each point meets."""
    pairs: list[tuple[int, int]] = []
    loose = (~tight).astype(np.float32)
    for i in first:
        common = tight[i] & tight[second]
        near = common.sum(1) >= n - 2
        missed = common[near].astype(np.float32) @ loose.T
        alone = (missed == 0).sum(1) == 2
        pairs += [(i, k) for k in second[near][alone]]
    both = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _distinct(points: Float) -> Float:
    """The points, those within TOLERANCE of an earlier one left out."""
    from scipy.spatial import cKDTree  # takes long to import, and few need it

    close = cKDTree(points).query_pairs(TOLERANCE, output_type="ndarray")
    keep = np.ones(len(points), dtype=np.bool_)
    keep[close.max(1)] = False
    kept: Float = points[keep]
    return kept
