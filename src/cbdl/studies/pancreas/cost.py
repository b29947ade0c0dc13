"""What the controller minimises: the paper's three factors, and their weights in this one place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbdl.studies.pancreas.forecasts import Triplet
from cbdl.studies.pancreas.metrics import UNSAFE_HIGH, UNSAFE_LOW
from cbdl.studies.pancreas.patients import Array

TARGET = 120.0
"""mg/dL, the paper's."""


@dataclass(frozen=True)
class Weights:
    """Of the three factors. They and how far doses may reach (`members.LineUp.reach`) were chosen on patients that the
    study does not report (`plans.TUNED_ON`), by the sum of the unsafe times of CBDL and EBNN.

    The cost of a plan, with glucose in mg/dL and doses I in multiples of basal, is the sum over the steps ahead of

        target ((G_m - 120) / 50)^2 + unsafe (max(0, 70 + margin - G_l) / 50)^2
            + unsafe (max(0, G_u - 300 + margin) / 50)^2,

    and insulin times the sum of its doses.
    """

    target: float = 1.0
    unsafe: float = 16.0
    insulin: float = 0.002
    margin: float = 30.0
    """How far from the unsafe regions, in mg/dL, a prediction begins to cost."""


SCALE = 50.0
"""mg/dL: the distance that costs 1."""


def cost(forecast: Triplet, doses: Array, weights: Weights) -> Array:
    """(lanes, P): of plans `doses` (lanes, P, k) with `forecast`, each of its parts (lanes, P, steps); after the first
    k, a predicted step stands for k."""
    away = ((forecast.middle - TARGET) / SCALE) ** 2
    low = np.maximum(0.0, UNSAFE_LOW + weights.margin - forecast.low) / SCALE
    high = np.maximum(0.0, forecast.high - UNSAFE_HIGH + weights.margin) / SCALE
    ahead = weights.target * away + weights.unsafe * (low**2 + high**2)
    k = doses.shape[-1]
    return np.asarray(ahead[..., :k].sum(-1) + k * ahead[..., k:].sum(-1) + weights.insulin * doses.sum(-1))
