"""The estimators keep scikit-learn's conventions, and say what the credal set says."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator
from torch import nn

import cbdl
from cbdl import CredalClassifier, CredalRegressor, recipe
from cbdl.estimators import base
from cbdl.estimators.weights import class_weights
from rounding import assert_same

IRIS = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])
LIGHT: dict[str, Any] = {"architectures": ((8,),), "steps": 60, "plausible": 0, "calibration": None}
"""Three members per kind of noise, none left out, no folds: a fit in about a second."""


def light(**more: Any) -> CredalClassifier:
    return CredalClassifier(**{**LIGHT, "random_state": 0, **more})


def light_regressor(**more: Any) -> CredalRegressor:
    return CredalRegressor(**{**LIGHT, "random_state": 0, **more})


def curve(rows: int = 80, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (rows, 1))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=rows)


def pair(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two outputs in different units."""
    X, y = curve(rows, seed)
    other = 100 * X[:, 0] + 20 * np.random.default_rng(1000 + seed).normal(size=rows)
    return X, np.c_[y, other]


@pytest.fixture(scope="module")
def iris() -> CredalClassifier:
    return light().fit(*IRIS)


@pytest.fixture(scope="module")
def line() -> CredalRegressor:
    return light_regressor(steps=200).fit(*curve())


@pytest.fixture(scope="module")
def plane() -> CredalRegressor:
    return light_regressor(steps=300).fit(*pair(200))


# --- scikit-learn's own checks ---------------------------------------------------------------------------------


BRIEF = {**LIGHT, "method": cbdl.MCLMC(chains=2, draws=4, thin=1, warmup=20, optimise=6)}
"""For checks of everything but what was learned."""
SCORED = ("check_classifiers_train", "check_regressors_train", "check_class_weight_classifiers")
"""Checks that want a good fit."""


def checks() -> list[Any]:
    """All checks but the one of arrays of other libraries, which an estimator must say it takes."""
    every = [
        pair
        for settings, scored in ((BRIEF, False), (LIGHT, True))
        for made in (CredalClassifier(**settings), CredalRegressor(**settings, noise="learned"))
        for pair in estimator_checks_generator(made)
        if (pair[1].func.__name__ in SCORED) is scored
    ]
    return [
        pytest.param(made, check, id=f"{type(made).__name__}-{check.func.__name__}")
        for made, check in every
        if check.func.__name__ != "check_array_api_input"
    ]


@pytest.mark.parametrize(("estimator", "check"), checks())
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(clone(estimator))


def test_the_maximin_label_learns_the_blobs_of_the_check() -> None:
    """What check_classifiers_train asks for beside the equality of two rules."""
    X, y = make_blobs(n_samples=300, random_state=0)
    clf = light(decision="maximin").fit(X, y)
    assert clf.score(X, y) > 0.83
    np.testing.assert_allclose(clf.predict_proba(X).sum(1), 1)
    likeliest = clf.predict_credal(X).probs.argmax(-1)
    agree = (likeliest == likeliest[:, :1]).all(1)
    assert agree.mean() > 0.7
    np.testing.assert_array_equal(clf.predict(X)[agree], clf.predict_proba(X).argmax(1)[agree])


# --- answers are those of the credal set ---------------------------------------------------------------------


def test_the_estimator_is_cbdl_with_the_same_seed() -> None:
    first = np.unique(np.c_[IRIS], axis=0, return_index=True)[1]
    X, y = (
        a[np.sort(first)] for a in IRIS
    )  # one flower is there twice, which an estimator takes as a weight
    clf = light().fit(X, y)
    model = cbdl.CBDL(
        recipe.PRIORS,
        [
            cbdl.likelihoods.Categorical(cbdl.nets.mlp(4, 3, h, "silu", recipe.quantiles(X)))
            for h in LIGHT["architectures"]
        ],
        recipe.method(LIGHT["steps"], "classification"),
        chains="extremes",
        seed=0,
        dtype=torch.float64,
        verbose=False,
    ).fit(X, y)
    assert np.array_equal(clf.predict_credal(X).probs, model.predict(X, 32).probs)


def test_answers_are_read_off_the_credal_set(iris: CredalClassifier) -> None:
    X, _ = IRIS
    sets = iris.predict_credal(X)
    assert sets.num_extremes == len(recipe.PRIORS) * recipe.CHAINS
    assert np.array_equal(iris.predict_proba(X), sets.center())
    assert np.array_equal(iris.predict(X), sets.center().argmax(1))
    for method in ("union", "lower-density", "minimal"):
        mask = iris.predict_set(X, alpha=0.1, method=method)
        assert mask.dtype == bool
        assert np.array_equal(mask, sets.region(0.1, method).mask)


