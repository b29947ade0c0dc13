"""Tables: what is read is what was written, in bounded pieces; what cannot be used is named."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbdl import tables
from cbdl.ground import files
from cbdl.tables import Column, Dialect, TableError, UsageError, writing
from cbdl.tables.answers import Answers
from cbdl.tables.columns import Wishes, learn
from cbdl.tables.encoding import filled


def written(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def listed(path: Path, **dialect: str) -> dict[str, list[str]]:
    """A whole table, as text."""
    return {name: column.to_pylist() for name, column in tables.read(path, Dialect(**dialect)).items()}


def learned(table: dict[str, list[str]], names: list[str], impute: bool = False) -> tuple[Column, ...]:
    """What the columns mean, if all rows are trained on."""
    chunk = tables.from_frame(table)
    rows = np.arange(len(chunk[names[0]]))
    return learn(chunk, names, rows, Wishes(impute=impute)).columns


def test_chunks_have_at_most_the_rows_asked_for_and_add_up_to_the_table(tmp_path):
    path = written(tmp_path / "t.csv", "a,b\n" + "".join(f"{i},x{i}\n" for i in range(10)))
    parts = list(tables.chunks(path, rows=4))
    assert [len(part["a"]) for part in parts] == [4, 4, 2]
    assert listed(path) == {"a": [str(i) for i in range(10)], "b": [f"x{i}" for i in range(10)]}


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_delimiter_is_the_one_of_the_header(tmp_path, delimiter):
    path = written(tmp_path / "t.csv", "\ufeff" + f'a{delimiter}"b c"\r\n1{delimiter}"x{delimiter}y"\r\n\r\n')
    assert listed(path) == {"a": ["1"], "b c": [f"x{delimiter}y"]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("a,b\n", "no rows"),
        ("a,a\n1,2\n", "two columns are named 'a'"),
        (
            "a,\n1,2\n",
            "column 2 has no name; give it one in the first line, or end lines without a delimiter",
        ),
        (
            ",a\n0,1\n",
            "column 1 has no name; give it one in the first line, or write the table without row numbers",
        ),
        ("a,,b\n0,1,2\n", "column 2 has no name; give it one in the first line$"),
        ("a,b\n1,2\n3\n", "line 3: 1 value for 2 columns"),
        ("a,b\n1,2\n3,4,5\n", "line 3: 3 values for 2 columns"),
        ('a,b\n1,2\n3,"4\n5,6\n', "line 3: a quote is opened and never closed"),
        ('a,b\n1,2\n"3,4\n5,6\n', "line 3: a quote is opened and never closed"),
        ('a,b\n1,"2"\n3\n', "line 3: 1 value for 2 columns"),
        ("My table\na,b\n1,2\n", "line 2: 2 values for 1 column .*; the first line must name the columns"),
        ("sep=;\na;b\n1;2\n", "the first line, 'sep=;', is a hint to spreadsheets; remove it"),
        ('"sep=,"\r\na,b\r\n1,2\r\n', "is a hint to spreadsheets"),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_the_place(tmp_path, text, said):
    with pytest.raises(TableError, match=said):
        tables.read(written(tmp_path / "t.csv", text))


def test_a_value_may_be_long(tmp_path):
    long = "x" * 200_000
    for delimiter in ",;":
        rows = [f"a{delimiter}b", *(f"{i}{delimiter}{long}" for i in range(3))]
        assert listed(written(tmp_path / "t.csv", "\n".join(rows)))["b"] == [long] * 3


def test_a_row_that_is_too_long_is_named(tmp_path):
    path = written(tmp_path / "t.csv", "a,b\n1,x\n" + ("2," + "x" * 2_000_000 + "\n") * 3)
    with pytest.raises(TableError, match=r"line 3: a value has more than 131,072 signs; .* longer than 1 MB"):
        tables.read(path)


def test_what_is_no_csv_is_told_by_its_first_bytes(tmp_path):
    table = pa.table({"a": [1, 2]})
    parquet.write_table(table, tmp_path / "parquet.csv")
    with zipfile.ZipFile(tmp_path / "sheet.xlsx", "w") as book:
        book.writestr("sheet.xml", "<a/>" * 500)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    (tmp_path / "a.json").write_text('[{"a": 1}, {"a": 2}]')
    for name, said in (
        ("parquet.csv", "is Parquet; let its name end in .parquet"),
        ("sheet.xlsx", "is a spreadsheet or an archive; save the table as CSV"),
        ("a.csv.gz", "is compressed by gzip; unpack it"),
        ("a.json", "is JSON; save the table as CSV"),
    ):
        with pytest.raises(TableError, match=f"{name} {said}"):
            tables.read(tmp_path / name)


@pytest.mark.parametrize("rows", [50_000, 500_000], ids=["in a block", "in several"])
def test_a_quote_that_takes_a_whole_file_is_named_where_it_is_opened(tmp_path, rows):
    with pytest.raises(TableError, match="line 2: a quote is opened and never closed"):
        tables.read(written(tmp_path / "t.csv", 'a,b\n1,"2\n' + "3,4\n" * rows))


def test_a_quote_within_a_value_is_none(tmp_path):
    path = written(tmp_path / "t.csv", 'a,b\n1,5" pipe\n2,"x\ny"\n')
    assert listed(path) == {"a": ["1", "2"], "b": ['5" pipe', "x\ny"]}


def test_other_encodings_and_files_that_are_not_there(tmp_path):
    with pytest.raises(TableError, match="UTF-8"):
        tables.read(written(tmp_path / "t.csv", "a\nMünchen\n", "latin-1"))
    with pytest.raises(UsageError, match="does not exist"):
        tables.read(tmp_path / "none.csv")
    with pytest.raises(UsageError, match="is not a file"):
        tables.read(tmp_path)
    with pytest.raises(TableError, match="not a Parquet file"):
        tables.read(written(tmp_path / "t.parquet", "a,b\n1,2\n"))


@pytest.mark.parametrize("wide", ["utf-16", "utf-32"])
def test_wide_signs_are_told_by_their_mark_or_asked_for(tmp_path, wide):
    text = "a,b\n1,ü\n"
    for encoding, mark in ((wide, ""), (f"{wide}-le", "\ufeff"), (f"{wide}-be", "\ufeff")):
        (tmp_path / "t.csv").write_bytes((mark + text).encode(encoding))
        assert listed(tmp_path / "t.csv") == {"a": ["1"], "b": ["ü"]}
    for encoding in (f"{wide}-le", f"{wide}-be"):
        (tmp_path / "t.csv").write_bytes(text.encode(encoding))
        with pytest.raises(TableError, match=f"null bytes.* say --encoding {wide}-le or {wide}-be"):
            tables.read(tmp_path / "t.csv")
        assert listed(tmp_path / "t.csv", encoding=encoding) == {"a": ["1"], "b": ["ü"]}


def test_parquet_and_csv_say_the_same(tmp_path):
    table = pa.table(
        {"x": [1.5, None, 1e-300], "n": [1, 2, 3], "c": ["a", None, "b"], "b": [True, False, None]}
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    written(tmp_path / "t.csv", "x,n,c,b\n1.5,1,a,True\n,2,,False\n1e-300,3,b,\n")
    columns = (
        Column("x", "number"),
        Column("n", "number"),
        Column("c", "category", ("a", "b")),
        Column("b", "category", ("False", "True")),
    )
    rows = [tables.encode_rows(columns, tables.read(tmp_path / f"t.{kind}")) for kind in ("csv", "parquet")]
    np.testing.assert_array_equal(rows[0].X, rows[1].X)
    np.testing.assert_array_equal(rows[0].missing, rows[1].missing)
    assert [len(part["x"]) for part in tables.chunks(tmp_path / "t.parquet", rows=2)] == [2, 1]


def test_only_the_columns_that_are_asked_for_are_read(tmp_path):
    path = written(tmp_path / "t.csv", "a,b,c\n1,2,3\n")
    (part,) = tables.chunks(path, only=["c", "a", "nix"])
    assert {name: column.to_pylist() for name, column in part.items()} == {"a": ["1"], "c": ["3"]}


def test_numbers_stay_and_a_category_is_one_column_a_level():
    table = {"x": ["1", "-2.5", "3e2"], "c": ["red", "blue", "red"]}
    columns = learned(table, ["x", "c"])
    assert [(c.name, c.kind, c.levels) for c in columns] == [
        ("x", "number", ()),
        ("c", "category", ("blue", "red")),
    ]
    rows = tables.encode_rows(columns, tables.from_frame(table))
    np.testing.assert_array_equal(rows.X, [[1, 0, 1], [-2.5, 1, 0], [300, 0, 1]])
    assert tables.from_json(json.loads(json.dumps(tables.to_json(columns)))) == columns


def test_columns_of_models_that_were_saved_before_are_read():
    old = [{"name": "x", "kind": "number", "levels": [], "fill": None}]
    assert tables.from_json(old) == (Column("x", "number"),)


def test_a_missing_value_is_an_error_or_the_median_or_the_most_frequent():
    table = {"x": ["1", "NA", "4", "10"], "c": ["b", "a", "?", "b"]}
    with pytest.raises(TableError, match=r"'x' has 1 missing value \(row 2\)\ncolumn 'c' has 1"):
        learned(table, ["x", "c"])
    columns = learned(table, ["x", "c"], impute=True)
    rows = filled(columns, tables.encode_rows(columns, tables.from_frame(table)))
    np.testing.assert_array_equal(rows.X[:, 0], [1, 4, 4, 10])
    np.testing.assert_array_equal(rows.X[2, 1:], [0, 1])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["", "NA"], "no value at all"),
        (["1", "2", "3o"], "row 3: '3o' is not a finite number"),
        (["1", "2", "inf"], "row 3: 'inf' is not a finite number"),
        (["1", "2", "1_000"], "row 3: '1_000' is not a finite number"),
        ([f"name {i}" for i in range(200)], "200 different values"),
        ([f"name {i}" for i in range(15)], "15 different values in 15 rows"),
    ],
)
def test_a_column_that_means_nothing_is_named(values, said):
    with pytest.raises(TableError, match=said):
        learned({"x": values}, ["x"], impute=True)


def test_new_rows_that_the_model_cannot_read_are_named():
    columns = learned({"x": ["1", "2"], "c": ["a", "b"]}, ["x", "c"])
    for new, said in (
        ({"x": ["1", "two"], "c": ["a", "a"]}, "column 'x', row 12: 'two' is not a finite number"),
        ({"x": ["1", "2"]}, "no column 'c'"),
    ):
        with pytest.raises(TableError, match=said):
            tables.encode_rows(columns, tables.from_frame(new), first_row=11)


def test_what_is_missing_and_what_was_never_seen_is_told_apart():
    columns = learned({"x": ["1", "2"], "c": ["a", "b"]}, ["x", "c"])
    rows = tables.encode_rows(columns, tables.from_frame({"x": ["", "2", "1"], "c": ["a", "z", "n/a"]}))
    assert rows.missing.tolist() == [[True, False], [False, False], [False, True]]
    assert rows.unknown.tolist() == [[False, False], [False, True], [False, False]]
    np.testing.assert_array_equal(np.isnan(rows.X), [[1, 0, 0], [0, 1, 1], [0, 1, 1]])


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_numbers_keep_every_digit(values):
    table = tables.from_frame({"x": [repr(v) for v in values]})
    np.testing.assert_array_equal(tables.encode_rows([Column("x", "number")], table).X[:, 0], values)


@given(
    st.lists(st.one_of(st.text(alphabet=" ab,;|\"\n\t\r'", max_size=5), st.integers().map(str)), min_size=2)
)
def test_a_table_reads_as_the_csv_module_reads_it(tmp_path_factory, values):
    """Whatever is quoted, whatever ends lines."""
    path = tmp_path_factory.mktemp("t") / "t.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerows([["a", "b"], *([v, "x"] for v in values)])
    with open(path, newline="") as file:
        rows = list(csv.reader(file))[1:]
    assert listed(path) == {"a": [row[0] for row in rows], "b": ["x"] * len(values)}


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


ROWS = {
    "d": pa.array(['a,"b', None]),
    "set": pa.array([["a|b", "c"], []]),
    "ends": pa.array([[[1.0, 2.0], [3.5, 4.0]], []], pa.list_(pa.list_(pa.float64(), 2))),
    "x": pa.array([0.5, None]),
    "abstain": pa.array([True, False]),
}


def text(kind: str) -> str:
    file = io.StringIO()
    writing.write_text([Answers(ROWS, 0, 0, 0, 0)], file, kind)
    return file.getvalue()


def test_answers_as_csv_keep_names_whatever_signs_are_in_them():
    header, row, empty = csv.reader(io.StringIO(text("csv")))
    assert header == list(ROWS)
    assert row == ['a,"b', r"a\|b|c", "1:2|3.5:4", "0.5", "true"]
    assert empty == ["", "", "", "", "false"]
    assert tables.split_set(row[1]) == ["a|b", "c"]


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_text_of_every_type_survives_csv(kind):
    own = ["a,b", 'c "d"', None, "e\nf"]
    lines = writing.csv_lines({"kept": pa.array(own).cast(kind), "row": pa.array(range(4))})
    read = list(csv.reader(io.StringIO(lines, newline="")))
    assert [row[0] for row in read] == ["a,b", 'c "d"', "", "e\nf"]


KEPT = {
    "bytes": pa.array([b'a,"b', b"\xff\x00", None]),
    "large": pa.array([b"a", b"b", b"c"], pa.large_binary()),
    "fixed": pa.array([b"ab", b"cd", None], pa.binary(2)),
    "view": pa.array([b"a", b"b", b"c"], pa.binary_view()),
    "places": pa.array([b"p", b"q", b"p"]).dictionary_encode(),
    "lists": pa.array([[1, 2], [], None]),
    "floats": pa.array([[1.5, np.nan], [], None]),
    "pairs": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float64(), 2)),
    "record": pa.array([{"a": 1, "b": b"x"}, None, {"a": 2, "b": None}]),
    "length": pa.array([90_000_000, None, 1], pa.duration("us")),
}
SPOKEN = {
    "bytes": ['a,"b', "0xff00", None],
    "large": ["a", "b", "c"],
    "fixed": ["ab", "cd", None],
    "view": ["a", "b", "c"],
    "places": ["p", "q", "p"],
    "lists": [[1, 2], [], None],
    "floats": [[1.5, None], [], None],
    "pairs": [[1.0, 2.0], None, [3.0, 4.0]],
    "record": [{"a": 1, "b": "x"}, None, {"a": 2, "b": None}],
    "length": [90.0, None, 1e-6],
}


@pytest.mark.parametrize("name", KEPT)
def test_whatever_a_column_holds_it_can_be_kept(name):
    columns = {"kept": KEPT[name], "row": pa.array(range(3))}
    in_json = [json.loads(line)["kept"] for line in writing.json_lines(columns).splitlines()]
    assert in_json == SPOKEN[name]
    in_csv = [row[0] for row in csv.reader(io.StringIO(writing.csv_lines(columns), newline=""))]
    for cell, value in zip(in_csv, SPOKEN[name], strict=True):
        if isinstance(value, str):
            assert cell == value
        else:  # null is nothing, or as JSON has it within what JSON spells
            assert (cell in ("", "null")) if value is None else (json.loads(cell) == value)


@given(st.lists(st.text(alphabet='ab|\\",\n ', min_size=1), max_size=5))
def test_a_set_of_classes_survives_csv(names):
    file = io.StringIO()
    part = Answers({"set": pa.array([names], pa.list_(pa.string())), "x": pa.array([1])}, 0, 0, 0, 0)
    writing.write_text([part], file, "csv")
    _, row = csv.reader(io.StringIO(file.getvalue(), newline=""))
    assert tables.split_set(row[0]) == names


def test_answers_as_json_are_what_python_would_write():
    rows = [json.loads(line) for line in text("jsonl").splitlines()]
    assert rows == pa.table(ROWS).to_pylist()


@given(st.text())
def test_any_name_survives_json(name):
    file = io.StringIO()
    part = Answers({name: pa.array([name]), "set": pa.array([[name, name]])}, 0, 0, 0, 0)
    writing.write_text([part], file, "jsonl")
    assert json.loads(file.getvalue()) == {name: name, "set": [name, name]}


def test_what_json_has_no_word_for_is_null():
    columns = {"x": pa.array([np.inf, 1.0]), "ends": pa.array([[[-np.inf, 0.0]], []], ROWS["ends"].type)}
    file = io.StringIO()
    writing.write_text([Answers(columns, 0, 0, 0, 0)], file, "jsonl")
    first, _ = map(json.loads, file.getvalue().splitlines())
    assert first == {"x": None, "ends": [[None, 0.0]]}


@given(
    st.floats(-1e6, 1e6),
    st.floats(1e-6, 1e6),
    st.one_of(st.none(), st.integers(0, 4)),
)
def test_rounded_intervals_hold_the_ones_that_they_round(middle, width, decimals):
    low, high = middle - width / 2, middle + width / 2
    columns = {
        "decision": pa.array([middle]),
        "lower": pa.array([low]),
        "upper": pa.array([high]),
        "set": pa.array([[[low, high]]], ROWS["ends"].type),
    }
    own = writing.rounded(Answers(columns, 0, 0, 0, 0), None, decimals).columns
    lower, upper = own["lower"][0].as_py(), own["upper"][0].as_py()
    # a grid point that the end is on to the last bit may be missed by that bit
    slack = 4 * np.finfo(float).eps * max(abs(low), abs(high))
    assert lower <= low + slack
    assert upper >= high - slack
    assert own["set"].to_pylist() == [[[lower, upper]]]
    step = max(width / 100, 10.0**-decimals if decimals is not None else 0)
    assert upper - lower <= (high - low) + 2 * step + slack


SIZES = st.one_of(st.just(0.0), st.floats(1e-9, 1e12), st.floats(-1e12, -1e-9))


@given(st.lists(SIZES, min_size=1), st.integers(1, 12))
def test_digits_are_those_of_python(values, digits):
    own = writing.significant(np.array(values), digits)
    # ties of the decimal text may fall to either side
    np.testing.assert_allclose(
        own, [float(f"{v:.{digits}g}") for v in values], rtol=1.1 * 10.0 ** (1 - digits)
    )
    assert all(
        len(repr(v).split("e")[0].strip("-").replace(".", "").strip("0")) <= digits for v in own.tolist()
    )
