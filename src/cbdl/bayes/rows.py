"""Rows of data as training sees them: standardised tensors, served in an order that (seed, epoch) fixes.

All members see the same minibatches, whichever process they are trained in. An epoch of N rows has S = ceil(N
/ batch_size) batches whose sizes differ by one at most (no batch of one row that BatchNorm would refuse).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Protocol, Self

import torch
from torch import Tensor

from cbdl.ground import memory

from ._random import generator
from .checkpoint import bytes_of


@dataclass(frozen=True)
class Standard:
    """x -> (x - loc) / scale, and back. Both are scalars or broadcast against one row."""

    loc: Tensor
    scale: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale if x.is_floating_point() else x

    def to(self, device: torch.device, dtype: torch.dtype) -> Standard:
        return Standard(self.loc.to(device, dtype), self.scale.to(device, dtype))


def bounds(rows: int, steps: int) -> list[tuple[int, int]]:
    """`steps` ranges of rows whose sizes differ by one at most.

    >>> bounds(10, 3)
    [(0, 3), (3, 6), (6, 10)]
    """
    return list(pairwise(rows * i // steps for i in range(steps + 1)))


@dataclass(frozen=True)
class Batch:
    """Rows of one step. `weight` makes (weight * nll).sum() average to the mean NLL over the steps of an
    epoch.
    """

    x: Tensor
    y: Tensor
    weight: Tensor
    checked: bool = True
    """Whether the likelihood has seen these targets before; not those of a stream."""
    folds: Tensor | None = None
    """(batch,) the fold of every row; members that leave out a fold do not see its rows."""


class TrainingData(Protocol):
    """What training needs of its rows; `Data` has them in memory, `cbdl.bayes.stream.Stream` fetches them."""

    @property
    def inputs(self) -> Standard: ...

    @property
    def targets(self) -> Standard: ...

    @property
    def weights(self) -> Tensor | None: ...

    @property
    def validation(self) -> Data | None: ...

    @property
    def held(self) -> Data:
        """Rows that are in memory: all of them, or a sample for checks, shapes and diagnostics."""
        ...

    @property
    def rows(self) -> int: ...

    @property
    def size(self) -> float:
        """N of the objective mean NLL + T KL / N: rows, or the sum of their weights."""
        ...

    @property
    def digest(self) -> str:
        """What a checkpoint must agree with."""
        ...

    def steps(self, batch_size: int) -> int:
        """Steps of an epoch."""
        ...

    def epoch(self, seed: int, epoch: int, batch_size: int, start: int = 0) -> Iterator[Batch]:
        """The minibatches of `epoch` from number `start` on, in the order of (seed, epoch)."""
        ...

    def parts(self, batch_size: int) -> Iterator[Batch]:
        """All rows once, in order, weighted so that the sums over parts add up to the mean."""
        ...

    def in_units(self, inputs: Standard, targets: Standard) -> Self:
        """The same rows, which are in the user's units, in those of another training."""
        ...

    def to(self, device: torch.device, dtype: torch.dtype | None = None) -> Self:
        """The same data on `device`, real numbers as `dtype`."""
        ...


