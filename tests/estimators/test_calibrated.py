"""Calibrated regions hold a share of 1 - alpha of new outcomes; plain ones are those of the credal set."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

from cbdl import CredalClassifier, CredalRegressor
from cbdl.prediction import averaged

LIGHT: dict[str, Any] = {"architectures": ((8,),), "steps": 100, "random_state": 0, "plausible": 0}
SEEDS = range(3)
FRESH = 300


def wave(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Tails that are heavier than any Normal's: by itself a Normal noise would not keep its promise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (rows, 1))
    return X, np.sin(2 * X[:, 0]) + 0.2 * rng.standard_t(3, size=rows)


def blobs(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Three classes that overlap."""
    centres = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])
    return tuple(make_blobs(rows, centers=centres, random_state=seed))


def regressor(**more: Any) -> CredalRegressor:
    return CredalRegressor(**{**LIGHT, "noise": "learned", "predictive": "normal", **more})


def classifier(**more: Any) -> CredalClassifier:
    return CredalClassifier(**{**LIGHT, **more})


@pytest.fixture(scope="module")
def line() -> CredalRegressor:
    return regressor(calibration="folds").fit(*wave(80, 0))


@pytest.fixture(scope="module")
def flowers() -> CredalClassifier:
    return classifier(calibration="folds").fit(*blobs(80, 0))


def inside(fitted: Any, X: np.ndarray, y: np.ndarray, alpha: float, **more: Any) -> np.ndarray:
    """(rows,): whether the region holds the outcome."""
    if isinstance(fitted, CredalRegressor):
        lower, upper = fitted.predict_interval(X, alpha, **more)
        return (lower <= y) & (y <= upper)
    return fitted.predict_set(X, alpha, **more)[np.arange(len(X)), y]


# --- coverage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["line", "classes"])
def test_regions_that_training_rows_calibrate_cover_fresh_rows(kind: str) -> None:
    """No theorem gives 1 - alpha for folds (only 1 - 2 alpha); that it is reached in practice is what is tested.

    Coverage of one fit varies by its n calibration rows and by its fresh ones, alpha (1 - alpha) (1 / n + 1 / FRESH).
    """
    n, alpha, shares = 80, 0.1, []
    for seed in SEEDS:
        make, data = (regressor, wave) if kind == "line" else (classifier, blobs)
        fitted = make(calibration="folds", random_state=seed).fit(*data(n, seed))
        shares.append(inside(fitted, *data(FRESH, 100 + seed), alpha).mean())
    error = math.sqrt(alpha * (1 - alpha) * (1 / n + 1 / FRESH) / len(shares))
    assert np.mean(shares) > 1 - alpha - 4 * error


def test_intervals_that_rows_of_their_own_calibrate_cover_exactly_as_they_promise(
    line: CredalRegressor,
) -> None:
    """Split conformal prediction: coverage given n = 99 rows is Beta(k, 100 - k), k = 90, whatever the model."""
    alpha, runs, n = 0.1, 12, 99
    own = pickle.loads(pickle.dumps(line))
    shares = []
    for run in range(runs):
        own.calibrate(*wave(n, 1000 + run))
        shares.append(inside(own, *wave(FRESH, 2000 + run), alpha).mean())
    law = stats.betabinom(FRESH, 90, 10)
    assert abs(np.mean(shares) - 0.9) < 4 * law.std() / FRESH / math.sqrt(runs)


def test_sets_that_rows_of_their_own_calibrate_cover_at_least_what_they_promise(
    flowers: CredalClassifier,
) -> None:
    """The same for classes, whose levels may tie: then coverage is more, never less."""
    alpha, runs, n = 0.2, 12, 99
    own = pickle.loads(pickle.dumps(flowers))
    shares = []
    for run in range(runs):
        own.calibrate(*blobs(n, 1000 + run))
        shares.append(inside(own, *blobs(FRESH, 2000 + run), alpha).mean())
    law = stats.betabinom(FRESH, 80, 20)
    assert np.mean(shares) > 0.8 - 4 * law.std() / FRESH / math.sqrt(runs)


# --- which region --------------------------------------------------------------------------------------------------


def test_calibrated_regions_are_those_of_the_level_that_is_needed(
    line: CredalRegressor, flowers: CredalClassifier
) -> None:
    X = wave(40, 5)[0]
    assert line.conformity_ is not None
    at = line.predict_credal(X).region_at_level(log_survival=line.conformity_.needed(0.1))
    np.testing.assert_array_equal(line.predict_interval(X, 0.1), at.hull())
    X = blobs(40, 5)[0]
    assert flowers.conformity_ is not None
    # in the folds that the level comes from, every member has one chain
    at = averaged(flowers.predict_credal(X)).region_at_level(log_survival=flowers.conformity_.needed(0.1))
    np.testing.assert_array_equal(flowers.predict_set(X, 0.1), at.mask)


