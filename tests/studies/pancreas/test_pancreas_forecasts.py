"""The model M: frozen networks say what the model predicts, and their triplets are the regions of credal sets."""

import numpy as np
import pytest
import torch
from forecast_cases import linear, model, windows

import cbdl
from cbdl.baselines import ebnn
from cbdl.studies.pancreas import members
from cbdl.studies.pancreas.data import WINDOW
from cbdl.studies.pancreas.forecasts import HISTORY, HORIZON, Forecaster, halfwidth, triplet
from cbdl.studies.pancreas.networks import Networks


def test_frozen_networks_say_what_the_model_predicts():
    x = windows().inputs[:40]
    prediction = model().predict(x, samples=6, predictive="normal")
    mean, deviation = Networks.of(model(), draws=6).moments(torch.tensor(x[None]).float())
    np.testing.assert_allclose(mean[0].T, prediction.loc, rtol=1e-5)
    np.testing.assert_allclose(deviation[0].T, prediction.scale, rtol=1e-4)


def test_plans_are_windows_with_their_doses_put_in():
    networks = Networks.stack([Networks.of(model(), 3)] * 2)
    rng = np.random.default_rng(0)
    windows = torch.from_numpy(rng.uniform(60, 200, (2, 3, HORIZON, 2 * WINDOW))).float()
    doses = torch.from_numpy(rng.uniform(0, 4, (2, 3, 4, HORIZON))).float()
    for i in range(HORIZON):
        windows[:, :, i, 2 * WINDOW - 1 - i :] = 0.0
    full = windows.unsqueeze(2).repeat(1, 1, 4, 1, 1)
    for i in range(HORIZON):
        full[..., i, 2 * WINDOW - 1 - i :] = doses[..., : i + 1]
    own = networks.plans(windows, doses)
    for a, b in zip(own, networks.moments(full.flatten(1, 3)), strict=True):
        np.testing.assert_allclose(a, b.view_as(a), rtol=1e-4, atol=1e-3)


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


def test_the_next_readings_come_from_windows_that_ended_and_later_looks_from_earlier_ones():
    """Against a loop over steps, with networks that answer: the last reading and a share of the doses."""
    rng = np.random.default_rng(3)
    readings, doses = rng.uniform(80, 200, (2, HISTORY)), rng.uniform(0, 3, (2, HISTORY - 1))
    plans = rng.uniform(0, 3, (2, 3, HORIZON))
    forecaster = Forecaster(linear(1, 2, -2.0), "CBDL", np.full((1, 2), 1.0), looks=3)
    own = forecaster.now(readings, doses).triplets(plans)
    assert own.middle.shape == (2, 3, 15)
    for lane in range(2):
        for plan in range(3):
            given = [*doses[lane], *plans[lane, plan], *[1.0] * 10]
            glucose = list(readings[lane])
            for end in range(WINDOW - 1, WINDOW - 1 + 4 + 15):
                glucose.append(glucose[end] - 2.0 * sum(given[end - WINDOW + 1 : end + 1]))
            wanted = glucose[HISTORY + 4 :]
            np.testing.assert_allclose(own.middle[lane, plan], wanted, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(own.high - own.low, 20.0, atol=1e-2)


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
