"""Requests that come together are answered together: one forward pass of all networks costs about as much as that of
sixteen rows.

A queue gathers the rows of requests for a moment. One thread answers them, so that the service goes on listening; what
comes meanwhile is the next batch. Requests with the same options share a batch.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cbdl.serve.answers import TOO_FAR, Answer, NoAnswer
from cbdl.serve.limits import Limits
from cbdl.serve.problems import Problem
from cbdl.tables.answers import Options
from cbdl.tables.encoding import Encoded

ROUNDS = 5
"""Times that a batch waits for more, as long as more comes."""

log = logging.getLogger("cbdl.serve")

Answering = Callable[[Encoded, Options], list[Answer]]


@dataclass(eq=False)
class Job:
    """The rows of a request that wait for their answers."""

    rows: Encoded
    options: Options
    future: asyncio.Future[list[Answer]]
    left: bool = field(default=False)
    """Whether nobody waits for the answers any more; the thread reads it."""


class Batches:
    """The queue before a model, and the thread that answers.

    `told` hears of every batch: how many requests and rows it had.
    """

    def __init__(self, answering: Answering, limits: Limits, told: Callable[[int, int], None]) -> None:
        self._answering, self._limits, self._told = answering, limits, told
        self._jobs: deque[Job] = deque()
        self.waiting = 0
        """Rows that wait for their turn."""
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Begin, in the running event loop."""
        self._come = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "cbdl-answers")
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End; nobody may wait any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.to_thread(self._thread.shutdown)

    async def answer(self, rows: Encoded, options: Options) -> list[Answer]:
        """The answers for some rows; a `Problem` if too many wait already, or if they take too long."""
        if not self.running:
            raise Problem(
                503, "the service is starting or stopping; try again in a moment", {"Retry-After": "1"}
            )
        if self.waiting + len(rows) > self._limits.waiting:
            raise Problem(
                429,
                f"{self.waiting} rows wait for their answers already; try again in a second",
                {"Retry-After": "1"},
            )
        job = Job(rows, options, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self.waiting += len(rows)
        self._come.set()
        try:
            return await job.future
        finally:
            job.left = True

    async def _run(self) -> None:
        while True:
            await self._come.wait()
            await self._gather()
            jobs = self._next()
            if jobs:
                self._told(len(jobs), sum(len(job.rows) for job in jobs))
                await asyncio.get_running_loop().run_in_executor(self._thread, self._settle, jobs)

    async def _gather(self) -> None:
        """Wait a moment for more, and again as long as more comes and a batch is not full."""
        for _ in range(ROUNDS):
            before = self.waiting
            await asyncio.sleep(self._limits.gather)
            if self.waiting == before or before >= self._limits.batch:
                return

    def _next(self) -> list[Job]:
        """The oldest job and those that can be answered with it, taken out of the queue."""
        jobs: list[Job] = []
        others: deque[Job] = deque()
        rows = 0
        for job in self._jobs:
            fits = not jobs or (job.options == jobs[0].options and rows + len(job.rows) <= self._limits.batch)
            if job.left:
                continue
            if fits:
                jobs.append(job)
                rows += len(job.rows)
            else:
                others.append(job)
        self._jobs, self.waiting = others, sum(len(job.rows) for job in others)
        if not others:
            self._come.clear()
        return jobs

    # --- in the thread ------------------------------------------------------------------------------------------

    def _settle(self, jobs: list[Job]) -> None:
        """Answer the jobs together; if that fails, each alone, so that nobody pays for another's rows."""
        try:
            answers = self._together(jobs)
        except Exception as error:
            if len(jobs) == 1:
                _tell(jobs[0], _refused(error))
                return
            for job in jobs:
                self._settle([job])
            return
        start = 0
        for job in jobs:
            _tell(job, answers[start : start + len(job.rows)])
            start += len(job.rows)

    def _together(self, jobs: list[Job]) -> list[Answer]:
        rows = _joined([job.rows for job in jobs])
        answers: list[Answer] = []
        for a in range(0, len(rows), self._limits.batch):
            if all(job.left for job in jobs):  # a thread cannot be stopped, but it can stop by itself
                break
            some = np.arange(a, min(a + self._limits.batch, len(rows)))
            try:
                answers += self._answering(rows.at(some), jobs[0].options)
            except NoAnswer as error:
                raise NoAnswer(a + error.row) from None
        return answers


def _refused(error: Exception) -> Exception:
    """Rows that the model cannot answer are the request's fault; anything else is ours."""
    if isinstance(error, NoAnswer):
        return Problem(422, str(error))
    if isinstance(error, ValueError):
        log.warning("rows without an answer: %s", error)
        return Problem(422, f"rows: {TOO_FAR}")
    return error


def _tell(job: Job, outcome: list[Answer] | Exception) -> None:
    def settle() -> None:
        if job.future.done():
            return
        if isinstance(outcome, Exception):
            job.future.set_exception(outcome)
        else:
            job.future.set_result(outcome)

    job.future.get_loop().call_soon_threadsafe(settle)


def _joined(parts: list[Encoded]) -> Encoded:
    if len(parts) == 1:
        return parts[0]
    fields: list[Any] = [
        np.concatenate([getattr(p, name) for p in parts]) for name in ("X", "missing", "unknown")
    ]
    return Encoded(*fields)
