"""How training went, per member: losses, traces of chains, R-hat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from cbdl.bayes import mixing
from cbdl.bayes.diagnostics import MIXED, Diagnostics
from cbdl.model import CBDL
from cbdl.plots.style import COLOURS, STROKES, axes_for, legend, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MANY = 8
"""Members whose names still fit into a legend inside of the axes."""


def losses(model: CBDL, ax: Axes | None = None) -> Axes:
    """The loss of every member by epoch, of a model that was just trained; a saved one does not hold its losses.

    - `model`: a trained `cbdl.CBDL`
    - `ax`: the Axes to draw on; None makes new ones

    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> net = cbdl.nets.mlp(1, 1, (4,))
    >>> model = cbdl.CBDL([cbdl.priors.Normal(0, 1)], [cbdl.likelihoods.Normal(net, scale=0.1)],
    ...                   cbdl.MeanField(epochs=3), verbose=False).fit(X, X[:, 0])
    >>> ax = losses(model)
    """
    curves = model.learned.losses()
    ax = axes_for(ax, (5.6, 3.6))
    for look, (member, loss) in zip(looks(), curves.items(), strict=False):
        epochs = np.arange(1, len(loss) + 1)
        ax.plot(epochs, loss, color=look.colour, ls=look.stroke, lw=1.2, label=str(member))
    ax.set(xlabel="epoch", ylabel="loss (nats per row)")
    _members_legend(ax, len(curves))
    return ax


def traces(
    model: CBDL, x: Any, ax: Axes | None = None, *, members: Sequence[int] | None = None, output: int = 0
) -> Axes:
    """What every chain predicts for one input, draw by draw: chains that have mixed look alike and show no trend.

    For classes the probability of one; for numbers the expected outcome. A colour per member, a stroke per chain.

    - `model`: a trained `cbdl.CBDL`
    - `x`: one input, (features,) or (1, features)
    - `members`: places of the members to show; None: all
    - `output`: which class, or which of several numbers
    - `ax`: the Axes to draw on; None makes new ones

    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> net = cbdl.nets.mlp(1, 1, (4,))
    >>> method = cbdl.MCLMC(chains=2, optimise=20, warmup=20, draws=10, thin=1)
    >>> model = cbdl.CBDL([cbdl.priors.Normal(0, 1)], [cbdl.likelihoods.Normal(net, scale=0.1)],
    ...                   method, verbose=False).fit(X, X[:, 0])
    >>> ax = traces(model, [0.5])
    """
    drawn = mixing.traces(model.learned, _one_input(model, x))
    names = list(drawn)
    chosen = names if members is None else [names[place] for place in members]
    ax = axes_for(ax, (6.4, 3.6))
    for i, member in enumerate(chosen):
        for chain, own in enumerate(drawn[member][..., output]):
            ax.plot(
                own,
                color=COLOURS[i % len(COLOURS)],
                ls=STROKES[chain % len(STROKES)],
                lw=0.8,
                alpha=0.85,
                label=None if chain else str(member),
            )
    ax.set(xlabel="draw", ylabel="prediction")
    _members_legend(ax, len(chosen))
    return ax


def _one_input(model: CBDL, x: Any) -> Tensor:
    """(1, ...): the one input that is meant."""
    row = model.learned.row
    given = np.asarray(x)
    if given.shape not in (row, (1, *row)):
        raise ValueError(f"x has shape {given.shape}; give one input of shape {row}")
    return torch.as_tensor(given.reshape(1, *row), dtype=None if model.learned.integers else model.dtype)


def rhat(diagnostics: Diagnostics, ax: Axes | None = None) -> Axes:
    """R-hat of the predictions of every member, 1 if its chains agree; the dotted line is where advice begins.

    diagnostics: those of a model whose method has chains (`MCLMC`).

    - `ax`: the Axes to draw on; None makes new ones
    """
    rows = [row for row in diagnostics.rows if row.rhat == row.rhat]
    if not rows:
        raise ValueError("no member has an R-hat; only methods with chains do, such as cbdl.MCLMC")
    ax = axes_for(ax, (5.6, max(1.8, 0.32 * len(rows) + 1.2)))
    place = np.arange(len(rows))
    values = np.array([row.rhat for row in rows])
    ax.hlines(place, 1, values, color=COLOURS[0], lw=1)
    for bad, mark in ((False, "o"), (True, "X")):
        own = (values > MIXED) == bad
        if own.any():
            words = f"above {MIXED:g}: chains disagree" if bad else "chains agree"
            ax.plot(values[own], place[own], mark, color=COLOURS[int(bad)], ms=7, label=words)
    ax.axvline(MIXED, color="0.4", lw=1, ls=":")
    ax.set(xlabel="R-hat of predictions", xlim=(0.98, max(1.1 * MIXED, 1.05 * float(values.max()))))
    ax.set_yticks(place, [str(row.member) for row in rows])
    ax.invert_yaxis()
    legend(ax)
    return ax


def _members_legend(ax: Axes, members: int) -> None:
    if members > MANY // 2:
        legend(ax, loc="center left", bbox_to_anchor=(1.0, 0.5))
    else:
        legend(ax)
