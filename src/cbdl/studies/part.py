"""A part of a study: a title, what was done, a table, what to see in it, and a figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cbdl.report.page import Block


@dataclass(frozen=True)
class Part:
    """One part, for the terminal, the report and `--json` alike."""

    name: str
    title: str
    text: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """The table, as text; the first column says what the row is."""
    lessons: tuple[str, ...]
    numbers: dict[str, Any]
    """The same as numbers, for `--json`."""
    caption: str = ""
    draw: Callable[[Any], None] | None = field(default=None, repr=False)
    """Draws the figure of this part on a matplotlib Figure; None: it has none."""
    details: tuple[Block, ...] = field(default=(), repr=False)
    """What only the report shows: who was trained, diagnostics, the most uncertain inputs."""


def cell(value: float | None, digits: int) -> str:
    """A number of the table, or a dash where there is none.

    >>> cell(0.9876, 2), cell(None, 2)
    ('0.99', '-')
    """
    return "-" if value is None else f"{value:.{digits}f}"
