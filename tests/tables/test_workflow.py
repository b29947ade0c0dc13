"""From a table to a model to answers: the same as by hand, whatever the pieces in which it is done."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import cbdl
from cbdl import recipe, tables
from cbdl.cli.spelling import parse_net, parse_prior
from cbdl.store import ModelError
from cbdl.tables import TableError, UsageError, answers, learning, scoring
from cbdl.tables.answers import Answers, Options, Trained
from cbdl.tables.columns import Wishes
from cbdl.tables.learning import Settings
from cbdl.tables.target import Target, learn_target

QUICK = {
    "nets": ((8,),),
    "steps": 120,
    "plausible": 0,
    "calibration": "folds",
    "priors": (cbdl.priors.Normal(0, 1), cbdl.priors.Laplace(0, 1)),
}


def table(path: Path, **columns: object) -> Path:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def rows_of(parts: Iterable[Answers]) -> list[dict[str, Any]]:
    """All answers, row by row."""
    return [row for part in parts for row in part.rows()]


def numbers(trained: Trained, path: Path) -> np.ndarray:
    """A table as the model reads it."""
    return tables.encode_rows(trained.columns, tables.read(path)).X


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """A table of two classes, and a model of it."""
    folder, source = tmp_path_factory.mktemp("classes"), np.random.default_rng(0)
    x = source.normal(size=120)
    path = table(
        folder / "t.csv", id=range(120), x=x, c=np.where(x > 1, "hi", "lo"), y=np.where(x > 0, "yes", "no")
    )
    summary = learning.fit(
        path, folder / "model", Settings("y", wishes=Wishes(drop=("id",)), **QUICK), verbose=False
    )
    return path, Trained.load(folder / "model"), summary


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    """A table with a real target, and a model of it."""
    folder, source = tmp_path_factory.mktemp("line"), np.random.default_rng(0)
    x = source.normal(size=150)
    path = table(folder / "t.csv", x=x, y=3 * x + 100 + 0.1 * source.normal(size=150))
    summary = learning.fit(path, folder / "model", Settings("y", **QUICK), verbose=False)
    return path, Trained.load(folder / "model"), summary


def test_a_fit_says_what_it_did_and_scores_rows_it_did_not_see(classes, line):
    summary = classes[2]
    assert (summary["task"], summary["classes"], summary["rows"], summary["members"]) == (
        "classification",
        ["no", "yes"],
        96,
        2,
    )
    assert summary["features"] == 3  # a number and two levels
    assert summary["held_out"]["rows"] == 24
    assert summary["held_out"]["accuracy"] > 0.8
    assert line[2]["task"] == "regression"
    assert line[2]["held_out"]["rmse"] < 2.5  # a constant has 3


def test_a_fit_stores_the_levels_of_rows_that_were_left_out(classes, line):
    for _, trained, summary in (classes, line):
        assert set(trained.conformity) == {"mixture", "normal"}
        for levels in trained.conformity.values():
            assert levels.counts.sum() == summary["rows"]
            assert levels.how == "5 folds"


@pytest.mark.parametrize("form", ["mixture", "normal"])
def test_calibrated_answers_are_at_the_level_of_the_form_that_is_asked_for(line, form):
    path, trained, _ = line
    credal = trained.model.predict(numbers(trained, path), recipe.DRAWS, predictive=form)
    needed = trained.conformity[form].needed(0.1)
    rows = rows_of(answers.predict(trained, path, Options(alpha=0.1, predictive=form)))
    lower, upper = credal.region_at_level(log_survival=needed).hull()
    np.testing.assert_allclose([[a["lower"], a["upper"]] for a in rows], np.c_[lower, upper], rtol=1e-9)
    plain = rows_of(answers.predict(trained, path, Options(alpha=0.1, method="union", predictive=form)))
    lower, upper = credal.region(0.1).hull()
    np.testing.assert_allclose([[a["lower"], a["upper"]] for a in plain], np.c_[lower, upper], rtol=1e-9)
    assert [a["size"] for a in plain] != [a["size"] for a in rows]


def test_a_model_that_was_not_calibrated_answers_with_plain_regions(classes):
    path, trained, _ = classes
    plain = replace(trained, conformity={})
    assert rows_of(answers.predict(plain, path, Options())) == rows_of(
        answers.predict(trained, path, Options(method="union"))
    )


def test_info_counts_the_levels_and_does_not_list_them(classes):
    path, trained, summary = classes
    told = scoring.info(path.parent / "model")["extra"]["conformity"]
    assert told["mixture"] == {"outcomes": summary["rows"], "how": trained.conformity["mixture"].how}


@pytest.mark.parametrize(
    "levels",
    [
        None,
        [],
        {"other": {}},
        {"mixture": None},
        {"mixture": {"log_survival": [0.5], "counts": [1], "how": ""}},
        {"mixture": {"log_survival": [-1], "counts": [-1], "how": ""}},
        {"mixture": {"log_survival": [-1, -2], "counts": [1], "how": ""}},
        {"mixture": {"log_survival": ["x"], "counts": [1], "how": ""}},
    ],
)
def test_a_manifest_with_levels_that_are_none_is_refused(classes, tmp_path, levels):
    model = tmp_path / "m"
    shutil.copytree(classes[0].parent / "model", model)
    manifest = json.loads((model / "manifest.json").read_text())
    manifest["extra"]["conformity"] = levels
    (model / "manifest.json").write_text(json.dumps(manifest))
    for read in (Trained.load, scoring.info):
        with pytest.raises(ModelError, match=r"does not describe its calibration: .*train the model again"):
            read(model)


def test_members_that_the_data_refute_are_named(tmp_path):
    """A prior that holds the network at 0 cannot follow a line; the other can."""
    x = np.linspace(-2, 2, 60)
    path = table(tmp_path / "t.csv", x=x, y=3 * x + 0.05 * np.cos(40 * x))
    stiff = {**QUICK, "priors": (cbdl.priors.Normal(0, 1), cbdl.priors.Normal(0, 1e-3)), "plausible": 0.01}
    summary = learning.fit(path, tmp_path / "m", Settings("y", **stiff), verbose=False)
    assert len(summary["dropped"]) + summary["members"] == 4
    assert {member.split()[1].rstrip(",") for member in summary["dropped"]} >= {"1"}


def test_answers_are_those_of_the_model_by_hand(classes):
    path, trained, _ = classes
    options = Options(alpha=0.1, method="union", phi=0.2, floor=True, keep=("id",))
    rows = rows_of(answers.predict(trained, path, options))
    credal = trained.model.predict(numbers(trained, path), recipe.DRAWS)
    split = credal.uncertainty()
    assert [a["row"] for a in rows] == list(range(1, 121))
    assert [a["id"] for a in rows] == [str(i) for i in range(120)]
    assert [a["decision"] for a in rows] == [("no", "yes")[i] for i in credal.decide("maximin", single=True)]
    assert [[c in a["set"] for c in ("no", "yes")] for a in rows] == credal.region(0.1).mask.tolist()
    for name in ("aleatoric", "epistemic", "epistemic_lower", "epistemic_upper", "total"):
        np.testing.assert_allclose([a[name] for a in rows], getattr(split, name), atol=1e-12)
    np.testing.assert_allclose([a["floor"] for a in rows], credal.floor)
    assert [a["abstain"] for a in rows] == (split.aleatoric > 0.2).tolist()


@pytest.mark.parametrize("kind", ["classes", "line"])
def test_answers_and_scores_do_not_depend_on_the_pieces(kind, request, monkeypatch):
    path, trained, _ = request.getfixturevalue(kind)
    options = Options(samples=8, phi=1e-3)
    whole = rows_of(answers.predict(trained, path, options))
    scores = scoring.evaluate(trained, path, options)
    for module in (answers, scoring):
        monkeypatch.setattr(module, "ROWS", 41)
    pieces = rows_of(answers.predict(trained, path, options))
    for a, b in zip(whole, pieces, strict=True):
        assert a.keys() == b.keys()
        assert a["row"] == b["row"]
        assert a["epistemic"] == pytest.approx(b["epistemic"], abs=1e-6)
    again = scoring.evaluate(trained, path, options)
    for name in scores.keys() - {"floor"}:
        assert scores[name] == pytest.approx(again[name], rel=1e-5)


def test_intervals_hold_the_decision_and_cover_most_outcomes(line):
    path, trained, _ = line
    rows = rows_of(answers.predict(trained, path, Options(method="minimal", predictive="normal")))
    for a in rows:
        assert a["lower"] < a["decision"] < a["upper"]
        assert a["size"] == pytest.approx(sum(high - low for low, high in a["set"]))
    y = np.array([float(v) for v in tables.read(path)["y"].to_pylist()])
    inside = [a["lower"] <= t <= a["upper"] for a, t in zip(rows, y, strict=True)]
    assert np.mean(inside) >= scoring.evaluate(trained, path, Options(predictive="normal"))["coverage"] - 0.05


def test_scores_are_those_of_the_answers(classes):
    path, trained, _ = classes
    rows = rows_of(answers.predict(trained, path, Options()))
    y = tables.read(path)["y"].to_pylist()
    scores = scoring.evaluate(trained, path, Options())
    assert scores["accuracy"] == np.mean([a["decision"] == t for a, t in zip(rows, y, strict=True)])
    assert scores["coverage"] == np.mean([t in a["set"] for a, t in zip(rows, y, strict=True)])
    assert scores["size"] == np.mean([len(a["set"]) for a in rows])


def test_scores_tell_the_floor_of_the_first_rows(classes, line):
    for path, trained, summary in (classes, line):
        X = numbers(trained, path)[: scoring.FLOOR]
        floor = np.mean(np.asarray(trained.model.predict(X, recipe.DRAWS).floor))
        assert scoring.evaluate(trained, path, Options())["floor"] == pytest.approx(floor, rel=1e-4)
        assert 0 < summary["held_out"]["floor"] < 1


@pytest.mark.parametrize(
    ("values", "task", "other"),
    [
        (["a", "b", "a"], "classification", None),
        (["0", "1", "1"], "classification", "regression"),
        (["0", "1", "1.5"], "regression", "classification"),
        ([str(i) for i in range(40)], "regression", "classification"),
        ([str(i) for i in range(400)], "regression", None),
        ([str(i / 8) for i in range(40)], "regression", None),
    ],
)
def test_the_task_follows_from_the_target(values, task, other):
    """The other one is named where it would be accepted, and makes sense."""
    column = pa.array(values)
    target = learn_target("y", column, "auto")
    assert (target.task, target.other_task(target.encode(column))) == (task, other)
    if other is not None:
        assert learn_target("y", column, other).task == other


def test_a_target_that_cannot_be_learned_is_refused():
    for values, task, said in (
        (["1", "", "2"], "auto", "missing in row 2"),
        (["a", "b"], "regression", "row 1 is 'a', not a finite number"),
        (["a", "a"], "auto", "nothing to tell apart"),
        ([f"n{i}" for i in range(200)], "auto", "200 different values"),
    ):
        with pytest.raises(TableError, match=said):
            learn_target("y", pa.array(values), task)


def test_classes_that_are_numbers_are_the_same_however_they_are_spelled():
    target = Target("y", "classification", ("0", "1"))
    assert target.encode(pa.array(["1", "0.0", "1e0"])).tolist() == [1, 0, 1]
    with pytest.raises(TableError, match="row 7 is '2'"):
        target.encode(pa.array(["2"]), 7)


def test_nothing_is_trained_when_the_result_has_no_place(classes, tmp_path):
    path = classes[0]
    (tmp_path / "notes").mkdir()
    (tmp_path / "m.run").mkdir()
    for out, said in ((path.parent / "model", "--overwrite"), (tmp_path / "notes", "not a saved model"),
                      (tmp_path / "m", "--resume")):  # fmt: skip
        with pytest.raises(UsageError, match=said):
            learning.fit(path, out, Settings("y", **QUICK), verbose=False)


def test_columns_that_are_not_there(classes, tmp_path):
    path, trained, _ = classes
    for settings in (Settings("nix"), Settings("y", wishes=Wishes(drop=("nix",)))):
        with pytest.raises(UsageError, match="no column 'nix'"):
            learning.fit(path, tmp_path / "m", settings, verbose=False)
    with pytest.raises(UsageError, match="no column 'nix'"):
        rows_of(answers.predict(trained, path, Options(keep=("nix",))))
    only = table(tmp_path / "x.csv", x=[1.0], c=["lo"])
    with pytest.raises(UsageError, match="no column 'y'"):
        scoring.evaluate(trained, only, Options())
    assert not (tmp_path / "m.run").exists()


def test_a_model_that_was_not_made_from_a_table_says_so(tmp_path):
    X = np.linspace(-1, 1, 20)[:, None]
    net = cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, (4,)), scale=0.1)
    model = cbdl.CBDL([cbdl.priors.Normal()], [net], cbdl.MeanField(epochs=1), verbose=False).fit(X, X[:, 0])
    model.save(tmp_path / "m")
    with pytest.raises(TableError, match=r"cbdl\.load"):
        Trained.load(tmp_path / "m")
    assert scoring.info(tmp_path / "m")["members"] == 1


@pytest.mark.parametrize(
    "text", ["", "gauss:0:1", "normal:0:-1", "normal:a", "normal:0:1:2", "student-t:0:0:1", "laplace:0:inf"]
)
def test_a_prior_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="write"):
        parse_prior(text)


def test_priors_and_networks_as_they_are_spelled():
    assert parse_prior("laplace:0:2") == cbdl.priors.Laplace(0, 2)
    assert parse_prior("student-t:4:0:2") == cbdl.priors.StudentT(4, 0, 2)
    assert parse_prior("horseshoe:0.2") == cbdl.priors.Horseshoe(0.2)
    assert (parse_net("mlp"), parse_net("mlp:8")) == ((), (8,))
    for text in ("", "cnn:3", "mlp:0", "mlp:8,", "mlp:a", "mlp:-3"):
        with pytest.raises(UsageError, match="not a network"):
            parse_net(text)


def test_networks_in_single_precision_know_classes_to_six_digits(tmp_path):
    """Also where an input is a large number that hardly varies: units are those of double precision."""
    source = np.random.default_rng(0)
    x = source.normal(size=100)
    path = table(
        tmp_path / "t.csv", time=1.7e9 + x, z=source.normal(size=100), y=np.where(x > 0, "yes", "no")
    )
    learning.fit(path, tmp_path / "m", Settings("y", **QUICK), verbose=False)
    single, double = Trained.load(tmp_path / "m").model, cbdl.load(tmp_path / "m")
    assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
    X = numbers(Trained.load(tmp_path / "m"), path)
    # rounding of inputs and three layers of sums in float32, times the slope of a probability, which is 1/4 at most
    np.testing.assert_allclose(single.predict(X).probs, double.predict(X).probs, atol=1e-5)


def test_networks_in_single_precision_know_numbers_to_six_digits_of_their_unit(tmp_path):
    """Also where inputs and outcomes are large numbers that hardly vary: units are those of double precision."""
    source = np.random.default_rng(0)
    x = source.normal(size=100)
    path = table(tmp_path / "t.csv", time=1.7e9 + x, z=source.normal(size=100), y=1e8 + x)
    learning.fit(path, tmp_path / "m", Settings("y", **QUICK), verbose=False)
    single, double = Trained.load(tmp_path / "m").model, cbdl.load(tmp_path / "m")
    assert single.dtype == torch.float32
    X = numbers(Trained.load(tmp_path / "m"), path)
    ours, true = single.predict(X), double.predict(X)
    # outcomes have a spread of 1; sums of three layers in float32, and the rounding of 1e8 in float64
    np.testing.assert_allclose(ours.loc, true.loc, rtol=0, atol=3e-5)
    np.testing.assert_allclose(ours.scale, true.scale, rtol=3e-5)


def test_many_held_out_rows_are_scored_by_a_sample(tmp_path, monkeypatch):
    source = np.random.default_rng(0)
    x = source.normal(size=120)
    path = table(tmp_path / "t.csv", x=x, y=np.where(x > 0, "yes", "no"))
    monkeypatch.setitem(scoring.ENOUGH, "classification", 10)
    summary = learning.fit(path, tmp_path / "m", Settings("y", **QUICK), verbose=False)
    assert (summary["held_out"]["rows"], summary["held_out"]["of"]) == (10, 24)


def test_baselines_are_those_of_scikit_learn(line):
    """The error of the mean is the spread of the outcomes; ridge finds a line."""
    scores = line[2]["held_out"]["baselines"]
    assert scores["ridge regression"]["rmse"] < 0.15  # noise of 0.1
    assert 2 < scores["mean"]["rmse"] < 4  # slope of 3 on standard Normals


@pytest.mark.parametrize("values", [torch.ones(3), torch.ones(2, 9), torch.full((2, 1), np.nan)])
def test_quantiles_that_are_none_are_refused(values, tmp_path):
    X = np.linspace(-1, 1, 20)[:, None]
    net = cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, (4,)), scale=0.1)
    model = cbdl.CBDL([cbdl.priors.Normal()], [net], cbdl.MeanField(epochs=1), verbose=False).fit(X, X[:, 0])
    model._quantiles = values
    model.save(tmp_path / "m")
    with pytest.raises(ModelError, match=r"inputs\.quantiles"):
        cbdl.load(tmp_path / "m")
