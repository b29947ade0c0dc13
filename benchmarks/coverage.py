"""Do calibrated regions of real outcomes cover what they promise? `python -m benchmarks.coverage [first seed] [seeds]`.

Fits of the default regressor to made rows of three kinds, each asked about 4,000 fresh ones: Friedman's function with
constant noise; noise that grows with an input; heavy tails (Student's t with three degrees of freedom). `as needed`: at
the level that left-out rows needed of members that were trained without them; `carried`: at the level as
`cbdl.evaluate.carried` has it, which is what the estimators use. Coverage varies by about 0.015 (200 rows) and 0.008
(900 rows) from one fit to another.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import numpy as np
import torch
from sklearn.datasets import make_friedman1

from cbdl import CredalRegressor, engines
from cbdl.evaluate.conformal import conformity

FRESH = 4000
ROWS = (200, 900)
ALPHAS = (0.05, 0.2)
Rows = tuple[np.ndarray, np.ndarray]


def friedman(n: int, seed: int) -> Rows:
    return make_friedman1(n, 10, noise=1.0, random_state=seed)


def growing(n: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, np.sin(2 * X[:, 1]) + X[:, 2] + (0.1 + 0.5 * np.abs(X[:, 0])) * rng.normal(size=n)


def heavy(n: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.3 * rng.standard_t(3, size=n)


KINDS: dict[str, Callable[[int, int], Rows]] = {"friedman": friedman, "growing": growing, "heavy": heavy}


def compared(kind: str, n: int, seed: int) -> np.ndarray:
    """(2, alphas, 2): coverage and mean width of regions at the level as needed and as carried."""
    X, y = KINDS[kind](n + FRESH, seed)
    fitted = CredalRegressor(random_state=seed, engine=engines.Local()).fit(X[:n], y[:n])
    model, carried = fitted.model_, fitted.conformity_
    left = model.left_out("folds")
    sets = left.predictive.credal_set(model.learned.members, None)
    numbers = []
    for levels in (conformity(sets, y[:n][left.rows.numpy()], left.counts.numpy()), carried):
        fitted.conformity_ = levels
        for alpha in ALPHAS:
            lower, upper = fitted.predict_interval(X[n:], alpha)
            numbers.append((np.mean((lower <= y[n:]) & (y[n:] <= upper)), np.mean(upper - lower)))
    return np.reshape(numbers, (2, len(ALPHAS), 2))


def main(first: int, seeds: int) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print("kind rows: of 95 % and 80 % intervals, coverage and width; as needed -> carried")
    every = []
    for kind in KINDS:
        for n in ROWS:
            own = np.mean([compared(kind, n, first + i) for i in range(seeds)], 0)
            every.append(own)
            _show(f"{kind} {n}", own)
    _show("mean", np.mean(every, 0))


def _show(name: str, own: np.ndarray) -> None:
    parts = (
        f"{own[0, a, 0]:.3f} ({own[0, a, 1]:.2f}) -> {own[1, a, 0]:.3f} ({own[1, a, 1]:.2f})"
        for a in range(len(ALPHAS))
    )
    print(f"{name}: {'; '.join(parts)}", flush=True)


if __name__ == "__main__":
    main(*(int(text) for text in (*sys.argv[1:], *("0", "3")[len(sys.argv) - 1 :])))