@dataclass(frozen=True)
class Data:
    """Standardised inputs x (rows, ...), targets y (rows, *event), weights (rows,) or None, and how to undo
    it.
    """

    x: Tensor
    y: Tensor
    inputs: Standard
    targets: Standard
    weights: Tensor | None = None
    validation: Data | None = None
    folds: Tensor | None = None
    """(rows,) the fold of every row, for members that leave one out."""

    @property
    def held(self) -> Data:
        return self

    @property
    def rows(self) -> int:
        return self.x.shape[0]

    @cached_property
    def size(self) -> float:
        """N of the objective mean NLL + T KL / N: rows, or the sum of their weights."""
        return (
            float(self.rows) if self.weights is None else float(self.weights.cpu().sum(dtype=torch.float64))
        )

    @cached_property
    def digest(self) -> str:
        """sha256 of everything that training sees."""
        sha = hashlib.sha256()
        for x in (self.x, self.y, self.weights, self.folds):
            if x is not None:
                sha.update(f"{x.dtype}{tuple(x.shape)}".encode())
                sha.update(bytes_of(x))
        if self.validation is not None:
            sha.update(self.validation.digest.encode())
        return sha.hexdigest()

    def steps(self, batch_size: int) -> int:
        """Steps of an epoch."""
        return math.ceil(self.rows / batch_size)

    def epoch(self, seed: int, epoch: int, batch_size: int, start: int = 0) -> Iterator[Batch]:
        """The minibatches of `epoch` from number `start` on, in the order of (seed, epoch)."""
        steps, rows = self.steps(batch_size), self.rows
        if steps == 1:  # all rows at once have no order
            yield self._whole
            return
        source = generator("cpu", seed, "order", epoch)
        order = torch.randperm(rows, generator=source).to(self.x.device)
        weight = step_weight(self, steps)
        # small data is brought into the epoch's order at once
        small = self.x.numel() * self.x.element_size() < memory.limit() // 4
        x, y = (self.x[order], self.y[order]) if small else (self.x, self.y)
        w = weight if self.weights is None else weight[order]
        folds = None if self.folds is None else self.folds[order]
        for a, b in bounds(rows, steps)[start:]:
            part = w if self.weights is None else w[a:b]
            own = None if folds is None else folds[a:b]
            if small:
                yield Batch(x[a:b], y[a:b], part, folds=own)
            else:
                yield Batch(x[order[a:b]], y[order[a:b]], part, folds=own)

    @cached_property
    def _whole(self) -> Batch:
        return next(self.parts(self.rows))

    def parts(self, batch_size: int) -> Iterator[Batch]:
        """All rows once, in order, weighted so that the sums over parts add up to the mean."""
        weight = step_weight(self, 1)
        for a in range(0, self.rows, batch_size):
            here = slice(a, a + batch_size)
            part = weight if self.weights is None else weight[here]
            yield Batch(
                self.x[here], self.y[here], part, folds=None if self.folds is None else self.folds[here]
            )

    def in_folds(self, folds: int, seed: int) -> Data:
        """The same rows, each in one of so many folds of equal size, by chance."""
        order = torch.randperm(self.rows, generator=generator("cpu", seed, "folds"))
        return replace(self, folds=(torch.arange(self.rows) % min(folds, self.rows))[order].to(self.x.device))

    def some(self, most: int, seed: int) -> Tensor:
        """The numbers of all rows, or of `most` of them picked at random, in order."""
        if self.rows <= most:
            return torch.arange(self.rows)
        order = torch.randperm(self.rows, generator=generator("cpu", seed, "some"))
        return order[:most].sort().values

    def in_units(self, inputs: Standard, targets: Standard) -> Data:
        """The same rows, which are in the user's units, in those of another training."""
        validation = None if self.validation is None else self.validation.in_units(inputs, targets)
        return Data(inputs(self.x), targets(self.y), inputs, targets, self.weights, validation)

    def to(self, device: torch.device, dtype: torch.dtype | None = None) -> Data:
        """The same data on `device`, real numbers as `dtype`."""
        kind = self.inputs.loc.dtype if dtype is None else dtype

        def placed(x: Tensor) -> Tensor:
            return x.to(device, kind) if x.is_floating_point() else x.to(device)

        return replace(
            self,
            x=placed(self.x),
            y=placed(self.y),
            inputs=self.inputs.to(device, kind),
            targets=self.targets.to(device, kind),
            weights=None if self.weights is None else placed(self.weights),
            validation=None if self.validation is None else self.validation.to(device, dtype),
            folds=None if self.folds is None else self.folds.to(device),
        )


def step_weight(data: TrainingData, steps: int) -> Tensor:
    """The weight of every row (), or of each (rows,), in one of `steps` steps: they average to the mean."""
    if data.weights is None:
        like = data.inputs.loc
        return torch.tensor(steps / data.rows, device=like.device, dtype=like.dtype)
    return data.weights * (steps / data.size)