@pytest.mark.parametrize("plain", [{"calibration": None}, {"method": "union"}, {"method": "minimal"}])
def test_a_region_that_is_named_is_the_plain_one(
    line: CredalRegressor, flowers: CredalClassifier, plain: dict[str, Any]
) -> None:
    method = plain.get("method", "union")
    X = wave(40, 5)[0]
    np.testing.assert_array_equal(
        line.predict_interval(X, 0.1, **plain), line.predict_credal(X).region(0.1, method).hull()
    )
    X = blobs(40, 5)[0]
    np.testing.assert_array_equal(
        flowers.predict_set(X, 0.1, **plain), flowers.predict_credal(X).region(0.1, method).mask
    )


def test_a_fit_without_calibration_has_plain_regions_until_rows_are_given() -> None:
    X, y = blobs(60, 0)
    clf = classifier(steps=60, calibration=None).fit(X, y)
    assert clf.conformity_ is None
    assert np.array_equal(clf.predict_set(X), clf.predict_set(X, calibration=None))
    assert clf.calibrate(*blobs(200, 1)) is clf
    assert clf.conformity_.how == "held-out outcomes"
    assert len(clf.conformity_.counts) == 200
    assert not np.array_equal(clf.predict_set(X), clf.predict_set(X, calibration=None))


def test_calibration_replaces_what_fit_learned(line: CredalRegressor) -> None:
    own = pickle.loads(pickle.dumps(line))
    assert own.conformity_.how == "5 folds"
    X, y = wave(50, 7)
    before = own.predict_interval(X, 0.1)
    wide = own.calibrate(X, y + np.where(np.arange(50) % 2, 30.0, -30.0)).predict_interval(X, 0.1)
    assert (wide[1] - wide[0] > 50).all()
    own.fit(*wave(80, 0))
    np.testing.assert_allclose(own.predict_interval(X, 0.1), before, rtol=1e-9)


def test_weights_calibrate_without_training_again() -> None:
    X, y = wave(80, 0)
    reg = regressor(calibration="weights").fit(X, y)
    assert reg.conformity_ is not None
    assert "left out by weights" in reg.conformity_.how
    assert inside(reg, *wave(FRESH, 9), 0.1).mean() > 0.75


def test_too_few_rows_leave_the_plain_region() -> None:
    """18 outcomes can tell 0.9 of new ones, not 0.95: that takes 19."""
    reg = regressor(steps=60, calibration="folds").fit(*wave(18, 0))
    X = wave(20, 1)[0]
    np.testing.assert_array_equal(
        reg.predict_interval(X, 0.05), reg.predict_interval(X, 0.05, calibration=None)
    )
    assert not np.array_equal(reg.predict_interval(X, 0.1), reg.predict_interval(X, 0.1, calibration=None))


@pytest.mark.parametrize("alpha", [0.01, 0.5, 0.99])
def test_no_set_is_empty(line: CredalRegressor, flowers: CredalClassifier, alpha: float) -> None:
    X = 3 * blobs(200, 3)[0]
    for calibration in ("fit", None):
        assert flowers.predict_set(X, alpha, calibration=calibration).any(1).all()
        lower, upper = line.predict_interval(X[:, :1], alpha, calibration=calibration)
        assert (lower <= upper).all()


def test_levels_are_those_of_the_form_that_predicts() -> None:
    """The same fit asked for Normals and for mixtures: other distributions, other levels."""
    X, y = wave(60, 0)
    normal = regressor(steps=60, calibration="folds").fit(X, y)
    mixture = regressor(steps=60, calibration="folds", predictive="mixture").fit(X, y)
    for fitted in (normal, mixture):
        assert fitted.conformity_ is not None
        levels = fitted.model_.conformity(predictive=fitted.predictive).log_survival
        np.testing.assert_array_equal(fitted.conformity_.log_survival, levels)
    assert not np.array_equal(normal.conformity_.log_survival, mixture.conformity_.log_survival)
    with pytest.raises(ValueError, match="predictive is 'other'"):
        normal.model_.conformity(predictive="other")


# --- refusals ------------------------------------------------------------------------------------------------------


def test_what_cannot_calibrate_is_refused(line: CredalRegressor, flowers: CredalClassifier) -> None:
    with pytest.raises(NotFittedError):
        regressor().calibrate(*wave(20, 0))
    X, y = blobs(20, 0)
    with pytest.raises(ValueError, match=r"y holds .*7.*; the classes of fit are \[0, 1, 2\]"):
        flowers.calibrate(X, np.where(y == 1, 7, y))
    with pytest.raises(ValueError, match="expecting 2 features"):
        flowers.calibrate(X[:, :1], y)
    with pytest.raises(ValueError, match=r"calibration is 'folds'; give \"fit\" or None"):
        line.predict_interval(wave(3, 0)[0], calibration="folds")
    with pytest.raises(ValueError, match="calibration is 'often'"):
        regressor(calibration="often").fit(*wave(20, 0))
