"""The virtual patients against trajectories of simglucose 0.2.11, closed forms, and bad input."""

import warnings
from pathlib import Path

import glucose_oracle
import numpy as np
import pytest
from glucose_scenarios import EVERY, MINUTES, SCENARIOS
from scipy.linalg import expm

from cbdl.studies.pancreas import Meal, Simulation, carbohydrates, patient_names, virtual_patients
from cbdl.studies.pancreas.dynamics import STATES as BODY
from cbdl.studies.pancreas.gut import STATES as GUT

ROOT = Path(__file__).parents[3]
REFERENCE = np.load(glucose_oracle.REFERENCE)


def day(patients, scenario, steps_per_minute=2, minutes=MINUTES):
    glucose, doses, food = SCENARIOS[scenario]()
    simulation = Simulation(patients, glucose, steps_per_minute)
    return simulation.run(doses[:minutes] * patients.basal[:, None], food[:minutes], minutes=minutes)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_all_patients_follow_simglucose_within_a_hundredth(scenario):
    traces = day(virtual_patients(), scenario)[:, EVERY - 1 :: EVERY]
    assert np.abs(traces - REFERENCE[scenario]).max() < 0.01  # mg/dL; kept as float32, up to 4000


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["fasting", "meals", "stress"])
def test_simglucose_itself_where_it_is_installed(scenario):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its imports are old
        pytest.importorskip(
            "simglucose", reason='pip install "setuptools<81" simglucose==0.2.11', exc_type=ImportError
        )
        from_simglucose = glucose_oracle.trajectory("child#007", *SCENARIOS[scenario]())
    trace = day(virtual_patients("child#007"), scenario)[0]
    assert np.abs(trace - from_simglucose).max() < 0.01


def test_the_names_are_those_of_the_reference():
    assert list(patient_names()) == glucose_oracle.patient_names()


def test_basal_insulin_keeps_the_basal_state():
    simulation = Simulation(virtual_patients())
    before = simulation.state
    simulation.step(simulation.patients.basal, minutes=1440)
    # The table holds about ten digits.
    np.testing.assert_allclose(simulation.state, before, rtol=1e-7, atol=1e-6)


def test_insulin_is_the_matrix_exponential_of_its_linear_equations():
    p = virtual_patients("adult#003")
    simulation = Simulation(p)
    start = simulation.state[5:12, 0]
    simulation.step(3 * p.basal, minutes=60)
    # Plasma, action on use, delayed, action on production, liver, two depots; then the constant 1.
    A = np.zeros((8, 8))
    A[0, [0, 4, 5, 6]] = -(p.m2 + p.m4)[0], p.m1[0], p.ka1[0], p.ka2[0]
    A[1, [0, 1, 7]] = (p.p2u / p.Vi)[0], -p.p2u[0], (-p.p2u * p.Ib)[0]
    A[2, [0, 2]] = (p.ki / p.Vi)[0], -p.ki[0]
    A[3, [2, 3]] = p.ki[0], -p.ki[0]
    A[4, [0, 4]] = p.m2[0], -(p.m1 + p.m30)[0]
    A[5, [5, 7]] = -(p.ka1 + p.kd)[0], 3 * p.u2ss[0]
    A[6, [5, 6]] = p.kd[0], -p.ka2[0]
    exact = expm(60 * A) @ np.append(start, 1.0)
    # The fastest rate is below 1/min: a step of h = 1/2 errs by less than (h r)^5 / 120 of what changes.
    np.testing.assert_allclose(simulation.state[5:12, 0], exact[:7], rtol=1e-5)


def test_the_error_falls_with_the_fourth_power_of_the_step():
    p = virtual_patients()
    exact = day(p, "fasting", 8, minutes=60)
    coarse, fine = (np.abs(day(p, "fasting", n, minutes=60) - exact).max() for n in (1, 2))
    assert 12 < coarse / fine < 24


def test_all_that_is_eaten_is_in_the_gut_or_has_been_absorbed():
    p = virtual_patients()
    simulation = Simulation(p)
    absorbed = np.zeros(len(p))
    simulation.step(p.basal, 60.0, minutes=1)
    for _ in range(300):
        before = p.kabs * simulation.state[2]
        simulation.step(p.basal, minutes=1)
        absorbed += (
            before + p.kabs * simulation.state[2]
        ) / 2  # trapezia: the first minute and curvature err
    inside = simulation.state[:3].sum(0)
    np.testing.assert_allclose(inside + absorbed, 60_000.0, rtol=2e-3)


def test_a_meal_is_eaten_at_five_grams_a_minute():
    p = virtual_patients("adult#001")
    simulation = Simulation(p)
    simulation.step(p.basal, 12.0, minutes=2)
    assert 9_000 < simulation.state[:3].sum() <= 10_000
    simulation.step(p.basal, minutes=1)
    assert 11_000 < simulation.state[:3].sum() <= 12_000


def test_the_initial_glucose_is_the_one_asked_for_and_only_glucose_scales():
    p = virtual_patients()
    basal, raised = Simulation(p), Simulation(p, 190.0)
    np.testing.assert_allclose(raised.glucose, 190.0, rtol=1e-12)
    np.testing.assert_array_equal(
        np.delete(raised.state, [3, 4, 12], 0), np.delete(basal.state, [3, 4, 12], 0)
    )
    np.testing.assert_allclose(
        raised.state[[3, 4]] / basal.state[[3, 4]], np.tile(190 / basal.glucose, (2, 1))
    )
    assert basal.state.shape[0] == len(GUT) + len(BODY) == 13


