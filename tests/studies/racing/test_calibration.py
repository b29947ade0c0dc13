"""Calibration: exact ranks, coverage of exchangeable windows, members that have not seen what they are scored by."""

import numpy as np
import pytest
from racing_cases import circling, wavy_track
from scipy import stats

from cbdl.studies.racing import cut_windows
from cbdl.studies.racing.calibration import conformal_quantile, conformal_tube, out_of_fold
from cbdl.studies.racing.folds import random_folds, track_folds
from cbdl.studies.racing.forecasts import Forecast
from cbdl.studies.racing.regions import Tube


def test_quantiles_are_ranks():
    values = np.random.default_rng(0).permutation(99) + 1.0
    assert conformal_quantile(values, 0.1) == 90
    assert conformal_quantile(values, 0.01) == 99
    assert conformal_quantile(values, 0.001) == 99  # too few to tell


def made(rng, count, members=1):
    """Forecasts that are wrong by heavy-tailed errors of their own scale, and the outcomes."""
    loc = rng.normal(size=(count, members, 8, 2))
    scale = np.exp(rng.normal(size=(count, members, 1, 1))) * np.ones_like(loc)
    y = loc[:, 0] + 2.0 * scale[:, 0] * rng.standard_t(3, size=(count, 8, 2))
    return Forecast(loc, scale), y


@pytest.mark.parametrize("alpha", [0.1, 0.05])
def test_conformal_tubes_hold_whole_trajectories(alpha):
    rng = np.random.default_rng(1)
    seen, fresh = made(rng, 2000), made(rng, 2000)
    held = conformal_tube(*seen, fresh[0], alpha).holds(fresh[1]).all(axis=1).mean()
    # both are samples of 2,000: two standard errors of each, with the quantile's own
    assert abs(held - (1 - alpha)) < 4 * np.sqrt(alpha * (1 - alpha) / 1000)


def test_out_of_fold_tubes_hold_whole_trajectories_and_every_members_own():
    rng = np.random.default_rng(2)
    parts = [made(rng, 500) for _ in range(4)]
    calibration = out_of_fold(parts)
    fresh, y = made(rng, 2000, members=4)
    tube = calibration.tube(fresh, 0.1)
    assert tube.holds(y).all(axis=1).mean() > 0.9 - 3 * np.sqrt(0.09 / 1000)
    for member in range(4):
        alone = Forecast(fresh.loc[:, [member]], calibration.scales(fresh.scale[:, [member]]))
        own = Tube(alone, tube.radius)
        assert (tube.holds(y) >= own.holds(y)).all()  # the jackknife-minmax region is inside


def test_scales_are_tempered_about_their_geometric_mean():
    forecast, y = made(np.random.default_rng(3), 400)
    plain, half = (out_of_fold([(forecast, y)], powers=(power,)) for power in (1.0, 0.5))
    assert np.allclose(plain.scales(forecast.scale), forecast.scale)
    spread = [np.log(own.scales(forecast.scale)).std() for own in (plain, half)]
    assert spread[1] == pytest.approx(0.5 * spread[0])
    assert np.log(half.scales(forecast.scale)).mean() == pytest.approx(np.log(forecast.scale).mean())


@pytest.mark.parametrize("power", [0.2, 0.6, 1.0])
def test_the_power_that_made_the_errors_is_found(power):
    """Or the one below it: mean widths gain a little from scales that vary less."""
    rng = np.random.default_rng(4)
    loc = np.zeros((4000, 1, 3, 2))
    scale = np.exp(rng.normal(size=(4000, 1, 1, 1))) * np.ones_like(loc)
    y = scale[:, 0] ** power * rng.normal(size=(4000, 3, 2))
    assert power - 0.21 < out_of_fold([(Forecast(loc, scale), y)]).scales.power <= power


@pytest.mark.parametrize("power", [0.2, 0.6, 1.0])
def test_the_density_that_made_the_outcomes_is_found(power):
    rng = np.random.default_rng(5)
    loc = np.zeros((4000, 1, 3, 2))
    scale = np.exp(rng.normal(size=(4000, 1, 1, 1))) * np.ones_like(loc)
    y = 1.7 * scale[:, 0] ** power * rng.normal(size=(4000, 3, 2))
    density = out_of_fold([(Forecast(loc, scale), y)]).density
    assert density.power == power
    # 24,000 Normals: the standard error of their scale is a 220th of it
    assert density.factor * density.typical ** (1 - power) == pytest.approx(1.7, rel=0.02)


def test_calibrated_densities_are_likelier_where_members_are_too_sure():
    rng = np.random.default_rng(6)
    calibration = out_of_fold([made(rng, 500) for _ in range(4)])
    fresh, y = made(rng, 1000)

    def loss(forecast):
        return -stats.norm.logpdf(y, forecast.loc[:, 0], forecast.scale[:, 0]).mean()

    assert loss(Forecast(fresh.loc, calibration.density(fresh.scale))) < loss(fresh) - 0.3


@pytest.fixture(scope="module")
def windows():
    track = wavy_track(length=80.0)
    return cut_windows(track, [circling(track, speed, 2500) for speed in (4.0, 6.0, 7.0)])


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_no_member_sees_a_place_that_it_is_scored_by(windows, share):
    """By sectors of a lap, or by the windows' begins where sectors would be empty."""
    windows = windows[windows.stretch[:, 1] % windows.track_length < share * windows.track_length]
    folds = track_folds(windows)
    grid = np.arange(0.0, windows.track_length, 0.05)
    for fold in folds:
        places = []
        for rows in (fold.left_out, fold.seen):
            begin, end = windows.stretch[rows].T
            inside = ((grid[:, None] - begin) % windows.track_length) <= (end - begin)
            places.append(inside.any(axis=1))
        assert not (places[0] & places[1]).any()
        assert len(fold.seen) > 0
    every = np.concatenate([fold.left_out for fold in folds])
    assert len(np.unique(every)) == len(every) > 0.4 * len(windows)


def test_random_folds_are_a_partition(windows):
    folds = random_folds(windows, seed=1)
    assert np.array_equal(np.sort(np.concatenate([f.left_out for f in folds])), np.arange(len(windows)))
    assert all(len(np.intersect1d(f.left_out, f.seen)) == 0 for f in folds)
    with pytest.raises(ValueError, match="simulate for longer"):
        random_folds(windows[:3])


def test_a_place_no_longer_than_a_window_makes_no_folds(windows):
    with pytest.raises(ValueError, match=r"wavy: its 80 m are too short for 4 folds .*; give a longer track"):
        track_folds(windows[windows.stretch[:, 1] < 0.08 * windows.track_length])
