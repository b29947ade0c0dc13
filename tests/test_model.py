"""CBDL end to end: shapes, order of the members, invariances, resuming, continual and active learning."""

import warnings

import numpy as np
import pytest
import torch
from scipy import stats

import cbdl

N = cbdl.likelihoods.Normal


def line(rows=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, 1))
    return X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=rows)


def regression(**changes):
    settings = {
        "priors": [cbdl.priors.Normal(0, 1), cbdl.priors.Normal(0, 3)],
        "likelihoods": [N(cbdl.nets.mlp(1, 1, (8,)), scale=0.1), N(cbdl.nets.mlp(1, 1, (4, 4)), scale=0.2)],
        "method": cbdl.MeanField(epochs=30, lr=1e-2),
        "verbose": False,
    }
    return cbdl.CBDL(**{**settings, **changes})


@pytest.fixture(scope="module")
def model():
    return regression().fit(*line())


@pytest.fixture(scope="module")
def classifier():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
    nets = [cbdl.nets.mlp(2, 3, (8,)), cbdl.nets.mlp(2, 3, (6,), activation="tanh")]
    return cbdl.CBDL(
        priors=[cbdl.priors.Normal(0, 1), cbdl.priors.Laplace(0, 1)],
        likelihoods=[cbdl.likelihoods.Categorical(net) for net in nets],
        method=cbdl.MeanField(epochs=20, lr=1e-2),
        verbose=False,
    ).fit(X, y)


def test_members_come_in_the_order_prior_times_likelihoods_plus_likelihood(model):
    assert [(m.k, m.s) for m in model.predict(np.zeros((1, 1))).members] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_each_extreme_is_the_member_it_is_said_to_be(model):
    X = np.linspace(-1, 1, 5)[:, None]
    whole = model.predict(X)
    part = regression(likelihoods=regression().likelihoods[:1]).fit(*line())
    np.testing.assert_allclose(part.predict(X).loc, whole.loc[:, [0, 2]], rtol=1e-4, atol=1e-4)


def test_classes_are_averages_of_probabilities_over_draws(classifier):
    X = np.array([[0.3, -0.2]])
    learned = classifier.learned
    cohort, posterior = learned.parts[0].cohort, learned.parts[0].posterior
    from cbdl.bayes._random import mix

    theta = posterior.sample(6, mix(0, "predict", 0))
    x = learned.inputs(torch.tensor(X, dtype=torch.float32))
    expected = cohort.forward(theta, x, posterior.buffers).softmax(-1).double().mean(1)[:, 0]
    np.testing.assert_allclose(classifier.predict(X, samples=6).probs[0, ::2], expected, rtol=1e-6)


def test_the_normal_predictive_has_the_moments_of_the_mixture(model):
    X = np.linspace(-2, 2, 4)[:, None]
    mixture, normal = model.predict(X), model.predict(X, predictive="normal")
    np.testing.assert_allclose(normal.loc, mixture.mean(), rtol=1e-9)
    np.testing.assert_allclose(normal.scale**2, mixture.variance(), rtol=1e-9)


def test_the_same_call_gives_the_same_answer_whatever_the_global_state(model):
    X = np.linspace(-1, 1, 3)[:, None]
    first = model.predict(X).loc
    torch.manual_seed(123)
    torch.randn(7)
    np.testing.assert_array_equal(model.predict(X).loc, first)


def test_an_input_is_predicted_alike_alone_and_among_others(model, classifier):
    X = np.linspace(-2, 2, 9)[:, None]
    np.testing.assert_allclose(model.predict(X[4:5]).loc, model.predict(X).loc[4:5], rtol=1e-5, atol=1e-6)
    auto = model.predict(X, samples="auto", tolerance=0.3, max_samples=64)
    alone = model.predict(X[4:5], samples="auto", tolerance=0.3, max_samples=64)
    np.testing.assert_allclose(alone.uncertainty().total, auto.uncertainty().total[4:5], rtol=1e-5)
    Z = np.random.default_rng(1).normal(size=(7, 2))
    np.testing.assert_allclose(classifier.predict(Z[2:3]).probs, classifier.predict(Z).probs[2:3], rtol=1e-5)


def test_more_samples_begin_with_the_same_ones(model):
    X = np.zeros((1, 1))
    np.testing.assert_allclose(model.predict(X, 40).loc[..., :20], model.predict(X, 20).loc, rtol=1e-5)


def test_a_small_memory_bound_changes_nothing_but_rounding(model):
    X = np.linspace(-1, 1, 50)[:, None]
    small = model.predict(X, max_memory=1 << 14)
    np.testing.assert_allclose(small.loc, model.predict(X).loc, rtol=1e-5, atol=1e-6)


def test_torch_in_torch_out(model):
    assert isinstance(model.predict(torch.zeros(2, 1)).loc, torch.Tensor)
    assert isinstance(model.predict(np.zeros((2, 1))).noise, np.ndarray)


