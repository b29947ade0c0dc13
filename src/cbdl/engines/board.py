"""What a person sees while several workers train: a bar for each group, or one plain line every few seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from cbdl.bayes.progress import Clock, bars, lively


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
        self.clock = Clock()

    def update(self, group: int, place: Place) -> None:
        self.places[group] = place
        if not self.clock.due():
            return
        share, losses = self._share(), [p.loss for p in self.places if p is not None]
        self.clock.line(
            f"training: {len(self.finished)} of {len(self.places)} groups done, {100 * share:.0f} % of the steps, "
            f"loss {min(losses):.4f} to {max(losses):.4f}",
            share,
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
    """A progress bar for every group."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.bars = bars()
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
    """The display that fits where it is seen."""
    if not verbose:
        yield Silent()
    elif lively():
        several = Bars(labels)
        with several.bars:
            yield several
    else:
        yield Lines(labels)
