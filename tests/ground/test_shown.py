"""Objects show themselves: tables in notebooks, data frames, classes by name, names at the tab key."""

from __future__ import annotations

import re
import rlcompleter
import sys
import types

import html5lib
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import cbdl
from cbdl.bayes import notebook, progress
from cbdl.ground.shown import frame, html_table

RNG = np.random.default_rng(0)
NAMES = ("cat", "<dog>", "bird")
PETS = cbdl.CategoricalCredalSet(RNG.dirichlet(np.ones(3), (12, 4))).with_labels(NAMES)
LINE = cbdl.NormalCredalSet(RNG.normal(0, 4, (6, 3)), np.ones((6, 3)))
SPACE = cbdl.DiagonalNormalCredalSet(RNG.normal(size=(4, 3, 2)), np.ones((4, 3, 2)))
BOX = cbdl.IntervalCredalSet([[0.1, 0.2, 0.1]] * 3, [[0.6, 0.5, 0.7]] * 3)


@pytest.fixture(scope="module")
def model():
    X = RNG.normal(size=(30, 2))
    y = np.where(X[:, 0] > 0, "yes", "no")
    return cbdl.CBDL(
        [cbdl.priors.Normal(0, 1), cbdl.priors.Laplace(0, 1)],
        [cbdl.likelihoods.Categorical(cbdl.nets.mlp(2, 2, (4,)))],
        cbdl.MeanField(epochs=3),
        verbose=False,
    ).fit(X, y, validation=(X[:5], y[:5]))


def cells(html):
    """The text of the table's cells, row by row; a strict parser finds any mistake in the markup."""
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parseFragment(html)
    return [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]


@pytest.mark.parametrize("sets", [PETS, LINE, SPACE, BOX], ids=lambda s: type(s).__name__)
def test_sets_and_regions_are_tables_in_notebooks(sets):
    shown = cells(sets._repr_html_())
    assert len(shown) == 1 + min(8, len(sets))
    assert "epistemic" in shown[0]
    assert len(cells(sets[0]._repr_html_())) == 1 + (3 if sets is BOX else sets.num_extremes)
    assert len(cells(sets.region(0.1)._repr_html_())) == 1 + min(8, len(sets))
    assert "size" in repr(sets.region(0.1)[0])
    nested = type(sets)(*(np.asarray(getattr(sets, n))[None] for n in _parameters(sets)))
    assert "batch_shape" in nested._repr_html_()


def _parameters(sets):
    return ["probs"] if sets is PETS else ["lower", "upper"] if sets is BOX else ["loc", "scale"]


def test_names_are_escaped_and_no_colour_is_forced():
    html = PETS._repr_html_() + html_table("<script>", ["<b>"], [["<i>"]], ["<u>"])
    assert "<dog>" not in html
    assert not re.search(r"<(script|b|i|u)>", html)
    assert not re.search(r"[^-](color|background):\s*(#|white|black|rgb\()", html)


def test_models_diagnostics_and_calibrations_are_tables_too(model):
    assert [row[0] for row in cells(model._repr_html_())[1:]] == [str(m) for m in model.learned.members]
    X, y = RNG.normal(size=(40, 2)), RNG.choice(["yes", "no"], 40)
    report = model.diagnostics(X, y)
    assert [row[0] for row in cells(report._repr_html_())[1:]] == [str(row.member) for row in report]
    assert repr(report) == str(report)
    assert len(report) == 2
    calibration = model.calibrate(X, y, alpha=0.1)
    assert cells(calibration._repr_html_())[1][1] == "0.9"
    assert len(cells(model.conformity("weights")._repr_html_())) == 4
    assert "not trained" in cbdl.CBDL(model.priors, model.likelihoods)._repr_html_()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_has_the_answers(library):
    pytest.importorskip(library)
    table = PETS.to_frame(alpha=0.2, library=library)
    assert type(table).__module__.split(".")[0] == library
    region, split = PETS.region(0.2), PETS.uncertainty()
    assert list(table["decision"]) == [NAMES[j] for j in PETS.decide("maximin", single=True)]
    assert [set(row) for row in table["set"]] == [
        {n for n, m in zip(NAMES, own, strict=True) if m} for own in region.mask
    ]
    np.testing.assert_allclose(table["lower:cat"], PETS.probs.min(1)[:, 0])
    np.testing.assert_allclose(table["upper:<dog>"], PETS.probs.max(1)[:, 1])
    np.testing.assert_allclose(table["aleatoric"], split.aleatoric)
    np.testing.assert_allclose(table["epistemic"], split.epistemic)
    assert np.isnan(np.asarray(table["floor"])).all()
    line = LINE.to_frame(library=library)
    np.testing.assert_allclose(np.stack([line["lower"], line["upper"]]), LINE.region(0.05).hull())
    np.testing.assert_allclose(line["decision"], LINE.mean().mean(1))
    assert len(SPACE[0].to_frame(library=library)) == 1


