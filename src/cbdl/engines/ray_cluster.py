"""Cohorts trained as tasks of a Ray cluster, split into groups of members when it has more room than cohorts.

The data is put into the object store once. A task whose worker or node dies is submitted again and goes on from its
checkpoint if it finds it: give a `checkpoint_dir` that all nodes see. Where it does not, it starts anew; the tensors
are the same either way. Ray itself is imported only when this engine is used.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.methods.protocol import Method, Posterior
from cbdl.bayes.progress import Progress
from cbdl.bayes.rows import TrainingData
from cbdl.bayes.train import Run, Stop

from .board import Place, board
from .job import Outcome, Packed, WorkerError, pack, perform
from .local import Task
from .schedule import Schedule, Work, scratch


@dataclass(frozen=True)
class Ray:
    """A Ray cluster. `address`: None starts Ray on this machine for the time of the training (unless RAY_ADDRESS names
    a cluster), "auto" or an address joins a running cluster. If this process is already connected, that connection is
    used and kept.

    >>> Ray(workers=4, num_cpus=2).workers                     # four tasks at a time, two cores each
    4
    """

    address: str | None = None
    workers: int | None = None
    """Groups to split the members into, at least one per cohort; None: as many as the cluster has room for."""
    num_cpus: float = 1
    """CPUs that each task reserves; torch gets as many threads."""
    num_gpus: float = 0
    """GPUs that each task reserves; above 0 the task trains on its GPU."""
    retries: int = 2
    """How often a group is tried again when its worker or node dies."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `ray.init`, such as runtime_env={"working_dir": "."} for modules that nodes lack."""

    def __post_init__(self) -> None:
        for name, least in (("workers", 1), ("retries", 0)):
            value = getattr(self, name)
            if value is not None and (int(value) != value or value < least):
                raise ValueError(f"{name} is {value}; it must be a whole number of at least {least}")
        if not self.num_cpus > 0 or not self.num_gpus >= 0:
            raise ValueError(
                f"num_cpus is {self.num_cpus}, num_gpus {self.num_gpus}; the first must be positive, the second at "
                "least 0"
            )
        ray_module()

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
        ray = ray_module()
        with scratch() as place, connected(ray, self.address, self.options):
            fits = room(ray, self.num_cpus, self.num_gpus)
            work = Work.of(
                todo,
                data,
                method,
                run,
                workers=self.workers or fits,
                threads=max(1, int(self.num_cpus)),
                checkpoint_dir=checkpoint_dir,
                scratch=place,
                every_seconds=every_seconds,
            )
            with board(run.verbose, work.labels) as shown:
                schedule = Schedule(work.labels, self.retries, shown, checkpoint_dir)
                self._carry_out(ray, schedule, work.jobs, data, run)
            return work.result(method, schedule.conclude())

    def _carry_out(
        self, ray: Any, schedule: Schedule, jobs: Sequence[bytes], data: TrainingData, run: Run
    ) -> None:
        """Submit all groups, and again those whose worker died, until all have ended or the run halts."""
        # Ray's own retries would not be bounded when memory is short, and would tell nobody
        submit = ray.remote(num_cpus=self.num_cpus, num_gpus=self.num_gpus, max_retries=0)(_train).remote
        mailbox = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(_mailbox()).remote()
        stored = ray.put(_Stored(*pack(data)))
        paths = [os.path.abspath(path) for path in sys.path]
        running: dict[Any, int] = {}
        announced = False
        try:
            with Stop(run.stop) as stop:
                while True:
                    if schedule.halting and not announced:
                        ray.get(mailbox.stop.remote())
                        announced = True
                    while schedule.waiting and not schedule.halting:
                        group = schedule.waiting.popleft()
                        running[submit(jobs[group], stored, mailbox, group, paths, self.num_gpus > 0)] = group
                    if not running:
                        return
                    for ref in ray.wait(list(running), timeout=0.2)[0]:
                        _hear(ray, schedule, running.pop(ref), ref)
                    if run.verbose:
                        with suppress(ray.exceptions.RayError):  # no news this time
                            for group, place in ray.get(mailbox.take.remote(), timeout=5).items():
                                schedule.board.update(group, Place(*place))
                    schedule.stopped = schedule.stopped or stop.asked()
        finally:
            for ref in running:  # a second Ctrl-C, or an error of Ray
                with suppress(Exception):
                    ray.cancel(ref, force=True)
            with suppress(Exception):
                ray.kill(mailbox)


# --------------------------------------------------------------------------------------------- the driver


def ray_module() -> Any:
    """Ray, which is imported only when it is used."""
    try:
        return import_module("ray")
    except ImportError as error:
        raise ImportError('this engine needs Ray: pip install "cbdl[ray]"') from error


@contextmanager
def connected(ray: Any, address: str | None, options: Mapping[str, Any]) -> Iterator[None]:
    """A connection to Ray: the present one, which is kept, or one for the time of the training."""
    if ray.is_initialized():
        yield
        return
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning", **options}
    if address is None and "RAY_ADDRESS" not in os.environ:
        # "local": not a cluster that somebody else started here, or whose trace is left; it reports to nobody
        address = "local"
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        settings.setdefault("include_dashboard", False)
    ray.init(address=address, **settings)
    try:
        yield
    finally:
        ray.shutdown()


