"""What a request may cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of a service; what is beyond them is refused with words.

    body:    bytes of a request
    rows:    rows of a request
    draws:   draws that a request may ask for
    seconds: from the first byte of a request to its answer
    waiting: rows of all requests that wait for their turn
    gather:  seconds for which a request waits for others that are answered together with it
    batch:   rows that are answered together

    >>> Limits(rows=10).rows
    10
    """

    body: int = 4 << 20
    rows: int = 1000
    draws: int = 512
    seconds: float = 30.0
    waiting: int = 4000
    gather: float = 0.002
    batch: int = 256

    def __post_init__(self) -> None:
        for name in ("body", "rows", "draws", "seconds", "waiting", "batch"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be positive")
        if self.gather < 0:
            raise ValueError(f"gather is {self.gather}; it must not be negative")
        if self.waiting < self.rows:
            raise ValueError(f"waiting is {self.waiting}; it must be at least rows, which is {self.rows}")
