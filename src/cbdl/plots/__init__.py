"""Figures: a credal set or a table of results in, matplotlib Axes out, one call each.

matplotlib is an extra (`pip install "cbdl[plots]"`) and is imported only when something is drawn. Every function takes
`ax=None`: new Axes, or those to draw on. Colours are told apart by people who see fewer of them, and strokes, marks and
hatches without any.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cbdl.plots.classes import intervals, simplex, spider
from cbdl.plots.coverage import coverage_efficiency, coverage_width
from cbdl.plots.line import band, density, pbox
from cbdl.plots.training import losses, rhat, traces
from cbdl.plots.uncertainty import aleatoric_epistemic, histogram, rejection, reliability, roc, severity

__all__ = [
    "aleatoric_epistemic",
    "available",
    "band",
    "coverage_efficiency",
    "coverage_width",
    "density",
    "histogram",
    "intervals",
    "losses",
    "pbox",
    "rejection",
    "reliability",
    "rhat",
    "roc",
    "save",
    "severity",
    "simplex",
    "spider",
    "traces",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def save(draw: Callable[[Any], None], path: str | Path) -> None:
    """A PNG of what `draw` puts on a Figure; needs no display and leaves pyplot's state alone.

    - `path`: of the file

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "line.png"
    >>> save(lambda figure: figure.subplots().plot([1, 2, 3]), file)
    >>> file.stat().st_size > 1000
    True
    """
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    draw(figure)
    figure.savefig(path, dpi=150)
