"""How good a trained model is on a table's test rows: score, NLL, coverage and size of its 95 % regions, seconds."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import StandardScaler

from cbdl import nets
from cbdl.bayes import likelihoods, priors
from cbdl.bayes.methods import Method
from cbdl.bayes.train import TrainingWarning
from cbdl.model import CBDL
from cbdl.studies.methods.tables import Table

ALPHA = 0.05
SAMPLES = 64
HIDDEN = (50,)
PRIORS = tuple(priors.Normal(0.0, scale, fan_in=True) for scale in (1.0, 3.0, 9.0))
"""Standard deviations 1, 3 and 9 over the root of the fan-in."""


@dataclass(frozen=True)
class Scores:
    """`score`: root mean square error, or the share of rows whose class is wrong. None: not known."""

    score: float
    nll: float | None
    coverage: float | None
    size: float | None
    seconds: float | None
    improving: bool = False
    """Whether the training was over before it was done."""


def of_method(
    table: Table, method: Method, seed: int, hidden: tuple[int, ...] = HIDDEN
) -> tuple[Scores, CBDL]:
    """Three members, one per prior, by `method`; score and NLL are those of the members' average."""
    size = table.X.shape[1]
    likelihood: likelihoods.Likelihood
    if table.kind == "real":
        likelihood = likelihoods.Normal(nets.mlp(size, 1, hidden=hidden))
    else:
        likelihood = likelihoods.Categorical(nets.mlp(size, table.classes, hidden=hidden))
    model = CBDL(PRIORS, [likelihood], method, seed=seed, verbose=False)
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", TrainingWarning)
        model.fit(table.X, table.y)
    seconds = time.perf_counter() - start
    improving = any("still improving" in str(warning.message) for warning in heard)
    scores = _real if table.kind == "real" else _classes
    return scores(model, table, seconds, improving), model


def _real(model: CBDL, table: Table, seconds: float, improving: bool) -> Scores:
    credal = model.predict(table.X_test, SAMPLES)
    loc, scale = (np.asarray(x).reshape(len(table.y_test), -1) for x in (credal.loc, credal.scale))
    z = (table.y_test[:, None] - loc) / scale
    density = -0.5 * z**2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    region = credal.region(ALPHA)
    return Scores(
        float(np.sqrt(np.mean((loc.mean(1) - table.y_test) ** 2))),
        float(-np.mean(logsumexp(density, axis=1) - np.log(loc.shape[1]))),
        float(np.mean(region.contains(table.y_test))),
        float(np.mean(region.measure)),
        seconds,
        improving,
    )


def _classes(model: CBDL, table: Table, seconds: float, improving: bool) -> Scores:
    credal = model.predict(table.X_test, SAMPLES)
    average, region = np.asarray(credal.probs).mean(-2), credal.region(ALPHA)
    right = average[np.arange(len(table.y_test)), table.y_test]
    return Scores(
        float(np.mean(average.argmax(1) != table.y_test)),
        float(-np.mean(np.log(right.clip(1e-12)))),
        float(np.mean(region.contains(table.y_test))),
        float(np.mean(region.measure)),
        seconds,
        improving,
    )


def of_mlp(table: Table, seed: int, hidden: tuple[int, ...] = HIDDEN) -> Scores:
    """scikit-learn's network of the same width on standardised data; its own settings but for `max_iter`, so that it
    converges by its own rule.
    """
    scaler, settings = StandardScaler().fit(table.X), {"hidden_layer_sizes": hidden, "max_iter": 2000}
    X, X_test = scaler.transform(table.X), scaler.transform(table.X_test)
    start = time.perf_counter()
    if table.kind == "classes":
        classifier = MLPClassifier(**settings, random_state=seed).fit(X, table.y)
        seconds = time.perf_counter() - start
        probs = classifier.predict_proba(X_test)
        right = probs[np.arange(len(table.y_test)), table.y_test]
        wrong = float(np.mean(probs.argmax(1) != table.y_test))
        return Scores(wrong, float(-np.mean(np.log(right.clip(1e-12)))), None, None, seconds)
    loc, scale = table.y.mean(), table.y.std()
    regressor = MLPRegressor(**settings, random_state=seed).fit(X, (table.y - loc) / scale)
    seconds = time.perf_counter() - start
    error = loc + scale * regressor.predict(X_test) - table.y_test
    return Scores(float(np.sqrt(np.mean(error**2))), None, None, None, seconds)
