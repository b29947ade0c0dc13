"""Normal scores: where a number stands among those that a network was trained on, as one more input.

Columns of tables are skewed, have long tails, or crowd into a few places. A network of few units has to spend them on
undoing that. Beside every such column, its Normal score (van der Waerden 1952) is given: the quantile of the standard
Normal that has the same rank. Between the quantiles that are known it is linear, beyond them it stays; so the column
itself is what tells that an input is far away.

Where there are rows enough to learn sharp bends from, ramps may follow: the range of a column is cut into pieces with
equally many rows, and each is a further input that rises from the piece's one end to the other and is level elsewhere
(piecewise linear encoding, Gorishniy et al. 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Columns: TypeAlias = tuple[tuple[float, ...], ...]
"""The quantiles of every column, or nothing where it has no scores."""
Floats: TypeAlias = NDArray[np.float64]

MOST_QUANTILES = 1000
"""No column has more: a description that asks for more is a mistake."""
CPU = torch.device("cpu")
"""Where knots are made, whichever device networks are made on: none of their numbers would be known on "meta"."""


class NormalScores(nn.Module):
    """(rows, columns) -> (rows, columns + further): the scores stand behind the columns, ramps behind the scores.

    `quantiles`: per column its quantiles at the probabilities 1 / 2Q, 3 / 2Q, ..., (2Q - 1) / 2Q, or nothing.
    `ramps`: of every column with quantiles; fewer where quantiles are equal. Each has mean 0 and variance 1 over them.

    >>> NormalScores([[], [0.0, 1.0, 9.0]])(torch.tensor([[5.0, 1.0], [5.0, 5.0], [5.0, 99.0]])).round(decimals=2)
    tensor([[ 5.0000,  1.0000,  0.0000],
            [ 5.0000,  5.0000,  0.4800],
            [ 5.0000, 99.0000,  0.9700]])
    """

    def __init__(self, quantiles: Sequence[Sequence[float]], ramps: int = 0) -> None:
        super().__init__()
        if int(ramps) != ramps or not 0 <= ramps <= MOST_QUANTILES:
            raise ValueError(f"ramps is {ramps}; give a whole number from 0 to {MOST_QUANTILES}")
        self.columns = [i for i, own in enumerate(quantiles) if len(own)]
        lines = [_line(i, quantiles[i]) for i in self.columns]
        # scores are sums over pieces: (columns, pieces) of their starts, their lengths and their slopes
        self.first = torch.tensor([float(values[0]) for _, values in lines], dtype=torch.float64, device=CPU)
        self.starts = _table([places[:-1] for places, _ in lines])
        self.lengths = _table([places.diff() for places, _ in lines])
        self.slopes = _table([values.diff() / places.diff() for places, values in lines])
        own = [_ramps(quantiles[i], int(ramps)) for i in self.columns]
        self.climbing = [i for i, parts in zip(self.columns, own, strict=True) for _ in range(parts.shape[1])]
        # (4, ramps): where they begin, how long they are, their means and their deviations
        self.ramps = torch.cat([torch.empty(4, 0, dtype=torch.float64, device=CPU), *own], 1)

    @property
    def further(self) -> int:
        """Inputs that are added to the columns."""
        return len(self.columns) + len(self.climbing)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        # no buffers: they would be taken for statistics of the training, one copy per member
        self.first, self.starts = fn(self.first), fn(self.starts)
        self.lengths, self.slopes, self.ramps = fn(self.lengths), fn(self.slopes), fn(self.ramps)
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call,no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        first, starts, lengths, slopes = (
            t.to(x) for t in (self.first, self.starts, self.lengths, self.slopes)
        )
        covered = (x[:, self.columns].unsqueeze(-1) - starts).clamp_min(0).minimum(lengths)
        scores = first + (covered * slopes).sum(-1)
        if not self.climbing:
            return torch.cat([x, scores], 1)
        start, length, mean, spread = self.ramps.to(x)
        height = ((x[:, self.climbing] - start) / length).clamp(0, 1)
        return torch.cat([x, scores, (height - mean) / spread], 1)


def _line(column: int, quantiles: Sequence[float]) -> tuple[Tensor, Tensor]:
    """Knots and the scores there; equal quantiles are one knot, with the mean of their scores."""
    given = torch.tensor(quantiles, dtype=torch.float64, device=CPU)
    if given.ndim != 1 or not 2 <= len(given) <= MOST_QUANTILES:
        raise ValueError(
            f"quantiles[{column}] has shape {tuple(given.shape)}; give 2 to {MOST_QUANTILES} numbers"
        )
    if not bool(given.isfinite().all()) or bool((given.diff() < 0).any()):
        raise ValueError(f"quantiles[{column}] must be finite numbers in rising order")
    shares = (torch.arange(len(given), dtype=torch.float64, device=CPU) + 0.5) / len(given)
    places, index, counts = torch.unique(given, return_inverse=True, return_counts=True)
    values = torch.zeros_like(places).index_add_(0, index, torch.special.ndtri(shares)) / counts
    return places, values


def _ramps(quantiles: Sequence[float], count: int) -> Tensor:
    """Where the ramps of a column begin, how long they are, and mean and deviation over its quantiles: (4, ramps)."""
    given = torch.tensor(quantiles, dtype=torch.float64, device=CPU)
    shares = torch.linspace(0, 1, count + 1, dtype=torch.float64, device=CPU)
    ends = torch.unique(torch.quantile(given, shares)) if count else given[:0]
    if len(ends) < 2:
        return given.new_empty(4, 0)
    start, length = ends[:-1], ends.diff()
    heights = ((given.unsqueeze(1) - start) / length).clamp(0, 1)
    return torch.stack([start, length, heights.mean(0), heights.std(0, correction=0)])


def _table(lines: Sequence[Tensor]) -> Tensor:
    """One row each, with zeros behind the shorter ones."""
    table = torch.zeros(len(lines), max(map(len, lines)), dtype=torch.float64, device=CPU)
    for row, line in zip(table, lines, strict=True):
        row[: len(line)] = line
    return table


def bent_columns(X: Floats, weights: Floats | None, count: int, bent: float, most: int) -> Columns:
    """`count` quantiles of the columns of X (rows, columns) whose Normal scores are no line: at most `most` of them.

    A column is bent if a line through its quantiles leaves at least the share `bent` of the variance of its scores.
    Quantiles are in standard deviations from the mean; `weights` (rows,) say how often each row counts.
    """
    counts = np.ones(len(X)) if weights is None else weights
    mean = np.average(X, axis=0, weights=counts)
    spread = np.sqrt(np.average(np.square(X - mean), axis=0, weights=counts))
    Z = (X - mean) / np.where(spread > 0, spread, 1.0)
    order = np.argsort(Z, axis=0, kind="stable")
    before = np.cumsum(counts[order], axis=0) - 0.5 * counts[order]
    places = (np.arange(count) + 0.5) / count * counts.sum()
    found = [np.interp(places, before[:, j], Z[order[:, j], j]) for j in range(X.shape[1])]
    bends = np.array([_bend(own) for own in found])
    chosen = set(np.argsort(-bends, kind="stable")[:most].tolist()) & set(
        np.flatnonzero(bends >= bent).tolist()
    )
    return tuple(tuple(own.tolist()) if j in chosen else () for j, own in enumerate(found))


def _bend(quantiles: Floats) -> float:
    """The share of the variance of the scores at these quantiles that a line leaves; 0 of fewer than three levels."""
    places, values = (t.numpy() for t in _line(0, quantiles.tolist()))
    if len(places) < 3:
        return 0.0
    at = np.searchsorted(places, quantiles)
    return float(1 - np.corrcoef(quantiles, values[at])[0, 1] ** 2)
