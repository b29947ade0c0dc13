"""A run that is killed and resumed gives the same bits as one that was not: the one promise of equal bits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cbdl.bayes.checkpoint import Checkpoint
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.methods.protocol import Method, Posterior
from cbdl.bayes.rows import TrainingData
from cbdl.bayes.train import Interrupted, Run


class StopAfter:
    """Asks a run to stop after so many steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def __call__(self) -> bool:
        self.left -= 1
        return self.left <= 0


def assert_resumes(
    method: Method,
    cohort: Cohort,
    data: TrainingData,
    folder: Path,
    *steps: int,
    message: str = "same call again",
) -> tuple[Posterior, Posterior]:
    """Stopped after each number of steps and resumed, `method` leaves the state of a run that was not stopped.

    Returns that of the whole run, and the last that was resumed.
    """
    whole = resumed = method.fit(cohort, data, Run())
    for step in steps:
        path = folder / f"stopped-after-{step}"
        with pytest.raises(Interrupted, match=message):
            method.fit(cohort, data, Run(checkpoint=Checkpoint(path), stop=StopAfter(step)))
        resumed = method.fit(cohort, data, Run(checkpoint=Checkpoint(path)))
        own, other = whole.state(), resumed.state()
        assert own.keys() == other.keys()
        assert all(torch.equal(own[name], other[name]) for name in own), step
    return whole, resumed
