"""The engine of who names none: this process, or for long sampling one process per core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.methods.protocol import Method, Posterior
from cbdl.bayes.rows import TrainingData
from cbdl.bayes.train import Run

from .cores import cores
from .job import Unsendable
from .local import Local, Task
from .processes import Processes

CALL = 3e6
"""Rows times parameters of a gradient whose arithmetic takes as long as all that is around it."""
LONG = 1.5e10
"""Rows times parameters that are worth the start of processes: about 6 s of one core."""


@dataclass(frozen=True)
class Auto:
    """Chains of small networks are many small operations, of which one process keeps one core busy; so where they would
    take long, each core gets a process, as many as torch may use threads. Anything else is trained in this process.
    """

    def train(
        self,
        todo: Sequence[Task],
        data: TrainingData,
        method: Method,
        run: Run,
        *,
        checkpoint_dir: Path | str | None = None,
        every_seconds: float = 60.0,
    ) -> list[tuple[Cohort, Posterior]]:
        """Train every task; one (cohort, posterior) each, in order."""

        def by(engine: Local | Processes) -> list[tuple[Cohort, Posterior]]:
            return engine.train(
                todo, data, method, run, checkpoint_dir=checkpoint_dir, every_seconds=every_seconds
            )

        try:
            return by(self._engine(todo, data, method))
        except Unsendable:
            return by(Local())

    def _engine(self, todo: Sequence[Task], data: TrainingData, method: Method) -> Local | Processes:
        workers = min(cores(), torch.get_num_threads())
        gradients, rows = method.effort(data)
        if workers == 1 or gradients == 0 or data.held.x.device.type != "cpu":
            return Local()
        parameters = (len(t.members) * t.only(t.members[:1]).cohort(data).layout.size for t in todo)
        work = sum(rows * p + gradients * CALL for p in parameters)
        return Processes(workers) if work > LONG else Local()
