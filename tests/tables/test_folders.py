"""Many tables: file by file, whole or not at all, and what is there is neither lost nor answered twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from folder_cases import assert_same, model, read, write

from calls import called
from cbdl.tables import answering, folders
from cbdl.tables.folder_log import LOG

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A model, and a folder of tables of both kinds."""
    place = tmp_path_factory.mktemp("place")
    model(place)
    for i, name in enumerate(("a.csv", "b.parquet", "c.csv", "d.pq")):
        write(place / "in" / name, 30 + i, i)
    return place


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def predict(place: Path, out: Path, *more: object, tables: object = None) -> tuple[int, str, str]:
    return called("predict", place / "model", tables or place / "in", "--out", out, "--quiet", *more)


# --- what is answered ---------------------------------------------------------------------------------------


def test_every_table_is_answered_as_it_is_alone(place, tmp_path):
    code, out, err = predict(place, tmp_path / "out")
    assert (code, err) == (0, "")
    assert out == f"{tmp_path / 'out'}: 4 files, {30 + 31 + 32 + 33} rows\n"
    assert names(tmp_path / "out") == [LOG, "a.csv", "b.parquet", "c.csv", "d.pq"]
    for name in ("a.csv", "b.parquet"):
        assert called("predict", place / "model", place / "in" / name, "--out", tmp_path / name)[0] == 0
        assert_same(tmp_path / "out" / name, tmp_path / name)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_all_answers_have_the_form_that_is_asked_for(place, tmp_path, form):
    code, out, _ = predict(place, tmp_path / "out", "--format", form, "--json")
    assert (code, json.loads(out)["rows"]) == (0, 126)
    assert names(tmp_path / "out") == [LOG, *(f"{name}.{form}" for name in "abcd")]


@pytest.mark.parametrize("task", ["classes", "line"])
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_table_without_rows_has_answers_without_rows_of_the_same_form(tmp_path, task, form):
    """Parts that other programs write may be such."""
    model(tmp_path, task)
    more = ("--digits", "4", "--floor", "--phi", "1", "--format", form)
    write(tmp_path / "in" / "a.parquet", 3, 0)
    write(tmp_path / "in" / "b.parquet", 0, 0)
    pa.parquet.write_table(pa.table({"x": pa.nulls(0), "z": pa.nulls(0)}), tmp_path / "in" / "c.parquet")
    write(tmp_path / "in" / "d.csv", 0, 0)
    code, said, err = predict(tmp_path, tmp_path / "out", *more)
    assert (code, err) == (0, "")
    assert said == f"{tmp_path / 'out'}: 4 files, 3 rows, 0 abstained\n"
    whole, *bare = (tmp_path / "out" / f"{name}.{form}" for name in "abcd")
    for path in bare:
        if form == "parquet":
            assert pa.parquet.read_table(path).equals(pa.parquet.read_table(whole).slice(0, 0))
        else:
            first = whole.read_text().splitlines(keepends=True)[:1]
            assert path.read_text() == ("".join(first) if form == "csv" else "")
    _, shown, _ = called("predict", tmp_path / "model", tmp_path / "in" / "d.csv")
    alone, _ = called("predict", tmp_path / "model", tmp_path / "in" / "a.parquet")[1].split("\n", 1)
    assert shown == alone + "\n"


def test_a_table_without_rows_that_lacks_a_column_is_refused_as_others_are(place, tmp_path):
    (tmp_path / "bare.csv").write_text("x,other\n")
    code, _, err = called("predict", place / "model", tmp_path / "bare.csv")
    assert (code, "has no column 'z'" in err) == (2, True)
    (tmp_path / "bare.csv").write_text("x,z,y\n")
    code, _, err = called("evaluate", place / "model", tmp_path / "bare.csv")
    assert (code, "has no rows below its header" in err) == (1, True)