def room(ray: Any, num_cpus: float, num_gpus: float) -> int:
    """How many tasks the cluster can run at once; a ValueError if not one fits on any node."""
    count = 0
    for node in ray.nodes():
        if node["Alive"]:
            have = node["Resources"]
            fits = have.get("CPU", 0) // num_cpus
            count += int(min(fits, have.get("GPU", 0) // num_gpus) if num_gpus else fits)
    if count == 0:
        total = ray.cluster_resources()
        raise ValueError(
            f"no node of the Ray cluster has num_cpus={num_cpus:g} and num_gpus={num_gpus:g}; in total it has "
            f"{total.get('CPU', 0):g} CPUs and {total.get('GPU', 0):g} GPUs"
        )
    return count


def deaths_of(ray: Any) -> tuple[type[Exception], ...]:
    """What Ray raises where a worker, an actor or their node is gone."""
    gone = ray.exceptions
    return (
        gone.WorkerCrashedError,
        gone.RayActorError,
        gone.NodeDiedError,
        gone.OutOfMemoryError,
        gone.ObjectLostError,
        gone.LocalRayletDiedError,
    )


def _hear(ray: Any, schedule: Schedule, group: int, ref: Any) -> None:
    """The result of a task, or how its worker died."""
    try:
        outcome = ray.get(ref)
    except deaths_of(ray) as error:
        schedule.died(group, f"died ({type(error).__name__})")
    except ray.exceptions.RayError as error:
        if schedule.error is None:
            schedule.error = WorkerError(f"{schedule.labels[group]}: {error}")
            schedule.error.__cause__ = error
    else:
        assert isinstance(outcome, Outcome)
        schedule.ended(group, outcome)


@dataclass(frozen=True)
class _Stored:
    """The data as bytes and arrays: Ray's workers read arrays from the object store without a copy."""

    packed: Packed
    arrays: list[np.ndarray[Any, Any]]

    def data(self) -> TrainingData:
        return self.packed.unpack(self.arrays)


def _mailbox() -> type:
    """An actor between the run and its tasks: progress one way, the request to stop the other.

    A class made here is sent by value: its process need not import torch, and is there at once.
    """

    class Mailbox:
        def __init__(self) -> None:
            self.places: dict[int, tuple[int, int, float]] = {}
            self.stopping = False

        def report(self, group: int, place: tuple[int, int, float] | None) -> bool:
            """How far a group is; the answer is whether to stop."""
            if place is not None:
                self.places[group] = place
            return self.stopping

        def take(self) -> dict[int, tuple[int, int, float]]:
            places, self.places = self.places, {}
            return places

        def stop(self) -> None:
            self.stopping = True

    return Mailbox


# --------------------------------------------------------------------------------------------- the worker


def _train(job: bytes, stored: _Stored, mailbox: Any, group: int, paths: list[str], gpu: bool) -> Outcome:
    """The task: runs in a process of Ray."""
    # modules of the user that lie beside the script are found on this machine, and on a shared file system
    sys.path += [path for path in paths if path not in sys.path and os.path.exists(path)]
    line = _Line(mailbox, group)
    if line.ask():
        return Outcome()

    def data() -> TrainingData:
        data = stored.data()
        return data.to(torch.device("cuda")) if gpu else data

    return perform(job, data, line.stop, line.display)


class _Line:
    """The line to the mailbox. Neither a step nor the training waits for it."""

    def __init__(self, mailbox: Any, group: int) -> None:
        self.ray = ray_module()
        self.mailbox, self.group = mailbox, group
        self.place: tuple[int, int, float] | None = None
        self.answer: Any = None
        self.last = time.monotonic()
        self.stopping = False

    def ask(self) -> bool:
        """Whether to stop, now."""
        with suppress(Exception):  # a mailbox that is lost does not end the training
            self.stopping = bool(self.ray.get(self.mailbox.report.remote(self.group, None)))
        return self.stopping

    def stop(self) -> bool:
        """Called after every step; twice a second it looks at the last answer and asks again."""
        now = time.monotonic()
        if now - self.last < 0.5:
            return self.stopping
        self.last = now
        with suppress(Exception):
            if self.answer is not None and self.ray.wait([self.answer], timeout=0)[0]:
                self.stopping = bool(self.ray.get(self.answer))
                self.answer = None
            if self.answer is None:
                self.answer = self.mailbox.report.remote(self.group, self.place)
        return self.stopping

    @contextmanager
    def display(self, label: str, steps: int, epochs: int) -> Iterator[Progress]:
        def keep(place: tuple[int, int, float]) -> None:
            self.place = place

        yield _Kept(steps, keep)


@dataclass
class _Kept:
    """Progress that travels with the next question."""

    steps: int
    keep: Callable[[tuple[int, int, float]], None]
    last: float = 0.0

    def due(self, last: bool = False) -> bool:
        return last or time.monotonic() - self.last >= 0.5

    def update(self, step: int, epoch: int, loss: float) -> None:
        self.last = time.monotonic()
        self.keep((step, self.steps, loss))
