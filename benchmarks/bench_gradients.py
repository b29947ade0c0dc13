"""Potentials of small networks and their gradients, as samplers ask for them: compiled loops against tensor operations.

One thread, process time, both sides in turns, for networks of the default model and chains that are moved together. The
peer is `cbdl.bayes.wide`: gradients written out, batched products over all chains, memory lent from step to step.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from benchmarks._table import Row
from cbdl.bayes import compiled, likelihoods
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import prepare
from cbdl.bayes.methods.mclmc import MCLMC, Sampler
from cbdl.bayes.priors import Normal
from cbdl.nets import mlp

REPEATS, CALLS = 15, 10
CASES = (
    # rows, features, hidden, chains, classes, promise
    (691, 8, (16, 16), 4, 0, 1.3),
    (128, 8, (16, 16), 24, 0, 1.3),
    (691, 8, (16, 16), 24, 0, 1.0),
    (1200, 5, (16,) * 4, 24, 0, 1.0),
    (1437, 64, (16,) * 3, 12, 10, 1.0),
)


def rows() -> list[Row]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_row(*case) for case in CASES]
    finally:
        torch.set_num_threads(before)


def _row(
    count: int, features: int, hidden: tuple[int, ...], chains: int, classes: int, promise: float
) -> Row:
    sampler = _sampler(count, features, hidden, chains, classes)
    assert sampler.kernel is not None, "numba is not installed"
    kernel, place = sampler.kernel, sampler.place.clone()

    def ours() -> None:
        sampler.kernel = kernel
        sampler.potential(place, None)

    def peer() -> None:
        sampler.kernel = None
        sampler.potential(place, None)

    seconds, peer_seconds = _in_turns(ours, peer)
    shape = "-".join(map(str, (features, *hidden, classes or 2)))
    return Row(
        f"gradients of {chains} chains, {count} rows, {shape}",
        seconds,
        "tensor operations, gradients written out",
        peer_seconds,
        promise,
        f"{1e3 * seconds:.2f} ms, {1e3 * peer_seconds:.2f} ms",
    )


def _sampler(count: int, features: int, hidden: tuple[int, ...], chains: int, classes: int) -> Sampler:
    source = torch.Generator().manual_seed(0)
    X = torch.randn(count, features, generator=source, dtype=torch.float64)
    net = mlp(features, classes or 2, hidden, activation="silu")
    if classes:
        y, own = torch.randint(0, classes, (count,), generator=source), likelihoods.Categorical(net)
    else:
        y, own = X[:, 0].sin(), likelihoods.Normal(net, "heteroscedastic")  # type: ignore[assignment]
    data = prepare(X, y, space=own.space, dtype=torch.float32)
    cohort = Cohort.of([Normal(0.0, 1.0)], own, data)
    method = MCLMC(chains=chains, warmup=max(20, compiled.LONG))
    return Sampler(method, cohort, data)


def _in_turns(ours: Callable[[], None], peer: Callable[[], None]) -> tuple[float, float]:
    """Process seconds of a call of each, the fastest of several."""
    best = [float("inf"), float("inf")]
    for _ in range(REPEATS):
        for i, call in enumerate((ours, peer)):
            call()
            start = time.process_time()
            for _ in range(CALLS):
                call()
            best[i] = min(best[i], (time.process_time() - start) / CALLS)
    return best[0], best[1]
