"""The command line: results on stdout, the rest on stderr, exit codes, nothing half-written."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cbdl
from calls import called
from cbdl import recipe
from cbdl.cli.app import COMMANDS
from cbdl.cli.options import RegionName
from cbdl.credal.line import regions as line_regions
from cbdl.tables import answers

FAST = [
    "--net",
    "mlp:8",
    "--prior",
    "normal:0:1",
    "--prior",
    "laplace:0:1",
    "--steps",
    "60",
    "--plausible",
    "0",
]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}


def process(*arguments: object, code: str = "from cbdl.cli import main; main()") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )


def write(path: Path, header: str, *columns: object) -> Path:
    with open(path, "w", newline="") as file:
        file.write(header + "\n")
        csv.writer(file, lineterminator="\n").writerows(zip(*columns, strict=True))
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with tables of both kinds and a model of each."""
    folder, source = tmp_path_factory.mktemp("place"), np.random.default_rng(0)
    x, z = source.normal(size=(2, 80))
    write(folder / "classes.csv", "x,z,y", x, z, np.where(x + z > 0, "yes", "no"))
    write(folder / "line.csv", "x,z,y", x, z, x - z + 0.1 * source.normal(size=80))
    write(folder / "new.csv", "x,z", x[:5], z[:5])
    for kind in ("classes", "line"):
        code, _, answer = called(
            "fit", folder / f"{kind}.csv", "--target", "y", "--out", folder / kind, *FAST
        )
        assert code == 0, answer
    return folder


# --- what a person types --------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example_that_names_real_options(command):
    code, out, _ = called(command, "--help")
    assert code == 0
    example = out[out.index("Example:") :].split()[1:]
    assert example[:2] == ["cbdl", command]
    assert all(word in out[: out.index("Example:")] for word in example if word.startswith("--"))


LIGHT = """
import sys
from cbdl.cli import app
from cbdl.cli.app import COMMANDS
for arguments in (["--version"], ["--help"], *([name, "--help"] for name in COMMANDS)):
    app(arguments, standalone_mode=False)
    heavy = {"torch", "numpy", "scipy", "sklearn", "pyarrow", "pandas", "matplotlib"} & set(sys.modules)
    assert not heavy, (arguments, heavy)
"""


def test_help_and_version_wait_for_nothing_heavy():
    ran = process(code=LIGHT)
    out, err = ran.communicate(timeout=60)
    assert (ran.returncode, err) == (0, "")
    assert all(f"cbdl {name}" in out for name in COMMANDS)


def test_defaults_that_help_spells_out_are_those_of_the_recipe():
    for command, option, default in (
        ("predict", "--samples", f"{recipe.DRAWS}, or all"),
        ("evaluate", "--samples", f"{recipe.DRAWS}, or all"),
        ("fit", "--plausible", recipe.PLAUSIBLE),
    ):
        words = " ".join(called(command, "--help")[1].split())
        about = words[words.index(f"{option} <") :]
        assert about[about.index("[default: ") :].startswith(f"[default: {default}"), command
    words = " ".join(called("fit", "--help")[1].split())
    lengths = [
        recipe.steps(rows, task)
        for task in ("classification", "regression")
        for rows in range(50, 60_000, 50)
    ]
    assert f"{min(lengths)} to {max(lengths)} by the task and the number of rows" in words
    layers = f"mlp:16,16; a third layer from {recipe.MANY} rows on; for numbers a fourth above {recipe.MORE}]"
    assert layers in words
    assert [len(recipe.hidden(rows, "regression")[0]) for rows in (499, 500, 1000, 1001)] == [2, 3, 3, 4]


