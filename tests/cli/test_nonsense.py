"""What would train nonsense is read right, or refused with words: the column, the place and the remedy."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as parquet
import pytest

import cbdl
from calls import called

FAST = [
    "--net",
    "mlp:4",
    "--prior",
    "normal:0:1",
    "--steps",
    "60",
    "--plausible",
    "0",
    "--calibration",
    "none",
]
SOURCE = np.random.default_rng(0)
X = SOURCE.normal(size=60)
Y = np.where(X > 0, "yes", "no")


def table(
    path: Path, columns: dict[str, Sequence[Any]], delimiter: str = ",", encoding: str = "utf-8"
) -> Path:
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    path.write_bytes(file.getvalue().encode(encoding))
    return path


def fitted(path: Path, *more: str, target: str = "y") -> tuple[int, dict[str, Any], str]:
    """Exit code, summary, stderr of `cbdl fit`; nothing may be left of one that failed."""
    out = path.with_name("model")
    before = out.exists()
    code, told, err = called("fit", path, "--target", target, "--out", out, *FAST, "--json", "--quiet", *more)
    assert "Traceback" not in err
    assert not path.with_name("model.run").exists()
    assert out.exists() == (before or code == 0)
    return code, json.loads(told) if told else {}, " ".join(err.split())


def columns_of(path: Path) -> dict[str, dict[str, Any]]:
    """What the model says about its columns."""
    described = json.loads((path.with_name("model") / "manifest.json").read_text())["extra"]["columns"]
    return {c["name"]: c for c in described}


# --- numbers as people write them -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spelled", "delimiter"),
    [
        (lambda v: f"{v:.3f}".replace(".", ","), ";"),
        (lambda v: f"{v:.1f}%", ","),
        (lambda v: f"{1000 * v:,.2f} %".replace("-", "\u2212"), ","),
        (lambda v: f"${10_000 * v:,.2f}".replace("$-", "-$"), ","),
        (lambda v: f"{10_000 * v:,.2f} €".replace(",", " ").replace(".", ","), ";"),
    ],
)
def test_numbers_with_commas_signs_and_units_are_numbers(tmp_path, spelled, delimiter):
    path = table(tmp_path / "t.csv", {"x": [spelled(v) for v in X], "y": Y}, delimiter)
    code, summary, err = fitted(path)
    assert (code, summary["features"]) == (0, 1), err
    assert columns_of(path)["x"]["kind"] == "number"
    assert called("predict", tmp_path / "model", path)[0] == 0
    # a table in another spelling would be another number
    table(tmp_path / "other.csv", {"x": [f"{v:.4f}" for v in X]}, ";")
    code, _, err = called("predict", tmp_path / "model", tmp_path / "other.csv")
    assert code == 1
    assert "column 'x', row 1" in err


def test_a_decimal_target_is_never_a_list_of_classes(tmp_path):
    path = table(tmp_path / "t.csv", {"x": X, "y": [f"{v:.3f}".replace(".", ",") for v in X]}, ";")
    code, summary, err = fitted(path)
    assert (code, summary["task"]) == (0, "regression"), err
    path = table(tmp_path / "u.csv", {"x": X, "y": [f"{v:.3f}" for v in X]})
    code, _, err = fitted(path, "--task", "classification", "--overwrite")
    assert code == 1
    assert "holds decimals" in err
    assert "--task regression" in err


def test_a_comma_that_may_be_decimal_or_thousand_is_asked_about(tmp_path):
    path = table(tmp_path / "t.csv", {"x": [f"{i % 9 + 1},{100 + 13 * i}" for i in range(60)], "y": Y}, ";")
    code, _, err = fitted(path)
    assert code == 1
    assert "column 'x': '1,100' may be 1100 or 1.1; say --decimal . or --decimal ," in err
    for sign, largest in ((".", 9000), (",", 9)):
        assert fitted(path, "--decimal", sign, "--overwrite")[0] == 0
        assert max(v for (v,) in columns_of(path)["x"]["values"]) >= largest


@pytest.mark.parametrize("spelled", ["{:.2f} kg", "{:.2f}cm", "{:.2f} \u00b0C"])
def test_numbers_with_another_unit_are_no_names(tmp_path, spelled):
    """A unit that is not known is not guessed: the message tells what the column is and what to do."""
    path = table(tmp_path / "t.csv", {"x": X, "weight": [spelled.format(v) for v in 9 * X], "y": Y})
    code, _, err = fitted(path)
    assert code == 1
    unit = spelled.removeprefix("{:.2f}").strip()
    assert f"column 'weight' holds numbers with {unit!r} behind each" in err
    assert "--drop weight" in err
    assert fitted(path, "--drop", "weight")[0] == 0


@pytest.mark.parametrize("currency", ["USD ", "R$", "\u20b9 "])
def test_letters_and_signs_of_a_currency_before_numbers_are_told(tmp_path, currency):
    path = table(
        tmp_path / "t.csv", {"x": X, "cost": [f"{currency}{1000 * (3 + v):,.2f}" for v in X], "y": Y}
    )
    code, _, err = fitted(path)
    assert code == 1
    assert f"column 'cost' holds numbers with {currency.strip()!r} before each" in err


def test_few_different_numbers_with_a_unit_are_no_categories_either(tmp_path):
    path = table(tmp_path / "t.csv", {"x": X, "w": [f"{i % 15}.5 kg" for i in range(60)], "y": Y})
    code, _, err = fitted(path)
    assert code == 1
    assert "column 'w' holds numbers with 'kg' behind each" in err
    assert "--drop w, or insist on words with --use w" in err
    assert fitted(path, "--use", "w")[0] == 0
    assert columns_of(path)["w"]["kind"] == "category"
    # as a target not even few of them, where they are decimals
    target = table(tmp_path / "u.csv", {"x": X, "y": [f"{i % 3}.5 kg" for i in range(60)]})
    code, _, err = fitted(target, "--overwrite")
    assert code == 1
    assert "the target 'y' holds numbers with 'kg' behind each" in err
    assert fitted(target, "--task", "classification", "--overwrite")[0] == 0
    doors = table(tmp_path / "v.csv", {"x": X, "y": [f"{2 + i % 3} doors" for i in range(60)]})
    assert fitted(doors, "--overwrite")[0] == 0


@pytest.mark.parametrize("target", ["x", "y"])
def test_decimal_commas_are_told_where_points_are_said_to_be_decimal(tmp_path, target):
    path = table(
        tmp_path / "t.csv", {"x": [f"{v:.3f}".replace(".", ",") for v in X], "y": X.round(3), "z": X}, ";"
    )
    code, _, err = fitted(path, "--decimal", ".", target=target)
    assert code == 1
    assert "is no number with a decimal point; leave --decimal . out" in err
    assert fitted(path, target=target)[0] == 0


def test_points_are_thousands_where_the_decimal_sign_is_said_to_be_a_comma(tmp_path):
    spelled = [f"{300 + 40 * i:,}".replace(",", ".") for i in range(60)]
    path = table(
        tmp_path / "t.csv", {"x": spelled, "z": X, "y": [f"{v:.2f}".replace(".", ",") for v in X]}, ";"
    )
    code, _, err = fitted(path, "--decimal", ",", "--held-out", "0")
    assert code == 0, err
    columns = columns_of(path)
    assert columns["x"]["values"][-1] == [2580.0]
    assert columns["z"]["spelling"]["decimal"] == ".", "no comma can be meant"


def test_a_word_in_most_rows_makes_no_category_of_numbers(tmp_path):
    x = ["unknown" if i % 3 else f"{v:.3f}" for i, v in enumerate(X)]
    code, _, err = fitted(table(tmp_path / "t.csv", {"x": x, "y": Y}), "--held-out", "0")
    assert code == 1
    assert "column 'x', row 2: 'unknown' is not a finite number, as most of its different values are" in err
    assert "leave it empty if it is not known" in err
    path = table(tmp_path / "t.csv", {"x": [v if v != "unknown" else "<NA>" for v in x], "y": Y})
    assert "column 'x' has 40 missing values" in fitted(path)[2]
    x = ["none of them" if i % 3 else str(i % 5) for i in range(60)]
    assert fitted(table(tmp_path / "t.csv", {"x": x, "y": Y}))[1]["features"] == 6, "few numbers are levels"


def test_lists_and_records_are_no_category(tmp_path):
    parquet.write_table(pa.table({"x": X, "l": [[i % 3] for i in range(60)], "y": Y}), tmp_path / "t.parquet")
    assert "column 'l' holds lists or records" in fitted(tmp_path / "t.parquet")[2]
    parquet.write_table(pa.table({"x": X, "y": [[i % 3] for i in range(60)]}), tmp_path / "t.parquet")
    for task in ("auto", "classification", "regression"):
        assert "the target 'y' holds lists or records" in fitted(tmp_path / "t.parquet", "--task", task)[2]


def test_new_rows_with_a_decimal_comma_are_told_from_the_ones_of_training(tmp_path):
    path = table(tmp_path / "t.csv", {"x": X, "y": Y})
    assert fitted(path)[0] == 0
    new = table(tmp_path / "new.csv", {"x": ["0,5", "1,25"], "z": [1, 2]}, ";")
    code, out, err = called("predict", tmp_path / "model", new)
    assert (code, out) == (1, "")
    assert "'0,5' is not a finite number with a decimal point, as the model was trained with" in " ".join(
        err.split()
    )


def test_numbers_with_a_slip_are_named(tmp_path):
    path = table(tmp_path / "t.csv", {"x": [*X[:-1], "1o"], "y": Y})
    assert "column 'x', row 60: '1o' is not a finite number" in fitted(path, "--held-out", "0")[2]
    path = table(tmp_path / "u.csv", {"x": X, "y": [*X[:-1], "1o"]})
    assert "the target 'y', row 60: '1o' is not a finite number" in fitted(path)[2]


# --- columns that teach nothing, or the wrong thing -----------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "hint"),
    [
        ("%Y-%m-%d", ""),
        ("%d.%m.%Y", ""),
        ("%Y-%m-%d %H:%M:%S", ""),
        ("%Y-%m-%dT%H:%M:%SZ", ""),
        ("%Y-%m-%dT%H:%M:%S.%f+00:00", ""),
        ("%Y%m%d", ""),
        ("%b %d, %Y", ""),
        ("%d/%m/%Y", ":%d/%m/%Y"),
        ("%d.%m.%y", ""),
        ("%Y/%m/%d %H:%M", ""),
        ("%d.%m.%Y %H:%M:%S", ""),
        ("%m/%d/%y %I:%M %p", ""),
        ("%m-%d-%Y", ""),
    ],
)
def test_dates_are_no_category_and_their_parts_are_offered(tmp_path, form, hint):
    days = np.datetime64("2024-01-01T05:00:00") + np.arange(60) * np.timedelta64(31, "h")
    when = [d.item().strftime(form) for d in days]
    path = table(tmp_path / "t.csv", {"x": X, "day": when, "y": Y})
    code, _, err = fitted(path)
    assert code == 1
    assert "column 'day' holds dates" in err
    assert "--date day" in err
    code, summary, err = fitted(path, "--date", f"day{hint}")
    parts = columns_of(path)["day"]["parts"]
    assert (code, summary["features"]) == (0, 1 + len(parts)), err
    assert parts[:3] == ["month", "day", "weekday"]
    assert called("predict", tmp_path / "model", path)[0] == 0


@pytest.mark.parametrize("form", ["%d.%m.%d", "%Q", "%d.%"])
def test_a_form_of_dates_that_is_none_is_named(tmp_path, form):
    path = table(tmp_path / "t.csv", {"x": X, "day": [f"{i % 9 + 1}.2.2024" for i in range(60)], "y": Y})
    code, _, err = fitted(path, "--date", f"day:{form}")
    assert code == 1
    assert f"is not a date like {form}" in err


def test_a_date_that_may_be_american_is_asked_about(tmp_path):
    path = table(tmp_path / "t.csv", {"x": X, "day": [f"0{i % 9 + 1}/02/2024" for i in range(60)], "y": Y})
    code, _, err = fitted(path, "--date", "day")
    assert code == 1
    assert "may be %d/%m/%Y or %m/%d/%Y" in err


@pytest.mark.parametrize(("end", "form"), [("", "%H:%M"), (":30", "%H:%M:%S")])
def test_the_hour_of_times_of_the_day_is_offered(tmp_path, end, form):
    times = [f"{7 * i % 24:02d}:{13 * i % 60:02d}{end}" for i in range(60)]
    path = table(tmp_path / "t.csv", {"at": times, "x": X, "y": Y})
    code, _, err = fitted(path)
    assert code == 1
    assert f"column 'at' holds times of the day ('00:00{end}'): use the hour with --date at:{form}" in err
    assert fitted(path, "--date", f"at:{form}")[0] == 0
    assert columns_of(path)["at"]["parts"] == ["hour"]


def test_parts_of_dates_are_those_of_the_calendar(tmp_path):
    from cbdl.tables import cells

    days = np.datetime64("1999-12-28") + np.arange(900)
    parts = cells.parts(days.astype("datetime64[s]"), cells.PARTS)
    assert parts[:, :4].tolist() == [[d.year, d.month, d.day, d.weekday()] for d in days.tolist()]


@pytest.mark.filterwarnings("ignore:times with zones")
def test_times_with_zones_are_not_mixed_up_with_those_without(tmp_path):
    """Parts are those of UTC: a model would be asked about other hours than it was trained on."""
    aware = pa.array([3600 * 7 * i + 10**9 for i in range(60)], pa.timestamp("s", "Asia/Tokyo"))
    local = pc.local_timestamp(aware)  # as clocks of the place show them
    for name, own in (("aware", aware), ("local", local)):
        columns = pa.table({"x": X, "t": own, "y": Y})
        parquet.write_table(columns, tmp_path / f"{name}.parquet")
        pa.csv.write_csv(columns, tmp_path / f"{name}.csv")
    for ours, theirs, said in (
        (
            "aware",
            "local",
            "the time names no zone, and those that the model was trained with did; give times with",
        ),
        (
            "local",
            "aware",
            "the time names its zone, and those that the model was trained with did not; give times of",
        ),
    ):
        assert fitted(tmp_path / f"{ours}.parquet", "--date", "t", "--overwrite")[0] == 0
        for kind in ("parquet", "csv"):
            assert called("predict", tmp_path / "model", tmp_path / f"{ours}.{kind}")[0] == 0
            code, _, err = called("predict", tmp_path / "model", tmp_path / f"{theirs}.{kind}")
            assert (code, f"column 't', row 1: {said}" in " ".join(err.split())) == (1, True)


@pytest.mark.parametrize("zone", ["Z", "+0900", "+09:00"])
def test_times_of_other_zones_than_utc_are_told(tmp_path, zone):
    words = [f"2024-{i % 12 + 1:02d}-03 {i % 24:02d}:00:00{zone}" for i in range(60)]
    path = table(tmp_path / "t.csv", {"x": X, "t": words, "y": Y})
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert fitted(path, "--date", "t")[0] == 0
    told = [str(w.message) for w in heard if "times with zones" in str(w.message)]
    assert len(told) == (zone != "Z")
    assert all("are taken in UTC: 't'; give times of the place without a zone" in text for text in told)


def test_numbers_that_look_like_dates_can_be_insisted_on(tmp_path):
    path = table(tmp_path / "t.csv", {"day": [20240101 + i % 28 for i in range(60)], "y": Y})
    assert "holds dates (20240128)" in fitted(path)[2]
    assert fitted(path, "--use", "day")[0] == 0
    assert columns_of(path)["day"]["kind"] == "number"


@pytest.mark.parametrize("form", ["%Y%m%d%H%M", "%Y%m%d%H%M%S"])
def test_dates_with_the_time_of_the_day_behind_are_no_numbers(tmp_path, form):
    moments = pd.date_range("2024-01-05 10:00", periods=60, freq="31h")
    path = table(tmp_path / "t.csv", {"at": moments.strftime(form), "y": Y})
    assert f"use their parts (year, month, day, weekday, hour) with --date at:{form}" in fitted(path)[2]
    assert fitted(path, "--date", f"at:{form}")[0] == 0
    assert columns_of(path)["at"]["parts"] == ["month", "day", "weekday", "hour"]
    assert fitted(path, "--use", "at", "--overwrite")[0] == 0


def heard(path: Path, *more: str) -> list[str]:
    """What `cbdl fit` remarks about numbers that may be none."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert fitted(path, *more, "--overwrite")[0] == 0
    return [str(w.message) for w in said if "may hold" in str(w.message) or "may stand" in str(w.message)]


