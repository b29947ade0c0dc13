"""The model M: frozen networks say what the model predicts, and their triplets are the regions of credal sets."""

import numpy as np
import pytest
import torch
from forecast_cases import linear, model, windows

import cbdl
from cbdl.baselines import ebnn
from cbdl.studies.pancreas import members
from cbdl.studies.pancreas.data import WINDOW
from cbdl.studies.pancreas.disturbances import HALVES, NONE, STAYS, Course
from cbdl.studies.pancreas.forecasts import HISTORY, HORIZON, LEARNED, Forecaster, halfwidth, triplet
from cbdl.studies.pancreas.networks import Networks


def test_frozen_networks_say_what_the_model_predicts():
    x = windows().inputs[:40]
    prediction = model().predict(x, samples=6, predictive="normal")
    mean, deviation = Networks.of(model(), draws=6).moments(torch.tensor(x[None]).float())
    np.testing.assert_allclose(mean[0].T, prediction.loc, rtol=1e-5)
    np.testing.assert_allclose(deviation[0].T, prediction.scale, rtol=1e-4)


def test_windows_and_levels_are_rows_of_inputs_with_their_doses_put_in():
    networks = Networks.stack([Networks.of(model(), 3)] * 2)
    rng = np.random.default_rng(0)
    readings = torch.from_numpy(rng.uniform(60, 200, (2, 3, WINDOW))).float()
    doses = torch.from_numpy(rng.uniform(0, 4, (2, 3, 4, WINDOW))).float()
    rows = torch.cat([readings.unsqueeze(2).expand(-1, -1, 4, -1), doses], -1)
    own = networks.after_windows(readings, doses)
    for a, b in zip(own, networks.moments(rows.flatten(1, 2)), strict=True):
        np.testing.assert_allclose(a.flatten(2), b, rtol=1e-4, atol=1e-3)
    levels = torch.from_numpy(rng.uniform(60, 200, (2, 4, 12))).float()
    own = networks.after_levels(levels, doses.flatten(1, 2))
    for member in range(4):
        flat = levels[:, member, :, None].expand(-1, -1, WINDOW)
        alone = networks.only(member).moments(torch.cat([flat, doses.flatten(1, 2)], -1))
        for a, b in zip(own, alone, strict=True):
            np.testing.assert_allclose(a[:, member], b[:, 0], rtol=1e-4, atol=1e-3)


def test_networks_are_kept_and_taken_apart():
    networks = Networks.of(model(), 3)
    x = torch.tensor(windows().inputs[None, :5]).float()
    mean, deviation = networks.moments(x)
    again = Networks.from_arrays(networks.arrays()).moments(x)
    np.testing.assert_array_equal(mean, again[0])
    for place in range(networks.members):
        alone = networks.only(place).moments(x)
        np.testing.assert_allclose(alone[0][:, 0], mean[:, place], rtol=1e-5)
        np.testing.assert_allclose(alone[1][:, 0], deviation[:, place], rtol=1e-5)
    with pytest.raises(ValueError, match="there are 4 members"):
        networks.only(4)


@pytest.mark.parametrize("alpha", members.ALPHAS)
def test_triplets_are_the_ends_of_the_ihdr_and_of_the_ensembles_region(alpha):
    rng = np.random.default_rng(1)
    loc, scale = rng.uniform(80, 120, (7, 4)), rng.uniform(5, 20, (7, 4))
    credal = cbdl.NormalCredalSet(loc, scale)
    z = torch.full((7,), halfwidth(alpha))
    inputs = torch.from_numpy(loc), torch.from_numpy(scale)
    low, middle, high = triplet(*inputs, z, "CBDL")
    ends = credal.region(alpha).intervals
    np.testing.assert_allclose(low, np.nanmin(ends, axis=(1, 2)), rtol=1e-6)
    np.testing.assert_allclose(high, np.nanmax(ends, axis=(1, 2)), rtol=1e-6)
    np.testing.assert_allclose(middle, loc.mean(1))
    low, middle, high = triplet(*inputs, z, "EBNN")
    ends = ebnn(credal).prediction.region(alpha).intervals[:, 0]
    np.testing.assert_allclose(np.stack([low, high], 1), ends, rtol=1e-6)
    assert (low <= middle).all()
    assert (middle <= high).all()


