"""Scores, foreign rows and errors of the tables study against closed forms and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import KFold, cross_val_predict

from cbdl.credal import MixtureCredalSet, NormalCredalSet
from cbdl.studies.tables import foreign, peers, scores

RNG = np.random.default_rng(0)


def test_scores_of_a_normal_are_those_of_scipy():
    loc, scale, y = RNG.normal(size=40), RNG.uniform(0.5, 2, 40), RNG.normal(size=40)
    numbers = scores.line(NormalCredalSet(loc[:, None], scale[:, None]), y)
    z = (y - loc) / scale
    crps = scale * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    # sums of 40 terms of order 1: some hundred roundings
    assert numbers["nll"] == pytest.approx(-stats.norm.logpdf(y, loc, scale).mean(), rel=1e-13)
    assert numbers["rmse"] == pytest.approx(np.sqrt(np.mean((loc - y) ** 2)), rel=1e-13)
    assert numbers["crps"] == pytest.approx(crps.mean(), rel=1e-12)


def test_the_centre_is_the_average_of_members_not_of_their_scores():
    loc = np.array([[[0.0, 1.0], [4.0, 5.0]]])
    numbers = scores.line(MixtureCredalSet(loc, np.ones_like(loc)), np.array([0.5]))
    density = stats.norm.pdf(0.5, [0.0, 1.0, 4.0, 5.0]).mean()
    assert numbers["nll"] == pytest.approx(-np.log(density), rel=1e-13)
    assert numbers["rmse"] == pytest.approx(2.0)


def test_intervals_that_hold_the_outcome_score_their_width_and_others_more():
    y = np.array([0.0, 1.0, 2.0, 3.0])
    numbers = scores.interval(y - 1, y + np.array([1, 1, 1, -0.5]), y, unit=2.0)
    assert numbers["coverage"] == 0.75
    assert numbers["width"] == pytest.approx((2 + 2 + 2 + 0.5) / 4 / 2)
    assert numbers["interval_score"] == pytest.approx((2 + 2 + 2 + 0.5 + 40 * 0.5) / 4 / 2)


def test_scores_of_classes_are_those_of_scikit_learn():
    probs, y = RNG.dirichlet(np.ones(4), 200), RNG.integers(0, 4, 200)
    numbers = scores.classes(probs, y)
    assert numbers["nll"] == pytest.approx(log_loss(y, probs, labels=range(4)), rel=1e-4)
    assert numbers["accuracy"] == np.mean(probs.argmax(1) == y)


def test_an_impossible_class_has_a_large_but_finite_loss():
    numbers = scores.classes(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1, 1]))
    assert numbers["nll"] == pytest.approx(-np.log(scores.LEAST) / 2, rel=1e-6)


def test_sets_are_counted():
    mask = np.array([[True, False], [True, True], [False, False], [False, True]])
    numbers = scores.sets(mask, np.array([0, 1, 1, 0]))
    assert numbers == {"coverage": 0.5, "size": 1.0, "empty": 0.25, "vacuous": 0.25}


def test_detection_is_the_area_under_the_curve():
    clean, strange = RNG.normal(size=50), RNG.normal(0.7, 1, 60).round(1)
    numbers = scores.detected(clean, {"strange": strange})
    truth = roc_auc_score(np.repeat([0, 1], [50, 60]), np.concatenate([clean, strange]))
    assert numbers["auroc_strange"] == pytest.approx(truth, abs=1e-12)
    assert numbers["epistemic_strange"] == pytest.approx(strange.mean())


def test_means_are_of_what_all_runs_have():
    runs = [{"nll": 1.0, "rmse": 3.0}, {"nll": 2.0}]
    assert scores.means(runs) == {"nll": 1.5}
    assert scores.error(runs, "nll") == pytest.approx(0.5)
    assert scores.error(runs[:1], "nll") is None


def test_a_shifted_row_has_one_feature_three_deviations_farther_out():
    train = RNG.normal(size=(80, 3)) * [1.0, 10.0, 0.0]
    X = RNG.normal(size=(12, 3)) * [1.0, 10.0, 0.0]
    moved = (foreign.shifted(X, train) - X) / np.where(train.std(0) > 0, train.std(0), 1)
    assert (np.abs(moved).round(12) == 3).sum() == 12
    assert (moved[:, 2] == 0).all()
    outer = np.abs(foreign.shifted(X, train) - train.mean(0)) >= np.abs(X - train.mean(0))
    assert outer.all()


@pytest.mark.parametrize("pixels", [False, True])
def test_scrambling_keeps_the_values_of_a_column_or_of_a_row(pixels):
    X = RNG.normal(size=(30, 5))
    mixed = foreign.scrambled(X, 1, pixels)
    axis = 1 if pixels else 0
    np.testing.assert_array_equal(np.sort(mixed, axis), np.sort(X, axis))
    assert not (np.sort(mixed, 1 - axis) == np.sort(X, 1 - axis)).all()


def test_the_error_of_a_regressor_is_taken_on_rows_that_it_has_not_seen(monkeypatch):
    X = RNG.normal(size=(60, 40))
    y = X[:, 0] + RNG.normal(size=60)
    folds = KFold(5, shuffle=True, random_state=3)
    truth = np.sqrt(np.mean((cross_val_predict(LinearRegression(), X, y, cv=folds) - y) ** 2))
    scale = peers.error_scale(LinearRegression(), X, y, 3)
    assert scale == pytest.approx(truth)
    assert scale > 1.3 * np.sqrt(np.mean((LinearRegression().fit(X, y).predict(X) - y) ** 2))
    monkeypatch.setattr(peers, "FEW", 50)
    held = peers.error_scale(LinearRegression(), X, y, 3)
    assert held != scale
    assert held > 1