@pytest.mark.parametrize(("unit", "size"), [("seconds", 1), ("milliseconds", 10**3), ("nanoseconds", 10**9)])
def test_unix_time_is_remarked_on(tmp_path, unit, size):
    seconds = 1_700_000_000 + 5000 * SOURCE.permutation(60)
    path = table(tmp_path / "t.csv", {"x": X, "at": seconds * size, "y": Y})
    (said,) = heard(path)
    assert said.startswith(f"column 'at' may hold Unix time in {unit} (from 2023-11-")
    assert "--drop at" in said
    assert heard(path, "--use", "at") == []
    assert heard(table(path, {"x": X, "at": np.where(X > 1, 5, seconds) * size, "y": Y})) == [], (
        "not all of them"
    )


@pytest.mark.parametrize(
    ("numbers", "mark", "told"),
    [
        (X, -999, True),
        (X, -9999.0, True),
        (X, 999999, True),
        (1200 * X**2, -999, True),  # the only numbers below 0
        (500 * X, -999, False),
        (1000 * X**2, 999, False),
        (X, -998, False),
        (X, 99, False),  # years of age, and more
    ],
)
def test_marks_for_missing_values_are_remarked_on(tmp_path, numbers, mark, told):
    v = np.where(np.arange(60) % 7 == 3, mark, numbers.round(3))
    path = table(tmp_path / "t.csv", {"x": X, "v": v, "y": Y})
    said = heard(path, "--held-out", "0")
    remedy = "leave such cells empty if they do, or insist on numbers with --use v"
    what = f"{mark:.0f} in 9 rows, unlike all other numbers, may stand for missing values"
    assert said == [f"column 'v': {what}; {remedy}"] * told
    assert heard(path, "--use", "v") == []
    lone = np.where(np.arange(60) == 3, mark, numbers.round(3))
    assert heard(table(path, {"x": X, "v": lone, "y": Y}), "--held-out", "0") == [], "once is no mark"
    outcomes = heard(table(path, {"x": X, "y": v}), "--held-out", "0")
    assert [text.startswith(f"the target 'y': {mark:.0f} in 9 rows") for text in outcomes] == [True] * told


