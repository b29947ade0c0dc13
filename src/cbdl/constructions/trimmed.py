"""The trimmed hull: an ensemble without the members that are farthest from its mean (Nguyen et al., 2025).

One member that went astray stretches the hull of all of them. Row by row, the share of members that is farthest from
the mean is left out.
"""

from __future__ import annotations

import torch

from cbdl.constructions._given import hull_of
from cbdl.credal import ArrayLike, CategoricalCredalSet

DISTANCES = ("euclidean", "tv")


def trimmed(
    members: ArrayLike | CategoricalCredalSet, share: float = 0.1, distance: str = "euclidean"
) -> CategoricalCredalSet:
    """The hull of the members (..., m, J) nearest to their mean, all but a `share` of them; at least one stays.

    `distance`: "euclidean", or "tv" (total variation). Of ties the first members stay.

    >>> trimmed([[0.6, 0.4], [0.5, 0.5], [0.0, 1.0]], share=0.33).probs
    array([[0.5, 0.5],
           [0.6, 0.4]])
    """
    if not 0 <= share < 1:
        raise ValueError(f"share is {share}; it is the share of members to leave out, at least 0 and below 1")
    if distance not in DISTANCES:
        raise ValueError(f"distance is {distance!r}; give one of {', '.join(map(repr, DISTANCES))}")
    hull = hull_of(members)
    P = torch.as_tensor(hull.probs)
    away = P - P.mean(-2, keepdim=True)
    far = away.square().sum(-1) if distance == "euclidean" else away.abs().sum(-1)
    # 1 - 0.9 is 0.09999999999999998: ten members and a share of 0.9 leave one.
    kept = max(1, int(hull.num_extremes * (1 - share) + 1e-9))
    near = far.argsort(dim=-1, stable=True)[..., :kept]
    chosen = P.gather(-2, near.unsqueeze(-1).expand(*near.shape, P.shape[-1]))
    nearest = CategoricalCredalSet(chosen if isinstance(hull.probs, torch.Tensor) else chosen.numpy())
    return nearest.with_labels(hull.labels)
