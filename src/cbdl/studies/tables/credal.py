"""The default model with its own defaults and nothing else: calibrated regions, and the plain IHDR beside them."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from cbdl.bayes.methods import MCLMC
from cbdl.bayes.plausible import GridWarning
from cbdl.bayes.priors import Normal
from cbdl.bayes.train import TrainingWarning
from cbdl.credal import CredalSet
from cbdl.estimators import CredalClassifier, CredalRegressor
from cbdl.studies.methods.tables import Table
from cbdl.studies.tables import scores
from cbdl.studies.tables.bde import SETTINGS as bde
from cbdl.studies.tables.contestant import Contestant, Task, versions
from cbdl.studies.tables.scores import ALPHA, LEAST, Numbers
from cbdl.tables.files import Floats

NAME = "credal"
PLAIN = "credal, plain"
RACE = "credal as bde"
SHORT = 60
"""Steps of a moment's run."""
ROOMS = (
    "bayes",
    "credal",
    "engines",
    "estimators",
    "evaluate",
    "steps",
    "model.py",
    "nets",
    "prediction.py",
    "recipe.py",
    "studies/tables/credal.py",
)


def model(task: Task, **more: Any) -> Any:
    """The estimator with its defaults; a moment's run has fewer steps."""
    kind: Any = CredalRegressor if task.table.kind == "real" else CredalClassifier
    steps = {"steps": SHORT} if task.short else {}
    return kind(random_state=task.seed, **steps, **more)


def fitted(task: Task, X: Floats, y: Any, **more: Any) -> tuple[Any, float]:
    """The trained estimator, and the seconds that it took."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        # members that are refuted, chains that were lost, a grid that ends too soon: the numbers tell what came of it
        for kind in (TrainingWarning, GridWarning):
            warnings.simplefilter("ignore", kind)
        estimator = model(task, **more).fit(X, y)
    return estimator, time.perf_counter() - start


def run(task: Task) -> dict[str, Numbers]:
    """Fit, predict and score: a row with calibrated regions, and one with plain ones."""
    table = task.table
    estimator, seconds = fitted(task, table.X, table.y)
    prediction = estimator.predict_credal(table.X_test)
    start = time.perf_counter()
    calibrated = _regions(estimator, table, task.unit)
    timed = {"fit_seconds": seconds, "predict_seconds": time.perf_counter() - start}
    point = _line(prediction, table.y_test) if table.kind == "real" else _classes(prediction, table.y_test)
    common = point | {"members": float(prediction.num_extremes)}
    unsure = _unsure(estimator, task)
    plain = _regions(estimator, table, task.unit, calibration=None)
    return {NAME: common | calibrated | unsure | timed, PLAIN: common | plain}


def _regions(estimator: Any, table: Table, unit: float, **how: Any) -> Numbers:
    if table.kind == "real":
        lower, upper = estimator.predict_interval(table.X_test, ALPHA, **how)
        return scores.interval(lower, upper, table.y_test, unit)
    return scores.sets(estimator.predict_set(table.X_test, ALPHA, **how), table.y_test)


def _line(prediction: CredalSet, y: Floats) -> Numbers:
    """Scores of the centre, and the NLL of the best and the worst member."""
    members = -np.asarray(prediction.log_density(y)).mean(0)  # type: ignore[attr-defined]
    return scores.line(prediction, y) | _range(members)


def _classes(prediction: CredalSet, y: Any) -> Numbers:
    probs = np.asarray(prediction.probs)
    members = -np.log(probs[np.arange(len(y)), :, y].clip(LEAST)).mean(0)
    return scores.classes(probs.mean(1), y) | _range(members)


def _range(members: Floats) -> Numbers:
    return {"nll_best": float(members.min()), "nll_worst": float(members.max())}


def _unsure(estimator: Any, task: Task) -> Numbers:
    """How well two kinds of ignorance tell foreign rows: that between members, and the most that one of them has."""
    clean = estimator.predict_credal(task.clean)
    foreign = {name: estimator.predict_credal(X) for name, X in task.foreign().items()}
    numbers = scores.detected(_epistemic(clean), {name: _epistemic(own) for name, own in foreign.items()})
    floor = np.asarray(clean.floor, dtype=float)
    if np.isfinite(floor).all():  # a moment's run has too few draws to tell
        numbers["floor"] = float(floor.mean())
    doubt = scores.detected(_doubt(clean), {name: _doubt(own) for name, own in foreign.items()}, values=False)
    return numbers | {f"doubt_{name}": value for name, value in doubt.items()}


def _epistemic(prediction: CredalSet) -> Floats:
    return np.asarray(prediction.uncertainty().epistemic)


def _doubt(prediction: CredalSet) -> Floats:
    return np.asarray(prediction.decomposition().doubt_upper)


def run_race(task: Task) -> dict[str, Numbers]:
    """One prior, one noise model, and the networks, chains and steps of `cbdl.studies.tables.bde.SETTINGS`."""
    table = task.table
    method = MCLMC(
        chains=bde["n_members"],
        optimise=bde["epochs"],
        warmup=bde["warmup_steps"],
        draws=bde["n_samples"] // bde["n_thinning"],
        thin=bde["n_thinning"],
    )
    one: dict[str, Any] = {
        "priors": [Normal(0.0, 1.0)],
        "noise": "heteroscedastic",
        "method": method,
        "architectures": (tuple(bde["hidden_layers"]),),
    }
    estimator, seconds = fitted(task, table.X, table.y, **one, plausible=0.0, calibration=None)
    prediction = estimator.predict_credal(table.X_test)
    return {RACE: scores.line(prediction, table.y_test) | {"fit_seconds": seconds}}


CONTESTANTS = (
    Contestant(NAME, ("real", "classes"), run, versions(*ROOMS)),
    Contestant(
        RACE,
        ("real",),
        run_race,
        versions(*ROOMS),
        profiles=("cpu", "paper"),
        tables=("energy", "diabetes"),
        splits=1,
    ),
)
