"""The gymnasium environment: gymnasium's own checker, seeds, bounds, and what it reports."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from cbdl.studies.pancreas import Meal, Simulation, virtual_patients
from cbdl.studies.pancreas.environment import PancreasEnv
from cbdl.studies.pancreas.metrics import risk_index

ONE = np.array([1.0], dtype=np.float32)


# Multiples of basal are not in [-1, 1]; the checker would like that better.
@pytest.mark.filterwarnings("ignore:.*symmetric and normalized space")
@pytest.mark.parametrize("patient", ["adult#001", "child#005", "adolescent#003"])
def test_gymnasiums_checker_passes(patient):
    check_env(gymnasium.make("cbdl/Pancreas-v0", patient=patient).unwrapped)


def episode(env, seed, doses):
    readings, infos = [], []
    observation, info = env.reset(seed=seed)
    readings.append(observation[0])
    for dose in doses:
        observation, reward, terminated, _, info = env.step(np.array([dose], dtype=np.float32))
        assert reward == -info["risk"]
        assert not terminated
        readings.append(observation[0])
        infos.append(info)
    return np.array(readings), infos


def test_seeds_are_honoured():
    doses = np.linspace(0.0, 2.0, 20)
    first, _ = episode(PancreasEnv("adult#002"), 7, doses)
    again, _ = episode(PancreasEnv("adult#002"), 7, doses)
    other, _ = episode(PancreasEnv("adult#002"), 8, doses)
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1


def test_episodes_without_a_seed_go_on_from_the_first():
    env = PancreasEnv()
    first = env.reset(seed=1)[1]["glucose"]
    second = env.reset()[1]["glucose"]
    assert first != second
    env.reset(seed=1)
    assert env.reset()[1]["glucose"] == second


def test_info_is_the_simulations_truth():
    env = PancreasEnv("child#002", meals=[Meal(7, 30.0)])
    env.reset(seed=0, options={"glucose": 140.0})
    patients = virtual_patients("child#002")
    simulation = Simulation(patients, 140.0)
    food = np.zeros(20)
    food[7] = 30.0
    trace = simulation.run(np.repeat([1.0, 0.0, 3.0, 1.0], 5) * patients.basal, food, minutes=20)[0]
    for i, dose in enumerate([1.0, 0.0, 3.0, 1.0]):
        _, reward, _, _, info = env.step(np.array([dose], dtype=np.float32))
        assert info["glucose"] == pytest.approx(trace[5 * i + 4])
        assert info["risk"] == pytest.approx(risk_index([info["glucose"]]).item())
        assert info["insulin"] == pytest.approx(dose * patients.basal[0])
        assert info["carbohydrates"] == (30.0 if i == 1 else 0.0)
        assert info["minutes"] == 5 * (i + 1)
        assert reward == -info["risk"]


def test_an_episode_ends_at_its_time():
    env = PancreasEnv(minutes=15)
    env.reset(seed=0)
    assert [env.step(ONE)[3] for _ in range(3)] == [False, False, True]
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(ONE)


def test_an_episode_ends_where_the_model_does():
    env = PancreasEnv("child#001", highest_dose=50.0)
    env.reset(seed=0)
    for _ in range(288):
        _, _, terminated, truncated, info = env.step(np.array([50.0], dtype=np.float32))
        if terminated:
            break
    assert terminated
    assert not truncated
    assert info["glucose"] < 10


@pytest.mark.parametrize(
    "action", [[-0.1], [10.1], [np.nan], [np.inf], 1.0, [1.0, 1.0], []], ids=lambda a: str(a)
)
def test_actions_out_of_bounds_are_refused_and_nothing_happens(action):
    env = PancreasEnv()
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"action is .* between 0 and 10: clip it .* highest_dose"):
        env.step(np.array(action))
    assert env.step(ONE)[4]["minutes"] == 5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PancreasEnv("adult#01"), "no virtual patient"),
        (lambda: PancreasEnv(minutes=62), "minutes is 62; it must be a multiple of 5"),
        (lambda: PancreasEnv(minutes=60, meals=[Meal(60, 10.0)]), r"meals\[0\] begins at minute 60"),
        (lambda: PancreasEnv(initial_glucose=(120.0, 1000.0)), r"initial_glucose\[1\] is 1000"),
        (lambda: PancreasEnv(initial_glucose=(190.0, 120.0)), "initial_glucose is .* in this order"),
        (lambda: PancreasEnv(highest_dose=np.nan), "highest_dose is nan"),
        (lambda: PancreasEnv(highest_dose=1e6), "highest_dose is 1e.06; .* the pump's limit"),
        (lambda: PancreasEnv().reset(options={"glucose": 5.0}), r"options\['glucose'\] is 5"),
        (lambda: PancreasEnv().reset(options={"sugar": 100.0}), r"options holds \['sugar'\]"),
    ],
)
def test_bad_settings_are_named_with_their_remedy(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_step_before_reset_is_refused():
    with pytest.raises(RuntimeError, match="call reset"):
        PancreasEnv().step(ONE)
