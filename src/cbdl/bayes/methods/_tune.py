"""The prior precision that the evidence asks for, as one number per member that multiplies the precision it was given.

With z the mode in units of the prior and lambda the likelihood's curvatures in those units, the evidence of the
factor c is

    sum_i (log c - log(c + lambda_i)) / 2 - c |z|^2 / 2 + constant,

and its derivative by log c, (sum_i lambda_i / (c + lambda_i) - c |z|^2) / 2, falls in c: there is one root.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.joint_prior import JointPrior

from ._curvature import Part

WIDEST = 16.0
"""Factors are sought between exp(-16) and exp(16)."""


def curvatures(cohort: Cohort, part: Part, spread: dict[str, Tensor]) -> Tensor:
    """lambda (members, p) of a spread: posterior variances in units of the prior's are 1 / (1 + lambda)."""
    scale = cohort.prior.spread()[:, part.index].double()
    if "root" in spread:
        variance: Tensor = torch.linalg.svdvals(spread["root"].double() / scale.unsqueeze(2)).square()
    elif "sigma" in spread:
        variance = (spread["sigma"].double() / scale).square()
    else:
        layers = [s.double().flatten(1) for name, s in spread.items() if name.endswith("|scale")]
        rest = [s.double() / _rest(part, spread, scale) for name, s in spread.items() if name == "|rest"]
        variance = torch.cat(layers + rest, 1).square()
    return 1 / variance.clamp(1e-30, 1.0) - 1


def _rest(part: Part, spread: dict[str, Tensor], scale: Tensor) -> Tensor:
    """Prior scales of the parameters that no Kronecker product serves, in their order."""
    served = {name.removesuffix("|scale") for name in spread if name.endswith("|scale")}
    own = [e for e in part.layout.entries if e.name.rpartition(".")[0] not in served]
    return torch.cat([scale[:, e.start : e.stop] for e in own], 1)


def best_factor(cohort: Cohort, mode: Tensor, part: Part, spread: dict[str, Tensor]) -> Tensor:
    """argmax over c of the evidence (members,), by bisection of its derivative."""
    lam = curvatures(cohort, part, spread)
    loc, scale = (x[:, part.index].double() for x in (cohort.prior.location(), cohort.prior.spread()))
    square = ((mode[:, part.index].double() - loc) / scale).square().sum(1)
    low, high = torch.full_like(square, -WIDEST), torch.full_like(square, WIDEST)
    for _ in range(60):
        middle = 0.5 * (low + high)
        c = middle.exp()
        rising = (lam / (c.unsqueeze(1) + lam)).sum(1) > c * square
        low, high = torch.where(rising, middle, low), torch.where(rising, high, middle)
    return (0.5 * (low + high)).exp()


def stiffened(prior: JointPrior, factor: Tensor) -> JointPrior:
    """Normal priors with the precisions of each member multiplied by its factor (members,)."""
    (term,) = prior.terms
    loc, scale = term.values
    own = factor.to(scale).rsqrt().unsqueeze(1)
    return replace(prior, terms=(replace(term, values=(loc, scale * own)),))
