"""What an engine is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.methods.protocol import Method, Posterior
from cbdl.bayes.rows import TrainingData
from cbdl.bayes.train import Run

from .local import Task


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
