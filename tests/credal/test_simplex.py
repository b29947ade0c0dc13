"""Convex minima over the simplex: against SLSQP, with certificates that hold, whatever else is in the batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from cbdl.credal.solvers.cholesky import Cholesky
from cbdl.credal.solvers.simplex import minimise
from trials import trials

CPU = torch.device("cpu")


def softmaxes(seed, batch, m, J, spread=1.0):
    generator = torch.Generator().manual_seed(seed)
    logits = spread * torch.randn(batch, m, J, generator=generator, dtype=torch.float64)
    return torch.softmax(logits, -1)


def negative_entropy(P):
    def f(beta, rows):
        p = P[rows]
        q = (beta.unsqueeze(1) @ p).squeeze(1)
        hessian = (p / q.unsqueeze(1)) @ p.mT
        return (q * q.log()).sum(-1), (p @ (q.log() + 1).unsqueeze(-1)).squeeze(-1), hessian

    return f


def cross_entropy_to(P, target):
    """sum_y -t(y) log q(y): unbounded at the boundary."""

    def f(beta, rows):
        p, t = P[rows], target[rows]
        q = (beta.unsqueeze(1) @ p).squeeze(1)
        gradient = -(p @ (t / q).unsqueeze(-1)).squeeze(-1)
        return -(t * q.log()).sum(-1), gradient, (p * (t / q**2).unsqueeze(1)) @ p.mT

    return f


def square_distance_to(P, target):
    def f(beta, rows):
        d = (beta.unsqueeze(1) @ P[rows]).squeeze(1) - target[rows]
        return (d * d).sum(-1), 2 * (P[rows] @ d.unsqueeze(-1)).squeeze(-1), 2 * P[rows] @ P[rows].mT

    return f


def slsqp(objective, m, row):
    """Nobody here wrote this one."""
    rows = torch.tensor([row])

    def f(beta):
        value, gradient, _ = objective(torch.tensor(np.clip(beta, 1e-12, None))[None], rows)
        return value.item(), gradient[0].numpy()

    best = minimize(
        f,
        np.full(m, 1 / m),
        jac=True,
        bounds=[(0, 1)] * m,
        constraints={"type": "eq", "fun": lambda b: b.sum() - 1, "jac": lambda b: np.ones(m)},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    return best.fun


OBJECTIVES = {
    "entropy": lambda P, t: negative_entropy(P),
    "cross-entropy": cross_entropy_to,
    "square": square_distance_to,
}


@pytest.mark.parametrize("kind", OBJECTIVES)
@pytest.mark.parametrize("spread", [0.5, 3.0])
def test_the_minimum_is_that_of_slsqp(kind, spread):
    P, target = softmaxes(0, 12, 5, 6, spread), softmaxes(1, 12, 1, 6, spread)[:, 0]
    f = OBJECTIVES[kind](P, target)
    ours = minimise(f, 12, 5, device=CPU)
    theirs = torch.tensor([slsqp(f, 5, i) for i in range(12)], dtype=torch.float64)
    assert (ours.value <= theirs + 1e-9).all()
    torch.testing.assert_close(ours.value, theirs, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("kind", OBJECTIVES)
@pytest.mark.parametrize("spread", [0.1, 2.0, 10.0, 30.0])
def test_gaps_close_in_few_steps(kind, spread):
    P, target = softmaxes(2, 500, 8, 6, spread), softmaxes(3, 500, 1, 6, spread)[:, 0]
    best = minimise(OBJECTIVES[kind](P, target), 500, 8, device=CPU)
    assert (best.gap <= 1e-10 * best.value.abs().clamp_min(1)).all()
    assert best.steps <= 40


@trials(40)
@given(
    seed=st.integers(0, 10**6),
    m=st.integers(1, 7),
    J=st.integers(1, 6),
    spread=st.sampled_from([0.01, 1.0, 5.0, 20.0]),
    kind=st.sampled_from(list(OBJECTIVES)),
)
def test_no_point_of_the_simplex_is_below_the_value_minus_the_gap(seed, m, J, spread, kind):
    P, target = softmaxes(seed, 3, m, J, spread), softmaxes(seed + 1, 3, 1, J, spread)[:, 0]
    f = OBJECTIVES[kind](P, target)
    # Few steps, so that the certificate has something to say.
    best = minimise(f, 3, m, device=CPU, max_steps=seed % 4)
    torch.testing.assert_close(best.point.sum(-1), torch.ones(3, dtype=torch.float64))
    assert (best.point >= 0).all()
    assert (best.gap >= 0).all()
    rng = np.random.default_rng(seed)
    tried = torch.tensor(rng.dirichlet(np.full(m, 0.3), size=(200, 3))).clamp_min(1e-12)
    for beta in tried:
        value = f(beta / beta.sum(-1, keepdim=True), torch.arange(3))[0]
        assert (value >= best.value - best.gap - 1e-9 * (1 + best.value.abs())).all()


def test_the_value_is_that_of_the_point():
    P = softmaxes(4, 50, 6, 5, 4.0)
    best = minimise(negative_entropy(P), 50, 6, device=CPU)
    q = (best.point.unsqueeze(1) @ P).squeeze(1)
    torch.testing.assert_close(best.value, torch.special.xlogy(q, q).sum(-1))


def test_one_extreme_needs_no_step():
    best = minimise(negative_entropy(softmaxes(5, 4, 1, 3)), 4, 1, device=CPU)
    assert best.steps == 0
    assert (best.gap == 0).all()
    assert (best.point == 1).all()


@pytest.mark.parametrize("m", [24, 25, 64])
def test_many_extremes(m):
    P = softmaxes(6, 20, m, 8, 3.0)
    best = minimise(negative_entropy(P), 20, m, device=CPU)
    assert (best.gap < 1e-9).all()


def test_the_answer_does_not_depend_on_the_batch():
    P = torch.cat([softmaxes(7, 40, 6, 5, spread) for spread in (0.01, 1, 6, 40)])
    P = P.clamp_min(1e-200)
    together = minimise(negative_entropy(P), len(P), 6, device=CPU)
    for i in range(0, len(P), 7):
        alone = minimise(negative_entropy(P[i : i + 1]), 1, 6, device=CPU)
        torch.testing.assert_close(together.point[i], alone.point[0], rtol=0, atol=1e-6)
        torch.testing.assert_close(together.value[i], alone.value[0], rtol=0, atol=1e-12)


def test_rows_name_the_sets_that_are_left():
    P = torch.cat([softmaxes(8, 30, 4, 5, 0.0), softmaxes(9, 30, 4, 5, 6.0)])
    seen = []

    def f(beta, rows):
        seen.append(rows)
        return negative_entropy(P)(beta, rows)

    minimise(f, 60, 4, device=CPU)
    assert seen[0].tolist() == list(range(60))
    # The first 30 sets are points: they are done at once and leave.
    assert all(rows.min() >= 30 for rows in seen[1:])


def test_too_few_steps_are_confessed():
    P = softmaxes(10, 20, 6, 6, 5.0)
    exact = minimise(negative_entropy(P), 20, 6, device=CPU)
    rough = minimise(negative_entropy(P), 20, 6, device=CPU, max_steps=1)
    assert (rough.gap > 1e-6).any()
    assert (rough.value - exact.value <= rough.gap + 1e-12).all()


def test_a_warm_start_saves_steps():
    P = softmaxes(11, 30, 6, 6, 2.0)
    cold = minimise(negative_entropy(P), 30, 6, device=CPU)
    warm = minimise(negative_entropy(P), 30, 6, device=CPU, start=0.99 * cold.point + 0.01 / 6)
    assert warm.steps <= cold.steps
    torch.testing.assert_close(cold.value, warm.value, rtol=0, atol=1e-9)


def test_an_objective_that_is_not_a_number_is_confessed_by_an_infinite_gap():
    def broken(beta, rows):
        nan = torch.full_like(beta[:, 0], torch.nan)
        return nan, nan[:, None].expand(-1, 3), nan[:, None, None].expand(-1, 3, 3)

    best = minimise(broken, 2, 3, device=CPU)
    assert torch.isinf(best.gap).all()
    assert torch.isfinite(best.point).all()


def test_scale_of_the_objective_does_not_matter():
    P, target = softmaxes(12, 20, 5, 6), softmaxes(13, 20, 1, 6)[:, 0]
    f = square_distance_to(P, target)
    plain = minimise(f, 20, 5, device=CPU)
    for factor_ in (1e-8, 1e8):
        scaled = minimise(
            lambda b, r, c=factor_: tuple(c * x for x in f(b, r)),
            20,
            5,
            device=CPU,
            tolerance=1e-10 * min(1, factor_),
        )
        torch.testing.assert_close(scaled.value / factor_, plain.value, rtol=0, atol=1e-9)


@pytest.mark.parametrize("m", [1, 3, 24, 30])
def test_cholesky_solves(m):
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(5, m, m, generator=generator, dtype=torch.float64)
    H, d = (A @ A.mT).permute(1, 2, 0), torch.rand(m, 5, generator=generator, dtype=torch.float64) + 0.1
    right = torch.randn(m, 2, 5, generator=generator, dtype=torch.float64)
    exact = torch.linalg.solve(H.permute(2, 0, 1) + torch.diag_embed(d.T), right.permute(2, 0, 1))
    system = Cholesky(m, 5, CPU)
    # What is above the diagonal is not read.
    system.factor(torch.where(torch.ones(m, m).tril().bool().unsqueeze(-1), H, torch.nan), d)
    torch.testing.assert_close(system.solve_(right), exact.permute(1, 2, 0))


@pytest.mark.parametrize("m", [4, 30])
def test_cholesky_of_a_singular_matrix_is_finite(m):
    system = Cholesky(m, 3, CPU)
    system.factor(torch.ones(m, m, 3, dtype=torch.float64), torch.zeros(m, 3, dtype=torch.float64))
    assert torch.isfinite(system.solve_(torch.ones(m, 1, 3, dtype=torch.float64))).all()
