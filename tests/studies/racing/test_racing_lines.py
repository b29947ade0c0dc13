"""Lines: least curvature against scipy and closed forms, drivable everywhere, near the public race lines."""

from dataclasses import replace

import numpy as np
import pytest
from racing_cases import TRACKS, circle_track, needs_public_tracks, stadium_points, wavy_points, wavy_track
from scipy.optimize import minimize
from scipy.spatial import cKDTree

from cbdl.studies.racing import (
    LINES,
    Vehicle,
    embedded_track,
    load_race_line,
    load_track,
    make_lines,
    make_track,
)
from cbdl.studies.racing.offsets import FREE, MARGIN, SHORTNESS, Shape, bends, bounds, race_offsets

CAR = Vehicle()


@pytest.fixture(scope="module")
def embedded():
    track = embedded_track()
    return track, make_lines(track)


def test_derivatives_of_bends_are_their_differences():
    track = wavy_track()
    rng = np.random.default_rng(0)
    n = rng.uniform(-0.3, 0.3, len(track.left))
    shape = bends(track.centre, n)
    for p in (0.5, 1.0):
        value, by = shape.power(p)
        for k, neighbour in enumerate((-1, 0, 1)):
            for i in (0, 17, len(n) - 1):
                nudge = np.zeros_like(n)
                nudge[(i + neighbour) % len(n)] = 1e-6
                ahead, _ = bends(track.centre, n + nudge).power(p)
                behind, _ = bends(track.centre, n - nudge).power(p)
                assert by[i, k] == pytest.approx((ahead[i] - behind[i]) / 2e-6, rel=1e-5, abs=1e-5)
        assert value.shape == n.shape


def test_the_race_line_is_the_optimum_that_scipy_finds():
    track = wavy_track(seed=3, length=25.0)
    n = race_offsets(track, CAR)
    lower, upper = bounds(track, CAR)
    shape = Shape(track.centre, np.zeros_like(n), np.full_like(n, FREE), SHORTNESS)

    def value(x):
        return shape.value(x), shape.model(x)[1]

    start = np.zeros_like(n)
    options = {"maxiter": 20_000, "maxfun": 100_000, "maxcor": 50, "ftol": 1e-13, "gtol": 1e-9}
    truth = minimize(
        value,
        start,
        jac=True,
        bounds=list(zip(lower, upper, strict=True)),
        method="L-BFGS-B",
        options=options,
    )
    assert shape.value(n) <= truth.fun * (1.0 + 1e-4)
    assert shape.value(start) > 1.1 * truth.fun
    assert ((n >= lower) & (n <= upper)).all()


@pytest.mark.parametrize("clockwise", [False, True])
@pytest.mark.parametrize(("radius", "outside"), [(5.0, True), (30.0, False)])
def test_on_a_circle_the_race_line_has_the_best_radius(radius, outside, clockwise):
    """1 / r + SHORTNESS r is least at r = 13 m: a small circle is driven outside, a large one inside."""
    track = circle_track(radius, clockwise=clockwise)
    n = race_offsets(track, CAR)
    edge = 1.1 - 0.5 * CAR.width - MARGIN
    np.testing.assert_allclose(n, -edge if outside != clockwise else edge, atol=5e-3)


def test_lines_keep_their_offsets_on_straights(embedded):
    track, lines = embedded
    for name, offset in (("centre", 0.0), ("left", 0.55), ("right", -0.55)):
        curve = lines[name].curve
        s = lines[name].centre_s
        _, left = track.centre.project(curve.xy, s, reach=1.0)
        straight = (s > 5.0) & (s < 45.0)
        np.testing.assert_allclose(left[straight], offset, atol=5e-3)
        assert np.abs(left - offset).max() < 0.25


