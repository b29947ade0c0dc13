"""Relative likelihood: the hull of the members that the data do not refute (Loehr et al., NeurIPS 2025).

A member is plausible if its likelihood is at least alpha times that of the best one. The likelihood of a network is
taken per row, exp(mean log likelihood): that of all rows together would refute everyone but one.
"""

from __future__ import annotations

import torch

from cbdl.constructions._given import hull_of
from cbdl.credal import Array, ArrayLike, CategoricalCredalSet


def relative_likelihoods(log_likelihood: ArrayLike) -> Array:
    """(m,): exp(L_j - max_i L_i), from the mean log likelihood L (m,) of every member on the training rows.

    - `log_likelihood`: the mean log likelihoods (m,)

    >>> import numpy as np
    >>> relative_likelihoods(np.log([0.5, 0.4, 0.1])).round(6)
    array([1. , 0.8, 0.2])
    """
    values = torch.as_tensor(log_likelihood, dtype=torch.float64)
    if values.ndim != 1 or not len(values) or not torch.isfinite(values).all():
        raise ValueError(
            f"log_likelihood is {log_likelihood!r}; give one finite number per member, its mean over rows"
        )
    ratio = (values - values.max()).exp()
    return ratio if isinstance(log_likelihood, torch.Tensor) else ratio.numpy()


def relative_likelihood(
    members: ArrayLike | CategoricalCredalSet, log_likelihood: ArrayLike, alpha: float = 0.95
) -> CategoricalCredalSet:
    """The hull of the members (..., m, J) whose relative likelihood is at least alpha; 1 keeps the best alone.

    - `log_likelihood`: (m,): the mean log likelihood of every member on the training rows
    - `alpha`: the least relative likelihood

    >>> P = [[0.6, 0.4], [0.5, 0.5], [0.0, 1.0]]
    >>> import math
    >>> relative_likelihood(P, [math.log(0.5), math.log(0.4), math.log(0.1)], alpha=0.75).probs
    array([[0.6, 0.4],
           [0.5, 0.5]])
    """
    if not 0 <= alpha <= 1:
        raise ValueError(
            f"alpha is {alpha}; it is a relative likelihood, between 0 (everyone) and 1 (the best)"
        )
    hull = hull_of(members)
    ratio = torch.as_tensor(relative_likelihoods(log_likelihood))
    if len(ratio) != hull.num_extremes:
        raise ValueError(
            f"log_likelihood has {len(ratio)} numbers for {hull.num_extremes} members; give one each"
        )
    # The best is kept whatever rounding makes of 1.
    keep = (ratio >= alpha) | (ratio == ratio.max())
    kept = torch.as_tensor(hull.probs)[..., keep.to("cpu"), :]
    plausible = CategoricalCredalSet(kept if isinstance(hull.probs, torch.Tensor) else kept.numpy())
    return plausible.with_labels(hull.labels)
