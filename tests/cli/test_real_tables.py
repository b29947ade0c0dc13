"""Thirteen real tables from file to answer: five come with scikit-learn, eight are in CBDL_DATA if that is there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets

from calls import called
from cbdl.tables import guises

FAST = ["--net", "mlp:4", "--prior", "normal:0:1", "--steps", "90", "--plausible", "0", "--quiet", "--json"]
OWN = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "tumours": datasets.load_breast_cancer,
    "diabetes": datasets.load_diabetes,
    "digits": datasets.load_digits,
}
FILES = ("airfoil", "breast-cancer", "german", "glass", "horse-colic", "ionosphere", "phoneme",
         "pima-indians-diabetes")  # fmt: skip
ROWS = 150
"""Rows of a table that are used, picked at random."""
MORE = {"horse-colic": ["--impute"], "breast-cancer": ["--impute"]}
"""What a table needs beside its target."""


def frame(name: str) -> pd.DataFrame:
    if name in OWN:
        return OWN[name](as_frame=True).frame
    place = Path(os.environ.get("CBDL_DATA", "nowhere")) / "tables" / f"{name}.csv"
    if not place.is_file():
        pytest.skip(f"CBDL_DATA has no tables/{name}.csv")
    return pd.read_csv(place, dtype=str, keep_default_na=False)


@pytest.mark.parametrize("name", [*OWN, *FILES])
def test_a_real_table_goes_from_file_to_answer(name, tmp_path, recwarn):
    data = frame(name)
    data = data.iloc[np.sort(np.random.default_rng(0).permutation(len(data))[:ROWS])]
    path, model = tmp_path / "t.csv", tmp_path / "m"
    data.to_csv(path, index=False)
    code, out, err = called("fit", path, "--target", "target", "--out", model, *FAST, *MORE.get(name, []))
    assert code == 0, err
    summary = json.loads(out)
    real = name in ("airfoil", "diabetes")
    assert summary["task"] == ("regression" if real else "classification")
    assert len(summary["classes"]) == (0 if real else data.target.nunique())
    assert set(summary["held_out"]["baselines"]) == (
        {"mean", "ridge regression"} if real else {"majority", "logistic regression"}
    )
    code, out, err = called("predict", model, path, "--json", "--samples", "8", "--decision", "mean")
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert len(rows) == len(data)
    assert all(row["epistemic"] >= -1e-9 for row in rows)
    code, out, err = called("evaluate", model, path, "--json", "--samples", "8", "--decision", "mean")
    scores = json.loads(out)
    assert code == 0, err
    if not real:
        right = [str(row["decision"]) == str(y) for row, y in zip(rows, data.target, strict=True)]
        assert scores["accuracy"] == pytest.approx(np.mean(right))


def test_there_are_thirteen():
    assert len({*OWN, *FILES}) == 13


@pytest.mark.parametrize("name", [*OWN, *FILES])
def test_numbers_of_real_tables_are_taken_for_nothing_else(name):
    for column, values in frame(name).items():
        numbers = pd.to_numeric(values.replace("?", np.nan), errors="coerce").to_numpy(float)
        known = numbers[~np.isnan(numbers)]
        if len(known):
            assert guises.remarks(column, numbers) == []
            assert guises.date_format(known) == ""


def test_numbers_of_regression_tables_are_taken_for_nothing_else():
    folder = Path(os.environ.get("CBDL_DATA", "nowhere")) / "uci"
    files = sorted(folder.glob("*/data.txt"))
    if not files:
        pytest.skip("CBDL_DATA has no uci")
    for path in files:
        for j, numbers in enumerate(np.loadtxt(path).T):
            assert guises.remarks(f"{path}, {j}", numbers) == []
            assert guises.date_format(numbers) == ""