def test_names_patterns_and_folders_mean_each_table_once(place, monkeypatch):
    monkeypatch.chdir(place)
    whole = folders.tables(["in"])
    assert folders.tables(["in/a.csv", "in/*.csv", "in/?.p*", "./in"]) == [whole[i] for i in (0, 2, 1, 3)]
    assert folders.tables(["**/[ab].*"]) == whole[:2]
    assert folders.is_many(["in"])
    assert folders.is_many(["in/*"])
    assert not folders.is_many(["in/a.csv"])


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(place, tmp_path):
    table = tmp_path / "[1].csv"
    shutil.copy(place / "in" / "a.csv", table)
    assert not folders.is_many([str(table)])
    assert called("predict", place / "model", table, "--out", tmp_path / "p.csv")[0] == 0


# --- going on -----------------------------------------------------------------------------------------------


def test_a_second_run_answers_what_is_missing_or_has_changed_and_nothing_else(place, tmp_path):
    tables, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(place / "in", tables)
    predict(place, out, tables=tables)
    before = {name: (out / name).stat().st_mtime_ns for name in names(out)}
    (out / "a.csv").unlink()
    write(tables / "c.csv", 7, 9)
    write(tables / "e.csv", 5, 4)
    code, said, _ = predict(place, out, tables=tables)
    assert code == 0
    assert said == f"{out}: 5 files (2 of them there already), {30 + 31 + 7 + 33 + 5} rows\n"
    assert len(read(out / "c.csv")) == 7
    assert all((out / name).stat().st_mtime_ns == before[name] for name in ("b.parquet", "d.pq"))


def test_answers_that_were_cut_short_are_answered_anew(place, tmp_path):
    out = tmp_path / "out"
    predict(place, out)
    whole = (out / "a.csv").read_bytes()
    (out / "a.csv").write_bytes(whole[:100])
    assert "(3 of them there already)" in predict(place, out)[1]
    assert (out / "a.csv").read_bytes() == whole


@pytest.mark.parametrize("kept", [-1, -40])
def test_a_line_of_the_log_that_was_cut_short_is_no_line(place, tmp_path, kept):
    """By its end alone, which is nothing, or in the middle."""
    out = tmp_path / "out"
    predict(place, out)
    content = (out / LOG).read_bytes()
    (out / LOG).write_bytes(content[:kept])
    for there in (4 if kept == -1 else 3, 4):
        assert f"({there} of them there already)" in predict(place, out)[1]


STOPPED = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background would not hear it
from cbdl.tables import answering
answer, count = answering.answer_file, iter(range(9))

def counted(*arguments):
    if next(count) == 2:
        answering.predict = dying
    return answer(*arguments)

def dying(*arguments):
    os.kill(os.getpid(), int(sys.argv.pop()))
    for _ in range(1000):  # whichever thread the signal comes to, this one hears of it soon
        time.sleep(0.01)
    yield

