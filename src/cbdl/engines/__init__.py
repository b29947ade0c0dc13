"""Where cohorts are trained: in this process, in local processes, on a Ray cluster.

How the work is split changes nothing but rounding; the same split on the same number of threads gives the same
tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.methods.protocol import Method, Posterior
from cbdl.bayes.rows import TrainingData
from cbdl.bayes.train import Run

from .job import WorkerError
from .local import Local, Task, tasks
from .processes import Processes
from .ray_cluster import Ray

__all__ = ["Engine", "Local", "Method", "Processes", "Ray", "Task", "WorkerError", "tasks"]


class Engine(Protocol):
    """A place to train: tasks in, one (cohort, posterior) each out, in order."""

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
        """All tasks are checked before any trains. With `checkpoint_dir` the same call again goes on where the
        last one stopped, on this engine or on another.
        """
        ...
