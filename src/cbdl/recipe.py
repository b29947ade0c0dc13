"""The one default model: priors, networks, noise, inference method, its length, plausibility, draws and precision.

The estimators and `cbdl fit` read it here; what a user does not say is the same whichever door is taken. The demo has
settings of its own.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from cbdl.bayes.learned import Chains
from cbdl.bayes.likelihoods import Scale
from cbdl.bayes.methods.mclmc import MCLMC
from cbdl.bayes.priors import StudentT
from cbdl.nets.scores import Columns, bent_columns

Task: TypeAlias = Literal["classification", "regression"]

PRIORS = tuple(StudentT(4.0, 0.0, scale, fan_in=True) for scale in (1.0, 2.0, 4.0))
"""Student's t with four degrees of freedom, with standard deviations 1, 2 and 4 over the root of the fan-in: most
weights are small, and some may be large. Rows left out of a dozen tables were as likely as with Normals of the same
deviations or likelier, under the narrow and the wide ones above all; which of them is best depends on the table."""
MANY, MORE = 500, 1000
"""Rows from which on networks have a third hidden layer, and rows of real outcomes beyond which they have a fourth;
with fewer of them it is seldom learned in the time given."""
NOISES: tuple[Scale, ...] = ("learned", "heteroscedastic")
"""Noise of a regression: the same for every input, and one that varies with it. Each is a likelihood."""
STEPS: dict[Task, int] = {"classification": 6000, "regression": 5000}
"""Steps of the training, at least."""
SHARES: dict[Task, tuple[float, float]] = {"classification": (0.5, 0.2), "regression": (0.6, 0.25)}
"""The shares of the steps that optimise, on few rows each, and that warm up. The rest samples."""
SMALL, LARGE = (8000, 6_000_000), (25_000, 32_000_000)
"""Of real tables with up to `MORE` rows and with more: steps at most, and how many rows they may see in all."""
CLASSES = (36_000, 6_000_000)
"""The same of classes. In small tables draws differ most, and longer chains have more of them."""
KEPT = 100
"""Draws that are kept of a chain of real outcomes: those of four chains leave a Monte Carlo floor of a tenth of the
epistemic uncertainty, half as many one of an eighth."""
APART = 18
"""Steps from one draw of classes to the next, which then is another one. All are kept: chains are extremes, and their
noise has no others to be averaged with."""
CHAINS = 4
CHAINS_OF: dict[Task, Chains] = {"classification": "extremes", "regression": "averaged"}
"""What chains are to predictions. For classes the set then tells new inputs from known ones far better; for real
outcomes it would take four times as long."""
PLAUSIBLE = 0.3
"""Members stay whose plausibility is at least this (`CBDL.plausible`),"""
LEAST = 2
"""and so many in any case: one alone knows no ignorance where its chains agree."""
EXTRA: dict[Task, int] = {"classification": 1, "regression": 3}
"""Members that stay have up to so many times as many chains, as far as refuted ones leave theirs: their mean over more
modes is nearer the truth. Of classes every chain would be one more extreme of every prediction."""
DRAWS = CHAINS * KEPT
"""Draws of the parameters behind a prediction, of every extreme (of classes these are chains): all that are kept, since
Monte Carlo noise must not pass for ignorance."""
QUANTILES = 31
"""Of a column, behind its Normal scores."""
BENT = 0.02
"""Columns are given to networks with their Normal scores if a line leaves so much of the scores' variance."""
SCORED = 32
"""Columns with Normal scores, at most: those where they differ from a line the most."""
RAMPS = 8
"""Pieces of a column with Normal scores that some networks are given beside, for real outcomes of more than `MORE`
rows; with fewer such networks predict worse."""
INPUTS = 64
"""Inputs of a network in all, at most, if some of them are ramps: more leave the loops that make chains fast."""
DTYPE = torch.float64
"""In float64 the answer for a row does not depend on the rows beside it."""


def hidden(rows: int, task: Task) -> tuple[tuple[int, ...], ...]:
    """The widths of the hidden layers, one tuple per network, for a table of so many rows.

    >>> hidden(100, "regression"), hidden(1000, "classification")
    (((16, 16),), ((16, 16, 16),))
    """
    return ((16,) * (2 + (rows >= MANY) + _large(rows, task)),)


