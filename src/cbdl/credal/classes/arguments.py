"""Utilities, costs and distributions over classes, as users give them to the methods of a credal set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._border import (
    ArrayLike,
    Border,
    check_finite,
    check_probabilities,
    float64,
    probability_tolerance,
)
from cbdl.credal.base import CredalSet, Distribution, Utility
from cbdl.credal.classes.events import class_gamble


def utilities(utility: Utility, classes: int, border: Border, device: torch.device) -> Tensor:
    """(A, J): the utility of every action at every class, from a matrix or one gamble per action."""
    if isinstance(utility, Sequence) and any(callable(f) for f in utility):
        each = [class_gamble(f, classes, torch.Size(), border) for f in utility]
        return torch.stack([f.expand(classes) for f in each]).to(device)
    U = float64(cast(ArrayLike, utility), "utility")
    if U.ndim != 2 or U.shape[-1] != classes or not U.shape[0]:
        raise ValueError(f"utility has shape {tuple(U.shape)}; it must be (A, {classes}), a row an action")
    check_finite(U, "utility")
    return U.to(device)


def class_cost(
    cost: ArrayLike | Literal["index"] | None, classes: int, device: torch.device
) -> Tensor | Literal["index"] | None:
    """The cost of moving mass between classes, checked."""
    if cost is None:
        return None
    if isinstance(cost, str):
        if cost != "index":
            raise ValueError(f'cost is {cost!r}; give a matrix (J, J), "index", or None for 0 and 1')
        return "index"
    C = float64(cost, "cost")
    if C.shape != (classes, classes):
        raise ValueError(f"cost has shape {tuple(C.shape)}; it must be ({classes}, {classes})")
    check_finite(C, "cost")
    return C.to(device)


def distributions(
    p: Distribution, classes: int, batch: torch.Size, kinds: tuple[type[CredalSet], ...]
) -> tuple[Tensor, torch.Size]:
    """(n, J): the distribution that each set is compared with, and the shape of the answer.

    `p` holds probabilities, or is a set with one extreme of one of `kinds`, whose mean is its probabilities.
    """
    given = _probabilities(p, kinds)
    target = float64(given, "p")
    try:
        shape = torch.Size(np.broadcast_shapes(batch, target.shape[:-1]))
    except ValueError:
        shape = None
    if shape is None or not target.ndim or target.shape[-1] != classes:
        raise ValueError(f"p has shape {tuple(target.shape)}; it must be ({classes},) or {(*batch, classes)}")
    target = check_probabilities(target, "p", probability_tolerance(given))
    return target.expand(*shape, classes).reshape(-1, classes), shape


def _probabilities(p: Distribution, kinds: tuple[type[CredalSet], ...]) -> ArrayLike:
    if not isinstance(p, CredalSet):
        return cast(ArrayLike, p)
    if not isinstance(p, kinds) or p.num_extremes != 1:
        raise ValueError(f"p is {p!r}; give a vector of probabilities, or a set of classes with one extreme")
    return cast(ArrayLike, p.mean()[..., 0, :])