@pytest.mark.parametrize(
    ("radius", "mirror"), [(0.6, 1.0), (0.8, -1.0), pytest.param(1.2, 1.0, marks=pytest.mark.slow)]
)
def test_lines_are_drivable_in_hairpins(radius, mirror):
    """At 0.6 m the centre line itself is tighter than the steering (0.74 m)."""
    points = stadium_points(radius=radius) * [1.0, mirror]
    track = make_track("hairpins", points, np.full(len(points), 1.1), np.full(len(points), 1.1))
    for line in make_lines(track).values():
        assert np.abs(line.curve.curvature).max() < CAR.curvature_max
        _, left = track.centre.project(line.curve.xy, line.centre_s, reach=1.0)
        assert np.abs(left).max() < 1.1 - 0.5 * CAR.width


@pytest.mark.parametrize("mirror", [1.0, -1.0])
def test_bounds_end_before_normals_meet_and_leave_room_at_the_edges(mirror):
    points = stadium_points(radius=0.8) * [1.0, mirror]
    track = make_track("hairpins", points, np.full(len(points), 1.1), np.full(len(points), 1.0))
    lower, upper = bounds(track, CAR)
    for n in (lower, upper):
        assert (1.0 - track.centre.curvature * n).min() >= 0.3 - 1e-12
    assert (upper <= track.left - 0.5 * CAR.width - MARGIN + 1e-12).all()
    assert (lower >= 0.5 * CAR.width + MARGIN - track.right - 1e-12).all()


def test_the_race_line_is_the_fastest_and_all_stay_on_the_track(embedded):
    track, lines = embedded
    assert tuple(lines) == LINES
    assert min(lines, key=lambda name: lines[name].lap_time) == "race"
    lower, upper = bounds(track, CAR)
    for line in lines.values():
        assert np.abs(line.curve.curvature).max() < CAR.curvature_max
        s, left = track.centre.project(line.curve.xy, line.centre_s, reach=1.0)
        assert (left <= track.centre.at(upper, s) + 0.02).all()
        assert (left >= track.centre.at(lower, s) - 0.02).all()


def test_a_mirrored_track_has_mirrored_lines():
    points = wavy_points(2, 80.0)
    ones = np.full(len(points), 1.1)
    here, there = (make_lines(make_track("t", p, ones, ones)) for p in (points, points * [1.0, -1.0]))
    for name, other in (("centre", "centre"), ("left", "right"), ("right", "left"), ("race", "race")):
        gap, _ = cKDTree(there[other].curve.xy * [1.0, -1.0]).query(here[name].curve.xy)
        assert gap.max() < 0.06  # half a step of the points, and the tolerance of the search


def test_lap_time_is_the_time_of_the_lap():
    line = make_lines(circle_track(10.0), ("centre",))["centre"]
    steady = replace(line, speed=np.full_like(line.speed, 4.0))
    assert steady.lap_time == pytest.approx(steady.curve.length / 4.0)


def test_unknown_lines_narrow_tracks_and_tight_corners_are_refused():
    with pytest.raises(
        ValueError, match="no line is called 'middle'; the lines are centre, left, right, race"
    ):
        make_lines(circle_track(5.0), ("middle",))
    points = wavy_points()
    narrow = np.full(len(points), 1.1)
    narrow[40:44] = 0.3
    with pytest.raises(
        ValueError, match=r"wavy, point (39|4\d): the track is 0\.\d+ m wide here.*mend the widths"
    ):
        make_lines(make_track("wavy", points, narrow, narrow))
    points = stadium_points(radius=0.45)
    with pytest.raises(
        ValueError, match=r"pin, point \d+: this corner is too tight.*the car needs 0\.74 m; widen"
    ):
        make_lines(make_track("pin", points, np.full(len(points), 0.5), np.full(len(points), 0.5)))


@needs_public_tracks
@pytest.mark.parametrize("name", ["Spielberg", "Silverstone"])
def test_the_race_line_is_near_the_public_one(name):
    lines = make_lines(load_track(TRACKS / name))
    public = load_race_line(TRACKS / name)
    gap, _ = cKDTree(lines["race"].curve.xy).query(public.xy)
    assert gap.mean() < 0.2
    for line in lines.values():
        assert np.abs(line.curve.curvature).max() < CAR.curvature_max
