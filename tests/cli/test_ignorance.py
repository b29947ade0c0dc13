"""Ignorance about inputs on the command line: words never seen, values that are missing; and answers in all forms."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import cbdl
from calls import called
from cbdl import recipe, tables
from cbdl.store import read_manifest
from cbdl.tables import TableError
from cbdl.tables.answers import decisions
from cbdl.tables.target import held_out
from rounding import assert_same

FAST = [
    "--net",
    "mlp:4",
    "--prior",
    "normal:0:1",
    "--prior",
    "normal:0:2",
    "--steps",
    "90",
    "--plausible",
    "0",
]
LEVELS = ("a|b", "c", 'd"e')


def frame(rows: int = 90) -> pd.DataFrame:
    source = np.random.default_rng(0)
    x, c = source.normal(size=rows), source.integers(0, 3, rows)
    noise = 0.3 * source.normal(size=rows)
    names = np.array(LEVELS)[c]
    kind = np.array(LEVELS)[np.digitize(x + c - 1 + noise, [-0.5, 0.8])]
    return pd.DataFrame(
        {"x": x, "c": names, "flag": x > 0.3, "kind": kind, "value": (2 * x + c + noise).round(2)}
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A table, a model of its classes and a model of its numbers."""
    folder = tmp_path_factory.mktemp("ignorance")
    frame().to_csv(folder / "t.csv", index=False)
    for target, other in (("kind", "value"), ("value", "kind")):
        code, _, err = called(
            "fit",
            folder / "t.csv",
            "--target",
            target,
            "--drop",
            other,
            "--out",
            folder / target,
            *FAST,
            "--quiet",
        )
        assert code == 0, err
    return folder


def answered(
    place: Path, kind: str, rows: dict[str, list[Any]], *more: str
) -> tuple[list[dict[str, Any]], str]:
    """The answers for some rows, and what is said beside them."""
    path = place / "new.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    code, out, err = called("predict", place / kind, path, "--json", "--digits", "15", *more)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()], err


def refused(place: Path, kind: str, rows: dict[str, list[Any]], *more: str) -> str:
    path = place / "new.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    code, out, err = called("predict", place / kind, path, *more)
    assert (code, out) == (1, "")
    return err


# --- words that were never seen -------------------------------------------------------------------------------


def test_a_word_that_was_never_seen_is_all_that_are_known(place):
    """Of classes: lower and upper probabilities are those over all levels."""
    (strange,), err = answered(place, "kind", {"x": [0.2], "c": ["new"], "flag": [True]})
    known, quiet = answered(place, "kind", {"x": [0.2] * 3, "c": list(LEVELS), "flag": [True] * 3})
    for name in LEVELS:
        lower = min(row[f"lower:{name}"] for row in known)
        upper = max(row[f"upper:{name}"] for row in known)
        assert (strange[f"lower:{name}"], strange[f"upper:{name}"]) == pytest.approx((lower, upper), abs=1e-9)
    assert set(strange["set"]) >= {name for row in known for name in row["set"]}
    assert strange["epistemic"] >= max(row["epistemic"] for row in known) - 1e-6
    assert "1 row, 1 with words that were never seen, answered by the hull" in err
    assert quiet == ""


def test_an_interval_for_a_word_that_was_never_seen_holds_those_of_all_that_are_known(place):
    (strange,), _ = answered(place, "value", {"x": [0.2], "c": ["new"], "flag": [True]}, "--method", "union")
    known, _ = answered(
        place, "value", {"x": [0.2] * 3, "c": list(LEVELS), "flag": [True] * 3}, "--method", "union"
    )
    # ends are roots, found to a tolerance of their own
    assert strange["lower"] <= min(row["lower"] for row in known) + 1e-6
    assert strange["upper"] >= max(row["upper"] for row in known) - 1e-6


