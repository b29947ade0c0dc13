"""The README's commands, and the examples of every --help, do what they say."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from calls import called
from cbdl.cli import app

ROOT = Path(__file__).parent.parent
COMMANDS = re.findall(r"^\$ (.+)$", (ROOT / "README.md").read_text(), re.M)


def test_the_commands_of_the_readme_run_in_order(tmp_path, monkeypatch):
    assert len(COMMANDS) >= 5
    monkeypatch.chdir(tmp_path)
    bin_ = Path(sys.executable).parent
    for command in COMMANDS:
        first, *words = shlex.split(command)
        # one `cbdl` of its own, as a person starts it; the others in this process: starts take long
        if first == "cbdl" and words[0] != "info":
            code, out, err = called(*words)
        else:
            run = subprocess.run([bin_ / first, *words], capture_output=True, text=True, timeout=300)
            code, out, err = run.returncode, run.stdout, run.stderr
        assert code == 0, f"{command}\n{out}\n{err}"
    answers = (tmp_path / "answers.csv").read_text().splitlines()
    assert len(answers) == 151


def test_every_command_has_help_with_an_example():
    runner = CliRunner()
    overview = runner.invoke(app, ["--help"]).output
    for name in ("fit", "predict", "evaluate", "info", "demo"):
        assert name in overview
        shown = runner.invoke(app, [name, "--help"])
        assert shown.exit_code == 0
        assert re.search(rf"Example.*cbdl {name}", shown.output, re.S)
        assert "--json" in shown.output


def test_the_two_commands_of_the_readme_are_targets_of_the_makefile():
    text = (ROOT / "README.md").read_text()
    targets = (ROOT / "Makefile").read_text()
    for name in re.findall(r"^make (\w+)", text, re.M):
        assert re.search(rf"^{name}:", targets, re.M)
