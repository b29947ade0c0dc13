"""What an engine is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.methods.protocol import Method, Posterior
from cbdl.bayes.rows import TrainingData
from cbdl.bayes.train import Run

from .local import Task


@runtime_checkable
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


def check_engine(engine: Engine) -> Engine:
    """`engine`; a TypeError that lists the engines unless it is one."""
    if isinstance(engine, type) or not isinstance(engine, Engine):
        raise TypeError(
            f"engine is {engine!r}; give cbdl.engines.Local(), Processes() or Ray(), or an engine of your own "
            "(cbdl.engines.Engine)"
        )
    return engine