def test_an_unknown_word_can_be_an_error(place):
    new = {"x": [0.2, 0.3], "c": ["c", "new"], "flag": [True, True]}
    err = refused(place, "kind", new, "--unknown", "error")
    assert "column 'c', row 2: 'new' was not seen in training, which had a|b, c, d\"e" in err
    assert "--unknown hull" in err


# --- missing values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gaps", [["x"], ["c"], ["x", "c"], ["x", "c", "flag"]])
@pytest.mark.parametrize("kind", ["kind", "value"])
def test_a_missing_value_is_ignorance(place, kind, gaps):
    whole = {"x": [0.2], "c": ["c"], "flag": [True]}
    (before,), _ = answered(place, kind, whole)
    (after,), err = answered(place, kind, whole | {name: [None] for name in gaps})
    assert after["epistemic"] > before["epistemic"] - 1e-9
    assert after["size"] >= before["size"]
    assert "1 with missing values" in err


def test_missing_values_can_be_filled_in_or_be_an_error(place):
    new = {"x": [0.2, None], "c": ["c", "c"], "flag": [True, True]}
    middle = frame().x[held_out_of(place)[0]].quantile(0.5, interpolation="lower")
    filled, said = answered(place, "kind", new, "--missing", "impute")
    assert said == "2 rows, 1 with missing values that were filled in\n"
    known, _ = answered(place, "kind", new | {"x": [0.2, middle]})
    assert filled[1]["probability:c"] == pytest.approx(known[1]["probability:c"], abs=1e-9)
    assert "column 'x', row 2: the value is missing" in refused(place, "kind", new, "--missing", "error")


def held_out_of(place: Path) -> tuple[np.ndarray, np.ndarray]:
    """The rows that the model of classes was trained on, and those that were held out."""
    labels = pd.Categorical(frame().kind).codes.astype(np.int64)
    return held_out(len(labels), labels, 0.2, 0)


def test_a_model_that_was_trained_with_filled_values_fills_them_unless_asked(tmp_path):
    data = frame().drop(columns="value")
    data.loc[::7, "x"] = None
    data.to_csv(tmp_path / "t.csv", index=False)
    code, _, err = called(
        "fit", tmp_path / "t.csv", "--target", "kind", "--impute", "--out", tmp_path / "m", *FAST, "--quiet"
    )
    assert code == 0, err
    rows = {"x": [None], "c": ["c"], "flag": [True]}
    plain = answered(tmp_path, "m", rows)
    assert plain == answered(tmp_path, "m", rows, "--missing", "impute")
    hull, err = answered(tmp_path, "m", rows, "--missing", "hull")
    assert hull[0]["epistemic"] > plain[0][0]["epistemic"]
    assert "1 with missing values" in err
    # evaluation counts them too
    code, out, _ = called("evaluate", tmp_path / "m", tmp_path / "t.csv", "--json")
    assert (code, json.loads(out)["imputed"], json.loads(out)["missing"]) == (0, len(data[::7]), 0)
    out = called("evaluate", tmp_path / "m", tmp_path / "t.csv")[1]
    assert f"rows with values filled in {len(data[::7])}" in " ".join(out.split())
    assert "imputed" not in json.loads(
        called("evaluate", tmp_path / "m", tmp_path / "t.csv", "--missing", "hull", "--json")[1]
    )


def test_the_bound_on_completions_is_said(place):
    new = {"x": [None, 0.1], "c": ["new", "c"], "flag": [None, True]}
    _, err = answered(place, "kind", new, "--completions", "4")
    assert "answered by the hull over up to 4 completions, a sample of them in 1 row" in err
    code, out, _ = called(
        "predict", place / "kind", place / "new.csv", "--completions", "4", "--out", place / "p.csv", "--json"
    )
    assert code == 0
    assert json.loads(out) == {
        "out": str(place / "p.csv"),
        "rows": 2,
        "unknown": 1,
        "missing": 1,
        "sampled": 1,
    }


