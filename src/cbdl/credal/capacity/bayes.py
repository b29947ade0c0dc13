"""The generalised Bayes' rule on a finite space (paper: appendix "new_bayes", theorem "main1", lemma "lemma_ccv").

Only the proportions of likelihoods matter, and they may span hundreds of orders of magnitude. So every number here is
a sum of products of numbers that are not negative, which keeps its digits however small it is beside the others, or
the answer of a programme in exact arithmetic.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._border import Array, ArrayLike, check_finite, first, float64
from cbdl.credal.capacity.exact import Core, indicators
from cbdl.credal.capacity.measure import Capacity
from cbdl.credal.capacity.set_functions import Event, choquet, event_mask

LARGEST = 1000
"""The largest likelihood becomes about 2^LARGEST: as much room as there is for the small ones."""


def upper_posterior_bound(prior: Capacity, likelihoods: ArrayLike, event: Event) -> Array:
    """(...,): the bound of theorem "main1" on the upper posterior of `event`.

        sup_P int Lbar 1_A dP / c,   c = sup_P int Lbar 1_A dP + inf_P int Llow 1_{not A} dP,

    P in the core of the prior (batch (...)), Lbar and Llow the pointwise maximum and minimum of `likelihoods`
    (S, n). If the data are possible but int Lbar 1_A dP = 0 for all P the bound is 0.

    Equality with the upper posterior holds if the upper prior is concave AND the likelihoods contain
    Lbar 1_A + Llow 1_{not A}. The paper's proof calls the second immediate. It is, if the likelihood of every
    outcome may be chosen without regard to the others: that is the interval {L : Llow <= L <= Lbar}, see
    `upper_posterior(..., interval=True)`. It fails for a list of likelihood functions or their convex hull: (1, 1)
    and (2, 2) have the same posterior, 1/2 from a fair prior, and the bound is 2/3.

    - `prior`: the prior, a capacity on the outcomes
    """
    L = _likelihoods(prior, likelihoods)
    inside = event_mask(event, prior.n).to(L)
    above, below = _parts(prior, L.amin(0), L.amax(0), inside)
    return prior.border.out(_ratio(above, below))


def generalised_bayes(prior: Capacity, likelihoods: ArrayLike) -> Capacity:
    """The bound of `upper_posterior_bound` for all events at once: the updated upper probability.

    If the upper prior is concave so is the result (lemma "lemma_ccv"), and the rule can be applied again. The
    upper posterior of a list of likelihood functions, taken exactly, need not be concave.

    - `prior`: the prior, a capacity on the outcomes
    - `likelihoods`: (S, n): what is observed, by outcome
    """
    L = _likelihoods(prior, likelihoods)
    inside = torch.from_numpy(indicators(prior.n)).to(L)
    above, below = _parts(prior.expanded(), L.amin(0), L.amax(0), inside)
    upper, lower = _ratio(above, below), _ratio(below, above).flip(-1)
    for table in (upper, lower):
        table[..., 0], table[..., -1] = 0.0, 1.0
    return replace(prior, upper=True, tables=(lower, upper))


def upper_posterior(
    prior: Capacity, likelihoods: ArrayLike, event: Event, *, interval: bool = False
) -> Array:
    """(...,): the upper posterior of `event` itself,

        sup of int L 1_A dP / int L dP  over P in the core of the prior and L in the set of likelihoods,

    over pairs with a positive denominator. The set is the convex hull of `likelihoods` (S, n): the ratio is
    quasi-linear in L and in P, so the rows and the extreme points of the core are enough. With `interval=True`
    it is every function between the smallest and the largest row at each outcome, where Lbar 1_A + Llow
    1_{not A} is the best.

    For a concave upper prior one P attains both int L 1_A dP at its largest and int L 1_{not A} dP at its least:
    two Choquet integrals a row. Else it is a linear-fractional programme over the core a row, in exact arithmetic.
    Either way the answer is right to rounding, whatever the orders of magnitude that likelihoods span.

    - `prior`: the prior, a capacity on the outcomes
    """
    L = _likelihoods(prior, likelihoods)
    inside = event_mask(event, prior.n).to(L)
    rows = (L.amax(0) * inside + L.amin(0) * (1 - inside))[None] if interval else L
    low, up = prior.expanded().tables
    values = _ratio(choquet(up, rows * inside), choquet(low, rows * (1 - inside)))
    keep = inside.tolist()

    def largest(core: Core, likelihood: list[float]) -> float:
        return core.maximum_ratio([x * k for x, k in zip(likelihood, keep, strict=True)], likelihood) or 0.0

    return prior.border.out(prior.expanded().corrected(values, rows, largest).amax(-1))


def _parts(prior: Capacity, low: Tensor, up: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
    """sup_P int Lbar 1_A dP and inf_P int Llow 1_{not A} dP."""
    return prior.largest_mean(up * inside), prior.least_mean(low * (1 - inside))


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """above / (above + below); 0 where there is nothing above."""
    total = above + below
    return torch.where(above > 0, above / torch.where(total > 0, total, 1.0), 0.0)


def _likelihoods(prior: Capacity, likelihoods: ArrayLike) -> Tensor:
    """(S, n), checked, and all times the same power of 2."""
    device = prior.tables[0].device
    L = float64(likelihoods, "likelihoods").to(device)
    if L.ndim != 2 or L.shape[-1] != prior.n or not len(L):
        raise ValueError(f"likelihoods has shape {tuple(L.shape)}; it must be (S, {prior.n})")
    check_finite(L, "likelihoods")
    if (L < 0).any():
        at = first(L < 0)
        raise ValueError(
            f"likelihoods{list(at)} is {L[at]:g}; likelihoods are at least 0 (exponentiate logs)"
        )
    # numpy's ldexp, for torch's goes through a power of 2 that may not be a float64 number.
    numbers = L.cpu().numpy()
    L = torch.from_numpy(np.ldexp(numbers, LARGEST - np.frexp(numbers.max())[1])).to(device)
    if not (prior.largest_mean(L.amax(0)) > 0).all():
        raise ValueError(
            "likelihoods give the data probability 0 under every prior, so there is no posterior; "
            "check that they are positive where the prior is"
        )
    return L
