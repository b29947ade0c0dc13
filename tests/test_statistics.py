"""Statistical validity of Algorithm 1: coverage when the truth is inside, robustness when it is not (make test-slow).

Data come from a network whose weights are drawn from one of the priors, with noise from one of the likelihoods, so that
the truth is a member of the credal set. Networks are linear, so that `LastLayer` gives exact posteriors and what is
tested is the algorithm, not an approximation.
"""

import numpy as np
import pytest
from torch import nn

import cbdl

pytestmark = pytest.mark.slow
SEEDS = 200


def linear(inputs, outputs):
    return lambda: nn.Linear(inputs, outputs)


def regression(scales, noises):
    return cbdl.CBDL(
        priors=[cbdl.priors.Normal(0, s) for s in scales],
        likelihoods=[cbdl.likelihoods.Normal(linear(3, 1), scale=n) for n in noises],
        method=cbdl.LastLayer(epochs=1),
        standardize=False,
        verbose=False,
    )


def drawn(rng, rows, weight_scale, noise):
    w, b = rng.normal(size=3) * weight_scale, rng.normal() * weight_scale
    X = rng.normal(size=(rows, 3))
    return X, X @ w + b + noise * rng.normal(size=rows)


def coverage(model, rng, weight_scale, noise, alpha=0.1, rows=12, fresh=20):
    X, y = drawn(rng, rows + fresh, weight_scale, noise)
    model.fit(X[:rows], y[:rows])
    region = model.predict(X[rows:], samples=50).region(alpha)
    return np.mean(region.contains(y[rows:])), np.mean(region.measure)


def over_seeds(make, weight_scale, noise, seeds=SEEDS):
    runs = [coverage(make(), np.random.default_rng(seed), weight_scale, noise) for seed in range(seeds)]
    covered, width = np.array(runs).T
    return covered.mean(), covered.std() / np.sqrt(seeds), width.mean()


def test_a_truth_inside_the_set_is_covered_regression():
    mean, error, _ = over_seeds(lambda: regression((0.5, 2.0), (0.5, 1.0)), 2.0, 1.0)
    assert mean > 0.9 - 3 * error


def test_a_set_covers_where_a_single_wrong_model_does_not():
    """Likelihood and prior misspecified for the single model; the set holds the truth (proposition dist_lemma)."""
    single, error, narrow = over_seeds(lambda: regression((0.1,), (0.5,)), 2.0, 1.0, 60)
    whole, _, wide = over_seeds(lambda: regression((0.1, 2.0), (0.5, 1.0)), 2.0, 1.0, 60)
    assert single < 0.9 - 5 * error
    assert whole > 0.9 - 3 * error
    assert wide > narrow  # the price: width stands beside coverage


def test_a_truth_inside_the_set_is_covered_classification():
    covered = []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        w = rng.normal(size=(2, 3)) * 1.5
        X = rng.normal(size=(80, 2))
        logits = X @ w
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        y = np.array([rng.choice(3, p=row) for row in p])
        if len(set(y[:40])) < 3:
            continue
        model = cbdl.CBDL(
            priors=[cbdl.priors.Normal(0, 0.5), cbdl.priors.Normal(0, 1.5)],
            likelihoods=[cbdl.likelihoods.Categorical(linear(2, 3))],
            method=cbdl.MeanField(epochs=150, lr=3e-2),
            standardize=False,
            verbose=False,
        ).fit(X[:40], y[:40])
        covered.append(np.mean(model.predict(X[40:], samples=50).region(0.1).contains(y[40:])))
    mean, error = np.mean(covered), np.std(covered) / np.sqrt(len(covered))
    assert mean > 0.9 - 3 * error


def test_prior_data_conflict_widens_the_set():
    """The set self-regulates: priors that contradict the data and each other leave more epistemic uncertainty."""

    def epistemic(locs, seed):
        rng = np.random.default_rng(seed)
        X, y = drawn(rng, 8, 1.0, 0.5)
        model = cbdl.CBDL(
            priors=[cbdl.priors.Normal(loc, 0.3) for loc in locs],
            likelihoods=[cbdl.likelihoods.Normal(linear(3, 1), scale=0.5)],
            method=cbdl.LastLayer(epochs=1),
            standardize=False,
            verbose=False,
        ).fit(X, y)
        return np.mean(model.predict(rng.normal(size=(50, 3)), samples=100).uncertainty().epistemic)

    agree = np.mean([epistemic((-0.2, 0.2), seed) for seed in range(20)])
    conflict = np.mean([epistemic((-3.0, 3.0), seed) for seed in range(20)])
    assert conflict > 2 * agree


def test_more_data_shrinks_the_epistemic_uncertainty():
    means = []
    for rows in (5, 20, 80, 320):
        found = []
        for seed in range(10):
            rng = np.random.default_rng(seed)
            X, y = drawn(rng, rows, 1.0, 0.5)
            model = regression((0.2, 1.0, 5.0), (0.5,)).fit(X, y)
            credal = model.predict(rng.normal(size=(40, 3)), samples=200)
            found.append(np.mean(credal.uncertainty().epistemic))
        means.append(np.mean(found))
    assert means[0] > means[1] > means[2] > means[3]
    assert means[3] < 0.2 * means[0]


def test_active_learning_needs_fewer_labels_than_chance():
    """A pool with a crowded corner and a rare one: asking where the model knows least finds the rare one sooner."""

    def error_after(seed, active, labels=12):
        rng = np.random.default_rng(seed)
        x = np.concatenate([rng.uniform(-1, -0.6, 180), rng.uniform(0.2, 1, 20)])[:, None]
        y = np.sin(4 * x[:, 0]) + 0.05 * rng.normal(size=200)
        known = list(rng.choice(180, 4, replace=False))
        grid = np.linspace(-1, 1, 50)[:, None]
        while True:
            model = cbdl.CBDL(
                priors=[cbdl.priors.Normal(0, 1), cbdl.priors.Normal(0, 3)],
                likelihoods=[cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, (20,), "tanh"), scale=0.05)],
                method=cbdl.LastLayer(epochs=200, lr=1e-2),
                standardize=False,
                verbose=False,
            ).fit(x[known], y[known])
            if len(known) >= labels:
                centre = np.asarray(model.predict(grid).center().mean())[:, 0]
                return np.sqrt(np.mean((centre - np.sin(4 * grid[:, 0]))[grid[:, 0] > 0.2] ** 2))
            rest = np.setdiff1d(np.arange(200), known)
            chosen = rest[model.acquire(x[rest], 2)] if active else rng.choice(rest, 2, replace=False)
            known += list(chosen)

    active = [error_after(seed, True) for seed in range(10)]
    chance = [error_after(seed, False) for seed in range(10)]
    assert np.mean(active) < 0.7 * np.mean(chance)
    assert np.mean(np.array(active) < np.array(chance)) >= 0.7