def steps(rows: int, task: Task) -> int:
    """The length of the training for a table of so many rows: real outcomes, and networks of four layers, take longer.

    >>> [steps(rows, "regression") for rows in (500, 1200, 4000, 50_000)]
    [8000, 25000, 8000, 5000]
    >>> [steps(rows, "classification") for rows in (150, 400, 50_000)]
    [36000, 15000, 6000]
    """
    most, work = CLASSES if task == "classification" else LARGE if _large(rows, task) else SMALL
    return min(most, max(STEPS[task], work // max(rows, 1)))


def _large(rows: int, task: Task) -> bool:
    return task == "regression" and rows > MORE


def quantiles(X: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Columns:
    """Of the columns of a table that are far from Normal, what networks need to give their Normal scores.

    >>> skewed = np.exp(np.random.default_rng(0).normal(size=(500, 1)))
    >>> [len(own) for own in quantiles(np.column_stack([skewed, np.log(skewed), skewed > 1]))]
    [31, 0, 0]
    """
    return bent_columns(X, weights, QUANTILES, BENT, SCORED)


def ramps(columns: Columns, rows: int, task: Task) -> int:
    """Into how many pieces the columns of `quantiles` are cut for a table of so many rows; 0: no column is.

    >>> skewed = ((-1.0, 0.0, 4.0),)
    >>> ramps(skewed * 5, 1202, "regression"), ramps(skewed * 11, 1439, "regression"), ramps(skewed, 999, "regression")
    (8, 3, 0)
    """
    bent = sum(len(own) > 0 for own in columns)
    if bent == 0 or not _large(rows, task):
        return 0
    pieces = min(RAMPS, (INPUTS - len(columns) - bent) // bent)
    return pieces if pieces > 1 else 0


def views(noise: Scale, ramps: int) -> tuple[int, ...]:
    """What networks with this noise see of a column: so many ramps each, every one a likelihood.

    Networks with ramps bend where they like, others are smooth; which is right the table knows. Constant noise has the
    kinks of "relu" already.

    >>> views("heteroscedastic", 8), views("heteroscedastic", 0), views("learned", 8)
    ((0, 8), (0,), (0,))
    """
    return (0, ramps) if ramps and noise == "heteroscedastic" else (0,)


def resolution(X: NDArray[np.float64], y: NDArray[np.float64]) -> float | tuple[float, ...]:
    """What real targets (rows,) or (rows, outputs) were rounded to: the least distance between two of them, if targets
    of different rows repeat; 0 if none does.

    Networks that sit on rounded targets would otherwise take the noise to be nothing, and be far off elsewhere.

    >>> X = np.arange(4.0)[:, None]
    >>> resolution(X, np.array([3.0, 5.0, 5.0, 6.0])), resolution(X, np.array([3.0, 5.0, 6.0, 8.5]))
    (1.0, 0.0)
    """
    width = X.shape[1]
    columns = np.unique(np.column_stack([X, y]), axis=0)[:, width:].T
    found = tuple(_least_step(own) for own in columns)
    return found[0] if y.ndim == 1 else found


def _least_step(y: NDArray[np.float64]) -> float:
    values = np.unique(y)
    return float(np.diff(values).min()) if 1 < len(values) < len(y) else 0.0


def activation(noise: Scale | None = None) -> str:
    """Of the hidden layers, for this noise of a regression, or for classes.

    Smooth, so that chains take steps twice as long; but with constant noise the kinks of "relu", so that the set has
    networks of both kinds, which err in different places.

    >>> activation(), activation("heteroscedastic"), activation("learned")
    ('silu', 'silu', 'relu')
    """
    return "silu" if noise in (None, "heteroscedastic") else "relu"


def method(steps: int, task: Task, *, temperature: float = 1.0) -> MCLMC:
    """The inference method of the default model, of so many steps.

    >>> method(6000, "classification").steps, method(5000, "regression").steps
    (6000, 5000)
    """
    if int(steps) != steps or steps < 60:
        raise ValueError(f"steps is {steps!r}; give a whole number of at least 60")
    optimising, warming = SHARES[task]
    optimise, warmup = int(optimising * steps), max(20, int(warming * steps))
    left = int(steps) - optimise - warmup
    thin = max(1, left // KEPT if task == "regression" else min(APART, left // KEPT))
    draws = min(left // thin, KEPT) if task == "regression" else left // thin
    warmup += left - draws * thin
    return MCLMC(
        chains=CHAINS, draws=draws, thin=thin, warmup=warmup, optimise=optimise, temperature=temperature
    )
