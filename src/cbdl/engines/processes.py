"""Cohorts trained in processes of this machine, one per core, each with one thread.

For convolutions on the CPU, where one process with many threads leaves cores idle. Workers are fresh interpreters,
not forks: scripts need no `if __name__ == "__main__"`, and notebooks work. The data is written once and mapped into
the memory of all workers.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.methods.protocol import Method, Posterior
from cbdl.bayes.rows import TrainingData
from cbdl.bayes.train import Run, Stop

from .board import Place, board
from .cores import cores
from .job import Outcome, Packed, WorkerError, pack
from .local import Task
from .schedule import Schedule, Work, scratch
from .worker import read, write

# the worker must find the same modules as this process before it imports anything
START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from cbdl.engines.worker import main; main()"
)


@dataclass(frozen=True)
class Processes:
    """Worker processes on this machine. `workers`: None for one per core. A worker that dies (killed, out of memory)
    is replaced and resumes from its checkpoint, `retries` times for each group of members.

    >>> Processes(workers=2)
    Processes(workers=2, threads=1, retries=2)
    """

    workers: int | None = None
    threads: int = 1
    """Threads of each worker."""
    retries: int = 2

    def __post_init__(self) -> None:
        for name, least in (("workers", 1), ("threads", 1), ("retries", 0)):
            value = getattr(self, name)
            if value is not None and (int(value) != value or value < least):
                raise ValueError(f"{name} is {value}; it must be a whole number of at least {least}")

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
        if data.held.x.device.type != "cpu":
            raise ValueError(
                f"Processes trains on the CPU, the data is on {data.held.x.device}; use device='cpu', or engine=Local()"
            )
        workers = self.workers or max(1, cores() // self.threads)
        with scratch() as place:
            work = Work.of(
                todo,
                data,
                method,
                run,
                workers=workers,
                threads=self.threads,
                checkpoint_dir=checkpoint_dir,
                scratch=place,
                every_seconds=every_seconds,
            )
            shared = share(data, Path(place))
            with board(run.verbose, work.labels) as shown:
                schedule = Schedule(work.labels, self.retries, shown, checkpoint_dir)
                _carry_out(schedule, work.jobs, shared, min(workers, len(work.jobs)), self.threads, run)
            return work.result(method, schedule.conclude())


def share(data: TrainingData, folder: Path) -> tuple[str, Packed]:
    """The data in files that workers map."""
    packed, arrays = pack(data)
    for i, array in enumerate(arrays):
        np.save(folder / f"data-{i}.npy", array)
    return str(folder), packed


_Inbox: TypeAlias = "queue.SimpleQueue[tuple[_Worker, Any]]"


class _Worker:
    """One worker process as the run sees it. What it says, and its end, arrive in `inbox`."""

    def __init__(self, inbox: _Inbox, threads: int) -> None:
        number = str(threads)
        self.threads, self.group = threads, cast("int | None", None)
        self.ready = False
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": number, "MKL_NUM_THREADS": number},
            # Ctrl-C at a terminal is for the run, which then asks its workers to stop
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._listen, args=(inbox,), daemon=True)
        self._reader.start()

    def _listen(self, inbox: _Inbox) -> None:
        assert self.process.stdout is not None
        try:
            while True:
                inbox.put((self, read(self.process.stdout)))
        except Exception:  # the end of the stream, or a frame cut short by the worker's death
            self.process.wait()
            inbox.put((self, None))

    def send(self, message: Any) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):  # dead: the reader will say so
            write(self.process.stdin, message)

    def how(self) -> str:
        """How it ended, in words."""
        code = self.process.returncode
        if code is not None and code < 0:
            with suppress(ValueError):
                return f"was killed ({signal.Signals(-code).name})"
        return f"ended with exit code {code}"

    def close(self) -> None:
        """End the process, at once if it still works on something."""
        if self.group is not None:
            self.process.kill()
        with suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        if self.process.stdout is not None:
            self.process.stdout.close()


@dataclass
class _Crew:
    """Workers that take jobs from one run after the other."""

    inbox: _Inbox = field(default_factory=queue.SimpleQueue)
    workers: list[_Worker] = field(default_factory=list)

    def free(self, number: int, threads: int) -> _Worker | None:
        """A worker with nothing to do, a new one while there are fewer than `number`; None: all are busy."""
        ours = [w for w in self.workers if w.threads == threads]
        idle = next((w for w in ours if w.group is None), None)
        if idle is None and len(ours) < number:
            self.workers.append(idle := _Worker(self.inbox, threads))
        return idle

    def close(self) -> None:
        while self.workers:
            self.workers.pop().close()


_kept: ContextVar[_Crew | None] = ContextVar("kept", default=None)


@contextmanager
def crew_kept() -> Iterator[None]:
    """Workers of `Processes` that a run in this block has started serve the next one, too: each takes seconds to
    start.
    """
    crew = _Crew()
    before = _kept.set(crew)
    try:
        yield
    finally:
        _kept.reset(before)
        crew.close()


@contextmanager
def _at_work() -> Iterator[_Crew]:
    """The crew that is kept, unless this run ends badly; or one for this run alone."""
    kept = _kept.get()
    crew, well = kept or _Crew(), False
    try:
        yield crew
        well = kept is not None and not any(w.group is not None for w in crew.workers)
    finally:
        if not well:
            crew.close()


def _carry_out(
    schedule: Schedule, jobs: Sequence[bytes], shared: tuple[str, Packed], number: int, threads: int, run: Run
) -> None:
    """Give out jobs until all groups have ended or the run halts."""
    announced = False
    with _at_work() as crew, Stop(run.stop) as stop:
        while True:
            if schedule.halting and not announced:
                announced = True
                for worker in crew.workers:
                    worker.send("stop")
            while schedule.waiting and not schedule.halting and (free := crew.free(number, threads)):
                free.group = schedule.waiting.popleft()
                free.send((jobs[free.group], *shared))
            if not any(w.group is not None for w in crew.workers):
                break
            with suppress(queue.Empty):
                _hear(schedule, crew.workers, *crew.inbox.get(timeout=0.1))
            schedule.stopped = schedule.stopped or stop.asked()
        if announced:  # who was told to stop takes no further jobs
            crew.close()


def _hear(schedule: Schedule, crew: list[_Worker], worker: _Worker, message: Any) -> None:
    """One message of a worker, or None: it is dead."""
    if worker not in crew:
        return  # of a run before: it was closed, and this is its end
    if message is None:
        crew.remove(worker)
        group, worker.group = worker.group, None
        worker.close()
        if not worker.ready and worker.process.returncode > 0:
            schedule.error = schedule.error or WorkerError(
                f"a worker could not start ({worker.how()}); what it said itself is on stderr"
            )
        elif group is not None:
            schedule.died(group, worker.how())
        return
    kind, content = message
    if kind == "ready":
        worker.ready = True
        return
    assert worker.group is not None
    if kind == "progress":
        assert isinstance(content, Place)
        schedule.board.update(worker.group, content)
    else:
        assert isinstance(content, Outcome)
        group, worker.group = worker.group, None
        schedule.ended(group, content)
