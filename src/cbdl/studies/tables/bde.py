"""Bayesian deep ensembles of the package `sklearn-contrib-bde`, where it is installed: 8 members of two layers of 16.

Settings are those of the package's own example of a regression. It needs jax, so it runs in another process: of the
interpreter that the environment's CBDL_BDE_PYTHON names, or of this one if it has the package.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from cbdl.baselines import from_draws
from cbdl.credal import MixtureCredalSet
from cbdl.studies.tables import scores
from cbdl.studies.tables.contestant import MEASURES, Contestant, Stopped, Task, code
from cbdl.studies.tables.scores import Numbers
from cbdl.tables.files import Floats

NAME = "bde"
VARIABLE = "CBDL_BDE_PYTHON"
PATIENCE = 3600
"""Seconds after which a run is given up."""
SETTINGS: dict[str, Any] = {
    "hidden_layers": [16, 16],
    "n_members": 8,
    "epochs": 200,
    "patience": 10,
    "validation_split": 0.15,
    "lr": 1e-3,
    "weight_decay": 1e-4,
    "warmup_steps": 5000,
    "n_samples": 2000,
    "n_thinning": 2,
}
SHORT = {"n_members": 2, "epochs": 5, "warmup_steps": 20, "n_samples": 10, "n_thinning": 1}
WORKER = Path(__file__).with_name("bde_worker.py")
ASK = "from importlib.metadata import version; print(version('sklearn-contrib-bde'))"


def python() -> str | None:
    """The interpreter that has the package; None if there is none."""
    if os.environ.get(VARIABLE):
        return os.environ[VARIABLE]
    return sys.executable if find_spec("bde") is not None else None


@cache
def _installed(interpreter: str) -> str | None:
    try:
        answer = subprocess.run([interpreter, "-c", ASK], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def version() -> str | None:
    """The version that will be run; None where it is not installed."""
    interpreter = python()
    own = None if interpreter is None else _installed(interpreter)
    rooms = ("studies/tables/bde.py", "studies/tables/bde_worker.py", *MEASURES)
    return None if own is None else f"bde {own}, {code(*rooms)}"


def answers(task: Task, asked: Floats, **more: Any) -> dict[str, Any]:
    """What bde says of the rows `asked`, and the seconds of its fit and its prediction."""
    settings = SETTINGS | {"seed": task.seed} | (SHORT if task.short else {}) | more
    real = task.table.kind == "real"
    with tempfile.TemporaryDirectory() as place:
        given, answer = Path(place) / "task.npz", Path(place) / "answer.npz"
        np.savez(given, X=task.table.X, y=task.table.y, asked=asked, real=real, settings=json.dumps(settings))
        # isolated: the folder of the script is not searched for modules, where `bde` would be this file
        command = [str(python()), "-I", str(WORKER), str(given), str(answer)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise Stopped(f"stopped after {PATIENCE} s") from None
        if done.returncode != 0:
            raise Stopped(f"failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
        with np.load(answer) as arrays:
            return {name: arrays[name] for name in arrays.files}


def run(task: Task) -> dict[str, Numbers]:
    """Fit in the other process, and score what it says of test rows and of foreign rows."""
    table, foreign = task.table, task.foreign()
    said = answers(task, np.concatenate([table.X_test, task.clean, *foreign.values()]))
    n = len(table.X_test)
    if table.kind == "real":
        one = MixtureCredalSet(said["loc"][:n, None], said["scale"][:n, None])
        numbers = scores.line(one, table.y_test)
        numbers |= scores.interval(said["ends"][0, :n], said["ends"][1, :n], table.y_test, task.unit)
        spread = said["loc"][n:].var(-1)
    else:
        numbers = scores.classes(said["probs"][:n].mean(1), table.y_test)
        spread = np.asarray(from_draws(said["probs"][n:]).epistemic)
    clean, *others = np.split(spread, len(foreign) + 1)
    numbers |= scores.detected(clean, dict(zip(foreign, others, strict=True)), values=False)
    fit, predict = map(float, said["seconds"])
    return {NAME: numbers | {"fit_seconds": fit, "predict_seconds": predict}}


CONTESTANTS = (
    Contestant(NAME, ("real",), run, version, profiles=("cpu", "paper"), most=50_000, splits=1),
    Contestant(NAME, ("classes",), run, version, profiles=("paper",)),
)
