"""What a person sees while a cohort trains: a bar at a terminal or in a notebook, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeAlias

from cbdl.bayes import notebook

EVERY = 5.0
"""Seconds between two plain lines."""


class Clock:
    """When the next line is due, and how long the rest will take."""

    def __init__(self) -> None:
        self.start = self.last = time.monotonic()
        self.first: float | None = None

    def due(self) -> bool:
        return time.monotonic() - self.last >= EVERY

    def line(self, text: str, share: float) -> None:
        """Print `text` and an estimate of the time left, now that `share` of the work is done."""
        self.last = time.monotonic()
        first = self.first = share if self.first is None else self.first
        left = (self.last - self.start) / (share - first) * (1 - share) if first < share < 1 else None
        rest = "" if left is None else f", about {left:.0f} s left"
        print(text + rest, file=sys.stderr, flush=True)


def lively() -> bool:
    """Whether bars can move: at a terminal, or in a notebook."""
    return sys.stderr.isatty() or notebook.running()


def bars() -> Any:
    """A display of progress bars, by rich on stderr or below the cell of a notebook; tasks have a field `state`."""
    if notebook.running():
        return notebook.NotebookBars()
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[state]}"),
        console=Console(stderr=True),
    )


class Progress(Protocol):
    def update(self, step: int, epoch: int, loss: float) -> None: ...

    def due(self, last: bool = False) -> bool:
        """Whether an update would be shown now; losses are fetched from the device only then."""
        ...


class Silent:
    def update(self, step: int, epoch: int, loss: float) -> None:
        return

    def due(self, last: bool = False) -> bool:
        return False


class Lines:
    """One line on stderr every few seconds."""

    def __init__(self, label: str, steps: int, epochs: int) -> None:
        self.label, self.steps, self.epochs, self.clock = label, steps, epochs, Clock()

    def due(self, last: bool = False) -> bool:
        return self.clock.due()

    def update(self, step: int, epoch: int, loss: float) -> None:
        where = f"step {step} of {self.steps}, epoch {epoch + 1} of {self.epochs}"
        self.clock.line(f"{self.label}: {where}, loss {loss:.4f}", step / self.steps)


class Bar:
    """A progress bar."""

    def __init__(self, label: str, steps: int, epochs: int) -> None:
        self.epochs, self.bar, self.last = epochs, bars(), 0.0
        self.task = self.bar.add_task(label, total=steps, state="")

    def due(self, last: bool = False) -> bool:
        return last or time.monotonic() - self.last >= 0.1

    def update(self, step: int, epoch: int, loss: float) -> None:
        self.bar.update(self.task, completed=step, state=f"epoch {epoch + 1}/{self.epochs} loss {loss:.4f}")
        self.last = time.monotonic()


Display: TypeAlias = Callable[[str, int, int], AbstractContextManager[Progress]]
"""(label, steps, epochs) -> where the progress is shown."""
elsewhere: ContextVar[Display | None] = ContextVar("elsewhere", default=None)
"""What a worker sets that trains for another process: the one that shows its progress."""


@contextmanager
def progress(verbose: bool, label: str, steps: int, epochs: int) -> Iterator[Progress]:
    """The progress display that fits where it is seen."""
    display = elsewhere.get()
    if not verbose:
        yield Silent()
    elif display is not None:
        with display(label, steps, epochs) as shown:
            yield shown
    elif lively():
        bar = Bar(label, steps, epochs)
        with bar.bar:
            yield bar
    else:
        yield Lines(label, steps, epochs)