def test_dates_times_and_lengths_of_time_of_parquet_are_understood(tmp_path):
    import datetime as dt

    path = tmp_path / "t.parquet"
    columns = {
        "day": [dt.date(2024, 1, 1) + dt.timedelta(i) for i in range(60)],
        "clock": [dt.time(i % 24, 30) for i in range(60)],
        "wait": [dt.timedelta(seconds=i % 7) for i in range(60)],
        "y": Y,
    }
    parquet.write_table(pa.table(columns), path)
    code, _, err = fitted(path)
    assert code == 1
    assert "--date day" in err
    assert "--date clock" in err
    code, _, err = fitted(path, "--date", "day", "--date", "clock")
    assert code == 0, err
    learned = columns_of(path)
    assert learned["clock"]["parts"] == ["hour"]
    assert learned["clock"]["values"][0] == [0.5]
    assert learned["wait"]["values"][-1] == [6.0]
    # the same days as text: as standards write them, or refused with such a form
    rows = {"day": ["2024-02-03"], "wait": ["2"]}
    spelled = table(tmp_path / "s.csv", {**rows, "clock": ["1970-01-01 08:30"]})
    assert called("predict", tmp_path / "model", spelled)[0] == 0
    spelled = table(tmp_path / "s.csv", {**rows, "clock": ["half past eight"]})
    assert "'half past eight' is not a date like %Y-%m-%d" in " ".join(
        called("predict", tmp_path / "model", spelled)[2].split()
    )


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("n", range(60), "numbers the rows"),
        ("n", range(1, 61), "numbers the rows"),
        ("customer_id", 1_000_000 + 7 * SOURCE.permutation(60), "looks like an identifier by its name"),
        ("name", [f"Person {i}" for i in range(60)], "60 different values in 60 rows"),
    ],
)
def test_identifiers_are_refused_and_can_be_dropped_or_used(tmp_path, name, values, said):
    path = table(tmp_path / "t.csv", {"x": X, name: values, "y": Y})
    code, _, err = fitted(path, "--held-out", "0")
    assert code == 1
    assert said in err
    assert f"--drop {name}" in err
    assert fitted(path, "--drop", name)[0] == 0
    if name != "name":
        assert fitted(path, "--use", name, "--overwrite")[0] == 0


