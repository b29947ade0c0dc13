"""From windows to forecasts: physics, views, and the ensemble's one Normal."""

import numpy as np
import pytest
from racing_cases import circle_track, circling, wavy_track

from cbdl.studies.racing import cut_windows
from cbdl.studies.racing.forecasts import Forecast
from cbdl.studies.racing.physics import constant_turn
from cbdl.studies.racing.views import Plain, rates, residual_view
from cbdl.studies.racing.windows import joined, mirrored


@pytest.fixture(scope="module")
def windows():
    track = wavy_track(length=50.0)
    return cut_windows(track, [circling(track, speed, 900) for speed in (4.0, 6.0)])


@pytest.mark.parametrize("clockwise", [False, True])
def test_on_a_circle_constant_turn_is_exact(clockwise):
    radius, speed = 6.0, 5.0
    angle = speed / radius * 0.01 * np.arange(-9, 61) * (-1 if clockwise else 1)
    side = -1.0 if clockwise else 1.0
    x, y = radius * np.sin(np.abs(angle)) * np.sign(np.arange(-9, 61)), side * radius * (1 - np.cos(angle))
    states = np.stack([x, y, angle, np.full(70, speed)], axis=1)[None]
    assert np.allclose(constant_turn(states[:, :10], 60), states[:, 10:, :2], atol=1e-9)


def test_straight_on_and_standing_still():
    history = np.zeros((2, 10, 4))
    history[0, :, 0], history[0, :, 3] = 0.03 * np.arange(-9, 1), 3.0
    ahead = constant_turn(history, 60)
    assert np.allclose(ahead[0, :, 0], 0.03 * np.arange(1, 61))
    assert np.allclose(ahead[0, :, 1], 0.0)
    assert np.allclose(ahead[1], 0.0)
    with pytest.raises(ValueError, match="at least two steps"):
        constant_turn(history[:, :1], 60)


def test_rates_of_a_circle_are_its_own():
    track = circle_track(6.0)
    own = rates(cut_windows(track, [circling(track, 5.0, 300)]).history)
    turn, turn_change, speed, faster, jerk, slip, slip_change = own.mean(axis=0)
    assert turn == pytest.approx(5.0 / 6.0, rel=1e-3)
    assert speed == pytest.approx(5.0)
    assert np.allclose([faster, jerk, turn_change], 0.0, atol=1e-2)
    assert np.allclose([slip, slip_change], 0.0, atol=1e-2)


def test_a_view_gives_back_what_it_was_shown(windows):
    for view, exact in ((Plain(60), 1e-12), (residual_view(windows, 30), 1e-3)):
        targets = view.targets(windows)
        assert targets.shape == (len(windows), view.targets_per_row)
        back = view.forecast(windows, targets[:, None], np.ones_like(targets)[:, None])
        assert np.abs(back.loc[:, 0] - windows.future[..., :2]).max() < exact


def test_scales_of_a_trajectory_are_those_of_its_coefficients(windows):
    view, rng = residual_view(windows, 5), np.random.default_rng(0)
    loc, scale = rng.normal(size=(1, 1, 10)), rng.uniform(0.5, 2.0, size=(1, 1, 10))
    one = windows[:1]
    drawn = loc + scale * rng.normal(size=(1, 20_000, 10))
    positions = view.forecast(one, drawn, np.ones_like(drawn)).loc[0]
    forecast = view.forecast(one, loc, scale)
    assert np.allclose(positions.std(axis=0), forecast.scale[0, 0], rtol=0.03)
    assert np.allclose(positions.mean(axis=0), forecast.loc[0, 0], atol=0.05)


def test_the_mirrored_car_does_the_mirrored_thing(windows):
    other = mirrored(windows)
    sides = np.array([1.0, -1.0])
    assert np.allclose(constant_turn(other.history, 60), constant_turn(windows.history, 60) * sides)
    assert np.array_equal(mirrored(other).future, windows.future)
    assert np.array_equal(Plain(60).inputs(other)[:, -13:], -Plain(60).inputs(windows)[:, -13:])
    both = joined(windows, other)
    assert len(both) == 2 * len(windows)
    assert np.array_equal(both.future[len(windows) :], other.future)


def test_the_average_has_the_members_mean_and_both_variances():
    rng = np.random.default_rng(1)
    loc, scale = rng.normal(size=(3, 4, 5, 2)), rng.uniform(0.1, 1.0, size=(3, 4, 5, 2))
    one = Forecast(loc, scale).averaged()
    assert np.allclose(one.loc[:, 0], loc.mean(axis=1))
    assert np.allclose(one.scale[:, 0] ** 2, (scale**2).mean(axis=1) + loc.var(axis=1, ddof=1))