def test_the_list_of_commands_says_what_they_say_themselves():
    out = called("--help")[1]
    for name, (_, about) in COMMANDS.items():
        own = " ".join(called(name, "--help")[1].split())
        assert about in own
        assert f"{name} " in out
        assert about in " ".join(out.split())


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_a_terminal_of_80_columns(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = called(*filter(None, [command]), "--help")[1]
    assert max(map(len, out.splitlines())) <= 80


def test_regions_are_those_of_the_kernel():
    assert {r.value for r in RegionName} == {"calibrated", *line_regions.METHODS}


def test_fit_prints_a_summary_with_held_out_scores(place):
    arguments = ["fit", place / "classes.csv", "--target", "y", "--out", place / "again", *FAST]
    code, out, _ = called(*arguments, "--json")
    answer = json.loads(out)
    assert (code, answer["task"], answer["members"], answer["held_out"]["rows"]) == (
        0,
        "classification",
        2,
        16,
    )
    code, out, _ = called(
        *arguments, "--overwrite", "--engine", "local", "--seed", "1", "--task", "classification"
    )
    assert code == 0
    assert "accuracy of the decision" in out
    assert "16 rows that were held out" in out


def test_predict_prints_a_row_for_each_row(place):
    code, out, err = called("predict", place / "classes", place / "new.csv", "--phi", "0.1", "--keep", "x")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (code, err, len(rows)) == (0, "", 5)
    assert list(rows[0]) == [
        "row", "x", "decision", "set", "size",
        "probability:no", "lower:no", "upper:no", "probability:yes", "lower:yes", "upper:yes",
        "aleatoric", "epistemic", "epistemic_lower", "epistemic_upper", "total", "abstain",
    ]  # fmt: skip
    assert {row["decision"] for row in rows} <= {"yes", "no"}
    assert all(float(row["epistemic_lower"]) <= float(row["epistemic"]) + 1e-9 for row in rows)
    code, out, _ = called("predict", place / "line", place / "new.csv", "--json", "--method", "minimal")
    answer = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert all(row["lower"] < row["decision"] < row["upper"] for row in answer)


def test_a_column_that_would_be_there_twice_is_not_kept(place, tmp_path):
    lines = (place / "new.csv").read_text().splitlines()
    path = tmp_path / "new.csv"
    path.write_text("\n".join([f"{lines[0]},size", *(f"{line},XL" for line in lines[1:])]))
    code, out, err = called("predict", place / "line", path, "--keep", "size")
    assert (code, out) == (2, "")
    assert "--keep size: the answers have a column of that name" in err


@pytest.mark.parametrize("name", ["p.csv", "p.jsonl"])
def test_predict_writes_what_it_would_have_printed(place, name):
    flag = ["--json"] if name.endswith("jsonl") else []
    _, printed, _ = called("predict", place / "line", place / "new.csv", *flag)
    code, out, _ = called(
        "predict", place / "line", place / "new.csv", "--out", place / name, "--phi", "-9", "--json"
    )
    assert (code, json.loads(out)) == (0, {"out": str(place / name), "rows": 5, "abstained": 5})
    called("predict", place / "line", place / "new.csv", "--out", place / name)
    assert (place / name).read_text() == printed


def test_evaluate_and_info(place):
    code, out, _ = called("evaluate", place / "classes", place / "classes.csv", "--alpha", "0.1", "--json")
    answer = json.loads(out)
    assert (code, answer["rows"], answer["alpha"]) == (0, 80, 0.1)
    assert answer["accuracy"] > 0.8
    assert answer["coverage"] > 0.9
    code, out, _ = called("evaluate", place / "line", place / "line.csv", "--predictive", "normal")
    assert code == 0
    assert "error of the decision" in out
    code, out, _ = called("info", place / "line")
    assert code == 0
    assert "regression of y" in out
    assert "whole and unaltered" in out
    answer = json.loads(called("info", place / "line", "--json")[1])
    assert (answer["members"], answer["kept"]["chains"] % 4) == (4, 0)
    assert f"4, each with {answer['kept']['draws']} draws of {answer['kept']['chains']} chains" in out


def test_models_that_were_not_trained_from_a_table_are_told(place, tmp_path):
    X = np.linspace(-1, 1, 20)[:, None]
    cbdl.CredalRegressor(steps=60, plausible=0, calibration=None).fit(X, X[:, 0]).save(tmp_path / "estimator")
    cbdl.load(tmp_path / "estimator").save(tmp_path / "extra", extra={"white": 255.0})
    shutil.copy(place / "line.csv", tmp_path / "other.csv")
    tables = [place / "line.csv", tmp_path / "other.csv", "--out", tmp_path / "answers"]
    for name, said in (("estimator", "CredalRegressor of 1 feature"), ("extra", "prior 0")):
        code, out, err = called("info", tmp_path / name)
        assert (code, err) == (0, "")
        assert said in out
        for asked in (["predict", tmp_path / name, *tables], ["predict", tmp_path / name, tables[0]]):
            code, _, err = called(*asked)
            assert code == 1
            assert "was not trained from a table; use it from Python" in err


def test_predictions_are_calibrated_unless_another_region_is_asked_for(place):
    def widths(*more: str) -> np.ndarray:
        _, out, _ = called("predict", place / "line", place / "new.csv", "--json", "--samples", "8", *more)
        return np.array([json.loads(line)["size"] for line in out.splitlines()])

    assert np.array_equal(widths(), widths("--method", "calibrated"))
    assert not np.array_equal(widths(), widths("--method", "union"))


def test_a_fit_without_calibration_has_plain_regions(place):
    arguments = ["fit", place / "classes.csv", "--target", "y", "--out", place / "plain", *FAST]
    assert called(*arguments, "--calibration", "none")[0] == 0
    answers = [
        called("predict", place / "plain", place / "classes.csv", *more)
        for more in ([], ["--method", "union"])
    ]
    assert answers[0] == answers[1]
    assert "calibrated" not in called("info", place / "plain")[1]


def test_info_says_how_many_levels_there_are_and_lists_none(place):
    for flag in ([], ["--json"]):
        code, out, _ = called("info", place / "line", *flag)
        assert code == 0
        assert "log_survival" not in out
    assert json.loads(out)["extra"]["conformity"]["normal"] == {"outcomes": 64, "how": "5 folds"}
    assert "calibrated on  64 outcomes (5 folds)" in called("info", place / "line")[1]


def test_levels_that_were_altered_are_a_failure_with_words(place, tmp_path):
    shutil.copytree(place / "classes", tmp_path / "m")
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    manifest["extra"]["conformity"]["mixture"]["counts"] = [0]
    (tmp_path / "m" / "manifest.json").write_text(json.dumps(manifest))
    for command in (("info", tmp_path / "m"), ("predict", tmp_path / "m", place / "new.csv")):
        code, out, err = called(*command)
        assert (code, out) == (1, "")
        assert "does not describe its calibration" in err


def test_members_that_the_data_refute_are_shown(place, tmp_path):
    """A prior that holds the network at 0 cannot follow the line."""
    stiff = ["--net", "mlp:8", "--prior", "normal:0:1", "--prior", "normal:0:0.001", "--steps", "120"]
    arguments = ["fit", place / "line.csv", "--target", "y", *stiff, "--out", tmp_path / "m"]
    code, out, err = called(*arguments)
    assert code == 0
    assert "refuted by the data: " in out
    assert "prior 1, likelihood 0" in " ".join(out.split())
    assert "members that the data do not refute (cut at 0.3, 5 folds):" in err
    assert "dropped" in err


def test_imputation_is_kept_with_the_model(tmp_path):
    path = write(tmp_path / "t.csv", "x,y", ["1", "2", "", "4"] * 5, ["a", "b", "a", "b"] * 5)
    arguments = ("fit", path, "--target", "y", "--out", tmp_path / "m", *FAST)
    code, out, err = called(*arguments)
    assert (code, out) == (1, "")
    assert "'x' has 5 missing values (rows 3, 7, 11, ...)" in err
    code, out, _ = called(*arguments, "--impute")
    assert code == 0
    assert re.search(r"16 rows, 1 feature; in \d rows? values were filled in", " ".join(out.split()))
    assert re.search(r"rows with values filled in +\d", out)
    assert called("predict", tmp_path / "m", path)[0] == 0


# --- errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("fit classes.csv --target y --out m --nix", "--nix"),
        ("fit classes.csv --out m", "--target"),
        ("fit nix.csv --target y --out m", "nix.csv does not exist"),
        ("fit classes.csv --target nix --out m", "no column 'nix'; it has x, z, y"),
        ("fit classes.csv --target y --out m --drop nix", "no column 'nix'"),
        ("fit classes.csv --target y --out m --prior nix", "'nix' is not a prior"),
        ("fit classes.csv --target y --out m --net cnn", "'cnn' is not a network"),
        ("fit classes.csv --target y --out m --task nix", "nix"),
        ("fit classes.csv --target y --out m --engine nix", "nix"),
        ("fit classes.csv --target y --out m --steps 59", "--steps"),
        ("fit classes.csv --target y --out m --plausible 2", "--plausible"),
        ("fit classes.csv --target y --out m --calibration nix", "--calibration"),
        ("fit classes.csv --target y --out m --temperature 0", "--temperature"),
        ("fit classes.csv --target y --out classes", "--overwrite"),
        ("predict nix new.csv", "the model nix does not exist; name a folder that cbdl fit wrote"),
        ("predict new.csv new.csv", "not a folder"),
        ("predict classes nix.csv", "nix.csv does not exist"),
        ("predict classes new.csv --alpha 1", "--alpha"),
        ("predict classes new.csv --phi nan", "--phi"),
        ("predict classes new.csv --samples 0", "--samples"),
        ("predict classes new.csv --method nix", "--method"),
        ("predict classes new.csv --keep nix", "no column 'nix'"),
        ("predict classes new.csv --out p.txt", ".csv, .jsonl or .parquet"),
        ("predict classes new.csv --out nix/p.csv", "no folder"),
        ("predict classes new.csv --out new.csv", "the table itself"),
        ("evaluate classes new.csv", "no column 'y'"),
        ("info nix", "nix does not exist"),
        ("demo --out new.csv", "is a file"),
    ],
)
def test_a_usage_error_is_2_and_says_what_was_wrong(place, monkeypatch, arguments, said):
    monkeypatch.chdir(place)
    before = sorted(p.name for p in place.iterdir())
    code, out, err = called(*arguments.split())
    assert code == 2
    assert said in err
    assert out == "" or "paper's example" in out
    assert sorted(p.name for p in place.iterdir()) == before