def test_all_columns_that_cannot_be_used_are_named_at_once(tmp_path):
    days = [f"2024-01-{1 + i % 28:02d}" for i in range(60)]
    path = table(
        tmp_path / "t.csv",
        {"id": range(60), "x": X, "name": [f"P {i}" for i in range(60)], "d": days, "y": Y},
    )
    code, _, err = fitted(path, "--held-out", "0")
    assert code == 1
    assert "3 columns cannot be used as they are" in err
    assert [f"--drop {name}" in err for name in ("id", "name", "d", "x")] == [True, True, True, False]


def test_another_delimiter_is_thought_of_in_new_rows_too(tmp_path):
    path = table(tmp_path / "t.csv", {"x": X, "z": X, "y": Y})
    assert fitted(path)[0] == 0
    code, _, err = called(
        "predict", tmp_path / "model", table(tmp_path / "n.csv", {"x": X, "z": X}, delimiter="^")
    )
    assert code == 2
    assert "it has x^z; if values are set apart by another sign, say --delimiter" in " ".join(err.split())


def test_another_delimiter_is_thought_of_where_there_is_one_column(tmp_path):
    path = table(tmp_path / "t.csv", {"x": X, "y": Y}, "#")
    code, _, err = fitted(path)
    assert code == 2
    assert "say --delimiter" in err
    assert fitted(path, "--delimiter", "#")[0] == 0


def test_what_to_type_is_told_as_it_is_typed(tmp_path):
    path = table(tmp_path / "t.csv", {"Unnamed: 0": range(60), "x": X, "y": Y})
    code, _, err = fitted(path)
    assert code == 1
    assert "--drop 'Unnamed: 0', or insist with --use 'Unnamed: 0'" in err


def test_all_columns_that_are_not_there_are_named(tmp_path):
    path = table(tmp_path / "t.csv", {"x": X, "z": X, "w": X, "y": Y})
    assert fitted(path)[0] == 0
    code, _, err = called("predict", tmp_path / "model", table(tmp_path / "new.csv", {"z": X, "q": X}))
    assert code == 2
    assert "no columns 'x', 'w', which the model was trained with; it has z, q" in err


def test_years_and_ordinary_whole_numbers_are_no_identifiers(tmp_path):
    path = table(tmp_path / "t.csv", {"year": range(1960, 2020), "age": SOURCE.integers(1, 90, 60), "y": Y})
    assert fitted(path)[0] == 0


