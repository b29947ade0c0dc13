"""What an estimator does when nothing is said: it learns, drops who is refuted, calibrates, and passes every check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split
from sklearn.utils.estimator_checks import check_estimator

from cbdl import CredalClassifier, CredalRegressor, recipe


def halves(load: Any) -> tuple[Any, ...]:
    X, y = load(return_X_y=True)
    return tuple(
        train_test_split(X, y, test_size=0.25, random_state=0, stratify=y if len(set(y)) < 20 else None)
    )


@pytest.mark.filterwarnings("ignore::cbdl.bayes.plausible.GridWarning")  # so short a run judges roughly
@pytest.mark.parametrize("steps", [600, pytest.param(None, marks=pytest.mark.slow)])
def test_the_defaults_learn_iris_and_keep_both_promises(steps: int | None) -> None:
    """The default model, a twentieth as long in the quick tests."""
    X, X_new, y, y_new = halves(load_iris)
    default = CredalClassifier(steps=steps, random_state=0).fit(X, y)
    X, y = X_new, y_new
    assert default.score(X, y) > 0.92
    judged = default.model_.plausibility
    assert judged is not None
    assert len(judged.verdicts) == len(recipe.PRIORS)
    assert sum(v.kept for v in judged.verdicts) * recipe.CHAINS == default.predict_credal(X).num_extremes
    assert default.conformity_ is not None
    assert default.conformity_.how == "5 folds"
    assert default.conformity_.counts.sum() == 112
    # 38 rows, each covered with 0.95: 29 or fewer with probability 8.5e-5 (scipy.stats.binom.cdf)
    assert default.predict_set(X, 0.05)[np.arange(len(X)), y].sum() > 29


@pytest.mark.slow
@pytest.mark.parametrize(
    ("load", "least"),
    [(load_wine, 0.95), (load_breast_cancer, 0.94), (load_digits, 0.95), (load_diabetes, 0.3)],
)
def test_the_defaults_learn_small_tables(load: Any, least: float) -> None:
    X, X_new, y, y_new = halves(load)
    kind = CredalRegressor if load is load_diabetes else CredalClassifier
    assert kind(random_state=0).fit(X, y).score(X_new, y_new) > least


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the (widest|narrowest) prior")  # the checks' data are what they are
@pytest.mark.parametrize("kind", [CredalClassifier, CredalRegressor])
def test_the_defaults_pass_all_checks(kind: Any) -> None:
    check_estimator(kind(), on_skip=None)