def test_auto_stops_where_the_noise_is_small_and_reports_it(model):
    X = np.array([[0.0], [6.0]])
    found = model.predict(X, samples="auto", tolerance=0.05, max_samples=512)
    few = model.predict(X, samples=16)
    assert found.noise[0] <= 0.05 or found.num_components == 512
    assert (found.noise <= few.noise + 1e-9).all()


def test_singletons_are_the_single_network():
    alone = regression(priors=[cbdl.priors.Normal(0, 1)], likelihoods=regression().likelihoods[:1]).fit(
        *line()
    )
    X = np.linspace(-1, 1, 3)[:, None]
    credal = alone.predict(X)
    assert credal.num_extremes == 1
    split = credal.uncertainty()
    np.testing.assert_allclose(split.epistemic, 0, atol=1e-8)
    np.testing.assert_array_equal(credal.noise, 0)


def test_several_outputs_are_diagonal_normals():
    X, y = line()
    both = np.stack([y, 2 * y], 1)
    made = regression(likelihoods=[N(cbdl.nets.mlp(1, 2, (8,)))]).fit(X, both).predict(X[:3])
    assert isinstance(made, cbdl.DiagonalNormalCredalSet)
    assert made.loc.shape == (3, 2, 2)


def test_counts_are_classes_with_an_open_end():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (100, 1))
    y = rng.poisson(np.exp(1 + X[:, 0]))
    made = regression(likelihoods=[cbdl.likelihoods.Poisson(cbdl.nets.mlp(1, 1, (8,)))]).fit(X, y)
    found = made.predict(X[:4])
    mean = (np.asarray(found.probs) * np.arange(found.num_classes)).sum(-1)
    np.testing.assert_allclose(mean, made.predict_samples(X[:4], 4000).mean(2), rtol=0.25)


def test_samples_have_the_moments_of_the_predictive(model):
    X = np.array([[0.0], [0.5]])
    drawn = model.predict_samples(X, 4000)
    mixture = model.predict(X, samples=4000)
    assert drawn.shape == (2, 4, 4000)
    np.testing.assert_allclose(drawn.mean(-1), mixture.mean(), atol=0.05)
    np.testing.assert_allclose(drawn.std(-1), np.sqrt(mixture.variance()), rtol=0.1)


@pytest.mark.parametrize(
    ("noise", "density"),
    [
        (
            cbdl.likelihoods.StudentT(cbdl.nets.mlp(1, 1, (4,)), df=4.0, scale=0.5),
            stats.t(4, scale=0.5 / np.sqrt(2)),
        ),
        (
            cbdl.likelihoods.StudentT(cbdl.nets.mlp(1, 1, (4,)), df=3.0, scale=0.5),
            stats.t(3, scale=0.5 / np.sqrt(3)),
        ),
        (
            cbdl.likelihoods.Laplace(cbdl.nets.mlp(1, 1, (4,)), scale=0.5),
            stats.laplace(scale=0.5 / np.sqrt(2)),
        ),
        (
            cbdl.likelihoods.StudentT(cbdl.nets.mlp(1, 1, (4,)), df=30.0, scale=0.5),
            stats.t(30, scale=0.5 * np.sqrt(28 / 30)),
        ),
    ],
)
def test_the_predictive_has_the_tails_of_the_noise(noise, density):
    made = regression(priors=[cbdl.priors.Normal(0, 1)], likelihoods=[noise], standardize=False)
    made.method = cbdl.Ensemble(epochs=1, restarts=1)  # one point: the predictive is the noise around it
    credal = made.fit(*line()).predict(np.zeros((1, 1)), samples=2)
    centre = credal.mean()[0, 0]
    for z in (0.05, 0.3, 1.0, 3.0, 6.0):
        inside = credal.lower_probability((centre - z, centre + z))[0]
        assert inside == pytest.approx(density.cdf(z) - density.cdf(-z), abs=1e-3)


def test_likelihoods_of_different_noise_stand_side_by_side():
    mixed = [
        N(cbdl.nets.mlp(1, 1, (4,)), scale=0.1),
        cbdl.likelihoods.StudentT(cbdl.nets.mlp(1, 1, (4,)), scale=0.1),
    ]
    credal = regression(likelihoods=mixed).fit(*line()).predict(np.zeros((2, 1)))
    assert credal.num_extremes == 4
    assert np.isfinite(credal.uncertainty().total).all()
    assert np.isfinite(credal.noise).all()


def test_standardize_false_uses_the_numbers_as_they_are():
    X, y = line()
    made = regression(standardize=False).fit(100 * X, y)
    assert float(made.learned.inputs.scale) == 1.0
    assert float(made.learned.targets.loc) == 0.0