def test_constant_columns_are_left_out_with_a_word(tmp_path):
    path = table(tmp_path / "t.csv", {"x": X, "one": ["1"] * 60, "word": ["w"] * 60, "y": Y})
    with pytest.warns(UserWarning, match=r"2 columns have one value .*left out: 'one', 'word'"):
        code, summary, _ = fitted(path)
    assert (code, summary["features"]) == (0, 1)
    only = table(tmp_path / "new.csv", {"x": X})
    assert called("predict", tmp_path / "model", only)[0] == 0
    path = table(tmp_path / "u.csv", {"one": ["1"] * 60, "y": Y})
    assert "nothing to learn from" in fitted(path, "--overwrite")[2]


@pytest.mark.parametrize("value", ["3.5", "1", "a"])
@pytest.mark.parametrize("task", ["auto", "regression", "classification"])
def test_a_constant_target_is_refused(tmp_path, value, task):
    path = table(tmp_path / "t.csv", {"x": X, "y": [value] * 60})
    code, _, err = fitted(path, "--task", task)
    assert code == 1
    assert "nothing to tell apart" in err or "not a finite number" in err


@pytest.mark.parametrize("rows", [1, 3])
def test_a_table_of_a_row_or_three_is_refused(tmp_path, rows):
    path = table(tmp_path / "t.csv", {"x": X[:rows], "y": ["a", "b", "a"][:rows]})
    code, _, err = fitted(path)
    assert code == 1
    assert f"has {rows} row" in err
    assert "at least 10" in err


def test_labels_of_one_number_are_one_class(tmp_path):
    path = table(tmp_path / "t.csv", {"x": X, "y": np.where(X > 0, ["1", "1.0"] * 30, ["0", "0.0"] * 30)})
    code, summary, _ = fitted(path)
    assert (code, summary["classes"]) == (0, ["0", "1"])


def test_a_zero_has_no_sign(tmp_path):
    path = table(tmp_path / "t.csv", {"x": X, "y": ["-0.0", "0.0", "1.0"] * 20})
    assert fitted(path)[1]["classes"] == ["0", "1.0"]


@pytest.mark.parametrize("share", ["0", "0.2"])
def test_a_model_without_held_out_rows_says_that_nothing_is_known_of_it(tmp_path, share):
    """Asked for, or because every class has one row, which is learned from."""
    path = table(tmp_path / "t.csv", {"x": X[:10], "y": list("abcdefghij")})
    code, out, _ = called(
        "fit", path, "--target", "y", "--out", tmp_path / "m", *FAST, "--held-out", share, "--quiet"
    )
    assert code == 0
    assert "No row was held out" in out


def test_the_target_cannot_be_dropped(tmp_path):
    path = table(tmp_path / "t.csv", {"x": X, "y": Y})
    code, _, err = fitted(path, "--drop", "y")
    assert code == 2
    assert "--drop y: that is the target" in err


@pytest.mark.parametrize("option", ["--use", "--date"])
def test_the_target_is_no_column_to_learn_from(tmp_path, option):
    path = table(tmp_path / "t.csv", {"x": X, "z": X, "y": Y})
    for name in ("y", "y:%Y") if option == "--date" else ("y",):
        code, _, err = fitted(path, option, name)
        assert code == 2
        assert f"{option} y: that is the target, which a model predicts and does not learn from" in err
        assert f"leave {option} out" in err
    code, _, err = fitted(path, option, "x", "--drop", "x")
    assert code == 2
    assert f"{option} x: --drop leaves that column out" in err


def test_all_columns_with_missing_values_are_named_in_one_message(tmp_path):
    gaps = {f"x{i}": [*X[:i], "NA", *X[i + 1 :]] for i in range(3)}
    code, _, err = fitted(table(tmp_path / "t.csv", {**gaps, "z": X, "y": Y}))
    assert code == 1
    assert re.findall(r"column '(\w+)' has 1 missing value \(row (\d)\)", err) == [
        ("x0", "1"),
        ("x1", "2"),
        ("x2", "3"),
    ]
    assert "--impute" in err
    lines = called("fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m")[2].splitlines()
    assert len(lines) == 5, "a line for each, and what to do"


def test_words_that_are_read_as_missing_values_are_told(tmp_path):
    """A class or a category may be called "none"."""
    rule = "Words that are read as missing values: 'none'"
    words = ["none", "some"] * 30
    assert rule in fitted(table(tmp_path / "t.csv", {"x": X, "y": words}))[2]
    assert rule in fitted(table(tmp_path / "t.csv", {"x": X, "c": words, "y": Y}))[2]
    err = fitted(table(tmp_path / "t.csv", {"x": X, "c": ["", "some"] * 30, "y": Y}))[2]
    assert "column 'c' has 30 missing values" in err
    assert "are read as" not in err


@pytest.mark.filterwarnings("ignore:1 column has one value")
def test_words_that_are_filled_in_are_told(tmp_path):
    """Who says --impute may not know that "none", a category of the table, is read as a missing value."""
    colours = ["none", "red", "red", "blue"] * 15
    with pytest.warns(UserWarning, match="column 'c': 'none' in 15 rows") as heard:
        assert fitted(table(tmp_path / "t.csv", {"x": X, "c": colours, "y": Y}), "--impute")[0] == 0
    (said,) = (str(w.message) for w in heard if "'none'" in str(w.message))
    assert said == (
        "column 'c': 'none' in 15 rows is read as a missing value and filled in with 'red' (--impute); if a category "
        "is meant, give it another name in the table"
    )
    path = table(tmp_path / "u.csv", {"x": X, "c": ["None", "?", "yes"] * 20, "y": Y})
    with pytest.warns(UserWarning, match=r"column 'c': '\?', 'None' in 40 rows are read as missing values"):
        assert fitted(path, "--impute", "--overwrite")[0] == 0
    # a number cannot be meant by a word, nor anything by an empty cell
    path = table(tmp_path / "v.csv", {"x": [*X[:-1], "NA"], "c": ["", "a", "b"] * 20, "y": Y})
    code, _, err = fitted(path, "--impute", "--overwrite")
    assert code == 0
    assert "missing value" not in err


