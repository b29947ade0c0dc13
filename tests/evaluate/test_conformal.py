"""Levels of outcomes, and the regions that conformal prediction makes of them."""

import numpy as np
import pytest
from scipy import stats

import cbdl
from cbdl.credal import region_level
from cbdl.evaluate.conformal import calibrate


def test_the_level_of_an_outcome_is_where_the_union_region_reaches_it():
    rng = np.random.default_rng(0)
    credal = cbdl.MixtureCredalSet(rng.normal(size=(30, 3, 4)) * 3, np.exp(rng.normal(size=(30, 3, 4)) * 0.5))
    y = rng.normal(size=30) * 3
    level = region_level(credal, y)
    for step, inside in ((1e-6, True), (-1e-6, False)):
        for i in range(30):
            if 0 < level[i] + step < 1:
                assert credal[i : i + 1].region(1 - (level[i] + step)).contains(y[i : i + 1])[0] == inside


def test_levels_of_normals_are_closed_forms():
    loc, scale, y = np.array([[0.0, 2.0]]), np.array([[1.0, 0.5]]), np.array([1.7])
    expected = (2 * stats.norm.cdf(np.abs((y[:, None] - loc) / scale)) - 1).min(-1)
    np.testing.assert_allclose(region_level(cbdl.NormalCredalSet(loc, scale), y), expected, rtol=1e-10)


