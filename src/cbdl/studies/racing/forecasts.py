"""Forecasts: where every member of a model expects the car, step by step; and the one Normal of an ensemble."""

from dataclasses import dataclass

import numpy as np

from cbdl.baselines import ebnn
from cbdl.credal import DiagonalNormalCredalSet
from cbdl.studies.racing.curves import FloatArray, IntArray


@dataclass(frozen=True)
class Forecast:
    """Normals with independent coordinates for W windows, m members and every step: loc, scale (W, m, horizon, 2)."""

    loc: FloatArray
    scale: FloatArray

    def __len__(self) -> int:
        return len(self.loc)

    def __getitem__(self, rows: slice | IntArray) -> "Forecast":
        """Some of the windows."""
        return Forecast(self.loc[rows], self.scale[rows])

    @property
    def centre(self) -> FloatArray:
        """(W, horizon, 2): the mean of all members."""
        mean: FloatArray = self.loc.mean(axis=1)
        return mean

    def averaged(self) -> "Forecast":
        """The ensemble of BNNs: one Normal with the mean of the members and the sum of both variances."""
        one = ebnn(self.credal_set(joint=True)).prediction
        shape = (len(self), 1, *self.loc.shape[2:])
        return Forecast(np.asarray(one.loc).reshape(shape), np.asarray(one.scale).reshape(shape))

    def credal_set(self, joint: bool = False) -> DiagonalNormalCredalSet:
        """A set in R^2 for every step (W, horizon), or one for whole trajectories (W,), whose steps are independent."""
        if joint:
            flat = (*self.loc.shape[:2], -1)
            return DiagonalNormalCredalSet(self.loc.reshape(flat), self.scale.reshape(flat))
        return DiagonalNormalCredalSet(self.loc.swapaxes(1, 2), self.scale.swapaxes(1, 2))

    def squared(self, y: FloatArray) -> FloatArray:
        """(W, horizon): the squared distance of outcomes (W, horizon, 2) from the nearest member, in its own units."""
        nearest: FloatArray = self.squared_by_member(y).min(axis=1)
        return nearest

    def squared_by_member(self, y: FloatArray) -> FloatArray:
        """(W, m, horizon): sum over coordinates of ((y - loc) / scale)^2."""
        squared: FloatArray = (((y[:, None] - self.loc) / self.scale) ** 2).sum(axis=-1)
        return squared