def test_columns_without_any_value_are_named_with_what_to_type(tmp_path):
    path = table(tmp_path / "t.csv", {"u": [""] * 60, "v": ["NA"] * 60, "x": X, "y": Y})
    code, _, err = fitted(path)
    assert code == 1
    assert "columns 'u', 'v' have no value at all; leave them out with --drop u --drop v" in err
    assert fitted(path, "--drop", "u", "--drop", "v")[0] == 0


# --- files as people save them --------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_marked_encodings_are_read(tmp_path, encoding):
    path = table(tmp_path / "t.csv", {"größe": X, "c": ["ä", "ö"] * 30, "y": Y}, encoding=encoding)
    code, _, err = fitted(path)
    assert code == 0, err
    assert set(columns_of(path)) == {"größe", "c"}
    assert columns_of(path)["c"]["levels"] == ["ä", "ö"]
    assert called("predict", tmp_path / "model", path)[0] == 0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_the_mark_of_an_encoding_that_is_named_too_is_no_part_of_a_name(tmp_path, encoding):
    path = tmp_path / "t.csv"
    table(path, {'\ufeff"x"': X, "y": Y}, encoding=encoding)
    path.write_bytes(
        path.read_bytes().replace('"\ufeff""x"""'.encode(encoding), '\ufeff"x"'.encode(encoding))
    )
    assert fitted(path, "--encoding", encoding)[0] == 0
    assert set(columns_of(path)) == {"x"}


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16-le"])
def test_other_encodings_are_refused_with_the_option_that_reads_them(tmp_path, encoding):
    path = table(tmp_path / "t.csv", {"x": X, "c": ["ä", "ö"] * 30, "y": Y}, encoding=encoding)
    code, _, err = fitted(path)
    assert code == 1
    assert f"--encoding {encoding}" in err
    assert fitted(path, "--encoding", encoding)[0] == 0
    assert called("predict", tmp_path / "model", path)[0] == 1
    assert called("predict", tmp_path / "model", path, "--encoding", encoding)[0] == 0
    assert called("evaluate", tmp_path / "model", path, "--encoding", encoding)[0] == 0
    code, _, err = called("predict", tmp_path / "model", path, "--encoding", "klingon")
    assert code == 2
    assert "--encoding is 'klingon'" in err


@pytest.mark.parametrize(
    ("delimiter", "option"), [("|", None), ("\t", None), (":", ":"), (" ", " "), ("\t", "tab")]
)
def test_other_delimiters(tmp_path, delimiter, option):
    path = table(tmp_path / "t.csv", {"x": X, "z": X, "y": Y}, delimiter)
    more = [] if option is None else ["--delimiter", option]
    code, summary, err = fitted(path, *more)
    assert (code, summary.get("features")) == (0, 2), err
    assert called("predict", tmp_path / "model", path, *more)[0] == 0
    for sign in ("::", "\u00fc"):
        code, _, err = fitted(path, "--delimiter", sign, "--overwrite")
        assert code == 2
        assert f"--delimiter is {sign!r}" in err


# --- a fit that cannot end well -------------------------------------------------------------------------------


def test_held_out_rows_are_stratified(tmp_path):
    """A class of 5 in 100 rows: one of them is held out, whatever the seed."""
    from cbdl.tables.target import held_out

    labels = np.array([0] * 55 + [1] * 39 + [2] * 5 + [3])
    for seed in range(20):
        train, test = held_out(len(labels), labels, 0.2, seed)
        assert sorted([*train, *test]) == list(range(100))
        kept = np.bincount(labels[test], minlength=4)
        assert (np.abs(kept - [11, 7.8, 1, 0]) <= 1).all()
        assert kept[3] == 0
        assert set(labels[train]) == {0, 1, 2, 3}
    path = table(tmp_path / "t.csv", {"x": SOURCE.normal(size=100), "y": labels})
    assert fitted(path)[0] == 0


def test_a_class_of_few_rows_is_never_held_out_as_a_whole():
    from cbdl.tables.target import held_out

    labels = SOURCE.integers(0, 7, 40)
    for share in (0.0, 0.1, 0.5, 0.9):
        train, test = held_out(40, labels, share, 0)
        assert set(labels[train]) == set(labels)
        assert abs(len(test) - 40 * share) <= 7


def test_numbers_too_large_for_the_model_are_named_with_their_column(tmp_path):
    path = table(tmp_path / "t.csv", {"z": X, "x": [*X[:-1], 1e300], "y": Y})
    for share, said in (("0", "column 'x' holds 1e+300"), ("0.2", "column 'x', row 60: 1e+300 is too large")):
        code, _, err = fitted(path, "--held-out", share)
        assert code == 1
        assert said in err
    assert fitted(table(tmp_path / "u.csv", {"z": X, "x": X, "y": Y}))[0] == 0
    code, out, err = called("predict", tmp_path / "model", path)
    assert (code, out) == (1, "")
    assert "column 'x', row 60: 1e+300 is too large" in err


def test_what_a_saved_model_could_not_be_asked_about_is_refused_at_once(tmp_path):
    """It is asked in single precision: a column that it was trained with must fit into that."""
    path = table(tmp_path / "t.csv", {"z": X, "x": [*X[:-1], 1e39], "y": Y})
    for row in (-1, 0):  # one that is trained on, and one that is held out
        path = table(tmp_path / "t.csv", {"z": X, "x": np.roll([*X[:-1], 1e39], row), "y": Y})
        code, _, err = fitted(path)
        assert code == 1
        assert "column 'x'" in err
        assert "too large a number" in err
    path = table(tmp_path / "t.csv", {"z": X, "x": 1e37 * X, "y": Y})
    assert fitted(path)[0] == 0
    assert called("predict", tmp_path / "model", path)[0] == 0


