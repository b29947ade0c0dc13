"""Baselines against their formulas, written out another way, and on models where the answer is known."""

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import entr

import cbdl
from cbdl import baselines

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.ones(4), size=(30, 5))


def data(n=120):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)


@pytest.fixture(scope="module")
def fitted():
    X, y = data()
    net = cbdl.nets.mlp(2, 2, hidden=(8,))
    return cbdl.CBDL(
        priors=[cbdl.priors.Normal(0.0, 1.0), cbdl.priors.Normal(0.0, 0.01)],
        likelihoods=[cbdl.likelihoods.Categorical(net)],
        method=cbdl.MeanField(epochs=60, batch_size=40, lr=0.02),
        seed=0,
    ).fit(X, y)


def test_the_entropy_of_the_average_splits_into_noise_and_information():
    one = baselines.from_draws(PROBS)
    mean = PROBS.mean(1)
    np.testing.assert_allclose(one.aleatoric, entr(PROBS).sum(-1).mean(-1))
    information = (PROBS * np.log(PROBS / mean[:, None])).sum(-1).mean(-1)
    np.testing.assert_allclose(one.epistemic, information, atol=1e-12)
    np.testing.assert_allclose(one.total, entr(mean).sum(-1))
    np.testing.assert_allclose(one.prediction.probs[:, 0], mean)


def test_draws_average_to_the_prediction(fitted):
    X, _ = data()
    draws = fitted.predict_draws(X[:7], 20)
    assert draws.shape == (7, 2, 20, 2)
    np.testing.assert_allclose(draws.mean(2), fitted.predict(X[:7], 20).probs, atol=1e-6)
    assert isinstance(fitted.predict_draws(torch.tensor(X[:2])), torch.Tensor)
    with pytest.raises(ValueError, match="samples is 0"):
        fitted.predict_draws(X, 0)


def test_the_single_network_is_the_member_that_fits_best(fitted):
    X, _ = data()
    # a prior of scale 0.01 keeps the second member from learning
    assert baselines.best_member(fitted) == (0, 0)
    one = baselines.single_bnn(fitted, X[:9], samples=10)
    other = baselines.from_draws(fitted.predict_draws(X[:9], 10)[:, 0])
    np.testing.assert_array_equal(one.epistemic, other.epistemic)
    worse = baselines.single_bnn(fitted, X[:9], samples=10, member=(1, 0))
    assert (worse.aleatoric.mean() - one.aleatoric.mean()) > 0.1
    with pytest.raises(ValueError, match=r"member is \(2, 0\)"):
        baselines.single_bnn(fitted, X, member=(2, 0))


def test_the_ensemble_of_classes_is_its_formula():
    label = baselines.ebnn(cbdl.CategoricalCredalSet(PROBS))
    np.testing.assert_allclose(label.aleatoric, (PROBS * (1 - PROBS)).sum(-1).mean(-1))
    mean = PROBS.mean(1, keepdims=True)
    between = np.square(PROBS - mean).sum(1) / 4
    np.testing.assert_allclose(label.epistemic, between.sum(-1))
    paper = baselines.ebnn(cbdl.CategoricalCredalSet(torch.tensor(PROBS)), "paper")
    np.testing.assert_allclose(paper.aleatoric, np.var(PROBS, axis=-1).mean(-1))
    np.testing.assert_allclose(paper.epistemic, between.mean(-1))
    assert isinstance(paper.aleatoric, torch.Tensor)


def test_the_papers_definition_falls_with_doubt_by_construction():
    """Ten classes: from a network that is sure to one that knows nothing."""
    sure = np.linspace(1.0, 0.1, 10)
    P = np.repeat(((1 - sure) / 9)[:, None], 10, 1)
    P[:, 0] = sure
    credal = cbdl.CategoricalCredalSet(np.stack([P, P], 1))
    paper, label = (baselines.ebnn(credal, d).aleatoric for d in ("paper", "label"))
    assert (np.diff(paper) < 0).all()
    assert (np.diff(label) > 0).all()
    assert paper[0] == pytest.approx(0.09)
    assert paper[-1] == pytest.approx(0)


