"""Pieces of work side by side in threads, their results in order and only a few at a time.

Networks and credal sets of a few thousand rows are many small operations, which torch does not share among its threads;
pieces of a table are independent, and torch works outside Python's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


def in_order(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """`map`, with as many items at a time as torch may use threads; an error comes where `map` would raise it.

    >>> list(in_order(abs, [1, -2, 3]))
    [1, 2, 3]
    """
    threads = torch.get_num_threads()
    if threads == 1:
        yield from map(function, items)
        return
    waiting: deque[Future[R]] = deque()
    with (
        _one_each(threads),
        ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool,
    ):
        try:
            error = None
            source = iter(items)
            while error is None:
                try:
                    waiting.append(pool.submit(function, next(source)))
                except StopIteration:
                    break
                except Exception as problem:  # what was read before it is answered first
                    error = problem
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
            if error is not None:
                raise error
        finally:
            for future in waiting:
                future.cancel()


@contextmanager
def _one_each(threads: int) -> Iterator[None]:
    """One thread for every operation meanwhile; some libraries under torch know one number for all."""
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
