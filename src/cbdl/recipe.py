"""The one default model: priors, networks, inference method, its length, draws and precision.

The estimators, `cbdl fit` and the demo read it here; what a user does not say is the same whichever door is taken.
"""

from __future__ import annotations

import math

import torch

from cbdl.bayes.methods.mean_field import MeanField
from cbdl.bayes.priors import Normal

PRIORS = (Normal(0.0, 2.0, fan_in=True), Normal(0.0, 4.0, fan_in=True), Normal(0.0, 8.0, fan_in=True))
"""Normal, with standard deviations 2, 4 and 8 over the root of the fan-in."""
HIDDEN = ((32,), (16, 16))
"""The widths of the hidden layers, one tuple per network."""
LEARNING_RATE = 0.02
STEPS = 600
"""Steps of the training at least; small tables have few in an epoch."""
EPOCHS = 20
"""Epochs of the training at least."""
BATCH_SIZE = 256
DRAWS = 32
"""Draws of the parameters behind a prediction."""
DTYPE = torch.float64
"""In float64 the answer for a row does not depend on the rows beside it."""


def epochs(rows: int, *, steps: int = STEPS, least: int = EPOCHS, batch_size: int = BATCH_SIZE) -> int:
    """Enough epochs for so many steps on so many rows, and at least `least`.

    Steps, not epochs: a row of weight 2 must train like the same row twice.

    >>> epochs(100), epochs(100_000)
    (600, 20)
    """
    return max(least, math.ceil(steps / math.ceil(rows / batch_size)))


def method(
    length: int,
    *,
    batch_size: int = BATCH_SIZE,
    learning_rate: float = LEARNING_RATE,
    temperature: float = 1.0,
) -> MeanField:
    """The inference method of the default model, trained for `length` epochs."""
    return MeanField(epochs=length, batch_size=batch_size, lr=learning_rate, temperature=temperature)
