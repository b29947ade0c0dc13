"""Batched linear programmes and matrix games against HiGHS."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog as highs
from torch import Tensor

from cbdl.credal.solvers import linprog as programmes
from cbdl.credal.solvers.linprog import Dense, linprog, matrix_game
from trials import trials


def game_value(G: Tensor) -> float:
    rows, columns = G.shape
    low, width = G.min(), (G.max() - G.min()).clamp_min(1e-300)
    scaled = ((G - low) / width).numpy()
    answer = highs(
        np.r_[np.zeros(columns), -1.0],
        A_ub=np.c_[-scaled, np.ones(rows)],
        b_ub=np.zeros(rows),
        A_eq=[[1.0] * columns + [0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * columns + [(None, None)],
    )
    return float(low + width * -answer.fun)


def games(kind: str, batch: int, rows: int, columns: int, seed: int = 0) -> Tensor:
    gen = torch.Generator().manual_seed(seed)
    G = torch.randn(batch, rows, columns, generator=gen, dtype=torch.float64)
    if kind == "ties":
        return torch.randint(-1, 2, (batch, rows, columns), generator=gen).double()
    if kind == "duplicates":
        half = G[..., : (columns + 1) // 2]
        G = torch.cat([half, half], -1)[..., :columns]
        G[:, -1] = G[:, 0]
    if kind == "low rank":
        left = torch.randn(batch, rows, 2, generator=gen, dtype=torch.float64)
        return left @ torch.randn(batch, 2, columns, generator=gen, dtype=torch.float64)
    return G


@pytest.mark.parametrize("kind", ["random", "ties", "duplicates", "low rank"])
@pytest.mark.parametrize("shape", [(10, 10), (3, 8), (40, 5), (1, 6), (6, 1), (64, 64)])
def test_game_value_is_that_of_highs(kind: str, shape: tuple[int, int]) -> None:
    G = games(kind, 8, *shape)
    answer = matrix_game(G)
    want = torch.tensor([game_value(g) for g in G], dtype=torch.float64)
    assert torch.allclose(answer.value, want, atol=1e-6, rtol=0)  # the tolerance of HiGHS
    assert answer.gap.max() < 1e-8
    assert (answer.weights >= 0).all()
    assert torch.allclose(answer.weights.sum(-1), torch.ones(8, dtype=torch.float64))


def test_value_is_attained_by_the_weights() -> None:
    G = games("random", 50, 6, 9)
    answer = matrix_game(G)
    attained = torch.einsum("bam,bm->ba", G, answer.weights).amin(-1)
    assert torch.allclose(attained, answer.value, atol=1e-15)


def test_games_with_a_pure_saddle_point_are_exact() -> None:
    G = torch.tensor([[[3.0, 1.0], [4.0, 2.0]], [[0.0, 0.0], [0.0, 0.0]]], dtype=torch.float64)
    answer = matrix_game(G)
    assert answer.value.tolist() == [3.0, 0.0]
    assert answer.gap.tolist() == [0.0, 0.0]


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 12), st.floats(-8, 8))
@trials(30)
def test_gap_scales_with_the_game(seed: int, rows: int, columns: int, exponent: float) -> None:
    G = games("random", 4, rows, columns, seed) * 10**exponent
    answer = matrix_game(G)
    assert (answer.gap <= 1e-9 * 10**exponent).all()


def test_answer_does_not_depend_on_the_batch() -> None:
    G = torch.cat([games("random", 20, 5, 7), games("ties", 20, 5, 7), games("low rank", 20, 5, 7)])
    together = matrix_game(G)
    alone = [matrix_game(g[None]) for g in G]
    assert torch.allclose(together.value, torch.cat([a.value for a in alone]), atol=1e-10)


def test_minimax_theorem() -> None:
    G = games("random", 30, 7, 4)
    assert torch.allclose(matrix_game(G).value, -matrix_game(-G.mT).value, atol=1e-10)


@pytest.mark.parametrize("shared", [True, False])
def test_linear_programmes_agree_with_highs(shared: bool) -> None:
    gen = torch.Generator().manual_seed(1)
    A = torch.rand(1 if shared else 12, 5, 14, generator=gen, dtype=torch.float64)
    x = torch.rand(12, 14, generator=gen, dtype=torch.float64)
    b = Dense(A).times(x)
    c = torch.rand(12, 14, generator=gen, dtype=torch.float64)
    for upper in (None, torch.full((12, 14), 100.0, dtype=torch.float64)):
        answer = linprog(c, A, b, upper=upper)
        for i in range(12):
            want = highs(c[i].numpy(), A_eq=A[0 if shared else i].numpy(), b_eq=b[i].numpy()).fun
            assert answer.value[i].item() == pytest.approx(want, abs=1e-9)
        assert answer.gap.max() < 1e-8
        assert answer.residual.max() < 1e-10


def test_redundant_equations_are_no_obstacle() -> None:
    A = torch.tensor([[[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]], dtype=torch.float64)
    b = torch.tensor([[1.0, 1.0, 0.5]], dtype=torch.float64)
    c = torch.tensor([[1.0, 3.0, 1.0]], dtype=torch.float64)
    assert linprog(c, A, b).value.item() == pytest.approx(1.5, abs=1e-10)


def test_infeasible_and_unbounded_programmes_are_not_passed_off_as_solved() -> None:
    A = torch.tensor([[[1.0, 1.0]], [[1.0, -1.0]]], dtype=torch.float64)
    b = torch.tensor([[-1.0], [0.0]], dtype=torch.float64)
    c = torch.tensor([[1.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    answer = linprog(c, A, b)
    assert answer.residual[0] > 1e-3
    assert answer.gap[1] > 1e-3


@pytest.mark.parametrize("steps", [1, 3, 5])
def test_gap_is_true_when_the_iteration_is_cut_short(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    G = games("random", 10, 6, 8)
    want = matrix_game(G)
    whole = programmes.interior_point
    monkeypatch.setattr(programmes, "interior_point", lambda *a, **k: whole(*a, max_steps=steps, **k))
    rough = matrix_game(G)
    assert rough.gap.max() > 1e-6
    assert (rough.value <= want.value + 1e-10).all()
    assert (rough.value + rough.gap >= want.value - 1e-10).all()
