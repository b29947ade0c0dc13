"""How a benchmark is measured and shown."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One comparison: `peer` took `peer_seconds` for the work that took us `seconds`."""

    what: str
    seconds: float
    peer: str
    peer_seconds: float
    target: float
    """The ratio peer_seconds / seconds that we promise."""
    note: str = ""
    goal: float | None = None
    """The ratio that we are after, where it is not the promised one; shown beside it, reached or missed."""

    @property
    def ratio(self) -> float:
        return self.peer_seconds / self.seconds

    @property
    def kept(self) -> bool:
        return self.ratio >= self.target

    @property
    def reached(self) -> bool:
        return self.goal is None or self.ratio >= self.goal


def best_of(function: Callable[[], object], repeats: int = 3) -> float:
    """Seconds of the fastest of `repeats` calls: the least disturbed one on a shared machine."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)
