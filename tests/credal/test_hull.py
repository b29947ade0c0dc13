"""Extreme elements and membership against scipy's linear programmes and Qhull."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog as highs
from scipy.spatial import ConvexHull
from torch import Tensor

from cbdl.credal.classes.hull import contains, extreme_mask
from cbdl.credal.solvers.l1 import least_deviation
from trials import trials


def dirichlet(*shape: int, concentration: float = 1.0, seed: int = 0) -> Tensor:
    rng = np.random.default_rng(seed)
    draw = rng.dirichlet(np.full(shape[-1], concentration), size=shape[:-1])
    return torch.from_numpy(draw)


def l1_by_highs(A: Tensor, b: Tensor) -> float:
    m, N = A.shape
    cost = np.r_[np.zeros(m), np.ones(2 * N)]
    equal = np.r_[np.c_[A.numpy().T, -np.eye(N), np.eye(N)], [np.r_[np.ones(m), np.zeros(2 * N)]]]
    return float(highs(cost, A_eq=equal, b_eq=np.r_[b.numpy(), 1.0]).fun)


@pytest.mark.parametrize(("m", "J"), [(1, 3), (2, 2), (5, 3), (10, 10), (64, 4), (3, 1000)])
@pytest.mark.parametrize("concentration", [1.0, 0.03])
def test_least_deviation_is_that_of_highs(m: int, J: int, concentration: float) -> None:
    P, p = (
        dirichlet(4, m, J, concentration=concentration),
        dirichlet(4, J, concentration=concentration, seed=1),
    )
    answer = least_deviation(P, p)
    for i in range(4):
        assert answer.value[i].item() == pytest.approx(l1_by_highs(P[i], p[i]), abs=1e-7)
    assert answer.gap.max() < 1e-9
    attained = (torch.einsum("bm,bmj->bj", answer.weights, P) - p).abs().sum(-1)
    assert torch.allclose(attained, answer.value, atol=1e-14)


def test_weights_of_the_terms_scale_them() -> None:
    P, p, w = dirichlet(6, 4, 5), dirichlet(6, 5, seed=1), dirichlet(6, 5, seed=2)
    w[:, 0] = 0
    answer = least_deviation(P, p, w)
    for i in range(6):
        assert answer.value[i].item() == pytest.approx(l1_by_highs(P[i] * w[i], p[i] * w[i]), abs=1e-7)


@pytest.mark.parametrize("scale", [1e-200, 1e-8, 1e8, 1e200])
def test_least_deviation_does_not_depend_on_the_unit(scale: float) -> None:
    P, p = dirichlet(6, 4, 5), dirichlet(6, 5, seed=1)
    assert torch.allclose(
        least_deviation(P * scale, p * scale).value / scale, least_deviation(P, p).value, atol=1e-12
    )


def test_gap_is_true_when_the_iteration_is_cut_short() -> None:
    P, p = dirichlet(20, 4, 5), dirichlet(20, 5, seed=1)
    want = least_deviation(P, p).value
    rough = least_deviation(P, p, level=0.1)
    assert rough.gap.max() > 1e-6
    assert (rough.value >= want - 1e-12).all()
    assert (rough.value - rough.gap <= want + 1e-12).all()
    assert ((rough.value > 0.1) == (want > 0.1)).all()


def qhull_mask(P: Tensor) -> np.ndarray:
    # The simplex is flat in R^J: one coordinate says nothing new.
    mask = np.zeros(P.shape[0], dtype=bool)
    mask[ConvexHull(P[:, :-1].numpy()).vertices] = True
    return mask


@pytest.mark.parametrize(("m", "J"), [(8, 3), (30, 3), (64, 3), (20, 4), (64, 5)])
def test_extremes_are_the_vertices_qhull_finds(m: int, J: int) -> None:
    P = dirichlet(5, m, J, seed=m)
    mask = extreme_mask(P)
    for i in range(5):
        assert (mask[i].numpy() == qhull_mask(P[i])).all()


@given(st.integers(0, 10**6), st.integers(2, 8), st.integers(3, 8), st.integers(1, 5))
@trials(30)
def test_planted_mixtures_and_duplicates_are_found(seed: int, m: int, J: int, planted: int) -> None:
    P = dirichlet(3, m, J, seed=seed)
    beta = dirichlet(3, planted, m, seed=seed + 1)
    everything = torch.cat([P, beta @ P, P], 1)
    mask = extreme_mask(everything)
    assert not mask[:, m:].any()
    assert (mask[:, :m] == extreme_mask(P)).all()


def test_of_two_classes_only_the_two_ends_are_extreme() -> None:
    p = torch.rand(50, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mask = extreme_mask(torch.stack([p, 1 - p], -1))
    rows = torch.arange(50)
    assert (mask.sum(-1) == 2).all()
    assert mask[rows, p.argmax(-1)].all()
    assert mask[rows, p.argmin(-1)].all()


def test_of_equal_elements_the_first_stays() -> None:
    P = dirichlet(1, 1, 6).expand(1, 5, 6)
    assert extreme_mask(P).tolist() == [[True, False, False, False, False]]
    assert extreme_mask(dirichlet(1, 1, 6)).tolist() == [[True]]
    assert extreme_mask(torch.ones(2, 3, 1, dtype=torch.float64)).tolist() == [[True, False, False]] * 2


def test_corners_that_are_nearly_doubled_are_not_lost() -> None:
    # The last two differ by 1.2e-9: each is nearly a mixture of the other and the far ends.
    h = 6e-10
    P = torch.tensor(
        [[[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.3 + h, 0.3 - h, 0.4], [0.3 - h, 0.3 + h, 0.4]]],
        dtype=torch.float64,
    )
    mask = extreme_mask(P)
    assert mask[0, :2].all()
    assert mask[0, 2:].any()
    far = least_deviation(P[:, mask[0]], P[:, 2]).value
    assert far.item() < 3e-9


def test_peaked_probabilities() -> None:
    logits = torch.tensor(
        [[100.0, -100.0, 0.0], [0.0, 100.0, -100.0], [-100.0, 0.0, 100.0], [99.0, 99.0, 99.0]]
    )
    P = torch.softmax(logits, -1).double()[None]
    P = P / P.sum(-1, keepdim=True)
    assert extreme_mask(P).tolist() == [[True, True, True, False]]
    Q = torch.tensor([[[1.0, 1e-300], [1.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    assert extreme_mask(Q).tolist() == [[True, False, True]]


def test_many_classes_make_almost_everything_extreme() -> None:
    assert extreme_mask(dirichlet(4, 64, 1000)).all()


def test_extremes_do_not_depend_on_the_batch() -> None:
    P = torch.cat([dirichlet(10, 12, 3, seed=s) for s in range(3)])
    together = extreme_mask(P)
    assert all((extreme_mask(p[None])[0] == row).all() for p, row in zip(P, together, strict=True))


@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 10))
@trials(30)
def test_mixtures_are_members_and_the_rest_is_what_highs_says(seed: int, m: int, J: int) -> None:
    P = dirichlet(4, m, J, seed=seed)
    inside = (dirichlet(4, 1, m, seed=seed + 1) @ P).squeeze(1)
    assert contains(P, inside).all()
    outside = dirichlet(4, J, seed=seed + 2)
    got = contains(P, outside)
    for i in range(4):
        assert bool(got[i]) == (l1_by_highs(P[i], outside[i]) <= 1e-7)