def test_numbers_that_vary_too_little_to_compute_with_are_named(tmp_path):
    """Their squares are 0: a model of them would answer in units of 1."""
    path = table(tmp_path / "t.csv", {"x": 1e-200 * X, "z": X, "y": Y})
    code, _, err = fitted(path)
    assert code == 1
    assert "column 'x' varies by" in err
    assert "too little to compute with; give it in a smaller unit, or leave it out with --drop x" in err
    code, _, err = fitted(table(tmp_path / "t.csv", {"x": X, "y": 1e-200 * X}))
    assert code == 1
    assert "the target 'y' varies by" in err


def test_a_target_in_tiny_units_is_answered_in_them(tmp_path):
    path = table(tmp_path / "t.csv", {"x": X, "y": 1.6e-19 * X})
    assert fitted(path)[0] == 0
    code, out, _ = called("predict", tmp_path / "model", path)
    assert code == 0
    for row in csv.DictReader(io.StringIO(out)):
        lower, middle, upper = (float(row[name]) for name in ("lower", "decision", "upper"))
        assert lower < middle < upper
        assert 1e-22 < upper - lower < 1e-17


@pytest.mark.filterwarnings("default:the target 'y' has classes")
def test_classes_that_may_be_one_are_told(tmp_path):
    labels = [c.upper() if i % 3 else c for i, c in enumerate(Y)]
    with pytest.warns(
        UserWarning, match="capital letters or spaces only: 'NO', 'no', 'YES', 'yes'; write them alike"
    ):
        assert fitted(table(tmp_path / "t.csv", {"x": X, "y": labels}))[0] == 0


def test_a_large_target_is_named(tmp_path):
    code, _, err = fitted(table(tmp_path / "t.csv", {"x": X, "y": [*X[:-1], 1e300]}))
    assert code == 1
    assert "the target 'y' holds 1e+300" in err


def test_an_outcome_too_large_to_be_scored_is_named(tmp_path):
    assert fitted(table(tmp_path / "t.csv", {"x": X, "y": X}))[0] == 0
    path = table(tmp_path / "u.csv", {"x": X, "y": [*X[:-1], -1e200]})
    code, out, err = called("evaluate", tmp_path / "model", path)
    assert (code, out) == (1, "")
    assert "the target 'y' in row 60 is -1e+200, too large a number to compute with" in err


@pytest.mark.parametrize("outcomes", [Y, X.round(2)], ids=["classes", "numbers"])
def test_an_outcome_that_is_missing_is_told_as_missing(tmp_path, outcomes):
    path = table(tmp_path / "t.csv", {"x": X, "y": outcomes})
    assert fitted(path)[0] == 0
    some = table(tmp_path / "new.csv", {"x": X, "y": ["NA" if i == 3 else y for i, y in enumerate(outcomes)]})
    for command, more in (("evaluate", []), ("report", ["--out", tmp_path / "r.html"])):
        code, _, err = called(command, tmp_path / "model", some, *more)
        assert code == 1
        assert "the target 'y' is missing in row 4; remove such rows" in err


def test_a_fit_that_diverged_says_so_and_does_not_block_the_next(tmp_path):
    path = table(tmp_path / "t.csv", {"x": X, "y": Y})
    with pytest.warns(UserWarning, match="was stopped at step 0"):
        code, told, err = fitted(path, "--prior", "normal:1e200:1")
    assert code == 0, "one of two members is well"
    assert len(told["failed"]) == 1
    assert not told["converged"]
    alone = [a for a in FAST if a not in ("--prior", "normal:0:1")]
    arguments = ["fit", path, "--target", "y", "--out", tmp_path / "m"]
    code, out, err = called(*arguments, "--prior", "normal:1e200:1", *alone)
    assert (code, out) == (1, "")
    assert err.startswith("Error: the training diverged")
    assert not list(tmp_path.glob("m*.run"))
    assert called(*arguments, *FAST)[0] == 0


def test_a_member_that_failed_is_told_once_whatever_its_chains_and_folds(tmp_path):
    path = table(tmp_path / "t.csv", {"x": X, "y": X})
    priors = ["--prior", "normal:0:1", "--prior", "normal:1e300:1"]
    with pytest.warns(UserWarning, match="was stopped at step 0") as heard:
        code = called("fit", path, "--target", "y", "--out", tmp_path / "m", "--steps", "60", *priors)[0]
    assert code == 0
    stopped = [str(w.message).partition(":")[0] for w in heard if "was stopped" in str(w.message)]
    assert stopped == [
        f"member (prior 1, likelihood {s}) was stopped at step 0 (epoch 0, batch 0)" for s in range(2)
    ]


def test_a_member_that_failed_is_not_called_refuted(tmp_path):
    path = table(tmp_path / "t.csv", {"x": X, "y": Y})
    command = ["fit", path, "--target", "y", "--net", "mlp:4", "--steps", "60"]
    priors = ["--prior", "normal:0:1", "--prior", "normal:1e300:1"]
    with pytest.warns(UserWarning, match="a prior that is far too wide or far off"):
        code, out, err = called(*command, *priors, "--out", tmp_path / "m")
    assert code == 0
    assert "(1 left out, their training failed: prior 1, likelihood 0)" in " ".join(out.split())
    assert "refuted" not in out
    assert err.splitlines()[3].endswith("failed")
    with pytest.warns(UserWarning, match="was stopped"):
        _, out, _ = called(*command, *priors, "--out", tmp_path / "n", "--json", "--quiet")
    summary = json.loads(out)
    assert summary["failed"] == summary["dropped"] == ["prior 1, likelihood 0"]


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view(), pa.large_string()], ids=str)
def test_words_of_polars_are_read_from_parquet(tmp_path, kind):
    columns = {"x": pa.array(X), "c": pa.array(["red", "blue"] * 30).cast(kind), "y": pa.array(Y.tolist())}
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    assert parquet.read_schema(tmp_path / "t.parquet").field("c").type == kind
    assert fitted(tmp_path / "t.parquet")[0] == 0
    assert columns_of(tmp_path / "t.parquet")["c"]["levels"] == ["blue", "red"]
    assert called("predict", tmp_path / "model", tmp_path / "t.parquet", "--keep", "c")[0] == 0


