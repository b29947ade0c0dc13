"""Regions in R^d that a set of diagonal Normals agrees to cover (paper, definitions "hdr-def" and
"ihdr-def").

- "union": the union of the extremes' highest density ellipsoids, the paper's operative way;
- "box": one box, the hull of mu_j +- t s_j, with t such that the lower probability is exactly 1 - alpha;
- "lower-density": {min_j p_j >= c}, an intersection of ellipsoids;
- "minimal": {sum_j lambda_j p_j >= 1}, the smallest region of lower probability 1 - alpha.

Ellipsoids and boxes are known exactly. The levels of the last two come from simulation, on the safe side;
their probabilities are then estimated on fresh draws, so that what is reported is unbiased whatever the
level, with a standard error.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks
from cbdl.credal._border import (
    EPS,
    Array,
    ArrayLike,
    Border,
    border_of,
    check_alpha,
    first,
    float64,
)
from cbdl.credal.answers import Region
from cbdl.credal.euclidean import diagonal, levels
from cbdl.credal.euclidean.survival import squared_radius
from cbdl.credal.solvers.roots import last_nonnegative
from cbdl.credal.table import listed, region_columns

METHODS = ("union", "box", "lower-density", "minimal")

_CHUNK = 1 << 26
"""Bytes of the nodes that are worked on at a time: of twice as many too few stay in the processor's caches."""


@dataclass(frozen=True, repr=False)
class EuclideanRegion(Region):
    """What every region knows of itself; all fields but the shape's own have the batch shape.

    measure:           its volume (0 or infinite where a float cannot hold it; then see log_measure)
    log_measure:       log of the volume
    measure_error:     standard error of `measure`; 0 where it is exact
    lower_probability: min over the hull of P(region)
    upper_probability: max over the hull of P(region)
    error:             standard error of the two probabilities; 0 where they are exact
    """

    measure: Array
    log_measure: Array
    measure_error: Array
    lower_probability: Array
    upper_probability: Array
    error: Array

    def contains(self, y: ArrayLike) -> Array:
        """(...,): whether y (..., d), broadcast against the batch, lies in the region; exact."""
        point = self._point(y)
        return border_of(y, self.measure).out(self._inside(point))

    def columns(self) -> dict[str, list[Any]]:
        """ "lower" and "upper", the corners of the smallest box where it is known, and what all regions have."""
        batch = tuple(np.shape(self.measure))
        try:
            lower, upper = self.hull()
        except ValueError:
            return region_columns(self, batch)
        return {"lower": listed(lower, batch), "upper": listed(upper, batch), **region_columns(self, batch)}

    def hull(self) -> tuple[Array, Array]:
        """(..., d) twice: the smallest box around the region; known for "box" and for "union"."""
        raise ValueError(
            f'the smallest box around a {type(self).__name__} is not known; it is for the methods "box" and "union"'
        )

    def _point(self, y: ArrayLike) -> Tensor:
        point, d = float64(y, "y"), self._dimension()
        if point.ndim == 0 or point.shape[-1] != d:
            raise ValueError(f"y has shape {tuple(point.shape)}; points of this space are (..., {d})")
        if torch.isnan(point).any():
            raise ValueError(f"y{list(first(torch.isnan(point)))} is nan; remove or impute it")
        return point

    @abstractmethod
    def _dimension(self) -> int:
        """d."""

    @abstractmethod
    def _inside(self, y: Tensor) -> Tensor:
        """(...,): whether y (..., d) lies in the region."""


@dataclass(frozen=True, repr=False)
class Ellipsoids(EuclideanRegion):
    """The union of {y : sum_i ((y_i - loc_ji) / scale_ji)^2 <= radius}; loc, scale (..., m, d).

    radius: one number for all sets, or (...,) one per set
    """

    loc: Array
    scale: Array
    radius: float | Array

    def _dimension(self) -> int:
        return int(self.loc.shape[-1])

    def _inside(self, y: Tensor) -> Tensor:
        return (_squared(y, self.loc, self.scale) <= float64(self.radius, "radius")[..., None]).any(-1)

    def hull(self) -> tuple[Array, Array]:
        """(..., d) twice: the smallest box around the ellipsoids."""
        loc, scale = float64(self.loc, "loc"), float64(self.scale, "scale")
        # A little further, so that no point that rounds to the edge lies outside.
        reach = scale * (float64(self.radius, "radius").sqrt() * (1 + 8 * EPS))[..., None, None]
        out = border_of(self.loc).out
        return out((loc - reach).amin(-2)), out((loc + reach).amax(-2))


