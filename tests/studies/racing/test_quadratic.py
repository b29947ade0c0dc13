"""Quadratic programmes with bounds: scipy's bounded least squares, dense algebra, and the certificate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from cbdl.studies.racing.quadratic import CircularMatrix, gram, minimise_in_box
from trials import trials


def problem(N, seed, ridge=0.1):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(N, 3))
    dense = np.zeros((N, N))
    for i in range(N):
        for k in range(3):
            dense[i, (i + k - 1) % N] += rows[i, k]
    diagonals = gram(rows).diagonals
    diagonals[0] += ridge
    lower, upper = -rng.uniform(0.1, 1.0, N), rng.uniform(0.1, 1.0, N)
    return (
        CircularMatrix(diagonals),
        dense.T @ dense + ridge * np.eye(N),
        rng.normal(size=N) * 3.0,
        lower,
        upper,
    )


def truth(dense, g, lower, upper):
    root = np.linalg.cholesky(dense).T
    return lsq_linear(root, -np.linalg.solve(root.T, g), (lower, upper), method="bvls", tol=1e-14).x


@trials(40)
@given(st.integers(6, 40), st.integers(0, 10_000))
def test_the_optimum_is_that_of_bounded_least_squares(N, seed):
    H, dense, g, lower, upper = problem(N, seed)
    optimum = minimise_in_box(H, g, lower, upper)
    x = truth(dense, g, lower, upper)
    value = 0.5 * x @ dense @ x + g @ x
    assert ((optimum.point >= lower) & (optimum.point <= upper)).all()
    # A bound on the value bounds the point, because the smallest eigenvalue is at least the ridge.
    assert np.linalg.norm(optimum.point - x) <= np.sqrt(2.0 * (optimum.gap + 1e-9) / 0.1)
    assert -1e-9 <= optimum.value - value <= optimum.gap + 1e-9
    assert optimum.gap <= 1e-7 * (1.0 + abs(value))


@trials(20)
@given(st.integers(6, 30), st.integers(0, 10_000))
def test_without_active_bounds_it_is_a_linear_system(N, seed):
    H, dense, g, _, _ = problem(N, seed)
    wide = np.full(N, 1e6)
    optimum = minimise_in_box(H, g, -wide, wide)
    np.testing.assert_allclose(optimum.point, -np.linalg.solve(dense, g), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("N", [6, 7, 50, 51])
def test_the_matrix_is_the_dense_one(N):
    H, dense, g, _, _ = problem(N, seed=3)
    np.testing.assert_allclose(H @ g, dense @ g, atol=1e-12)


def test_circles_that_are_too_short_are_refused():
    with pytest.raises(ValueError, match="5 points"):
        minimise_in_box(CircularMatrix(np.ones((3, 5))), np.ones(5), -np.ones(5), np.ones(5))
