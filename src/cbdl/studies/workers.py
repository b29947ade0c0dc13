"""Tasks of a study: what is kept is read, the rest is done, in several processes if there are several."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Protocol, TypeVar

import torch

from cbdl.studies.shelf import Arrays, Key, Shelf
from cbdl.studies.study import Context


class Task(Protocol):
    """Work that gives arrays, and can be sent to another process."""

    @property
    def key(self) -> Key:
        """What the arrays are of."""
        ...

    def do(self) -> Arrays:
        """The work."""
        ...


Own = TypeVar("Own", bound=Task)


def done(
    context: Context, shelf: Shelf, workers: int, tasks: Sequence[Own], words: Callable[[Own], str]
) -> dict[Own, Arrays]:
    """What comes of all tasks; what is not there is done and kept. `words` says what a person hears of one."""
    answers: dict[Own, Arrays] = {}
    for task in tasks:
        there = shelf.get(task.key)
        if there is not None:
            answers[task] = there
            context.note(f"  {words(task)} (kept)")
    missing = [task for task in tasks if task not in answers]
    for task, arrays, seconds in _worked(missing, workers):
        shelf.put(task.key, arrays)
        answers[task] = arrays
        context.note(f"  {words(task)}: {seconds:.0f} s")
    return answers


def _worked(tasks: Sequence[Own], most: int) -> Iterator[tuple[Own, Arrays, float]]:
    workers = min(most, len(tasks), _cores())
    begin = time.perf_counter()
    if workers <= 1:
        for task in tasks:
            begin = time.perf_counter()
            yield task, task.do(), time.perf_counter() - begin
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(_alone, task): task for task in tasks}
        for future in as_completed(waiting):
            yield waiting[future], future.result(), time.perf_counter() - begin


def _cores() -> int:
    """Those that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _alone(task: Task) -> Arrays:
    torch.set_num_threads(1)
    return task.do()
