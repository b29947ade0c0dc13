"""Step 4 of Algorithm 1 up to the credal set: the predictive distribution of every member, draw by draw."""

from __future__ import annotations

import torch
from torch import Tensor

from .cohort import Cohort, Posterior
from .data import Data


def predict(
    cohort: Cohort,
    posterior: Posterior,
    data: Data,
    x: Tensor,
    draws: int = 20,
    *,
    seed: int = 0,
    batch_size: int | None = None,
) -> dict[str, Tensor]:
    """Numbers of the predictive distributions in the user's units, each (members, draws, rows, ...).

    x: standardised inputs (`data.new_inputs`). Classes: "probs" (..., J); real: "loc", "scale" (..., *event);
    counts: "rate".
    """
    theta = posterior.sample(draws, seed)
    parts: list[dict[str, Tensor]] = []
    if batch_size is None:
        batch_size = cohort.forward.rows(theta.shape[0] * draws, x)
    with torch.no_grad():
        for a in range(0, x.shape[0], batch_size):
            out = cohort.forward(theta, x[a : a + batch_size], posterior.buffers)
            parts.append(
                cohort.likelihood.describe(out, posterior.noise, data.targets.loc, data.targets.scale)
            )
    return {name: torch.cat([part[name] for part in parts], 2) for name in parts[0]}
