"""Answers at the speed of their densities: the kernels against plain numpy passes over the same numbers.

The line: 300 sets of 6 mixtures of 32 Normals; the unit is the evaluation of all these densities on 512 nodes, set by
set, by numpy. Classes: 400 sets of 20 distributions over 1,000 classes; the unit is one pass of p log p. R^d: 200 sets
of 4 Normals in R^120; the unit is the matrix product that gives the squared distances of 1,024 points from all of them.
One thread, process time, both sides in turns, the best of several runs; every call starts from a new set, so that
nothing is kept from the last one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks._table import Row
from cbdl import CategoricalCredalSet, DiagonalNormalCredalSet, MixtureCredalSet

SETS, MEMBERS, DRAWS, NODES, ALPHA = 300, 6, 32, 512, 0.05
REPEATS = 5


def mixtures(sets: int = SETS) -> tuple[np.ndarray, np.ndarray]:
    """Predictive mixtures of members that differ by one unit, draws by half of one, scales from 0.3 to 1."""
    rng = np.random.default_rng(0)
    loc = rng.normal(0, 1, (sets, MEMBERS, 1)) + rng.normal(0, 0.5, (sets, MEMBERS, DRAWS))
    return loc, rng.uniform(0.3, 1.0, loc.shape)


def densities(loc: np.ndarray, scale: np.ndarray) -> None:
    y = np.linspace(-6, 6, NODES)
    for mu, s in zip(loc[..., None], scale[..., None], strict=True):
        z = (y - mu) / s
        (np.exp(-0.5 * z * z) / (s * np.sqrt(2 * np.pi))).mean(-2)


def alternate(*jobs: Callable[[], object]) -> list[float]:
    """Process seconds of the fastest of several runs of each job, taken in turns after a first one of each."""
    best = [float("inf")] * len(jobs)
    for job in jobs:
        job()
    for _ in range(REPEATS):
        for i, job in enumerate(jobs):
            start = time.process_time()
            job()
            best[i] = min(best[i], time.process_time() - start)
    return best


def table(
    what: str, unit: str, peer: Callable[[], object], jobs: list[tuple[str, Callable[[], object], float, str]]
) -> list[Row]:
    """One row per job: name, call, the promised ratio unit / job, and a note."""
    base, *seconds = alternate(peer, *(job for _, job, _, _ in jobs))
    return [
        Row(f"{name}, {what}", own, unit, base, target, note)
        for (name, _, target, note), own in zip(jobs, seconds, strict=True)
    ]


def line() -> list[Row]:
    loc, scale = mixtures()

    def new() -> MixtureCredalSet:
        return MixtureCredalSet(loc, scale)

    jobs: list[tuple[str, Callable[[], object], float, str]] = [
        ("uncertainty", lambda: new().uncertainty(), 1, ""),
        ("minimal region", lambda: new().region(ALPHA, "minimal"), 0.5, ""),
        ("maximin", lambda: new().decide("maximin"), 1.5, "goal 2, reached on a quiet machine"),
        ("union", lambda: new().region(ALPHA), 2, "goal 4"),
    ]
    what = f"{SETS} sets, m={MEMBERS}, M={DRAWS}"
    return table(what, f"numpy densities, {NODES} nodes", lambda: densities(loc, scale), jobs)


def classes(sets: int = 400, m: int = 20, J: int = 1000) -> list[Row]:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (sets, 1, J)) + rng.normal(0, 1, (sets, m, J))
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    jobs: list[tuple[str, Callable[[], object], float, str]] = [
        ("uncertainty", lambda: CategoricalCredalSet(p).uncertainty(), 0.05, ""),
        ("union", lambda: CategoricalCredalSet(p).region(ALPHA), 0.15, ""),
    ]
    return table(f"{sets} sets, m={m}, J={J}", "numpy p log p", lambda: p * np.log(p), jobs)


def space(sets: int = 200, m: int = 4, d: int = 120, points: int = 1024) -> list[Row]:
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(0, 0.3, (sets, m, d)), rng.uniform(0.5, 1.5, (sets, m, d))
    left, right = rng.normal(size=(sets * m * m, 2 * d)), rng.normal(size=(2 * d, points))

    def new() -> DiagonalNormalCredalSet:
        return DiagonalNormalCredalSet(loc, scale)

    jobs: list[tuple[str, Callable[[], object], float, str]] = [
        ("uncertainty", lambda: new().uncertainty(), 0.02, ""),
        ("box", lambda: new().region(ALPHA, "box"), 0.1, ""),
        ("union", lambda: new().region(ALPHA), 0.05, ""),
    ]
    return table(f"{sets} sets, m={m}, d={d}", "numpy distances", lambda: left @ right, jobs)


def rows() -> list[Row]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [*line(), *classes(), *space()]
    finally:
        torch.set_num_threads(threads)