def test_the_decision_can_be_the_best_one_in_the_worst_case(iris: CredalClassifier) -> None:
    X, _ = IRIS
    other = copy.copy(iris).set_params(decision="maximin")
    assert iris.predict_credal(X).decide("maximin")[np.arange(len(X)), other.predict(X)].all()
    with pytest.raises(ValueError, match="decision is 'vote'"):
        other.set_params(decision="vote").predict(X)


def test_sets_grow_with_confidence(iris: CredalClassifier) -> None:
    small, large = (iris.predict_set(IRIS[0], alpha) for alpha in (0.3, 0.01))
    assert (large >= small).all()
    assert large.sum() > small.sum()


def test_the_number_of_rows_at_once_changes_nothing(
    iris: CredalClassifier, line: CredalRegressor, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, grid = IRIS[0], np.linspace(-3, 3, 20)[:, None]
    whole = iris.predict_proba(X), iris.predict_set(X), *line.predict_interval(grid)
    monkeypatch.setattr(base, "ROWS", 7)
    parts = iris.predict_proba(X), iris.predict_set(X), *line.predict_interval(grid)
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


# --- regression ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["union", "lower-density", "minimal"])
def test_the_interval_is_the_hull_of_the_region(line: CredalRegressor, method: str) -> None:
    X = np.linspace(-4, 4, 30)[:, None]
    lower, upper = line.predict_interval(X, 0.1, method)
    region = line.predict_interval(X, 0.1, method, return_region=True)
    assert lower.shape == upper.shape == (30,)
    np.testing.assert_array_equal(lower, np.nanmin(region.intervals, (1, 2)))
    np.testing.assert_array_equal(upper, np.nanmax(region.intervals, (1, 2)))
    assert (region.lower_probability >= 0.9 - 1e-9).all()


def test_the_mean_is_that_of_the_centre(line: CredalRegressor) -> None:
    X = np.linspace(-4, 4, 9)[:, None]
    np.testing.assert_allclose(line.predict(X), line.predict_credal(X).center().mean()[:, 0])


def test_intervals_cover_new_data_and_widen_far_from_it(line: CredalRegressor) -> None:
    X, y = curve(300, seed=1)
    lower, upper = line.predict_interval(X, alpha=0.05)
    assert ((lower <= y) & (y <= upper)).mean() > 0.9
    far_lower, far_upper = line.predict_interval([[-10.0], [10.0]])
    assert (far_upper - far_lower).min() > 3 * (upper - lower).mean()


def test_several_outputs_are_covered_at_once(plane: CredalRegressor) -> None:
    X, Y = pair(300, seed=1)
    assert plane.predict(X).shape == (300, 2)
    assert plane.score(X, Y) > 0.9
    X, Y = X[:40], Y[:40]
    for method in (None, "union"):
        lower, upper = plane.predict_interval(X, 0.05, method)
        assert lower.shape == upper.shape == (40, 2)
        # of 40 rows covered with 0.95, 32 or fewer with probability 2e-4 (scipy.stats.binom.cdf)
        assert ((lower <= Y) & (upper >= Y)).all(1).sum() > 32
        inside = plane.predict_interval(X, 0.05, method, return_region=True).contains(Y)
        assert (((lower <= Y) & (upper >= Y)).all(1) >= inside).all()
    with pytest.raises(ValueError, match="box around a MinimalRegion is not known"):
        plane.predict_interval(X, 0.05, "minimal")


def test_one_column_of_targets_is_answered_by_one_column() -> None:
    X, y = curve()
    flat, column = light_regressor().fit(X, y), light_regressor().fit(X, y[:, None])
    assert column.predict(X).shape == (80, 1)
    assert np.array_equal(flat.predict(X), column.predict(X)[:, 0])
    assert column.predict_interval(X)[0].shape == (80, 1)


def test_kinds_of_noise_and_of_predictive() -> None:
    X, y = curve()
    fixed = light_regressor(noise=0.3, predictive="normal").fit(X, y)
    assert isinstance(fixed.predict_credal(X), cbdl.NormalCredalSet)
    assert (fixed.predict_credal(X).scale > 0.3).all()
    rng = np.random.default_rng(0)
    wide = light_regressor(noise="heteroscedastic", steps=300).fit(X, X[:, 0] * rng.normal(size=80))
    widths = np.subtract(*wide.predict_interval([[0.0], [2.0]])[::-1])
    assert widths[1] > 1.5 * widths[0]
    with pytest.raises(ValueError, match="noise is 'loud'"):
        light_regressor(noise="loud").fit(X, y)


# --- tables, labels, weights -----------------------------------------------------------------------------------


def test_frames_and_words_as_labels() -> None:
    frame = load_iris(as_frame=True).data
    clf = light().fit(frame, pd.Series(NAMES[IRIS[1]]))
    assert list(clf.feature_names_in_) == list(frame.columns)
    assert clf.n_features_in_ == 4
    assert np.array_equal(clf.classes_, NAMES)
    assert set(clf.predict(frame)) == set(NAMES)
    assert clf.score(frame, NAMES[IRIS[1]]) > 0.9
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame[frame.columns[::-1]])


