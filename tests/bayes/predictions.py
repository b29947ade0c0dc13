"""Predictive distributions of one cohort, for tests that need no credal set."""

from __future__ import annotations

from torch import Tensor

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import TrainingData
from cbdl.bayes.methods.protocol import Posterior


def predict(
    cohort: Cohort, posterior: Posterior, data: TrainingData, x: Tensor, draws: int = 20, seed: int = 0
) -> dict[str, Tensor]:
    """Numbers in the user's units, each (members, draws, rows, ...), for standardised inputs x."""
    theta = posterior.sample(draws, seed)
    return cohort.describe(theta, posterior.noise, posterior.buffers, x, data.targets)
