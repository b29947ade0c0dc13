"""Metrics of glucose traces against brute force and published values."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbdl.studies.pancreas import metrics
from cbdl.studies.pancreas.metrics import GlucoseMetrics

traces = st.lists(st.floats(1.0, 700.0), min_size=2, max_size=30)


def risk(glucose):
    """Kovatchev's f and risk, in plain Python."""
    f = 1.509 * (math.log(glucose) ** 1.084 - 5.381)
    return f, 10 * f * f


@given(traces)
def test_every_metric_is_its_definition(trace):
    m = GlucoseMetrics.of(trace)
    n = len(trace)
    share = {
        "below_70": sum(g < 70 for g in trace),
        "above_300": sum(g > 300 for g in trace),
        "unsafe": sum(g < 70 or g > 300 for g in trace),
        "in_range": sum(70 <= g <= 180 for g in trace),
        "below_54": sum(g < 54 for g in trace),
        "above_250": sum(g > 250 for g in trace),
    }
    for name, count in share.items():
        assert getattr(m, name) == pytest.approx(count / n)
    assert m.mean == pytest.approx(statistics.fmean(trace))
    assert m.variation == pytest.approx(statistics.stdev(trace) / statistics.fmean(trace), abs=1e-9)
    low = sum(r for f, r in map(risk, trace) if f < 0) / n
    high = sum(r for f, r in map(risk, trace) if f > 0) / n
    assert m.lbgi == pytest.approx(low)
    assert m.hbgi == pytest.approx(high)
    assert m.risk == pytest.approx(low + high)
    assert metrics.risk_index(trace) == pytest.approx(low + high)


def test_the_risk_scale_is_kovatchevs():
    # By construction (Kovatchev et al. 1997): 0 at 112.5 mg/dL, 100 at both ends of 20 to 600 mg/dL.
    low, high = metrics.blood_glucose_risk([20.0, 112.5, 600.0])
    assert low + high == pytest.approx([100.0, 0.0, 100.0], abs=0.2)
    assert low[2] == 0.0
    assert high[0] == 0.0


def test_risk_averages_over_all_samples():
    assert metrics.low_blood_glucose_index([50.0, 112.5, 112.5, 112.5]) == pytest.approx(risk(50.0)[1] / 4)


def test_no_glucose_at_all_has_a_finite_risk():
    m = GlucoseMetrics.of([0.0, 0.0])
    assert np.isfinite(m.risk)
    assert m.risk > 600
    assert m.variation == 0


def test_limits_belong_to_the_safe_side():
    assert metrics.time_unsafe([70.0, 300.0]) == 0.0
    assert metrics.time_in_range([70.0, 180.0]) == 1.0


def test_metrics_work_in_batches():
    batch = np.random.default_rng(0).uniform(40.0, 400.0, (3, 4, 50))
    m = GlucoseMetrics.of(batch)
    for name, values in vars(m).items():
        assert values.shape == (3, 4)
        single = getattr(GlucoseMetrics.of(batch[2, 1]), name)
        if name == "zone":
            assert single == values[2, 1]
        else:
            assert single == pytest.approx(values[2, 1])


@pytest.mark.parametrize(
    ("low", "high", "zone"),
    [
        (100, 150, "A"),
        (80, 150, "lower B"),
        (100, 250, "upper B"),
        (80, 250, "B"),
        (60, 150, "lower C"),
        (100, 350, "upper C"),
        (60, 250, "lower D"),
        (80, 350, "upper D"),
        (60, 350, "E"),
        (20, 700, "E"),
        (130, 170, "A"),
        (95, 105, "A"),
        (90, 180, "B"),
        (70, 300, "E"),
    ],
)
def test_zones_are_those_of_the_control_variability_grid(low, high, zone):
    trace = np.r_[np.full(10, low), np.full(80, (low + high) / 2), np.full(10, high)]
    assert metrics.control_variability_zone(trace) == zone
    # A reading in a hundred is outside of the 95 % and moves nothing.
    outlier = np.r_[trace, 5.0]
    assert metrics.control_variability_zone(outlier) == zone


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        ([100.0, np.nan], r"glucose\[1\] is nan; .* interpolate missing samples"),
        ([[100.0, 90.0], [100.0, -3.0]], r"glucose\[1, 1\] is -3"),
        ([100.0, np.inf], r"glucose\[1\] is inf"),
        ([], r"glucose has shape \(0,\); give a trace"),
        (100.0, r"glucose has shape \(\)"),
    ],
)
def test_bad_traces_are_named_with_their_remedy(trace, message):
    for metric in (GlucoseMetrics.of, metrics.time_unsafe, metrics.risk_index, metrics.control_variability):
        with pytest.raises(ValueError, match=message):
            metric(trace)
