"""Progress in a notebook: bars below the cell that is running, as a terminal has them. No widgets are needed."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from html import escape
from typing import Any, Self

EVERY = 0.2
"""Seconds between two pictures of the bars."""


def running() -> bool:
    """Whether this is a notebook: IPython with a browser behind it."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and type(ipython.get_ipython()).__name__ == "ZMQInteractiveShell"


@dataclass
class Task:
    """One bar; `total` is None before it is known."""

    label: str
    total: int | None
    state: str
    completed: int = 0
    start: float = 0.0

    def html(self) -> str:
        value = "" if self.total is None else f' value="{self.completed}" max="{self.total}"'
        count = "" if self.total is None else f"{self.completed} of {self.total}"
        words = ", ".join(escape(text) for text in (count, self._left(), self.state) if text)
        name = escape(self.label)
        return f'<div>{name} <progress aria-label="{name}"{value}></progress> {words}</div>'

    def _left(self) -> str:
        if not self.total or not 0 < self.completed < self.total:
            return ""
        spent = time.monotonic() - self.start
        return f"about {spent / self.completed * (self.total - self.completed):.0f} s left"


class NotebookBars:
    """What `rich.progress.Progress` does in a terminal, as far as training needs it."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.handle: Any = None
        self.last = 0.0

    def add_task(self, label: str, total: int | None, state: str) -> int:
        self.tasks.append(Task(label, total, state, start=time.monotonic()))
        return len(self.tasks) - 1

    def update(self, task: int, **fields: Any) -> None:
        """Change `completed`, `total` or `state` of a bar; shown at once if it is over, else now and then."""
        own = self.tasks[task]
        for name, value in fields.items():
            setattr(own, name, value)
        if own.completed == own.total or time.monotonic() - self.last >= EVERY:
            self._show()

    def _show(self) -> None:
        from IPython.display import HTML, display

        self.last = time.monotonic()
        picture = HTML("".join(task.html() for task in self.tasks))
        if self.handle is None:
            self.handle = display(picture, display_id=True)
        else:
            self.handle.update(picture)

    def __enter__(self) -> Self:
        self._show()
        return self

    def __exit__(self, *error: object) -> None:
        self._show()
