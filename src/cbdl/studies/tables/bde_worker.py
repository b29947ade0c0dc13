"""Bayesian deep ensembles (`sklearn-contrib-bde`) in an interpreter of their own: reads a task, writes predictions.

Run as a script, `python bde_worker.py TASK.npz ANSWER.npz`; it imports nothing of this package, because jax and torch
need not be installed in the same place.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

DRAWS = 100
"""Draws of every member that are handed back, evenly thinned."""


def main(task: str, answer: str) -> None:
    """Standardise by the training rows, fit, and predict the rows that are asked for."""
    count = os.cpu_count() or 1
    os.environ.setdefault("XLA_FLAGS", f"--xla_force_host_platform_device_count={count}")
    import numpy as np

    given = np.load(task)
    settings = json.loads(str(given["settings"]))
    X, y, asked = given["X"], given["y"], given["asked"]
    loc, scale = X.mean(0), X.std(0) + 1e-8
    X, asked = (X - loc) / scale, (asked - loc) / scale
    say = _line if given["real"] else _classes
    np.savez(answer, **say(np, settings, X, y, asked))


def _line(np: Any, settings: Any, X: Any, y: Any, asked: Any) -> Any:
    from bde import BdeRegressor
    from bde.loss import GaussianNLL

    loc, scale = y.mean(), y.std() + 1e-8
    start = time.perf_counter()
    model = BdeRegressor(**settings, loss=GaussianNLL()).fit(x=X, y=(y - loc) / scale)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    raw = _thinned(np, model.predict(asked, raw=True)).reshape(-1, len(asked), 2)
    ends = np.asarray(model.predict(asked, credible_intervals=[0.025, 0.975])[1], dtype=float)
    noise = np.logaddexp(0, raw[..., 1]) + 1e-6
    return {
        "loc": (loc + scale * raw[..., 0]).T,
        "scale": (scale * noise).T,
        "ends": loc + scale * ends,
        "seconds": [seconds, time.perf_counter() - start],
    }


def _classes(np: Any, settings: Any, X: Any, y: Any, asked: Any) -> Any:
    from bde import BdeClassifier
    from bde.loss import CategoricalCrossEntropy

    start = time.perf_counter()
    model = BdeClassifier(**settings, loss=CategoricalCrossEntropy())
    model.fit(x=X.astype("float32"), y=y.astype("int32"))
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    raw = _thinned(np, model.predict(asked.astype("float32"), raw=True))
    raw = raw.reshape(-1, len(asked), raw.shape[-1])
    odds = np.exp(raw - raw.max(-1, keepdims=True))
    probs = (odds / odds.sum(-1, keepdims=True)).transpose(1, 0, 2)
    return {"probs": probs, "seconds": [seconds, time.perf_counter() - start]}


def _thinned(np: Any, raw: Any) -> Any:
    """(members, draws, rows, outputs) with at most DRAWS draws."""
    raw = np.asarray(raw, dtype=float)
    every = max(1, raw.shape[1] // DRAWS)
    return raw[:, ::every][:, :DRAWS]


if __name__ == "__main__":
    main(*sys.argv[1:3])
