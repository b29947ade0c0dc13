"""Algorithm 1 for classes, with scikit-learn's manners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from cbdl import recipe
from cbdl.bayes import likelihoods
from cbdl.bayes.methods import Method
from cbdl.bayes.priors import PriorLike
from cbdl.estimators import saved
from cbdl.estimators.base import Credal
from cbdl.estimators.networks import Architecture, factories
from cbdl.estimators.weights import Floats, check_unmasked, class_weights, sample_weights
from cbdl.nets.scores import Columns


class CredalClassifier(ClassifierMixin, Credal):  # type: ignore[misc]
    """A classifier that knows what it does not know: K priors x S networks, and a credal set for every row.

    - `priors`: one or more priors (or mappings of patterns to priors); None: those of `cbdl.recipe`
    - `architectures`: one network each: the widths of hidden layers, or a function (inputs, outputs) -> nn.Module;
      None: `cbdl.recipe.hidden`. Networks given by widths also see the Normal scores of skewed columns
      (`cbdl.recipe.quantiles`)
    - `activation` of the hidden layers: "relu", "tanh", "gelu" or "silu"; None: see `cbdl.recipe.activation`
    - `method`: an inference method such as `cbdl.Laplace()`; None: `cbdl.MCLMC` of so many `steps`, and
      without these of as many as the table needs (`cbdl.recipe.steps`)
    - `plausible`: members that predict rows which they have not seen clearly worse than the best are left out; 0: none
    - `calibration`: how the levels of `predict_set` are found without rows of their own: "weights", "folds" or "auto"
      (see `CBDL.left_out`); None: not at all, which saves time
    - `samples`: draws from every chain of every posterior for a prediction, or "auto"
    - `decision`: what `predict` says: the likeliest label of the "average" (`predict_proba`), or the "maximin" one
    - `class_weight`: a mapping of labels to weights, or "balanced"
    - `standardize`: inputs to (weighted) mean 0 and variance 1
    - `warm_start`: `fit` starts from the networks of the fit before
    - `random_state`: a number gives the same model each time, that of `CBDL` with this seed
    - `engine`, `device`, `verbose`: as in `CBDL`

    Learned: `classes_`, `model_` (the `CBDL`, with labels 0, ..., J - 1), `conformity_` (the levels behind calibrated
    sets), `n_features_in_`, `feature_names_in_`.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = CredalClassifier(steps=200, plausible=0, random_state=0).fit(X[::2], y[::2])
    >>> bool(clf.score(X[1::2], y[1::2]) > 0.9)
    True
    >>> clf.predict(X[:2]), clf.predict_proba(X[:2]).shape
    (array([0, 0]), (2, 3))
    >>> clf.predict_set(X[:2], alpha=0.05).shape, clf.predict_credal(X[:2])
    ((2, 3), CategoricalCredalSet(batch_shape=(2,), num_extremes=12, num_classes=3))
    >>> import tempfile
    >>> folder = tempfile.mkdtemp() + "/iris"
    >>> clf.calibrate(X[1::2], y[1::2]).save(folder)
    >>> CredalClassifier.load(folder).predict(X[:2])
    array([0, 0])
    """

    classes_: NDArray[Any]
    _task = "classification"

    def __init__(
        self,
        priors: Sequence[PriorLike] | None = None,
        architectures: Sequence[Architecture] | None = None,
        *,
        activation: str | None = None,
        method: Method | None = None,
        steps: int | None = None,
        plausible: float = recipe.PLAUSIBLE,
        calibration: Any = "auto",
        samples: Any = recipe.DRAWS,
        decision: str = "average",
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
        self.steps = steps
        self.plausible = plausible
        self.calibration = calibration
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
        """Steps 1 to 3 of Algorithm 1, from X (rows, features) and labels y (rows,) of any kind.

        - `sample_weight`: (rows,): how often each row counts; None: once
        """
        check_unmasked(X=X, y=y)
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
        return self._train(X, labels, weights)

    def _likelihoods(
        self, architectures: Any, inputs: int, quantiles: Columns | None
    ) -> Sequence[likelihoods.Likelihood]:
        activation = self.activation or recipe.activation()
        nets = factories(architectures, inputs, len(self.classes_), activation, quantiles)
        return [likelihoods.Categorical(net) for net in nets]

    def _class_names(self) -> list[str] | None:
        """Names of the labels, unless they are their own numbers."""
        plain = np.array_equal(self.classes_, np.arange(len(self.classes_)))
        return None if plain else [str(label) for label in self.classes_.tolist()]

    def _remembered(self) -> dict[str, Any]:
        return {"classes": saved.array_to_json(self.classes_)}

    def _recall(self, own: dict[str, Any]) -> None:
        self.classes_ = saved.array_from_json(own["classes"])

    def predict(self, X: Any) -> NDArray[Any]:
        """(rows,): the label with the largest `predict_proba`; with `decision="maximin"` argmax_y min_k p_k(y), the
        best one in the worst case (modified Step 6).

        Where all members find the same label likeliest, both are that one.

        - `X`: inputs (rows, ...), as in `fit`
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
        """(rows, J): the centre of the credal set, the mean of its extremes.

        - `X`: inputs (rows, ...), as in `fit`
        """
        return self._by_parts(X, lambda sets: sets.center())

    def predict_set(
        self, X: Any, alpha: float = 0.05, method: str | None = None, *, calibration: str | None = "fit"
    ) -> NDArray[np.bool_]:
        """(rows, J) bool: labels that hold the true one for a share of 1 - alpha of new rows (Step 6, calibrated).

        The credal region at the level that training rows needed, each predicted as if it had not been seen; it is
        never empty. With `calibration=None`, or with a `method` ("union", "lower-density" or "minimal"), the plain
        one: labels that the whole credal set covers with probability 1 - alpha. Columns in the order of `classes_`.

        - `X`: inputs (rows, ...), as in `fit`
        - `alpha`: a share of 1 - alpha of new labels is to be covered
        """
        return self._by_parts(X, lambda sets: self._region(sets, alpha, method, calibration).mask)

    def _outcomes(self, y: NDArray[Any]) -> NDArray[Any]:
        unknown = ~np.isin(y, self.classes_)
        if unknown.any():
            raise ValueError(f"y holds {y[unknown][0]!r}; the classes of fit are {self.classes_.tolist()}")
        return np.searchsorted(self.classes_, y)
