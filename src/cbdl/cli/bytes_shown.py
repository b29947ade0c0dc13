"""What a person sees while files are downloaded: a bar for each at a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from cbdl.bayes.progress import Clock, bars
from cbdl.data.fetch import Seen

MB = 1 << 20


class Lines:
    """A line every few seconds, so that small files have none."""

    def __init__(self) -> None:
        self.clocks: dict[str, Clock] = {}

    def seen(self, name: str, here: int, whole: int | None) -> None:
        clock = self.clocks.setdefault(name, Clock())
        if clock.due():
            of = "" if whole is None else f" of {whole / MB:.0f}"
            clock.line(f"{name}: {here / MB:.0f}{of} MB", here / whole if whole else 0.0)


class Bars:
    """A bar on stderr for every file, in MB."""

    def __init__(self) -> None:
        self.bars = bars()
        self.tasks: dict[str, int] = {}

    def seen(self, name: str, here: int, whole: int | None) -> None:
        if name not in self.tasks:
            total = None if whole is None else -(-whole // MB)
            self.tasks[name] = self.bars.add_task(name, total=total, state="MB")
        self.bars.update(self.tasks[name], completed=-(-here // MB))


@contextmanager
def shown_bytes() -> Iterator[Seen]:
    """The display that fits where stderr goes."""
    if not sys.stderr.isatty():
        yield Lines().seen
        return
    display = Bars()
    with display.bars:
        yield display.seen