def test_levels_of_classes_are_the_mass_before_them():
    credal = cbdl.CategoricalCredalSet(np.array([[[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]]))
    assert region_level(credal, np.array([2]))[0] == pytest.approx(0.6)
    with pytest.raises(ValueError, match=r"y\[0\] is 3"):
        region_level(credal, np.array([3]))


def test_conformal_regions_cover_whatever_the_model():
    rng = np.random.default_rng(0)
    n, alpha, covered = 400, 0.1, {"conformal average": [], "conformal credal": [], "credal": []}
    for _ in range(20):
        centre = rng.normal(size=2 * n)
        y = centre + rng.standard_t(3, size=2 * n)  # a model that is wrong: too narrow, too thin tails
        credal = cbdl.NormalCredalSet(np.stack([centre - 0.4, centre + 0.2], 1), np.full((2 * n, 2), 0.5))
        made = calibrate(credal[:n], y[:n], alpha)
        for row in made.compare(credal[n:], y[n:]):
            covered[row.name].append(row.coverage)
    # One run has the variance alpha (1 - alpha) (1 / n + 1 / n) to leading order: 3 standard errors.
    error = np.sqrt(2 * alpha * (1 - alpha) / n / 20)
    assert np.mean(covered["conformal credal"]) > 1 - alpha - 3 * error
    assert np.mean(covered["conformal average"]) > 1 - alpha - 3 * error
    assert np.mean(covered["credal"]) < 0.8


def test_conformal_regions_of_classes_cover_and_shrink_a_set_that_is_too_wide():
    rng = np.random.default_rng(1)
    truth = rng.dirichlet(np.ones(5), size=2000)
    y = np.array([rng.choice(5, p=p) for p in truth])
    other = rng.dirichlet(np.ones(5), size=(2000, 2))
    credal = cbdl.CategoricalCredalSet(np.concatenate([truth[:, None], other], 1))
    made = calibrate(credal[:1000], y[:1000], 0.1)
    plain, _, corrected = made.compare(credal[1000:], y[1000:])
    assert plain.coverage > 0.95
    assert 0.87 < corrected.coverage < 0.95
    assert corrected.size < plain.size


def test_too_few_points_give_the_whole_space_and_say_so():
    credal = cbdl.NormalCredalSet(np.zeros((5, 2)), np.ones((5, 2)))
    made = calibrate(credal, np.zeros(5), 0.01)
    assert made.credal == np.inf
    region = made.region(credal)
    assert (region.intervals == np.array([-np.inf, np.inf])).all()
    assert region.contains(np.full(5, 1e9)).all()


def test_outcomes_of_one_level_are_all_covered_however_far_out():
    """N(0, 1) for all inputs, all outcomes at the same distance: the region must hold every one of them."""
    for z in (7.5, 9.0, 40.0, 1e4):
        y = np.where(np.arange(200) % 2, z, -z)
        for credal in (
            cbdl.NormalCredalSet(np.zeros((200, 1)), np.ones((200, 1))),
            cbdl.MixtureCredalSet(np.zeros((200, 1, 2)), np.array([0.5, 1.0])),
        ):
            made = calibrate(credal, y, 0.05)
            for region in (made.region(credal), made.average_region(credal)):
                assert region.contains(y).all()
                # exact: nothing beyond rounding is added; 2 (1 + |log P|) eps 32 / z is far below 1e-10 z
                np.testing.assert_allclose(region.measure, 2 * z, rtol=1e-10)


def expected_coverage(region, scale):
    """P(region) under N(0, scale^2), from its intervals."""
    ends = np.asarray(region.intervals)[0]
    ends = ends[~np.isnan(ends[:, 0])]
    return float((stats.norm.cdf(ends[:, 1], scale=scale) - stats.norm.cdf(ends[:, 0], scale=scale)).sum())


OVERCONFIDENT = {
    "one Normal": lambda n: cbdl.NormalCredalSet(np.zeros((n, 1)), np.ones((n, 1))),
    "two Normals": lambda n: cbdl.NormalCredalSet(np.tile([-0.5, 0.5], (n, 1)), np.ones((n, 2))),
    "mixtures": lambda n: cbdl.MixtureCredalSet(
        np.tile([[-1.0, 1.5], [0.0, 0.3]], (n, 1, 1)), np.array([[0.5, 1.0], [1.0, 0.3]])
    ),
}


@pytest.mark.parametrize("model", OVERCONFIDENT)
@pytest.mark.parametrize("scale", [1.0, *(pytest.param(s, marks=pytest.mark.slow) for s in (3.8, 8.0)), 20.0])
def test_an_overconfident_model_still_covers_what_it_promises(model, scale):
    """Scores are continuous, so the coverage given the calibration data has a Beta distribution, whatever the model.

    y ~ N(0, scale^2) against predictions of scale 1. With k = ceil((n + 1)(1 - alpha)), it is Beta(k, n + 1 - k).
    """
    n, alpha, runs = 99, 0.05, 8
    law = stats.beta(95, 5)  # k = ceil(100 * 0.95)
    rng = np.random.default_rng(int(10 * scale))
    credal = OVERCONFIDENT[model](n)
    coverage = np.empty((runs, 2))
    for run in range(runs):
        made = calibrate(credal, scale * rng.normal(size=n), alpha)
        regions = made.region(credal[:1]), made.average_region(credal[:1])
        coverage[run] = [expected_coverage(region, scale) for region in regions]
    # Both sides of the law: the mean within 4 standard errors, and a Kolmogorov-Smirnov test.
    assert (np.abs(coverage.mean(0) - law.mean()) < 4 * law.std() / np.sqrt(runs)).all()
    assert min(stats.kstest(c, law.cdf).pvalue for c in coverage.T) > 1e-4


def test_coverage_on_fresh_data_where_the_level_used_to_be_cut_off():
    """y ~ N(0, 3.8^2) against N(0, 1): the level that is needed lies between 1 - 1e-12 and 1."""
    rng, n = np.random.default_rng(0), 2500
    credal = cbdl.NormalCredalSet(np.zeros((n, 1)), np.ones((n, 1)))
    y = 3.8 * rng.normal(size=n)
    made = calibrate(credal, y, 0.05)
    assert 1 - 1e-12 < made.credal < 1
    assert (
        made.region(credal).contains(y).sum() == 2376
    )  # the outcomes up to the one that sets the level, and no other
    coverage = expected_coverage(made.region(credal[:1]), 3.8)
    law = stats.beta(2376, 125)  # ceil(2501 * 0.95) = 2376
    assert law.ppf(1e-5) < coverage < law.ppf(1 - 1e-5)


def test_predictions_that_differ_from_row_to_row_cover():
    rng = np.random.default_rng(3)
    n, alpha, inside = 200, 0.1, []
    for _ in range(4):
        centre = 5 * rng.normal(size=2 * n)
        y = centre + 6 * rng.normal(size=2 * n)
        loc = centre[:, None, None] + rng.normal(size=(2 * n, 2, 3))
        credal = cbdl.MixtureCredalSet(loc, np.exp(0.3 * rng.normal(size=loc.shape)) * 0.3)
        made = calibrate(credal[:n], y[:n], alpha)
        inside.append(made.region(credal[n:]).contains(y[n:]).mean())
    # one run: variance alpha (1 - alpha) (1 / n + 1 / n) to leading order
    error = np.sqrt(2 * alpha * (1 - alpha) / n / len(inside))
    assert abs(np.mean(inside) - (1 - alpha)) < 4 * error


def test_ties_between_classes_never_lose_coverage():
    """Few distinct predictions: most scores tie with the quantile. Sure predictions that are wrong, too."""
    rng = np.random.default_rng(4)
    rows = np.array([[[0.6, 0.3, 0.1]], [[0.1, 0.6, 0.3]], [[1 - 1e-14, 1e-14 / 2, 1e-14 / 2]]])
    n, alpha, inside = 300, 0.1, []
    for _ in range(60):
        which = rng.integers(3, size=2 * n)
        y = rng.choice(3, p=[0.5, 0.3, 0.2], size=2 * n)
        credal = cbdl.CategoricalCredalSet(rows[which])
        made = calibrate(credal[:n], y[:n], alpha)
        assert made.region(credal[:n]).contains(y[:n]).mean() >= 1 - alpha
        inside.append(made.region(credal[n:]).contains(y[n:]).mean())
    error = np.sqrt(2 * alpha * (1 - alpha) / n / len(inside))
    assert np.mean(inside) > 1 - alpha - 4 * error


def test_a_class_without_probability_asks_for_the_whole_space():
    credal = cbdl.CategoricalCredalSet(np.tile([[1.0, 0.0]], (50, 1, 1)))
    made = calibrate(credal, np.ones(50), 0.1)
    assert made.credal == 1
    assert made.region(credal).mask.all()


@pytest.mark.parametrize("loc", [[[0.0, 0.0]], [[-1.0, 0.0], [0.5, 3.0], [0.0, -2.0]]])
def test_several_outputs_are_calibrated(loc):
    rng = np.random.default_rng(5)
    centre = np.broadcast_to(loc, (1000, len(loc), 2)) + rng.normal(size=(1000, 1, 2))
    credal = cbdl.DiagonalNormalCredalSet(centre, np.ones(centre.shape), samples=16)
    y = 20 * rng.normal(size=(1000, 2))
    made = calibrate(credal[:500], y[:500], 0.1)
    for region in (made.region(credal[500:]), made.average_region(credal[500:])):
        assert abs(region.contains(y[500:]).mean() - 0.9) < 4 * np.sqrt(0.09 * 2 / 500)


def test_a_calibration_explains_itself():
    n = 100
    credal = cbdl.NormalCredalSet(np.zeros((n, 1)), np.ones((n, 1)))
    z = stats.norm.isf((np.arange(n) + 0.5) / n)
    told = str(calibrate(credal, z, 0.05))
    assert told.startswith("Calibrated on 100 outcomes to cover 0.95 of new ones")
    assert "cautious enough" in str(calibrate(credal, 0.1 * z, 0.05))
    wide = str(calibrate(credal, 30 * z, 0.05))
    assert "overconfident" in wide
    assert "1 - " in wide
    assert "at least 19 outcomes" in str(calibrate(credal[:5], z[:5], 0.05))
    assert repr(calibrate(credal, z, 0.05)) == told
