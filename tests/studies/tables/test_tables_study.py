"""The tables study by its command: it runs, is kept and resumed, and says what is missing."""

from __future__ import annotations

import json
import stat
import sys
from dataclasses import replace

import numpy as np
import pytest

from calls import called
from cbdl.studies import study
from cbdl.studies.study import Context
from cbdl.studies.tables import STUDY, bde, credal, peers, regions, runs
from cbdl.studies.tables.contestant import Contestant, Stopped, Task
from cbdl.studies.tables.kept import Shelf
from cbdl.studies.tables.sources import sources
from protocols import check_report


def quiet(text: str) -> None:
    pass


def counted(made):
    """A contestant that knows how often it was run."""

    def run(task):
        made.append(task.table.name)
        return {"counted": {"nll": float(len(made)), "fit_seconds": 1.0}}

    return Contestant("counted", ("real", "classes"), run, lambda: "1")


@pytest.fixture
def alone(monkeypatch):
    """The study with one contestant only, which is quick; what it was run on."""
    made: list[str] = []
    monkeypatch.setattr(runs, "CONTESTANTS", (counted(made),))
    return made


def context(folder, profile="smoke", only=()):
    return Context(profile, 0, folder, quiet, only)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """One run by the command line: exit code, numbers, what was noted, the folder."""
    folder = tmp_path_factory.mktemp("tables") / "report"
    arguments = ("study", "tables", "--profile", "smoke", "--out", folder, "--json")
    code, out, err = called(*arguments)
    return code, json.loads(out), err, folder, arguments


def test_the_command_writes_tables_figures_and_numbers(smoke):
    code, numbers, _, folder, _ = smoke
    assert code == 0
    assert list(numbers) == ["diabetes", "iris", "intervals", "sets", "foreign", "seconds", "sine", "goals"]
    check_report(numbers, folder)
    assert (folder / "sets.png").exists()
    rows = numbers["iris"]["means"]
    assert {credal.NAME, credal.PLAIN, peers.MLP, peers.FOREST, peers.BOOSTING, peers.ENSEMBLE} <= set(rows)
    assert {"accuracy", "nll", "nll_best", "nll_worst", "ece", "coverage", "size"} <= set(rows[credal.NAME])
    assert rows[credal.NAME]["nll_best"] <= rows[credal.NAME]["nll"] <= rows[credal.NAME]["nll_worst"]
    assert {"data", "gap", "far"} <= set(numbers["sine"][credal.NAME])


def test_a_second_run_reads_what_is_kept_and_says_the_same(smoke, monkeypatch):
    _, numbers, _, _, arguments = smoke
    monkeypatch.setattr(credal, "model", None)  # nothing can be trained now
    code, out, err = called(*arguments)
    assert code == 0
    assert json.loads(out) == numbers
    assert err.count("(kept)") == sum(
        len(own) for table in ("diabetes", "iris") for own in numbers[table]["splits"].values()
    )


def test_another_name_is_refused_with_those_that_there_are(tmp_path):
    code, _, err = called("study", "tables", "--only", "irises", "--out", tmp_path / "x")
    assert code == 2
    assert "irises" in err
    assert "iris" in err.replace("irises", "")
    code, _, err = called("study", "demo", "--only", "iris", "--out", tmp_path / "x")
    assert code == 2
    assert "as a whole" in err
    assert not (tmp_path / "x").exists()


# --- what is kept -------------------------------------------------------------------------------------------


def test_a_stopped_run_goes_on_where_it_stopped(tmp_path, alone, monkeypatch):
    original = runs.measured

    def stopping(given, source):
        if source.name == "iris":
            raise KeyboardInterrupt
        return original(given, source)

    monkeypatch.setattr(runs, "measured", stopping)
    with pytest.raises(KeyboardInterrupt):
        study.run(STUDY, "smoke", tmp_path, only=("diabetes", "iris"))
    monkeypatch.setattr(runs, "measured", original)
    study.run(STUDY, "smoke", tmp_path, only=("diabetes", "iris"))
    assert alone == ["diabetes", "iris"]


