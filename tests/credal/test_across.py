"""Distances across dimensions: closed forms against optimisation over the Stiefel manifold."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg, optimize

from cbdl.credal import across
from cbdl.credal.across import embedding_distance, projection_distance, set_distance
from trials import trials

KINDS = ("w2", "kl", "reverse-kl", "hellinger")


def covariance(rng, d, spread=1.0):
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (basis * np.exp(spread * rng.normal(size=d))) @ basis.T


def same_space(S, T, kind):
    """Textbook formulas for two centred Normals on one space, with full matrices."""
    d = len(S)
    if kind == "w2":
        root = linalg.sqrtm(T)
        cross = np.linalg.eigvalsh(root @ S @ root).clip(0)
        return np.sqrt(max(0.0, np.trace(S) + np.trace(T) - 2 * np.sqrt(cross).sum()))
    if kind == "reverse-kl":
        return same_space(T, S, "kl")
    logdet = [np.linalg.slogdet(X)[1] for X in (S, T, (S + T) / 2)]
    if kind == "kl":
        return (np.trace(np.linalg.solve(T, S)) - d + logdet[1] - logdet[0]) / 2
    return np.sqrt(max(0.0, 1 - np.exp((logdet[0] + logdet[1]) / 4 - logdet[2] / 2)))


def best_projection(S, T, kind, rng, starts=4):
    """min over V with orthonormal rows of d(N(0, S), N(0, V T V')), V from a QR factor, by BFGS from some starts."""
    m, n = len(S), len(T)

    def objective(x):
        V = np.linalg.qr(x.reshape(n, m))[0].T
        return same_space(S, V @ T @ V.T, kind)

    return min(optimize.minimize(objective, rng.normal(size=n * m), method="BFGS").fun for _ in range(starts))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "n"), [(1, 3), (2, 3), pytest.param(2, 4, marks=pytest.mark.slow)])
def test_projection_is_the_minimum_over_the_stiefel_manifold(kind, m, n):
    rng = np.random.default_rng(10 * m + n)
    S, T = covariance(rng, m), covariance(rng, n)
    ours = float(projection_distance(np.zeros(m), S, np.zeros(n), T, kind).value)
    theirs = best_projection(S, T, kind, rng)
    assert ours <= theirs + 1e-7
    # The peer stops early where the minimum is flat; that ours is attained is tested below.
    assert ours == pytest.approx(theirs, abs=2e-3)


@trials(40)
@given(
    m=st.integers(1, 5), extra=st.integers(0, 5), seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS),
    swap=st.booleans(),
)  # fmt: skip
def test_embedding_and_projection_agree_and_are_attained(m, extra, seed, kind, swap):
    """Cai and Lim's theorem; and both witnesses do what they promise, by the textbook formulas."""
    rng, n = np.random.default_rng(seed), m + extra
    swap = swap and extra > 0  # of equal dimensions the first is the one that is embedded
    S, T, a, b = covariance(rng, m), covariance(rng, n), rng.normal(size=m), rng.normal(size=n)
    pair = (b, T, a, S) if swap else (a, S, b, T)
    down, up = projection_distance(*pair, kind), embedding_distance(*pair, kind)
    assert float(down.value) == pytest.approx(float(up.value), abs=1e-10)
    for found in (down, up):
        np.testing.assert_allclose(found.rotation @ found.rotation.T, np.eye(m), atol=1e-10)
    # The projected Normal is V T V', V b + shift, at the promised distance of S; its mean is free, hence that of S.
    V = down.rotation
    np.testing.assert_allclose(V @ T @ V.T, down.cov, atol=1e-9 * np.abs(T).max())
    np.testing.assert_allclose(V @ b + down.shift, a, atol=1e-9)
    np.testing.assert_allclose(down.loc, a)
    between = same_space(down.cov, S, kind) if swap else same_space(S, down.cov, kind)
    assert float(down.value) == pytest.approx(between, abs=1e-6)
    # The embedded one is projected to S, at the promised distance of T.
    V = up.rotation
    np.testing.assert_allclose(V @ up.cov @ V.T, S, atol=1e-9 * max(np.abs(S).max(), np.abs(T).max()))
    np.testing.assert_allclose(V @ up.loc + up.shift, a, atol=1e-9)
    np.testing.assert_allclose(up.loc, b)
    between = same_space(T, up.cov, kind) if swap else same_space(up.cov, T, kind)
    assert float(up.value) == pytest.approx(between, abs=1e-6)


@trials(30)
@given(m=st.integers(1, 4), n=st.integers(1, 4), seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS))
def test_a_set_is_at_most_as_far_as_any_of_its_elements(m, n, seed, kind):
    """Lemmas "dist_lemma2" (m <= n) and "dist_lemma3" (m >= n)."""
    rng, k = np.random.default_rng(seed), 4
    S, T = np.stack([covariance(rng, m) for _ in range(k)]), covariance(rng, n)
    found = set_distance(np.zeros((k, m)), S, np.zeros(n), T, kind)
    for route in (projection_distance, embedding_distance):
        each = np.array([float(route(np.zeros(m), s, np.zeros(n), T, kind).value) for s in S])
        np.testing.assert_allclose(found.values, each, atol=1e-10)
        assert (found.value <= each + 1e-10).all()
    assert found.value == found.values[found.index]