@dataclass(frozen=True, repr=False)
class BoxRegion(EuclideanRegion):
    """{y : lower <= y <= upper}, bounds (..., d), with the multiple t (...,) of the scales that gives the
    level.
    """

    lower: Array
    upper: Array
    multiple: Array

    def _dimension(self) -> int:
        return int(self.lower.shape[-1])

    def _inside(self, y: Tensor) -> Tensor:
        lower, upper = float64(self.lower, "lower"), float64(self.upper, "upper")
        return ((y >= lower) & (y <= upper)).all(-1)

    def hull(self) -> tuple[Array, Array]:
        """(..., d) twice: the box itself."""
        return self.lower, self.upper


@dataclass(frozen=True, repr=False)
class LowerDensityRegion(EuclideanRegion):
    """{y : min_j log p_j(y) >= log_level}; log_level (...,), loc, scale (..., m, d)."""

    loc: Array
    scale: Array
    log_level: Array

    def _dimension(self) -> int:
        return int(self.loc.shape[-1])

    def _inside(self, y: Tensor) -> Tensor:
        scale = float64(self.scale, "scale")
        reach = 2 * (levels.peak(scale) - float64(self.log_level, "log_level")[..., None])
        return (_squared(y, self.loc, self.scale) <= reach).all(-1)


SHAPES = ("level-set", "union", "lower-density")
"""What a minimal region may be, in the order of its field `shape`."""


@dataclass(frozen=True, repr=False)
class MinimalRegion(EuclideanRegion):
    """The smallest of three regions that all cover 1 - alpha, of which `shape` (...,) says which it is.

    0, {y : sum_j lambda_j p_j(y) >= 1}, is the smallest there is but for the errors of simulation, on the safe side of
    which its level is chosen; where that makes it larger than the union (1) or the lower-density region (2), it is
    that one. log_multipliers (..., m) = log lambda_j, loc, scale (..., m, d).

    gap (...,): `measure - gap` is a lower bound on the volume of every region of lower probability 1 - alpha,
    (1 - alpha) sum_j lambda_j - integral (sum_j lambda_j p_j - 1)_+, up to the errors of simulation.
    """

    loc: Array
    scale: Array
    log_multipliers: Array
    gap: Array
    shape: Array
    log_level: Array
    radius: float

    def _dimension(self) -> int:
        return int(self.loc.shape[-1])

    def _inside(self, y: Tensor) -> Tensor:
        peak, squared = levels.peak(float64(self.scale, "scale")), _squared(y, self.loc, self.scale)
        multipliers, level = (
            float64(x, n) for x, n in ((self.log_multipliers, "multipliers"), (self.log_level, "level"))
        )
        answers = (
            (multipliers + peak - squared / 2).logsumexp(-1) >= -levels.ROUNDING,
            (squared <= self.radius).any(-1),
            (peak - squared / 2).amin(-1) >= level - levels.ROUNDING,
        )
        shape = torch.as_tensor(self.shape).to(squared.device).expand(answers[0].shape)
        return torch.stack(answers).gather(0, shape[None].long())[0]


def _squared(y: Tensor, loc: Array, scale: Array) -> Tensor:
    return ((y[..., None, :] - float64(loc, "loc")) / float64(scale, "scale")).square().sum(-1)


# --- construction -------------------------------------------------------------------------------


