"""Shapes: what is known of them where members agree, and that areas are compared at equal coverage."""

import numpy as np
import pytest
from scipy import stats

from cbdl.studies.racing.forecasts import Forecast
from cbdl.studies.racing.shapes import ALPHA, METHODS, shapes


def outcomes(shift, count=40, horizon=20):
    """Forecasts of two members whose means are `shift` apart, and outcomes of the first."""
    rng = np.random.default_rng(0)
    loc = rng.normal(size=(count, 1, horizon, 2)) + np.array([0.0, shift])[:, None, None]
    scale = np.full_like(loc, 0.5)
    return Forecast(loc, scale), loc[:, 0] + scale[:, 0] * rng.normal(size=(count, horizon, 2))


def test_where_members_agree_every_region_is_the_ellipse_but_the_box():
    numbers = shapes(*outcomes(0.0))
    area = np.pi * stats.chi2.isf(ALPHA, 2) * 0.5**2
    for method in METHODS[:3]:
        assert numbers[method]["area"] == pytest.approx(area, rel=0.03)  # volumes from 512 draws
        assert numbers[method]["one"] == numbers["union"]["one"]
    side = 2 * stats.norm.isf((1 - np.sqrt(1 - ALPHA)) / 2) * 0.5
    assert numbers["box"]["area"] == pytest.approx(side**2, rel=1e-9)


def test_a_union_at_its_own_coverage_is_itself():
    numbers = shapes(*outcomes(1.0))
    union, minimal = numbers["union"], numbers["minimal"]
    # 160 steps: from one outcome to the next is a step of a hundredth in radius
    assert union["union_area"] == pytest.approx(union["area"], rel=0.05)
    assert minimal["area"] < union["area"]
