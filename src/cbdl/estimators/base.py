"""What the two estimators share: from checked arrays to a trained `CBDL`, and from rows to credal sets.

The estimators add nothing to the mathematics. They check arrays, choose networks and the length of the training, hand
both to `CBDL`, and read single answers off the credal set: a label, probabilities, a set of labels, an interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from cbdl import recipe
from cbdl.bayes.likelihoods import Likelihood
from cbdl.bayes.methods import Method
from cbdl.credal import CredalSet
from cbdl.estimators.networks import WarmStart
from cbdl.estimators.weights import Floats
from cbdl.model import CBDL

ROWS = 4096
"""Rows that are predicted at once; memory does not grow with the number of rows."""


class Credal(BaseEstimator):  # type: ignore[misc]
    """What the two estimators share: from checked arrays to a trained `CBDL`, and from rows to credal sets."""

    model_: CBDL

    def _train(self, X: Floats, y: NDArray[Any], weights: Floats | None, parts: Sequence[Likelihood]) -> Self:
        """Fit the model; rows without weight are left out, as if they had never been there."""
        if weights is not None:
            keep = weights > 0
            X, y, weights = X[keep], y[keep], weights[keep]
        method = self._method(len(X))
        begun = self.model_.learned if self.warm_start and hasattr(self, "model_") else None
        model = CBDL(
            recipe.PRIORS if self.priors is None else self.priors,
            parts,
            method if begun is None else WarmStart(method, begun),
            seed=self._seed(),
            standardize=self.standardize,
            engine=self.engine,
            device=self.device,
            dtype=recipe.DTYPE,
            verbose=self.verbose,
        ).fit(X, y, sample_weight=weights)
        model.method = method
        self.model_ = model
        return self

    def _method(self, rows: int) -> Method:
        """The user's method, or mean-field inference of a length that small data does not shorten."""
        if self.method is not None:
            chosen: Method = self.method
            return chosen
        for name in ("steps", "epochs", "batch_size"):
            value = getattr(self, name)
            if int(value) != value or value < 1:
                raise ValueError(f"{name} is {value}; it must be a whole number of at least 1")
        length = recipe.epochs(rows, steps=self.steps, least=self.epochs, batch_size=self.batch_size)
        return recipe.method(length, batch_size=self.batch_size, learning_rate=self.learning_rate)

    def _seed(self) -> int:
        """`random_state` itself if it is a number, so that CBDL with the same seed gives the same model."""
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _rows(self, X: Any) -> Floats:
        check_is_fitted(self)
        rows: Floats = validate_data(self, X, reset=False, dtype=np.float64)
        return rows

    def _sets(self, rows: Floats) -> CredalSet:
        return self.model_.predict(rows, self.samples)

    def _by_parts(self, X: Any, answer: Callable[[CredalSet], Any]) -> NDArray[Any]:
        """`answer` (rows first) for the credal sets of all rows, a bounded number of them at a time."""
        rows = self._rows(X)
        return np.concatenate([answer(self._sets(rows[i : i + ROWS])) for i in range(0, len(rows), ROWS)])

    def predict_credal(self, X: Any) -> CredalSet:
        """The credal set of every row: `.uncertainty()`, `.region(alpha)`, `.decide(rule)`, `.floor`..."""
        return self._sets(self._rows(X))
