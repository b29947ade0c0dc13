"""What a credal set is: the whole contract, and what all kinds share (paper, sections 2.2 and 2.3).

A credal set here is the convex hull of m distributions P_1, ..., P_m (its extremes; remark "rem_fin_1").
Each kind of space supplies a few primitives on the extremes; everything that follows from them for the
whole hull is derived here, once.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, overload

import numpy as np
import torch
from torch import Tensor

from cbdl.credal import decide as rules
from cbdl.credal import table
from cbdl.credal._border import Array, ArrayLike, float64, log_of_base, log_survival_of
from cbdl.credal._optimum import Certified, Optimum
from cbdl.credal.answers import Decomposition, Region, Uncertainty
from cbdl.credal.batched import Batched
from cbdl.credal.origin import Origin
from cbdl.ground.shown import frame

if TYPE_CHECKING:
    from cbdl.credal.euclidean.mixture import DiagonalMixture

__all__ = [
    "Average",
    "Base",
    "Cost",
    "CredalSet",
    "Decomposition",
    "Distribution",
    "Gamble",
    "Origin",
    "Region",
    "Uncertainty",
    "Utility",
]

Gamble = ArrayLike | Callable[[Any], Any]
"""A function on the outcomes: its values, or a callable."""

Utility: TypeAlias = ArrayLike | Sequence[Gamble]
"""The utility of A actions: one gamble each; on finitely many classes also a matrix (A, J)."""

Base = float | Literal["classes"] | None
"""The unit of entropy: None for nats, a number (2 for bits), or "classes" (the maximum is 1)."""

Distribution: TypeAlias = "ArrayLike | tuple[ArrayLike, ...] | CredalSet"
"""One distribution per set: its parameters in the form of the kind of set, or a credal set with one extreme."""

Cost: TypeAlias = ArrayLike | Literal["index"] | None
"""What moving probability from class i to class j costs: (J, J), or "index" for |i - j|."""

Average: TypeAlias = "Array | CredalSet | DiagonalMixture"
"""A mixture of the extremes in the form of the kind of set; `CredalSet.point` is the same form for all."""


class CredalSet(Batched):
    """The convex hull of finitely many distributions. Batch dimensions come first.

    All kinds of set answer the same questions:

    >>> import cbdl
    >>> cs = cbdl.CategoricalCredalSet([[0.8, 0.15, 0.05], [0.15, 0.8, 0.05]])
    >>> isinstance(cs, CredalSet), cs.num_extremes
    (True, 2)
    >>> cs.lower_probability([0, 2]).round(6), cs.upper_probability([0, 2]).round(6)
    (np.float64(0.2), np.float64(0.85))
    >>> cs.lower_expectation([5, 0, 0]).round(6), cs.upper_expectation([5, 0, 0]).round(6)  # 5 if the first
    (np.float64(0.75), np.float64(4.0))
    >>> cs.entropies().round(3), cs.lower_entropy().round(3), cs.upper_entropy().round(3)  # highest within
    (array([0.613, 0.613]), np.float64(0.613), np.float64(0.857))
    >>> cs.uncertainty().epistemic.round(3), cs.generalized_hartley().round(3)
    (np.float64(0.244), np.float64(0.451))
    >>> bool(cs.entropy_bounds()[1] >= cs.upper_entropy()), bool(cs.abstain(phi=0.7))
    (True, False)
    >>> cs.region(0.2).mask, cs.level(2).round(6), cs.log_survival(2).round(3)
    (array([ True,  True, False]), np.float64(0.95), np.float64(-2.996))
    >>> cs.region_at_level(0.85).mask, cs.decide("maximin")
    (array([ True,  True, False]), array([ True,  True, False]))
    >>> cs.mean().shape, cs.center(), cs.average([1, 0]), cs.point().num_extremes
    ((2, 3), array([0.475, 0.475, 0.05 ]), array([0.8 , 0.15, 0.05]), 1)
    >>> cs.extremes(), cs.reduce().num_extremes
    (array([ True,  True]), 2)
    >>> bool(cs.contains([0.5, 0.45, 0.05])), cs.distance([0.4, 0.4, 0.2], "tv").round(3)
    (True, np.float64(0.15))
    >>> cs.with_labels(["cat", "dog", "elk"]).to_frame(alpha=0.2, library="pandas")["set"].tolist()
    [['cat', 'dog']]
    """

    # --- what each kind of space supplies, as float64 tensors ------------------------------------------

    @abstractmethod
    def _probabilities(self, event: Any) -> Tensor:
        """(..., m): the probability of `event` under each extreme."""

    @abstractmethod
    def _expectations(self, gamble: Gamble) -> Tensor:
        """(..., m): the expectation of `gamble` under each extreme."""

    @abstractmethod
    def _means(self) -> Tensor:
        """(..., m) or (..., m, d): the mean of each extreme."""

    @abstractmethod
    def _entropies(self) -> tuple[Tensor, Tensor]:
        """(..., m) twice: the entropy of each extreme in nats, and the numerical error of it.

        Here and in `_probabilities` and `_expectations`, a kind that does not list its extremes may give the least
        and the largest alone."""

    @abstractmethod
    def _upper_entropy(self) -> Optimum:
        """sup over the hull of the entropy, in nats, with its certificate."""

    def _excess(self) -> float:
        """The most by which a mixture can have more entropy than the largest of `_entropies`, in nats."""
        return math.log(self._extremes)

    @abstractmethod
    def _log_survival(self, y: ArrayLike) -> Tensor:
        """max_j log P_j(outcomes that are at most as likely as y under P_j), at outcomes y as in `level`."""

    @abstractmethod
    def _region_at(self, log_survival: Tensor) -> Region:
        """All outcomes whose `_log_survival` is at least that of their set (...,), and none lost to rounding."""

    @abstractmethod
    def _safest(self, rule: str, single: bool, seed: int) -> Tensor:
        """What `decide` answers without utilities."""

    @abstractmethod
    def _extreme_mask(self) -> Tensor:
        """(..., m) bool: which elements are not mixtures of the others; of equal ones, the first is."""

    @abstractmethod
    def _distance(self, p: Distribution, kind: str, order: float | None, cost: Cost) -> Optimum:
        """What `distance` asks for, in the shape of its answer, with its certificate."""

    # --- envelopes (proposition "extrema_gen_lem": computed on the extremes, true for the hull) -----------

    def lower_probability(self, event: Any) -> Array:
        """inf over the hull of P(event). Paper: proposition "extrema_gen_lem".

        - `event`: a set of outcomes, in the form of the kind of set: class numbers or names, a mask, an
          interval, a box
        """
        return self._border.out(self._probabilities(event).amin(-1))

    def upper_probability(self, event: Any) -> Array:
        """sup over the hull of P(event) = 1 - lower_probability(complement).

        - `event`: a set of outcomes, in the form of the kind of set: class numbers or names, a mask, an
          interval, a box
        """
        return self._border.out(self._probabilities(event).amax(-1))

    def lower_expectation(self, f: Gamble) -> Array:
        """inf over the hull of E[f].

        - `f`: a function of the outcome, or its values
        """
        return self._border.out(self._expectations(f).amin(-1))

    def upper_expectation(self, f: Gamble) -> Array:
        """sup over the hull of E[f].

        - `f`: a function of the outcome, or its values
        """
        return self._border.out(self._expectations(f).amax(-1))

    def mean(self) -> Array:
        """The mean of each extreme: (..., m) on the line, (..., m, d) in R^d.

        Class numbers have no mean; for classes it is that of the one-hot label, the probabilities (..., m, J).
        """
        return self._border.out(self._means())

    # --- entropy ---------------------------------------------------------------------------------------

    def entropies(self, base: Base = None) -> Array:
        """(..., m): the Shannon entropy of each extreme. On a continuum it is the differential entropy, which
        depends on the unit of the outcome and may be negative.

        - `base`: the unit of entropy: None for nats, 2 for bits, "classes" for a maximum of 1
        """
        return self._border.out(self._entropies()[0] / self._unit(base))

    def lower_entropy(self, base: Base = None) -> Array:
        """inf over the hull of H(P), attained at an extreme: H is concave (proposition "gen_entr_lem").

        - `base`: the unit of entropy: None for nats, 2 for bits, "classes" for a maximum of 1
        """
        return self._border.out(self._entropies()[0].amin(-1) / self._unit(base))

    @overload
    def upper_entropy(self, base: Base = None, *, certificate: Literal[False] = False) -> Array: ...
    @overload
    def upper_entropy(self, base: Base = None, *, certificate: Literal[True]) -> Certified: ...
    def upper_entropy(self, base: Base = None, *, certificate: bool = False) -> Array | Certified:
        """max over weights beta of H(sum_j beta_j P_j): the whole hull, which the paper only brackets.

        With `certificate=True`, the value with its duality gap and the maximising weights.

        - `base`: the unit of entropy: None for nats, 2 for bits, "classes" for a maximum of 1
        """
        optimum = self._upper_entropy().scaled(1 / self._unit(base))
        return optimum.out(self._border) if certificate else self._border.out(optimum.value)

    @abstractmethod
    def entropy_bounds(self, base: Base = None) -> tuple[Array, Array]:
        """H(lower P) <= lower entropy, and upper entropy <= H(upper P). Paper: theorem "thm_rem_bounds_entropy".

        - `base`: the unit of entropy: None for nats, 2 for bits, "classes" for a maximum of 1
        """

    def uncertainty(self, base: Base = None) -> Uncertainty:
        """Total uncertainty split into aleatoric and epistemic, exact, with the paper's bracket beside it.

        Differential entropies depend on the unit of the outcome and may be negative; the epistemic part is a
        difference of two of them and does not.

        - `base`: the unit of entropy: None for nats, 2 for bits, "classes" for a maximum of 1
        """
        unit = self._unit(base)
        upper = self._upper_entropy()  # first: where the extremes' entropies come with it
        entropies, errors = self._entropies()
        lower = entropies.amin(-1)
        # The hull holds its extremes: rounding must not put the maximum below the best of them.
        total = torch.maximum(upper.value, entropies.amax(-1))
        bracket = entropies.amax(-1) - lower
        error = torch.maximum(upper.error, errors.amax(-1))
        out = self._border.out
        return Uncertainty(
            total=out(total / unit),
            aleatoric=out(lower / unit),
            epistemic=out((total - lower) / unit),
            epistemic_lower=out(bracket / unit),
            epistemic_upper=out((bracket + self._excess()) / unit),
            gap=out(upper.gap / unit),
            error=out(error / unit),
        )

    @property
    def floor(self) -> Array | None:
        """(...,): the epistemic uncertainty (nats) that Monte Carlo noise alone would show; nan where it is unknown.

        None if no model made the set. Computed once; `reduce` does not change it.
        """
        return None if self._source is None else self._border.out(self._source.floor_of(self))

    @property
    def noise(self) -> Array | None:
        """Another name of `floor`."""
        return self.floor

    def decomposition(self, base: Base = None) -> Decomposition:
        """Noise in the data, doubt about parameters, disagreement between members; of predictions of a model.

        - `base`: the unit of entropy: None for nats, 2 for bits, "classes" for a maximum of 1
        """
        if self._source is None:
            raise ValueError(
                "only predictions of a model know what is noise and what is doubt about its parameters; a bag of "
                "distributions has uncertainty()"
            )
        unit, out = self._unit(base), self._border.out
        entropies, _ = self._entropies()
        noise = self._source.noise.to(entropies)
        # given the parameters there is never more entropy than without; draws may say otherwise by rounding
        doubt = (entropies - noise).clamp_min(0.0)
        return Decomposition(
            noise=out(noise / unit),
            doubt=out(doubt / unit),
            noise_lower=out(noise.amin(-1) / unit),
            noise_upper=out(noise.amax(-1) / unit),
            doubt_lower=out(doubt.amin(-1) / unit),
            doubt_upper=out(doubt.amax(-1) / unit),
            disagreement=self.uncertainty(base).epistemic,
        )

    def generalized_hartley(self, base: Base = None) -> Array:
        """sum_A m(A) log|A|, m the Moebius inverse of the lower probability; on finite spaces only.

        - `base`: the unit of entropy: None for nats, 2 for bits, "classes" for a maximum of 1
        """
        raise ValueError(
            "the generalized Hartley measure needs finitely many outcomes; use the epistemic part of uncertainty()"
        )

    def abstain(self, phi: ArrayLike) -> Array:
        """Whether the aleatoric uncertainty (lower entropy, nats) exceeds `phi`, so that no region should be
        given. Reference values: `cbdl.credal.reference_entropy`. Paper: appendix "alea_check"."""
        return self._border.out(self._entropies()[0].amin(-1) > float64(phi, "phi"))

    # --- regions ---------------------------------------------------------------------------------------

    @abstractmethod
    def region(self, alpha: float, method: str = "union") -> Region:
        """Outcomes that every distribution of the set covers with probability 1 - alpha or more.

        `method`: "union" of the extremes' highest density regions, "lower-density" or "minimal".

        - `alpha`: 1 - alpha is the probability to cover, between 0 and 1
        """

    def level(self, y: ArrayLike) -> Array:
        """(...,): the level at which the union region first holds the outcome y (...,); in R^d y is (..., d).

        level(y) = min_j P_j(outcomes that are more likely than y under P_j), from 0 at a mode of an extreme to 1:
        y lies in the union region of 1 - alpha exactly if level(y) < 1 - alpha. Of classes that are equally likely the
        first counts as the more likely one. On the line and for classes also several outcomes per set, (..., n).
        """
        return self._border.out(-torch.expm1(self._log_survival(y)))

    def log_survival(self, y: ArrayLike) -> Array:
        """(...,): log(1 - level(y)), to all its digits where the level rounds to 1: -804 at 40 standard deviations.

        - `y`: outcomes, as in `level`
        """
        return self._border.out(self._log_survival(y))

    def region_at_level(
        self, level: ArrayLike | None = None, *, log_survival: ArrayLike | None = None
    ) -> Region:
        """The union region of a level: all outcomes y with `level(y)` at most that, none of them lost to rounding.

        `level` is a number or one per set (...,); from 1 on, the region is the whole space. Near 1 give log(1 - level)
        as `log_survival` instead.
        """
        return self._region_at(log_survival_of(level, log_survival, self._batch).to(self._device))

    # --- decisions -------------------------------------------------------------------------------------

    def decide(
        self, rule: str = "maximin", utility: Utility | None = None, single: bool = False, seed: int = 0
    ) -> Array:
        """The safest outcome, argmax_y min_j p_j(y) (the paper's modified Step 6), or the actions that a rule keeps.

        - Without `utility`, on the line: (..., R) all maximisers, padded with nan; in R^d: (..., d). Only for the rule
          "maximin". Classes: the actions are the classes and the utility is 1 if right, (..., J) bool.
        - With `utility`, one function of the outcome per action (for classes also a matrix (A, J)): (..., A) bool, all
          optimal actions under "gamma-maximin", "gamma-maximax", "maximality", "e-admissible", "interval-dominance".

        With `single`, (...,) one of them at random (`seed`).

        - `rule`: "maximin", or with utilities one of those above
        """
        if utility is None:
            return self._border.out(self._safest(rule, single, seed))
        mask = self._actions(rule, utility)
        return self._border.out(self._batched(rules.choose(mask, seed) if single else mask))

    def _actions(self, rule: str, utility: Utility) -> Tensor:
        """(B, A) bool: the actions that the rule keeps."""
        if not isinstance(utility, Sequence | np.ndarray | Tensor):
            raise ValueError(f"utility is {type(utility).__name__}; give a list of functions, one per action")
        if len(utility) == 0:
            raise ValueError("utility is empty; give one function of the outcome per action")
        expected = torch.stack([self._expectations(f) for f in utility], -2)
        return rules.decide(expected.reshape(-1, *expected.shape[-2:]), rule)

    # --- the hull --------------------------------------------------------------------------------------

    def extremes(self) -> Array:
        """(..., m) bool: which elements are not mixtures of the others; of equal ones, the first is."""
        return self._border.out(self._extreme_mask())

    def reduce(self) -> Self:
        """The same hull from extreme elements only, of the same origin.

        In a batch the sets may need different numbers of them: m becomes the largest, and sets with fewer
        repeat their first one.
        """
        mask = self._extreme_mask()
        keep = (~mask).to(torch.uint8).argsort(dim=-1, stable=True)[..., : int(mask.sum(-1).max())]
        keep = torch.where(mask.gather(-1, keep), keep, keep[..., :1])
        wide = (keep.unsqueeze(-1).expand(*keep.shape, t.shape[-1]) for t in self._parameters)
        new = self._like(*(t.gather(-2, at) for t, at in zip(self._parameters, wide, strict=True)))
        new._source = None if self._source is None else self._source.only(keep, self)
        return new

    @abstractmethod
    def contains(self, p: Distribution) -> Array:
        """(...,) bool: whether p is a mixture of the extremes.

        - `p`: the parameters of a distribution, or a set with one extreme
        """

    @overload
    def distance(
        self,
        p: Distribution,
        kind: str = "kl",
        *,
        order: float | None = None,
        cost: Cost = None,
        certificate: Literal[False] = False,
    ) -> Array: ...
    @overload
    def distance(
        self,
        p: Distribution,
        kind: str = "kl",
        *,
        order: float | None = None,
        cost: Cost = None,
        certificate: Literal[True],
    ) -> Certified: ...
    def distance(
        self,
        p: Distribution,
        kind: str = "kl",
        *,
        order: float | None = None,
        cost: Cost = None,
        certificate: bool = False,
    ) -> Array | Certified:
        """inf over the hull of the distance to p (see `contains`). Paper: proposition "dist_lemma".

        Kinds: see `distance` of `cbdl.credal.classes`, `.line` and `.euclidean`. `order` is for "renyi", `cost` for the
        Wasserstein distances between classes: (J, J), or "index" for ``|i - j|``. With `certificate`, the value with
        its gap and the weights of the nearest mixture; of bounds per class the nearest distribution itself.

        - `p`: the parameters of a distribution, or a set with one extreme
        - `kind`: which distance: "kl", "tv", "hellinger", "renyi", "w1", "w2", ...
        """
        optimum = self._distance(p, kind, order, cost)
        return optimum.out(self._border) if certificate else self._border.out(optimum.value)

    # --- for people --------------------------------------------------------------------------------------

    def to_frame(self, alpha: float = 0.05, method: str = "union", *, library: str | None = None) -> Any:
        """A DataFrame with a row per set: decision, region of 1 - alpha, probabilities, uncertainties (nats), floor.

        `library`: "pandas" or "polars"; None: the one that is in use, or installed. Columns: `cbdl.credal.table`.

        - `alpha`: the regions cover 1 - alpha
        - `method`: which region: "union", "lower-density" or "minimal"
        """
        return frame(table.answers(self, alpha, method), library)

    def _class_bounds(self) -> dict[str, list[Any]]:
        """Columns "lower:c" and "upper:c" of every class c; none where outcomes are no classes."""
        return {}

    def _shown_extremes(self) -> tuple[list[str], list[list[Any]]]:
        """A header and a row per extreme of a single set, for people."""
        return table.extremes(self)

    def _repr_html_(self) -> str:
        return table.html(self)

    # --- one distribution instead of many --------------------------------------------------------------

    @abstractmethod
    def point(self, weights: ArrayLike | None = None) -> CredalSet:
        """The credal set whose only extreme is sum_j w_j P_j; equal weights if none are given.

        `weights` (m,) or (..., m) sum to 1. The same as `average` and `center`, as a set for all kinds of set; in R^d,
        where mixtures make no set, the Normal of the same means and variances.
        """

    @abstractmethod
    def average(self, weights: ArrayLike) -> Average:
        """sum_j w_j P_j, Bayesian model averaging; `weights` (m,) or (..., m) sum to 1."""

    @abstractmethod
    def center(self) -> Average:
        """The centre of gravity of the extremes."""

    def _unit(self, base: Base) -> float:
        return log_of_base(base, self._classes)


def no_cost(cost: Cost) -> None:
    """A ValueError if a cost is given where outcomes are no classes."""
    if cost is not None:
        raise ValueError("cost is for Wasserstein distances between classes; leave it out here")
