"""Distributionally robust members: each learns from its own share of hard rows (Wang et al., 2026).

Member i minimises the mean loss of the worst delta_i of every batch. In the paper's words these are S likelihoods, one
per delta, so that robust members go together with any priors and any method. The credal set is then the box
(`wrapper`) or the hull of their predictions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import nn

from cbdl.bayes import likelihoods


def robust(
    net: Callable[[], nn.Module], members: int = 5, least: float = 0.5
) -> list[likelihoods.Categorical]:
    """One likelihood per share of worst rows, evenly from `least` to 1 (an ordinary member).

    - `net`: a function that makes a new network, or a module as its template
    - `members`: how many likelihoods

    >>> import cbdl
    >>> [likelihood.worst for likelihood in robust(cbdl.nets.mlp(4, 3), members=3)]
    [0.5, 0.75, 1.0]
    """
    if int(members) != members or members < 1:
        raise ValueError(f"members is {members}; give a whole number of at least 1")
    if not 0 < least <= 1:
        raise ValueError(f"least is {least}; it is the smallest share of rows, above 0 and at most 1")
    shares = np.linspace(least, 1.0, int(members)) if members > 1 else np.ones(1)
    return [likelihoods.Categorical(net, worst=float(share)) for share in shares]
