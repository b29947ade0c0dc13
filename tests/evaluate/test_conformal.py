"""Levels of outcomes, and the regions that conformal prediction makes of them."""

import numpy as np
import pytest
from scipy import stats

import cbdl
from cbdl.credal.content import region_level
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
    for _ in range(40):
        centre = rng.normal(size=2 * n)
        y = centre + rng.standard_t(3, size=2 * n)  # a model that is wrong: too narrow, too thin tails
        credal = cbdl.NormalCredalSet(np.stack([centre - 0.4, centre + 0.2], 1), np.full((2 * n, 2), 0.5))
        made = calibrate(credal[:n], y[:n], alpha)
        for row in made.compare(credal[n:], y[n:]):
            covered[row.name].append(row.coverage)
    # 40 x 400 outcomes: the standard error of the mean coverage is below 0.004
    assert np.mean(covered["conformal credal"]) > 1 - alpha - 0.012
    assert np.mean(covered["conformal average"]) > 1 - alpha - 0.012
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


def test_what_has_no_union_of_regions_is_refused():
    with pytest.raises(ValueError, match="one output at a time"):
        calibrate(
            cbdl.DiagonalNormalCredalSet(np.zeros((3, 2, 2)), np.ones((3, 2, 2))), np.zeros((3, 2)), 0.1
        )
