"""Noise, doubt, disagreement: where the uncertainty of a prediction comes from."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import cbdl
from cbdl.bayes import likelihoods
from cbdl.bayes.counts import poisson_entropy

NOISE = 0.5 * math.log(2 * math.pi * math.e * 0.1**2)
"""Entropy of noise with standard deviation 0.1: -0.88 nats."""


def line(rows: int) -> tuple[np.ndarray, np.ndarray]:
    source = np.random.default_rng(1)
    X = source.uniform(-1, 1, size=(rows, 1))
    return X, 2 * X[:, 0] + 0.1 * source.normal(size=rows)


def test_noise_is_that_of_the_data_and_doubt_is_apart() -> None:
    """The lowest entropy of a member holds its own doubt; the expected conditional entropy does not."""
    X, y = line(200)
    model = cbdl.CBDL(
        [cbdl.priors.Normal(0, 1, fan_in=True), cbdl.priors.Normal(0, 3, fan_in=True)],
        [cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, hidden=(8,)), scale="learned")],
        cbdl.MCLMC(chains=3, draws=20, thin=5, warmup=400, optimise=400),
        verbose=False,
    ).fit(X, y)
    inside, far = (model.predict(np.full((1, 1), x), samples=60).decomposition() for x in (0.2, 8.0))
    for split in (inside, far):
        assert abs(split.noise_lower[0] - NOISE) < 0.15
        assert abs(split.noise_upper[0] - NOISE) < 0.15
    assert far.doubt_lower[0] > inside.doubt_upper[0] + 0.5
    assert far.disagreement[0] > inside.disagreement[0]


def classes() -> tuple[cbdl.CBDL, torch.Tensor]:
    X = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    model = cbdl.CBDL(
        [cbdl.priors.Normal(0, 1), cbdl.priors.Normal(0, 2)],
        [cbdl.likelihoods.Categorical(cbdl.nets.mlp(2, 3, hidden=(4,)))],
        cbdl.Ensemble(epochs=3, restarts=3),
        verbose=False,
    ).fit(X, (X[:, 0] > 0).long() + (X[:, 1] > 0.5).long())
    return model, X


def test_the_parts_of_a_member_add_up_to_its_entropy() -> None:
    model, X = classes()
    prediction = model.predict(X[:5], samples=3)
    part = model.learned.parts[0]
    theta = part.posterior.sample(3, 0)
    probs = part.cohort.forward(theta, model.learned.inputs(X[:5]), {}).softmax(-1).double()
    each = torch.special.entr(probs).sum(-1).mean(1).T  # three draws are the three restarts, in any order
    split = prediction.decomposition()
    torch.testing.assert_close(split.noise, each, rtol=1e-5, atol=1e-6)
    whole = torch.special.entr(probs.mean(1)).sum(-1).T
    torch.testing.assert_close(split.noise + split.doubt, whole, rtol=1e-5, atol=1e-6)
    for name in ("noise", "doubt"):
        low, high = torch.aminmax(getattr(split, name), dim=-1)
        assert (high > low).any()
        assert torch.equal(getattr(split, f"{name}_lower"), low)
        assert torch.equal(getattr(split, f"{name}_upper"), high)
    torch.testing.assert_close(split.disagreement, prediction.uncertainty().epistemic)
    in_bits = prediction.decomposition(base=2)
    torch.testing.assert_close(in_bits.doubt, split.doubt / math.log(2))


def test_the_parts_stay_with_slices_reductions_and_pickles() -> None:
    model, X = classes()
    whole = model.predict(X, samples=6)
    split = whole.decomposition()
    for other, wanted in (
        (whole[3:7], split.noise[3:7]),
        (pickle.loads(pickle.dumps(whole)), split.noise),
    ):
        torch.testing.assert_close(other.decomposition().noise, wanted)
    one = whole[5].reduce().decomposition()
    assert float(one.noise_lower) >= float(split.noise_lower[5]) - 1e-9


def test_a_bag_of_distributions_has_no_parameters() -> None:
    with pytest.raises(ValueError, match="only predictions of a model"):
        cbdl.CategoricalCredalSet(np.full((2, 3), 1 / 3)).decomposition()


def test_entropies_of_noise_are_those_of_scipy() -> None:
    def net() -> nn.Module:
        return nn.Linear(1, 1)

    numbers = {"loc": torch.zeros(1, 1, 1), "scale": torch.full((1, 1, 1), 2.0, dtype=torch.float64)}
    t = stats.t(5, scale=2 / math.sqrt(5 / 3))
    cases = [
        (likelihoods.Normal(net), stats.norm(scale=2)),
        (likelihoods.Laplace(net), stats.laplace(scale=math.sqrt(2))),
        (likelihoods.StudentT(net, df=5.0), t),
    ]
    for made, truth in cases:
        assert float(made.entropy(numbers)) == pytest.approx(float(truth.entropy()), abs=1e-8)
    rate = torch.tensor([1e-30, 0.01, 1.0, 29.9, 30.1, 400.0], dtype=torch.float64)
    wanted = [float(stats.poisson(r).entropy()) for r in rate.tolist()]
    np.testing.assert_allclose(poisson_entropy(rate).numpy(), wanted, atol=2e-6)
