"""Tables: what is read is what was written, in bounded pieces; what cannot be used is named."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbdl import files, tables
from cbdl.tables import Column, TableError, UsageError


def written(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def test_chunks_have_at_most_the_rows_asked_for_and_add_up_to_the_table(tmp_path):
    path = written(tmp_path / "t.csv", "a,b\n" + "".join(f"{i},x{i}\n" for i in range(10)))
    parts = list(tables.chunks(path, rows=4))
    assert [len(part["a"]) for part in parts] == [4, 4, 2]
    assert tables.read(path) == {"a": [str(i) for i in range(10)], "b": [f"x{i}" for i in range(10)]}


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_delimiter_is_the_one_of_the_header(tmp_path, delimiter):
    path = written(tmp_path / "t.csv", "\ufeff" + f'a{delimiter}"b c"\r\n1{delimiter}"x{delimiter}y"\r\n\r\n')
    assert tables.read(path) == {"a": ["1"], "b c": [f"x{delimiter}y"]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("a,b\n", "no rows"),
        ("a,a\n1,2\n", "two columns are named 'a'"),
        ("a,\n1,2\n", "column 2 has no name"),
        ("a,b\n1,2\n3\n", "line 3: 1 value for 2 columns"),
        ("a,b\n1,2\n3,4,5\n", "line 3: 3 values for 2 columns"),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_the_place(tmp_path, text, said):
    with pytest.raises(TableError, match=said):
        tables.read(written(tmp_path / "t.csv", text))


def test_other_encodings_and_files_that_are_not_there(tmp_path):
    with pytest.raises(TableError, match="UTF-8"):
        tables.read(written(tmp_path / "t.csv", "a\nMünchen\n", "latin-1"))
    with pytest.raises(UsageError, match="does not exist"):
        tables.read(tmp_path / "none.csv")
    with pytest.raises(UsageError, match="is not a file"):
        tables.read(tmp_path)
    with pytest.raises(TableError, match="not a Parquet file"):
        tables.read(written(tmp_path / "t.parquet", "a,b\n1,2\n"))


def test_parquet_and_csv_say_the_same(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"x": [1.5, None, 1e-300], "n": [1, 2, 3], "c": ["a", None, "b"]})
    parquet.write_table(table, tmp_path / "t.parquet")
    assert tables.read(tmp_path / "t.parquet") == {
        "x": ["1.5", "", "1e-300"],
        "n": ["1", "2", "3"],
        "c": ["a", "", "b"],
    }
    assert [len(part["x"]) for part in tables.chunks(tmp_path / "t.parquet", rows=2)] == [2, 1]


def test_numbers_stay_and_a_category_is_one_column_a_level():
    table = {"x": ["1", "-2.5", "3e2"], "c": ["red", "blue", "red"]}
    columns = tables.learn_columns(table, ["x", "c"], impute=False)
    assert columns == (Column("x", "number"), Column("c", "category", ("blue", "red")))
    np.testing.assert_array_equal(tables.encode(columns, table), [[1, 0, 1], [-2.5, 1, 0], [300, 0, 1]])
    assert tables.from_json(json.loads(json.dumps(tables.to_json(columns)))) == columns


def test_a_missing_value_is_an_error_or_the_median_or_the_most_frequent():
    table = {"x": ["1", "NA", "4", "10"], "c": ["b", "a", "?", "b"]}
    with pytest.raises(TableError, match=r"'x' has 1 missing value \(row 2\)"):
        tables.learn_columns(table, ["x", "c"], impute=False)
    columns = tables.learn_columns(table, ["x", "c"], impute=True)
    np.testing.assert_array_equal(tables.encode(columns, table)[:, 0], [1, 4, 4, 10])
    np.testing.assert_array_equal(tables.encode(columns, table)[2, 1:], [0, 1])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["", "NA"], "no value at all"),
        (["1", "2", "3o"], "row 3: '3o' is not a finite number"),
        (["1", "2", "inf"], "row 3: 'inf' is not a finite number"),
        ([f"name {i}" for i in range(200)], "200 different values"),
    ],
)
def test_a_column_that_means_nothing_is_named(values, said):
    with pytest.raises(TableError, match=said):
        tables.learn_columns({"x": values}, ["x"], impute=True)


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ({"x": ["1", "two"], "c": ["a", "a"]}, "column 'x', row 12: 'two' is not a finite number"),
        ({"x": ["1", ""], "c": ["a", "a"]}, "column 'x', row 12: the value is missing"),
        ({"x": ["1", "2"], "c": ["a", "z"]}, "column 'c', row 12: 'z' was not seen in training"),
        ({"x": ["1", "2"]}, "no column 'c'"),
    ],
)
def test_new_rows_that_the_model_cannot_read_are_named(new, said):
    columns = tables.learn_columns({"x": ["1", "2"], "c": ["a", "b"]}, ["x", "c"], impute=False)
    with pytest.raises(TableError, match=said):
        tables.encode(columns, new, first_row=11)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_numbers_keep_every_digit(values):
    table = {"x": [repr(v) for v in values]}
    columns = tables.learn_columns(table, ["x"], impute=False)
    np.testing.assert_array_equal(tables.encode(columns, table)[:, 0], values)


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = written(tmp_path / "out.csv", "old")
    with contextlib.suppress(RuntimeError), files.whole(path) as file:
        file.write("half")
        raise RuntimeError
    assert path.read_text() == "old"
    with files.whole(path) as file:
        file.write("new")
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]


def test_rows_are_written_as_csv_or_as_json_lines():
    rows = [{"d": 'a,"b', "set": ["a", "b"], "ends": [[1.0, 2.0], [3.0, 4.0]], "abstain": True}]
    file = io.StringIO()
    assert tables.write_rows(rows, file, "csv") == 1
    header, row = csv.reader(io.StringIO(file.getvalue()))
    assert (header, row) == (list(rows[0]), ['a,"b', "a|b", "1.0:2.0|3.0:4.0", "true"])
    file = io.StringIO()
    tables.write_rows(rows, file, "jsonl")
    assert json.loads(file.getvalue()) == rows[0]