def test_the_ensemble_on_the_line_is_the_normal_of_the_papers_moments():
    loc, scale = RNG.normal(size=(6, 4)), np.exp(RNG.normal(size=(6, 4)))
    one = baselines.ebnn(cbdl.NormalCredalSet(loc, scale))
    variance = (scale**2).mean(-1) + loc.var(-1, ddof=1)
    np.testing.assert_allclose(one.prediction.loc[:, 0], loc.mean(-1))
    np.testing.assert_allclose(one.total, variance)
    low, high = one.prediction.region(0.1).hull()
    np.testing.assert_allclose(low, stats.norm.ppf(0.05, loc.mean(-1), np.sqrt(variance)), rtol=1e-6)
    np.testing.assert_allclose(high, stats.norm.ppf(0.95, loc.mean(-1), np.sqrt(variance)), rtol=1e-6)


def test_the_ensemble_in_space_is_that_of_the_line_coordinate_by_coordinate():
    loc, scale = RNG.normal(size=(6, 4, 3)), np.exp(RNG.normal(size=(6, 4, 3)))
    one = baselines.ebnn(cbdl.DiagonalNormalCredalSet(loc, scale))
    lines = [baselines.ebnn(cbdl.NormalCredalSet(loc[..., i], scale[..., i])) for i in range(3)]
    for i, line in enumerate(lines):
        np.testing.assert_allclose(one.prediction.loc[..., i], line.prediction.loc)
        np.testing.assert_allclose(one.prediction.scale[..., i], line.prediction.scale)
    np.testing.assert_allclose(one.aleatoric, sum(line.aleatoric for line in lines))
    np.testing.assert_allclose(one.epistemic, sum(line.epistemic for line in lines))


def test_mixtures_have_the_moments_of_all_their_components():
    loc, scale, weights = (
        RNG.normal(size=(5, 3, 4)),
        np.ones((5, 3, 4)),
        RNG.dirichlet(np.ones(4), size=(5, 3)),
    )
    one = baselines.ebnn(cbdl.MixtureCredalSet(loc, scale, weights))
    mean = (weights * loc).sum(-1)
    variance = (weights * (scale**2 + loc**2)).sum(-1) - mean**2
    np.testing.assert_allclose(one.aleatoric, variance.mean(-1))
    np.testing.assert_allclose(one.epistemic, mean.var(-1, ddof=1))


def test_model_averaging_takes_weights_or_likelihoods():
    credal = cbdl.CategoricalCredalSet(PROBS)
    weights = baselines.likelihood_weights([-700.0, -701.0, -1000.0, -800.0, -705.0])
    np.testing.assert_allclose(weights.sum(), 1)
    np.testing.assert_allclose(weights[1] / weights[0], np.exp(-1))
    got = baselines.average(credal, weights).probs[:, 0]
    np.testing.assert_allclose(got, np.einsum("j,njk->nk", weights, PROBS))
    np.testing.assert_allclose(baselines.average(credal).probs[:, 0], PROBS.mean(1))


def test_deep_ensembles_and_dropout_are_models_like_any_other():
    X, y = data()
    net = cbdl.nets.mlp(2, 2, hidden=(8,))
    ensemble = baselines.deep_ensemble(net, 3, cbdl.Ensemble(epochs=30, batch_size=40, lr=0.02)).fit(X, y)
    P = ensemble.predict(X).probs
    assert P.shape == (120, 3, 2)
    assert np.abs(P[:, 0] - P[:, 1]).max() > 1e-4  # they started elsewhere
    assert (baselines.from_draws(P).prediction.probs[:, 0].argmax(-1) == y).mean() > 0.85
    dropout = baselines.mc_dropout(net, cbdl.Dropout(epochs=30, batch_size=40, lr=0.02, p=0.2)).fit(X, y)
    one = baselines.single_bnn(dropout, X, samples=30)
    assert (one.epistemic > 0).all()
    assert (one.prediction.probs[:, 0].argmax(-1) == y).mean() > 0.85


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: baselines.ebnn(cbdl.CategoricalCredalSet(PROBS[:, :1])), "at least two members"),
        (lambda: baselines.ebnn(cbdl.CategoricalCredalSet(PROBS), "other"), "definition is 'other'"),
        (lambda: baselines.deep_ensemble(cbdl.nets.mlp(2, 2), 1), "members is 1"),
        (lambda: baselines.likelihood_weights([0.0, np.nan]), "finite"),
        (
            lambda: baselines.ebnn(cbdl.IntervalCredalSet([[0.1, 0.1, 0.1]], [[0.8, 0.8, 0.8]])),
            "no prediction",
        ),
    ],
)
def test_what_makes_no_baseline_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
