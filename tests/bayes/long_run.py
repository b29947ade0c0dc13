"""A training run that is killed five times with SIGKILL, each time in a process of its own, and once let be.

Usage: long_run.py DIRECTORY. Writes whole.safetensors (never killed) and resumed.safetensors there; prints the step of
the checkpoint that each kill left. Processes are forked from the one that was not killed, so that torch is imported and
warm once.
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

EPOCHS = 14


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 12), nn.BatchNorm1d(12), nn.Tanh(), nn.Dropout(0.1), nn.Linear(12, 1))


def train(path: Path, output: Path, tell: int) -> None:
    torch.set_num_threads(1)
    source = torch.Generator().manual_seed(0)
    x = torch.randn(120, 4, generator=source)
    y = x.sum(1).sin()
    made = data.prepare(x, y, space="real", validation=(x[:30] + 0.1, y[:30]))
    cohort = Cohort.of([priors.Normal(), priors.Laplace(0.0, 2.0)], likelihoods.Normal(net), made, seed=3)
    point = checkpoint.Checkpoint(path, every_steps=4)
    # one byte a step tells the parent how far this is
    run = Run(seed=3, checkpoint=point, stop=lambda: os.write(tell, b".") == 0)
    posterior = MeanField(epochs=EPOCHS, batch_size=16, patience=EPOCHS).fit(cohort, made, run)
    save_file(posterior.state(), output)


def spawn(path: Path, output: Path) -> tuple[int, int]:
    """A child that trains, and the end of a pipe from which its steps can be read."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        train(path, output, write)
        os._exit(0)
    os.close(write)
    return child, read


def main(directory: Path) -> None:
    _, ignored = os.pipe()
    train(directory / "whole", directory / "whole.safetensors", ignored)
    pick = random.Random(time.time_ns())
    path, output = directory / "killed", directory / "resumed.safetensors"
    for _ in range(5):
        child, steps = spawn(path, output)
        for _ in range(pick.randint(0, 12)):
            os.read(steps, 1)
        time.sleep(pick.uniform(0.0, 0.01))
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "the run ended before it was killed"
        print(checkpoint.read(path)[1]["step"] if path.exists() else 0, flush=True)
    child, _ = spawn(path, output)
    assert os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
