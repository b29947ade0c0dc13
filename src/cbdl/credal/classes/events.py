"""Events and gambles on finitely many classes, as users write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._border import Border, check_finite, first, float64
from cbdl.credal.classes.regions import ClassRegion


def broadcast(x: Tensor, name: str, last: int, batch: torch.Size) -> Tensor:
    """`x` (last,) or (..., last), which must fit a batch of sets of shape `batch`."""
    if x.ndim and x.shape[-1] == last and x.ndim <= len(batch) + 1:
        try:
            x.expand(*batch, last)
            return x
        except RuntimeError:
            pass
    fits = f"({last},)" + (f" or broadcast to {(*batch, last)}" if batch else "")
    raise ValueError(f"{name} has shape {tuple(x.shape)}; it must be {fits}")


def class_event(event: Any, classes: int, batch: torch.Size, device: torch.device) -> Tensor:
    """The event as a mask, (J,) or (..., J): from a class index, several of them, a mask, or a region.

    Indices that are repeated count once; no index at all is the empty event.
    """
    if isinstance(event, ClassRegion):
        return broadcast(event._mask, "event (a region)", classes, batch).to(device)
    if isinstance(event, set | frozenset | range):
        event = list(event)
    try:
        values = event.detach() if isinstance(event, Tensor) else torch.from_numpy(np.array(event))
    except (TypeError, ValueError):
        raise ValueError(
            f"event is {event!r}; give a class index, a list of them, a boolean mask or a region"
        ) from None
    if values.dtype == torch.bool:
        return broadcast(values, "event (a mask)", classes, batch).to(device)
    return _mask_of_indices(values, classes, device)


def _mask_of_indices(values: Tensor, classes: int, device: torch.device) -> Tensor:
    if values.ndim > 1:
        raise ValueError(
            f"event holds class indices of shape {tuple(values.shape)}; give one index or a flat list "
            "(for one event per set, give a boolean mask)"
        )
    mask = torch.zeros(classes, dtype=torch.bool, device=device)
    if not values.numel():
        return mask
    where = values.double()
    bad = ~((where >= 0) & (where < classes) & (where == where.floor()))
    if bad.any():
        at = first(bad)
        raise ValueError(
            f"event{list(at) if at else ''} is {where[at].item():g}; "
            f"classes are numbered by whole numbers from 0 to {classes - 1}"
        )
    mask[where.long().reshape(-1).to(device)] = True
    return mask


def class_gamble(gamble: Any, classes: int, batch: torch.Size, border: Border) -> Tensor:
    """The values of a gamble, (J,) or (..., J), finite."""
    values = float64(_tabulated(gamble, classes, border) if callable(gamble) else gamble, "f")
    if callable(gamble) and not values.ndim:
        values = values.expand(classes)
    check_finite(values, "f")
    return broadcast(values, "f", classes, batch)


def _tabulated(f: Callable[[Any], Any], classes: int, border: Border) -> Any:
    """f at all class indices at once; one by one if it cannot take an array (`lambda y: 1 if y else 0`)."""
    try:
        return f(border.out(torch.arange(classes)))
    except (TypeError, ValueError, RuntimeError, IndexError, KeyError):
        return [float(f(y)) for y in range(classes)]
