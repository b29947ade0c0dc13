"""How a command's own process starts: what it leaves out, and that nothing of it stays."""

from __future__ import annotations

import gc
import subprocess
import sys

from cbdl.cli import start

OWN = """
import gc, sys
from cbdl.cli import start
start.own_process()
with start.imports():
    import json
    assert not gc.isenabled()
assert gc.isenabled() and gc.get_freeze_count() > 0
start.no_frames()
import pyarrow as pa
assert pa.array([1.0, 2.0]).to_numpy().tolist() == [1.0, 2.0] and pa.scalar("a").as_py() == "a"
assert "pandas" not in sys.modules
import pandas
assert pandas.DataFrame({"a": [1]}).shape == (1, 1)
"""


def test_the_process_of_a_command_looks_for_no_garbage_meanwhile_and_for_no_pandas() -> None:
    ran = subprocess.run([sys.executable, "-c", OWN], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_in_other_processes_everything_stays_as_it_is() -> None:
    finders, frozen = list(sys.meta_path), gc.get_freeze_count()
    with start.imports():
        assert gc.isenabled()
    start.no_frames()
    assert sys.meta_path == finders
    assert gc.get_freeze_count() == frozen


def test_a_stream_that_was_closed_leads_nowhere() -> None:
    """As by `>&-`; else the next file that is opened would take its place."""
    code = "import sys; sys.stdout = None; from cbdl.cli import start; start.open_streams(); print(sys.stdout.name)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    closed = f"{sys.executable} -m cbdl data list --json >&-"
    ran = subprocess.run(["sh", "-c", closed], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
