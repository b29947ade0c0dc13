"""Controllers: they act on what they see, hold basal where they see nothing, and lanes do not see each other."""

from contextlib import nullcontext

import numpy as np
import pytest
from forecast_cases import linear

from cbdl.studies.pancreas import (
    Basal,
    BasalBolus,
    Cases,
    Decision,
    Forecaster,
    Moment,
    Oracle,
    Predictive,
    SensorWarning,
    Simulation,
    Triplet,
    Weights,
    highest_dose,
    run,
    virtual_patients,
)
from cbdl.studies.pancreas.controllers import guarded
from cbdl.studies.pancreas.cost import cost
from cbdl.studies.pancreas.data import dose_range
from cbdl.studies.pancreas.environment import PancreasEnv
from cbdl.studies.pancreas.episodes import meals
from cbdl.studies.pancreas.forecasts import HISTORY


def controller(lanes, dose=-1.0, rule="CBDL", highest=4.0, z=1.0, offset=0.0, **settings):
    networks = linear(1, 2, dose, offset=offset)
    return Predictive(Forecaster(networks, rule, np.full((1, lanes), z)), highest, **settings)


def fill(own, readings):
    """Basal decisions until the next one is planned."""
    for _ in range(HISTORY - 1):
        decision = own.dose(readings)
        assert decision.held.all()
        np.testing.assert_array_equal(decision.doses, 1.0)


def test_the_cost_is_its_formula():
    weights = Weights(target=2.0, unsafe=3.0, insulin=0.5, margin=10.0)
    forecast = Triplet(*(np.array([[[value]]]) for value in (60.0, 170.0, 310.0)))
    wanted = 2.0 * 1.0 + 3.0 * ((20 / 50) ** 2 + (20 / 50) ** 2) + 0.5 * 4.0
    np.testing.assert_allclose(cost(forecast, np.full((1, 1, 1), 4.0), weights), wanted)
    later = Triplet(*(np.full((1, 1, 4), value) for value in (100.0, 170.0, 200.0)))
    np.testing.assert_allclose(cost(later, np.zeros((1, 1, 2)), weights), 2.0 * (2 + 2 * 2))


def test_more_insulin_for_higher_glucose_within_bounds_and_less_for_wider_regions():
    own = controller(3, generations=12)
    readings = np.array([75.0, 150.0, 290.0])
    fill(own, readings)
    decision = own.dose(readings)
    assert not decision.held.any()
    assert decision.doses[0] < 0.3
    assert decision.doses[2] > 3.5
    assert (decision.doses >= 0).all()
    assert (decision.doses <= 4.0).all()
    assert (decision.forecast.low < decision.forecast.high).all()
    narrow, wide = controller(1, z=1.0, generations=12), controller(1, z=12.0, generations=12)
    doses = []
    for one in (narrow, wide):
        fill(one, [185.0])
        doses.append(one.dose([185.0]).doses[0])
    assert doses[1] < doses[0]


def test_networks_that_take_insulin_for_sugar_are_not_believed_far_from_the_target():
    """They say that a dose above basal raises glucose: at 290 the best plan would be none, at 80 all there is."""
    own = controller(3, dose=3.0, offset=-30.0, generations=12)
    readings = np.array([80.0, 150.0, 290.0])
    fill(own, readings)
    doses = own.dose(readings).doses
    assert doses[0] == doses[2] == 1.0
    assert doses[1] != 1.0
    assert guarded(np.array([99.0, 100.0, 180.0, 181.0]))[0].tolist() == [0, 0, 0, 1]
    assert guarded(np.array([99.0, 100.0, 180.0, 181.0]))[1].tolist() == [1, np.inf, np.inf, np.inf]


def test_lanes_do_not_see_each_other():
    readings = np.array([110.0, 160.0, 220.0])
    together = controller(3)
    fill(together, readings)
    doses = together.dose(readings).doses
    for lane in range(3):
        alone = controller(1)
        fill(alone, readings[[lane]])
        np.testing.assert_allclose(alone.dose(readings[[lane]]).doses, doses[[lane]], rtol=1e-4, atol=1e-4)


def test_a_silent_sensor_holds_basal_says_so_and_short_gaps_are_bridged():
    own = controller(2)
    fill(own, [200.0, 200.0])
    assert (own.dose([200.0, 200.0]).doses != 1.0).all()
    with pytest.warns(SensorWarning, match=r"1 of 2 sensors say nothing \(lanes 1\).*basal"):
        decision = own.dose([200.0, np.nan])
    assert decision.held.tolist() == [False, True]
    assert decision.doses[1] == 1.0
    assert decision.doses[0] != 1.0
    assert np.isnan(decision.forecast.middle[1])
    assert np.isfinite(decision.forecast.middle[0])
    assert not own.dose([200.0, 212.0]).held.any()
    np.testing.assert_allclose(own._history.readings[1, -3:], [200.0, 206.0, 212.0])
    for _ in range(4):
        with pytest.warns(SensorWarning):
            own.dose([200.0, np.nan])
    assert own.dose([200.0, 200.0]).held.tolist() == [False, True]  # too long for a straight line
    for _ in range(HISTORY - 2):
        assert own.dose([200.0, 200.0]).held[1]
    assert not own.dose([200.0, 200.0]).held.any()


