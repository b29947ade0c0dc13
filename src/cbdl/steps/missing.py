"""Ignorance about inputs: a missing value is answered with the hull over all values that it could have.

Conservative inference (de Cooman and Zaffalon, "Updating beliefs with incomplete observations", 2004): whoever does not
know why a value is missing knows nothing of it, so all its completions are possible and the answer is the convex hull
of theirs. The hull holds the credal set of every completion that is answered, and costs nothing where the network does
not look at the value.

A number could be any of some quantiles of its training column, a category any of its levels. Several missing values
could be every combination of theirs. Up to a bound all of them are answered; above it a balanced sample, in which every
value of every feature has its turn. `Completed` says how many there are and how many were answered.

Where all of them are answered, and a value that is removed is one of those that it could be, the hull does not shrink.
It may where the value is none of the quantiles that stand for it, and where completions are a sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cbdl.bayes import border
from cbdl.bayes.cohort import Member
from cbdl.bayes.learned import Learned
from cbdl.bayes.rows import Data, TrainingData
from cbdl.credal import CredalSet
from cbdl.prediction import Draws, Predictive

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

MOST = 32
"""Completions of a row that are answered at most, unless the user asks for another number."""
ROWS = 100_000
"""Quantiles are those of at most so many rows."""
QUANTILES = (0.025, 0.25, 0.5, 0.75, 0.975)
"""Where nothing else is said, a missing number could be any of these quantiles of its column."""


@dataclass(frozen=True)
class Choice:
    """Features that are known or missing together, and the values (n, features) that they could have.

    - `features`: their numbers, the columns of X

    >>> Choice((2, 3), np.array([[1.0, 0.0], [0.0, 1.0]]))            # one of two levels, each an input of its own
    Choice(features=(2, 3), values=array([[1., 0.],
           [0., 1.]]))
    """

    features: tuple[int, ...]
    values: Floats

    def __post_init__(self) -> None:
        values = np.asarray(self.values, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(self.features) or not len(values):
            raise ValueError(
                f"values has shape {values.shape}; give (n, {len(self.features)}): a row for each thing that features "
                f"{list(self.features)} could be"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"values of features {list(self.features)} must be finite numbers")


class Encoder(Protocol):
    """How a data frame becomes the array that a model was trained with."""

    def array(self, X: Any, *, gaps: bool = False) -> Any:
        """The inputs as numbers; what is no data frame comes back as it is. With `gaps`, nan where an input is not
        known; else that is an error with words."""

    @property
    def choices(self) -> tuple[Choice, ...]:
        """What missing inputs could be."""

    @property
    def meaning(self) -> Mapping[str, Any]:
        """What a saved model says of its table, whatever its networks have learned."""


@dataclass(frozen=True)
class Completed(Draws):
    """The origin of a hull over completions: its members, once for each completion.

    completions: (...,) how many are in the hull
    possible:    (...,) how many there are; where it is more, the hull is that of a sample

    - `members`: who predicts
    - `draws`: of the parameters, of every completion
    - `known`: what is known of the draws' spread, where it is
    - `normals`: components that one draw is made of
    - `paired`: whether draws come in antithetic pairs
    - `chains`: if not, how many they are taken from in turn
    """

    completions: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    possible: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.float64))

    def at(self, index: tuple[Tensor, ...]) -> Completed:
        """The origin of the sets at `index` of the batch."""
        own = super().at(index)
        assert isinstance(own, Completed)
        return replace(own, completions=self.completions[index], possible=self.possible[index])


@dataclass(frozen=True)
class Completions:
    """All rows with all their completions, one below the other.

    X:        (n, features) complete rows
    row:      (n,) which of the rows that were given each completes; completions of a row stand side by side
    counts:   (rows,) completions of each; 1 where nothing is missing
    possible: (rows,) how many there are
    """

    X: Floats
    row: Counts
    counts: Counts
    possible: Floats

    def places(self) -> Tensor:
        """(rows, most): where the completions of each row are; rows that have fewer repeat their last."""
        most = int(self.counts.max())
        first = np.cumsum(self.counts) - self.counts
        own = np.minimum(np.arange(most), self.counts[:, None] - 1)
        return torch.from_numpy(first[:, None] + own)


def input_quantiles(data: TrainingData) -> Tensor | None:
    """(q, features): quantiles of the inputs, in the user's units; None where inputs are no rows of numbers."""
    x = data.held.x
    if x.ndim != 2 or not x.is_floating_point():
        return None
    rows = x[data.some(ROWS, 0).to(x.device)] if isinstance(data, Data) else x
    # values that the column has, not ones between them
    own = torch.from_numpy(np.quantile(rows.cpu().numpy(), QUANTILES, axis=0, method="lower")).to(x.dtype)
    return own * data.inputs.scale.cpu() + data.inputs.loc.cpu()


