"""Algorithm 1 with scikit-learn's manners: `CredalClassifier` and `CredalRegressor`.

The estimators add nothing to the mathematics. They check arrays, choose networks and the length of the training, hand
both to `CBDL`, and read single answers off the credal set: a label, probabilities, a set of labels, an interval.
Everything runs in float64, so that the answer for a row does not depend on the rows beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cbdl._tabular import Architecture, Floats, WarmStart, class_weights, factories, sample_weights
from cbdl.bayes import likelihoods
from cbdl.bayes.likelihoods import Likelihood, Scale
from cbdl.bayes.methods.mean_field import MeanField
from cbdl.bayes.priors import Normal, PriorLike
from cbdl.credal import DiagonalNormalCredalSet
from cbdl.credal.base import CredalSet, Region
from cbdl.credal.euclidean.regions import BoxRegion, Ellipsoids
from cbdl.credal.line.regions import LineRegion
from cbdl.engines.local import Method
from cbdl.model import CBDL
from cbdl.prediction import Form

PRIORS = (Normal(0.0, 2.0, fan_in=True), Normal(0.0, 4.0, fan_in=True), Normal(0.0, 8.0, fan_in=True))
"""The priors of `priors=None`: Normal, with standard deviations 2, 4 and 8 over the root of the fan-in."""
ROWS = 4096
"""Rows that are predicted at once; memory does not grow with the number of rows."""


class _Credal(BaseEstimator):  # type: ignore[misc]
    """What the two estimators share: from checked arrays to a trained `CBDL`, and from rows to credal sets."""

    model_: CBDL

    def _train(self, X: Floats, y: NDArray[Any], weights: Floats | None, parts: Sequence[Likelihood]) -> Self:
        """Fit the model; rows without weight are left out, as if they had never been there."""
        if weights is not None:
            keep = weights > 0
            X, y, weights = X[keep], y[keep], weights[keep]
        method = self._method(len(X))
        begun = self.model_._fitted() if self.warm_start and hasattr(self, "model_") else None
        model = CBDL(
            PRIORS if self.priors is None else self.priors,
            parts,
            method if begun is None else WarmStart(method, begun),
            seed=self._seed(),
            standardize=self.standardize,
            engine=self.engine,
            device=self.device,
            dtype=torch.float64,
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
        # Steps, not epochs: a row of weight 2 must train like the same row twice.
        epochs = max(self.epochs, math.ceil(self.steps / math.ceil(rows / self.batch_size)))
        return MeanField(epochs=epochs, batch_size=self.batch_size, lr=self.learning_rate)

    def _seed(self) -> int:
        """`random_state` itself if it is a number, so that CBDL with the same seed gives the same model."""
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _rows(self, X: Any) -> Floats:
        check_is_fitted(self)
        rows: Floats = validate_data(self, X, reset=False, dtype=np.float64)
        return rows

    def _sets(self, rows: Floats) -> Any:
        return self.model_.predict(rows, self.samples)

    def _by_parts(self, X: Any, answer: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        """`answer` (rows first) for the credal sets of all rows, a bounded number of them at a time."""
        rows = self._rows(X)
        return np.concatenate([answer(self._sets(rows[i : i + ROWS])) for i in range(0, len(rows), ROWS)])

    def predict_credal(self, X: Any) -> CredalSet:
        """The credal set of every row: `.uncertainty()`, `.region(alpha)`, `.decide(rule)`, `.noise`..."""
        sets: CredalSet = self._sets(self._rows(X))
        return sets


class CredalClassifier(ClassifierMixin, _Credal):  # type: ignore[misc]
    """A classifier that knows what it does not know: K priors x S networks, and a credal set for every row.

    - `priors`: one or more priors (or mappings of patterns to priors); None: three Normals, see `PRIORS`
    - `architectures`: one network each: the widths of hidden layers, or a function (inputs, outputs) -> nn.Module
    - `activation` of the hidden layers: "relu", "tanh", "gelu" or "silu"
    - `method`: an inference method such as `cbdl.Laplace()`; None: `cbdl.MeanField` with the next four settings
    - `learning_rate` of its first step; it falls to 0 along a cosine
    - `steps`, `epochs`: the length of the training: the larger of `steps` and `epochs` passes over the data
    - `batch_size`: rows of a step; with no more rows than this, weights and repeated rows are exactly the same
    - `samples`: draws from every posterior for a prediction, or "auto"
    - `decision`: what `predict` says: the "maximin" label, or the likeliest one of the "average" (`predict_proba`)
    - `class_weight`: a mapping of labels to weights, or "balanced"
    - `standardize`: inputs to (weighted) mean 0 and variance 1
    - `warm_start`: `fit` starts from the networks of the fit before
    - `random_state`: a number gives the same model each time, that of `CBDL` with this seed
    - `engine`, `device`, `verbose`: as in `CBDL`

    Learned: `classes_`, `model_` (the `CBDL`, with labels 0, ..., J - 1), `n_features_in_`, `feature_names_in_`.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = CredalClassifier(steps=200, random_state=0).fit(X[::2], y[::2])
    >>> bool(clf.score(X[1::2], y[1::2]) > 0.9)
    True
    >>> clf.predict_set(X[:2], alpha=0.05).shape, clf.predict_credal(X[:2])
    ((2, 3), CategoricalCredalSet(batch_shape=(2,), num_extremes=6, num_classes=3))
    """

    classes_: NDArray[Any]

    def __init__(
        self,
        priors: Sequence[PriorLike] | None = None,
        architectures: Sequence[Architecture] = ((32,), (16, 16)),
        *,
        activation: str = "relu",
        method: Method | None = None,
        learning_rate: float = 0.02,
        steps: int = 600,
        epochs: int = 20,
        batch_size: int = 256,
        samples: Any = 32,
        decision: str = "maximin",
        class_weight: Any = None,
        standardize: bool = True,
        warm_start: bool = False,
        random_state: Any = None,
        engine: Any = None,
        device: Any = "cpu",
        verbose: bool = False,
    ) -> None:
        self.priors = priors
        self.architectures = architectures
        self.activation = activation
        self.method = method
        self.learning_rate = learning_rate
        self.steps = steps
        self.epochs = epochs
        self.batch_size = batch_size
        self.samples = samples
        self.decision = decision
        self.class_weight = class_weight
        self.standardize = standardize
        self.warm_start = warm_start
        self.random_state = random_state
        self.engine = engine
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Steps 1 to 3 of Algorithm 1, from X (rows, features) and labels y (rows,) of any kind."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        classes, labels = np.unique(y, return_inverse=True)
        weights = sample_weights(sample_weight, len(X))
        if self.class_weight is not None:
            weights = class_weights(self.class_weight, classes, labels, weights)
        seen = np.unique(labels if weights is None else labels[weights > 0])
        if len(seen) < 2:
            known = ", ".join(map(repr, classes[seen].tolist()))
            raise ValueError(
                f"the rows of y that have weight hold one class only ({known}); a classifier needs at least two"
            )
        if self.warm_start and hasattr(self, "classes_") and not np.array_equal(self.classes_, classes):
            raise ValueError(
                f"warm_start: y holds the classes {classes.tolist()}, the fit before {self.classes_.tolist()}; "
                "set warm_start=False to start again"
            )
        self.classes_ = classes
        nets = factories(self.architectures, X.shape[1], len(classes), self.activation)
        return self._train(X, labels, weights, [likelihoods.Categorical(net) for net in nets])

    def predict(self, X: Any) -> NDArray[Any]:
        """(rows,): the maximin label, argmax_y min_k p_k(y): the best one in the worst case (modified Step 6).

        Where all members find the same label likeliest, it is that one, and the largest of `predict_proba` too. Where
        they do not, maximin and average may differ.
        """
        rules = {
            # of labels that are equally good the first: a random one would depend on the other rows
            "maximin": lambda sets: sets.decide("maximin").argmax(-1),
            "average": lambda sets: sets.center().argmax(-1),
        }
        if self.decision not in rules:
            raise ValueError(f'decision is {self.decision!r}; give "maximin" or "average"')
        best = self._by_parts(X, rules[self.decision])
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def predict_proba(self, X: Any) -> Floats:
        """(rows, J): the centre of the credal set, the mean of its extremes."""
        return self._by_parts(X, lambda sets: sets.center())

    def predict_set(self, X: Any, alpha: float = 0.05, method: str = "union") -> NDArray[np.bool_]:
        """(rows, J) bool: the labels that the whole credal set covers with probability 1 - alpha (Step 6).

        `method`: "union", "lower-density" or "minimal"; columns in the order of `classes_`.
        """
        return self._by_parts(X, lambda sets: sets.region(alpha, method).mask)


class CredalRegressor(RegressorMixin, _Credal):  # type: ignore[misc]
    """A regressor that knows what it does not know, for one output or several.

    - `noise`: the standard deviation of the targets around the network: "learned" (one for each output and member),
      "heteroscedastic" (a second output of the network), or a number in the units of y
    - `predictive`: "mixture" (every draw of the network counts, exact) or "normal" (one Normal a member, as in the
      paper; faster regions). Several outputs are always Normals
    - `standardize`: inputs and targets to (weighted) mean 0 and variance 1

    All other settings are those of `CredalClassifier`. Learned: `model_`, `n_features_in_`, `feature_names_in_`.

    >>> import numpy as np
    >>> X = np.linspace(-3, 3, 60)[:, None]
    >>> reg = CredalRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> lower, upper = reg.predict_interval([[0.0], [9.0]])
    >>> bool(upper[1] - lower[1] > 3 * (upper[0] - lower[0]))      # it was never trained at 9
    True
    """

    def __init__(
        self,
        priors: Sequence[PriorLike] | None = None,
        architectures: Sequence[Architecture] = ((32,), (16, 16)),
        *,
        activation: str = "relu",
        noise: Scale = "learned",
        predictive: Form = "mixture",
        method: Method | None = None,
        learning_rate: float = 0.02,
        steps: int = 600,
        epochs: int = 20,
        batch_size: int = 256,
        samples: Any = 32,
        standardize: bool = True,
        warm_start: bool = False,
        random_state: Any = None,
        engine: Any = None,
        device: Any = "cpu",
        verbose: bool = False,
    ) -> None:
        self.priors = priors
        self.architectures = architectures
        self.activation = activation
        self.noise = noise
        self.predictive = predictive
        self.method = method
        self.learning_rate = learning_rate
        self.steps = steps
        self.epochs = epochs
        self.batch_size = batch_size
        self.samples = samples
        self.standardize = standardize
        self.warm_start = warm_start
        self.random_state = random_state
        self.engine = engine
        self.device = device
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Steps 1 to 3 of Algorithm 1, from X (rows, features) and numbers y (rows,) or (rows, outputs)."""
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        weights = sample_weights(sample_weight, len(X))
        targets = np.asarray(y, dtype=np.float64)
        self._shape = targets.shape[1:]
        # one column is a problem on the line, where regions are exact
        targets = targets[:, 0] if self._shape == (1,) else targets
        outputs = math.prod(self._shape) * (2 if self.noise == "heteroscedastic" else 1)
        nets = factories(self.architectures, X.shape[1], outputs, self.activation)
        parts = [likelihoods.Normal(net, scale=self.noise) for net in nets]
        return self._train(X, targets, weights, parts)

    def _sets(self, rows: Floats) -> Any:
        return self.model_.predict(rows, self.samples, predictive=self.predictive)

    def predict(self, X: Any) -> Floats:
        """(rows,) or (rows, outputs): the mean of the centre of the credal set."""
        return self._like_targets(self._by_parts(X, lambda sets: _means(sets).mean(1)))

    def predict_interval(
        self, X: Any, alpha: float = 0.05, method: str | None = None, return_region: bool = False
    ) -> tuple[Floats, Floats] | Region:
        """(lower, upper), each shaped like `predict`: the hull of the region that covers with 1 - alpha (Step 6).

        The whole credal set agrees that the outcome lies in the region with probability at least 1 - alpha; of several
        outputs, all of them at once. `method`: "union" (default for one output), "lower-density" or "minimal"; for
        several outputs also "box" (the default there). With `return_region`, the region itself instead: between its
        ends it may have holes.
        """
        check_is_fitted(self)
        several = math.prod(self._shape) > 1
        chosen = method or ("box" if several else "union")
        if return_region:
            region: Region = self._sets(self._rows(X)).region(alpha, chosen)
            return region
        ends = self._by_parts(X, lambda sets: _hull(sets.region(alpha, chosen)))
        return self._like_targets(ends[:, 0]), self._like_targets(ends[:, 1])

    def _like_targets(self, values: Floats) -> Floats:
        return values.reshape(len(values), *self._shape)


def _means(sets: Any) -> Floats:
    """(rows, m) or (rows, m, outputs): the mean of every extreme."""
    return np.asarray(sets.loc if isinstance(sets, DiagonalNormalCredalSet) else sets.mean())


def _hull(region: Region) -> Floats:
    """(rows, 2) or (rows, 2, outputs): the smallest interval, or box, around the region."""
    if isinstance(region, LineRegion):
        intervals = np.asarray(region.intervals)
        return np.stack([np.nanmin(intervals[..., 0], -1), np.nanmax(intervals[..., 1], -1)], 1)
    if isinstance(region, BoxRegion):
        return np.stack([region.lower, region.upper], 1)
    if isinstance(region, Ellipsoids):
        loc, reach = np.asarray(region.loc), math.sqrt(region.radius) * np.asarray(region.scale)
        return np.stack([(loc - reach).min(1), (loc + reach).max(1)], 1)
    raise ValueError(
        'for several outputs the ends of a region are known for method="box" and "union"; for others ask for the '
        "region itself: return_region=True"
    )
