"""A prediction is a credal set that keeps its origin: members and Monte Carlo floor, sliced, reduced and pickled."""

import gc
import pickle
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch

import cbdl
from cbdl import prediction
from cbdl.bayes import predictive
from rounding import assert_same

X = np.linspace(-1, 1, 30)[:, None]


def model(likelihood, y, **changes):
    settings = {"method": cbdl.MeanField(epochs=30, lr=1e-2), "verbose": False}
    priors = [cbdl.priors.Normal(0, s) for s in (0.5, 1.0, 2.0)]
    return cbdl.CBDL(priors, [likelihood], **{**settings, **changes}).fit(X, y)


@pytest.fixture(scope="module")
def models():
    two = cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 2, (6,)), scale="learned")
    return {
        "classes": model(cbdl.likelihoods.Categorical(cbdl.nets.mlp(1, 3, (6,))), np.arange(30) // 10),
        "line": model(cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, (6,)), scale="learned"), X[:, 0] ** 2),
        "plane": model(two, np.c_[X[:, 0], X[:, 0] ** 2]),
        "counts": model(cbdl.likelihoods.Poisson(cbdl.nets.mlp(1, 1, (6,))), np.arange(30) // 5),
    }


KINDS = ["classes", "line", "plane", "counts"]


def test_mixtures_in_the_form_of_normals_are_the_predictions_of_that_form(models):
    """Calibration of Normals starts from left-out mixtures; a draw has equal weight, so both are the same sums."""
    line = models["line"]
    x = line._inputs(X)
    mixture = prediction.predict(line.learned, x, 8, "mixture")
    for a, b in zip(
        mixture.in_form("normal").numbers,
        prediction.predict(line.learned, x, 8, "normal").numbers,
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)  # sums of 8 terms in another order, at most
    assert mixture.in_form("mixture") is mixture
    plane = prediction.predict(models["plane"].learned, x, 8)
    assert plane.in_form("normal") is plane


