"""How sure members may be of classes: their probabilities to a power that rows which they have not seen decide.

Networks sampled at temperature 1 are often less sure than they could be (Wenzel et al. 2020); and where members differ
in how sure they are, their set is wide on every row. One power of at least 1 per member, as in temperature scaling (Guo
et al. 2017), sets that right: what the members then disagree about is the answer. A member that is too sure is not made
less so: it is left to be refuted. Chains without a fold are short, and under wide priors surer than long ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

MOST = 3.0
"""Powers between 1 and exp(3) are tried."""
STEP = 0.05
"""Of the logarithm of the power."""


def sharpened(probs: Tensor, powers: Tensor) -> Tensor:
    """Probabilities (rows, m, ..., J) to the powers (m,) of their members, summing to 1 again."""
    shape = (1, -1, *(1,) * (probs.ndim - 2))
    return torch.softmax(probs.clamp_min(torch.finfo(probs.dtype).tiny).log() * powers.view(shape), -1)


def sharpened_averages(probs: Tensor, powers: Tensor) -> Tensor:
    """Averages over draws (rows, m, W, J), as `cbdl.credal.floor.weightings` has them, to the powers of their members.

    The first, of all draws, is sharpened; the others, of groups of draws, which tell the floor, move it as they would
    to first order: what the power does to a few draws alone says nothing about all of them.
    """
    whole = probs[:, :, :1].clamp_min(torch.finfo(probs.dtype).tiny)
    sharp = sharpened(whole, powers)
    moves = probs[:, :, 1:] / whole - 1
    moves = (moves - (sharp * moves).sum(-1, keepdim=True)) * powers.view(1, -1, 1, 1)
    return torch.cat([sharp, sharp * (1 + moves)], 2)


def by_chains(probs: Tensor, powers: Tensor) -> Tensor:
    """Probabilities (rows, m, chains, ..., J): every chain sharpened, then their average (rows, m, ..., J)."""
    return sharpened(probs, powers).mean(2)


def fit(probs: Tensor, y: Tensor, counts: Tensor) -> Tensor:
    """The powers (m,) under which chains that have not seen the rows predict their classes best.

    probs (n, m, chains, J), y (n,), counts (n,): how often each row counts. The logarithm of a power has a standard
    Normal prior, so that few rows cannot make a member absurdly sure.
    """
    logs = torch.arange(0, MOST + STEP / 2, STEP, dtype=torch.float64)
    at = y.view(-1, 1, 1).expand(-1, probs.shape[1], 1)
    scores = torch.stack(
        [
            counts @ by_chains(probs, log.exp().expand(probs.shape[1])).gather(2, at)[..., 0].log()
            - 0.5 * log.square()
            for log in logs
        ]
    )
    return logs[scores.argmax(0)].exp()