def test_an_interrupted_fit_goes_on_and_ends_with_the_same_tensors(tmp_path, monkeypatch):
    whole = regression().fit(*line())
    calls = {"n": 0}
    from cbdl.bayes.train import Training

    one = Training._one

    def breaks(self, batch):
        calls["n"] += 1
        if calls["n"] == 20:
            raise MemoryError("simulated crash")
        return one(self, batch)

    monkeypatch.setattr(Training, "_one", breaks)
    with pytest.raises(MemoryError):
        regression().fit(*line(), checkpoint_dir=tmp_path)
    monkeypatch.setattr(Training, "_one", one)
    again = regression().fit(*line(), checkpoint_dir=tmp_path)
    for s, part in whole.learned.parts.items():
        other = again.learned.parts[s].posterior.state()
        assert all(torch.equal(x, other[n]) for n, x in part.posterior.state().items())


@pytest.mark.parametrize("whole", [[[1], [0]], np.array([[1], [0]], "int8"), np.array([[True], [False]])])
def test_whole_numbers_are_numbers_to_a_model_of_numbers(model, whole):
    same = np.array([[1.0], [0.0]])
    np.testing.assert_array_equal(model.predict(whole).loc, model.predict(same).loc)
    np.testing.assert_array_equal(model.predict_missing(whole).loc, model.predict_missing(same).loc)
    assert [r.train_nll for r in model.diagnostics(whole, [0.0, 1.0])] == [
        r.train_nll for r in model.diagnostics(same, [0.0, 1.0])
    ]
    regression(method=cbdl.MeanField(epochs=1)).fit(*line(), validation=(whole, [0.0, 1.0])).update(
        whole, [0, 1]
    )


def test_update_learns_new_data_and_remembers_the_old():
    X, y = line(120)
    low, high = X[:, 0] < 0, X[:, 0] >= 0
    settings = {"method": cbdl.MeanField(epochs=800, lr=1e-2), "likelihoods": regression().likelihoods[:1]}
    made = regression(**settings).fit(X[low], y[low])

    def error(where):
        centre = made.predict(X[where]).center().mean()[:, 0]
        return np.sqrt(np.mean((centre - y[where]) ** 2))

    before = error(high)
    made.update(X[high], y[high])
    fresh = np.sqrt(np.mean((y[low] - y[high].mean()) ** 2))
    assert error(high) < 0.5 * before
    assert error(low) < 0.5 * fresh


def test_staying_near_what_was_learned_before_an_update_is_no_collapse():
    X, y = line(120)
    settings = {"method": cbdl.MeanField(epochs=20, lr=1e-2), "likelihoods": regression().likelihoods[:1]}
    made = regression(**settings).fit(X, y)
    made.update(X[:2], y[:2])
    with warnings.catch_warnings(record=True):
        report = made.diagnostics()
    assert max(row.at_prior for row in report.rows) > 0.9  # two rows more: next to nothing to learn
    assert not [message for message in report.warnings if "priors:" in message]


def test_acquire_asks_where_the_model_knows_least(model):
    pool = np.array([[0.0], [8.0], [0.1], [-9.0]])
    assert set(model.acquire(pool, 2)) == {1, 3}
    with pytest.raises(ValueError, match="the pool has 4 inputs"):
        model.acquire(pool, 5)


def test_members_are_dropped_by_name_and_never_all():
    made = regression().fit(*line())
    made.drop([(0, 1), (1, 0), (1, 1)])
    assert [(m.k, m.s) for m in made.predict(np.zeros((1, 1))).members] == [(0, 0)]
    with pytest.raises(ValueError, match="one must stay"):
        made.drop([(0, 0)])


def test_diagnostics_have_one_row_a_member(model):
    assert len(model.diagnostics().rows) == 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.predict(np.zeros((2, 3))), r"rows of shape \(3,\)"),
        (lambda m: m.predict(np.zeros((0, 1))), "0 rows"),
        (lambda m: m.predict(np.zeros(3)), r"use X.reshape\(-1, 1\), of one row X.reshape\(1, -1\)"),
        (lambda m: m.predict(np.array([[np.nan]])), r"X\[0, 0\] is nan"),
        (lambda m: m.predict(np.zeros((1, 1)), samples=0), "samples is 0"),
        (lambda m: m.predict(np.zeros((1, 1)), samples="many"), "samples is 'many'"),
        (lambda m: m.predict(np.zeros((1, 1)), samples="auto", tolerance=0), "tolerance is 0"),
        (lambda m: m.predict_samples(np.zeros((1, 1)), 0), "n is 0"),
    ],
)
def test_bad_questions_are_answered_clearly(model, call, message):
    with pytest.raises(ValueError, match=message):
        call(model)


def test_a_model_must_learn_before_it_answers():
    with pytest.raises(RuntimeError, match="call fit"):
        regression().predict(np.zeros((1, 1)))
    with pytest.raises(ValueError, match="at least one"):
        cbdl.CBDL(priors=[], likelihoods=regression().likelihoods)
    with pytest.raises(ValueError, match="same space"):
        regression(
            likelihoods=[regression().likelihoods[0], cbdl.likelihoods.Categorical(cbdl.nets.mlp(1, 2))]
        )