def test_a_lane_does_not_depend_on_the_others():
    together = day(virtual_patients(), "stress", minutes=300)
    alone = day(virtual_patients(["child#007"]), "stress", minutes=300)
    # Vectorised tanh may round differently in another place of the batch; the equations are stable.
    np.testing.assert_allclose(together[26], alone[0], rtol=1e-9)


def test_rollouts_go_on_from_where_they_were_taken():
    p = virtual_patients(["adult#002", "child#002"])
    simulation = Simulation(p, 150.0)
    simulation.step(p.basal, 60.0, minutes=7)  # in the middle of the meal
    rollouts = simulation.take([1, 0, 1])
    now = simulation.glucose.copy()
    ends = rollouts.step(rollouts.patients.basal * [1.0, 1.0, 5.0], minutes=120)
    np.testing.assert_array_equal(simulation.glucose, now)
    same = simulation.step(p.basal, minutes=120)
    np.testing.assert_allclose(ends[:2], same[[1, 0]], rtol=1e-9)
    assert ends[2] < ends[0]
    assert rollouts.minutes == simulation.minutes == 127


def test_glucose_that_has_come_down_to_nothing_stays_there():
    traces = day(virtual_patients(), "overdose")
    assert traces.min() >= 0.0
    dead = traces[:, 1199] < 1.0
    assert dead.any()
    assert (np.diff(traces[dead, 1199:], axis=1) <= 0).all()  # no meal brings it back


def test_more_insulin_means_less_glucose_and_a_meal_means_more():
    p = virtual_patients()
    basal = Simulation(p).run(p.basal[:, None], minutes=360)
    assert (Simulation(p).run(2 * p.basal[:, None], minutes=360) <= basal).all()
    fed = Simulation(p).run(p.basal[:, None], carbohydrates([Meal(0, 40.0)], 360), minutes=360)
    assert (fed >= basal - 1e-9).all()
    assert (fed.max(1) > basal.max(1) + 20).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.step(-0.1), r"insulin is -0.1; it must be between 0 and 60: .* U/min"),
        (lambda s: s.step([0.01, np.nan]), r"insulin\[1\] is nan"),
        (lambda s: s.step([0.01, np.inf]), r"insulin\[1\] is inf"),
        (lambda s: s.step(75.0), r"insulin is 75; .*divide U/h by 60"),
        (lambda s: s.step("much"), r"insulin is not an array of numbers"),
        (lambda s: s.step([0.1, 0.1, 0.1]), r"insulin has shape \(3,\); give a number or the shape \(2,\)"),
        (lambda s: s.step(0.1, -5.0), r"carbohydrates is -5; .* grams"),
        (lambda s: s.step(0.1, [0.0, np.nan]), r"carbohydrates\[1\] is nan"),
        (lambda s: s.step(0.1, 60_000.0), r"carbohydrates is 60000; it must be between 0 and 1000"),
        (lambda s: s.step(0.1, minutes=0), r"minutes is 0; it must be a whole number of at least 1"),
        (lambda s: s.step(0.1, minutes=2.5), r"minutes is 2.5"),
        (lambda s: s.run([[0.1], [-0.2]], minutes=3), r"insulin\[1, 0\] is -0.2"),
        (lambda s: s.run(0.1, np.ones((2, 4)), minutes=3), r"carbohydrates has shape \(2, 4\)"),
        (lambda s: Simulation(s.patients, [100.0, np.nan]), r"glucose\[1\] is nan"),
        (
            lambda s: Simulation(s.patients, 7.5),
            r"glucose is 7.5; it must be between 10 and 600: .*mmol/L times 18",
        ),
        (lambda s: Simulation(s.patients, steps_per_minute=0), r"steps_per_minute is 0"),
        (lambda s: virtual_patients("adult#011"), r"names\[0\] is 'adult#011', .*did you mean 'adult#010'"),
        (lambda s: virtual_patients(["adult#001", "bob"]), r"names\[1\] is 'bob', .* adolescent#001 to"),
        (lambda s: virtual_patients([]), r"names is empty"),
        (lambda s: Meal(-1, 50.0), r"minute is -1"),
        (lambda s: Meal(60, -50.0), r"grams is -50; .* grams"),
        (
            lambda s: carbohydrates([Meal(0, 5.0), Meal(60, 5.0)], 60),
            r"meals\[1\] begins at minute 60, after",
        ),
    ],
)
def test_bad_input_is_named_with_its_remedy(call, message):
    simulation = Simulation(virtual_patients(["adult#001", "child#001"]), 150.0)
    with pytest.raises(ValueError, match=message):
        call(simulation)
    assert simulation.minutes == 0  # nothing was lost
    np.testing.assert_allclose(simulation.glucose, 150.0)


def test_the_table_cannot_be_changed_by_accident():
    with pytest.raises(ValueError, match="read-only"):
        virtual_patients().BW[0] = 1.0


def test_the_notice_of_the_table_is_kept():
    notice = (ROOT / "THIRD_PARTY.md").read_text()
    header = (ROOT / "src/cbdl/studies/pancreas/patients.csv").read_text()
    for text in (notice, header):
        assert "Copyright (c) 2017 Jinyu Xie" in text
        assert "Permission is hereby granted, free of charge" in text
        assert 'THE SOFTWARE IS PROVIDED "AS IS"' in text
