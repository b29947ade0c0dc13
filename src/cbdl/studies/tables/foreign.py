"""Rows that the model has not been trained for, made from test rows: one feature far away, or features mixed up."""

from __future__ import annotations

import numpy as np

from cbdl.tables.files import Floats

STEP = 3.0
"""How many standard deviations of the training rows a feature is moved."""


def shifted(X: Floats, train: Floats) -> Floats:
    """Every row with one feature moved three standard deviations away from the mean of the training rows.

    Row i has feature i moved, counted around those that vary in the training rows.

    >>> shifted(np.array([[2.0, 0.0], [1.0, -1.0]]), np.array([[0.0, -2.0], [2.0, 2.0]]))
    array([[ 5.,  0.],
           [ 1., -7.]])
    """
    mean, sd = train.mean(0), train.std(0)
    moving = np.flatnonzero(sd > 0)
    rows = np.arange(len(X))
    feature = moving[rows % len(moving)]
    away = np.where(X[rows, feature] < mean[feature], -1.0, 1.0)
    moved = X.copy()
    moved[rows, feature] += STEP * sd[feature] * away
    return moved


def scrambled(X: Floats, seed: int, pixels: bool = False) -> Floats:
    """Every column in an order of its own: each value is a usual one, together they are not.

    With `pixels`, every row in an order of its own instead.
    """
    source = np.random.default_rng(seed)
    return np.asarray(source.permuted(X, axis=1 if pixels else 0))
