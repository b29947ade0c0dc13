"""Regions in the plane: areas against closed forms and darts, coverage against the credal sets' own regions."""

import numpy as np
import pytest
from scipy.stats import norm

from cbdl.studies.racing.areas import union_area
from cbdl.studies.racing.forecasts import Forecast
from cbdl.studies.racing.regions import Tube, step_boxes, trajectory_boxes, union


@pytest.fixture
def forecast():
    rng = np.random.default_rng(0)
    return Forecast(rng.normal(size=(6, 3, 4, 2)), rng.uniform(0.3, 1.5, size=(6, 3, 4, 2)))


def test_areas_in_closed_form():
    semi = np.array([[2.0, 1.0], [1.0, 3.0], [1.0, 1.0]])
    apart = union_area(np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 20.0]]), semi, slices=512)
    assert apart == pytest.approx(np.pi * (2 + 3 + 1), rel=1e-3)
    nested = union_area(np.zeros((2, 2)), np.array([[2.0, 1.0], [0.5, 0.5]]))
    assert nested == pytest.approx(2 * np.pi, rel=1e-3)
    lens = 2 * np.arccos(0.5) - 0.5 * np.sqrt(3.0)  # of unit circles whose centres are 1 apart
    both = union_area(np.array([[0.0, 0.0], [1.0, 0.0]]), np.ones((2, 2)), slices=512)
    assert both == pytest.approx(2 * np.pi - lens, rel=1e-4)
    assert union_area(np.ones((1, 2)), np.array([[2.0, 3.0]])) == pytest.approx(6 * np.pi)


def test_areas_are_the_share_of_darts():
    rng = np.random.default_rng(2)
    loc, semi = rng.normal(size=(5, 4, 2)), rng.uniform(0.3, 1.5, size=(5, 4, 2))
    darts = rng.uniform(-6, 6, size=(40_000, 1, 1, 2))
    inside = ((((darts - loc) / semi) ** 2).sum(-1) <= 1).any(-1).mean(0) * 144
    error = 12 * np.sqrt(inside / 40_000)  # a standard error of darts
    assert (np.abs(union_area(loc, semi) - inside) < 4 * error + 0.01 * inside).all()


def test_a_tube_holds_what_the_credal_sets_region_holds(forecast):
    y = np.random.default_rng(3).normal(size=(6, 4, 2)) * 1.5
    own = forecast.credal_set().region(0.1, "union")
    assert np.array_equal(union(forecast, 0.1).holds(y), own.contains(y))
    lower, upper = own.hull()
    assert np.allclose(union(forecast, 0.1).widths, (upper - lower).mean(-1))
    assert np.allclose(union(forecast, 0.1).areas, own.measure, rtol=0.05)


def test_radii_may_differ_from_step_to_step(forecast):
    radii = np.array([0.5, 1.0, 2.0, 4.0])
    tube, y = Tube(forecast, radii), np.zeros((6, 4, 2))
    for step, radius in enumerate(radii):
        alone = Tube(forecast, float(radius))
        assert np.array_equal(tube.holds(y)[:, step], alone.holds(y)[:, step])
        assert np.allclose(tube.widths[:, step], alone.widths[:, step])


def _probability(forecast, boxes):
    """Of every member, step by step: (W, m, horizon)."""
    low, high = ((bound[:, None] - forecast.loc) / forecast.scale for bound in (boxes.lower, boxes.upper))
    return (norm.cdf(high) - norm.cdf(low)).prod(axis=-1)


def test_boxes_have_their_lower_probability_exactly(forecast):
    boxes = step_boxes(forecast, 0.1)
    assert np.allclose(_probability(forecast, boxes).min(axis=1), 0.9)
    whole = trajectory_boxes(forecast, 0.1)
    assert np.allclose(_probability(forecast, whole).prod(axis=2).min(axis=1), 0.9)
    assert (whole.widths >= boxes.widths).all()
    assert np.allclose(boxes.areas, (boxes.upper - boxes.lower).prod(-1))
    assert boxes.holds(0.5 * (boxes.lower + boxes.upper)).all()
    assert not boxes.holds(boxes.upper + 1e-9).any()
