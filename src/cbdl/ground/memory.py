"""How much memory a computation may use beyond its answer: one number, from which all block sizes follow.

1 GiB unless the environment says otherwise (`CBDL_MAX_MEMORY`, in bytes) or `set_limit` does. Blocks change the last
bits of sums: a run that is to be resumed bit for bit keeps its limit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

DEFAULT = 1 << 30
LEAST = 1 << 20
VARIABLE = "CBDL_MAX_MEMORY"


def _checked(value: object, name: str) -> int:
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        number = 0
    if number < LEAST:
        raise ValueError(f"{name} is {value!r}; give a number of bytes, at least {LEAST} (1 MiB)")
    return int(number)


_limit: int | None = None


def limit(given: int | None = None) -> int:
    """Bytes of working memory: `given` if it is a number, else the setting.

    >>> limit(1 << 24)
    16777216
    """
    if given is not None:
        return given
    if _limit is not None:
        return _limit
    setting = os.environ.get(VARIABLE)
    return DEFAULT if setting is None else _checked(setting, VARIABLE)


def set_limit(value: int | None) -> None:
    """Set the limit of this process.

    - `value`: bytes, at least 1 MiB; None: back to the environment's, or 1 GiB

    >>> set_limit(1 << 28)
    >>> limit()
    268435456
    >>> set_limit(None)
    """
    global _limit
    _limit = None if value is None else _checked(value, "max_memory")


@contextmanager
def limited(value: int) -> Iterator[None]:
    """The limit for the time of a block.

    >>> with limited(1 << 24):
    ...     limit()
    16777216
    """
    before = _limit
    set_limit(value)
    try:
        yield
    finally:
        set_limit(before)