def euclidean_region(
    loc: Tensor, scale: Tensor, alpha: float, method: str, *, samples: int, seed: int, border: Border
) -> EuclideanRegion:
    """The region of level 1 - alpha by `method`, for loc, scale (..., m, d)."""
    from scipy.special import chdtri  # takes long to import, and few need it

    alpha = check_alpha(alpha)
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; give one of {', '.join(map(repr, METHODS))}")
    batch, (m, d) = loc.shape[:-2], loc.shape[-2:]
    flat = loc.reshape(-1, m, d), scale.reshape(-1, m, d)
    radius = float(chdtri(d, alpha))

    def out(x: Tensor) -> Array:
        return border.out(x.reshape((*batch, *x.shape[1:])))

    if method == "box":
        pieces = in_chunks(lambda a, s: _box(a, s, alpha), *flat, per_set=8 * m * m * d * 8)
        return BoxRegion(*map(out, pieces))
    solve = {"union": levels.union, "lower-density": levels.lower_density, "minimal": levels.minimal}[method]
    per_set = 8 * m * m * max(samples, 16) * 8
    pieces = in_chunks(
        lambda a, s: solve(a, s, alpha, radius, samples, seed), *flat, per_set=per_set, memory=_CHUNK
    )
    a, b, c, lower, upper, error = (out(x) for x in pieces[:6])
    rest = [out(x) for x in pieces[6:]]
    shape = border.out(loc), border.out(scale)
    if method == "union":
        return Ellipsoids(a, b, c, lower, upper, error, *shape, radius)
    if method == "lower-density":
        return LowerDensityRegion(a, b, c, lower, upper, error, *shape, rest[0])
    return MinimalRegion(a, b, c, lower, upper, error, *shape, rest[0], rest[1], rest[2], rest[3], radius)


def union_at(
    loc: Tensor, scale: Tensor, log_survival: Tensor, *, samples: int, seed: int, border: Border
) -> Ellipsoids:
    """The union of ellipsoids outside of which each extreme has exp(log_survival), (...,) one per set."""
    batch, (m, d) = loc.shape[:-2], loc.shape[-2:]
    radius = squared_radius(log_survival.reshape(-1), d)
    whole = torch.isinf(radius)
    flat = loc.reshape(-1, m, d), scale.reshape(-1, m, d), log_survival.reshape(-1).exp()
    pieces = in_chunks(
        lambda a, s, share, r: levels.union(a, s, share, r, samples, seed),
        *flat,
        torch.where(whole, 1.0, radius),
        per_set=8 * m * m * max(samples, 16) * 8,
        memory=_CHUNK,
    )
    everything = (math.inf, math.inf, 0.0, 1.0, 1.0, 0.0)  # the fields of a region that is the whole space
    fields = (torch.where(whole, value, x) for value, x in zip(everything, pieces, strict=True))
    size, log_size, size_error, lower, upper, error = (border.out(x.reshape(batch)) for x in fields)
    shape = border.out(loc), border.out(scale), border.out(radius.reshape(batch))
    return Ellipsoids(size, log_size, size_error, lower, upper, error, *shape)


def _box(loc: Tensor, scale: Tensor, alpha: float) -> tuple[Tensor, ...]:
    """The hull of mu_j +- t s_j, t by a root finder: min_j P_j grows with t, from an empty box on."""
    from scipy.special import ndtri  # takes long to import, and few need it

    d = loc.shape[-1]
    between = loc[:, None] - loc[:, :, None]  # (b, j, k, d): mu_k - mu_j

    def probability(t: Tensor, rows: Tensor | slice = slice(None)) -> Tensor:
        unit, apart = scale[rows], between[rows]
        step = t[:, None, None, None] * unit[:, None]
        upper, lower = (apart + step).amax(2) / unit, (apart - step).amin(2) / unit
        return diagonal.log_box(lower, torch.maximum(upper, lower)).sum(-1)

    wanted = math.log1p(-alpha)
    # Sides of level (1 - alpha)^(1/d) around every mean are enough.
    side = -float(ndtri(-math.expm1(wanted / d) / 2)) + 1e-9
    high = torch.full_like(loc[:, 0, 0], side)
    low = torch.zeros_like(high)
    while (unmet := (probability(low).amin(-1) > wanted)).any():
        low = torch.where(unmet, 2 * low - 1, low)
    # The least t that is enough: the largest -t, at which a decreasing function is not yet negative.
    rows = torch.arange(len(loc), device=loc.device)

    def margin(rows: Tensor, t: Tensor) -> Tensor:
        return probability(-t, rows).amin(-1) - wanted

    high = -last_nonnegative(margin, -high, -low, margin(rows, -high), margin(rows, -low), rows)
    step = high[:, None, None] * scale
    anchor = loc[:, :1]
    upper, lower = (loc - anchor + step).amax(1), (loc - anchor - step).amin(1)
    log_measure = (upper - lower).log().sum(-1)
    reached = probability(high).exp()
    zero = torch.zeros_like(high)
    return (
        log_measure.exp(), log_measure, zero, reached.amin(-1), reached.amax(-1), zero.clone(),
        anchor[:, 0] + lower, anchor[:, 0] + upper, high,
    )  # fmt: skip