@pytest.mark.parametrize(
    ("readings", "words"),
    [
        ([100.0], "one per lane"),
        ([100.0, -5.0], r"readings\[1\] is -5"),
        ([100.0, np.inf], r"readings\[1\] is inf"),
        ([100.0, "x"], "not an array of numbers"),
    ],
)
def test_bad_readings_are_refused(readings, words):
    with pytest.raises(ValueError, match=words):
        controller(2).dose(readings)


def test_bad_bounds_are_refused():
    with pytest.raises(ValueError, match="highest is -1"):
        controller(2, highest=-1.0)
    with pytest.raises(ValueError, match="no virtual patient"):
        Cases(("adult#099",), (0,), (120.0,))
    with pytest.raises(ValueError, match="initial"):
        Cases(("adult#001",), (0,), (-3.0,))
    with pytest.raises(ValueError, match="multiple of 5"):
        Cases(("adult#001",), (0,), (120.0,), minutes=7)


def test_highest_doses_reach_beyond_training():
    patients = virtual_patients(["child#001", "adult#001", "child#001"])
    _, high = dose_range(patients)
    np.testing.assert_allclose(highest_dose(patients, 3.0), 1 + 3 * (high - 1))


def test_a_bolus_follows_the_patients_ratios():
    patients = virtual_patients(["adult#001", "adult#001", "child#002"])
    moment = Moment(np.array([140.0, 180.0, np.nan]), np.array([60.0, 60.0, 0.0]), Simulation(patients))
    units = (BasalBolus(patients).decide(moment).doses - 1.0) * patients.basal * 5
    ratio, factor = patients.CR[0], patients.CF[0]
    np.testing.assert_allclose(units, [60 / ratio, 60 / ratio + 60 / factor, 0.0], atol=1e-9)


def test_the_oracle_sees_what_its_doses_will_do():
    patients = virtual_patients(["adult#001"] * 2)
    simulation = Simulation(patients, [80.0, 250.0])
    before = simulation.state
    decision = Oracle(5.0, 2, generations=8).decide(Moment(np.full(2, np.nan), np.zeros(2), simulation))
    np.testing.assert_array_equal(simulation.state, before)  # only copies were moved
    assert decision.doses[0] < decision.doses[1]


def test_days_share_their_sensors_noise_and_count_what_was_held():
    cases = Cases(("adult#001", "child#001"), (0, 1), (120.0, 180.0), minutes=120)
    lanes = cases.repeated(2)
    days = run(Basal(), lanes)
    assert days.glucose.shape == days.doses.shape == (16, 24)
    np.testing.assert_array_equal(days.readings[:4], days.readings[4:8])
    assert len(np.unique(days.readings[:4, 0])) == 4
    grams = meals(lanes.patients, 120)
    assert np.flatnonzero(grams.sum(0)).tolist() == [90]
    np.testing.assert_allclose(grams[[0, -1], 90], [50.0, 0.8 * lanes.patients.BW[-1]])
    dropouts = np.zeros((16, 24), dtype=bool)
    dropouts[3, 20:] = True
    with pytest.warns(SensorWarning):
        own = run(controller(16), lanes, dropouts)
    assert own.held[:, : HISTORY - 1].all()
    assert own.held[3, 20:].all()
    assert not own.held[2, 20:].any()
    np.testing.assert_array_equal(own.doses[own.held], 1.0)
    assert np.isfinite(own.glucose).all()


def test_a_day_without_a_single_reading_is_a_day_of_basal():
    lanes = Cases(("adult#001", "child#001"), (0,), (150.0,), minutes=100).repeated(1)
    with pytest.warns(SensorWarning, match="2 of 2 sensors say nothing"):
        own = run(controller(2), lanes, np.ones((2, 20), dtype=bool))
    assert own.held.all()
    assert np.isnan(own.forecast.middle).all()
    np.testing.assert_array_equal(own.glucose, run(Basal(), lanes).glucose)


@pytest.mark.parametrize("dose", [-0.5, np.nan, np.inf, 1e6])
def test_doses_out_of_bounds_end_a_closed_loop_with_words(dose):
    class Wrong:
        def decide(self, moment):
            return Decision.plain(np.array([1.0, dose]))

    lanes = Cases(("adult#001", "child#001"), (0,), (150.0,), minutes=10).repeated(1)
    with pytest.raises(
        ValueError, match=r"insulin\[1, 0\] is .* between 0 and 60: insulin is a rate in U/min"
    ):
        run(Wrong(), lanes)


def test_it_drives_the_gymnasium_environment_through_dropouts():
    env = PancreasEnv("adult#002", minutes=100)
    own = controller(1)
    observation, _ = env.reset(seed=0)
    held = []
    for step in range(20):
        silent = step in (15, 16)
        with pytest.warns(SensorWarning) if silent else nullcontext():
            decision = own.dose(np.full(1, np.nan) if silent else observation.astype(float))
        held.append(bool(decision.held[0]))
        observation, *_ = env.step(decision.doses.astype(np.float32))
    assert held == [*[True] * 14, False, True, True, False, False, False]
