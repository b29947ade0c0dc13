"""Credal sets over classes given by two bounds per class: probability intervals, the box of an ensemble.

The paper's sets are the hull of given extremes (section 2.2). A box has more extremes than can be listed, but bounds
are enough: closed forms for everything but the lower entropy and the Wasserstein distances, which are certified.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self, overload

import torch
from torch import Tensor

from cbdl.credal import decide
from cbdl.credal._batch import in_chunks
from cbdl.credal._border import (
    Array,
    ArrayLike,
    border_of,
    check_finite,
    check_shape,
    first,
    float64,
    is_single_precision,
    place,
    probability_tolerance,
)
from cbdl.credal._optimum import Certified, Optimum
from cbdl.credal.base import Base, Cost, CredalSet, Distribution, Gamble, Utility
from cbdl.credal.classes import box, box_decide, box_regions, hartley, hull, regions
from cbdl.credal.classes.arguments import class_cost, distributions, utilities
from cbdl.credal.classes.box_distance import distance
from cbdl.credal.classes.box_entropy import lower_entropy
from cbdl.credal.classes.box_vertices import vertices
from cbdl.credal.classes.categorical import CategoricalCredalSet
from cbdl.credal.classes.events import class_event, class_gamble
from cbdl.credal.classes.regions import ClassRegion
from cbdl.credal.entropy import entropy, entropy_bounds
from cbdl.credal.table import bounds_by_class
from cbdl.ground.labels import numbers_of


class IntervalCredalSet(CredalSet):
    """All distributions over J classes between `lower` and `upper`, each (..., J), numpy or torch.

    The bounds are made coherent: each of them is attained. The set may not be empty: the lower bounds sum to at most
    1, the upper ones to at least 1, within 1e-6 (1e-4 in float32). Events, gambles, utilities are those of
    `CategoricalCredalSet`.

    A box has up to more than 2^J extremes. What speaks of each of them (`num_extremes`, `mean`, `entropies`,
    `extremes`, `average`, `hull`) lists them, for at most 12 classes; nothing else does. In certificates, `weights`
    is the distribution (..., J) at which the optimum is attained.

    >>> cs = IntervalCredalSet([0.5, 0.1, 0.0], [0.9, 0.4, 0.2])
    >>> cs
    IntervalCredalSet(batch_shape=(), num_classes=3)
    >>> cs.lower, cs.upper
    (array([0.5, 0.1, 0. ]), array([0.9, 0.4, 0.2]))
    >>> float(cs.lower_probability([0, 1]).round(6)), float(cs.upper_entropy().round(4))
    (0.8, 1.0297)
    >>> cs.region(0.2, "minimal").mask
    array([ True,  True, False])
    >>> cs.lower_probabilities(), cs.upper_probabilities()
    (array([0.5, 0.1, 0. ]), array([0.9, 0.4, 0.2]))
    >>> cs.hull().num_extremes, cs.intersection_probability().round(3)
    (5, array([0.678, 0.233, 0.089]))
    """

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        tolerance = max(probability_tolerance(lower), probability_tolerance(upper))
        low, high = _checked(float64(lower, "lower"), float64(upper, "upper"), tolerance)
        self._single = is_single_precision(lower) or is_single_precision(upper)
        self._classes = low.shape[-1]
        self._hold(border_of(lower, upper), torch.stack(box.coherent(low, high), -2))

    def _hold(self, border: Any, *parameters: Tensor) -> None:
        super()._hold(border, *parameters)
        self._listed: tuple[Tensor, Tensor] | None = None

    @classmethod
    def of(cls, credal: CategoricalCredalSet) -> IntervalCredalSet:
        """The smallest box around a hull: the lower and upper probability of every class. Its origin is not kept.

        - `credal`: a set over classes

        >>> IntervalCredalSet.of(CategoricalCredalSet([[0.7, 0.2, 0.1], [0.5, 0.4, 0.1]])).upper
        array([0.7, 0.4, 0.1])
        """
        if not isinstance(credal, CategoricalCredalSet):
            raise ValueError(f"credal is a {type(credal).__name__}; give a CategoricalCredalSet")
        return cls(credal.lower_probabilities(), credal.upper_probabilities()).with_labels(credal.labels)

    def hull(self) -> CategoricalCredalSet:
        """The same set by its extremes, for at most 12 classes; sets of a batch with fewer repeat their first."""
        return CategoricalCredalSet(self._border.out(self._vertices())).with_labels(self.labels)

    # --- parameters ------------------------------------------------------------------------------------

    @property
    def lower(self) -> Array:
        """(..., J): the lower probability of every class, coherent."""
        return self._border.out(self._l)

    @property
    def upper(self) -> Array:
        """(..., J): the upper probability of every class, coherent."""
        return self._border.out(self._u)

    def lower_probabilities(self) -> Array:
        """`lower`, by the name that a hull has for it."""
        return self.lower

    def upper_probabilities(self) -> Array:
        """`upper`, by the name that a hull has for it."""
        return self.upper

    @property
    def num_classes(self) -> int:
        """J, the number of classes."""
        return self._l.shape[-1]

    @property
    def num_extremes(self) -> int:
        """The number of extremes, of the set of the batch that has most; for at most 12 classes."""
        return self._vertices().shape[-2]

    def __repr__(self) -> str:
        return f"IntervalCredalSet(batch_shape={self.batch_shape}, num_classes={self.num_classes})"

    @property
    def _l(self) -> Tensor:
        return self._parameters[0][..., 0, :]

    @property
    def _u(self) -> Tensor:
        return self._parameters[0][..., 1, :]

    def _flat(self) -> tuple[Tensor, Tensor]:
        """(B, J) twice."""
        return self._l.reshape(-1, self.num_classes), self._u.reshape(-1, self.num_classes)

    def _tolerance(self, double: float) -> float:
        return 1e-6 if self._single else double

    def _list(self) -> tuple[Tensor, Tensor]:
        if self._listed is None:
            points, real = vertices(*self._flat())
            self._listed = self._batched(points), self._batched(real)
        return self._listed

    def _vertices(self) -> Tensor:
        """(..., m, J)"""
        return self._list()[0]

    # --- envelopes -------------------------------------------------------------------------------------

    def _probabilities(self, event: Any) -> Tensor:
        mask = class_event(self._numbered(event), self.num_classes, self._batch, self._device)
        return torch.stack(box.event_bounds(self._l, self._u, mask.expand_as(self._l)), -1)

    def _expectations(self, gamble: Gamble) -> Tensor:
        values = class_gamble(gamble, self.num_classes, self._batch, self._border).to(self._l)
        return box.expectations(self._l, self._u, values)

    def _means(self) -> Tensor:
        return self._vertices()

    # --- uncertainty -----------------------------------------------------------------------------------

    def entropies(self, base: Base = None) -> Array:
        """(..., m): the entropy of each extreme.

        - `base`: the unit of entropy: None for nats, 2 for bits, "classes" for a maximum of 1
        """
        return self._border.out(entropy(self._vertices()) / self._unit(base))

    def _entropies(self) -> tuple[Tensor, Tensor]:
        least, most = self._lower_entropy(), self._upper_entropy()
        ends = torch.stack([least.value, torch.maximum(least.value, most.value)], -1)
        return ends, torch.stack([least.gap, torch.zeros_like(least.gap)], -1)

    def _excess(self) -> float:
        return 0.0  # both ends of the entropy are known, and the paper's bracket is closed

    @overload
    def lower_entropy(self, base: Base = None, *, certificate: Literal[False] = False) -> Array: ...
    @overload
    def lower_entropy(self, base: Base = None, *, certificate: Literal[True]) -> Certified: ...
    def lower_entropy(self, base: Base = None, *, certificate: bool = False) -> Array | Certified:
        """The smallest entropy of the set, by a search over extremes that looks at few of them.

        With `certificate`, the value with its gap: the minimum lies in [value - gap, value]. The gap is 0 unless
        there are very many classes of similar bounds; it is `error` in `uncertainty()`.

        - `base`: the unit of entropy: None for nats, 2 for bits, "classes" for a maximum of 1
        """
        optimum = self._lower_entropy().scaled(1 / self._unit(base))
        return optimum.out(self._border) if certificate else self._border.out(optimum.value)

    def _lower_entropy(self) -> Optimum:
        value, gap, p = lower_entropy(*self._flat())
        return Optimum(value, gap, p, torch.zeros_like(value)).reshaped(self._batch)

    def _upper_entropy(self) -> Optimum:
        value, gap, q = in_chunks(box.upper_entropy, *self._flat(), per_set=300 * self.num_classes)
        return Optimum(value, gap, q, torch.zeros_like(value)).reshaped(self._batch)

    def entropy_bounds(self, base: Base = None) -> tuple[Array, Array]:
        """H(lower P) <= lower entropy, and upper entropy <= H(upper P). Paper: theorem "thm_rem_bounds_entropy".

        - `base`: the unit of entropy: None for nats, 2 for bits, "classes" for a maximum of 1
        """
        lower, upper = entropy_bounds(self._parameters[0])
        return self._border.out(lower / self._unit(base)), self._border.out(upper / self._unit(base))

    def generalized_hartley(self, base: Base = None) -> Array:
        """sum_A m(A) log|A|, m the Moebius inverse of the lower probability. Paper: remark "no_belief".

        - `base`: the unit of entropy: None for nats, 2 for bits, "classes" for a maximum of 1
        """
        value = self._batched(hartley.box_hartley(*self._flat()))
        return self._border.out(value / self._unit(base))

    # --- one distribution instead of many --------------------------------------------------------------

    def intersection_probability(self) -> Array:
        """(..., J): l + b (u - l) with the b that makes it sum to 1: every class trusts its interval equally."""
        return self._border.out(self._intersection())

    def _intersection(self) -> Tensor:
        room = self._u - self._l
        total = room.sum(-1, keepdim=True)
        share = torch.where(total > 0, box.free_mass(self._l) / torch.where(total > 0, total, 1.0), 0.0)
        return self._l + share * room

    def center(self) -> Array:
        """(..., J): the intersection probability (the mean of the extremes would need a list of them)."""
        return self.intersection_probability()

    def average(self, weights: ArrayLike) -> Array:
        """(..., J): sum_j w_j P_j over the extremes of `hull()`; `weights` (m,) or (..., m) sum to 1."""
        return self._border.out(self._mixture(weights))

    def point(self, weights: ArrayLike | None = None) -> IntervalCredalSet:
        """The set that holds only sum_j w_j P_j over the extremes; without weights, the intersection probability.

        - `weights`: (m,) or (..., m), summing to 1; None: equal ones
        """
        p = self._intersection() if weights is None else self._mixture(weights)
        return self._like(torch.stack([p, p], -2))

    def _mixture(self, weights: ArrayLike) -> Tensor:
        return (self._weights(weights).unsqueeze(-2) @ self._vertices()).squeeze(-2)

    # --- regions and decisions -------------------------------------------------------------------------

    def region(self, alpha: float, method: str = "union", slack: float = 0.0) -> ClassRegion:
        """The classes that every distribution of the set covers with probability 1 - alpha or more.

        `method`: "union" of the credible sets of all distributions of the set, "lower-density", or "minimal" (the
        fewest classes, proven). `slack` accepts a level that much lower. Paper: definition "ihdr-def", "ihdr_class".

        - `alpha`: 1 - alpha is the probability to cover, between 0 and 1
        """
        target = regions.target_of(alpha, slack, self._tolerance(regions.ROUNDING))
        regions.check_method(method, box_regions.BOX_REGIONS)
        (mask,) = in_chunks(
            lambda low, high: (box_regions.BOX_REGIONS[method](low, high, target),),
            *self._flat(),
            per_set=300 * self.num_classes,
        )
        return self._region(self._batched(mask), proven=method == "minimal")

    def _region(self, mask: Tensor, proven: bool = False) -> ClassRegion:
        lower, upper = box.event_bounds(self._l, self._u, mask)
        gap = torch.zeros_like(mask[..., 0], dtype=torch.int64) if proven else None
        return replace(regions.region_of(mask, lower, upper, self._border, gap), labels=self.labels)

    def _class_bounds(self) -> dict[str, list[Any]]:
        """Columns "lower:c" and "upper:c" of every class c."""
        return bounds_by_class(self.lower, self.upper, self.labels)

    def _shown_extremes(self) -> tuple[list[str], list[list[Any]]]:
        """The bounds, which stand for the extremes that nobody lists."""
        names = [str(name) for name in self.labels or range(self.num_classes)]
        rows = (
            [name, float(low), float(high)]
            for name, low, high in zip(names, self.lower, self.upper, strict=True)
        )
        return ["class", "lower", "upper"], list(rows)

    def _survival(self) -> Tensor:
        """(..., J)"""
        (logs,) = in_chunks(
            lambda low, high: (box_regions.log_survival(low, high),),
            *self._flat(),
            per_set=300 * self.num_classes,
        )
        return self._batched(logs)

    def _log_survival(self, y: ArrayLike) -> Tensor:
        labels, several = regions.labels_of(numbers_of(y, self.labels), self.num_classes, self._batch)
        logs = self._survival().gather(-1, labels.to(self._device))
        return logs if several else logs.squeeze(-1)

    def _region_at(self, log_survival: Tensor) -> ClassRegion:
        least = log_survival - self._tolerance(regions.ROUNDING)
        return self._region(self._survival() >= least.unsqueeze(-1))

    def _safest(self, rule: str, single: bool, seed: int) -> Tensor:
        mask = self._actions(rule)
        return self._batched(decide.choose(mask, seed) if single else mask)

    def _actions(self, rule: str, utility: Utility | None = None) -> Tensor:
        U = None if utility is None else utilities(utility, self.num_classes, self._border, self._device)
        return box_decide.decide(*self._flat(), U, rule, self._tolerance(decide.ROUNDING))

    # --- the set itself --------------------------------------------------------------------------------

    def _extreme_mask(self) -> Tensor:
        return self._list()[1]

    def reduce(self) -> Self:
        """The same set: it is given by its bounds, not by extremes."""
        return self

    def contains(self, p: Distribution) -> Array:
        """Whether `p` (J,) or (..., J), or a set with one extreme, lies between the bounds."""
        low, high, target, shape = self._against(p)
        near = box.levelled(low, high, target)
        inside = (near - target).abs().sum(-1) <= self._tolerance(hull.TOLERANCE)
        return self._border.out(inside.reshape(shape))

    def _distance(self, p: Distribution, kind: str, order: float | None, cost: Cost) -> Optimum:
        """Its weights are the nearest distribution of the set."""
        low, high, target, shape = self._against(p)
        where = class_cost(cost, self.num_classes, self._device)
        return distance(low, high, target, kind, order=order, cost=where).reshaped(shape)

    def _against(self, p: Distribution) -> tuple[Tensor, Tensor, Tensor, torch.Size]:
        """Bounds (n, J) twice and distributions (n, J), and the shape of the answer."""
        J = self.num_classes
        target, shape = distributions(p, J, self._batch, (CategoricalCredalSet, IntervalCredalSet))
        low, high = (x.expand(*shape, J).reshape(-1, J) for x in (self._l, self._u))
        return low, high, target.to(self._device), shape


def _checked(lower: Tensor, upper: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """Bounds of one shape that hold a distribution, sums within `tolerance` of 1 repaired."""
    for x, name in ((lower, "lower"), (upper, "upper")):
        check_shape(x, name, "J")
        check_finite(x, name)
    if lower.shape != upper.shape:
        raise ValueError(
            f"lower has shape {tuple(lower.shape)} and upper {tuple(upper.shape)}; both must be (..., J)"
        )
    outside = (lower < 0) | (upper > 1 + tolerance)
    if outside.any():
        at = first(outside)
        name, x = ("lower", lower) if lower[at] < 0 else ("upper", upper)
        raise ValueError(f"{place(name, at)} is {x[at].item():g}; bounds of probabilities lie in [0, 1]")
    crossed = lower > upper
    if crossed.any():
        at = first(crossed)
        raise ValueError(
            f"{place('lower', at)} is {lower[at].item():g}, above {place('upper', at)} = {upper[at].item():g}; "
            "were they swapped?"
        )
    low, high = lower.sum(-1, keepdim=True), upper.sum(-1, keepdim=True)
    for bad, name, total, side in (
        (low > 1 + tolerance, "lower", low, "above"),
        (high < 1 - tolerance, "upper", high, "below"),
    ):
        if bad.any():
            at = first(bad.squeeze(-1))
            raise ValueError(
                f"{place(name, at)} sums to {total[(*at, 0)].item():.9g}, {side} 1: no distribution lies between "
                "the bounds; widen them"
            )
    return lower / low.clamp_min(1), (upper / high.clamp(max=1)).clamp_max(1)
