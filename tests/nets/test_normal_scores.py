"""Normal scores of columns: they rank, they are the same whichever way the network is evaluated, and they are saved."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.stats import norm

import cbdl
from cbdl import recipe
from cbdl.bayes.flat import Layout
from cbdl.bayes.forward import Forward
from cbdl.bayes.wide import Space, Stack
from cbdl.nets.scores import NormalScores, bent_columns
from rounding import assert_same

SOURCE = np.random.default_rng(0)
SKEWED = np.exp(SOURCE.normal(size=(400, 2)) * [0.5, 1.5])


def standardised(X: np.ndarray) -> np.ndarray:
    return (X - X.mean(0)) / X.std(0)


def test_scores_of_a_skewed_column_are_normal():
    """Those of exp(z) are z, within what 31 quantiles of 400 rows can tell."""
    quantiles = bent_columns(SKEWED, None, 31, 0.02, 32)
    out = NormalScores(quantiles)(torch.tensor(standardised(SKEWED)))
    z = standardised(np.log(SKEWED))
    inner = np.abs(z) < 1.5
    np.testing.assert_allclose(out[:, 2:].numpy()[inner], z[inner], atol=0.25)
    np.testing.assert_array_equal(out[:, :2], standardised(SKEWED))


def test_scores_are_those_of_numpy_between_quantiles_and_level_beyond():
    quantiles = np.sort(SOURCE.normal(size=7))
    x = np.concatenate([np.linspace(-5, 5, 101), quantiles])
    out = NormalScores([quantiles.tolist()])(torch.tensor(x[:, None]))[:, 1]
    np.testing.assert_allclose(out, np.interp(x, quantiles, norm.ppf((np.arange(7) + 0.5) / 7)), atol=1e-12)


def test_equal_quantiles_have_the_mean_of_their_scores():
    out = NormalScores([[0.0, 0.0, 0.0, 1.0]])(torch.tensor([[0.0], [1.0]], dtype=torch.float64))[:, 1]
    scores = norm.ppf((np.arange(4) + 0.5) / 4)
    np.testing.assert_allclose(out, [scores[:3].mean(), scores[3]])


def test_ramps_rise_one_after_the_other_and_have_variance_one():
    """Over a column's quantiles; between first and last one exactly one ramp rises."""
    quantiles = np.sort(SOURCE.normal(size=31))
    scores = NormalScores([[], quantiles.tolist()], ramps=4)
    x = torch.zeros(31, 2, dtype=torch.float64)
    x[:, 1] = torch.tensor(quantiles)
    out = scores(x)
    assert scores.further == 5
    assert out.shape == (31, 7)
    ramps = out[:, 3:].numpy()
    np.testing.assert_allclose(ramps.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(ramps.std(0), 1, atol=1e-12)
    ends = np.quantile(quantiles, np.linspace(0, 1, 5))
    for place, (low, high) in enumerate(pairwise(ends)):
        at = torch.tensor([[0.0, low], [0.0, high], [0.0, low - 9], [0.0, high + 9]], dtype=torch.float64)
        rises = scores(at)[:, 3:]
        assert float(rises[1, place] - rises[0, place]) > 1
        others = [own for own in range(4) if own != place]
        torch.testing.assert_close(rises[0, others], rises[1, others])
        assert float(rises[2, place]) == pytest.approx(float(rises[0, place]))
        assert float(rises[3, place]) == pytest.approx(float(rises[1, place]))


def test_columns_of_few_levels_have_fewer_ramps():
    scores = NormalScores([[0.0] * 10 + [1.0] * 10 + [2.0] * 11, [3.0] * 31], ramps=8)
    assert scores.climbing == [0, 0]
    out = scores(torch.tensor([[0.0, 3.0], [1.0, 3.0], [2.0, 3.0]], dtype=torch.float64))
    assert bool(out.isfinite().all())
    assert out.shape == (3, 6)


def test_columns_of_two_levels_constants_and_normal_ones_have_none():
    plain = np.column_stack([SOURCE.normal(size=400), SKEWED[:, 0] > 1, np.full(400, 3.0)])
    assert recipe.quantiles(plain) == ((), (), ())


def test_of_many_bent_columns_the_most_bent_have_scores():
    normal = norm.ppf((np.arange(300) + 0.5) / 300)
    many = np.stack([np.exp(normal * scale) for scale in np.linspace(0.5, 3, 40)], 1)
    with_scores = [bool(own) for own in recipe.quantiles(many)]
    assert with_scores == [False] * (40 - recipe.SCORED) + [True] * recipe.SCORED


def test_a_weight_of_two_is_a_row_that_is_there_twice():
    weights = SOURCE.integers(1, 4, 400).astype(float)
    twice = np.repeat(SKEWED, weights.astype(int), axis=0)
    for own, other in zip(recipe.quantiles(SKEWED, weights), recipe.quantiles(twice), strict=True):
        # a row of weight 3 is one step of the ranks, three rows are three; between them quantiles are interpolated
        np.testing.assert_allclose(own, other, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_ways_of_evaluation_agree(dtype):
    net = cbdl.nets.mlp(2, 3, (5,), "silu", recipe.quantiles(SKEWED), ramps=3)().to(dtype)
    layout = Layout.of(net)
    assert layout.entries[0].shape == (5, 10)
    theta = torch.randn(2, 3, layout.size, dtype=dtype)
    x = torch.tensor(standardised(SKEWED), dtype=dtype)
    ways = {
        way: Forward.choose(net, layout, {}, (1, 2), x[:3], way=way)(theta, x, {})
        for way in ("wide", "vmap", "loop")
    }
    eps = np.finfo(np.float32 if dtype is torch.float32 else np.float64).dtype
    assert_same(ways["wide"], ways["vmap"], dtype=eps)
    assert_same(ways["wide"], ways["loop"], dtype=eps)


def test_a_network_with_scores_is_saved_and_loaded(tmp_path):
    y = np.log(SKEWED[:, 0])
    net = cbdl.nets.mlp(2, 1, (4,), quantiles=recipe.quantiles(SKEWED), ramps=3)
    model = cbdl.CBDL(
        [cbdl.priors.Normal(0, 1)],
        [cbdl.likelihoods.Normal(net, scale=0.5)],
        cbdl.MeanField(epochs=2),
        verbose=False,
    ).fit(SKEWED, y)
    model.save(tmp_path / "model")
    again = cbdl.load(tmp_path / "model")
    assert again.likelihoods[0].net == net
    assert_same(again.predict(SKEWED).loc, model.predict(SKEWED).loc)


@pytest.mark.parametrize(
    ("quantiles", "message"),
    [
        ([[0.0, 1.0]], "quantiles has 1 columns; the network has 2 inputs"),
        ([[0.0, 1.0], [1.0, 0.0]], r"quantiles\[1\] must be finite numbers in rising order"),
        ([[0.0, float("nan")], []], r"quantiles\[0\] must be finite"),
        ([[0.0], []], r"quantiles\[0\] has shape \(1,\); give 2 to 1000 numbers"),
    ],
)
def test_bad_quantiles_are_refused_with_words(quantiles, message):
    with pytest.raises(ValueError, match=message):
        cbdl.nets.mlp(2, 1, (4,), quantiles=quantiles)()


@pytest.mark.parametrize("ramps", [-1, 1.5, 10**6])
def test_a_bad_number_of_ramps_is_refused_with_words(ramps):
    with pytest.raises(ValueError, match=r"ramps is .*; give a whole number from 0 to 1000"):
        cbdl.nets.mlp(2, 1, (4,), quantiles=recipe.quantiles(SKEWED), ramps=ramps)()


def test_scores_of_a_batch_are_made_once_and_those_of_another_batch_anew():
    scores = NormalScores([np.linspace(-1.0, 1.0, 31) ** 3])
    stack, space = Stack([], scores), Space()
    x, other = torch.randn(5, 1), torch.randn(5, 1)
    made = space.inputs(stack, x)
    torch.testing.assert_close(made, scores(x))
    assert space.inputs(stack, x) is made
    torch.testing.assert_close(space.inputs(stack, other), scores(other))
