"""How good a model is on rows whose outcomes are known: its scores, and the simplest models beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cbdl.credal import CredalSet
from cbdl.evaluate.calibration import log_loss
from cbdl.evaluate.real import log_density_loss
from cbdl.model import load
from cbdl.store import read_manifest
from cbdl.tables.answers import (
    Options,
    Trained,
    conformity_of,
    credal_sets,
    decisions,
    described,
    prepared,
    with_gaps,
)
from cbdl.tables.encoding import Encoded
from cbdl.tables.errors import UsageError
from cbdl.tables.files import ROWS, Dialect, Floats, chunks, names
from cbdl.tables.target import Labels

ENOUGH = {"classification": 2000, "regression": 500}
"""Held-out rows that are scored at most after a training; more would take longer than the training did."""
FLOOR = 64
"""Rows over which the floor, which of mixtures costs more than all the rest, is averaged."""


def evaluate(
    trained: Trained, path: str | Path, options: Options, dialect: Dialect | None = None
) -> dict[str, Any]:
    """Scores on a table that holds the target; the file may be larger than memory."""
    here = names(path, dialect)
    if trained.target.name not in here:
        raise UsageError(f"{path} has no column {trained.target.name!r}, the target; evaluation needs it")
    only = {trained.target.name, *(c.name for c in trained.columns)}
    imputed = 0

    def blocks() -> Iterator[tuple[Encoded, Labels]]:
        nonlocal imputed
        first = 1
        for chunk in chunks(path, ROWS, dialect=dialect, only=only):
            own = with_gaps(trained, chunk, options, first, here)
            rows = prepared(trained, own, options, first)
            imputed += int((own.missing & ~rows.missing).any(1).sum())
            yield rows, trained.target.encode(chunk[trained.target.name], first)
            first += len(rows)

    means = scores(trained, blocks(), options)
    return means | ({"imputed": imputed} if imputed else {})


def known(value: float) -> float | None:
    """A number for JSON: None where it is unknown (nan) or infinite."""
    return float(value) if np.isfinite(value) else None


def scores(trained: Trained, blocks: Iterable[tuple[Encoded, Labels]], options: Options) -> dict[str, Any]:
    """Means over all rows; the floor over the first of them."""
    sums: dict[str, float] = {}
    rows, unknown, missing, floor = 0, 0, 0, np.nan
    for encoded, y in blocks:
        # of classes the floor is computed with the set or not at all
        asked = replace(options, floor=bool(np.isnan(floor)))
        for some, credal in credal_sets(trained, encoded, asked):
            for name, values in _judged(trained, credal, y[some], options).items():
                sums[name] = sums.get(name, 0.0) + float(np.sum(values))
            if np.isnan(floor):
                floor = float(np.mean(np.asarray(credal[:FLOOR].floor)))
        rows += len(encoded)
        unknown += int(encoded.unknown.any(1).sum())
        missing += int(encoded.missing.any(1).sum())
    means = {name: total / rows for name, total in sums.items()}
    if "rmse" in means:
        means["rmse"] = float(np.sqrt(means["rmse"]))
    means = {name: known(value) for name, value in means.items()}  # type: ignore[misc]
    gaps = {"unknown": unknown, "missing": missing}
    return {"rows": rows, "alpha": options.alpha, **means, "floor": known(floor), **gaps}


def _judged(trained: Trained, credal: CredalSet, y: Labels, options: Options) -> dict[str, Any]:
    """For each row: was the decision right (or its squared error), how surprising was the outcome, is it covered;
    sizes and uncertainties."""
    split, region = credal.uncertainty(), trained.region(credal, options)
    chosen = decisions(credal, options.decision)
    if trained.classifies:
        right = {"accuracy": chosen == y, "nll": log_loss(np.asarray(credal.probs).mean(-2), y)}
        right["vacuous"] = np.asarray(region.measure) >= len(trained.target.classes)
    else:
        right = {"rmse": (chosen - y) ** 2, "nll": log_density_loss(credal, y)}
        right["vacuous"] = np.isinf(np.asarray(region.measure))
    abstained = {} if options.phi is None else {"abstained": np.asarray(split.aleatoric) > options.phi}
    return {
        **right,
        "coverage": region.contains(y),
        "size": region.measure,
        "aleatoric": split.aleatoric,
        "epistemic": split.epistemic,
        **abstained,
    }


def baselines(trained: Trained, train: tuple[Floats, Labels], test: tuple[Floats, Labels]) -> dict[str, Any]:
    """The same scores of the mean or the majority, and of ridge or logistic regression."""
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    (X, y), (X_new, y_new) = train, test
    if trained.classifies:
        share = np.bincount(y, minlength=len(trained.target.classes)) / len(y)
        often = np.broadcast_to(share, (len(y_new), len(share)))
        fitted = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X, y)
        own = np.zeros_like(often)
        own[:, fitted[-1].classes_] = fitted.predict_proba(X_new)
        return {
            "majority": _of_classes(often, y_new),
            "logistic regression": _of_classes(own, y_new),
        }
    line = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))).fit(X, y)
    spread = float(np.std(y - line.predict(X)))
    return {
        "mean": _of_numbers(np.full(len(y_new), y.mean()), float(y.std()), y_new),
        "ridge regression": _of_numbers(line.predict(X_new), spread, y_new),
    }


def _of_classes(probs: Floats, y: Labels) -> dict[str, float | None]:
    with np.errstate(divide="ignore"):
        nll = float(np.mean(log_loss(probs, y)))
    return {"accuracy": float(np.mean(probs.argmax(1) == y)), "nll": known(nll)}


def _of_numbers(mean: Floats, deviation: float, y: Labels) -> dict[str, float | None]:
    """Of Normals with one deviation, that of the training errors."""
    with np.errstate(divide="ignore"):
        nll = np.log(deviation) + np.mean(np.square((y - mean) / deviation)) / 2 + np.log(2 * np.pi) / 2
    return {"rmse": float(np.sqrt(np.mean(np.square(mean - y)))), "nll": known(float(nll))}


def info(folder: str | Path) -> dict[str, Any]:
    """What a saved model is; all its files are checked against their sums on the way."""
    described(folder)
    manifest = read_manifest(folder)
    own = any(q.get("net", {}).get("type") == "user-net" for q in manifest["likelihoods"])
    learned = None if own else load(folder).learned
    about = ("format", "cbdl", "torch", "space", "rows", "seed")
    parts = (*about, "priors", "likelihoods", "method", "extra", "files")
    summary: dict[str, Any] = {name: manifest[name] for name in parts}
    if "columns" in manifest["extra"]:
        levels = conformity_of(folder, manifest["extra"])
        kept = {form: {"outcomes": len(own.counts), "how": own.how} for form, own in levels.items()}
        summary["extra"] = {**manifest["extra"], "conformity": kept}
    summary["members"] = sum(len(part["members"]) for part in manifest["parts"])
    if learned is not None and learned.chains > 1:  # more than the method's where refuted members left theirs
        summary["kept"] = {"chains": learned.chains, "draws": learned.distinct}
    return {"model": str(folder), **summary, "checked": not own}
