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
from cbdl.credal.line.hdr import outside_excess
from cbdl.credal.line.levels import crossings, evaluate, make_grid, profile
from cbdl.credal.line.mixture import Extremes, Mixtures
from cbdl.credal.line.sets import MixtureCredalSet, NormalCredalSet


def class_levels(P: Tensor) -> Tensor:
    """(..., J): the level of every class, for extremes (..., m, J); ties by class index.

    >>> class_levels(torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]))
    tensor([0.0000, 0.0000, 0.6000])
    """
    ordered, order = P.sort(dim=-1, descending=True, stable=True)
    before = torch.cat([torch.zeros_like(ordered[..., :1]), ordered.cumsum(-1)[..., :-1]], -1)
    return torch.empty_like(P).scatter_(-1, order, before).amin(-2)


def line_levels(sets: Extremes, y: Tensor) -> Tensor:
    """(B,): the level of the outcome y (B,) of every set."""
    found = torch.empty_like(y)
    for rows in sets.chunks():
        part = sets[rows]
        each = part.each()
        point = y[rows].repeat_interleave(part.m)
        found[rows] = _content(each, point).view(-1, part.m).amin(-1)
    return found


def _content(mix: Mixtures, y: Tensor) -> Tensor:
    """(B,): P(p(Y) > p(y)) under each mixture."""
    grid = make_grid(mix)
    shape = profile(mix, grid, evaluate(mix, grid))
    owner = torch.arange(len(mix), device=y.device)
    level = torch.minimum(mix.at(owner, y, torch.zeros_like(y))[0], shape.top)
    ends = crossings(shape, level)
    excess, _ = outside_excess(mix, ends, level, 0.5)
    return (0.5 - excess).clamp(0, 1)


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
        return credal._border.out(line_levels(credal._flat(), flat).reshape(credal.batch_shape))
    raise ValueError(f"region_level: {type(credal).__name__} has no union of regions with one level")


def _of_labels(credal: CategoricalCredalSet, y: ArrayLike) -> Tensor:
    region = credal.region(0.5)  # its `contains` checks labels and shapes
    region.contains(y)
    labels = float64(y, "y").long().expand(credal.batch_shape)
    return class_levels(credal._P).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
