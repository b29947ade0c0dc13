"""Credal sets over finitely many classes (paper, section 2.2): the hull of m probability vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from cbdl.credal import decide
from cbdl.credal._batch import in_chunks
from cbdl.credal._border import (
    Array,
    ArrayLike,
    border_of,
    check_probabilities,
    check_shape,
    float64,
    is_single_precision,
    probability_tolerance,
)
from cbdl.credal._optimum import Optimum
from cbdl.credal.base import Base, Cost, CredalSet, Distribution, Gamble, Utility
from cbdl.credal.classes import hartley, hull, regions
from cbdl.credal.classes.arguments import class_cost, distributions, utilities
from cbdl.credal.classes.distance import distance
from cbdl.credal.classes.events import class_event, class_gamble
from cbdl.credal.classes.regions import ClassRegion
from cbdl.credal.entropy import (
    AveragedUncertainty,
    averaged_entropies,
    entropy,
    entropy_bounds,
    upper_entropy,
)
from cbdl.credal.table import bounds_by_class
from cbdl.ground.labels import numbers_of

_CACHE = 1 << 21
"""Bytes of probabilities whose entropies are taken at a time."""


class CategoricalCredalSet(CredalSet):
    """The convex hull of m probability vectors over J classes; `probs` is (..., m, J), numpy or torch.

    Rows sum to 1 within 1e-6 (1e-4 in float32) and are renormalised in float64. Events are a class index, a
    list of them, a boolean mask (J,) or (..., J), or a `ClassRegion`; gambles are values (J,) or (..., J), or
    a function of the class index.

    The paper's table:

    >>> probs = [[.7, .25, .03, .01, .01], [.6, .2, .1, .05, .05], [.5, .3, .15, .025, .025]]
    >>> cs = CategoricalCredalSet(probs)
    >>> cs
    CategoricalCredalSet(batch_shape=(), num_extremes=3, num_classes=5)
    >>> float(cs.lower_probability([0, 1, 2]).round(6)), float(cs.upper_probability(0).round(6))
    (0.9, 0.7)
    >>> cs.region(0.1).mask
    array([ True,  True,  True, False, False])
    >>> u = cs.uncertainty(base="classes")
    >>> print(f"total {u.total:.3f} = aleatoric {u.aleatoric:.3f} + epistemic {u.epistemic:.3f}")
    total 0.735 = aleatoric 0.493 + epistemic 0.242
    >>> cs.lower_probabilities(), cs.upper_probabilities()
    (array([0.5 , 0.2 , 0.03, 0.01, 0.01]), array([0.7 , 0.3 , 0.15, 0.05, 0.05]))
    >>> cs.maximal_imprecision().round(6), cs.average_uncertainty().mutual_information.round(3)
    (np.float64(0.2), np.float64(0.034))
    """

    def __init__(self, probs: ArrayLike) -> None:
        values = float64(probs, "probs")
        check_shape(values, "probs", "m J")
        tolerance, own = probability_tolerance(probs), not isinstance(probs, Tensor)
        P = check_probabilities(values, "probs", tolerance, of="distribution", own=own)
        self._hold(border_of(probs), P)
        self._single, self._classes = is_single_precision(probs), P.shape[-1]

    @property
    def _P(self) -> Tensor:
        return self._parameters[0]

    @property
    def probs(self) -> Array:
        """(..., m, J): the extremes, renormalised."""
        return self._border.out(self._P)

    @property
    def num_classes(self) -> int:
        """J, the number of classes."""
        return self._P.shape[-1]

    def __repr__(self) -> str:
        return (
            f"CategoricalCredalSet(batch_shape={self.batch_shape}, num_extremes={self.num_extremes}, "
            f"num_classes={self.num_classes})"
        )

    # --- primitives on the extremes --------------------------------------------------------------------

    def _flat(self) -> Tensor:
        return self._flattened()[0]

    def _tolerance(self, double: float) -> float:
        """Below this, numbers are equal: what the user's precision allows."""
        return 1e-6 if self._single else double

    def _probabilities(self, event: Any) -> Tensor:
        mask = class_event(self._numbered(event), self.num_classes, self._batch, self._P.device)
        # A sum of probabilities may end an ulp above 1.
        return (self._P @ mask.to(self._P).unsqueeze(-1)).squeeze(-1).clamp(0, 1)

    def _expectations(self, gamble: Gamble) -> Tensor:
        values = class_gamble(gamble, self.num_classes, self._batch, self._border)
        return (self._P @ values.to(self._P).unsqueeze(-1)).squeeze(-1)

    def _means(self) -> Tensor:
        return self._P

    def _entropies(self) -> tuple[Tensor, Tensor]:
        m, J = self.num_extremes, self.num_classes
        (values,) = in_chunks(lambda p: (entropy(p),), self._flat(), per_set=16 * m * J, memory=_CACHE)
        values = values.reshape(*self._batch, m)
        return values, torch.zeros_like(values)

    def _upper_entropy(self) -> Optimum:
        return upper_entropy(self._flat()).reshaped(self._batch)

    # --- the envelope on single classes ----------------------------------------------------------------

    def lower_probabilities(self) -> Array:
        """(..., J): the lower probability of every class."""
        return self._border.out(self._P.amin(-2))

    def upper_probabilities(self) -> Array:
        """(..., J): the upper probability of every class."""
        return self._border.out(self._P.amax(-2))

    # --- uncertainty -----------------------------------------------------------------------------------

    def entropy_bounds(self, base: Base = None) -> tuple[Array, Array]:
        """H(lower P) <= lower entropy, and upper entropy <= H(upper P): loose, but without optimisation.

        The second is infinite if a class is possible for one extreme and impossible for another. Paper:
        theorem "thm_rem_bounds_entropy".

        - `base`: the unit of entropy: None for nats, 2 for bits, "classes" for a maximum of 1
        """
        lower, upper = entropy_bounds(self._P)
        return self._border.out(lower / self._unit(base)), self._border.out(upper / self._unit(base))

    def generalized_hartley(self, base: Base = None) -> Array:
        """sum_A m(A) log|A|, m the Moebius inverse of the lower probability. Paper: remark "no_belief".

        - `base`: the unit of entropy: None for nats, 2 for bits, "classes" for a maximum of 1
        """
        return self._border.out(self._batched(hartley.generalized_hartley(self._flat())) / self._unit(base))

    def maximal_imprecision(self) -> Array:
        """sup over events A of upperP(A) - lowerP(A)."""
        return self._border.out(self._batched(hartley.maximal_imprecision(self._flat())))

    def average_uncertainty(self, weights: ArrayLike | None = None, base: Base = None) -> AveragedUncertainty:
        """Entropy, expected entropy and mutual information of one averaged distribution, for comparison.

        `weights` (m,) or (..., m) of the extremes; uniform by default.

        - `base`: the unit of entropy: None for nats, 2 for bits, "classes" for a maximum of 1
        """
        total, expected = averaged_entropies(self._P, self._weights(weights))
        out, unit = self._border.out, self._unit(base)
        # Mutual information is never negative; rounding must not make it so.
        information = (total - expected).clamp_min(0)
        return AveragedUncertainty(out(total / unit), out(expected / unit), out(information / unit))

    # --- one distribution instead of many --------------------------------------------------------------

    def center(self) -> Array:
        """(..., J): the centre of gravity of the extremes, their plain mean."""
        return self._border.out(self._P.mean(-2))

    def average(self, weights: ArrayLike) -> Array:
        """(..., J): sum_j w_j P_j, Bayesian model averaging; `weights` (m,) or (..., m) sum to 1."""
        return self._border.out(self._mixture(weights)[..., 0, :])

    def point(self, weights: ArrayLike | None = None) -> CategoricalCredalSet:
        """The set whose only extreme is sum_j w_j P_j; equal weights if none are given.

        - `weights`: (m,) or (..., m), summing to 1; None: equal ones
        """
        return self._like(self._mixture(weights))

    def _mixture(self, weights: ArrayLike | None) -> Tensor:
        """(..., 1, J)"""
        return self._weights(weights).unsqueeze(-2) @ self._P

    # --- regions and decisions -------------------------------------------------------------------------

    def region(self, alpha: float, method: str = "union", slack: float = 0.0) -> ClassRegion:
        """The classes that every distribution of the set covers with probability 1 - alpha or more.

        `method`: "union" of the credible sets of the extremes, "lower-density", or "minimal" (the fewest
        classes). `slack` accepts a level that much lower. Paper: definition "ihdr-def", "ihdr_class".

        - `alpha`: 1 - alpha is the probability to cover, between 0 and 1
        """
        region = regions.region(
            self._P,
            alpha,
            method,
            border=self._border,
            slack=slack,
            tolerance=self._tolerance(regions.ROUNDING),
        )
        return replace(region, labels=self.labels)

    def _log_survival(self, y: ArrayLike) -> Tensor:
        labels, several = regions.labels_of(numbers_of(y, self.labels), self.num_classes, self._batch)
        logs = regions.log_survival(self._P).gather(-1, labels.to(self._device))
        return logs if several else logs.squeeze(-1)

    def _region_at(self, log_survival: Tensor) -> ClassRegion:
        # The sums of probabilities that are compared are equal where they differ by rounding only.
        least = log_survival - self._tolerance(regions.ROUNDING)
        mask = regions.log_survival(self._P) >= least.unsqueeze(-1)
        return replace(regions.region_from_mask(self._P, mask, self._border), labels=self.labels)

    def _class_bounds(self) -> dict[str, list[Any]]:
        """Columns "lower:c" and "upper:c" of every class c."""
        return bounds_by_class(self.lower_probabilities(), self.upper_probabilities(), self.labels)

    def _safest(self, rule: str, single: bool, seed: int) -> Tensor:
        mask = self._actions(rule)
        return self._batched(decide.choose(mask, seed) if single else mask)

    def _actions(self, rule: str, utility: Utility | None = None) -> Tensor:
        """(B, A) bool: the actions that the rule keeps; by default the classes, with utility 1 if right."""
        U = None if utility is None else utilities(utility, self.num_classes, self._border, self._device)
        A = self.num_classes if U is None else U.shape[0]

        def part(P: Tensor) -> tuple[Tensor]:
            expected = P.mT if U is None else U @ P.mT
            return (decide.decide(expected, rule, tolerance=self._tolerance(decide.ROUNDING)),)

        (mask,) = in_chunks(part, self._flat(), per_set=32 * A * self.num_extremes)
        return mask

    # --- the hull --------------------------------------------------------------------------------------

    def _extreme_mask(self) -> Tensor:
        return self._batched(hull.extreme_mask(self._flat(), self._tolerance(hull.TOLERANCE)))

    def contains(self, p: Distribution) -> Array:
        """Whether `p` (J,) or (..., J), or a set with one extreme, is a mixture of the extremes.

        Paper: remark "rem_fin_1".
        """
        P, target, shape = self._against(p)
        inside = hull.contains(P, target, self._tolerance(hull.TOLERANCE))
        return self._border.out(inside.reshape(shape))

    def _distance(self, p: Distribution, kind: str, order: float | None, cost: Cost) -> Optimum:
        P, target, shape = self._against(p)
        where = class_cost(cost, self.num_classes, self._device)
        return distance(P, target, kind, order=order, cost=where).reshaped(shape)

    def _against(self, p: Distribution) -> tuple[Tensor, Tensor, torch.Size]:
        """Sets (n, m, J) and distributions (n, J) in pairs, and the shape of the answer."""
        target, shape = distributions(p, self.num_classes, self._batch, (CategoricalCredalSet,))
        P = self._P.expand(*shape, *self._P.shape[-2:]).reshape(-1, *self._P.shape[-2:])
        return P, target.to(self._device), shape