def test_another_seed_version_or_data_is_another_result(tmp_path, alone, monkeypatch):
    iris = sources()["iris"]
    runs.measured(context(tmp_path), iris)
    runs.measured(context(tmp_path), iris)
    assert len(alone) == 1
    runs.measured(replace(context(tmp_path), seed=1), iris)
    assert len(alone) == 2
    runs.measured(context(tmp_path), replace(iris, load=lambda split: iris.load(split + 1)))
    assert len(alone) == 3
    newer = replace(counted(alone), version=lambda: "2")
    monkeypatch.setattr(runs, "CONTESTANTS", (newer,))
    runs.measured(context(tmp_path), iris)
    assert len(alone) == 4
    assert len(list((tmp_path / runs.CACHE).iterdir())) == 4


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"key": {}, "rows": {}}'])
def test_a_damaged_file_is_made_anew(tmp_path, damage):
    shelf, key = Shelf(tmp_path), {"table": "t", "split": 0, "contestant": "c"}
    assert shelf.rows(key, lambda: {"row": {"nll": 1.0}}) == ({"row": {"nll": 1.0}}, False)
    [path] = tmp_path.iterdir()
    path.write_text(damage)
    assert shelf.rows(key, lambda: {"row": {"nll": 2.0}}) == ({"row": {"nll": 2.0}}, False)
    assert shelf.rows(key, dict) == ({"row": {"nll": 2.0}}, True)