@pytest.mark.parametrize("rule", ["CBDL", "EBNN"])
def test_members_that_do_not_count_change_nothing(rule):
    rng = np.random.default_rng(2)
    loc, scale = (torch.from_numpy(rng.uniform(5, 20, (3, 4))) for _ in range(2))
    kept = torch.tensor([[True, True, False, True]] * 3)
    z = torch.full((3,), 1.5)
    fewer = triplet(loc[:, [0, 1, 3]], scale[:, [0, 1, 3]], z, rule)
    for a, b in zip(triplet(loc, scale, z, rule, kept), fewer, strict=True):
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("block", [1, 3])
def test_forecasts_follow_a_loop_over_steps(block):
    """With networks that answer: the last reading, a share of the doses, and an offset of each member."""
    rng = np.random.default_rng(3)
    offsets, courses = np.array([0.0, 6.0]), (NONE, HALVES)
    readings = rng.uniform(90, 170, (2, HISTORY))
    plans = rng.uniform(0, 3, (2, 3, HORIZON))
    own = Forecaster(
        linear(1, 2, -0.5, offset=offsets),
        "CBDL",
        np.full((1, 2), 1.0),
        courses=courses,
        block=block,
        looks=3,
    )
    doses = rng.uniform(0, 3, (2, own.doses))
    forecast = own.now(readings, doses).triplets(plans)
    assert forecast.middle.shape == (2, 3, 7)

    def slope(given, end):
        """What the doses of the window that ends with `given[end]` add."""
        return -0.5 * sum(given[end - block * WINDOW + 1 : end + 1]) / block

    for lane in range(2):
        for plan in range(3):
            given, now = [*doses[lane], *plans[lane, plan], *[1.0] * 10], len(doses[lane])
            steps = [
                readings[lane, t] + offsets.mean() + slope(given, now - HISTORY + 1 + t) for t in range(9, 14)
            ]
            error = readings[lane, -1] - steps[0]
            ends = []
            for course in courses:
                near = [readings[lane, -1], *(step + course.start * error for step in steps[1:])]
                for offset in offsets:
                    path = list(near)
                    for t in range(15):
                        added = course.start * course.keeps ** (t // 5) * error
                        path.append(path[t] + offset + slope(given, now + t) + added)
                    ends.append([*path[5:10], path[14], path[19]])
            np.testing.assert_allclose(forecast.middle[lane, plan], np.mean(ends, 0), rtol=1e-5, atol=1e-2)
            np.testing.assert_allclose(forecast.low[lane, plan], np.min(ends, 0) - 10.0, rtol=1e-5, atol=1e-2)
            np.testing.assert_allclose(
                forecast.high[lane, plan], np.max(ends, 0) + 10.0, rtol=1e-5, atol=1e-2
            )


def test_windows_far_from_training_are_asked_about_near_it():
    """With trained networks: what is learned near the border goes for all that is beyond."""
    networks = Networks.of(model(), 3)
    plans = np.random.default_rng(5).uniform(0, 3, (3, 4, HORIZON))
    forecaster = Forecaster(networks, "CBDL", np.ones((1, 3)), courses=(NONE,))
    levels = LEARNED[1] + np.array([50.0, 100.0, 250.0])
    readings = np.repeat(levels[:, None], HISTORY, axis=1)
    own = forecaster.now(readings, np.ones((3, forecaster.doses))).triplets(plans[:1].repeat(3, 0))
    effects = own.middle[:, 1:, :HORIZON] - own.middle[:, :1, :HORIZON]
    np.testing.assert_allclose(effects[1:], effects[:1].repeat(2, 0), atol=1e-2)


def test_an_error_that_stays_is_a_rise_that_goes_on():
    """A ramp that networks have not foreseen: with `STAYS` it is followed, with `NONE` it ends at once."""
    ramp = 100.0 + 2.0 * np.arange(HISTORY)[None]
    plans, doses = np.ones((1, 1, HORIZON)), np.ones((1, WINDOW + 4))
    ahead = ramp[0, -1] + 2.0 * np.array([5, 6, 7, 8, 9, 14, 19, 24])
    wanted = {STAYS: ahead, NONE: ramp[0, [-1, -5, -4, -3, -2, -2, -2, -2]]}
    for course, path in wanted.items():
        own = Forecaster(linear(1, 1, 0.0), "CBDL", np.ones((1, 1)), courses=(course,), looks=4)
        np.testing.assert_allclose(own.now(ramp, doses).triplets(plans).middle[0, 0], path, atol=1e-3)


def test_regions_of_ours_cover_validation_outcomes_and_refuted_members_do_not_count():
    rng = np.random.default_rng(4)
    loc = rng.normal(120, 20, (999, 1)) + np.array([[0.0, 1.0]])
    y = loc[:, 0] + 25.0 * rng.standard_normal(999)
    scale = np.full_like(loc, 10.0)
    for alpha, z in zip(members.ALPHAS, members.regions(loc, scale, y, True), strict=True):
        low, high = (loc - z * scale).min(1), (loc + z * scale).max(1)
        assert np.sum((y >= low) & (y <= high)) == np.ceil(1000 * (1 - alpha) - 1e-9)
    nll = np.concatenate([rng.normal(1.0, 0.1, (500, 3)), rng.normal(2.0, 0.1, (500, 1))], axis=1)
    assert members.plausible(model(), nll).tolist()[-1] is False


def test_forecasters_refuse_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match="3 sets"):
        Forecaster(linear(3, 2, 0.0), "CBDL", np.ones((2, 4)))
    with pytest.raises(ValueError, match="looks is 0"):
        Forecaster(linear(1, 2, 0.0), "CBDL", np.ones((1, 4)), looks=0)
    with pytest.raises(ValueError, match="courses is empty"):
        Forecaster(linear(1, 2, 0.0), "CBDL", np.ones((1, 4)), courses=())
    with pytest.raises(ValueError, match=r"keeps is 1\.5; it is a share"):
        Course(1.0, 1.5)
