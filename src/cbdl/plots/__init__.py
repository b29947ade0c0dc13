"""Figures. matplotlib is an extra (`pip install "cbdl[plots]"`) and is imported only when something is drawn."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["available", "save"]


def available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def save(draw: Callable[[Any], None], path: str | Path) -> None:
    """A PNG of what `draw` puts on a Figure; needs no display and leaves pyplot's state alone."""
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    draw(figure)
    figure.savefig(path, dpi=150)
