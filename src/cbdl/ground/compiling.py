"""Loops that numba compiles: how, whether that can be done here, and threads for them.

Modules with such loops import numba at their top, and are imported where they are needed: numba takes half a second.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

log = logging.getLogger("cbdl")

F = TypeVar("F", bound=Callable[..., Any])

_work: Counter[str] = Counter()
"""By modules of loops: how much work there has been for them."""

SUMS = {"contract", "nsz", "arcp", "reassoc"}
"""Liberties of the compiler where order does not matter: sums of products."""
FORMULAS = {"contract", "nsz", "arcp"}
"""The same without reordering: rounding by adding and taking away must stay. What is no number stays none."""


def compiled(liberties: set[str]) -> Callable[[F], F]:
    """Compile by numba, once for this machine if there is a folder to keep the result in."""
    from numba import njit

    def decorate(function: F) -> F:
        how: dict[str, Any] = {"fastmath": liberties, "error_model": "numpy", "nogil": True}
        try:
            out = njit(cache=True, **how)(function)
        except RuntimeError:  # no such folder
            return cast(F, njit(**how)(function))
        with suppress(AttributeError):  # of another numba
            kept = out._cache._cache_file
            kept._source_stamp = (kept._source_stamp, sources())
        return cast(F, out)

    return decorate


@cache
def sources() -> str:
    """What all loops of the package are written as.

    numba knows of the file of a function when it was changed, but not of files whose functions it calls: what it kept
    would go on with what they were.
    """
    files = sorted(Path(__file__).parents[1].glob("**/compiled/*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def instruction(meaning: Callable[..., Any]) -> Any:
    """A function that compiled loops may call, by what the compiler is to do (`numba.extending.intrinsic`)."""
    from numba.extending import intrinsic

    return intrinsic(meaning)


def worth(module: str, work: int, least: int) -> bool:
    """Whether loops of a module are to do a piece of work: if this process has had `least` of it, this one included.

    To load them takes half a second, to compile them some seconds, once on a machine.
    """
    _work[module] += work
    return _work[module] >= least and usable(module)


@cache
def usable(module: str) -> bool:
    """Whether a module of loops can be imported: numba is there, and works with the numpy that is."""
    try:
        importlib.import_module(module)
    except (ImportError, AttributeError, SystemError) as error:
        log.info("tensor operations are used instead of %s, since numba cannot be: %s", module, error)
        return False
    return True


def spread(some: Callable[[int, int], object], count: int, worth: bool = True) -> None:
    """Call some(first, last) for all of so many, a part for each of torch's threads if that is worth it."""
    threads = min(torch.get_num_threads(), count) if worth else 1
    if threads <= 1:
        some(0, count)
        return
    ends = [count * i // threads for i in range(threads + 1)]
    for done in [_pool(threads).submit(some, *part) for part in pairwise(ends)]:
        done.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="cbdl")
