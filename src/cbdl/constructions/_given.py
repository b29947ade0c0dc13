"""What users give, checked: members of a set over classes, labels of training rows."""

from __future__ import annotations

import torch
from torch import Tensor

from cbdl.credal import ArrayLike, CategoricalCredalSet, CredalSet
from cbdl.ground.labels import are_words


def hull_of(members: ArrayLike | CategoricalCredalSet) -> CategoricalCredalSet:
    """The hull of members (..., m, J), or the one that was given."""
    if isinstance(members, CategoricalCredalSet):
        return members
    if isinstance(members, CredalSet):
        raise ValueError(
            f"members are a {type(members).__name__}; give a hull over classes or probabilities (..., m, J)"
        )
    return CategoricalCredalSet(members)


def class_numbers(y: ArrayLike, classes: int | None = None) -> Tensor:
    """`y` as whole numbers from 0, below `classes` if these are known."""
    if are_words(y):
        raise ValueError("y holds words; give class numbers 0, 1, ... in the order of the probabilities")
    given = torch.as_tensor(y)
    labels = given.long()
    if (given != labels).any() or (labels < 0).any() or (classes is not None and (labels >= classes).any()):
        raise ValueError(f"y must hold class numbers from 0{'' if classes is None else f' to {classes - 1}'}")
    return labels
