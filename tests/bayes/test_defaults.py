"""Methods without any argument: as good as scikit-learn's network of the same width."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import StandardScaler

import cbdl
from cbdl.bayes.methods import METHODS, Laplace, MeanField

HIDDEN = (12,)
PRIORS = [cbdl.priors.Normal(0.0, 3.0, fan_in=True)]
LONG = {"HMC", "MCLMC", "LowRank", "SGHMC"}
KINDS: list[Any] = [pytest.param(m, marks=pytest.mark.slow) if m.__name__ in LONG else m for m in METHODS]
ALIKE = [
    k if k in (Laplace, MeanField) else pytest.param(m, marks=pytest.mark.slow)
    for k, m in zip(KINDS, METHODS, strict=True)
]
"""Classes take the machinery of the regression; in the quick tests a mode and a variational posterior stand for all."""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A lower cap keeps the test quick, and can only make a method worse."""
    slow = request.node.get_closest_marker("slow") is not None
    monkeypatch.setattr("cbdl.bayes.train.CAP", 2500 if slow else 1000)


@cache
def waves() -> tuple[Any, Any, Any, Any]:
    source = np.random.default_rng(0)
    X = source.uniform(-2, 2, (400, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] / 2 + 0.2 * source.standard_normal(400)
    return X[:200], y[:200], X[200:], y[200:]


@cache
def wines() -> tuple[Any, Any, Any, Any]:
    X, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = StandardScaler().fit_transform(X)[order], y[order]
    return X[:89], y[:89], X[89:], y[89:]


@cache
def ordinary_error() -> float:
    X, y, X_test, y_test = waves()
    plain = MLPRegressor(hidden_layer_sizes=HIDDEN, max_iter=2000, random_state=0).fit(X, y)
    return float(np.sqrt(np.mean((plain.predict(X_test) - y_test) ** 2)))


@cache
def ordinary_mistakes() -> int:
    X, y, X_test, y_test = wines()
    plain = MLPClassifier(hidden_layer_sizes=HIDDEN, max_iter=2000, random_state=0).fit(X, y)
    return int((plain.predict(X_test) != y_test).sum())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_regression_is_as_good_as_an_ordinary_networks(kind: Any) -> None:
    X, y, X_test, y_test = waves()
    model = cbdl.CBDL(
        PRIORS, [cbdl.likelihoods.Normal(cbdl.nets.mlp(3, 1, hidden=HIDDEN))], kind(), verbose=False
    )
    loc = np.asarray(model.fit(X, y).predict(X_test, 64).loc).mean((1, 2))
    assert np.sqrt(np.mean((loc - y_test) ** 2)) < 1.1 * ordinary_error()


@pytest.mark.parametrize("kind", ALIKE, ids=lambda kind: kind.__name__)
def test_a_classification_is_as_good_as_an_ordinary_networks(kind: Any) -> None:
    # one chain, the default of SGHMC, falls behind here: docs/results/methods.md
    method = kind(chains=4) if kind.__name__ == "SGHMC" else kind()
    X, y, X_test, y_test = wines()
    net = cbdl.nets.mlp(13, 3, hidden=HIDDEN)
    model = cbdl.CBDL(PRIORS, [cbdl.likelihoods.Categorical(net)], method, verbose=False).fit(X, y)
    decision = np.asarray(model.predict(X_test, 64).probs)[:, 0].argmax(1)
    # of 89 rows a standard error of a share of 3 per cent is one and a half
    assert (decision != y_test).sum() <= ordinary_mistakes() + 3
