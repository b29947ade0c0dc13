"""Events and gambles in R^d: boxes and half-spaces in closed form, all else simulated with an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._border import Array, ArrayLike, Border, border_of, broadcast, check_finite, first, float64
from cbdl.credal.answers import Region
from cbdl.credal.base import Gamble
from cbdl.credal.euclidean import diagonal
from cbdl.credal.euclidean.montecarlo import Nodes, simulate, standard_error


@dataclass(frozen=True)
class Box:
    """{y : lower <= y <= upper} in every coordinate; bounds (..., d), infinite ones allowed.

    - `lower`, `upper`: bounds (..., d)

    >>> import numpy as np
    >>> Box([0, 0], [1, np.inf]).contains(np.array([[0.5, 9.0], [2.0, 0.5]]))
    array([ True, False])
    """

    lower: ArrayLike
    upper: ArrayLike

    def contains(self, y: ArrayLike) -> Array:
        """(...,): whether y (..., d) lies in the box."""
        lower, upper = self._bounds(None)
        point = float64(y, "y")
        return border_of(y, self.lower, self.upper).out(((point >= lower) & (point <= upper)).all(-1))

    def _bounds(self, d: int | None) -> tuple[Tensor, Tensor]:
        lower, upper = float64(self.lower, "lower"), float64(self.upper, "upper")
        lower, upper = broadcast("both as (..., d)", lower=lower, upper=upper)
        if lower.ndim == 0 or (d is not None and lower.shape[-1] not in (d, 1)):
            raise ValueError(
                f"the box has bounds of shape {tuple(lower.shape)}; the space needs (..., {d or 'd'})"
            )
        bad = ~(lower <= upper)
        if bad.any():
            at = first(bad)
            raise ValueError(
                f"the box has lower{list(at)} = {lower[at].item():g} and upper{list(at)} = "
                f"{upper[at].item():g}; give numbers with lower <= upper (infinite ones are allowed)"
            )
        return lower, upper

    def batch_shape(self, d: int) -> torch.Size:
        """The batch of boxes in R^d."""
        return self._bounds(d)[0].shape[:-1]

    def probabilities(self, loc: Tensor, scale: Tensor) -> Tensor:
        """(..., m): prod_i (Phi((b_i - mu_i) / s_i) - Phi((a_i - mu_i) / s_i)) for loc, scale (..., m, d)."""
        lower, upper = (x[..., None, :] for x in self._bounds(loc.shape[-1]))
        return diagonal.log_box((lower - loc) / scale, (upper - loc) / scale).sum(-1).exp()


@dataclass(frozen=True)
class HalfSpace:
    """{y : normal . y <= offset}; normal (..., d), offset (...,).

    >>> import numpy as np
    >>> HalfSpace([1.0, 1.0], 1.0).contains(np.array([0.2, 0.3])).item()
    True
    """

    normal: ArrayLike
    offset: ArrayLike

    def contains(self, y: ArrayLike) -> Array:
        """(...,): whether y (..., d) lies in the half-space."""
        normal, offset = self._parts(None)
        return border_of(y, self.normal, self.offset).out((float64(y, "y") * normal).sum(-1) <= offset)

    def _parts(self, d: int | None) -> tuple[Tensor, Tensor]:
        normal, offset = float64(self.normal, "normal"), float64(self.offset, "offset")
        check_finite(normal, "normal")
        if normal.ndim == 0 or (d is not None and normal.shape[-1] != d):
            raise ValueError(f"normal has shape {tuple(normal.shape)}; the space needs (..., {d or 'd'})")
        if torch.isnan(offset).any():
            raise ValueError(f"offset{list(first(torch.isnan(offset)))} is nan; give a number")
        return normal, offset

    def batch_shape(self, d: int) -> torch.Size:
        """The batch of half-spaces in R^d."""
        normal, offset = self._parts(d)
        _check_broadcast("offset", offset.shape, normal.shape[:-1])
        return torch.Size(np.broadcast_shapes(normal.shape[:-1], offset.shape))

    def probabilities(self, loc: Tensor, scale: Tensor) -> Tensor:
        """(..., m): Phi((b - a . mu) / |a s|) for loc, scale (..., m, d)."""
        normal, offset = self._parts(loc.shape[-1])
        normal, offset = normal[..., None, :], offset[..., None]
        size = (normal * scale).norm(dim=-1)
        distance = offset - (normal * loc).sum(-1)
        # A zero normal makes the event certain or impossible.
        score = torch.where(
            size > 0, distance / size.clamp(min=1e-300), torch.where(distance >= 0, 1.0, -1.0) * torch.inf
        )
        probability: Tensor = torch.special.ndtr(score)
        return probability


@dataclass(frozen=True)
class Bounds:
    """Lower and upper value over the hull, with errors; all have the batch shape.

    lower, upper:             over all distributions of the hull
    lower_error, upper_error: the standard error of each; 0 where it is exact
    """

    lower: Array
    upper: Array
    lower_error: Array
    upper_error: Array


def bounds(replicates: Tensor, border: Border) -> Bounds:
    """From one answer (replicates, ..., m) for each replicate of the nodes and each extreme."""
    mean = replicates.mean(0)
    error = standard_error(replicates.movedim(0, -1)) if replicates.shape[0] > 1 else torch.zeros_like(mean)
    lower, low = mean.min(-1)
    upper, high = mean.max(-1)
    errors = (error.gather(-1, at[..., None])[..., 0] for at in (low, high))
    return Bounds(border.out(lower), border.out(upper), *map(border.out, errors))


def event_probabilities(event: Any, loc: Tensor, scale: Tensor, nodes: Nodes, border: Border) -> Tensor:
    """(replicates, ..., m): the probability under each extreme; one replicate where it is exact."""
    d = loc.shape[-1]
    if not (isinstance(event, (Box, HalfSpace, Region)) or callable(event)):
        sides = float64(event, "event")
        if sides.ndim < 2 or sides.shape[-2:] != (d, 2):
            raise ValueError(
                f"event has shape {tuple(sides.shape)}; give a box as ({d}, 2), one (lower, upper) for each "
                "coordinate, a Box, a HalfSpace, a region, or a callable"
            )
        event = Box(sides[..., 0], sides[..., 1])
    if isinstance(event, (Box, HalfSpace)):
        shape = event.batch_shape(d)
        _check_broadcast("event", shape, loc.shape[:-2])
        return event.probabilities(loc, scale)[None]
    occurs = event.contains if isinstance(event, Region) else event
    return simulate(lambda y: occurs(border.out(y)), loc, scale, *nodes, "the event")


def expectations(gamble: Gamble, loc: Tensor, scale: Tensor, nodes: Nodes, border: Border) -> Tensor:
    """(replicates, ..., m): the expectation under each extreme; exact for the coefficients of a linear
    gamble.
    """
    if callable(gamble):
        return simulate(lambda y: gamble(border.out(y)), loc, scale, *nodes, "f")
    slope, d = float64(gamble, "f"), loc.shape[-1]
    if slope.ndim < 1 or slope.shape[-1] != d:
        raise ValueError(
            f"f has shape {tuple(slope.shape)}; give a callable, or the coefficients ({d},) of "
            "a linear function"
        )
    check_finite(slope, "f")
    _check_broadcast("f", slope.shape[:-1], loc.shape[:-2])
    return (slope[..., None, :] * loc).sum(-1)[None]


def _check_broadcast(name: str, shape: torch.Size, batch: torch.Size) -> None:
    try:
        np.broadcast_shapes(shape, batch)
    except ValueError:
        raise ValueError(
            f"{name} has the batch shape {tuple(shape)}, the set {tuple(batch)}; they must broadcast"
        ) from None
