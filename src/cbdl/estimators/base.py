"""What the two estimators share: from checked arrays to a trained `CBDL`, and from rows to credal sets.

The estimators add nothing to the mathematics. They check arrays, choose networks and the length of the training, hand
both to `CBDL`, and read single answers off the credal set: a label, probabilities, a set of labels, an interval.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from cbdl import recipe, store
from cbdl.bayes.likelihoods import Likelihood
from cbdl.bayes.methods.begun import after
from cbdl.credal import CredalSet, Region
from cbdl.estimators import saved
from cbdl.estimators.networks import Architecture
from cbdl.estimators.weights import Floats, check_unmasked, merged
from cbdl.evaluate.conformal import Conformity, conformity
from cbdl.model import CBDL, load
from cbdl.nets.scores import Columns
from cbdl.prediction import averaged
from cbdl.steps.left_out import folds_for
from cbdl.store import ModelError

ROWS = 4096
"""Rows that are predicted at once; memory does not grow with the number of rows."""


class Credal(BaseEstimator, ABC):  # type: ignore[misc]
    """What the two estimators share: from checked arrays to a trained `CBDL`, and from rows to credal sets."""

    model_: CBDL
    conformity_: Conformity | None
    """The levels that training outcomes needed, each predicted as if it had not been seen; None: not asked for."""
    _target_checks: ClassVar[dict[str, Any]] = {}
    _task: ClassVar[recipe.Task]
    _ramps: int = 0
    """Pieces of every column with Normal scores that some networks are given (`cbdl.recipe.ramps`)."""

    def _train(self, X: Floats, y: NDArray[Any], weights: Floats | None) -> Self:
        """Fit the model, leave out members that the data refute, and see what level regions need."""
        X, y, weights = merged(
            X, y, weights
        )  # first: a row of weight 2 and the same row twice are the same table
        hidden = recipe.hidden(len(X), self._task) if self.architectures is None else self.architectures
        steps = recipe.steps(len(X), self._task) if self.steps is None else self.steps
        parts = self._likelihoods(hidden, X.shape[1], self._quantiles(X, weights))
        method = recipe.method(steps, self._task) if self.method is None else self.method
        begun = self.model_.learned if self.warm_start and hasattr(self, "model_") else None
        folds = folds_for(self.calibration, self.plausible)
        extra = recipe.EXTRA[self._task] if self.method is None else 1
        model = CBDL(
            recipe.PRIORS if self.priors is None else self.priors,
            parts,
            method if begun is None else after(method, begun),
            plausible=self.plausible,
            chains=recipe.CHAINS_OF[self._task],
            sharpen=folds > 0,
            labels=self._class_names(),
            seed=self._seed(),
            standardize=self.standardize,
            engine=self.engine,
            device=self.device,
            dtype=recipe.DTYPE,
            verbose=self.verbose,
        ).fit(X, y, sample_weight=weights, folds=folds, least=recipe.LEAST, extra=extra)
        self.conformity_ = None if self.calibration is None else self._levels(model)
        model.method = method
        self.model_ = model
        return self

    def _quantiles(self, X: Floats, weights: Floats | None) -> Columns | None:
        """What networks need to give Normal scores of columns; that of the fit before if this one goes on from it."""
        if not self.standardize:
            self._ramps = 0
            return None
        if not (self.warm_start and hasattr(self, "_columns")):
            self._columns = recipe.quantiles(X, weights)
            own = self.architectures is None
            self._ramps = recipe.ramps(self._columns, len(X), self._task) if own else 0
        return self._columns

    @abstractmethod
    def _likelihoods(
        self, architectures: Any, inputs: int, quantiles: Columns | None
    ) -> Sequence[Likelihood]:
        """One likelihood for each network, and for each noise model where there are several."""

    def _levels(self, model: CBDL) -> Conformity:
        """The levels that training outcomes needed."""
        return model.conformity(self.calibration)

    def calibrate(self, X: Any, y: Any) -> Self:
        """Set the levels of calibrated regions by these rows, which must not be those of `fit`.

        - `X`: inputs (rows, features)
        - `y`: their outcomes
        """
        check_is_fitted(self)
        check_unmasked(X=X, y=y)
        X, y = validate_data(self, X, y, reset=False, dtype=np.float64, **self._target_checks)
        self.conformity_ = conformity(averaged(self._sets(X)), self._outcomes(y))
        return self

    def _region(
        self, sets: CredalSet, alpha: float, method: str | None, calibration: str | None, plain: str = "union"
    ) -> Region:
        """The calibrated region, unless a plain one is asked for, by its `method` or by `calibration=None`."""
        if calibration not in ("fit", None):
            raise ValueError(f'calibration is {calibration!r}; give "fit" or None')
        if method is not None or calibration is None or self.conformity_ is None:
            return sets.region(alpha, plain if method is None else method)
        return self.conformity_.region(averaged(sets), alpha)

    def save(self, path: str | Path) -> None:
        """Write the estimator as the folder `path`; `load` reads it back, and `cbdl.load` the model in it."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        own = {
            "kind": type(self).__name__,
            "settings": saved.described(self.get_params(deep=False)),
            "features": self.n_features_in_,
            "columns": getattr(self, "_columns", None),
            "ramps": self._ramps,
            "names": None if names is None else [str(name) for name in names],
            "conformity": None if self.conformity_ is None else self.conformity_.to_json(),
            **self._remembered(),
        }
        self.model_.save(path, extra={"estimator": own})

    @classmethod
    def load(
        cls, path: str | Path, *, architectures: Sequence[Architecture] | None = None, device: Any = "cpu"
    ) -> Self:
        """The estimator in the folder `path`. `architectures` that are functions are not in it: give them again.

        - `device`: where it computes
        """
        own = store.read_manifest(path)["extra"].get("estimator")
        if not isinstance(own, dict) or own.get("kind") != cls.__name__:
            kind = own.get("kind") if isinstance(own, dict) else "model that no estimator saved"
            raise ModelError(f"{path} holds a {kind}, not a {cls.__name__}")
        try:
            return cls._restored(path, own, architectures, device)
        except (KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"{path} does not describe a {cls.__name__}: {error!r}") from error

    @classmethod
    def _restored(cls, path: str | Path, own: dict[str, Any], given: Any, device: Any) -> Self:
        settings = saved.settings_of(own["settings"], given)
        estimator = cls(**{**settings, "device": device})
        estimator.n_features_in_ = own["features"]
        if own["names"] is not None:
            estimator.feature_names_in_ = np.array(own["names"], dtype=object)
        estimator.conformity_ = saved.conformity_from_json(own["conformity"])
        estimator._recall(own)
        if own["columns"] is not None:
            estimator._columns = tuple(map(tuple, own["columns"]))
        estimator._ramps = own.get("ramps", 0)  # folders of before have none
        quantiles = getattr(estimator, "_columns", None)
        parts = [] if given is None else estimator._likelihoods(given, own["features"], quantiles)
        nets = None if given is None else [part.net for part in parts]
        estimator.model_ = load(path, nets, device=device)
        estimator.priors = estimator.model_.priors if own["settings"]["priors"] else None
        estimator.method = estimator.model_.method if own["settings"]["method"] else None
        return estimator

    @abstractmethod
    def _remembered(self) -> dict[str, Any]:
        """What else `fit` learned, as JSON."""

    @abstractmethod
    def _recall(self, own: dict[str, Any]) -> None:
        """Set what `_remembered` wrote."""

    def _seed(self) -> int:
        """`random_state` itself if it is a number, so that CBDL with the same seed gives the same model."""
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _rows(self, X: Any) -> Floats:
        check_is_fitted(self)
        check_unmasked(X=X)
        rows: Floats = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        gone = np.argwhere(np.isnan(rows))
        if len(gone):
            raise ValueError(
                f"Input X contains NaN, at X{gone[0].tolist()}; fill it in, or ask model_.predict_missing(X), which "
                "answers with the hull over all that it could be"
            )
        return rows

    def _sets(self, rows: Floats) -> CredalSet:
        return self.model_.predict(rows, self.samples)

    def _by_parts(self, X: Any, answer: Callable[[CredalSet], Any]) -> NDArray[Any]:
        """`answer` (rows first) for the credal sets of all rows, a bounded number of them at a time."""
        rows = self._rows(X)
        return np.concatenate([answer(self._sets(rows[i : i + ROWS])) for i in range(0, len(rows), ROWS)])

    def predict_credal(self, X: Any) -> CredalSet:
        """The credal set of every row: `.uncertainty()`, `.region(alpha)`, `.decide(rule)`, `.floor`...

        - `X`: inputs (rows, ...), as in `fit`
        """
        return self._sets(self._rows(X))

    def _class_names(self) -> list[str] | None:
        """What predictions call the classes; None where outcomes are numbers."""
        return None

    @abstractmethod
    def _outcomes(self, y: NDArray[Any]) -> NDArray[Any]:
        """Targets as the credal sets know them."""
