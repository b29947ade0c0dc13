"""Training windows: shapes, alignment, reproducibility, safety of the doses."""

import numpy as np
import pytest

from cbdl.studies.pancreas import (
    Episodes,
    patient_names,
    simulate_episodes,
    training_windows,
    virtual_patients,
    windows,
)
from cbdl.studies.pancreas.data import dose_range, random_levels
from cbdl.studies.pancreas.simulation import Simulation

TWO = ["adult#001", "child#004"]


def test_the_papers_data_set_has_28400_windows_of_ten():
    data = training_windows("adolescent#005")
    assert data.inputs.shape == (28_400, 20)
    assert data.targets.shape == data.truths.shape == data.lanes.shape == data.times.shape == (28_400,)
    assert np.isfinite(data.inputs).all()
    assert len(np.unique(data.lanes)) == 217  # of 131 windows each
    assert set(data.names) == {"adolescent#005"}
    assert 9 < np.std(data.targets - data.truths) < 13  # the sensor's noise


def test_windows_are_cut_where_they_should_be():
    readings = np.arange(2 * 31.0).reshape(2, 31)
    made_up = Episodes(virtual_patients(TWO), -readings, readings, 1000 + readings[:, :30])
    data = windows(made_up, window=4, lead=5)
    expected = []
    for lane in range(2):
        for t in range(3, 26):  # the last target is reading 30
            inputs = [*readings[lane, t - 3 : t + 1], *made_up.doses[lane, t - 3 : t + 1]]
            expected.append((*inputs, readings[lane, t + 5], -readings[lane, t + 5], lane, t))
    made = np.column_stack((data.inputs, data.targets, data.truths, data.lanes, data.times))
    np.testing.assert_array_equal(made, expected)


def test_doses_of_windows_may_be_means_that_reach_back_to_before_the_episode():
    episodes = simulate_episodes(TWO, 1, minutes=240)
    own = windows(episodes, block=4)
    np.testing.assert_array_equal(own.inputs[:, :10], windows(episodes).inputs[:, :10])
    for row in (0, 20, len(own) - 1):
        doses = [*[1.0] * 39, *episodes.doses[own.lanes[row]]]
        end = 39 + own.times[row]
        means = [np.mean(doses[end - 4 * j - 3 : end - 4 * j + 1]) for j in reversed(range(10))]
        np.testing.assert_allclose(own.inputs[row, 10:], means)


def test_the_dose_of_a_step_acts_from_that_step_on():
    episodes = simulate_episodes("adult#003", 2, minutes=60)
    simulation = Simulation(episodes.patients, episodes.glucose[:, 0])
    for t in range(12):
        glucose = simulation.step(episodes.doses[:, t] * episodes.patients.basal)
        np.testing.assert_allclose(episodes.glucose[:, t + 1], glucose)


def test_a_seed_makes_an_episode_whatever_else_is_simulated():
    # To rounding: vectorised functions may round differently in another place of the batch.
    many = simulate_episodes(TWO, 3, seed=5, minutes=120)
    one = simulate_episodes("child#004", 2, seed=5, minutes=120)
    for name in ("glucose", "readings", "doses"):
        np.testing.assert_allclose(getattr(many, name)[3:5], getattr(one, name), rtol=1e-9)
    assert many.patients.names == ("adult#001",) * 3 + ("child#004",) * 3


def test_other_seeds_and_episodes_differ():
    first, second = (simulate_episodes("adult#001", 2, seed=s, minutes=120) for s in (0, 1))
    assert np.abs(first.readings - second.readings).max() > 1
    assert np.abs(first.doses[0] - first.doses[1]).max() > 0.01
    np.testing.assert_array_equal(
        training_windows("adult#001", 300, seed=3).inputs, training_windows("adult#001", 300, seed=3).inputs
    )


def test_episodes_start_where_the_paper_says_and_stay_safe():
    episodes = simulate_episodes(patient_names(), 4)
    assert episodes.glucose.shape == (120, 145)
    start = episodes.glucose[:, 0]
    assert start.min() >= 120
    assert start.max() <= 190
    assert np.ptp(start) > 60
    assert (episodes.glucose < 54).mean() < 0.002
    assert (episodes.glucose < 70).mean() < 0.02
    assert (episodes.glucose > 300).mean() < 0.005
    low, high = dose_range(episodes.patients)
    assert (episodes.doses >= low[:, None]).all()
    assert (episodes.doses <= high[:, None]).all()
    # The doses move glucose: more than its own noise-free drift back to the basal value would.
    assert np.median(episodes.glucose.std(1)) > 10


def test_a_range_of_doses_can_be_given():
    episodes = simulate_episodes(TWO, 1, minutes=120, doses=(1.0, 1.0), glucose=(140.0, 140.0))
    assert (episodes.doses == 1.0).all()
    np.testing.assert_allclose(episodes.glucose[:, 0], 140.0)


def test_levels_are_uniform_and_held_for_half_an_hour_on_average():
    levels = random_levels(np.random.default_rng(0), 60_000)
    values = levels[np.flatnonzero(np.diff(levels, prepend=-1.0))]
    assert 60_000 / len(values) == pytest.approx(6, rel=0.05)
    np.testing.assert_allclose(
        np.quantile(values, [0, 0.25, 0.5, 0.75, 1]), [0, 0.25, 0.5, 0.75, 1], atol=0.02
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulate_episodes("adult#012", 1), r"names\[0\] is 'adult#012'"),
        (lambda: simulate_episodes(["adult#001"] * 2, 1), "names holds a patient twice"),
        (lambda: simulate_episodes("adult#001", 0), "episodes is 0"),
        (lambda: simulate_episodes("adult#001", 1, seed=-1), "seed is -1"),
        (lambda: simulate_episodes("adult#001", 1, minutes=63), "minutes is 63; it must be a multiple of 5"),
        (lambda: simulate_episodes("adult#001", 1, glucose=(120.0, np.nan)), r"glucose\[1\] is nan"),
        (lambda: simulate_episodes("adult#001", 1, glucose=(190.0, 120.0)), r"glucose is .* in this order"),
        (lambda: simulate_episodes("adult#001", 1, doses=(-1.0, 2.0)), r"doses\[0\] is -1; .* basal"),
        (
            lambda: windows(simulate_episodes("adult#001", 1, minutes=60, doses=(1, 1))),
            "12 steps holds no window of 10",
        ),
        (lambda: training_windows("adult#001", 0), "samples is 0"),
        (lambda: training_windows([], 10), "names is empty"),
        (lambda: training_windows("adult#001", 10, minutes=60), "holds no window of 10"),
        (lambda: training_windows("adult#001", 10, window=0), "window is 0"),
    ],
)
def test_bad_input_is_named_with_its_remedy(call, message):
    with pytest.raises(ValueError, match=message):
        call()
