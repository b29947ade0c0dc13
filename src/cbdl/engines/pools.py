"""Jobs for workers that each make their tool once: in this process, or as actors of a Ray cluster.

A tool is whatever answers jobs, such as a loaded model. Jobs come back as they end. One whose worker died is given to
another worker, a few times; then it comes back as lost, and the others go on.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch

from .job import WorkerError
from .ray_cluster import Ray, connected, deaths_of, ray_module, room

log = logging.getLogger("cbdl")
J = TypeVar("J")
R = TypeVar("R")


@dataclass(frozen=True)
class Lost:
    """A job whose workers died, and how."""

    how: str


class Pool(Protocol):
    def each(self, make: Callable[[], Callable[[J], R]], jobs: Sequence[J]) -> Iterator[tuple[J, R | Lost]]:
        """Every job with its result, in the order in which they end; `make` gives a worker its tool."""
        ...


@dataclass(frozen=True)
class Here:
    """This process, one job after the other."""

    def each(self, make: Callable[[], Callable[[J], R]], jobs: Sequence[J]) -> Iterator[tuple[J, R | Lost]]:
        tool = make() if jobs else None
        for job in jobs:
            assert tool is not None
            yield job, tool(job)


@dataclass(frozen=True)
class Actors:
    """Actors of a Ray cluster, as many as it has room for and as there are jobs."""

    ray: Ray = field(default_factory=Ray)

    def each(self, make: Callable[[], Callable[[J], R]], jobs: Sequence[J]) -> Iterator[tuple[J, R | Lost]]:
        if not jobs:
            return
        ray, own = ray_module(), self.ray
        with connected(ray, own.address, own.options):
            number = min(len(jobs), own.workers or room(ray, own.num_cpus, own.num_gpus))
            crew = _Crew(ray, own, ray.put(make))
            try:
                yield from _carry_out(crew, jobs, number, own.retries)
            finally:
                crew.end()


class _Crew:
    """Actors that wait for a job, and those that have one."""

    def __init__(self, ray: Any, settings: Ray, make: Any) -> None:
        self.ray, self.make = ray, make
        self.threads = max(1, int(settings.num_cpus))
        self.kind = ray.remote(num_cpus=settings.num_cpus, num_gpus=settings.num_gpus)(_Worker)
        self.idle: list[Any] = []
        self.running: dict[Any, tuple[Any, int]] = {}

    def give(self, number: int, job: Any) -> None:
        actor = self.idle.pop() if self.idle else self.kind.remote(self.make, self.threads)
        self.running[actor.work.remote(job)] = (actor, number)

    def heard(self) -> Iterator[tuple[int, Any, str | None]]:
        """(number of the job, its outcome, how its worker died) of jobs that have ended."""
        for ref in self.ray.wait(list(self.running), timeout=1)[0]:
            actor, number = self.running.pop(ref)
            try:
                outcome = self.ray.get(ref)
            except deaths_of(self.ray) as error:
                self._kill(actor)
                yield number, None, type(error).__name__
            except self.ray.exceptions.RayError as error:
                self._kill(actor)
                raise WorkerError(f"a worker failed: {error}") from error
            else:
                self.idle.append(actor)
                yield number, outcome, None

    def end(self) -> None:
        for actor in (*self.idle, *(actor for actor, _ in self.running.values())):
            self._kill(actor)

    def _kill(self, actor: Any) -> None:
        with suppress(Exception):  # gone already, or Ray is
            self.ray.kill(actor)


def _carry_out(crew: _Crew, jobs: Sequence[J], workers: int, retries: int) -> Iterator[tuple[J, Any]]:
    waiting, deaths = deque(range(len(jobs))), Counter[int]()
    while waiting or crew.running:
        while waiting and len(crew.running) < workers:
            number = waiting.popleft()
            crew.give(number, jobs[number])
        for number, outcome, death in crew.heard():
            if death is None:
                yield jobs[number], outcome
                continue
            deaths[number] += 1
            if deaths[number] <= retries:
                log.warning("%s: its worker died (%s); it is given to another", jobs[number], death)
                waiting.appendleft(number)
            else:
                yield jobs[number], Lost(f"its worker died {deaths[number]} times ({death})")


class _Worker:
    """The actor: its tool is made when the first job comes."""

    def __init__(self, make: Callable[[], Callable[[Any], Any]], threads: int) -> None:
        torch.set_num_threads(threads)
        self.make = make
        self.tool: Callable[[Any], Any] | None = None

    def work(self, job: Any) -> Any:
        self.tool = self.tool or self.make()
        return self.tool(job)
