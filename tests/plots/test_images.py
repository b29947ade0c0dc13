"""Figures look as they did when a person last looked at them. To renew: python tests/plots/test_images.py, and look."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.testing.compare import compare_images

import cbdl
from cbdl import plots

BASELINE = Path(__file__).parent / "baseline"
TOLERANCE = 5
"""Root mean square of differences of pixels, 0 to 255: letters may move by a fraction of one, a curve may not go."""


def gap():
    x = np.linspace(-2, 2, 41)
    spread = 0.15 + 0.8 * np.exp(-4 * x**2)
    loc = np.sin(2 * x)[:, None] + spread[:, None] * np.array([-1.5, 0.0, 1.5])
    sets = cbdl.NormalCredalSet(loc, np.full_like(loc, 0.2))
    at = np.r_[np.linspace(-2, -0.8, 9), np.linspace(0.8, 2, 9)]
    return plots.band(x, sets, data=(at, np.sin(2 * at)))


FIGURES = {
    "simplex": lambda: plots.simplex(
        cbdl.CategoricalCredalSet([[0.7, 0.2, 0.1], [0.4, 0.5, 0.1], [0.4, 0.2, 0.4], [0.5, 0.3, 0.2]])
    ),
    "intervals": lambda: plots.intervals(
        cbdl.CategoricalCredalSet([[0.7, 0.25, 0.03, 0.02], [0.5, 0.3, 0.15, 0.05]]), alpha=0.1
    ),
    "band": gap,
}


def picture(name: str, path: Path) -> None:
    with mpl.rc_context(mpl.rcParamsDefault):
        mpl.use("Agg")
        ax = FIGURES[name]()
        ax.figure.savefig(path, dpi=60, metadata={"Software": None})
        pyplot.close(ax.figure)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_looks_as_it_did(name, tmp_path):
    picture(name, tmp_path / f"{name}.png")
    assert compare_images(str(BASELINE / f"{name}.png"), str(tmp_path / f"{name}.png"), TOLERANCE) is None


def test_the_comparison_sees_what_is_missing(tmp_path):
    """A band without its minimal region is another picture."""
    ax = gap()
    for line in (own for own in ax.lines if own.get_linestyle() == "--"):
        line.set_visible(False)
    ax.figure.savefig(tmp_path / "band.png", dpi=60)
    pyplot.close(ax.figure)
    assert compare_images(str(BASELINE / "band.png"), str(tmp_path / "band.png"), TOLERANCE) is not None


if __name__ == "__main__":
    BASELINE.mkdir(exist_ok=True)
    for name in FIGURES:
        picture(name, BASELINE / f"{name}.png")
