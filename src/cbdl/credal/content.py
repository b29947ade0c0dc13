"""How much a region must hold to reach an outcome: the level at which the union of the extremes' highest density
regions (the paper's operative region) first contains it.

level(y) = min_j P_j(outcomes that are more likely than y under P_j), so that y lies in the union region of 1 - alpha
exactly if level(y) < 1 - alpha. It orders outcomes from the core of the set outwards, and is the score with which
`cbdl.conformal` calibrates regions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cbdl.credal._border import Array, ArrayLike, check_finite, float64
from cbdl.credal.base import CredalSet
from cbdl.credal.classes.categorical import CategoricalCredalSet
from cbdl.credal.line.survival import log_survival
from cbdl.credal.line.sets import MixtureCredalSet, NormalCredalSet


def class_levels(P: Tensor) -> Tensor:
    """(..., J): the level of every class, for extremes (..., m, J); ties by class index.

    >>> class_levels(torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]))
    tensor([0.0000, 0.0000, 0.6000])
    """
    ordered, order = P.sort(dim=-1, descending=True, stable=True)
    before = torch.cat([torch.zeros_like(ordered[..., :1]), ordered.cumsum(-1)[..., :-1]], -1)
    return torch.empty_like(P).scatter_(-1, order, before).amin(-2)


def region_level(credal: CredalSet, y: ArrayLike) -> Array:
    """(...,): the smallest level whose union region contains the outcome `y` (...,) of every set.

    >>> from cbdl import NormalCredalSet
    >>> float(region_level(NormalCredalSet([0.0, 10.0], [1.0, 1.0]), 11.96).round(3))
    0.95
    """
    if isinstance(credal, CategoricalCredalSet):
        return credal._border.out(_of_labels(credal, y))
    if isinstance(credal, NormalCredalSet | MixtureCredalSet):
        point = float64(y, "y")
        check_finite(point, "y")
        flat = point.expand(credal.batch_shape).reshape(-1)
        return credal._border.out((-torch.expm1(log_survival(credal._flat(), flat[:, None]))).reshape(credal.batch_shape))
    raise ValueError(f"region_level: {type(credal).__name__} has no union of regions with one level")


def _of_labels(credal: CategoricalCredalSet, y: ArrayLike) -> Tensor:
    region = credal.region(0.5)  # its `contains` checks labels and shapes
    region.contains(y)
    labels = float64(y, "y").long().expand(credal.batch_shape)
    return class_levels(credal._P).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
