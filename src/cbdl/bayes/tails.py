"""How far off members may be of real outcomes: a share of their predictive mixture is one wide Normal.

A member knows the noise of the rows that it has learned. Now and then a new row is like none of them; Normal noise then
finds its outcome all but impossible, and says so with thousands of nats. Rows that a member has not seen tell how often
that happens and how far off it then is: the share and the width of a Normal around its mean, as in the classical model
of contaminated observations (Tukey 1960).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

SHARES = torch.linspace(math.log(5e-4), math.log(0.3), 33, dtype=torch.float64).exp()
WIDTHS = torch.linspace(math.log(2.0), math.log(16.0), 10, dtype=torch.float64).exp()
"""What is tried: shares of the mixture, and widths in its standard deviations."""
ROWS = 200.0
"""Before any row is seen a member is thought to be far off as if in one of so many, which few rows cannot refute."""
USUAL, APART = 5.0, 0.5
"""The width that is expected, and the standard deviation of its logarithm."""


@dataclass(frozen=True)
class Tail:
    """`share` of a member's predictive distribution is a Normal of `width` standard deviations around its mean."""

    share: float
    width: float


def log_density(y: Tensor, loc: Tensor, scale: Tensor, weights: Tensor) -> Tensor:
    """(rows, m): of outcomes (rows,) under mixtures (rows, m, components)."""
    terms = _normal(y[:, None, None], loc, scale) + weights.log()
    return terms.logsumexp(-1)


def moments(loc: Tensor, scale: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (rows, m, *event) of mixtures (rows, m, components, *event) with weights (rows, m,
    components)."""
    weights = weights.reshape(*weights.shape, *(1,) * (loc.ndim - 3))
    mean = (weights * loc).sum(2, keepdim=True)
    variance = (weights * (scale.square() + (loc - mean).square())).sum(2)
    return mean.squeeze(2), variance.sqrt()


def fit(y: Tensor, counts: Tensor, loc: Tensor, scale: Tensor, weights: Tensor) -> tuple[Tail, ...]:
    """Of every member the tail that is likeliest, given outcomes (n,) that its mixtures (n, m, components) have not
    seen, each of which counts so often (n,)."""
    near = log_density(y, loc, scale, weights)
    mean, deviation = moments(loc, scale, weights)
    best: list[Tensor] = []
    for width in WIDTHS:
        far = _normal(y[:, None], mean, width * deviation)
        both = torch.logaddexp(
            torch.log1p(-SHARES).view(-1, 1, 1) + near, SHARES.log().view(-1, 1, 1) + far
        )  # (shares, n, m)
        belief = SHARES.log() + (ROWS - 1) * torch.log1p(-SHARES) - ((width / USUAL).log() / APART) ** 2 / 2
        best.append(torch.einsum("n,snm->sm", counts, both) + belief[:, None])
    place = torch.stack(best).flatten(0, 1).argmax(0)
    return tuple(Tail(float(SHARES[p % len(SHARES)]), float(WIDTHS[p // len(SHARES)])) for p in place)


def contaminated(
    loc: Tensor, scale: Tensor, weights: Tensor, shares: Tensor, widths: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The mixtures (rows, m, components + 1) of members with tails of these shares and widths (m,)."""
    mean, deviation = moments(loc, scale, weights)
    share = shares.expand_as(mean).unsqueeze(-1)
    return (
        torch.cat([loc, mean.unsqueeze(-1)], -1),
        torch.cat([scale, (widths * deviation).unsqueeze(-1)], -1),
        torch.cat([weights * (1 - share), share], -1),
    )


def normal_entropy(deviation: Tensor) -> Tensor:
    """Of Normals, in nats."""
    return deviation.log() + 0.5 * math.log(2 * math.pi * math.e)


def _normal(y: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    return -0.5 * ((y - loc) / scale).square() - scale.log() - 0.5 * math.log(2 * math.pi)
