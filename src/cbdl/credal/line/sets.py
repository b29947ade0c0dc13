"""Credal sets on the line (paper, section 2.2): hulls of Normals and of Normal mixtures.

Both kinds are the same mathematics: a Normal is a mixture of one component. What they share is in `_Line`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cbdl.credal import decide
from cbdl.credal._batch import in_chunks
from cbdl.credal._border import (
    Array,
    ArrayLike,
    Border,
    border_of,
    check_alpha,
    check_finite,
    check_shape,
    float64,
)
from cbdl.credal._optimum import Optimum
from cbdl.credal.base import Base, Cost, CredalSet, Distribution, Gamble, no_cost
from cbdl.credal.classes import hull
from cbdl.credal.line.entropy import entropies, entropies_and_upper, entropy_bounds_on_line, expectations
from cbdl.credal.line.events import (
    Parameters,
    line_event,
    line_points,
    mixture_parameters,
    per_set,
    target_parameters,
)
from cbdl.credal.line.hull import coefficients, coefficients_with
from cbdl.credal.line.maximin import maximisers
from cbdl.credal.line.mixture import Extremes
from cbdl.credal.line.regions import (
    SLACK,
    LineRegion,
    finished,
    line_region,
    region_probabilities,
    union_region,
)
from cbdl.credal.line.survival import log_survival
from cbdl.credal.line.variation import maximal_imprecision


class _Line(CredalSet):
    """Hulls of m Normal mixtures; the parameters are loc, scale and weights (..., m, M)."""

    _known: tuple[Tensor, Tensor] | None = None
    _optimum: Optimum | None = None
    """Entropies with their errors (B, m), and the upper entropy: computed once, the first with the second."""

    def _hold(self, border: Border, *parameters: Tensor) -> None:
        super()._hold(border, *parameters)
        self._known = self._optimum = None

    @property
    def _line(self) -> Parameters:
        loc, scale, weights = self._parameters
        return loc, scale, weights

    def _flat(self) -> Extremes:
        return Extremes(*self._flattened())

    # --- primitives on the extremes --------------------------------------------------------------------

    def _probabilities(self, event: Any) -> Tensor:
        return self._batched(region_probabilities(self._flat(), line_event(event, self._batch, self._device)))

    def _expectations(self, gamble: Gamble) -> Tensor:
        if not callable(gamble):
            raise ValueError(
                "f is not callable; on the line give a function of the outcome, such as np.square"
            )
        return self._batched(expectations(self._flat(), gamble, self._border))

    def _means(self) -> Tensor:
        return self._moments()[0]

    def _entropies(self) -> tuple[Tensor, Tensor]:
        if self._known is None:
            self._known = entropies(self._flat())
        value, error = self._known
        return self._batched(value), self._batched(error)

    def _upper_entropy(self) -> Optimum:
        if self._extremes == 1:
            value, error = (t[..., 0] for t in self._entropies())
            one = torch.ones_like(value)
            return Optimum(value, torch.zeros_like(value), one[..., None], error)
        if self._optimum is None:
            value, error, self._optimum = entropies_and_upper(self._flat())
            self._known = value, error
        return self._optimum.reshaped(self._batch)

    # --- distribution functions and densities ------------------------------------------------------------

    def cdf(self, y: ArrayLike) -> Array:
        """(..., m) or (..., n, m): P_j(Y <= y) of each extreme, at y (...,) or (..., n)."""
        return self._border.out(self._at(y, _cdf))

    def lower_cdf(self, y: ArrayLike) -> Array:
        """inf over the hull of P(Y <= y): the lower side of the p-box. y (...,) or (..., n)."""
        return self._border.out(self._at(y, _cdf).amin(-1))

    def upper_cdf(self, y: ArrayLike) -> Array:
        """sup over the hull of P(Y <= y): the upper side of the p-box. y (...,) or (..., n)."""
        return self._border.out(self._at(y, _cdf).amax(-1))

    def log_density(self, y: ArrayLike) -> Array:
        """(..., m) or (..., n, m): log p_j(y) of each extreme at `y`, finite also where p_j underflows."""
        return self._border.out(self._at(y, _log_density))

    def lower_density(self, y: ArrayLike) -> Array:
        """inf over the hull of p(y), at `y`. Paper: definition "choq_int_and_cvx_lp"."""
        return self._border.out(self._at(y, _log_density).amin(-1).exp())

    def upper_density(self, y: ArrayLike) -> Array:
        """sup over the hull of p(y), at `y`. Paper: definition "choq_int_and_cvx_lp"."""
        return self._border.out(self._at(y, _log_density).amax(-1).exp())

    def _at(self, y: ArrayLike, function: Callable[[Tensor, Extremes], Tensor]) -> Tensor:
        points, single = line_points(y, self._batch, self._device)
        flat, n = self._flat(), points.shape[-1]

        def part(y: Tensor, *line: Tensor) -> tuple[Tensor]:
            return (function(y, Extremes(*line)),)

        per_set = 32 * n * flat.loc[0].numel()
        (values,) = in_chunks(part, points, flat.loc, flat.scale, flat.weights, per_set=per_set)
        return self._batched(values[:, 0] if single else values)

    def variance(self) -> Array:
        """(..., m): the variance of each extreme."""
        return self._border.out(self._moments()[1])

    def _moments(self) -> tuple[Tensor, Tensor]:
        loc, scale, weights = self._line
        # Relative to one component, so that a small variance far from zero is not lost.
        shift = loc - loc[..., :1]
        mean = (weights * shift).sum(-1, keepdim=True)
        variance = (weights * (scale.square() + (shift - mean).square())).sum(-1)
        return (loc[..., :1] + mean)[..., 0], variance

    # --- uncertainty -------------------------------------------------------------------------------------

    def entropy_bounds(self, base: Base = None) -> tuple[Array, Array]:
        """H(lower P) <= lower entropy, and upper entropy <= H(upper P), as Choquet integrals.

        H(lower P) is the integral of -log(upper density) with respect to the lower probability, H(upper P)
        that of -log(lower density) with respect to the upper one. Paper: theorem "thm_rem_bounds_entropy".

        - `base`: the unit of entropy: None for nats, 2 for bits
        """
        lower, upper = entropy_bounds_on_line(self._flat())
        unit, out = self._unit(base), self._border.out
        return out(self._batched(lower) / unit), out(self._batched(upper) / unit)

    def maximal_imprecision(self) -> Array:
        """sup over events A of upperP(A) - lowerP(A): the largest total variation between two extremes."""
        return self._border.out(self._batched(maximal_imprecision(self._flat())))

    # --- one distribution instead of many ------------------------------------------------------------------

    def center(self) -> MixtureCredalSet:
        """The centre of gravity of the extremes, as a set with this one extreme."""
        return self.point()

    def average(self, weights: ArrayLike) -> MixtureCredalSet:
        """sum_j w_j P_j, Bayesian model averaging, as a set with this one extreme; `weights` sum to 1."""
        return self.point(weights)

    def point(self, weights: ArrayLike | None = None) -> MixtureCredalSet:
        """The set whose only extreme is sum_j w_j P_j; `weights` (m,) or (..., m), equal if not given."""
        loc, scale, own = self._line
        parts = (loc, scale, own * self._weights(weights)[..., None])
        new = object.__new__(MixtureCredalSet)
        new._hold(self._border, *(t.flatten(-2)[..., None, :] for t in parts))
        return new

    # --- regions and decisions -----------------------------------------------------------------------------

    def region(self, alpha: float, method: str = "union") -> LineRegion:
        """A union of intervals that every distribution of the set covers with probability 1 - alpha or more.

        `method`: "union" of the highest density regions of the extremes, "lower-density", or "minimal" (the
        shortest). The paper expects "lower-density" to be tighter than "union"; it need not be, see
        `cbdl.credal.line.regions`. Paper: definitions "ihdr-def" and "hdr-def".

        - `alpha`: 1 - alpha is the probability to cover, between 0 and 1
        """
        flat = self._flat()
        intervals, level, gap = line_region(flat, check_alpha(alpha), method)
        return finished(flat, intervals, level, gap, self._border, self._batch)

    def _log_survival(self, y: ArrayLike) -> Tensor:
        check_finite(float64(y, "y"), "y")
        points, single = line_points(y, self._batch, self._device)
        logs = log_survival(self._flat(), points)
        return self._batched(logs[:, 0] if single else logs)

    def _region_at(self, log_survival: Tensor) -> LineRegion:
        flat = self._flat()
        intervals, level, gap = union_region(flat, log_survival.reshape(-1), slack=SLACK)
        return finished(flat, intervals, level, gap, self._border, self._batch)

    def _safest(self, rule: str, single: bool, seed: int) -> Tensor:
        """(..., R) all maximisers of min_j p_j(y), padded with nan, or (...,) one of them."""
        if rule != "maximin":
            raise ValueError(
                f"rule {rule!r} needs utility=[f1, f2, ...], one function of the outcome per action"
            )
        points = maximisers(self._flat())
        if single:
            chosen = decide.choose(~torch.isnan(points), seed)
            points = points.gather(-1, chosen[:, None])[:, 0]
        return self._batched(points)

    # --- the hull --------------------------------------------------------------------------------------------

    def _extreme_mask(self) -> Tensor:
        # Exact: densities of Normals that differ are linearly independent. Paper: remark "rem_fin_1".
        return self._batched(hull.extreme_mask(coefficients(self._flat())))

    def contains(self, p: Distribution) -> Array:
        """(...,) bool: whether p is a mixture of the extremes.

        `p` is (loc, scale) of a Normal, (loc, scale, weights) of a mixture with its components last, or a credal
        set with one extreme.
        """
        target = self._target(p)
        inside = hull.contains(*coefficients_with(self._flat(), *target))
        return self._border.out(self._batched(inside))

    def _distance(self, p: Distribution, kind: str, order: float | None, cost: Cost) -> Optimum:
        from cbdl.credal.line.distance import distance

        no_cost(cost)
        flat, target = self._flat(), self._target(p)
        return distance(flat.loc, flat.scale, flat.weights, *target, kind, order=order).reshaped(self._batch)

    def _target(self, p: Distribution) -> Parameters:
        """One distribution (B, M) for each set."""
        if isinstance(p, _Line) and p.num_extremes != 1:
            raise ValueError(f"p is a credal set with {p.num_extremes} extremes; give one distribution")
        if isinstance(p, _Line):
            loc, scale, weights = (t[..., 0, :] for t in p._parameters)
            return per_set((loc, scale, weights), self._batch, self._device)
        return target_parameters(p, self._batch, self._device)

    def sample(self, n: int, seed: int = 0) -> Array:
        """(n, ..., m): `n` independent draws from each extreme, by `seed`."""
        loc, scale, weights = self._line
        generator = torch.Generator().manual_seed(seed)
        flat = weights.reshape(-1, weights.shape[-1]).cpu()
        which = torch.multinomial(flat, n, replacement=True, generator=generator).T.to(self._device)
        noise = torch.randn(which.shape, dtype=torch.float64, generator=generator).to(self._device)
        row = torch.arange(which.shape[1], device=self._device)
        mu, sigma = (t.reshape(-1, t.shape[-1])[row, which] for t in (loc, scale))
        return self._border.out((mu + sigma * noise).view(n, *loc.shape[:-1]))


class NormalCredalSet(_Line):
    """The convex hull of m Normals on the line; `loc` and `scale` (..., m), numpy or torch, broadcast.

    Events are an interval (a, b) with infinite ends allowed, a union of intervals (R, 2) or (..., R, 2), or a
    `LineRegion`; gambles are functions of the outcome.

    >>> cs = NormalCredalSet(loc=[0.0, 1.0], scale=[1.0, 2.0])
    >>> cs
    NormalCredalSet(batch_shape=(), num_extremes=2)
    >>> float(cs.lower_probability((-2, 2)).round(4)), float(cs.upper_probability((-2, 2)).round(4))
    (0.6247, 0.9545)
    >>> cs.region(0.05).intervals.round(2)
    array([[-2.92,  4.92]])
    >>> cs.cdf(0.0).round(3), cs.lower_cdf(0.0).round(3), cs.upper_cdf(0.0).round(3)
    (array([0.5  , 0.309]), np.float64(0.309), np.float64(0.5))
    >>> cs.log_density(0.0).round(3), cs.lower_density(0.0).round(3), cs.upper_density(0.0).round(3)
    (array([-0.919, -1.737]), np.float64(0.176), np.float64(0.399))
    >>> cs.variance(), cs.maximal_imprecision().round(3), cs.sample(100).shape
    (array([1., 4.]), np.float64(0.39), (100, 2))
    """

    def __init__(self, loc: ArrayLike, scale: ArrayLike) -> None:
        mu, sigma, weights = mixture_parameters(loc, scale, None, normal=True)
        check_shape(mu[..., 0], "loc", "m")
        self._hold(border_of(loc, scale), mu, sigma, weights)

    @property
    def loc(self) -> Array:
        """(..., m)"""
        return self._border.out(self._line[0][..., 0])

    @property
    def scale(self) -> Array:
        """(..., m)"""
        return self._border.out(self._line[1][..., 0])

    def __repr__(self) -> str:
        return f"NormalCredalSet(batch_shape={self.batch_shape}, num_extremes={self.num_extremes})"


class MixtureCredalSet(_Line):
    """The convex hull of m mixtures of M Normals; `loc`, `scale`, `weights` (..., m, M) broadcast.

    Weights sum to 1 along the last dimension (uniform if not given). Events and gambles as for
    `NormalCredalSet`.

    >>> cs = MixtureCredalSet(loc=[[-2.0, 2.0], [0.0, 1.0]], scale=0.5)
    >>> cs
    MixtureCredalSet(batch_shape=(), num_extremes=2, num_components=2)
    >>> cs.region(0.1, "minimal").intervals.round(2)
    array([[-2.74, -1.24],
           [-0.41,  2.74]])
    """

    def __init__(self, loc: ArrayLike, scale: ArrayLike, weights: ArrayLike | None = None) -> None:
        mu, sigma, share = mixture_parameters(loc, scale, weights, normal=False)
        check_shape(mu, "loc", "m M")
        border = border_of(*(x for x in (loc, scale, weights) if x is not None))
        self._hold(border, mu, sigma, share)

    @property
    def loc(self) -> Array:
        """(..., m, M)"""
        return self._border.out(self._line[0])

    @property
    def scale(self) -> Array:
        """(..., m, M)"""
        return self._border.out(self._line[1])

    @property
    def weights(self) -> Array:
        """(..., m, M)"""
        return self._border.out(self._line[2])

    def __repr__(self) -> str:
        return (
            f"MixtureCredalSet(batch_shape={self.batch_shape}, num_extremes={self.num_extremes}, "
            f"num_components={self._line[0].shape[-1]})"
        )


def _cdf(y: Tensor, sets: Extremes) -> Tensor:
    z = (y[:, :, None, None] - sets.loc[:, None]) / sets.scale[:, None]
    value: Tensor = 0.5 * (torch.special.erfc(-math.sqrt(0.5) * z) * sets.weights[:, None]).sum(-1)
    return value.clamp(0, 1)


def _log_density(y: Tensor, sets: Extremes) -> Tensor:
    B, n = y.shape
    owner = torch.arange(B, device=y.device).repeat_interleave(n)
    return sets.densities(owner, y.reshape(-1), torch.zeros_like(y).reshape(-1)).view(B, n, -1)