def test_equal_dimensions_give_the_ordinary_distance_up_to_rotation():
    S, T = np.diag([4.0, 1.0]), np.diag([9.0, 16.0])
    assert float(projection_distance(np.zeros(2), S, np.ones(2), T).value) == pytest.approx(np.sqrt(4 + 4))
    kl = (4 / 16 - 1 - np.log(4 / 16) + 1 / 9 - 1 - np.log(1 / 9)) / 2
    assert float(projection_distance(np.zeros(2), S, np.ones(2), T, "kl").value) == pytest.approx(kl)


def test_a_margin_of_the_larger_normal_is_at_distance_zero():
    rng = np.random.default_rng(0)
    T = covariance(rng, 5)
    for kind in KINDS:
        found = projection_distance(np.zeros(3), T[:3, :3], np.zeros(5), T, kind)
        assert float(found.value) == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_w2_scales_with_the_unit_and_divergences_do_not(unit):
    S, T = np.diag([9.0]), np.diag([4.0, 1.0, 1.0])
    found = projection_distance(np.zeros(1), S * unit**2, np.zeros(3), T * unit**2)
    assert float(found.value) == pytest.approx(unit, rel=1e-12)
    kl = projection_distance(np.zeros(1), S * unit**2, np.zeros(3), T * unit**2, "kl")
    assert float(kl.value) == pytest.approx((9 / 4 - 1 - np.log(9 / 4)) / 2, rel=1e-12)


def test_repeated_and_zero_eigenvalues():
    """Ties leave the rotation a choice; w2 also takes points and flat Normals."""
    for T in (np.eye(4), np.diag([1.0, 1.0, 0.0, 0.0]), np.zeros((4, 4))):
        for S in (np.eye(2), np.diag([2.0, 0.0]), np.zeros((2, 2))):
            down, up = (f(np.zeros(2), S, np.zeros(4), T) for f in (projection_distance, embedding_distance))
            assert float(down.value) == pytest.approx(float(up.value), abs=1e-12)
            np.testing.assert_allclose(down.rotation @ T @ down.rotation.T, down.cov, atol=1e-12)
            np.testing.assert_allclose(up.rotation @ up.cov @ up.rotation.T, S, atol=1e-12)


def test_high_dimension():
    rng = np.random.default_rng(3)
    S, T = covariance(rng, 10), covariance(rng, 100)
    down, up = (f(np.zeros(10), S, np.zeros(100), T) for f in (projection_distance, embedding_distance))
    assert float(down.value) == pytest.approx(float(up.value), abs=1e-9)
    np.testing.assert_allclose(up.rotation @ up.cov @ up.rotation.T, S, atol=1e-8)


def test_batches_broadcast_and_answers_do_not_depend_on_them():
    rng = np.random.default_rng(1)
    S, T = np.stack([covariance(rng, 2) for _ in range(6)]), covariance(rng, 4)
    whole = projection_distance(np.zeros(2), S.reshape(2, 3, 2, 2), np.zeros(4), T)
    assert whole.value.shape == (2, 3)
    assert whole.rotation.shape == (2, 3, 2, 4)
    alone = [float(projection_distance(np.zeros(2), s, np.zeros(4), T).value) for s in S]
    np.testing.assert_allclose(whole.value.ravel(), alone, rtol=1e-13)


def test_torch_in_torch_out():
    found = set_distance(torch.zeros(3, 2), torch.eye(2).expand(3, 2, 2), torch.zeros(3), torch.eye(3))
    assert isinstance(found.value, torch.Tensor)
    assert found.index.dtype == torch.int64
    assert found.values.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(2), np.eye(3), np.zeros(3), np.eye(3)), r"cov has shape \(3, 3\), loc \(2,\)"),
        ((np.zeros(2), np.array([[1, 2], [0, 1.0]]), np.zeros(3), np.eye(3)), r"cov\[0, 1\] differs"),
        ((np.zeros(2), np.diag([1, -1.0]), np.zeros(3), np.eye(3)), r"cov\[\] has the eigenvalue -1"),
        ((np.zeros(2), np.eye(2), np.zeros(3), np.diag([1, np.nan, 1])), r"target_cov\[1, 1\] is nan"),
        ((np.zeros(2), np.eye(2), np.zeros(3), np.eye(3), "tv"), "kind is 'tv'"),
        ((np.zeros(2), np.diag([1.0, 0]), np.zeros(3), np.eye(3), "kl"), "all must be positive"),
        ((np.zeros((2, 2)), np.eye(2), np.zeros((3, 3)), np.eye(3)), "do not broadcast"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        across.projection_distance(*arguments)
