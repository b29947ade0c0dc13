"""Scores of forecasts: distances of positions, and proper scores of the members' average, in metres or nats a step."""

import math

import numpy as np
import torch

from cbdl.credal import MixtureCredalSet
from cbdl.evaluate.real import crps
from cbdl.studies.racing.curves import FloatArray, IntArray
from cbdl.studies.racing.forecasts import Forecast

ROWS = 400
"""Windows, evenly spread, on which CRPS and energy score are taken: they need pairs of components or of draws."""
DRAWS = 32
Numbers = dict[str, float]


def spread_rows(count: int, most: int) -> IntArray | slice:
    """At most `most` of so many rows, evenly spread."""
    return slice(None) if count <= most else np.linspace(0, count - 1, most).round().astype(np.int64)


def point_scores(loc: FloatArray, y: FloatArray) -> Numbers:
    """Of members' positions (W, m, horizon, 2): mean and final error of their mean, mean error of the best member."""
    error = np.linalg.norm(loc.mean(axis=1) - y, axis=-1)
    members = np.linalg.norm(loc - y[:, None], axis=-1).mean(axis=-1)
    return {
        "ade": float(error.mean()),
        "fde": float(error[:, -1].mean()),
        "min_ade": float(members.min(axis=1).mean()),
    }


def density_scores(forecast: Forecast, y: FloatArray, seed: int = 0) -> Numbers:
    """NLL of a position (x, y) under the members' average; CRPS, mean over x and y; energy score of a position."""
    rows = spread_rows(len(y), ROWS)
    some, outcome = forecast[rows], y[rows]
    return {
        "nll": float(_nll(forecast, y).mean()),
        "crps": float(_crps(some, outcome).mean()),
        "energy": float(energy_score(_draws(some, seed), outcome).mean()),
    }


def _nll(forecast: Forecast, y: FloatArray) -> FloatArray:
    log_p = (
        -0.5 * forecast.squared_by_member(y) - np.log(forecast.scale).sum(axis=-1) - math.log(2.0 * math.pi)
    )
    top = log_p.max(axis=1, keepdims=True)
    loss: FloatArray = -(top[:, 0] + np.log(np.exp(log_p - top).mean(axis=1)))
    return loss


def _crps(forecast: Forecast, y: FloatArray) -> FloatArray:
    """(rows * horizon * 2,)."""
    m = forecast.loc.shape[1]
    loc, scale = (np.moveaxis(a, 1, -1).reshape(-1, 1, m) for a in (forecast.loc, forecast.scale))
    return np.asarray(crps(MixtureCredalSet(loc, scale), y.reshape(-1)))


def _draws(forecast: Forecast, seed: int) -> FloatArray:
    """(DRAWS, rows, horizon, 2): positions drawn from the members in turn."""
    rng = np.random.default_rng(seed)
    member = np.arange(DRAWS) % forecast.loc.shape[1]
    loc, scale = (np.moveaxis(a[:, member], 1, 0) for a in (forecast.loc, forecast.scale))
    drawn: FloatArray = loc + scale * rng.standard_normal(loc.shape)
    return drawn


def energy_score(draws: FloatArray, y: FloatArray) -> FloatArray:
    """(...,): E|Y - y| - E|Y - Y'| / 2 from draws (n, ..., d) of Y; unbiased, proper (Gneiting and Raftery 2007)."""
    count = len(draws)
    near = np.linalg.norm(draws - y, axis=-1).mean(axis=0)
    flat = torch.as_tensor(np.moveaxis(draws, 0, -2))
    pairs = torch.cdist(flat, flat).sum((-1, -2)).numpy() / (count * (count - 1))
    score: FloatArray = near - 0.5 * pairs
    return score