answering.answer_file = counted
from cbdl.cli import app
sys.argv, end = sys.argv[:-1], sys.argv[-1]
arguments = sys.argv[1:]
sys.argv.append(end)
app(arguments)
"""
"""A `cbdl` that gets a signal, its last argument, in the middle of the third file."""


@pytest.mark.parametrize(("end", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_run_that_was_stopped_goes_on_to_the_same_answers(place, tmp_path, end, code):
    out = tmp_path / "out"
    arguments = ["predict", place / "model", place / "in", "--out", out, str(int(end))]
    ran = subprocess.run(
        [sys.executable, "-c", STOPPED, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=600,
    )
    assert ran.returncode == code, ran.stderr
    if end is signal.SIGINT:
        assert f"The files so far are in {out}; the same command goes on" in ran.stderr
    whole = [name for name in names(out) if not name.startswith(".")]
    assert whole == [LOG, "a.csv", "b.parquet"]
    assert "(2 of them there already)" in predict(place, out)[1]
    assert names(out) == [LOG, "a.csv", "b.parquet", "c.csv", "d.pq"]
    predict(place, tmp_path / "whole")
    for name in ("a.csv", "b.parquet", "c.csv", "d.pq"):
        assert_same(out / name, tmp_path / "whole" / name)


# --- refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--alpha", "0.1"], "with --alpha 0.05, not 0.1"),
        (["--method", "minimal"], 'with --method as by default, not "minimal"'),
        (["--keep", "x"], 'with --keep as by default, not ["x"]'),
        (["--completions", "4"], "with --completions as by default, not 4"),
        (["--digits", "3"], "with --digits as by default, not 3"),
        (["--delimiter", ";"], "with --delimiter"),
    ],
)
def test_answers_made_with_other_options_are_not_taken_for_done(place, tmp_path, more, said):
    out = tmp_path / "out"
    predict(place, out)
    before = {name: (out / name).read_bytes() for name in names(out)}
    code, printed, err = predict(place, out, *more)
    assert (code, printed) == (2, "")
    assert said in err
    assert "choose another --out" in err
    assert {name: (out / name).read_bytes() for name in names(out)} == before


def test_every_option_that_changes_answers_is_in_the_log(place):
    """So that one that is added later cannot be forgotten."""
    own = set(answering.described(answering.Request()))
    by_hand = {"most": "completions"}
    fields = {by_hand.get(name, name) for name in answering.Options.__dataclass_fields__}
    assert own == fields | {"delimiter", "encoding", "digits"}


def test_a_request_that_came_to_nothing_is_in_nobodys_way(place, tmp_path):
    out = tmp_path / "out"
    code, said, _ = predict(place, out, "--keep", "nope")
    assert (code, said, names(out)) == (1, f"{out}: 0 files, 0 rows\n", [LOG])
    assert predict(place, out, "--keep", "x")[:2] == (0, f"{out}: 4 files, 126 rows\n")
    assert predict(place, out, "--keep", "x")[1] == f"{out}: 4 files (4 of them there already), 126 rows\n"
    assert predict(place, out, "--keep", "nope")[0] == 2, "there are answers now"


def test_tables_are_named_as_they_were_given(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(Path("in/a.csv"), 3, 0)
    Path("in/b.csv").write_text("")
    code, _, err = predict(place, Path("out"), tables="in")
    assert code == 1
    assert "\nin/b.csv is empty" in err
    assert str(tmp_path) not in err


def test_answers_of_another_model_are_not_taken_for_done(place, tmp_path):
    predict(place, tmp_path / "out")
    other = tmp_path / "other"
    other.mkdir()
    model(other, "line")
    code, _, err = predict(other, tmp_path / "out", tables=place / "in")
    assert code == 2
    assert "of another model, or of this one before it was trained again" in err


def test_files_of_others_are_not_replaced(place, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "c.csv").write_text("mine")
    code, _, err = predict(place, out)
    assert code == 2
    assert f"{out / 'c.csv'} is there already, and nothing says what it is of" in err
    assert names(out) == ["c.csv"]
    (out / LOG).write_text("mine too")
    code, _, err = predict(place, out)
    assert code == 1
    assert "is no log of answers" in err


def test_two_runs_do_not_write_to_one_folder(place, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    predict(place, tmp_path / "out")
    with open(tmp_path / "out" / LOG) as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        code, _, err = predict(place, tmp_path / "out")
    assert code == 2
    assert "another cbdl predict is writing to" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("predict model in/*.txt --out out", "no file matches in/*.txt"),
        ("predict model in/a.csv nix.csv --out out", "nix.csv does not exist"),
        ("predict model empty --out out", "empty has no tables"),
        ("predict model in", "name it with --out"),
        ("predict model in --out train.csv", "which is a file"),
        ("predict model in --out nix/out", "there is no folder nix"),
        ("predict model in --out in", "in/a.csv is in --out itself"),
        (
            "predict model in/a.csv twin/a.csv --out out",
            "for in/a.csv and for twin/a.csv would both be out/a.csv",
        ),
        ("predict model in/b.parquet twin/b.csv --out out --format csv", "would both be out/b.csv"),
        (
            "predict model in/a.csv --out p.csv --engine ray",
            "--engine ray is for several tables; in/a.csv is one: leave it out",
        ),
        ("predict model in/a.csv --out p.csv --format csv", "--format is for several tables"),
        ("predict train.csv in --out out", "not a folder"),
    ],
)
def test_a_usage_error_is_2_and_writes_nothing(place, tmp_path, monkeypatch, arguments, said):
    for name in ("model", "in"):
        shutil.copytree(place / name, tmp_path / name)
    shutil.copy(place / "train.csv", tmp_path)
    (tmp_path / "empty").mkdir()
    for name in ("a.csv", "b.csv"):
        write(tmp_path / "twin" / name, 3, 3)
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    code, out, err = called(*arguments.split())
    assert (code, out) == (2, "")
    assert said in err
    assert sorted(tmp_path.rglob("*")) == before


def test_one_bad_table_is_named_and_the_others_are_answered(place, tmp_path):
    tables, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(place / "in", tables)
    (tables / "b2.csv").write_text("x,z\n1,2\n3,oops\n")
    pa.csv.write_csv(pa.table({"x": [1.0]}), tables / "b3.csv")
    code, said, err = predict(place, out, tables=tables)
    assert code == 1
    assert said == f"{out}: 4 files, 126 rows\n"
    assert "2 of 6 tables could not be answered" in err
    assert f"{tables / 'b2.csv'}: column 'z', row 2: 'oops' is not a finite number" in err
    assert f"{tables / 'b3.csv'}: the table has no column 'z'" in err
    assert "call the same command again" in err
    assert names(out) == [LOG, "a.csv", "b.parquet", "c.csv", "d.pq"]
    write(tables / "b2.csv", 3, 3)
    code, said, err = predict(place, out, "--json", tables=tables)
    answer = json.loads(said)
    assert (code, answer["files"], answer["before"], answer["rows"]) == (1, 6, 4, 129)
    assert list(answer["failed"]) == [str(tables / "b3.csv")]


def test_progress_goes_to_stderr(place, tmp_path, monkeypatch):
    monkeypatch.setattr("cbdl.bayes.progress.EVERY", 0.0)
    arguments = ("predict", place / "model", place / "in", "--out", tmp_path / "out")
    code, out, err = called(*arguments)
    assert code == 0
    assert [line.split(",")[0] for line in err.splitlines()] == [f"{i} of 4 tables" for i in range(1, 5)]
    assert "126 rows" in err
    assert [" s left" in line for line in err.splitlines()] == [False, True, True, False]
    assert "of 4" not in out


# --- memory -----------------------------------------------------------------------------------------------------

MEASURED = """
import sys
from cbdl.cli import app
for tables in sys.argv[3:]:
    app(["predict", sys.argv[1], tables, "--out", sys.argv[2] + tables[-1], "--quiet"], standalone_mode=False)
    with open("/proc/self/status") as file:
        print(*(line for line in file if line.startswith("VmHWM")), file=sys.stderr, end="")
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to measure memory")
def test_memory_does_not_grow_with_the_number_of_files(place, tmp_path):
    """Eight times the files, the same memory."""
    for folder, files in (("in1", 2), ("in2", 16)):
        for i in range(files):
            write(tmp_path / folder / f"{i}.parquet", 3000, i)
    ran = subprocess.run(
        [sys.executable, "-c", MEASURED]
        + [str(p) for p in (place / "model", tmp_path / "out", tmp_path / "in1", tmp_path / "in2")],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    used = [int(line.split()[1]) / 1024 for line in ran.stderr.splitlines()]
    # MB; a file has 0.6 MB of answers and its sets 3 MB, so that fourteen more would show if they were kept
    assert used[1] < used[0] + 8