@pytest.mark.parametrize("kind", KINDS)
def test_a_slice_keeps_members_and_floor(models, kind):
    whole = models[kind].predict(X)
    for index in (slice(2, 5), [3, 1], np.arange(30) < 4):
        part = whole[index]
        assert part.members == whole.members
        np.testing.assert_allclose(part.floor, whole.floor[index], rtol=1e-9)
        np.testing.assert_array_equal(part.noise, part.floor)
    assert whole[7].members == whole.members
    assert float(whole[7].floor) == pytest.approx(whole.floor[7], rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_reduced_prediction_says_who_stayed(models, kind):
    whole = models[kind].predict(X[:4])
    fewer = whole[1].reduce()
    assert len(fewer.members) == fewer.num_extremes
    assert set(fewer.members) <= set(whole.members)
    assert float(fewer.floor) == pytest.approx(whole.floor[1], rel=1e-9)
    assert len(whole.reduce().members) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_prediction_survives_a_pickle(models, kind):
    whole = models[kind].predict(X[:3])
    back = pickle.loads(pickle.dumps(whole))
    assert back.members == whole.members
    assert_same(back.floor, whole.floor, dtype=np.float64)
    np.testing.assert_allclose(back.uncertainty().total, whole.uncertainty().total, rtol=1e-9)


def test_the_floor_is_computed_once(models, monkeypatch):
    whole = models["line"].predict(X)
    first = whole.floor
    monkeypatch.setattr("cbdl.prediction.line_floor", None)
    np.testing.assert_array_equal(whole.floor, first)


def test_a_prediction_holds_no_draws_beside_its_own_numbers(models, monkeypatch):
    seen = []
    averages = predictive.averages

    def watched(*arguments):
        answer = averages(*arguments)
        seen.append(weakref.ref(answer[0]))
        return answer

    monkeypatch.setattr("cbdl.prediction.averages", watched)
    whole = models["classes"].predict(X)
    gc.collect()
    assert seen
    assert all(reference() is None for reference in seen)
    assert np.isfinite(whole.floor).all()


@pytest.mark.parametrize("samples", [1, 2, 3, 4, 7])
def test_too_few_draws_and_a_lonely_one_leave_the_floor_unknown(models, samples):
    for kind in KINDS:
        assert np.isnan(models[kind].predict(X[:2], samples).floor).all()


def test_the_floor_of_one_member_is_zero(models):
    alone = cbdl.CBDL(
        [cbdl.priors.Normal(0, 1)],
        [cbdl.likelihoods.Categorical(cbdl.nets.mlp(1, 3, (6,)))],
        cbdl.MeanField(epochs=3),
        verbose=False,
    ).fit(X, np.arange(30) // 10)
    np.testing.assert_array_equal(alone.predict(X).floor, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_automatic_draws_stop_where_the_floor_is_low(models, kind):
    far = np.array([[0.0], [0.2], [9.0]])
    auto = models[kind].predict(far, "auto", tolerance=0.02, max_samples=128)
    few = models[kind].predict(far, 16)
    assert ((auto.floor < 0.02) | (auto.origin.draws == 128).numpy()).all()
    stayed = (auto.origin.draws == 16).numpy()
    np.testing.assert_allclose(auto.floor[stayed], few.floor[stayed], rtol=1e-6)
    assert np.isfinite(auto.uncertainty().total).all()


@pytest.mark.parametrize("max_memory", [None, 1 << 12])
def test_without_a_floor_several_outputs_have_the_same_moments(models, max_memory):
    """Blocks of draws are merged by their moments, in single precision within a block."""
    own = models["plane"]
    whole, quick = own.predict(X, 24), own.predict(X, 24, floor=False, max_memory=max_memory)
    np.testing.assert_allclose(quick.loc, whole.loc, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(quick.scale, whole.scale, rtol=1e-5)
    np.testing.assert_allclose(quick.decomposition().noise, whole.decomposition().noise, rtol=1e-5, atol=1e-6)
    assert np.isnan(quick.floor).all()


def test_members_of_a_cohort_share_their_draws_so_that_equal_ones_agree(models):
    made = models["classes"]
    part = made.learned.parts[0]
    state = {n: t[:1].expand_as(t).clone() for n, t in part.posterior.state().items()}
    equal = replace(part, posterior=made.method.from_state(part.cohort, state))
    twins = pickle.loads(pickle.dumps(made))
    twins._learned = replace(made.learned, parts={0: equal})
    prediction = twins.predict(X)
    np.testing.assert_allclose(prediction.uncertainty().epistemic, 0, atol=1e-6)
    assert (prediction.floor > 0).all()


def test_the_floor_is_what_identical_posteriors_with_independent_draws_show():
    """Truth: three copies of one posterior, each with its own stream of draws, many times over."""
    likelihood = cbdl.likelihoods.Categorical(cbdl.nets.mlp(1, 3, (6,)))
    made = model(likelihood, np.arange(30) // 10, method=cbdl.MeanField(epochs=2, initial_scale=0.4))
    part, rows = made.learned.parts[0], np.linspace(-3, 3, 100)[:, None]
    x = made.learned.inputs(torch.tensor(rows, dtype=torch.float32))
    one, cohort = part.posterior.only([1]), part.cohort.only([1])
    theta = one.sample(8 * 3 * 20, 123)
    probs = cohort.forward(theta, x, one.buffers).softmax(-1).double()[0].view(20, 3, 8, 100, 3).mean(2)
    truth = float(cbdl.CategoricalCredalSet(probs.movedim(1, 2)).uncertainty().epistemic.mean())
    same = {n: t[[1, 1, 1]] for n, t in part.posterior.state().items()}
    twins = replace(part, posterior=made.method.from_state(part.cohort, same))
    floors = []
    for seed in range(20):
        made._learned = replace(made.learned, parts={0: twins}, seed=seed)
        floors.append(made.predict(rows, 8).floor.mean())
    assert truth > 0.02
    assert abs(np.mean(floors) / truth - 1) < 0.25


@pytest.mark.parametrize("kind", ["classes", "line"])
def test_points_that_come_again_are_no_new_draws(kind):
    """An ensemble of five networks knows no more from twenty draws than from five, and nothing from three networks."""
    normal = cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, (6,)), scale=0.3)
    likelihood = normal if kind == "line" else cbdl.likelihoods.Categorical(cbdl.nets.mlp(1, 3, (6,)))
    y = X[:, 0] ** 2 if kind == "line" else np.arange(30) // 10
    five, three = (model(likelihood, y, method=cbdl.Ensemble(restarts=n, epochs=2)) for n in (5, 3))
    few, many = five.predict(X, 5), five.predict(X, 20)
    np.testing.assert_allclose(many.floor, few.floor, rtol=1e-9)
    np.testing.assert_allclose(many.uncertainty().total, few.uncertainty().total, rtol=1e-9)
    assert (many.floor > 0).all()
    assert np.isnan(three.predict(X, 20).floor).all()
    assert (five.predict(X, "auto", tolerance=1e-6).origin.draws == 5).all()


def test_large_rates_of_counts_fit_into_memory(models):
    far = np.array([[-200.0], [0.0], [300.0]])
    prediction = models["counts"].predict(far)
    assert prediction.probs.shape[-1] < 1e7
    np.testing.assert_allclose(prediction.probs.sum(-1), 1, rtol=1e-6)
    assert np.isfinite(prediction.uncertainty().total).all()


# --- chains as extremes --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sampled():
    method = cbdl.MCLMC(chains=3, draws=6, thin=2, warmup=40, optimise=40)
    categorical = cbdl.likelihoods.Categorical(cbdl.nets.mlp(1, 3, (6,)))
    return model(categorical, np.arange(30) // 10, method=method, chains="extremes", dtype=torch.float64)


def test_chains_that_are_extremes_average_to_their_members(sampled):
    apart, together = sampled.predict(X, 100), sampled.predict(X, 100, chains="averaged")
    assert (apart.num_extremes, together.num_extremes) == (9, 3)
    assert [(m.k, m.chain) for m in apart.members] == [(k, c) for k in range(3) for c in range(3)]
    fewer = prediction.averaged(apart)
    assert [(m.k, m.chain) for m in fewer.members] == [(k, 0) for k in range(3)]
    np.testing.assert_allclose(fewer.probs, together.probs, rtol=1e-12)  # sums of 18 terms in another order
    np.testing.assert_allclose(fewer.decomposition().noise, together.decomposition().noise, rtol=1e-10)
    assert np.isnan(fewer.floor).all()  # not known without the draws
    assert prediction.averaged(together) is together


def test_a_set_of_chains_holds_that_of_their_averages(sampled):
    apart, together = sampled.predict(X, 100), sampled.predict(X, 100, chains="averaged")
    for probs in np.moveaxis(together.probs, 1, 0):
        assert apart.contains(probs).all()
    wide, narrow = apart.uncertainty(), together.uncertainty()
    assert (wide.aleatoric <= narrow.aleatoric + 1e-9).all()
    assert (wide.total >= narrow.total - 1e-6).all()


def test_what_chains_are_is_saved_and_can_be_said_anew(sampled, tmp_path):
    sampled.save(tmp_path / "model")
    loaded = cbdl.load(tmp_path / "model")
    assert loaded.chains == "extremes"
    np.testing.assert_allclose(loaded.predict(X, 5).probs, sampled.predict(X, 5).probs, rtol=1e-12)
    with pytest.raises(ValueError, match="chains is 'some'; give"):
        loaded.predict(X, chains="some")


def test_where_there_are_no_chains_both_are_the_same(models):
    line = models["line"]
    assert np.array_equal(line.predict(X, chains="extremes").loc, line.predict(X).loc)
