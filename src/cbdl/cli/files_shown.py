"""What a person sees while many tables are answered: a bar at a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from cbdl.bayes.progress import Clock, bars
from cbdl.tables.errors import many
from cbdl.tables.folders import Answered


class Shown(Protocol):
    def add(self, outcome: Answered) -> None: ...


@dataclass(frozen=True)
class SoFar:
    """What was done until now."""

    files: int = 0
    rows: int = 0
    failed: int = 0

    def after(self, outcome: Answered) -> SoFar:
        if outcome.counts is None:
            return SoFar(self.files + 1, self.rows, self.failed + 1)
        return SoFar(self.files + 1, self.rows + outcome.counts.rows, self.failed)

    @property
    def said(self) -> str:
        return many(self.rows, "row") + (f", {self.failed} could not be answered" if self.failed else "")


class Silent:
    def add(self, outcome: Answered) -> None:
        return


class Lines:
    """A line every few seconds."""

    def __init__(self, files: int) -> None:
        self.files, self.clock, self.so_far = files, Clock(), SoFar()

    def add(self, outcome: Answered) -> None:
        self.so_far = self.so_far.after(outcome)
        if self.clock.due():
            done = self.so_far.files
            self.clock.line(f"{done} of {many(self.files, 'table')}, {self.so_far.said}", done / self.files)


class Bar:
    """A bar on stderr."""

    def __init__(self, files: int) -> None:
        self.bar, self.so_far = bars(), SoFar()
        self.task = self.bar.add_task("tables", total=files, state="")

    def add(self, outcome: Answered) -> None:
        self.so_far = self.so_far.after(outcome)
        self.bar.update(self.task, completed=self.so_far.files, state=self.so_far.said)


@contextmanager
def shown_files(files: int, *, quiet: bool) -> Iterator[Shown]:
    """The display that fits where stderr goes."""
    if quiet:
        yield Silent()
    elif sys.stderr.isatty():
        bar = Bar(files)
        with bar.bar:
            yield bar
    else:
        yield Lines(files)
