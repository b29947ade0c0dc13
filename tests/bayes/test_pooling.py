"""Partial pooling of chains: what is noise goes, what chains say stays, and the mean is what it was."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2
from torch import Tensor

import cbdl
from cbdl import likelihoods, priors
from cbdl.bayes.pooling import pooled, signal
from cbdl.bayes.predictive import averages
from cbdl.prediction import averaged


def draws(rows: int, members: int, chains: int, count: int, apart: float, source: torch.Generator) -> Tensor:
    """Class probabilities (rows, members * chains, count, 3): chains whose logits lie `apart`, draws around them."""
    where = torch.randn(rows, members, 1, 1, 3, generator=source, dtype=torch.float64)
    chain = apart * torch.randn(rows, members, chains, 1, 3, generator=source, dtype=torch.float64)
    draw = 0.5 * torch.randn(rows, members, chains, count, 3, generator=source, dtype=torch.float64)
    return (where + chain + draw).softmax(-1).flatten(1, 2)


def share_of(p: Tensor, chains: int) -> Tensor:
    return signal(p.mean(2), p.var(2, correction=0).sum(-1), p.shape[2], chains)


def test_chains_that_say_the_same_become_one() -> None:
    """Of two classes 3 B / W is chi^2 of three degrees of freedom, nearly: the mean of the root of (1 - 3 / chi^2)+."""
    p = draws(4000, 1, 4, 400, 0.0, torch.Generator().manual_seed(0))[..., :2]
    p = p / p.sum(-1, keepdim=True)
    share = share_of(p, 4)
    x = np.linspace(3, 60, 200_001)
    wanted = np.trapezoid(np.sqrt(1 - 3 / x) * chi2(3).pdf(x), x)
    assert float(share.mean()) == pytest.approx(wanted, abs=4 * float(share.std()) / math.sqrt(4000))
    before, after = (v.view(-1, 4, 2).var(1).sum() for v in (p.mean(2), pooled(p.mean(2), share)))
    assert float(after) < 0.4 * float(before)


def test_what_chains_say_stays_and_comes_nearer_to_the_truth() -> None:
    """Chains that differ lie, drawn together, nearer to where more draws would have put them."""
    source = torch.Generator().manual_seed(1)
    p = draws(500, 2, 4, 2000, 0.15, source)
    few, truth = p[:, :, :20], p.mean(2)
    mean = few.mean(2)
    together = pooled(mean, share_of(few, 4))
    error, before = ((v - truth).square().sum() for v in (together, mean))
    assert float(error) < 0.9 * float(before)
    far = draws(200, 1, 4, 50, 10.0, source)
    assert float(share_of(far, 4).median()) > 0.9


@given(st.integers(1, 3), st.integers(2, 5), st.integers(2, 9), st.floats(0, 3))
def test_the_mean_of_a_members_chains_is_what_it_was(
    members: int, chains: int, count: int, apart: float
) -> None:
    p = draws(3, members, chains, count, apart, torch.Generator().manual_seed(count))
    share = share_of(p, chains)
    together = pooled(p.mean(2), share)
    assert ((share >= 0) & (share <= 1)).all()
    assert (together >= 0).all()
    own, before = (v.view(3, members, chains, 3) for v in (together, p.mean(2)))
    torch.testing.assert_close(own.mean(2), before.mean(2), rtol=1e-12, atol=1e-14)
    # every chain is between itself and the mean
    torch.testing.assert_close(
        own - own.mean(2, keepdim=True),
        share[:, :, None, None] * (before - before.mean(2, keepdim=True)),
        rtol=1e-9,
        atol=1e-14,
    )


def test_one_draw_knows_no_noise_and_one_chain_has_none() -> None:
    probs = torch.rand(5, 6, 3, dtype=torch.float64)
    assert torch.equal(signal(probs, torch.zeros(5, 6), 1, 3), torch.ones(5, 2, dtype=torch.float64))
    assert torch.equal(signal(probs, torch.ones(5, 6), 9, 1), torch.ones(5, 6, dtype=torch.float64))


@pytest.fixture(scope="module")
def model() -> cbdl.CBDL:
    source = np.random.default_rng(0)
    X = source.normal(size=(120, 2))
    y = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)
    return cbdl.CBDL(
        [priors.Normal(0, 1), priors.Normal(0, 3)],
        [likelihoods.Categorical(cbdl.nets.mlp(2, 2, (8,)))],
        cbdl.MCLMC(chains=3, draws=16, thin=3, optimise=150, warmup=150),
        chains="extremes",
        dtype=torch.float64,
        verbose=False,
    ).fit(X, y)


def test_predictions_of_chains_are_pooled_and_their_averages_are_not_touched(model: cbdl.CBDL) -> None:
    x = np.random.default_rng(1).normal(size=(40, 2)) * 2
    whole = model.predict(x, 16)
    plain = averages(
        model.learned.by_chain(), model._inputs(x), torch.full((1, 16), 1 / 16, dtype=torch.float64)
    )
    share = signal(plain.probs[:, :, 0], plain.spread, 16, 3)
    assert 0.05 < float(share.mean()) < 0.95
    np.testing.assert_allclose(whole.probs, pooled(plain.probs[:, :, 0], share), atol=1e-12)
    np.testing.assert_allclose(
        averaged(whole).probs, plain.probs[:, :, 0].view(40, 2, 3, 2).mean(2), atol=1e-12
    )
    # with and without the floor, in one piece or two
    np.testing.assert_allclose(model.predict(x, 16, floor=False).probs, whole.probs, atol=1e-12)
    np.testing.assert_allclose(model.predict(x[:7], 16).probs, whole.probs[:7], atol=1e-12)
    # averages of chains know no pooling
    apart = model.predict(x, 48, chains="averaged")
    np.testing.assert_allclose(apart.probs, averaged(whole).probs, atol=1e-12)


def test_the_doubt_of_pooled_chains_is_no_less_than_nothing(model: cbdl.CBDL) -> None:
    parts = model.predict(np.random.default_rng(2).normal(size=(60, 2)) * 3, 16).decomposition()
    assert (np.asarray(parts.doubt) >= -1e-12).all()
