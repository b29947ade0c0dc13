"""A training run that is killed five times with SIGKILL, each time in a process of its own, and once let be.

Usage: long_run.py DIRECTORY. Writes whole.safetensors (never killed) and resumed.safetensors there; prints the step of
the checkpoint that each kill left. Processes are forked, so that torch is imported once.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from cbdl.bayes import checkpoint, data, likelihoods, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.methods.mean_field import MeanField
from cbdl.bayes.train import Run


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 12), nn.BatchNorm1d(12), nn.Tanh(), nn.Dropout(0.1), nn.Linear(12, 1))


def train(path: Path, output: Path) -> None:
    torch.set_num_threads(1)
    source = torch.Generator().manual_seed(0)
    x = torch.randn(120, 4, generator=source)
    y = x.sum(1).sin()
    made = data.prepare(x, y, space="real", validation=(x[:30] + 0.1, y[:30]))
    cohort = Cohort.of([priors.Normal(), priors.Laplace(0.0, 2.0)], likelihoods.Normal(net), made, seed=3)
    run = Run(seed=3, checkpoint=checkpoint.Checkpoint(path, every_steps=9))
    posterior = MeanField(epochs=40, batch_size=16, patience=30).fit(cohort, made, run)
    save_file(posterior.state(), output)


def spawn(path: Path, output: Path) -> int:
    child = os.fork()
    if child == 0:
        train(path, output)
        os._exit(0)
    return child


def main(directory: Path) -> None:
    begin = time.monotonic()
    _, status = os.waitpid(spawn(directory / "whole", directory / "whole.safetensors"), 0)
    assert status == 0
    whole = time.monotonic() - begin
    pick = random.Random(time.time_ns())
    path, output = directory / "killed", directory / "resumed.safetensors"
    for _ in range(5):
        child = spawn(path, output)
        time.sleep(pick.uniform(0.02, 0.18) * whole)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the run ended before it was killed"
        print(checkpoint.read(path)[1]["step"] if path.exists() else 0, flush=True)
    _, status = os.waitpid(spawn(path, output), 0)
    assert status == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
