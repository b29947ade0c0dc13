"""MAPIE's conformal regions: around scikit-learn's models, and around the centre of the default model itself.

CV+ of five folds where there are at most 10,000 training rows, else split conformal with a fifth of them. The default
model is trained once more on four fifths of the training rows, and the last fifth calibrates (split conformal); for
classes by the scores LAC and, of more than two, APS.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

from cbdl.studies.tables import credal, peers, scores
from cbdl.studies.tables.contestant import MEASURES, Contestant, Stopped, Task, code
from cbdl.studies.tables.scores import ALPHA, Numbers
from cbdl.tables.files import Floats

PREFIX = "MAPIE"
CENTRE = "credal"
LEVEL = 1 - ALPHA


def run(name: str, task: Task) -> dict[str, Numbers]:
    """Conformal regions around one of scikit-learn's models."""
    with _mapie():
        return _intervals(name, task) if task.table.kind == "real" else _sets(name, task)


@contextmanager
def _mapie() -> Iterator[None]:
    """What MAPIE cannot do with a table is told, and the other contestants go on."""
    with warnings.catch_warnings():
        # of folds without a class, quantiles that cross, networks that a moment's run stops early
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            yield
        except ValueError as error:
            raise Stopped(f"MAPIE failed: {error}") from error


def _intervals(name: str, task: Task) -> dict[str, Numbers]:
    from mapie.regression import CrossConformalRegressor, SplitConformalRegressor

    table, estimator = task.table, peers.model(name, task)
    if len(table.X) <= peers.FEW:
        cross = CrossConformalRegressor(estimator, LEVEL, cv=_folds(task), random_state=task.seed)
        ends = cross.fit_conformalize(table.X, table.y).predict_interval(table.X_test)[1]
        return {f"{PREFIX} {name}": _interval(ends, task)}
    X, X_kept, y, y_kept = _parts(task)
    split = SplitConformalRegressor(estimator, LEVEL, prefit=False).fit(X, y).conformalize(X_kept, y_kept)
    return {f"{PREFIX} {name}": _interval(split.predict_interval(table.X_test)[1], task)}


def run_quantiles(task: Task) -> dict[str, Numbers]:
    """Conformalised quantile regression (CQR) with gradient boosting."""
    from mapie.regression import ConformalizedQuantileRegressor, CrossConformalizedQuantileRegressor

    table, small = task.table, {"max_iter": 5} if task.short else {}
    boosting = HistGradientBoostingRegressor(loss="quantile", quantile=0.5, random_state=task.seed, **small)
    with _mapie():
        if len(table.X) <= peers.FEW:
            cross = CrossConformalizedQuantileRegressor(boosting, LEVEL, cv=_folds(task))
            ends = cross.fit_conformalize(table.X, table.y).predict_interval(table.X_test)[1]
            return {f"{PREFIX} CQR {peers.BOOSTING}": _interval(ends, task)}
        X, X_kept, y, y_kept = _parts(task)
        split = ConformalizedQuantileRegressor(boosting, LEVEL).fit(X, y).conformalize(X_kept, y_kept)
        ends = split.predict_interval(table.X_test)[1]
    return {f"{PREFIX} CQR {peers.BOOSTING}": _interval(ends, task)}


def _sets(name: str, task: Task) -> dict[str, Numbers]:
    from mapie.classification import CrossConformalClassifier

    table, rows = task.table, {}
    for score in _scores(task):
        cross = CrossConformalClassifier(
            peers.model(name, task), LEVEL, score, cv=_folds(task), random_state=task.seed
        )
        masks = cross.fit_conformalize(table.X, table.y).predict_set(table.X_test)[1]
        rows[f"{PREFIX} {score.upper()} {name}"] = scores.sets(masks[:, :, 0], table.y_test)
    return rows


def run_credal(task: Task) -> dict[str, Numbers]:
    """Split conformal regions around the centre of the default model, trained on four fifths of the rows."""
    X, X_kept, y, y_kept = _parts(task)
    estimator, _ = credal.fitted(task, X, y, calibration=None)
    table, rows = task.table, {}
    with _mapie():
        if table.kind == "real":
            from mapie.regression import SplitConformalRegressor

            split = SplitConformalRegressor(estimator, LEVEL).conformalize(X_kept, y_kept)
            ends = split.predict_interval(table.X_test)[1]
            return {f"{PREFIX} {CENTRE}": _interval(ends, task)}
        from mapie.classification import SplitConformalClassifier

        for score in _scores(task):
            sets = SplitConformalClassifier(estimator, LEVEL, score, random_state=task.seed)
            masks = sets.conformalize(X_kept, y_kept).predict_set(table.X_test)[1]
            rows[f"{PREFIX} {score.upper()} {CENTRE}"] = scores.sets(masks[:, :, 0], table.y_test)
    return rows


def _scores(task: Task) -> tuple[str, ...]:
    """MAPIE's conformity scores; of two classes it has LAC only."""
    return ("lac", "aps") if task.table.classes > 2 else ("lac",)


def _folds(task: Task) -> Any:
    if task.table.kind == "real":
        return KFold(peers.FOLDS, shuffle=True, random_state=task.seed)
    return StratifiedKFold(peers.FOLDS, shuffle=True, random_state=task.seed)


def _parts(task: Task) -> Any:
    """Rows to train on and rows to calibrate with, of the training rows."""
    table = task.table
    if len(table.X) // peers.FOLDS <= 1 / ALPHA:
        raise Stopped("too few rows to calibrate with")
    strata = table.y if table.kind == "classes" else None
    return train_test_split(
        table.X, table.y, test_size=1 / peers.FOLDS, random_state=task.seed, stratify=strata
    )


def _interval(ends: Floats, task: Task) -> Numbers:
    """Scores of intervals (rows, 2, 1)."""
    lower, upper = np.asarray(ends)[:, 0, 0], np.asarray(ends)[:, 1, 0]
    return scores.interval(lower, upper, task.table.y_test, task.unit)


def _version() -> str | None:
    """None where MAPIE is not installed."""
    try:
        own = version("mapie")
    except PackageNotFoundError:
        return None
    return f"mapie {own}, {code('studies/tables/regions.py', 'studies/tables/peers.py', *MEASURES)}"


def _version_around_credal() -> str | None:
    own = _version()
    return None if own is None else f"{own}, {code(*credal.ROOMS)}"


CONTESTANTS = (
    *(
        Contestant(f"{PREFIX} {name}", ("real", "classes"), partial(run, name), _version)
        for name in (peers.MLP, peers.FOREST, peers.BOOSTING)
    ),
    Contestant(f"{PREFIX} CQR", ("real",), run_quantiles, _version),
    Contestant(
        f"{PREFIX} {CENTRE}", ("real", "classes"), run_credal, _version_around_credal, most=6_000, splits=1
    ),
)
