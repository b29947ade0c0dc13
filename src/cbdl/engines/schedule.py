"""The course of a run over several workers: which groups wait, who is tried again, and how it all ends."""

from __future__ import annotations

import logging
import warnings
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.methods.protocol import Method, Posterior
from cbdl.bayes.rows import TrainingData
from cbdl.bayes.train import Interrupted, Run, TrainingWarning

from .board import Board
from .job import Job, Outcome, WorkerError, settings_here
from .local import Task
from .split import Group, Trained, split, together

log = logging.getLogger("cbdl")
FULL = 8
"""Members that keep a worker busy: with fewer at a time it waits for operations to start, rather than to end."""


@dataclass(frozen=True)
class Work:
    """Everything about a run that does not depend on where it runs: cohorts (checked), groups, encoded jobs."""

    cohorts: list[Cohort]
    groups: list[Group]
    labels: list[str]
    jobs: list[bytes]

    @classmethod
    def of(
        cls,
        todo: Sequence[Task],
        data: TrainingData,
        method: Method,
        run: Run,
        *,
        workers: int,
        threads: int,
        checkpoint_dir: Path | str | None,
        scratch: str,
        every_seconds: float,
    ) -> Work:
        """Checkpoints go to `scratch` if the user wants none: a worker that dies still resumes from there."""
        cohorts = [task.cohort(data) for task in todo]
        groups = split(todo, _pieces(todo, workers), checkpoint_dir)
        labels = [group.label(todo) for group in groups]
        directory = scratch if checkpoint_dir is None else str(Path(checkpoint_dir).absolute())
        settings = settings_here()
        jobs = [
            Job(
                label=label,
                task=group.task(todo),
                method=method,
                directory=directory,
                keep=checkpoint_dir is not None,
                every_seconds=every_seconds,
                verbose=run.verbose,
                threads=threads,
                settings=settings,
            ).encode()
            for group, label in zip(groups, labels, strict=True)
        ]
        return cls(cohorts, groups, labels, jobs)

    def result(self, method: Method, trained: Sequence[Trained]) -> list[tuple[Cohort, Posterior]]:
        """One (cohort, posterior) for every task, from what its groups brought home."""
        return [
            (
                c,
                together(method, c, [t for t, g in zip(trained, self.groups, strict=True) if g.cohort == i]),
            )
            for i, c in enumerate(self.cohorts)
        ]


def _pieces(todo: Sequence[Task], workers: int) -> int:
    """One for each worker; two where cohorts may take different times and there are members enough for both."""
    many = sum(len(task.members) for task in todo) >= 2 * FULL * workers
    return 2 * workers if many and len(todo) > 1 else workers


@dataclass
class Schedule:
    """Groups by number: waiting, running elsewhere, ended. A worker's death puts its group back, a few times."""

    labels: Sequence[str]
    retries: int
    board: Board
    checkpoint_dir: Path | str | None
    waiting: deque[int] = field(default_factory=deque)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    deaths: Counter[int] = field(default_factory=Counter)
    error: RuntimeError | None = None
    stopped: bool = False

    def __post_init__(self) -> None:
        self.waiting = deque(range(len(self.labels)))

    @property
    def halting(self) -> bool:
        """Whether no further group is to be started."""
        return self.stopped or self.error is not None

    def ended(self, group: int, outcome: Outcome) -> None:
        """A worker has reported."""
        self.outcomes[group] = outcome
        if outcome.trained is not None:
            self.board.done(group)
        elif outcome.failure is not None and self.error is None:
            self.error = outcome.failure.raised(self.labels[group])

    def died(self, group: int, how: str) -> None:
        """A worker is gone without a word."""
        self.deaths[group] += 1
        if self.halting:
            return
        if self.deaths[group] <= self.retries:
            log.warning(
                "%s: the worker %s; it is tried again from its last checkpoint", self.labels[group], how
            )
            self.waiting.appendleft(group)
            return
        self.error = WorkerError(
            f"{self.labels[group]}: the worker {how}, after {self.retries} retries. A common cause is too "
            f"little memory: use fewer workers or a smaller batch. {self._advice()}"
        )

    def conclude(self) -> list[Trained]:
        """What the groups brought home, in order; or the error, or the interruption, that ended the run."""
        if self.error is not None:
            raise self.error
        for group in range(len(self.labels)):
            outcome = self.outcomes.get(group)
            for message in outcome.warnings if outcome is not None else ():
                warnings.warn(message, TrainingWarning, stacklevel=4)
        trained = [o.trained for _, o in sorted(self.outcomes.items()) if o.trained is not None]
        if len(trained) < len(self.labels):
            raise Interrupted(
                f"training was stopped; {len(trained)} of {len(self.labels)} groups of members were done. "
                + self._advice()
            )
        return trained

    def _advice(self) -> str:
        if self.checkpoint_dir is None:
            return "Nothing was saved; give checkpoint_dir to be able to go on."
        return f"The state is saved in {self.checkpoint_dir}; make the same call again to go on."


@contextmanager
def scratch() -> Iterator[str]:
    """A directory that only this user may read, for the time of the run."""
    with TemporaryDirectory(prefix="cbdl-", ignore_cleanup_errors=True) as directory:
        yield directory
