"""Events, points and distributions that users give on the line, checked and converted once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._border import (
    broadcast,
    check_finite,
    check_positive,
    check_probabilities,
    first,
    float64,
    probability_tolerance,
)
from cbdl.credal.line.intervals import Intervals, union
from cbdl.credal.line.regions import LineRegion

Parameters = tuple[Tensor, Tensor, Tensor]
"""loc, scale and weights of mixtures, components last."""


def line_event(event: Any, batch: torch.Size, device: torch.device) -> Intervals:
    """Disjoint intervals for every set of the batch (flat) from whatever a user may call an event."""
    if isinstance(event, LineRegion):
        if event._batch not in (batch, torch.Size()):
            raise ValueError(
                f"event is a region of batch shape {tuple(event._batch)}; the sets have {tuple(batch)}"
            )
        exact = event._exact
        if event._batch != batch:
            size = math.prod(batch)
            exact = Intervals(exact.high.expand(size, -1, -1), exact.low.expand(size, -1, -1))
        return Intervals(exact.high.to(device), exact.low.to(device))
    values = float64(event, "event")
    if values.numel() == 0:
        values = values.new_full((1, 2), math.nan)
    elif values.ndim == 0 or values.shape[-1] != 2:
        raise ValueError(
            f"event has shape {tuple(values.shape)}; give an interval (a, b), a union (R, 2), "
            f"or one union for each set {(*batch, 'R', 2)}"
        )
    elif values.ndim == 1:
        _check_ends(values, padding=False)
        values = values[None]
    _check_ends(values, padding=True)
    values = values.to(device)
    values = torch.where(torch.isnan(values), math.inf, values)
    high = expanded(values, "event", batch, 2).reshape(-1, *values.shape[-2:])
    return union(Intervals(high, torch.zeros_like(high)))


def _check_ends(values: Tensor, *, padding: bool) -> None:
    missing = torch.isnan(values)
    bad = missing.any(-1) & ~(missing.all(-1) & padding)
    if bad.any():
        at = first(bad)
        raise ValueError(
            f"event{list(at) if at else ''} has an end that is nan; give numbers, or -inf and inf"
        )
    bad = values[..., 0] > values[..., 1]
    if bad.any():
        at = first(bad)
        a, b = values[at].tolist()
        raise ValueError(
            f"event{list(at) if at else ''} is ({a:g}, {b:g}): its lower end is above its upper end; swap them"
        )


def expanded(x: Tensor, name: str, batch: torch.Size, trailing: int) -> Tensor:
    """`x` with its leading dimensions broadcast to the batch."""
    own, tail = x.shape[: x.ndim - trailing], x.shape[x.ndim - trailing :]
    try:
        fits = np.broadcast_shapes(own, batch) == tuple(batch)
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}; its leading dimensions {tuple(own)} do not fit the batch "
            f"{tuple(batch)}"
        )
    return x.expand(*batch, *tail)


def line_points(y: Any, batch: torch.Size, device: torch.device) -> tuple[Tensor, bool]:
    """Points (B, n) for every set of the flat batch, and whether there was one a set without the n.

    y (...,) is one point for each set, (..., n) are n of them; the leading dimensions broadcast.
    """
    points = float64(y, "y").to(device)
    if torch.isnan(points).any():
        raise ValueError(f"y{list(first(torch.isnan(points)))} is nan; remove it")
    single = points.ndim <= len(batch)
    points = points[..., None] if single else points
    return expanded(points, "y", batch, 1).reshape(-1, points.shape[-1]), single


def mixture_parameters(loc: Any, scale: Any, weights: Any, *, normal: bool, prefix: str = "") -> Parameters:
    """Checked (loc, scale, weights) of equal shape with components last; for Normals a last dimension of 1."""
    mu, sigma = float64(loc, prefix + "loc"), float64(scale, prefix + "scale")
    check_finite(mu, prefix + "loc")
    check_positive(
        sigma, prefix + "scale", "it is a standard deviation (was a logarithm given? apply exp first)"
    )
    parts = {prefix + "loc": mu, prefix + "scale": sigma}
    if weights is not None:
        parts[prefix + "weights"] = float64(weights, prefix + "weights")
    device = mu.device if isinstance(loc, Tensor) else sigma.device
    mu, sigma, *share = (p.to(device).contiguous() for p in broadcast("all of one shape", **parts))
    if normal:
        mu, sigma = mu[..., None], sigma[..., None]
    if not share:
        return mu, sigma, torch.full_like(mu, 1 / mu.shape[-1] if mu.ndim else 1.0)
    tolerance = probability_tolerance(weights)
    return mu, sigma, check_probabilities(share[0], prefix + "weights", tolerance, "mixture")


def target_parameters(p: object, batch: torch.Size, device: torch.device) -> Parameters:
    """One distribution for each set of the flat batch, (B, M'): from (loc, scale) or (loc, scale, weights).

    (loc, scale) are Normals, one number or one for each set; with weights the components are last.
    """
    if not isinstance(p, (tuple, list)) or len(p) not in (2, 3):
        raise ValueError(
            "p must be (loc, scale) of a Normal, (loc, scale, weights) of a mixture, or a credal set with one "
            "extreme"
        )
    weights = p[2] if len(p) == 3 else None
    parts = mixture_parameters(p[0], p[1], weights, normal=weights is None, prefix="p: ")
    return per_set(parts, batch, device)


def per_set(parts: Parameters, batch: torch.Size, device: torch.device) -> Parameters:
    """The parameters (..., M) of one distribution for each set of the flat batch, (B, M)."""
    loc, scale, weights = (expanded(t.to(device), "p", batch, 1).reshape(-1, t.shape[-1]) for t in parts)
    return loc, scale, weights
