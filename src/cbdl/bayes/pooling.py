"""Partial pooling of chains: where chains are extremes, what differs between them by Monte Carlo noise alone is no
ignorance.

Class probabilities of a chain are averages over finitely many draws, so that those of C chains differ even where all
chains say the same. For every row the variance between the chains of a member is compared with what the noise of their
averages explains,

    B = sum_c |p_c - mean|^2 / (C - 1),    W = mean_c (variance of the draws of chain c) / (number of draws),

and the differences between chains are multiplied by the root of 1 - W / B, the share of the variance that is not noise
(the classical estimate in the analysis of variance), or by 0 where B is below W. The root, because it is how far chains
are apart that counts: without it they would be nearer to each other than what they estimate (constrained empirical
Bayes, Louis 1984, Ghosh 1992). Their mean stays what it was. Where chains disagree, B is many times W, and next to
nothing changes.
"""

from __future__ import annotations

import torch
from torch import Tensor

LEAST = 2
"""Draws of a chain from which on their variance is known at all."""


def signal(probs: Tensor, spread: Tensor, draws: int, chains: int) -> Tensor:
    """(rows, m): the share of the differences between chains that is not Monte Carlo noise.

    probs (rows, m * chains, J): averages over `draws` draws of every chain; spread (rows, m * chains): their variance,
    summed over classes.

    >>> apart = torch.tensor([[[0.9, 0.1], [0.1, 0.9]]])
    >>> signal(apart, torch.tensor([[0.4, 0.4]]), 101, 2), signal(apart, torch.tensor([[70.0, 70.0]]), 101, 2)
    (tensor([[0.9969]]), tensor([[0.]]))
    """
    rows, count, classes = probs.shape
    if draws < LEAST or chains == 1:
        return torch.ones(rows, count // chains, dtype=probs.dtype)
    own = probs.view(rows, -1, chains, classes)
    between = (own - own.mean(2, keepdim=True)).square().sum((2, 3)) / (chains - 1)
    noise = spread.view(rows, -1, chains).mean(2) / (draws - 1)
    return (1 - noise / between.clamp_min(torch.finfo(probs.dtype).tiny)).clamp_min(0).sqrt()


def pooled(values: Tensor, share: Tensor) -> Tensor:
    """Values (rows, m * chains, ...) of chains, drawn towards their member's mean: `share` (rows, m) of each difference
    stays.

    >>> pooled(torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5]]))
    tensor([[0.2500, 0.7500]])
    """
    own = values.view(*share.shape, -1, *values.shape[2:])
    mean = own.mean(2, keepdim=True)
    return (mean + share.view(*share.shape, *[1] * (own.ndim - 2)) * (own - mean)).view(values.shape)