def test_answers_do_not_depend_on_the_rows_beside(place):
    gaps = {"x": [None, 0.1, 0.3, None], "c": ["new", "c", None, "c"], "flag": [True, True, None, False]}
    together, _ = answered(place, "kind", gaps)
    for i in range(4):
        (alone,), _ = answered(place, "kind", {name: [values[i]] for name, values in gaps.items()})
        for name in ("aleatoric", "epistemic", "lower:c", "upper:c"):
            assert alone[name] == pytest.approx(together[i][name], abs=1e-6)
        assert alone["set"] == together[i]["set"]


def test_evaluation_counts_them(place):
    data = frame()
    data.loc[0, "c"] = "new"
    data.loc[1, "x"] = None
    data.to_csv(place / "odd.csv", index=False)
    code, out, _ = called("evaluate", place / "kind", place / "odd.csv", "--json")
    scores = json.loads(out)
    assert (code, scores["rows"], scores["unknown"], scores["missing"]) == (0, 90, 1, 1)
    code, _, err = called("evaluate", place / "kind", place / "odd.csv", "--unknown", "error")
    assert code == 1
    assert "'new' was not seen" in err
    data.loc[0, "kind"] = "e"
    data.to_csv(place / "odd.csv", index=False)
    code, _, err = called("evaluate", place / "kind", place / "odd.csv")
    assert code == 1
    assert "in row 1 is 'e', which the model cannot predict; it knows 'a|b', 'c', 'd\"e'" in " ".join(
        err.split()
    )


# --- what is learned from training rows only ------------------------------------------------------------------


def test_levels_fills_and_scales_come_from_the_training_rows_only(tmp_path):
    """The held-out rows are changed beyond recognition: the model is the same, and its score warns."""
    data = frame().drop(columns="value")
    labels = pd.Categorical(data.kind).codes.astype(np.int64)
    train, test = held_out(len(data), labels, 0.2, 0)
    data.loc[train[:3], "x"] = None
    manifests = []
    for folder in ("plain", "odd"):
        if folder == "odd":
            data.loc[test, "c"] = "never seen"
            data.loc[test, "x"] = 1e6
        data.to_csv(tmp_path / f"{folder}.csv", index=False)
        arguments = ["--target", "kind", "--impute", "--out", tmp_path / folder, *FAST, "--quiet", "--json"]
        code, out, err = called("fit", tmp_path / f"{folder}.csv", *arguments)
        assert code == 0, err
        manifests.append(json.loads((tmp_path / folder / "manifest.json").read_text()))
    first, second = (m["extra"]["columns"] for m in manifests)
    assert first == second
    known = data.x[train].dropna()
    assert float(first[0]["fill"]) == known.quantile(0.5, interpolation="lower")
    units = [cbdl.load(tmp_path / folder).learned.inputs for folder in ("plain", "odd")]
    np.testing.assert_allclose(units[0].loc, units[1].loc, rtol=1e-12)
    np.testing.assert_allclose(units[0].scale, units[1].scale, rtol=1e-12)
    scores = json.loads(out)["held_out"]
    assert (scores["unknown"], scores["rows"]) == (len(test), len(test))
    assert scores["accuracy"] < manifests[0]["extra"]["held_out"]["accuracy"]


# --- one pass, all forms --------------------------------------------------------------------------------------


def test_parquet_has_real_lists_and_all_digits(place):
    for kind in ("kind", "value"):
        out = place / f"{kind}.parquet"
        code, said, _ = called("predict", place / kind, place / "t.csv", "--out", out, "--keep", "x")
        assert (code, said) == (0, f"{out}: 90 rows\n")
        table = parquet.read_table(out)
        trained = tables.answers.Trained.load(place / kind)
        credal = trained.model.predict(
            tables.encode_rows(trained.columns, tables.read(place / "t.csv")).X,
            recipe.DRAWS,
        )
        assert_same(table["epistemic"], credal.uncertainty().epistemic)  # classes in float32, in other blocks
        region = trained.region(credal, tables.answers.Options())
        for i, own in enumerate(table["set"].to_pylist()):
            if kind == "kind":
                assert own == [LEVELS[j] for j in np.flatnonzero(region.mask[i])]
            else:
                ends = region.intervals[i]
                np.testing.assert_allclose(own, ends[~np.isnan(ends[:, 0])], rtol=1e-9)