def completions(
    X: Any,
    learned: Learned,
    encoder: Encoder | None,
    choices: Sequence[Choice] | None,
    quantiles: Tensor | None,
    most: int = MOST,
) -> Completions:
    """All that the rows of X could be: by `choices`, else by what the columns of its table mean, else by quantiles."""
    if len(learned.row) != 1 or learned.integers:
        raise ValueError(
            f"predict_missing is for rows of numbers; this model has inputs of shape {learned.row}"
        )
    array = X if encoder is None else encoder.array(X, gaps=True)
    wide = array.detach().cpu().numpy() if isinstance(array, Tensor) else border.numbers(array, "X")
    x = wide.astype(np.float64)
    if x.ndim != 2 or x.shape[1:] != learned.row:
        one = "; one row is X.reshape(1, -1)" if x.ndim == 1 else ""
        raise ValueError(f"X has shape {x.shape}; the model was trained on rows of shape {learned.row}{one}")
    if choices is None and encoder is not None:
        choices = encoder.choices
    if choices is None:
        choices = () if quantiles is None else quantile_choices(quantiles.double().numpy())
    _check_choices(choices)
    named = [f for choice in choices for f in choice.features]
    if len(set(named)) < len(named) or not set(named) <= set(range(x.shape[1])):
        raise ValueError(f"choices name the features {named}; each of 0, ..., {x.shape[1] - 1} at most once")
    return complete(x, choices, most, learned.seed)


def _check_choices(choices: object) -> None:
    if not isinstance(choices, Sequence) or not all(isinstance(choice, Choice) for choice in choices):
        raise ValueError(
            f"choices is {choices!r:.80}; give a list of what features could be: cbdl.missing.Choice(features, values)"
        )


def quantile_choices(quantiles: Floats) -> tuple[Choice, ...]:
    """One feature each, and the values (q, features) that it could have."""
    return tuple(Choice((j,), np.unique(values)[:, None]) for j, values in enumerate(quantiles.T))


def complete(X: Floats, choices: Sequence[Choice], most: int = MOST, seed: int = 0) -> Completions:
    """All that the rows of X (rows, features) could be, where they hold nan."""
    if int(most) != most or most < 1:
        raise ValueError(f"most is {most!r}; give a whole number of at least 1")
    gaps = np.isnan(X)
    _check_choosable(gaps, choices)
    missing = np.array([gaps[:, list(c.features)].any(1) for c in choices], dtype=bool).reshape(-1, len(X)).T
    sizes = np.where(missing, np.array([len(c.values) for c in choices], dtype=np.float64), 1.0)
    possible = sizes.prod(axis=1)
    counts = np.minimum(possible, most).astype(np.int64)
    row = np.repeat(np.arange(len(X)), counts)
    number = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    whole = (possible <= most)[row]
    source, stride, rows = np.random.default_rng(seed), np.ones(len(row)), X[row]
    for j, choice in enumerate(choices):
        shuffled = source.permutation(int(most))
        # all combinations count like the digits of a number; a sample takes every value in its turn, shuffled
        digit = np.where(whole, number // stride, shuffled[number]).astype(np.int64) % len(choice.values)
        stride = np.where(whole, stride * sizes[row, j], 1.0)
        here = missing[row, j]
        if here.any():
            rows[np.ix_(here, list(choice.features))] = choice.values[digit[here]]
    return Completions(rows, row, counts, possible)


def _check_choosable(gaps: npt.NDArray[np.bool_], choices: Sequence[Choice]) -> None:
    """A ValueError where a value is missing of which nothing is known."""
    chosen = np.zeros(gaps.shape[1], dtype=bool)
    chosen[[f for choice in choices for f in choice.features]] = True
    lost = np.argwhere(gaps & ~chosen)
    if len(lost):
        raise ValueError(
            f"X{lost[0].tolist()} is nan, and nothing says what feature {lost[0][1]} could be; give its choices"
        )


def hull(
    predictive: Predictive, members: tuple[Member, ...], own: Completions, device: torch.device | None
) -> CredalSet:
    """The credal set of every row, its extremes those of all its completions: tensors on `device`, or numpy arrays if
    that is None."""
    at = own.places()
    rows, most = at.shape

    def gathered(t: Tensor) -> Tensor:
        return t[at].reshape(rows, most * t.shape[1], *t.shape[2:])

    noise, draws = gathered(predictive.noise), predictive.draws[at].amax(1)
    # identical members would show the noise of the completion that has most of it
    floor = None if predictive.floor is None else predictive.floor[at].amax(1)
    numbers = tuple(map(gathered, predictive.numbers))
    origin = Completed(
        members * most,
        draws,
        noise,
        floor,
        predictive.normals,
        predictive.paired,
        predictive.chains,
        torch.from_numpy(own.counts),
        torch.from_numpy(own.possible),
    )
    joined = replace(predictive, numbers=numbers, noise=noise, draws=draws, floor=floor)
    return joined.credal_set(origin.members, device).with_origin(origin)
