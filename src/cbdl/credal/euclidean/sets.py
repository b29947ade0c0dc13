"""Credal sets of Normals in R^d with independent coordinates.

What has a closed form is computed by it; the rest is simulated on fixed scrambled Sobol nodes and comes
with a standard error (see `montecarlo`). Answers are reproducible and do not depend on the rest of the
batch.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import torch
from torch import Tensor

from cbdl.credal._border import (
    Array,
    ArrayLike,
    border_of,
    broadcast,
    check_finite,
    check_positive,
    float64,
)
from cbdl.credal._optimum import Optimum
from cbdl.credal.base import Base, Cost, CredalSet, Distribution, Gamble, Utility, no_cost
from cbdl.credal.classes.distance import check_kind
from cbdl.credal.euclidean import diagonal, distance
from cbdl.credal.euclidean.events import Bounds, bounds, event_probabilities, expectations
from cbdl.credal.euclidean.information import maximise_information
from cbdl.credal.euclidean.maximin import Maximin, MaximinPoint, maximin
from cbdl.credal.euclidean.mixture import DiagonalMixture
from cbdl.credal.euclidean.montecarlo import Nodes, entropy_bounds, until
from cbdl.credal.euclidean.regions import Ellipsoids, EuclideanRegion, euclidean_region, union_at
from cbdl.credal.euclidean.survival import log_survival
from cbdl.credal.line.sets import NormalCredalSet


class DiagonalNormalCredalSet(CredalSet):
    """The convex hull of m Normals on R^d with independent coordinates.

    loc, scale: (..., m, d), broadcast against each other; numpy or torch, answers in the same kind.
    samples:    draws of each extreme wherever there is no closed form, rounded up to a power of 2
    tolerance:  if given, the upper entropy and the distances draw more until their standard error is below it,
                at most 131072 draws of each extreme; the error that is reported tells whether it was reached
    seed:       of the nodes; the same seed gives the same answer, whatever else is in the batch

    >>> import numpy as np
    >>> cs = DiagonalNormalCredalSet(loc=[[0.0, 0.0], [9.0, 0.0]], scale=1.0)
    >>> cs.batch_shape, cs.num_extremes, cs.dimension
    ((), 2, 2)
    >>> u = cs.uncertainty()
    >>> float(np.round(u.epistemic, 4)), round(float(np.log(2)), 4)   # two far apart: one bit of ignorance
    (0.6931, 0.6931)
    >>> from cbdl.credal import Box
    >>> cs.probability(Box([-1, -1], [1, 1])).upper.round(4), cs.expectation(lambda y: y[..., 0]).upper.round(2)
    (np.float64(0.4661), np.float64(9.0))
    >>> cs.log_density([0, 0]).round(1), cs.lower_log_density([0, 0]).round(1), cs.upper_log_density([0, 0]).round(1)
    (array([ -1.8, -42.3]), np.float64(-42.3), np.float64(-1.8))
    >>> bool(cs.lower_density([0, 0]) < cs.upper_density([0, 0])), cs.sample(100).shape, cs.marginal(0).loc
    (True, (100, 2, 2), array([0., 9.]))
    """

    def __init__(
        self,
        loc: ArrayLike,
        scale: ArrayLike,
        *,
        samples: int = 2048,
        seed: int = 0,
        tolerance: float | None = None,
    ) -> None:
        mu, s = float64(loc, "loc"), float64(scale, "scale")
        check_finite(mu, "loc")
        check_positive(s, "scale", "give standard deviations, not log-scales or variances")
        mu, s = broadcast("both as (..., m, d)", loc=mu, scale=s)
        if mu.ndim < 2 or 0 in mu.shape:
            raise ValueError(
                f"loc and scale broadcast to {tuple(mu.shape)}; they must be (..., m, d) with at least one "
                "set, one extreme and one coordinate"
            )
        if int(samples) != samples or samples < 1:
            raise ValueError(f"samples is {samples}; give a positive whole number of draws of each extreme")
        if tolerance is not None and not tolerance > 0:
            raise ValueError(f"tolerance is {tolerance}; give a positive standard error to reach, or None")
        self._hold(border_of(loc, scale), mu.contiguous(), s.contiguous())
        self._nodes, self._tolerance = Nodes(int(samples), int(seed)), tolerance

    # --- shape -----------------------------------------------------------------------------------

    @property
    def _loc(self) -> Tensor:
        return self._parameters[0]

    @property
    def _scale(self) -> Tensor:
        return self._parameters[1]

    @property
    def _d(self) -> int:
        return self._parameters[0].shape[-1]

    @property
    def loc(self) -> Array:
        """(..., m, d): the means."""
        return self._border.out(self._loc)

    @property
    def scale(self) -> Array:
        """(..., m, d): the standard deviations."""
        return self._border.out(self._scale)

    @property
    def dimension(self) -> int:
        """d, the dimension of the space."""
        return self._d

    def __repr__(self) -> str:
        return (
            f"DiagonalNormalCredalSet(batch_shape={self.batch_shape}, num_extremes={self._extremes}, "
            f"dimension={self._d})"
        )

    def marginal(self, coordinate: int) -> NormalCredalSet:
        """The set of the distributions of one coordinate: Normals on the line, where everything is exact.

        - `coordinate`: its number, from 0
        """
        if not -self._d <= coordinate < self._d:
            raise ValueError(f"coordinate is {coordinate}; the space has the coordinates 0 to {self._d - 1}")
        out = self._border.out
        return NormalCredalSet(out(self._loc[..., coordinate]), out(self._scale[..., coordinate]))

    # --- probabilities and expectations ----------------------------------------------------------

    def _probabilities(self, event: Any) -> Tensor:
        return self._event(event).mean(0)

    def _expectations(self, gamble: Gamble) -> Tensor:
        return self._gamble(gamble).mean(0)

    def _means(self) -> Tensor:
        return self._loc

    def _event(self, event: Any) -> Tensor:
        return event_probabilities(event, self._loc, self._scale, self._nodes, self._border)

    def _gamble(self, gamble: Gamble) -> Tensor:
        return expectations(gamble, self._loc, self._scale, self._nodes, self._border)

    def probability(self, event: Any) -> Bounds:
        """Lower and upper probability of `event` with standard errors.

        An event is an array (..., d, 2) of bounds, a `Box` or a `HalfSpace` (closed forms), a region, or a
        callable that tells for y (..., d) whether it occurs, (...,) (simulated).
        """
        return bounds(self._event(event), self._border)

    def expectation(self, f: Gamble) -> Bounds:
        """Lower and upper expectation of f with standard errors.

        f is a callable from y (..., d) to (...,) (simulated), or an array a (d,) that stands for a . y
        (exact).

        - `f`: a function of the outcome, or its values
        """
        return bounds(self._gamble(f), self._border)

    # --- densities -------------------------------------------------------------------------------

    def log_density(self, y: ArrayLike) -> Array:
        """(..., m): the log density of every extreme at y (..., d), broadcast against the batch."""
        return self._border.out(self._log_density(y))

    def lower_log_density(self, y: ArrayLike) -> Array:
        """(...,): log of inf over the hull of p(y); never underflows.

        - `y`: outcomes (..., d)
        """
        return self._border.out(self._log_density(y).amin(-1))

    def upper_log_density(self, y: ArrayLike) -> Array:
        """(...,): log of sup over the hull of p(y).

        - `y`: outcomes (..., d)
        """
        return self._border.out(self._log_density(y).amax(-1))

    def lower_density(self, y: ArrayLike) -> Array:
        """(...,): inf over the hull of p(y). Paper: definition "choq_int_and_cvx_lp".

        - `y`: outcomes (..., d)
        """
        return self._border.out(self._log_density(y).amin(-1).exp())

    def upper_density(self, y: ArrayLike) -> Array:
        """(...,): sup over the hull of p(y).

        - `y`: outcomes (..., d)
        """
        return self._border.out(self._log_density(y).amax(-1).exp())

    def _log_density(self, y: ArrayLike) -> Tensor:
        point = self._point(y)
        return diagonal.log_density(point[..., None, :], self._loc, self._scale)

    def _point(self, y: ArrayLike) -> Tensor:
        point = float64(y, "y")
        if point.ndim == 0 or point.shape[-1] != self._d:
            raise ValueError(f"y has shape {tuple(point.shape)}; points of this space are (..., {self._d})")
        check_finite(point, "y")
        return point.to(self._device)

    # --- entropy ---------------------------------------------------------------------------------

    def _entropies(self) -> tuple[Tensor, Tensor]:
        entropies = diagonal.entropy(self._scale)
        return entropies, torch.zeros_like(entropies)

    def _upper_entropy(self) -> Optimum:
        loc, scale = self._flattened()
        entropies = diagonal.entropy(scale)

        def solve(rows: Tensor, samples: int) -> Optimum:
            return maximise_information(loc[rows], scale[rows], entropies[rows], samples, self._nodes.seed)

        return until(solve, loc.shape[0], self._nodes.samples, self._tolerance, loc.device).reshaped(
            self._batch
        )

    @overload
    def entropy_bounds(
        self, base: Base = None, *, certificate: Literal[False] = False
    ) -> tuple[Array, Array]: ...
    @overload
    def entropy_bounds(self, base: Base = None, *, certificate: Literal[True]) -> Bounds: ...
    def entropy_bounds(self, base: Base = None, *, certificate: bool = False) -> tuple[Array, Array] | Bounds:
        """H(lower P) <= lower entropy, and upper entropy <= H(upper P); with `certificate`, their errors too.

        H(lower P) is the Choquet integral of -log(upper density) with respect to the lower probability,
        H(upper P) that of -log(lower density) with respect to the upper one. Paper: theorem
        "thm_rem_bounds_entropy".

        - `base`: the unit of entropy: None for nats, 2 for bits, "classes" for a maximum of 1
        """
        loc, scale = self._flattened()
        bounds = entropy_bounds(loc, scale, *self._nodes)
        answer = Bounds(*(self._border.out(x.reshape(self._batch) / self._unit(base)) for x in bounds))
        return answer if certificate else (answer.lower, answer.upper)

    # --- regions and decisions -------------------------------------------------------------------

    def region(self, alpha: float, method: str = "union") -> EuclideanRegion:
        """The region of lower probability at least 1 - alpha by "union", "box", "lower-density" or "minimal".

        See `cbdl.credal.euclidean.regions` for what each is, what is exact and what is simulated.

        - `alpha`: 1 - alpha is the probability to cover, between 0 and 1
        - `method`: which region
        """
        samples, seed = self._nodes
        return euclidean_region(
            self._loc, self._scale, alpha, method, samples=samples, seed=seed, border=self._border
        )

    def _log_survival(self, y: ArrayLike) -> Tensor:
        z = (self._point(y)[..., None, :] - self._loc) / self._scale
        return log_survival(z.square().sum(-1).amin(-1), self._d)

    def _region_at(self, log_survival: Tensor) -> Ellipsoids:
        samples, seed = self._nodes
        return union_at(self._loc, self._scale, log_survival, samples=samples, seed=seed, border=self._border)

    @overload
    def decide(
        self,
        rule: str = "maximin",
        utility: Utility | None = None,
        single: bool = False,
        seed: int = 0,
        *,
        certificate: Literal[False] = False,
    ) -> Array: ...
    @overload
    def decide(
        self,
        rule: str = "maximin",
        utility: Utility | None = None,
        single: bool = False,
        seed: int = 0,
        *,
        certificate: Literal[True],
    ) -> MaximinPoint: ...
    def decide(
        self,
        rule: str = "maximin",
        utility: Utility | None = None,
        single: bool = False,
        seed: int = 0,
        *,
        certificate: bool = False,
    ) -> Array | MaximinPoint:
        """The safest outcome argmax_y min_j p_j(y), (..., d), or which actions a rule keeps, a mask (..., A).

        Without `utility` the rule is "maximin" (the paper's modified Step 6): the maximiser is unique and
        certified, with `certificate` beside it. With `utility`, a list of A functions of y (as in `expectation`), any
        rule of `cbdl.credal.decide` applies.

        - `rule`: how to choose
        - `single`: one of the actions, at random
        - `seed`: of that choice
        """
        if certificate and utility is None:
            best = self._maximin(rule)
            parts = (self._batched(x) for x in (best.point, best.log_density, best.gap))
            return MaximinPoint(*map(self._border.out, parts))
        return super().decide(rule, utility, single, seed)

    def _safest(self, rule: str, single: bool, seed: int) -> Tensor:
        return self._batched(self._maximin(rule).point)

    def _maximin(self, rule: str) -> Maximin:
        if rule != "maximin":
            raise ValueError(
                f"rule is {rule!r}; on a continuum it needs `utility`, a list of functions of y, one for "
                'each action (only "maximin" does without)'
            )
        return maximin(*self._flattened())

    # --- the hull --------------------------------------------------------------------------------

    def _extreme_mask(self) -> Tensor:
        # Normals that differ are linearly independent, so none is a mixture of others.
        return self._batched(diagonal.first_of_each(*self._flattened()))

    def contains(self, p: Distribution | DiagonalMixture, *, tolerance: float = 1e-12) -> Array:
        """(...,): whether p, a (loc, scale) pair (..., d), a mixture or a set with one extreme, belongs to the set.

        By linear independence a Normal belongs to it only if it is an extreme, and a mixture only if each
        of its components is one. Numbers are equal within `tolerance`, in units of the scale.

        - `p`: the parameters of a distribution, or a set with one extreme
        """
        if isinstance(p, DiagonalMixture):
            loc, scale = float64(p.loc, "p.loc"), float64(p.scale, "p.scale")
            used = float64(p.weights, "p.weights") > 0
        else:
            loc, scale = (x[..., None, :] for x in self._target(p)[:2])
            used = torch.ones_like(loc[..., 0], dtype=torch.bool)
        s, other = self._scale[..., None, :, :], scale[..., :, None, :]
        near = ((self._loc[..., None, :, :] - loc[..., :, None, :]).abs() <= tolerance * s) & (
            (s - other).abs() <= tolerance * s
        )
        return self._border.out((near.all(-1).any(-1) | ~used).all(-1))

    def _distance(self, p: Distribution, kind: str, order: float | None, cost: Cost) -> Optimum:
        """Paper: proposition "dist_lemma". "w2" is a bracket, [value - gap, value]."""
        no_cost(cost)
        order = check_kind(kind, distance.KINDS, order)
        kind = "kl" if order == 1 and kind == "renyi" else kind
        *target, batch = self._target(p)
        sets = (
            x.expand(*batch, -1, -1).reshape(-1, self._extremes, self._d) for x in (self._loc, self._scale)
        )
        every = (*sets, *(x.expand(*batch, -1).reshape(-1, self._d) for x in target))

        def solve(rows: Tensor, samples: int) -> Optimum:
            a, b, c, d = (x[rows] for x in every)
            return distance.distance(a, b, c, d, kind, order, samples, self._nodes.seed)

        optimum = until(solve, every[0].shape[0], self._nodes.samples, self._tolerance, self._loc.device)
        return optimum.reshaped(batch)

    def _target(self, p: Distribution) -> tuple[Tensor, Tensor, torch.Size]:
        """loc and scale (..., d) of p, and the batch shape of an answer."""
        if isinstance(p, DiagonalNormalCredalSet):
            if p.num_extremes != 1:
                raise ValueError(f"p is a credal set with {p.num_extremes} extremes; give one distribution")
            p = (p._loc[..., 0, :], p._scale[..., 0, :])
        return distance.target(p, self._batch, self._d)

    # --- one distribution instead of many ----------------------------------------------------------

    def average(self, weights: ArrayLike) -> DiagonalMixture:
        """sum_j weights_j P_j, Bayesian model averaging; weights (m,) or (..., m)."""
        return DiagonalMixture(self.loc, self.scale, self._border.out(self._weights(weights)))

    def center(self) -> DiagonalMixture:
        """The centre of gravity: the mixture with equal weights."""
        return DiagonalMixture(self.loc, self.scale, self._border.out(self._weights(None)))

    def point(self, weights: ArrayLike | None = None) -> DiagonalNormalCredalSet:
        """The set whose only extreme is the diagonal Normal with the means and variances of sum_j w_j P_j.

        The mixture itself is not Normal: `average` gives it.

        - `weights`: (m,) or (..., m), summing to 1; None: equal ones
        """
        w = self._weights(weights).unsqueeze(-1)
        mean = (w * self._loc).sum(-2, keepdim=True)
        variance = (w * (self._scale.square() + (self._loc - mean).square())).sum(-2, keepdim=True)
        return self._like(mean, variance.sqrt())

    def sample(self, n: int, seed: int = 0) -> Array:
        """(n, ..., m, d): independent draws of every extreme.

        - `n`: draws of every extreme
        - `seed`: of the random numbers; the same seed gives the same answer
        """
        if int(n) != n or n < 1:
            raise ValueError(f"n is {n}; give a positive whole number of draws")
        noise = torch.randn(
            n, *self._loc.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
        )
        return self._border.out(self._loc + self._scale * noise.to(self._loc.device))
