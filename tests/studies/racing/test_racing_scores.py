"""Scores against closed forms, curves of coverage against width, and verdicts that can fail."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from cbdl.studies.racing import measures, verdicts
from cbdl.studies.racing.calibration import out_of_fold
from cbdl.studies.racing.forecasts import Forecast
from cbdl.studies.racing.measures import CALIBRATED, CBDL, EBNN, at_width, curve
from cbdl.studies.racing.members import OURS, PAPER
from cbdl.studies.racing.regions import union
from cbdl.studies.racing.runs import IN, RACE, Case, Result
from cbdl.studies.racing.scores import density_scores, energy_score, point_scores
from cbdl.studies.racing.speed import Speed
from cbdl.studies.racing.tables import Table, spread


def test_distances_of_a_known_trajectory():
    y = np.zeros((1, 2, 2))
    loc = np.array([[[[3.0, 4.0], [6.0, 8.0]], [[-3.0, -4.0], [0.0, 0.0]]]])
    own = point_scores(loc, y)
    assert own == pytest.approx({"ade": 2.5, "fde": 5.0, "min_ade": 2.5})


def test_the_energy_score_of_a_normal_on_the_line_is_its_crps():
    rng = np.random.default_rng(0)
    y = np.array([[0.0], [1.5]])
    score = energy_score(rng.normal(size=(4000, 2, 1)), y)
    # CRPS of N(0, 1) at y: y (2 Phi(y) - 1) + 2 phi(y) - 1 / sqrt pi
    assert score == pytest.approx([0.2337, 0.9947], abs=0.04)


def test_densities_are_those_of_the_mixture():
    rng = np.random.default_rng(1)
    loc, scale = rng.normal(size=(5, 3, 4, 2)), rng.uniform(0.5, 2.0, size=(5, 3, 4, 2))
    y = rng.normal(size=(5, 4, 2))
    densities = [
        [multivariate_normal.pdf(y[w, t], loc[w, j, t], np.diag(scale[w, j, t] ** 2)) for j in range(3)]
        for w in range(5)
        for t in range(4)
    ]
    own = density_scores(Forecast(loc, scale), y)
    assert own["nll"] == pytest.approx(-np.log(np.mean(densities, axis=1)).mean())
    assert 0 < own["crps"] < own["energy"] < 5


@pytest.fixture(scope="module")
def normals():
    """Members that are right about the outcomes, but for their means."""
    rng = np.random.default_rng(2)
    loc = 0.3 * rng.normal(size=(400, 3, 6, 2))
    return Forecast(loc, np.ones_like(loc)), rng.normal(size=(400, 6, 2))


def test_curves_pass_through_the_regions_they_are_of(normals):
    forecast, y = normals
    points = curve(forecast, y)
    assert (np.diff(np.array(points), axis=0) >= 0).all()
    own = measures.of_region(union(forecast, 0.1), y)
    one, multi = at_width(points, own["width"])
    assert one == pytest.approx(own["one"], abs=0.02)
    assert multi == pytest.approx(own["multi"], abs=0.03)
    assert at_width(points, 1e-9) == (0.0, 0.0)
    assert at_width(points, 1e9) == (1.0, 1.0)


def test_all_regions_are_measured_and_their_levels_are_ordered(normals):
    forecast, y = normals
    calibration = out_of_fold([(Forecast(forecast.loc[:, [i]], forecast.scale[:, [i]]), y) for i in range(3)])
    own = measures.measured(forecast, y, (forecast, y), calibration, seed=0)["regions"]
    for name in (measures.EBNN_CONFORMAL, measures.CBDL_CONFORMAL, CALIBRATED, measures.TRAJECTORY_BOXES):
        assert own[name]["0.9"]["multi"] >= 0.9
    for levels in own.values():
        for what in ("one", "multi", "width", "area"):
            values = [levels[f"{level:g}"][what] for level in measures.LEVELS]
            assert values == sorted(values)
    assert own[CBDL]["0.9"]["one"] >= own[EBNN]["0.9"]["one"] - 0.02


def result(line_up, test, multi, width, seed=0):
    """What a run would say of a line-up whose regions have this coverage and width at every level."""
    numbers = {
        f"{level:g}": {"one": 1.0, "multi": multi, "width": width, "area": 1.0} for level in measures.LEVELS
    }
    line = [[0.5, 0.5, 0.4], [1.0, 0.8, 0.7], [2.0, 1.0, 0.95]]
    names = (EBNN, CBDL, CALIBRATED)
    own = {"regions": dict.fromkeys(names, numbers), "curves": dict.fromkeys(names, line)}
    return Result(Case("blocked", "in", seed), line_up, {test: {"scores": {"ade": 1.0}, **own}}, {})


def test_verdicts_are_computed():
    speed = Speed(14.0, 24, {PAPER.name: 0.9, OURS.name: 1.2}, 1000)
    table = Table(
        [
            result(OURS.name, IN, 0.95, 1.0),
            result(OURS.name, RACE, 0.9, 1.0),
            result(PAPER.name, RACE, 0.66, 1.0),
        ]
    )
    own = {v.what: v for v in verdicts.goals(table, speed)}
    held = [own[f"multi-step coverage at {level:g}, {IN}"].reached for level in measures.LEVELS]
    assert held == [True, True, False]
    ahead = own[f"{RACE}, at EBNN's 0.9 width: ours - MF EBNN"]
    assert ahead.value == pytest.approx(0.04)  # 0.7 on the curve at width 1, against 0.66
    assert ahead.reached
    assert own["faster, at EBNN's 0.9 width: ours - MF EBNN"].reached is None
    assert own["simulation of 24 traces"].reached
    assert not own[f"1,000 predictions with regions, {OURS.name}"].reached
    assert {v.what: v for v in verdicts.goals(table, None)}["simulation of 24 traces"].reached is None


def test_claims_that_are_a_tie_do_not_hold():
    same = Table([result(PAPER.name, IN, 0.9, 1.0), result(PAPER.name, RACE, 0.8, 1.0)])
    own = {v.what: v for v in verdicts.claims(same)}
    assert own[f"blocked, {IN}: one-step, CBDL - EBNN"].reached is False
    assert own[f"blocked: multi-step, {IN} - {RACE}"].value == pytest.approx(0.1)


def test_spreads_are_over_seeds():
    assert spread([]) is None
    assert spread([1.0]).deviation is None
    assert f"{spread([1.0, 3.0]):.1f}" == "2.0 (1.4)"
