"""What a person sees while several workers train: a bar for each group, or one plain line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from cbdl.bayes.progress import EVERY


@dataclass(frozen=True)
class Place:
    """How far a group is."""

    step: int
    steps: int
    loss: float


class Board(Protocol):
    def update(self, group: int, place: Place) -> None: ...

    def done(self, group: int) -> None: ...


class Silent:
    def update(self, group: int, place: Place) -> None:
        return

    def done(self, group: int) -> None:
        return


class Lines:
    """One line on stderr every few seconds, for all groups together."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.places: list[Place | None] = [None] * len(labels)
        self.finished: set[int] = set()
        self.start = self.last = time.monotonic()
        self.first: float | None = None

    def update(self, group: int, place: Place) -> None:
        self.places[group] = place
        if time.monotonic() - self.last < EVERY:
            return
        self.last = time.monotonic()
        share = self._share()
        first = self.first = share if self.first is None else self.first
        left = ""
        if share > first:
            left = f", about {(self.last - self.start) / (share - first) * (1 - share):.0f} s left"
        losses = [p.loss for p in self.places if p is not None]
        print(
            f"training: {len(self.finished)} of {len(self.places)} groups done, {100 * share:.0f} % of the steps, "
            f"loss {min(losses):.4f} to {max(losses):.4f}{left}",
            file=sys.stderr,
            flush=True,
        )

    def _share(self) -> float:
        parts = [
            1.0 if i in self.finished else 0.0 if p is None else p.step / max(1, p.steps)
            for i, p in enumerate(self.places)
        ]
        return sum(parts) / len(parts)

    def done(self, group: int) -> None:
        self.finished.add(group)


class Bars:
    """A rich progress bar on stderr for every group."""

    def __init__(self, labels: Sequence[str]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
        columns += [TimeRemainingColumn(), TextColumn("{task.fields[state]}")]
        self.bars = Progress(*columns, console=Console(stderr=True))
        self.rows = [self.bars.add_task(label, total=None, state="waits") for label in labels]

    def update(self, group: int, place: Place) -> None:
        self.bars.update(
            self.rows[group], completed=place.step, total=place.steps, state=f"loss {place.loss:.4f}"
        )

    def done(self, group: int) -> None:
        task = self.bars.tasks[group]
        total = task.total or 1
        self.bars.update(self.rows[group], completed=total, total=total, state="done")


@contextmanager
def board(verbose: bool, labels: Sequence[str]) -> Iterator[Board]:
    """The display that fits where stderr goes."""
    if not verbose:
        yield Silent()
    elif sys.stderr.isatty():
        bars = Bars(labels)
        with bars.bars:
            yield bars
    else:
        yield Lines(labels)
