"""The sensor's noise is that of simglucose's GuardianRT: the same values from the same normals, and its moments."""

import glucose_oracle
import numpy as np
import pytest
from scipy.stats import johnsonsu, norm

from cbdl.studies.pancreas import Sensor
from cbdl.studies.pancreas.sensor import (
    CORRELATION,
    DELTA,
    GAMMA,
    HIGH,
    LAMBDA,
    LOW,
    XI,
    SensorNoise,
    johnson,
)

REFERENCE = np.load(glucose_oracle.REFERENCE)["noise"]


def generators(lanes, seed=0):
    return [np.random.default_rng((seed, lane)) for lane in range(lanes)]


def test_the_same_normals_give_the_noise_of_simglucose():
    # simglucose draws from RandomState(seed), whose stream numpy keeps for ever.
    noise = SensorNoise([np.random.RandomState(seed) for seed in range(len(REFERENCE))])
    np.testing.assert_allclose(noise.take(REFERENCE.shape[1]), REFERENCE, rtol=0, atol=1e-9)


def test_a_days_spread_is_about_11_and_neighbours_correlate_at_095():
    noise = SensorNoise(generators(600)).take(288)
    assert noise.std(1).mean() == pytest.approx(11.0, abs=0.4)
    a, b = noise[:, :-1] - noise.mean(), noise[:, 1:] - noise.mean()
    assert (a * b).mean() / noise.var() == pytest.approx(0.95, abs=0.01)


def test_the_moments_at_the_knots_are_those_of_johnsons_curve():
    # e is stationary with variance r^2 / (1 - r^2); E sinh(a e + c) = exp(a^2 v / 2) sinh(c), and so for sinh^2.
    v = CORRELATION**2 / (1 - CORRELATION**2)
    a, c = 1 / DELTA, -GAMMA / DELTA
    mean = XI + LAMBDA * np.exp(a**2 * v / 2) * np.sinh(c)
    second = (np.exp(2 * a**2 * v) * np.cosh(2 * c) - 1) / 2
    sd = LAMBDA * np.sqrt(second - (np.exp(a**2 * v / 2) * np.sinh(c)) ** 2)
    knots = SensorNoise(generators(400)).take(3000)[:, 32::3]  # every 15 minutes, past the start
    effective = knots.size * (1 - CORRELATION) / (1 + CORRELATION)
    assert knots.mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(effective))
    assert knots.std() == pytest.approx(sd, rel=0.02)


def test_the_curve_turns_normals_into_johnsons_distribution():
    e = np.linspace(-3, 3, 13)
    np.testing.assert_allclose(johnsonsu(GAMMA, DELTA, XI, LAMBDA).cdf(johnson(e)), norm.cdf(e))


def test_noise_in_pieces_is_the_noise_at_once():
    whole = SensorNoise(generators(3)).take(100)
    pieces = SensorNoise(generators(3))
    joined = np.concatenate([pieces.take(n) for n in (1, 2, 40, 57)], axis=1)
    np.testing.assert_allclose(joined, whole, rtol=0, atol=1e-12)


def test_a_lane_does_not_depend_on_the_others():
    alone = SensorNoise(generators(3)[2:]).take(60)
    np.testing.assert_allclose(SensorNoise(generators(3)).take(60)[2:], alone, rtol=0, atol=1e-10)


def test_readings_are_glucose_with_noise_within_the_sensors_range():
    glucose = np.tile([[150.0], [20.0], [900.0]], 50)
    readings = Sensor(generators(3)).read_trace(glucose)
    noise = SensorNoise(generators(3)).take(50)
    np.testing.assert_allclose(readings[0], 150.0 + noise[0])
    assert (readings[1] >= LOW).all()
    assert (readings[2] == HIGH).all()
    one_by_one = Sensor(generators(3))
    np.testing.assert_allclose(np.stack([one_by_one.read(g) for g in glucose.T], axis=1), readings)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Sensor([]), "generators is empty; give one per lane"),
        (lambda: Sensor(generators(2)).read([100.0, np.nan]), r"glucose\[1\] is nan"),
        (lambda: Sensor(generators(2)).read([100.0, -1.0]), r"glucose\[1\] is -1; it must be at least 0"),
        (lambda: Sensor(generators(2)).read([100.0] * 3), r"glucose has shape \(3,\)"),
        (lambda: Sensor(generators(2)).read_trace([100.0] * 3), r"glucose has shape \(3,\); give traces"),
    ],
)
def test_bad_input_is_named_with_its_remedy(call, message):
    with pytest.raises(ValueError, match=message):
        call()
