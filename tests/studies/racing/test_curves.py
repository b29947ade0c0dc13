"""Closed curves: circles and ellipses in closed form, crossings by brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from racing_cases import circle, stadium_points, wavy_points
from scipy.special import ellipe

from cbdl.studies.racing.curves import chords, closed_curve, crossing, distances
from trials import trials


def test_length_curvature_and_heading_of_an_ellipse():
    a, b = 10.0, 6.0
    angle = 2.0 * np.pi * np.arange(400) / 400
    curve = closed_curve(np.stack([a * np.cos(angle), b * np.sin(angle)], axis=1), 1000)
    assert curve.length == pytest.approx(4.0 * a * ellipe(1.0 - b**2 / a**2), rel=1e-7)
    c, s = curve.xy[:, 0] / a, curve.xy[:, 1] / b
    np.testing.assert_allclose(curve.curvature, a * b / (a**2 * s**2 + b**2 * c**2) ** 1.5, rtol=1e-3)
    np.testing.assert_allclose(np.sin(curve.heading - np.arctan2(b * c, -a * s)), 0.0, atol=1e-5)
    assert np.ptp(chords(curve.xy)) < 1e-3 * curve.spacing
    assert curve.heading[-1] - curve.heading[0] == pytest.approx(2.0 * np.pi, abs=0.02)


@pytest.mark.parametrize("clockwise", [False, True])
def test_the_nearest_point_of_a_circle(clockwise):
    radius = 4.0
    curve = closed_curve(circle(radius, 200, clockwise), 250)
    rng = np.random.default_rng(0)
    angle, off = rng.uniform(0.0, 2.0 * np.pi, 300), rng.uniform(-1.0, 1.0, 300)
    points = (radius + off)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    s, left = curve.project(points, (-angle if clockwise else angle) * radius, reach=0.5)
    np.testing.assert_allclose(left, off if clockwise else -off, atol=1e-6)
    np.testing.assert_allclose(np.sin(s / radius), -np.sin(angle) if clockwise else np.sin(angle), atol=1e-6)


def test_the_place_on_a_curve_grows_with_the_place():
    """Along a parallel curve, inside and outside of the bends, there are no steps back at the points."""
    points = wavy_points(length=60.0)
    curve, fine = closed_curve(points, 300), closed_curve(points, 12_000)
    for off in (-0.5, 0.0, 0.5):
        place, left = curve.project(fine.offset(np.full(12_000, off)), fine.s, reach=1.0)
        assert np.diff(place).min() > 0.0
        np.testing.assert_allclose(place, fine.s, atol=0.01)
        np.testing.assert_allclose(left, off, atol=1e-3)


def test_the_search_stays_on_its_own_stretch():
    """Between two straights 1.4 m apart, the place decides which of them is meant."""
    curve = closed_curve(stadium_points(radius=0.7), 400)
    middle = np.array([[10.0, 0.9]])  # nearer to the other straight
    s, left = curve.project(middle, np.array([10.0]), reach=1.5)
    assert s[0] == pytest.approx(10.0, abs=0.05)
    assert left[0] == pytest.approx(0.9, abs=0.02)


def test_arc_length_counts_on_from_lap_to_lap():
    curve = closed_curve(circle(3.0, 100), 120)
    point = curve.xy[[7]]
    for lap in (-1, 0, 3):
        s, _ = curve.project(point, curve.s[[7]] + lap * curve.length, reach=1.0)
        assert s[0] == pytest.approx(curve.s[7] + lap * curve.length, abs=1e-9)


def test_values_between_points_are_periodic():
    curve = closed_curve(circle(3.0, 100), 120)
    values = np.sin(curve.s / 3.0)
    s = np.linspace(-2.0 * curve.length, 2.0 * curve.length, 999)
    np.testing.assert_allclose(curve.at(values, s), np.sin(s / (curve.length / (2.0 * np.pi))), atol=1e-3)


def brute_force(points):
    """All pairs of sides that are not neighbours, by exact orientation of integers."""
    n = len(points)
    p = [tuple(int(v) for v in point) for point in points]

    def side(a, b, c):
        value = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
        return (value > 0) - (value < 0)

    def between(a, b, c):
        return min(a[0], b[0]) <= c[0] <= max(a[0], b[0]) and min(a[1], b[1]) <= c[1] <= max(a[1], b[1])

    for i in range(n):
        for j in range(i + 2, n if i else n - 1):
            a, b, c, d = p[i], p[(i + 1) % n], p[j], p[(j + 1) % n]
            signs = side(a, b, c), side(a, b, d), side(c, d, a), side(c, d, b)
            if signs[0] * signs[1] < 0 and signs[2] * signs[3] < 0:
                return i, j
            touching = [(0, a, b, c), (1, a, b, d), (2, c, d, a), (3, c, d, b)]
            if any(signs[k] == 0 and between(u, v, w) for k, u, v, w in touching):
                return i, j
    return None


@trials(150)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=4, max_size=9, unique=True))
def test_crossings_are_those_of_brute_force(points):
    assert crossing(np.array(points, dtype=np.float64)) == brute_force(points)


def test_a_figure_of_eight_crosses_and_a_hairpin_does_not():
    angle = 2.0 * np.pi * np.arange(200) / 200
    i, j = crossing(np.stack([np.sin(angle), np.sin(2.0 * angle)], axis=1) * 20.0)
    assert {i, j} & {0, 99, 100, 199}
    assert crossing(stadium_points()) is None


def test_distances_come_back_to_the_start():
    points = np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 4.0]])
    np.testing.assert_allclose(distances(points), [0.0, 3.0, 7.0, 12.0])