def test_a_number_that_is_not_finite_is_not_kept(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        Shelf(tmp_path).rows({"table": "t"}, lambda: {"row": {"nll": float("inf")}})
    assert not list(tmp_path.iterdir())


def test_without_a_folder_nothing_is_kept_and_a_moments_run_has_no_seconds(alone):
    one = runs.measured(context(None), sources()["iris"])
    assert one.rows == {"counted": {0: {"nll": 1.0}}}


# --- who takes part -----------------------------------------------------------------------------------------


def test_profiles_choose_splits_and_contestants():
    known = sources()
    assert [runs.splits(profile, known["energy"]) for profile in ("smoke", "cpu", "paper")] == [1, 2, 20]
    assert runs.splits("paper", known["protein"]) == 5
    assert runs.splits("cpu", known["airfoil"]) == 5

    def names(profile, table, split=0):
        return [one.name for one in runs.taking_part(profile, known[table], split)]

    assert names("cpu", "friedman") == [credal.NAME]
    assert bde.NAME in names("cpu", "energy")
    assert bde.NAME not in names("cpu", "energy", split=1)
    assert bde.NAME not in names("cpu", "glass")
    assert {bde.NAME} < set(names("paper", "energy", split=1)) & set(names("paper", "glass"))
    assert credal.RACE in names("cpu", "energy")
    assert credal.RACE not in names("cpu", "concrete")


def test_what_is_left_out_stopped_or_not_installed_has_a_row_that_says_so(monkeypatch, capsys):
    from cbdl.studies.tables import pages

    def stops(task):
        raise Stopped("stopped after 5 s")

    few = Contestant("few", ("classes",), stops, lambda: "1", most=10)
    gone = Contestant("gone", ("classes",), stops, lambda: None)
    slow = Contestant("slow", ("classes",), stops, lambda: "1")
    monkeypatch.setattr(runs, "CONTESTANTS", (few, gone, slow))
    part = pages.of_table(runs.measured(context(None, "cpu"), sources()["iris"]), smoke=False)
    assert [row[0] for row in part.rows] == ["few (left out)", "gone (not installed)", "slow (stopped)"]
    assert "slow: stopped after 5 s." in part.lessons


def test_without_a_data_folder_the_tables_are_scikit_learns_and_the_report_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("CBDL_DATA", str(tmp_path))
    there, text = runs.chosen(context(None, "cpu"))
    assert {"diabetes", "iris", "digits", "friedman"} <= {source.name for source in there}
    assert "scikit-learn" in text
    (tmp_path / "uci" / "energy").mkdir(parents=True)
    there, text = runs.chosen(context(None, "cpu"))
    assert [source.name for source in there] == ["energy", "digits", "friedman"]
    assert "concrete" in text


# --- peers --------------------------------------------------------------------------------------------------


def test_bde_runs_in_the_interpreter_that_the_environment_names(tmp_path, monkeypatch):
    """A stand-in for the package: it answers with two draws, and fails on demand."""
    worker = tmp_path / "worker.py"
    worker.write_text(
        "import sys, json, os, numpy as np\n"
        "assert os.path.dirname(__file__) not in sys.path  # where a file may be named like the package\n"
        "task = np.load(sys.argv[1])\n"
        "assert json.loads(str(task['settings']))['n_members'] == 2\n"
        "if task['X'].shape[1] == 1: raise SystemExit('one feature is too few')\n"
        "loc = np.stack([task['asked'][:, 0], task['asked'][:, 0] + 2], 1)\n"
        "ends = np.stack([loc[:, 0] - 9, loc[:, 0] + 9])\n"
        "np.savez(sys.argv[2], loc=loc, scale=np.ones_like(loc), ends=ends, seconds=[3.0, 0.5])\n"
    )
    monkeypatch.setattr(bde, "WORKER", worker)
    monkeypatch.setenv(bde.VARIABLE, sys.executable)
    table = sources()["diabetes"].load(0)
    X = np.random.default_rng(0).normal(size=(20, 2))
    own = replace(table, X=X, y=X[:, 0] + 1, X_test=X[:8], y_test=X[:8, 0] + 1)
    numbers = bde.run(Task(own, 0, short=True))[bde.NAME]
    assert numbers["rmse"] == pytest.approx(0, abs=1e-12)
    assert numbers["coverage"] == 1
    assert (numbers["fit_seconds"], numbers["predict_seconds"]) == (3.0, 0.5)
    # both draws have the density of a Normal one unit away
    assert numbers["nll"] == pytest.approx(0.5 * np.log(2 * np.pi) + 0.5)
    narrow = replace(own, X=X[:, :1], X_test=X[:8, :1])
    with pytest.raises(Stopped, match="one feature is too few"):
        bde.run(Task(narrow, 0, short=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["diabetes", "iris"])
def test_bde_itself_answers_where_it_is_installed(name):
    if bde.version() is None:
        pytest.skip(f"bde is not installed; {bde.VARIABLE} may name an interpreter that has it")
    table = sources()[name].load(0).first(80)
    numbers = bde.run(Task(table, 0, short=True))[bde.NAME]
    assert np.isfinite(list(numbers.values())).all()
    assert {"nll", "auroc_shifted", "fit_seconds"} <= set(numbers)


def test_bde_without_its_package_is_not_installed(tmp_path, monkeypatch):
    nothing = tmp_path / "python"
    nothing.write_text("#!/bin/sh\nexit 1\n")
    nothing.chmod(nothing.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv(bde.VARIABLE, str(nothing))
    assert bde.version() is None
    monkeypatch.setenv(bde.VARIABLE, str(tmp_path / "absent"))
    assert bde.version() is None


def test_mapie_has_sets_for_two_classes_and_for_more():
    pytest.importorskip("mapie")
    for name, expected in (("breast-tumours", {"LAC"}), ("iris", {"LAC", "APS"})):
        table = sources()[name].load(0).first(120)
        rows = regions.run(peers.BOOSTING, Task(table, 0, short=True))
        assert set(rows) == {f"MAPIE {score} {peers.BOOSTING}" for score in expected}
        assert all(numbers["coverage"] > 0.8 for numbers in rows.values())


def test_what_mapie_cannot_do_is_told_and_does_not_end_the_study():
    pytest.importorskip("mapie")
    table = sources()["diabetes"].load(0)
    with pytest.raises(Stopped, match="MAPIE failed"):
        regions.run(peers.BOOSTING, Task(table.first(10), 0, short=True))
    with pytest.raises(Stopped, match="too few rows"):
        regions.run_credal(Task(table.first(60), 0, short=True))


def test_mapies_regions_cover_what_they_promise():
    """Around boosting on 400 rows of the Friedman function; five standard errors of 400 test rows."""
    pytest.importorskip("mapie")
    table = sources()["friedman"].load(0)
    cut = replace(
        table, X=table.X[:400], y=table.y[:400], X_test=table.X_test[:400], y_test=table.y_test[:400]
    )
    task = Task(cut, 0, short=True)
    rows = regions.run(peers.BOOSTING, task) | regions.run_quantiles(task)
    assert set(rows) == {f"MAPIE {peers.BOOSTING}", f"MAPIE CQR {peers.BOOSTING}"}
    for numbers in rows.values():
        assert numbers["coverage"] >= 0.95 - 5 * np.sqrt(0.95 * 0.05 / 400)
        assert np.isfinite(numbers["width"])
