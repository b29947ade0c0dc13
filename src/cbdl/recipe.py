"""The one default model: priors, networks, noise, inference method, its length, plausibility, draws and precision.

The estimators and `cbdl fit` read it here; what a user does not say is the same whichever door is taken. The demo has
settings of its own.
"""

from __future__ import annotations

import torch

from cbdl.bayes.learned import Chains
from cbdl.bayes.likelihoods import Scale
from cbdl.bayes.methods.mclmc import MCLMC
from cbdl.bayes.priors import Normal

PRIORS = tuple(Normal(0.0, scale, fan_in=True) for scale in (1.0, 2.0, 4.0, 8.0))
"""Normal, with standard deviations 1, 2, 4 and 8 over the root of the fan-in: a grid so wide that the plausible ones
are inside, and so close that more than one is."""
MANY = 500
"""Rows from which on networks have a third hidden layer; with fewer of them it is seldom learned in the time given."""
ACTIVATION = "silu"
"""Of the hidden layers: smooth, so that chains take steps twice as long as with "relu"."""
NOISES: tuple[Scale, ...] = ("learned", "heteroscedastic")
"""Noise of a regression: the same for every input, and one that varies with it. Each is a likelihood."""
STEPS = 3000
"""Steps of the training: a third to optimise, half to warm up, the rest to sample."""
CHAINS = 4
CHAINS_OF: dict[str, Chains] = {"classification": "extremes", "regression": "averaged"}
"""What chains are to predictions. For classes the set then tells new inputs from known ones far better; for real
outcomes it would take four times as long."""
PLAUSIBLE = 0.01
"""Members stay whose plausibility is at least this (`CBDL.plausible`)."""
DRAWS = 32
"""Draws of the parameters behind a prediction, of every extreme: of classes these are chains."""
DTYPE = torch.float64
"""In float64 the answer for a row does not depend on the rows beside it."""


def hidden(rows: int) -> tuple[tuple[int, ...], ...]:
    """The widths of the hidden layers, one tuple per network, for a table of so many rows.

    >>> hidden(100), hidden(1000)
    (((16, 16),), ((16, 16, 16),))
    """
    return ((16,) * (2 if rows < MANY else 3),)


def method(steps: int = STEPS, *, temperature: float = 1.0) -> MCLMC:
    """The inference method of the default model, of so many steps.

    >>> method().steps
    3000
    """
    if int(steps) != steps or steps < 60:
        raise ValueError(f"steps is {steps}; give a whole number of at least 60")
    optimise, warmup = int(steps) // 3, int(steps) // 2
    thin = max(1, (int(steps) - optimise - warmup) // 50)
    draws = (int(steps) - optimise - warmup) // thin
    return MCLMC(
        chains=CHAINS, draws=draws, thin=thin, warmup=warmup, optimise=optimise, temperature=temperature
    )