def test_a_class_name_with_the_separator_in_it_survives_csv(place):
    code, out, _ = called("predict", place / "kind", place / "t.csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    _, lines, _ = called("predict", place / "kind", place / "t.csv", "--json")
    exact = [json.loads(line) for line in lines.splitlines()]
    assert code == 0
    assert [tables.split_set(row["set"]) for row in rows] == [row["set"] for row in exact]
    assert any("a|b" in row["set"] for row in exact)
    assert [row["decision"] for row in rows] == [row["decision"] for row in exact]


def test_probabilities_stand_between_their_bounds(place):
    rows, _ = answered(place, "kind", frame()[["x", "c", "flag"]].to_dict("list"), "--floor")
    assert all(row["floor"] >= 0 for row in rows)
    for row in rows:
        for name in LEVELS:
            assert row[f"lower:{name}"] <= row[f"probability:{name}"] <= row[f"upper:{name}"]
        assert sum(row[f"probability:{name}"] for name in LEVELS) == pytest.approx(1)


def test_the_decision_is_the_rule_that_is_asked_for(place):
    X = frame()[["x", "c", "flag"]]
    for kind in ("kind", "value"):
        credal = cbdl.load(place / kind).predict(X, recipe.DRAWS)
        mean, _ = answered(place, kind, X.to_dict("list"), "--decision", "mean")
        maximin, _ = answered(place, kind, X.to_dict("list"), "--decision", "maximin")
        default, _ = answered(place, kind, X.to_dict("list"))
        assert default == (maximin if kind == "kind" else mean)
        if kind == "kind":
            assert [row["decision"] for row in mean] == [LEVELS[j] for j in credal.center().argmax(-1)]
            best = credal.decide("maximin", single=True)
            assert [row["decision"] for row in maximin] == [LEVELS[j] for j in best]
        else:
            # commands evaluate networks in single precision: rounding of some layers, relative to outcomes of about 1
            close = {"rtol": 1e-5, "atol": 1e-5}
            np.testing.assert_allclose([row["decision"] for row in mean], credal.mean().mean(1), **close)
            best = credal.decide("maximin", single=True)
            np.testing.assert_allclose([row["decision"] for row in maximin], best, **close)


def test_rows_that_are_alike_are_decided_alike():
    """Where every class may be impossible all are as good in the worst case; the likeliest of the centre is taken."""
    vacuous = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.4, 0.6]]
    tied = [[0.3, 0.5, 0.2], [0.4, 0.3, 0.3], [0.3, 0.2, 0.5]]  # at least 0.3, 0.2 and 0.2
    credal = cbdl.CategoricalCredalSet(np.array([vacuous, tied] * 30))
    for rule in (None, "maximin"):
        assert decisions(credal, rule).tolist() == [1, 0] * 30