def test_the_floor_of_a_prediction_is_in_its_frame(model):
    prediction = model.predict(torch.zeros(3, 2))
    table = prediction.to_frame(library="pandas")
    np.testing.assert_allclose(table["floor"], prediction.floor)
    assert set(table["decision"]) <= {"yes", "no"}


def test_a_frame_of_no_library_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="polars"):
        frame({}, "dplyr")
    monkeypatch.setattr("cbdl.ground.shown.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pandas or polars"):
        frame({})


@pytest.mark.parametrize("sets", [PETS, LINE, SPACE, BOX], ids=lambda s: type(s).__name__)
def test_regions_have_length_and_slices(sets):
    region = sets.region(0.1)
    assert len(region) == len(sets) == len(list(region))
    picked = region[1:3]
    y = np.zeros((len(sets), 2)) if sets is SPACE else np.zeros(len(sets), dtype=int)
    np.testing.assert_array_equal(picked.contains(y[1:3]), region.contains(y)[1:3])
    np.testing.assert_allclose(picked.measure, region.measure[1:3])
    with pytest.raises(IndexError):
        region[0][0]
    with pytest.raises(TypeError):
        len(region[0])


def test_uncertainties_have_length_slices_and_a_table():
    split = PETS.uncertainty()
    assert len(split) == len(PETS)
    np.testing.assert_array_equal(split[2:5].epistemic, split.epistemic[2:5])
    assert [float(own.total) for own in split] == split.total.tolist()
    assert len(cells(split._repr_html_())) == 9
    assert len(cells(split[0]._repr_html_())) == 2


# --- classes by name --------------------------------------------------------------------------------------------


def test_questions_may_use_names():
    by_number = PETS.with_labels(None)
    np.testing.assert_array_equal(
        PETS.lower_probability(["cat", "bird"]), by_number.lower_probability([0, 2])
    )
    words = np.array(NAMES)[[0, 1, 2] * 4]
    np.testing.assert_array_equal(PETS.level(words), by_number.level([0, 1, 2] * 4))
    np.testing.assert_array_equal(
        PETS.region(0.3).contains(words), by_number.region(0.3).contains([0, 1, 2] * 4)
    )
    assert PETS[3].labels == PETS.reduce().labels == cbdl.IntervalCredalSet.of(PETS).labels == NAMES


def test_names_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="3 classes"):
        PETS.with_labels(["a", "b"])
    with pytest.raises(ValueError, match="different words"):
        PETS.with_labels(["a", "a", "b"])
    with pytest.raises(ValueError, match="no classes"):
        LINE.with_labels(["a"])
    with pytest.raises(ValueError, match=r"y\[1\] is 'cow'; the classes are 'cat'"):
        PETS.region(0.1).contains(["cat", "cow"] * 6)
    with pytest.raises(ValueError, match="words such as 'cat'"):
        BOX.region(0.1).contains(["cat", "dog", "cat"])