def test_in_a_pipeline_with_frames() -> None:
    frame = load_iris(as_frame=True).data
    pipe = make_pipeline(StandardScaler(), light()).set_output(transform="pandas").fit(frame, IRIS[1])
    assert list(pipe[-1].feature_names_in_) == list(frame.columns)
    assert pipe.score(frame, IRIS[1]) > 0.9
    weighted = make_pipeline(StandardScaler(), light())
    weighted.fit(*IRIS, credalclassifier__sample_weight=(IRIS[1] > 0).astype(float))
    assert 0 not in weighted.predict(IRIS[0])


def test_in_a_search_and_in_cross_validation() -> None:
    search = GridSearchCV(light(), {"architectures": [((2,),), ((8,),)], "samples": [8]}, cv=2)
    assert search.fit(*IRIS).best_score_ > 0.85
    assert search.best_estimator_.predict_set(IRIS[0]).shape == (150, 3)
    scores = cross_val_score(light_regressor(steps=400), *curve(), cv=3, scoring="r2")
    assert scores.min() > 0.5


def test_weights_are_repetitions_for_several_outputs_too() -> None:
    X, y = curve(30)
    Y, w = np.c_[y, X[:, 0] - y], np.arange(30) % 3
    heavy = light_regressor().fit(X, Y, sample_weight=w)
    often = light_regressor().fit(X.repeat(w, 0), Y.repeat(w, 0))
    # the same data to the last bit, so that chains, which are chaotic, go the same way
    assert np.array_equal(heavy.predict(X), often.predict(X))
    assert np.array_equal(heavy.predict_interval(X), often.predict_interval(X))


def test_the_size_of_the_network_does_not_count_a_row_twice() -> None:
    """300 rows are few, and 600 many; but 300 rows twice are 300 rows."""
    X = np.random.default_rng(0).normal(size=(300, 2))
    once, twice = (
        cbdl.CredalClassifier(steps=60, calibration=None, plausible=0.0).fit(own, own[:, 0] > 0)
        for own in (X, np.vstack([X, X]))
    )
    sizes = [{part.cohort.layout.size for part in own.model_.learned.parts.values()} for own in (once, twice)]
    assert sizes[0] == sizes[1]


def test_rows_without_weight_take_no_part_in_minibatches() -> None:
    X, y = IRIS
    weights = np.arange(150) % 3 > 0
    small = cbdl.MCLMC(chains=1, draws=5, thin=1, warmup=20, optimise=30, batch_size=40)
    heavy = light(method=small).fit(X, y, sample_weight=weights)
    fewer = light(method=small).fit(X[weights], y[weights])
    assert np.array_equal(heavy.predict_proba(X), fewer.predict_proba(X))


def test_weights_and_repetitions_are_calibrated_alike() -> None:
    X, y = curve(40)
    w = np.arange(40) % 3
    settings = {"steps": 60, "plausible": 0, "calibration": "folds"}
    heavy = light_regressor(**settings).fit(X, y, sample_weight=w)
    often = light_regressor(**settings).fit(X.repeat(w, 0), y.repeat(w))
    assert heavy.conformity_ is not None
    assert heavy.conformity_.counts.sum() == w.sum()
    assert np.array_equal(heavy.predict_interval(X), often.predict_interval(X))


def test_class_weights_are_sample_weights() -> None:
    X, y = IRIS[0], NAMES[IRIS[1]]
    given = {"versicolor": 3.0, "virginica": 0.5}
    by_class = light(class_weight=given).fit(X, y)
    by_row = light().fit(X, y, sample_weight=[given.get(label, 1.0) for label in y])
    assert np.array_equal(by_class.predict_proba(X), by_row.predict_proba(X))
    with pytest.raises(ValueError, match="class_weight names 'rosa'"):
        light(class_weight={"rosa": 1.0}).fit(X, y)
    with pytest.raises(ValueError, match="class_weight is 'even'"):
        light(class_weight="even").fit(X, y)