def test_ends_are_rounded_outwards_to_what_outcomes_can_be(place):
    """Outcomes have two decimals; so have the ends, unless digits are asked for."""
    exact, _ = answered(place, "value", frame()[["x", "c", "flag"]].to_dict("list"))
    code, out, _ = called("predict", place / "value", place / "new.csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    for own, row in zip(exact, rows, strict=True):
        assert float(row["lower"]) <= own["lower"] + 1e-9
        assert float(row["upper"]) >= own["upper"] - 1e-9
        assert all(len(row[name].partition(".")[2]) <= 2 for name in ("lower", "upper", "decision"))
    code, out, _ = called("predict", place / "value", place / "new.csv", "--digits", "2")
    rows = list(csv.DictReader(io.StringIO(out)))
    for own, row in zip(exact, rows, strict=True):
        for name, sign in (("lower", -1), ("upper", 1)):
            assert float(row[name]) == float(f"{float(row[name]):.2g}")
            further = sign * (float(row[name]) - own[name])
            assert -1e-9 <= further <= 0.1 * abs(own[name]) + 1e-9
        ends = [float(end) for part in row["set"].split("|") for end in part.split(":")]
        assert (min(ends), max(ends)) == (float(row["lower"]), float(row["upper"]))


# --- data frames ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["kind", "value"])
def test_a_loaded_model_takes_the_frame_that_it_was_trained_from(place, kind):
    model = cbdl.load(place / kind)
    data = frame()
    draws = recipe.DRAWS
    own = model.predict(data, draws)
    rows, _ = answered(place, kind, data[["x", "c", "flag"]].to_dict("list"))
    np.testing.assert_allclose(own.uncertainty().epistemic, [row["epistemic"] for row in rows], atol=1e-6)
    array = tables.encode_rows(model.encoder.columns, tables.from_frame(data)).X
    np.testing.assert_allclose(model.predict(array).mean(), model.predict(data).mean(), atol=1e-9)
    shuffled = data.sample(frac=1, random_state=1)[["kind", "flag", "c", "x"]]
    again = model.predict(shuffled, draws).uncertainty().epistemic
    np.testing.assert_allclose(again, own.uncertainty().epistemic[shuffled.index], atol=1e-6)


@pytest.mark.filterwarnings("ignore::cbdl.bayes.diagnostics.CollapseWarning")  # as short a training
@pytest.mark.parametrize("kind", ["kind", "value"])
def test_a_loaded_model_is_diagnosed_and_calibrated_by_frames(place, kind):
    model, data = cbdl.load(place / kind), frame()
    array = tables.encode_rows(model.encoder.columns, tables.from_frame(data)).X
    by_frame, by_array = (model.diagnostics(X, data[kind]) for X in (data, array))
    assert [row.train_nll for row in by_frame] == [row.train_nll for row in by_array]
    assert repr(model.calibrate(data, data[kind])) == repr(model.calibrate(array, data[kind]))


def test_a_loaded_model_that_is_saved_again_still_knows_its_table(place, tmp_path):
    cbdl.load(place / "kind").save(tmp_path / "again")
    asked = [place / "t.csv", "--json"]
    assert called("predict", tmp_path / "again", *asked) == called("predict", place / "kind", *asked)
    cbdl.load(place / "kind").drop([]).save(tmp_path / "as it was")
    assert called("predict", tmp_path / "as it was", *asked) == called("predict", place / "kind", *asked)


@pytest.mark.filterwarnings("ignore::cbdl.bayes.diagnostics.CollapseWarning")  # as short a training
@pytest.mark.parametrize("change", ["fewer", "more"])
def test_a_loaded_model_of_other_members_or_more_data_still_knows_its_table(place, tmp_path, change):
    """But no longer the scores and levels of the networks that it had."""
    table = dict(read_manifest(place / "kind")["extra"])
    del table["held_out"]
    model, data = cbdl.load(place / "kind"), frame()
    if change == "fewer":
        model.drop([(0, 0)])
    else:  # by a method that can learn on
        array, net = model.encoder.array(data), cbdl.nets.mlp(6, 3, (4,))
        other = cbdl.CBDL(
            [cbdl.priors.Normal()], [cbdl.likelihoods.Categorical(net)], cbdl.MeanField(epochs=2)
        )
        other.fit(array, data["kind"]).save(tmp_path / "other", extra=read_manifest(place / "kind")["extra"])
        model = cbdl.load(tmp_path / "other").update(data, data["kind"])
    model.save(tmp_path / "model")
    assert read_manifest(tmp_path / "model")["extra"] == {**table, "conformity": {}}
    own = cbdl.load(tmp_path / "model").predict(data, recipe.DRAWS).uncertainty().epistemic
    rows, _ = answered(tmp_path, "model", data[["x", "c", "flag"]].to_dict("list"))
    np.testing.assert_allclose(own, [row["epistemic"] for row in rows], atol=1e-6)
    code, out, _ = called("info", tmp_path / "model")
    assert (code, "held out" in out) == (0, False)


def test_a_frame_with_gaps_is_for_predict_missing(place):
    model = cbdl.load(place / "kind")
    data = frame().head(3)
    data.loc[1, "c"] = "new"
    data.loc[2, "x"] = None
    with pytest.raises(TableError, match=r"column 'c', row 2: .*never seen.* predict_missing"):
        model.predict(data)
    with pytest.raises(TableError, match=r"column 'x', row 3: .*missing.* predict_missing"):
        model.predict(data.drop(index=1).reset_index(drop=True).reindex([0, 0, 1]))
    hull = model.predict_missing(data)
    assert hull.origin.completions.tolist() == [1, 3, 5]
    with pytest.raises(TableError, match="no column 'flag'"):
        model.predict(data[["x", "c"]])
    with pytest.raises(TableError, match="int is no data frame"):
        model.predict(3)


def test_what_a_frame_cannot_hold_is_told(place):
    model, data = cbdl.load(place / "value"), frame().head(3)
    data.loc[1, "x"] = 1e300
    for answer in (model.predict, model.predict_missing):
        with pytest.raises(TableError, match=r"column 'x', row 2: 1e\+300 is too large a number"):
            answer(data)
    for one in (data["x"], data.iloc[0]):
        with pytest.raises(TableError, match="Series is no data frame"):
            model.predict(one)


def test_a_column_that_arrow_has_no_type_for_is_read_value_by_value(place):
    model, data = cbdl.load(place / "kind"), frame().head(3)
    plain = model.predict(data).probs
    spaced = data.rename(columns={"x": " x ", "c": "c "})  # as pandas reads a table whose names stand apart
    for same in (data.assign(x=pd.arrays.SparseArray(data["x"])), spaced):
        np.testing.assert_allclose(model.predict(same).probs, plain, atol=1e-9)
    for mixed in (["?", 1.0, "twelve"], [pd.NA, "?", "twelve"], ["?", None, 1j]):
        with pytest.raises(TableError, match=r"column 'x', row 3: '.*' is not a finite number"):
            model.predict_missing(data.assign(x=pd.Series(mixed, dtype=object)))
    with pytest.raises(TableError, match="two columns are named 'x'"):
        model.predict(pd.concat([data, data[["x"]]], axis=1))
    for one in (polars.Series([1.0]), {"x": 1.0, "c": "c", "flag": True}):
        with pytest.raises(TableError, match="is no data frame"):
            model.predict(one)


def test_words_of_polars_are_understood(place):
    model, data = cbdl.load(place / "kind"), frame().head(3)
    data.loc[1, ["x", "c"]] = None
    views = pa.table(data)
    views = views.set_column(1, "c", views["c"].cast(pa.string()).cast(pa.string_view()))
    spelled = pa.array(["?" if v is None else str(v) for v in views["x"].to_pylist()])
    views = views.set_column(0, "x", spelled.cast(pa.string_view()))
    np.testing.assert_allclose(
        model.predict_missing(views).probs, model.predict_missing(data).probs, atol=1e-9
    )


def test_categories_and_missing_values_of_pandas_are_understood(place):
    model, data = cbdl.load(place / "kind"), frame()
    plain = model.predict(data).probs
    data["c"] = data["c"].astype("category")
    data["x"] = data["x"].astype("Float64")
    np.testing.assert_allclose(model.predict(data).probs, plain, atol=1e-9)
    data.loc[0, "x"] = pd.NA
    assert model.predict_missing(data).origin.completions.tolist()[0] == 5
