"""scikit-learn's network, forest and boosting with their defaults, and a deep ensemble of the default model's networks.

A regressor without a predictive distribution gets a Normal with the standard deviation of its errors on rows that it
was not trained on: five folds of the training rows, or a fifth of them where there are more than 10,000.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import sklearn
from scipy import stats
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import KFold, cross_val_predict, train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cbdl import nets, recipe
from cbdl.baselines import from_draws
from cbdl.bayes import likelihoods, priors
from cbdl.bayes.methods import Ensemble
from cbdl.bayes.train import TrainingWarning
from cbdl.credal import NormalCredalSet
from cbdl.model import CBDL
from cbdl.studies.tables import credal, scores
from cbdl.studies.tables.contestant import MEASURES, Contestant, Task, code, versions
from cbdl.studies.tables.scores import ALPHA, Numbers
from cbdl.tables.files import Floats

MLP, FOREST, BOOSTING = "MLP", "forest", "boosting"
ENSEMBLE = "deep ensemble"
FOLDS = 5
FEW = 10_000
"""Training rows up to which folds are trained; of more, a fifth is held out once."""


def model(name: str, task: Task) -> Any:
    """One of scikit-learn's models with its defaults; a network gets standardised inputs and targets, and the steps
    that it needs to stop by its own rule."""
    real, seed, small = task.table.kind == "real", task.seed, task.short
    if name == FOREST:
        kind = RandomForestRegressor if real else RandomForestClassifier
        return kind(random_state=seed, **({"n_estimators": 10} if small else {}))
    if name == BOOSTING:
        boosting = HistGradientBoostingRegressor if real else HistGradientBoostingClassifier
        return boosting(random_state=seed, **({"max_iter": 5} if small else {}))
    settings: dict[str, Any] = {"max_iter": 30 if small else 2000, "random_state": seed}
    if not real:
        return make_pipeline(StandardScaler(), MLPClassifier(**settings))
    network = make_pipeline(StandardScaler(), MLPRegressor(**settings))
    return TransformedTargetRegressor(network, transformer=StandardScaler())


def run(name: str, task: Task) -> dict[str, Numbers]:
    """Fit, predict and score one of scikit-learn's models."""
    table, start = task.table, time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)
        estimator = model(name, task).fit(table.X, table.y)
        seconds = time.perf_counter() - start
        if table.kind == "real":
            scale = error_scale(model(name, task), table.X, table.y, task.seed)
    start = time.perf_counter()
    if table.kind == "real":
        loc = np.asarray(estimator.predict(table.X_test))
        numbers = _normal(loc, scale, table.y_test, task.unit)
    else:
        numbers = scores.classes(estimator.predict_proba(table.X_test), table.y_test)
    return {name: numbers | {"fit_seconds": seconds, "predict_seconds": time.perf_counter() - start}}


def error_scale(estimator: Any, X: Floats, y: Floats, seed: int) -> float:
    """The root mean squared error on training rows that the model was not trained on."""
    if len(X) <= FEW:
        folds = KFold(FOLDS, shuffle=True, random_state=seed)
        errors = cross_val_predict(estimator, X, y, cv=folds) - y
    else:
        X, X_kept, y, y_kept = train_test_split(X, y, test_size=1 / FOLDS, random_state=seed)
        errors = clone(estimator).fit(X, y).predict(X_kept) - y_kept
    return float(max(np.sqrt(np.mean(errors**2)), 1e-9 * y.std()))


def _normal(loc: Floats, scale: float, y: Floats, unit: float) -> Numbers:
    one = NormalCredalSet(loc[:, None], np.full((len(loc), 1), scale))
    half = stats.norm.ppf(1 - ALPHA / 2) * scale
    return scores.line(one, y) | scores.interval(loc - half, loc + half, y, unit)


# --- a deep ensemble ----------------------------------------------------------------------------------------


def ensemble(task: Task) -> CBDL:
    """Five networks of the default model's widths that differ by their initialisation; for numbers, each with a
    noise of its own that varies with the input."""
    table, inputs = task.table, task.table.X.shape[1]
    outputs = 2 if table.kind == "real" else table.classes
    kind: recipe.Task = "regression" if table.kind == "real" else "classification"
    net = nets.mlp(inputs, outputs, recipe.hidden(len(table.y), kind)[0], recipe.activation())
    likelihood = (
        likelihoods.Normal(net, scale="heteroscedastic")
        if table.kind == "real"
        else likelihoods.Categorical(net)
    )
    method = Ensemble(epochs=3) if task.short else Ensemble()
    return CBDL([priors.Normal(0.0, 1.0)], [likelihood], method, seed=task.seed)


def run_ensemble(task: Task) -> dict[str, Numbers]:
    """Fit, predict and score a deep ensemble; its epistemic uncertainty is the spread of its networks."""
    table, start = task.table, time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        fitted = ensemble(task).fit(table.X, table.y)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    prediction = fitted.predict(table.X_test, 5)
    if table.kind == "real":
        lower, upper = (np.asarray(end) for end in prediction.region(ALPHA).hull())
        numbers = scores.line(prediction, table.y_test)
        numbers |= scores.interval(lower, upper, table.y_test, task.unit)
    else:
        numbers = scores.classes(np.asarray(prediction.probs)[:, 0], table.y_test)
        mask = np.asarray(prediction.region(ALPHA).mask)
        numbers |= scores.sets(mask, table.y_test)
    numbers |= {"fit_seconds": seconds, "predict_seconds": time.perf_counter() - start}
    foreign = {name: _spread(fitted, X) for name, X in task.foreign().items()}
    return {ENSEMBLE: numbers | scores.detected(_spread(fitted, task.clean), foreign, values=False)}


def _spread(fitted: CBDL, X: Floats) -> Floats:
    """How far the networks are apart: the variance of their means, or the mutual information."""
    if fitted.learned.space == "classes":
        return np.asarray(from_draws(fitted.predict_draws(X, 5)[:, 0]).epistemic)
    return np.asarray(np.asarray(fitted.predict(X, 5).loc)[:, 0].var(-1))


def _version() -> str:
    return f"scikit-learn {sklearn.__version__}, study {code('studies/tables/peers.py', *MEASURES)}"


def _scikit(name: str) -> Contestant:
    ready: Callable[[Task], dict[str, Numbers]] = partial(run, name)
    return Contestant(name, ("real", "classes"), ready, _version)


CONTESTANTS = (
    *(_scikit(name) for name in (MLP, FOREST, BOOSTING)),
    Contestant(
        ENSEMBLE, ("real", "classes"), run_ensemble, versions(*credal.ROOMS, "studies/tables/peers.py")
    ),
)