def test_classes_that_are_lengths_of_time_are_seconds(tmp_path):
    waits = pa.array([i % 3 * 1_000_000 for i in range(60)], pa.duration("us"))
    parquet.write_table(pa.table({"x": X, "y": waits}), tmp_path / "t.parquet")
    assert fitted(tmp_path / "t.parquet")[1]["classes"] == ["0", "1", "2"]


def test_numbers_of_rows_that_pandas_kept_are_not_learned_from(tmp_path):
    """A frame whose rows were shuffled or picked has them in its Parquet file, under a name of pandas' own."""
    data = pd.DataFrame({"x": X, "y": Y}).sample(frac=1, random_state=0)
    data.to_parquet(tmp_path / "t.parquet")
    code, summary, err = fitted(tmp_path / "t.parquet")
    assert (code, summary["features"]) == (0, 1), err
    assert cbdl.load(tmp_path / "model").predict(data).batch_shape == (60,)
    assert called("predict", tmp_path / "model", tmp_path / "t.parquet")[0] == 0


def test_types_of_parquet_that_cannot_be_read_are_told(tmp_path):
    frame = polars.DataFrame({"x": X, "y": Y}).with_columns(polars.lit(1).cast(polars.Int128).alias("z"))
    frame.write_parquet(tmp_path / "t.parquet")
    code, _, err = fitted(tmp_path / "t.parquet")
    assert code == 1
    assert "columns that cannot be read" in err


def test_truth_is_read_as_other_programs_write_it(tmp_path):
    """True of pandas is true of polars and TRUE of R."""
    truth = X > 0.3
    parquet.write_table(pa.table({"x": X, "b": truth, "y": truth ^ (X < -1)}), tmp_path / "t.parquet")
    assert fitted(tmp_path / "t.parquet")[0] == 0
    answers = []
    for spelled in (("False", "True"), ("false", "true"), ("FALSE", "TRUE")):
        words = np.array(spelled)
        path = table(
            tmp_path / "new.csv", {"x": X, "b": words[truth * 1], "y": words[(truth ^ (X < -1)) * 1]}
        )
        answers.append(called("predict", tmp_path / "model", path))
        assert "never seen" not in answers[-1][2]
        assert called("evaluate", tmp_path / "model", path)[0] == 0
    assert answers[0] == answers[1] == answers[2]


def test_bytes_are_the_words_that_they_spell(tmp_path):
    """Many programs keep words in Parquet as bytes; others see the same table in CSV."""
    colours = ["red", "blue"] * 30
    columns = {"x": X, "c": [c.encode() for c in colours], "y": [y.encode() for y in Y]}
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table(columns), path)
    assert fitted(path)[0] == 0
    assert columns_of(path)["c"]["levels"] == ["blue", "red"]
    same = table(tmp_path / "same.csv", {"x": X, "c": colours})
    answers = [called("predict", tmp_path / "model", p)[1] for p in (path, same)]
    assert answers[0] == answers[1]
    parquet.write_table(pa.table({**columns, "c": [b"\xff\x00"] * 60}), path)
    code, _, err = fitted(path, "--overwrite")
    assert code == 1
    assert "column 'c', row 1: bytes that are no text (UTF-8)" in err
    assert "--drop c" in err


@pytest.mark.parametrize("place", ["/proc/nix/model", "t.csv/model"])
def test_a_place_that_cannot_be_written_is_told_before_training(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "t.csv", {"x": X, "y": Y})
    monkeypatch.setattr("cbdl.model.CBDL.fit", None)
    code, out, err = called("fit", "t.csv", "--target", "y", "--out", place, *FAST)
    assert (code, out) == (2, "")
    assert f"--out is {place}" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("several", [False, True])
def test_a_place_that_cannot_be_written_is_told_before_answering(tmp_path, monkeypatch, several):
    path = table(tmp_path / "t.csv", {"x": X, "y": Y})
    assert fitted(path)[0] == 0
    monkeypatch.setattr("cbdl.tables.answers.Trained.load", None)
    place = Path("/proc") / ("answers" if several else "answers.csv")
    code, out, err = called("predict", tmp_path / "model", *[path] * (1 + several), "--out", place)
    assert (code, out) == (2, "")
    assert f"--out is {place}, where nothing can be written" in " ".join(err.split())


def test_a_place_that_cannot_be_written_is_told_before_a_report(tmp_path, monkeypatch):
    path = table(tmp_path / "t.csv", {"x": X, "y": Y})
    assert fitted(path)[0] == 0
    monkeypatch.setattr("cbdl.report.tabular.report", None)
    monkeypatch.setattr("cbdl.studies.study.Context", None)
    for place, command in (
        ("/proc/r.html", ("report", tmp_path / "model", path)),
        (path / "a" / "r.html", ("report", tmp_path / "model", path)),
        ("/proc/demo", ("demo",)),
        ("/proc/demo/deep", ("study", "demo", "--profile", "smoke")),
    ):
        code, out, err = called(*command, "--out", place)
        assert (code, out) == (2, "")
        assert f"--out is {place}, where nothing can be written" in " ".join(err.split())


def test_a_report_is_called_what_it_is(tmp_path):
    for name in ("r.pdf", "r"):
        code, out, err = called("report", tmp_path / "model", tmp_path / "t.csv", "--out", tmp_path / name)
        assert (code, out) == (2, "")
        assert "the report is HTML; let its name end in .html" in err


def test_a_folder_without_permission_is_told_before_training(tmp_path, monkeypatch):
    path = table(tmp_path / "t.csv", {"x": X, "y": Y})
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.access(closed, os.W_OK):  # root may write there, but no one may make a folder in the kernel's /sys
        closed = Path("/sys")
    monkeypatch.setattr("cbdl.model.CBDL.fit", None)
    code, _, err = called("fit", path, "--target", "y", "--out", closed / "model", *FAST)
    assert code == 2
    assert "can be written" in err
