"""Poisson probabilities against scipy, for rates from 0 to 1e12, in bounded memory; log densities stay finite."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
import torch
from scipy import stats

from cbdl.bayes import likelihoods
from cbdl.bayes.counts import HIGH, count_cap, count_mixtures, count_probabilities

RATES = [0.0, 1e-30, 1e-3, 1.0, 30.0, 1e3, 1e6, 1e12]
EPS = np.finfo(np.float64).eps


def bound(rate: float, n: np.ndarray) -> np.ndarray:
    """Relative rounding of exp(n log r - r - log n!): of ours and of scipy's, each term within a few units."""
    size = n * abs(math.log(rate)) + rate + stats.poisson(1).mean() + n * np.log1p(n)
    return 8 * EPS * (1 + size)


@pytest.mark.parametrize("rate", RATES)
def test_probabilities_are_scipys_and_the_tail_is_the_rest(rate: float) -> None:
    most = 1 << 20
    for cap in {1, 2, min(most, max(1, int(0.99 * rate))), min(most, count_cap(rate, 1))}:
        got = count_probabilities(torch.tensor(rate, dtype=torch.float64), cap).numpy()
        n = np.arange(cap)
        truth = stats.poisson.pmf(n, rate)
        if rate > 0:
            assert (np.abs(got[:-1] - truth) <= bound(rate, n) * truth + 1e-300).all()
        else:
            assert (got == np.r_[1.0, np.zeros(cap)]).all()
        assert got[-1] == pytest.approx(stats.poisson.sf(cap - 1, rate), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("rate", RATES[:-2])
def test_the_cap_leaves_a_tail_below_a_billionth(rate: float) -> None:
    assert stats.poisson.sf(count_cap(rate, 1) - 1, rate) < 1e-9


def test_the_mixture_over_draws_is_the_mean_whatever_the_memory() -> None:
    source = np.random.default_rng(0)
    rate = source.gamma(2.0, 3.0, (2, 5, 4))
    rate[0, 0, 0] = 0.0
    weights = source.dirichlet(np.ones(5), 3)
    cap = count_cap(float(rate.max()), 24)
    truth = np.zeros((4, 2, 3, cap + 1))
    for j in range(cap + 1):
        p = stats.poisson.pmf(j, rate) if j < cap else stats.poisson.sf(cap - 1, rate)
        truth[..., j] = np.einsum("wd,mdr->rmw", weights, p)
    for memory in (None, 1):
        got = count_mixtures(torch.tensor(rate), torch.tensor(weights), cap, memory).numpy()
        np.testing.assert_allclose(got, truth, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(got.sum(-1), 1, rtol=1e-12)


def test_huge_rates_ask_for_no_more_memory_than_there_is() -> None:
    rate = torch.full((3, 8, 10), 1e12)
    cap = count_cap(1e12, 3 * 10 * 2, 1 << 24)
    tracemalloc.start()
    got = count_mixtures(rate, torch.full((2, 8), 1 / 8), cap, 1 << 24)
    assert got.numel() * 8 <= 1 << 22
    assert (got[..., -1] == 1).all()
    assert tracemalloc.get_traced_memory()[1] < 1 << 22  # numpy's share: the tails
    tracemalloc.stop()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_outputs_far_from_the_data_give_numbers(dtype: torch.dtype) -> None:
    made = likelihoods.Poisson(lambda: torch.nn.Linear(1, 1))
    none, one = torch.zeros(1, 0, dtype=dtype), torch.tensor(1.0, dtype=dtype)
    out = torch.tensor([-1e30, -200.0, -103.0, 0.0, 45.0, 100.0, 1e6], dtype=dtype).reshape(1, 1, -1, 1)
    out.requires_grad_()
    density = made.log_density(out, torch.full((7,), 2.0, dtype=dtype), none, one)
    (slope,) = torch.autograd.grad(density.sum(), out)
    assert torch.isfinite(density).all()
    assert torch.isfinite(slope).all()
    assert (slope[0, 0, 4:] < -math.exp(HIGH) / 2).all()  # still a way down
    rate = made.describe(out.detach(), none, one, one)["rate"]
    assert torch.isfinite(rate).all()
    assert (rate > 0).all()
    assert torch.isfinite(count_probabilities(rate, 5)).all()
    assert torch.isfinite(made.draw(out.detach(), none, one, one, torch.Generator().manual_seed(0))).all()