def test_a_model_of_words_is_the_model_of_their_numbers(model, tmp_path):
    X = RNG.normal(size=(30, 2))
    y = np.array(["no", "yes"] * 15, dtype=object)
    settings = (model.priors, model.likelihoods, cbdl.MeanField(epochs=3))
    words = cbdl.CBDL(*settings, verbose=False).fit(X, y)
    numbers = cbdl.CBDL(*settings, verbose=False).fit(X, np.array([0, 1] * 15))
    np.testing.assert_array_equal(words.predict(X).probs, numbers.predict(X).probs)
    assert words.predict(X).labels == ("no", "yes")
    assert numbers.predict(X).labels is None
    words.save(tmp_path / "model")
    again = cbdl.load(tmp_path / "model")
    assert again.predict(X).labels == ("no", "yes")
    assert cbdl.evaluate.scores(again.predict(X), y, draws=0) == cbdl.evaluate.scores(
        numbers.predict(X), np.array([0, 1] * 15), draws=0
    )
    with pytest.raises(ValueError, match="perhaps"):
        again.update(X, ["perhaps"] * 30)


class Pets(Dataset):
    """Twelve rows of a pet."""

    def __init__(self, words):
        self.words, self.x = words, np.random.default_rng(5).normal(size=(12, 2)).astype("float32")

    def __len__(self):
        return 12

    def __getitem__(self, i):
        return self.x[i], self.words[i % 3]


def test_a_dataset_of_words_is_that_of_their_numbers(model):
    def fit(data, labels=None, **more):
        settings = (model.priors, model.likelihoods, cbdl.MeanField(epochs=2, batch_size=4))
        return cbdl.CBDL(*settings, labels=labels, verbose=False).fit(data, **more)

    words, numbers = Pets(["no", "yes", "no"]), Pets([0, 1, 0])
    expected = fit(numbers)
    found = fit(words, validation=words)
    np.testing.assert_array_equal(found.predict(words).probs, expected.predict(numbers).probs)
    assert found.predict(words).labels == ("no", "yes")
    loaded = fit(DataLoader(words, batch_size=4), stream=False)
    np.testing.assert_array_equal(loaded.predict(words).probs, expected.predict(numbers).probs)
    streamed = fit(DataLoader(words, batch_size=4), labels=["no", "yes"])
    by_numbers = fit(DataLoader(numbers, batch_size=4))
    np.testing.assert_array_equal(streamed.predict(words).probs, by_numbers.predict(numbers).probs)
    assert streamed.update(words).labels == ("no", "yes")
    with pytest.raises(ValueError, match="a stream is not read before training"):
        fit(DataLoader(words, batch_size=4))
    with pytest.raises(ValueError, match="item 1 of the Dataset is 'perhaps'"):
        fit(Pets(["no", "perhaps", "yes"]), labels=["no", "yes"])


def test_names_may_be_given_in_another_order(model):
    X, y = RNG.normal(size=(10, 2)), np.array(["no", "yes"] * 5)
    given = cbdl.CBDL(
        model.priors, model.likelihoods, cbdl.MeanField(epochs=1), labels=["yes", "no"], verbose=False
    ).fit(X, y)
    assert given.predict(X).labels == ("yes", "no")


# --- estimators -------------------------------------------------------------------------------------------------


def test_a_saved_classifier_answers_as_before(tmp_path):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(RNG.normal(size=(40, 2)), columns=["a", "b"])
    y = np.array(["no", "yes"] * 20)
    own = cbdl.CredalClassifier(
        [cbdl.priors.Laplace(0, 1)], [(4,)], steps=60, class_weight={"no": 1.0, "yes": 2.0}, random_state=1
    ).fit(X, y)
    own.save(tmp_path / "clf")
    again = cbdl.CredalClassifier.load(tmp_path / "clf")
    np.testing.assert_allclose(again.predict_proba(X), own.predict_proba(X))
    np.testing.assert_array_equal(again.predict_set(X), own.predict_set(X))
    assert again.predict(X).dtype == own.predict(X).dtype
    assert again.conformity_.to_json() == own.conformity_.to_json()
    assert again.feature_names_in_.tolist() == ["a", "b"]
    assert {**again.get_params(), "priors": None} == {**own.get_params(), "priors": None}
    assert list(again.priors) == own.priors
    with pytest.raises(ValueError, match="holds a CredalClassifier"):
        cbdl.CredalRegressor.load(tmp_path / "clf")


