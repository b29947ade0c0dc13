"""Prediction in bounded memory, measured from outside: the peak of a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import resource, sys, threading, time
import numpy as np, torch, cbdl
torch.set_num_threads(1)
rows, limit = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
X = rng.normal(size=(40, 1, 28, 28)).astype(np.float32)
model = cbdl.CBDL(
    priors=[cbdl.priors.Normal(0, s) for s in (0.5, 1, 2, 4)],
    likelihoods=[cbdl.likelihoods.Categorical(cbdl.nets.lenet())],
    method=cbdl.MeanField(epochs=1), verbose=False).fit(X, np.arange(40) % 10)
model.predict(X[:2])
images = rng.normal(size=(rows, 1, 28, 28)).astype(np.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = model.predict(images, samples=20, max_memory=limit)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert found.probs.shape == (rows, 4, 10)
print((after - before) * 1024)
"""


def grown(rows, limit):
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(rows), str(limit)], capture_output=True, text=True, check=True
    )
    return int(run.stdout)


def answer(rows):
    """Bytes that go with the answer: inputs twice, averages and replicas in float64 twice."""
    return rows * (2 * 28 * 28 * 4 + 2 * 4 * 5 * 10 * 8)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="ru_maxrss is in bytes elsewhere")
@pytest.mark.parametrize("rows", [100, pytest.param(10_000, marks=pytest.mark.slow)])
def test_images_members_and_draws_stay_below_the_bound(rows):
    limit = 64 << 20
    assert grown(rows, limit) < limit + answer(rows)