def test_balanced_weights_undo_imbalance() -> None:
    X, y = make_blobs([200, 20], centers=np.array([[0.0, 0.0], [1.5, 0.0]]), random_state=0)
    plain, even = (light(class_weight=w).fit(X, y) for w in (None, "balanced"))
    recall = [(clf.predict(X[y == 1]) == 1).mean() for clf in (plain, even)]
    assert recall[1] > recall[0] + 0.2
    labels, weights = (y == 1).astype(int), np.where(y == 1, 10.0, 1.0)
    totals = [
        np.bincount(labels, class_weights("balanced", np.arange(2), labels, w))
        for w in (None, weights / weights.mean())
    ]
    np.testing.assert_allclose(totals, 110.0, rtol=1e-12)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), r"sample_weight has shape \(3,\); it must be one number per row: \(150,\)"),
        (np.r_[1.0, -1.0, np.ones(148)], r"sample_weight\[1\] is -1"),
        (np.zeros(150), "zero for every row"),
        ((IRIS[1] == 2).astype(float), r"one class only \(2\)"),
    ],
)
def test_bad_weights_are_refused(weights: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        light().fit(*IRIS, sample_weight=weights)


# --- copies, seeds, warm starts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy])
def test_copies_answer_the_same(iris: CredalClassifier, plane: CredalRegressor, way: Any) -> None:
    assert_same(way(iris).predict_proba(IRIS[0]), iris.predict_proba(IRIS[0]), dtype=np.float64)
    X = curve()[0]
    assert_same(way(plane).predict(X), plane.predict(X), dtype=np.float64)
    assert way(iris).model_._data is None
    refit = way(iris).set_params(warm_start=True).fit(*IRIS)
    assert refit.score(*IRIS) > 0.9


def test_clones_have_the_parameters_and_nothing_learned(iris: CredalClassifier) -> None:
    made = clone(iris.set_params(priors=None))
    assert made.get_params() == iris.get_params()
    assert not hasattr(made, "model_")


def test_seeds() -> None:
    X, y = curve(30)
    brief = {"method": BRIEF["method"]}
    first, again, other = (light_regressor(**brief, random_state=s).fit(X, y).predict(X) for s in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    source = np.random.RandomState(0)
    one, two = (light_regressor(**brief, random_state=source).fit(X, y).predict(X) for _ in range(2))
    assert not np.array_equal(one, two)
    free = light_regressor(**brief, random_state=None)
    assert not np.array_equal(free.fit(X, y).predict(X), free.fit(X, y).predict(X))


def test_a_warm_start_goes_on_from_the_fit_before() -> None:
    X, y = curve()
    short = cbdl.MCLMC(chains=1, draws=10, thin=1, warmup=20, optimise=0)
    reg = light_regressor(steps=300, warm_start=True).fit(X, y)
    before = reg.score(X, y)
    reg.set_params(method=short).fit(X, y)
    cold = light_regressor(method=short).fit(X, y).score(X, y)
    assert reg.score(X, y) > before - 0.1
    assert cold < 0.5
    with pytest.raises(ValueError, match="set warm_start=False to start again"):
        reg.set_params(architectures=((5,),)).fit(X, y)


def test_a_warm_start_needs_the_same_classes() -> None:
    X, y = IRIS
    clf = light(method=BRIEF["method"], warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="warm_start: y holds the classes"):
        clf.fit(X[:100], y[:100])
    assert light(method=BRIEF["method"]).fit(X, y).fit(X[:100], y[:100]).classes_.tolist() == [0, 1]


def test_a_saved_model_needs_no_pickle(iris: CredalClassifier, tmp_path: Path) -> None:
    iris.model_.save(tmp_path / "iris")
    loaded = cbdl.load(tmp_path / "iris")
    assert_same(loaded.predict(IRIS[0], 32).probs, iris.predict_credal(IRIS[0]).probs, dtype=np.float64)


def test_rounded_targets_bound_the_noise_and_it_is_saved(tmp_path: Path) -> None:
    X, y = curve(200)
    reg = light_regressor(noise="learned", steps=300).fit(X, 10 * np.round(y))
    least = 10 / np.sqrt(12)
    assert (np.asarray(reg.predict_credal(X).scale) > least).all()
    reg.save(tmp_path / "reg")
    again = CredalRegressor.load(tmp_path / "reg")
    assert again.model_.likelihoods[0].resolution == 10  # type: ignore[attr-defined]
    assert_same(again.predict(X), reg.predict(X), dtype=np.float64)
    # what repeats with its row says nothing of rounding
    assert recipe.resolution(X.repeat(2, 0), y.repeat(2)) == 0
    assert recipe.resolution(X, np.c_[y, np.round(y)]) == (0, 1)


# --- settings ------------------------------------------------------------------------------------------------------


def narrow(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 6), nn.Tanh(), nn.Linear(6, outputs))


def test_priors_networks_and_methods_of_ones_own() -> None:
    clf = light(
        priors=[cbdl.priors.Normal(0, 1), cbdl.priors.Laplace(0, 1)],
        architectures=[narrow, (8,)],
        method=cbdl.Laplace(epochs=100, lr=0.05),
    ).fit(*IRIS)
    assert clf.score(*IRIS) > 0.9
    assert clf.predict_credal(IRIS[0]).num_extremes == 4
    same = pickle.loads(pickle.dumps(clf))
    assert_same(same.predict_proba(IRIS[0]), clf.predict_proba(IRIS[0]), dtype=np.float64)
    ensemble = light_regressor(method=cbdl.Ensemble(epochs=300, lr=0.05), warm_start=True)
    X, y = curve()
    assert ensemble.fit(X, y).fit(X, y).score(X, y) > 0.8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"architectures": ()}, "architectures is"),
        ({"architectures": (8,)}, r"architectures\[0\] is 8"),
        ({"architectures": ((0,),)}, "at least 1"),
        ({"activation": "cosine"}, "activation is 'cosine'"),
        ({"steps": 0}, "steps is 0"),
        ({"steps": "60"}, "steps is '60'; give a whole number"),
        ({"steps": 60.5}, r"steps is 60\.5; give a whole number of at least 60"),
        ({"plausible": 2}, "plausible is 2; give a share"),
        ({"plausible": None}, "plausible is None; give a share"),
        ({"calibration": "some"}, "calibration is 'some'; give"),
        ({"priors": []}, "priors is empty; give at least one"),
    ],
)
def test_bad_settings_are_refused_by_fit(settings: dict[str, Any], message: str) -> None:
    clf = light(**settings)
    with pytest.raises(ValueError, match=message):
        clf.fit(*IRIS)


