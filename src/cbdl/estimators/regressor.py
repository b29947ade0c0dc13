"""Algorithm 1 for numbers, with scikit-learn's manners."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from cbdl import recipe
from cbdl.bayes import likelihoods
from cbdl.bayes.likelihoods import Scale, check_scale
from cbdl.bayes.methods import Method
from cbdl.bayes.priors import PriorLike
from cbdl.credal import CredalSet, Region
from cbdl.estimators.base import Credal
from cbdl.estimators.networks import Architecture, factories
from cbdl.estimators.weights import Floats, check_unmasked, sample_weights
from cbdl.evaluate.conformal import Conformity
from cbdl.model import CBDL
from cbdl.nets.scores import Columns
from cbdl.prediction import Form


class CredalRegressor(RegressorMixin, Credal):  # type: ignore[misc]
    """A regressor that knows what it does not know, for one output or several.

    - `noise`: the standard deviation of the targets around the network: "learned" (the same for every input),
      "heteroscedastic" (a second output of the network), or a number in the units of y; several of them in a sequence
      are so many likelihoods. None: both "learned" and "heteroscedastic"
    - `predictive`: "mixture" (every draw of the network counts, exact) or "normal" (one Normal a member, as in the
      paper; faster regions). Several outputs are always Normals
    - `standardize`: inputs and targets to (weighted) mean 0 and variance 1

    All other settings are those of `CredalClassifier`. Learned: `model_`, `conformity_` (the levels behind calibrated
    intervals), `n_features_in_`, `feature_names_in_`.

    - `priors`, `architectures`, `activation`, `method`, `steps`, `plausible`, `calibration`, `samples`,
      `warm_start`, `random_state`, `engine`, `device`, `verbose`: as in `CredalClassifier`

    >>> import numpy as np
    >>> X = np.linspace(-3, 3, 60)[:, None]
    >>> reg = CredalRegressor(steps=300, plausible=0, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> lower, upper = reg.predict_interval([[0.0], [9.0]])
    >>> bool(upper[1] - lower[1] > 3 * (upper[0] - lower[0]))      # it was never trained at 9
    True
    >>> reg.predict(X[:2]).shape, reg.predict_credal(X[:2]).batch_shape
    ((2,), (2,))
    >>> import tempfile
    >>> folder = tempfile.mkdtemp() + "/sine"
    >>> reg.calibrate(X, np.sin(X[:, 0])).save(folder)
    >>> CredalRegressor.load(folder).predict(X[:2]).shape
    (2,)
    """

    _target_checks: ClassVar[dict[str, Any]] = {"multi_output": True, "y_numeric": True}

    _task = "regression"

    def __init__(
        self,
        priors: Sequence[PriorLike] | None = None,
        architectures: Sequence[Architecture] | None = None,
        *,
        activation: str | None = None,
        noise: Scale | Sequence[Scale] | None = None,
        predictive: Form = "mixture",
        method: Method | None = None,
        steps: int | None = None,
        plausible: float = recipe.PLAUSIBLE,
        calibration: Any = "auto",
        samples: Any = recipe.DRAWS,
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
        self.steps = steps
        self.plausible = plausible
        self.calibration = calibration
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
        """Steps 1 to 3 of Algorithm 1, from X (rows, features) and numbers y (rows,) or (rows, outputs).

        - `sample_weight`: (rows,): how often each row counts; None: once
        """
        check_unmasked(X=X, y=y)
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        if y.dtype.kind in "Mm":
            raise ValueError("y holds dates or lengths of time; give numbers, such as the days until then")
        self._noises()
        weights = sample_weights(sample_weight, len(X))
        targets = np.asarray(y, dtype=np.float64)
        self._shape = targets.shape[1:]
        # one column is a problem on the line, where regions are exact
        targets = targets[:, 0] if self._shape == (1,) else targets
        if not (self.warm_start and hasattr(self, "_resolution")):
            counts = slice(None) if weights is None else weights > 0
            self._resolution = recipe.resolution(X[counts], targets[counts])
        return self._train(X, targets, weights)

    def _likelihoods(
        self, architectures: Any, inputs: int, quantiles: Columns | None
    ) -> Sequence[likelihoods.Likelihood]:
        parts = []
        for noise in self._noises():
            outputs = math.prod(self._shape) * (2 if noise == "heteroscedastic" else 1)
            activation = self.activation or recipe.activation(noise)
            for ramps in recipe.views(noise, self._ramps):
                nets = factories(architectures, inputs, outputs, activation, quantiles, ramps)
                parts += [likelihoods.Normal(net, noise, self._resolution) for net in nets]
        return parts

    def _remembered(self) -> dict[str, Any]:
        return {"shape": list(self._shape), "resolution": self._resolution}

    def _recall(self, own: dict[str, Any]) -> None:
        self._shape = tuple(own["shape"])
        given = own.get("resolution", 0.0)
        self._resolution = tuple(given) if isinstance(given, list) else given

    def _noises(self) -> tuple[Scale, ...]:
        """The noise models, checked."""
        given = recipe.NOISES if self.noise is None else self.noise
        noises = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
        if not noises:
            raise ValueError("noise is empty; give at least one")
        for noise in noises:
            check_scale(noise, "noise")
        return noises

    def _levels(self, model: CBDL) -> Conformity:
        return model.conformity(self.calibration, predictive=self.predictive)

    def _sets(self, rows: Floats) -> CredalSet:
        return self.model_.predict(rows, self.samples, predictive=self.predictive)

    def predict(self, X: Any) -> Floats:
        """(rows,) or (rows, outputs): the mean of the centre of the credal set.

        - `X`: inputs (rows, ...), as in `fit`
        """
        return self._like_targets(self._by_parts(X, lambda sets: np.asarray(sets.mean()).mean(1)))

    @overload
    def predict_interval(
        self,
        X: Any,
        alpha: float = 0.05,
        method: str | None = None,
        return_region: Literal[False] = False,
        *,
        calibration: str | None = "fit",
    ) -> tuple[Floats, Floats]: ...
    @overload
    def predict_interval(
        self,
        X: Any,
        alpha: float = 0.05,
        method: str | None = None,
        *,
        return_region: Literal[True],
        calibration: str | None = "fit",
    ) -> Region: ...
    def predict_interval(
        self,
        X: Any,
        alpha: float = 0.05,
        method: str | None = None,
        return_region: bool = False,
        *,
        calibration: str | None = "fit",
    ) -> tuple[Floats, Floats] | Region:
        """(lower, upper), each shaped like `predict`: the hull of a region with a share of 1 - alpha of new outcomes.

        The credal region at the level that training rows needed, each predicted as if it had not been seen. With
        `calibration=None`, or with a `method`, the plain one (Step 6): the whole credal set agrees that the outcome
        lies in it with probability at least 1 - alpha; of several outputs, all of them at once. `method`: "union"
        (default for one output), "lower-density" or "minimal"; for several outputs also "box" (the default there). With
        `return_region`, the region itself: between its ends it may have holes.

        - `X`: inputs (rows, ...), as in `fit`
        - `alpha`: a share of 1 - alpha of new outcomes is to be covered
        """
        check_is_fitted(self)
        plain = "box" if math.prod(self._shape) > 1 else "union"

        def region(sets: CredalSet) -> Region:
            return self._region(sets, alpha, method, calibration, plain)

        if return_region:
            return region(self._sets(self._rows(X)))
        ends = self._by_parts(X, lambda sets: np.stack(region(sets).hull(), 1))
        return self._like_targets(ends[:, 0]), self._like_targets(ends[:, 1])

    def _outcomes(self, y: NDArray[Any]) -> NDArray[Any]:
        targets = np.asarray(y, dtype=np.float64)
        return targets[:, 0] if self._shape == (1,) else targets

    def _like_targets(self, values: Floats) -> Floats:
        return values.reshape(len(values), *self._shape)
