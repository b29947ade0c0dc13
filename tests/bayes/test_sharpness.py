"""How sure members may be of classes: powers found from rows that they have not seen, and predictions with them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cbdl
from cbdl.bayes.pooling import pooled, signal
from cbdl.bayes.sharpness import by_chains, fit, sharpened, sharpened_averages
from cbdl.credal.floor import class_floor, weightings
from rounding import assert_same


def made(rows: int, classes: int = 4, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """True class probabilities (rows, J), and classes drawn from them."""
    source = torch.Generator().manual_seed(seed)
    probs = torch.softmax(2 * torch.randn(rows, classes, generator=source, dtype=torch.float64), -1)
    return probs, torch.multinomial(probs, 1, generator=source)[:, 0]


@pytest.mark.parametrize("power", [1.0, 1.6, 2.5])
def test_the_power_that_makes_members_true_again_is_found(power: float) -> None:
    """Members say the truth to the power 1 / power: what makes them true is that power."""
    truth, y = made(4000)
    told = sharpened(truth.unsqueeze(1), torch.tensor([1 / power]))
    found = fit(told.unsqueeze(2), y, torch.ones(len(y), dtype=torch.float64))
    # one standard error of the logarithm is about 1 / sqrt(4000 * 0.5), the grid's step 0.05
    assert float((found / power).log().abs()) < 0.1


def test_members_that_are_too_sure_stay_so() -> None:
    truth, y = made(400)
    told = sharpened(truth.unsqueeze(1), torch.tensor([3.0]))
    assert float(fit(told.unsqueeze(2), y, torch.ones(400, dtype=torch.float64))) == 1


def test_rows_count_as_often_as_they_weigh() -> None:
    truth, y = made(300)
    told = sharpened(truth.unsqueeze(1), torch.tensor([0.5])).unsqueeze(2)
    twice = fit(torch.cat([told, told[:100]]), torch.cat([y, y[:100]]), torch.ones(400, dtype=torch.float64))
    counts = torch.ones(300, dtype=torch.float64)
    counts[:100] = 2
    assert float(twice) == float(fit(told, y, counts))


def test_a_few_rows_cannot_make_a_member_absurdly_sure() -> None:
    """Three rows, all right: without its prior the power would be the largest that is tried."""
    told = torch.tensor([0.6, 0.4], dtype=torch.float64).expand(3, 1, 1, 2)
    assert 1 < float(fit(told, torch.zeros(3, dtype=torch.int64), torch.ones(3, dtype=torch.float64))) < 3


@given(st.integers(1, 5), st.integers(2, 6), st.floats(0.05, 20), st.integers(0, 9))
def test_order_and_sums_stay(chains: int, classes: int, power: float, seed: int) -> None:
    probs, _ = made(6, classes, seed)
    stack = probs.view(6, 1, 1, classes).expand(6, 2, chains, classes)
    sharp = by_chains(stack, torch.tensor([1.0, power]))
    torch.testing.assert_close(sharp[:, 0], probs)
    torch.testing.assert_close(sharp.sum(-1), torch.ones(6, 2, dtype=torch.float64))
    assert torch.equal(sharp[:, 1].argmax(-1), probs.argmax(-1))


@pytest.fixture(scope="module")
def model() -> cbdl.CBDL:
    X, y = data(80)
    return cbdl.CBDL(
        [cbdl.priors.Normal(0, scale, fan_in=True) for scale in (0.5, 4.0)],
        [cbdl.likelihoods.Categorical(cbdl.nets.mlp(2, 3, (8,), "silu"))],
        cbdl.MCLMC(chains=2, optimise=200, warmup=60, draws=10, thin=2),
        sharpen=True,
        chains="extremes",
        dtype=torch.float64,
        verbose=False,
    ).fit(X, y)


def data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    source = np.random.default_rng(0)
    y = np.arange(rows) % 3
    centres = np.array([[0, 2], [2, -1], [-2, -1]])
    return centres[y] + 0.7 * source.normal(size=(rows, 2)), y


def test_a_prior_that_keeps_members_unsure_is_sharpened(model: cbdl.CBDL) -> None:
    assert model.sharpness[0, 0] > 1.5
    assert model.sharpness[0, 0] > model.sharpness[1, 0]


def test_chains_are_sharpened_one_by_one_and_then_averaged(model: cbdl.CBDL) -> None:
    X, _ = data(9)
    apart = torch.as_tensor(model.predict(X, samples=10).probs).view(9, 2, 2, 3)
    together = torch.as_tensor(model.predict(X, samples=20, chains="averaged").probs)
    torch.testing.assert_close(apart.mean(2), together)
    draws = torch.as_tensor(model.predict_draws(X, samples=20)).view(9, 2, 10, 2, 3).transpose(2, 3)
    means, spread = draws.mean(3), draws.var(3, correction=0).sum(-1)
    share = signal(
        means.flatten(1, 2), spread.flatten(1), 10, 2
    )  # chains are drawn together, by what they were before
    powers = torch.tensor([model.sharpness[k, 0] for k in (0, 1)], dtype=torch.float64)
    sharp = pooled(sharpened(means, powers).flatten(1, 2), share)
    torch.testing.assert_close(sharp, apart.flatten(1, 2))


def test_noise_keeps_its_share_of_the_entropy(model: cbdl.CBDL) -> None:
    X, _ = data(9)
    parts = model.predict(X, samples=10).decomposition()
    assert np.all(np.asarray(parts.noise_lower) >= 0)
    assert np.all(np.asarray(parts.doubt_lower) >= -1e-12)


@pytest.mark.parametrize("power", [0.5, 2.5])
def test_the_floor_is_what_identical_members_show(power: float) -> None:
    """Four members with the same posterior and independent draws: their epistemic uncertainty is all floor."""
    source, draws = np.random.default_rng(0), 64
    rows = source.dirichlet(np.ones(4), size=400)
    probs = torch.as_tensor(np.stack([source.dirichlet(20 * row + 0.5, size=(4, draws)) for row in rows]))
    averages = torch.einsum("wd,rmdj->rmwj", weightings(draws, False), probs)
    sharp = sharpened_averages(averages, torch.full((4,), power, dtype=torch.float64))
    shown = cbdl.CategoricalCredalSet(sharp[:, :, 0]).uncertainty().epistemic.mean()
    floor = class_floor(sharp, torch.full((400,), draws), paired=False).mean()
    assert abs(float(floor / shown) - 1) < 0.25


def test_what_was_left_out_is_as_sharp_as_predictions_are(model: cbdl.CBDL) -> None:
    """Its scores are the logarithms of the probabilities that its predictive distributions have."""
    left = model.left_out()
    (probs,) = left.predictive.numbers
    y = torch.as_tensor(data(80)[1])[left.rows]
    torch.testing.assert_close(left.score, probs[torch.arange(80), :, y].log())
    with pytest.raises(ValueError, match="left out by folds"):
        model.left_out("weights")


def test_a_saved_model_stays_as_sure(model: cbdl.CBDL, tmp_path) -> None:
    model.save(tmp_path / "model")
    again = cbdl.load(tmp_path / "model")
    X, _ = data(9)
    assert again.sharpness == model.sharpness
    assert_same(again.predict(X).probs, model.predict(X).probs, dtype=np.float64)


def test_a_member_that_is_dropped_takes_its_sharpness_along(model: cbdl.CBDL, tmp_path) -> None:
    model.save(tmp_path / "model")
    fewer = cbdl.load(tmp_path / "model").drop([(0, 0)])
    assert set(fewer.sharpness) == {(1, 0)}
    X, _ = data(9)
    whole = model.predict(X, samples=10).probs
    assert_same(fewer.predict(X, samples=10).probs, whole[:, 2:], dtype=np.float64)


def test_models_that_were_not_told_to_are_as_they_were() -> None:
    X, y = data(30)
    model = cbdl.CBDL(
        [cbdl.priors.Normal()],
        [cbdl.likelihoods.Categorical(cbdl.nets.mlp(2, 3, (4,)))],
        cbdl.MCLMC(chains=2, optimise=20, warmup=20, draws=4, thin=1),
        dtype=torch.float64,
        verbose=False,
    ).fit(X, y, folds=2)
    assert model.sharpness == {}
    np.testing.assert_allclose(
        model.predict(X, samples=8).probs, model.predict_draws(X, samples=8).mean(2), rtol=1e-12
    )