def test_a_saved_regressor_answers_as_before_with_functions_given_again(tmp_path):
    X = RNG.normal(size=(30, 2))
    nets = [lambda inputs, outputs: torch.nn.Linear(inputs, outputs)]
    own = cbdl.CredalRegressor(
        architectures=nets, noise=[0.5, "learned"], steps=60, plausible=0, calibration=None
    ).fit(X, X)
    own.save(tmp_path / "reg")
    with pytest.raises(ValueError, match=r"architectures=\[...\]"):
        cbdl.CredalRegressor.load(tmp_path / "reg")
    again = cbdl.CredalRegressor.load(tmp_path / "reg", architectures=nets)
    np.testing.assert_allclose(again.predict(X), own.predict(X))
    np.testing.assert_allclose(again.predict_interval(X), own.predict_interval(X))


# --- names at the tab key, bars in notebooks --------------------------------------------------------------------


def test_the_tab_key_finds_public_names_and_nothing_else():
    complete = rlcompleter.Completer({"cbdl": cbdl, "pets": PETS}).complete
    assert complete("cbdl.plots.sp", 0) == "cbdl.plots.spider("
    assert complete("pets.to_f", 0) == "pets.to_frame("
    for module in (cbdl, cbdl.priors, cbdl.likelihoods, cbdl.nets, cbdl.plots, cbdl.evaluate, cbdl.credal):
        assert {name for name in dir(module) if name[0] != "_"} == {n for n in module.__all__ if n[0] != "_"}


def test_bars_move_below_the_cell_of_a_notebook(monkeypatch):
    seen: list[str] = []

    class Handle:
        def update(self, picture):
            seen.append(picture)

    def display(picture, display_id):
        seen.append(picture)
        return Handle()

    shell = type("ZMQInteractiveShell", (), {})()
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell
    place = types.ModuleType("IPython.display")
    place.HTML, place.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", place)
    monkeypatch.setattr(notebook, "EVERY", 0.0)
    with progress.progress(True, "a <b>", steps=3, epochs=1) as shown:
        for step in (1, 2, 3):
            shown.update(step, 0, 0.5)
    assert 'value="2" max="3"' in seen[2]
    assert "loss 0.5000" in seen[-1]
    assert "<b>" not in "".join(seen)
    html5lib.HTMLParser(strict=True).parseFragment(seen[-1])


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_numbers_of_many_sets_are_told_by_what_they_span(kind):
    sets = cbdl.CategoricalCredalSet(kind(np.random.default_rng(0).dirichlet(np.ones(3), size=(1000, 2))))
    split = sets.uncertainty()
    least, most = (f"{float(x):.4g}" for x in (split.total.min(), split.total.max()))
    assert repr(split).startswith(f"Uncertainty(batch_shape=(1000,), total={least} to {most}, aleatoric=")
    assert len(repr(split)) < 300
    one = repr(split[3])
    assert "batch_shape" not in one
    assert f"total={float(split.total[3]):.4g}, " in one


def test_a_decomposition_is_told_by_what_it_spans():
    y = np.arange(20.0)
    model = cbdl.CBDL(
        [cbdl.priors.Normal(0, 1), cbdl.priors.Normal(0, 2)],
        [cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, hidden=(4,)))],
        cbdl.MeanField(epochs=2),
        verbose=False,
    ).fit(y[:, None], y)
    said = repr(model.predict(y[:, None]).decomposition())
    assert said.startswith("Decomposition(batch_shape=(20,), noise=")
    assert "disagreement=" in said
    assert len(said) < 300
    one = model.predict(y[:1, None])[0].decomposition()
    assert repr(one).startswith(f"Decomposition(noise=[{one.noise[0]:.4g}, {one.noise[1]:.4g}], doubt=[")


def test_optima_and_averages_are_told_in_a_line():
    sets = cbdl.CategoricalCredalSet([[0.9, 0.1], [0.1, 0.9]])
    assert repr(sets.upper_entropy(certificate=True)).endswith("weights=[0.5, 0.5], error=0)")
    assert repr(sets.average_uncertainty()).startswith(
        "AveragedUncertainty(total=0.6931, expected_entropy=0.3251"
    )