def test_a_missing_input_is_told_with_who_can_answer_it() -> None:
    X, y = IRIS
    clf = light().fit(X, y)
    gap = np.array(X[:3], dtype=np.float64)
    gap[2, 1] = np.nan
    for answer in (clf.predict, clf.predict_proba, clf.predict_set, clf.predict_credal):
        with pytest.raises(ValueError, match=r"contains NaN, at X\[2, 1\]; .*model_.predict_missing\(X\)"):
            answer(gap)
    hull = clf.model_.predict_missing(gap)
    assert hull.origin.completions.tolist() == [1, 1, 5]
    with pytest.raises(ValueError, match="infinity"):
        clf.predict(np.where(np.isnan(gap), np.inf, gap))


def test_what_is_behind_a_mask_is_not_known() -> None:
    X, y = IRIS
    hidden = np.ma.masked_where(np.arange(X.size).reshape(X.shape) == 5, X)
    clf = light().fit(X, y)
    place = np.argwhere(hidden.mask)[0].tolist()
    for answer in (
        lambda: light().fit(hidden, y),
        lambda: clf.predict(hidden),
        lambda: clf.calibrate(hidden, y),
    ):
        with pytest.raises(ValueError, match=re.escape(f"X{place} is masked; remove the row")):
            answer()
    with pytest.raises(ValueError, match=r"y\[2\] is masked"):
        light_regressor().fit(X, np.ma.masked_where(np.arange(len(X)) == 2, X[:, 0]))
    light().fit(np.ma.masked_greater(X, 1e9), y)


@pytest.mark.parametrize("kind", ["datetime64[s]", "timedelta64[s]"])
def test_dates_are_no_outcomes(kind: str) -> None:
    with pytest.raises(ValueError, match="y holds dates or lengths of time; give numbers"):
        light_regressor().fit(np.zeros((9, 1)), np.arange(9).astype(kind))


def test_a_noise_that_is_none_is_refused_under_its_own_name() -> None:
    with pytest.raises(ValueError, match="noise is 'foo'"):
        CredalRegressor(noise="foo").fit([[0.0], [1.0]], [0.0, 1.0])
