"""How figures look: colours that people who see fewer of them tell apart, and marks and strokes that print in grey."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from cbdl.credal import CategoricalCredalSet, CredalSet, IntervalCredalSet, MixtureCredalSet, NormalCredalSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""After Okabe and Ito: told apart also with the common kinds of colour blindness."""
MARKS = "osD^vP"
STROKES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (7, 2)))
"""Told apart without any colour."""
SMALL = 9
"""Points of a legend's letters."""


class Look(NamedTuple):
    """How one series is drawn: no two of the first six share a colour, a mark or a stroke."""

    colour: str
    mark: str
    stroke: Any


def looks() -> Iterator[Look]:
    """The looks of one series after another."""
    return cycle(Look(*each) for each in zip(COLOURS, MARKS, STROKES, strict=True))


def axes_for(ax: Axes | None, size: tuple[float, float] = (5.2, 3.6)) -> Axes:
    """`ax`, or new Axes on a figure of that size (inches), without the frame's upper and right line."""
    if ax is None:
        try:
            from matplotlib import pyplot
        except ImportError:
            raise ImportError('figures need matplotlib; pip install "cbdl[plots]"') from None
        _, ax = pyplot.subplots(figsize=size, layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def legend(ax: Axes, **settings: Any) -> None:
    """A legend without a frame, if there is something to say: above the axes, where it hides nothing.

    matplotlib's own "best" place takes seconds to find among many dots.
    """
    if ax.get_legend_handles_labels()[0]:
        above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 3, "columnspacing": 1.2}
        ax.legend(**{"frameon": False, "fontsize": SMALL, **({} if "loc" in settings else above), **settings})


def numbers(values: Any) -> Floats:
    """Whatever a credal set answers with, as a numpy array."""
    return np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values, dtype=np.float64)


def one_set(credal: CredalSet) -> None:
    """A ValueError unless `credal` is one set."""
    if credal.batch_shape:
        raise ValueError(
            f"credal is a batch of sets of shape {credal.batch_shape}; draw one of them: credal[0]"
        )


def one_batch(credal: CredalSet) -> None:
    """A ValueError unless `credal` is a batch (n,)."""
    if len(credal.batch_shape) != 1:
        raise ValueError(f"credal has the batch shape {credal.batch_shape}; give one set per row, (n,)")


Classes = CategoricalCredalSet | IntervalCredalSet
Line = NormalCredalSet | MixtureCredalSet


def over_classes(credal: CredalSet) -> Classes:
    """`credal`, known to be over classes."""
    if not isinstance(credal, CategoricalCredalSet | IntervalCredalSet):
        raise ValueError(f"credal is a {type(credal).__name__}; this figure is of sets over classes")
    return credal


def on_the_line(credal: CredalSet) -> Line:
    """`credal`, known to be on the line."""
    if not isinstance(credal, NormalCredalSet | MixtureCredalSet):
        raise ValueError(f"credal is a {type(credal).__name__}; this figure is of sets on the line")
    return credal


def names_of(credal: Classes, labels: Sequence[Any] | None) -> list[str]:
    """One name per class: those that are given, those that the set knows, or the numbers 0, ..., J - 1."""
    labels = credal.labels if labels is None else labels
    if labels is None:
        return [str(j) for j in range(credal.num_classes)]
    if len(labels) != credal.num_classes:
        raise ValueError(f"labels has {len(labels)} names; the sets are over {credal.num_classes} classes")
    return [str(name) for name in labels]