def test_a_failure_is_1_and_leaves_nothing(place, tmp_path):
    bad = write(tmp_path / "bad.csv", "x,z", [1, 2, "oops"], [0, 0, 0])
    code, out, err = called("predict", place / "classes", bad, "--out", tmp_path / "p.csv")
    assert (code, out) == (1, "")
    assert "column 'x', row 3: 'oops' is not a finite number" in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.csv"]


def test_a_model_that_was_altered_is_refused(place, tmp_path):
    model = tmp_path / "m"
    model.mkdir()
    for file in (place / "classes").iterdir():
        (model / file.name).write_bytes(file.read_bytes())
    with open(model / "shared.safetensors", "r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    for command in (("info", model), ("predict", model, place / "new.csv")):
        code, out, err = called(*command)
        assert (code, out) == (1, "")
        assert "altered" in err


# --- processes --------------------------------------------------------------------------------------------


STOPPED = """
import os, signal
from cbdl.bayes.methods import mclmc
step = mclmc.Sampler.step

def counted(self, variables, gradient, rate, number):
    step(self, variables, gradient, rate, number)
    if number == 50:
        os.kill(os.getpid(), signal.SIGINT)

mclmc.Sampler.step = counted
from cbdl.cli import main
main()
"""
"""A `cbdl` whose user presses Ctrl-C after 50 steps."""


def test_a_stopped_fit_goes_on_to_the_same_model(place, tmp_path):
    arguments = ["fit", place / "line.csv", "--target", "y", *FAST]
    run = tmp_path / "m.run"
    stopped = process(*arguments, "--out", tmp_path / "m", code=STOPPED)
    out, err = stopped.communicate(timeout=60)
    assert (stopped.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert f"The run is kept in {run}" in err
    assert err.rstrip().endswith("--resume")
    assert [p.name for p in tmp_path.iterdir()] == ["m.run"]
    code, _, err = called(*arguments, "--out", tmp_path / "m")
    assert code == 2
    assert "--resume" in err
    code, _, err = called(*arguments, "--out", tmp_path / "m", "--resume", "--steps", "61")
    assert code == 1
    assert f"--resume goes on with the same table and the same options; to start again, delete {run}" in err
    code, out, _ = called(*arguments, "--out", tmp_path / "m", "--resume", "--json")
    assert code == 0
    assert not run.exists()
    code, whole, _ = called(*arguments, "--out", tmp_path / "n", "--json")
    first, second = (json.loads(text)["held_out"] for text in (out, whole))
    assert first.pop("baselines") == second.pop("baselines")
    assert first == pytest.approx(second, abs=1e-3)


MEASURED = """
import sys
from cbdl.cli import app
for table in sys.argv[3:]:
    app(["predict", sys.argv[1], table, "--out", sys.argv[2]], standalone_mode=False)
    with open("/proc/self/status") as file:
        print(*(line for line in file if line.startswith("VmHWM")), file=sys.stderr, end="")
"""
"""A `cbdl` that says after each table how much memory it used at most. (ru_maxrss counts that of the parent too.)"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to measure memory")
def test_predict_reads_a_file_in_bounded_memory(place, tmp_path):
    """Five times the file, the same memory."""
    tables = [tmp_path / f"{rows}.csv" for rows in (4_000, 20_000)]
    for path in tables:
        # text that is not used by the model makes the file large without making it slow
        with open(path, "w") as file:
            file.write("x,z,text\n")
            file.writelines(f"{i % 7},{i % 5},{'.' * 10_000}\n" for i in range(int(path.stem)))
    ran = process(place / "classes", tmp_path / "p.csv", *tables, code=MEASURED)
    out, err = ran.communicate(timeout=120)
    assert (ran.returncode, out) == (0, "".join(f"{tmp_path / 'p.csv'}: {p.stem} rows\n" for p in tables)), (
        err
    )
    used = [int(line.split()[1]) / 1024 for line in err.splitlines()]
    # MB; the larger file has 160 MB more; Arrow reads some blocks ahead, and an allocator keeps some of its own: up to
    # 50 MB were seen
    assert used[1] < used[0] + 90
    with open(tmp_path / "p.csv") as file:
        assert sum(1 for _ in file) == 20_001


def test_a_closed_pipe_is_not_an_accident(place, tmp_path):
    """As with `| head`: more answers than a pipe holds, and a reader that has seen enough after one line."""
    many = write(tmp_path / "many.csv", "x,z", np.linspace(-1, 1, 1500), np.linspace(1, -1, 1500))
    ran = process("predict", place / "classes", many)
    assert ran.stdout is not None
    assert ran.stderr is not None
    ran.stdout.readline()
    ran.stdout.close()
    err = ran.stderr.read()
    ran.stderr.close()
    assert ran.wait(timeout=60) == 0
    assert err == ""


@pytest.mark.parametrize(
    "command",
    [["evaluate", "classes", "classes.csv"], ["info", "classes"], ["data", "list"], ["fit", "--help"]],
)
def test_a_pipe_that_nobody_reads_is_not_an_accident(place, command):
    command = [place / word if word.startswith("classes") else word for word in command]
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(
        [sys.executable, "-m", "cbdl", *map(str, command)], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_ctrl_c_while_predicting_writes_nothing(place, tmp_path, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(answers, "answer_rows", interrupted)
    code, out, err = called("predict", place / "classes", place / "new.csv", "--out", tmp_path / "p.csv")
    assert (code, out) == (130, "")
    assert "Nothing was written" in err
    assert not list(tmp_path.iterdir())
