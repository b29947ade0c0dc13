"""Goals are computed from runs: paired by split, against the toughest of MAPIE's methods, and never guessed."""

from __future__ import annotations

import numpy as np
import pytest

from cbdl.studies.goal import Goal
from cbdl.studies.methods.tables import Table
from cbdl.studies.tables import bde, credal, peers
from cbdl.studies.tables.goals import goals
from cbdl.studies.tables.runs import Runs
from cbdl.studies.tables.sources import sources


def runs(name, rows, training=100):
    X = np.zeros((training, 2))
    kind = sources()[name].kind
    first = Table(name, kind, "", X, X[:, 0], X[:5], X[:5, 0])
    return Runs(sources()[name], first, 2, rows)


def value(reached, what):
    [goal] = [goal for goal in reached if goal.what.startswith(what)]
    return goal


def test_without_runs_nothing_is_reached_and_nothing_missed():
    assert all(goal.value is None and goal.reached is None for goal in goals([], None))


def test_bounds_hold_their_ends():
    assert Goal("", 0.94, 0.985, 0.94).reached
    assert not Goal("", 0.94, 0.985, 0.986).reached
    assert Goal("", None, 0.5, 0.5).reached
    assert Goal("", 4, None, 3.0).reached is False
    assert Goal("", 0.94, 0.985, None).asked == "0.94 to 0.985"


def test_densities_are_means_over_splits_and_bde_is_compared_on_its_own():
    energy = runs("energy", {credal.NAME: {0: {"nll": 0.2}, 1: {"nll": 1.0}}, bde.NAME: {0: {"nll": 0.3}}})
    concrete = runs("concrete", {credal.NAME: {0: {"nll": 2.8}}, bde.NAME: {0: {"nll": 2.7}}})
    reached = goals([energy, concrete], None)
    assert value(reached, "energy: NLL, best published").value == pytest.approx(0.6)
    assert value(reached, "energy: NLL, best published").reached
    assert value(reached, "concrete: NLL, best published").high == 2.93
    assert value(reached, "UCI tables").value == 1  # on split 0 of energy 0.2 is below 0.3
    assert value(reached, "UCI tables").reached is False
    assert value(reached, "power: NLL").reached is None


def test_intervals_are_held_to_the_method_that_is_best_against_them():
    own = {"coverage": 0.95, "interval_score": 1.0}
    energy = {credal.NAME: {0: own}, "MAPIE MLP": {0: {"coverage": 0.9, "interval_score": 2.0}}}
    concrete = {
        credal.NAME: {0: own, 1: {"coverage": 0.97, "interval_score": 3.0}},
        "MAPIE MLP": {0: {"coverage": 0.9, "interval_score": 2.0}},
        "MAPIE credal": {0: {"coverage": 0.9, "interval_score": 0.8}},
    }
    reached = goals([runs("energy", energy), runs("concrete", concrete)], None)
    assert value(reached, "intervals: coverage").value == pytest.approx((0.95 + 0.96) / 2)
    assert value(reached, "intervals: score").value == pytest.approx(1.0 / 0.8)


def test_sets_are_compared_with_methods_that_cover():
    own = {"coverage": 0.96, "size": 1.3, "empty": 0.0, "vacuous": 0.1}
    rows = {
        credal.NAME: {0: own},
        "MAPIE LAC MLP": {0: {"coverage": 0.90, "size": 1.0}},
        "MAPIE APS MLP": {0: {"coverage": 0.96, "size": 1.1}},
        "MAPIE LAC credal": {0: {"coverage": 0.95, "size": 1.25}},
    }
    reached = goals([runs("glass", rows)], None)
    assert value(reached, "sets: size over MAPIE's, same").value == pytest.approx(1.3 / 1.25)
    assert value(reached, "sets: size over MAPIE's, same").reached
    assert value(reached, "sets: size over MAPIE's best of all").value == pytest.approx(1.3 / 1.1)
    assert not value(reached, "sets: size over MAPIE's best of all").reached


def test_seconds_are_of_small_tables_and_the_race_is_a_ratio():
    energy = {
        credal.NAME: {0: {"fit_seconds": 30.0}},
        credal.RACE: {0: {"fit_seconds": 10.0}},
        bde.NAME: {0: {"fit_seconds": 40.0}},
    }
    large = {credal.NAME: {0: {"fit_seconds": 200.0}}}
    reached = goals([runs("energy", energy), runs("friedman", large, 50_000)], None)
    assert value(reached, "longest fit").value == 30
    assert value(reached, "fit over bde's").value == 0.25
    assert value(reached, "fit of 50,000").value == 200


def test_monte_carlo_noise_may_be_small_or_a_small_share():
    def floors(*pairs):
        return {credal.NAME: {i: {"floor": own, "epistemic": whole} for i, (own, whole) in enumerate(pairs)}}

    energy, glass = runs("energy", floors((0.02, 0.1))), runs("glass", floors((0.05, 0.6), (0.05, 0.5)))
    concrete, unknown = runs("concrete", floors((0.03, 0.2))), runs("pima", {credal.NAME: {0: {"nll": 1.0}}})
    goal = value(goals([energy, glass, concrete, unknown], None), "tables with a floor")
    assert goal.low == 3
    assert goal.value == 2
    assert not goal.reached


def test_the_network_of_scikit_learn_must_be_beaten_on_every_table():
    rows = {credal.NAME: {0: {"rmse": 1.0, "nll": 3.0}}, peers.MLP: {0: {"rmse": 2.0, "nll": 2.0}}}
    classes = {
        credal.NAME: {0: {"accuracy": 0.9, "nll": 1.0}},
        peers.MLP: {0: {"accuracy": 0.8, "nll": 2.0}},
    }
    reached = goals([runs("energy", rows), runs("glass", classes)], None)
    assert value(reached, "tables with RMSE").reached
    assert value(reached, "tables with accuracy").reached
    assert value(reached, "tables with NLL").value == 1
    assert not value(reached, "tables with NLL").reached
    assert value(reached, "accuracy better").value == pytest.approx(0.1)
    assert value(reached, "NLL better").value == pytest.approx(0.0)
