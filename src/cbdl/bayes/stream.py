"""Training data that is fetched anew in every epoch, from a Dataset or a DataLoader: random augmentation stays random.

Which rows a batch holds is fixed by (seed, epoch), as for data in memory. Each item is fetched with torch's, numpy's
and Python's global random streams seeded by (seed, epoch, its number), in whichever process: so a run that is killed
and resumed sees the same augmented rows. Streams that a Dataset seeds by itself are its own affair.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from cbdl.ground import memory

from . import border
from ._random import generator, mix
from .checkpoint import bytes_of
from .rows import Batch, Data, Standard, bounds, step_weight

LOOK = 4096
"""Rows that are fetched once before training: standardisation, checks and diagnostics see these."""
LOOKING = -1
"""The number of the epoch, so to say, in which they are fetched, and all rows where they are needed once."""


@dataclass(frozen=True)
class Source:
    """Where rows come from: a map-style Dataset of pairs (x, y), and how a DataLoader fetches it.

    Of a DataLoader its dataset, batch_size, num_workers, collate_fn and multiprocessing_context are used. Its sampler
    (shuffle) and drop_last are not: every row comes once an epoch, in an order that (seed, epoch) fixes, in batches
    whose sizes differ by one at most. Another sampler than the default ones is an error.
    """

    dataset: Dataset[Any]
    batch_size: int | None = None
    """None: the method's."""
    workers: int = 0
    collate: Callable[[list[Any]], Any] = default_collate
    context: str | None = None

    @classmethod
    def of(cls, given: Dataset[Any] | DataLoader[Any], name: str = "") -> Source:
        if isinstance(given, DataLoader):
            border.check_length(given.dataset, name)
            border.check_sampler(given, name)
            context = given.multiprocessing_context
            method = None if context is None else context.get_start_method()
            return cls(given.dataset, given.batch_size, given.num_workers, given.collate_fn, method)
        border.check_length(given, name)
        return cls(given)

    @property
    def rows(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def fetch(self, batches: list[list[int]], seed: int, epoch: int) -> Iterator[tuple[Any, Any]]:
        """The batches of rows with these numbers, each collated to (xs, ys)."""
        loader: DataLoader[Any] = DataLoader(
            _Seeded(self.dataset, seed, epoch),
            batch_sampler=batches,
            num_workers=self.workers,
            collate_fn=self.collate,
            multiprocessing_context=self.context if self.workers else None,
            generator=torch.Generator(),  # its own: the user's global stream is left alone
        )
        for number, batch in enumerate(loader):
            if not isinstance(batch, tuple | list) or len(batch) != 2:
                raise ValueError(
                    f"items {batches[number][:3]}... of the Dataset are not pairs (x, y) after collate_fn"
                )
            yield batch[0], batch[1]


class _Seeded(Dataset[Any]):
    """A Dataset whose items are functions of (seed, epoch, number)."""

    def __init__(self, inner: Dataset[Any], seed: int, epoch: int) -> None:
        self.inner, self.seed, self.epoch = inner, seed, epoch

    def __getitems__(self, numbers: list[int]) -> list[Any]:
        with _random_kept():
            return [self[i] for i in numbers]

    def __getitem__(self, i: int) -> Any:
        own = mix(self.seed, "item", self.epoch, i)
        torch.default_generator.manual_seed(own)
        random.seed(own)
        np.random.seed(own % (1 << 32))  # noqa: NPY002  the stream that datasets use
        return self.inner[i]


@contextmanager
def _random_kept() -> Iterator[None]:
    """The global streams are afterwards as they were before."""
    ours, python, numbers = torch.default_generator.get_state(), random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        torch.default_generator.set_state(ours)
        random.setstate(python)
        np.random.set_state(numbers)  # noqa: NPY002


@dataclass(frozen=True)
class Stream:
    """Rows of a `Source`, standardised as they come; a `TrainingData`."""

    source: Source
    space: str
    held: Data
    """The rows that were looked at first."""
    weights: Tensor | None = None
    validation: Data | None = None

    @property
    def inputs(self) -> Standard:
        return self.held.inputs

    @property
    def targets(self) -> Standard:
        return self.held.targets

    @property
    def rows(self) -> int:
        return self.source.rows

    @cached_property
    def size(self) -> float:
        """N of the objective: rows, or the sum of their weights."""
        if self.weights is None:
            return float(self.rows)
        return float(self.weights.cpu().sum(dtype=torch.float64))

    @cached_property
    def digest(self) -> str:
        """sha256 of what is known without reading everything: the rows looked at, how many there are, weights."""
        source = self.source
        sha = hashlib.sha256(f"{type(source.dataset).__qualname__}|{self.rows}|{source.batch_size}".encode())
        sha.update(self.held.digest.encode())
        if self.weights is not None:
            sha.update(bytes_of(self.weights))
        if self.validation is not None:
            sha.update(self.validation.digest.encode())
        return sha.hexdigest()

    def steps(self, batch_size: int) -> int:
        """Steps of an epoch; a DataLoader's own batch_size counts before the method's."""
        return math.ceil(self.rows / (self.source.batch_size or batch_size))

    def epoch(self, seed: int, epoch: int, batch_size: int, start: int = 0) -> Iterator[Batch]:
        """The minibatches of `epoch` from number `start` on, in the order of (seed, epoch)."""
        steps = self.steps(batch_size)
        order = torch.randperm(self.rows, generator=generator("cpu", seed, "order", epoch))
        batches = [order[a:b].tolist() for a, b in bounds(self.rows, steps)[start:]]
        yield from self._served(batches, seed, epoch, step_weight(self, steps))

    def parts(self, batch_size: int) -> Iterator[Batch]:
        """All rows once, in order, always the same, weighted so that the sums over parts add up to the mean."""
        batches = [list(range(a, min(a + batch_size, self.rows))) for a in range(0, self.rows, batch_size)]
        yield from self._served(batches, 0, LOOKING, step_weight(self, 1))

    def _served(self, batches: list[list[int]], seed: int, epoch: int, weight: Tensor) -> Iterator[Batch]:
        fetched = self.source.fetch(batches, seed, epoch)
        for numbers, (xs, ys) in zip(batches, fetched, strict=True):
            x, y = _tensors(xs, ys, self.space, self.held.x.dtype, self.inputs.loc.dtype)
            for ours, theirs, name in ((self.held.x, x, "x"), (self.held.y, y, "y")):
                if theirs.shape != (len(numbers), *ours.shape[1:]):
                    raise ValueError(
                        f"items {numbers[:3]}... of the Dataset have {name} of shape {tuple(theirs.shape)}, others "
                        f"rows of {tuple(ours.shape[1:])}; pad or crop them to one shape"
                    )
            x, y = x.to(weight.device), y.to(weight.device)
            own = weight if weight.ndim == 0 else weight[numbers]
            yield Batch(self.inputs(x), self.targets(y), own, checked=False)

    def in_units(self, inputs: Standard, targets: Standard) -> Stream:
        """The same rows, which are in the user's units, in those of another training."""
        validation = None if self.validation is None else self.validation.in_units(inputs, targets)
        return replace(self, held=self.held.in_units(inputs, targets), validation=validation)

    def to(self, device: torch.device, dtype: torch.dtype | None = None) -> Stream:
        """The same data, served on `device` with real numbers as `dtype`."""
        return replace(
            self,
            held=self.held.to(device, dtype),
            weights=None if self.weights is None else self.weights.to(device, dtype),
            validation=None if self.validation is None else self.validation.to(device, dtype),
        )


def _tensors(
    xs: Any, ys: Any, space: str, kind: torch.dtype | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    x = border.inputs(xs, "X of a batch of the Dataset", dtype)
    if kind is not None and x.dtype != kind:
        raise ValueError(f"the Dataset gives inputs of type {x.dtype}, before it gave {kind}; give one type")
    return x, border.targets(ys, "y of a batch of the Dataset", space, dtype)


def look(source: Source, space: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """At most `LOOK` rows of the source, picked at random, fewer where they are large; in the user's units."""
    if source.rows == 0:
        raise ValueError("the Dataset has 0 rows; there is nothing to learn from")
    first, _ = _tensors(*next(source.fetch([[0]], 0, LOOKING)), space, None, dtype)
    most = max(2, memory.limit() // 4 // max(1, first.numel() * first.element_size()))
    count = min(source.rows, LOOK, most)
    # not at equal distances: data sets are often sorted, or have a period
    numbers = (
        torch.randperm(source.rows, generator=generator("cpu", 0, "look"))[:count].sort().values.tolist()
    )
    batches = [numbers[a : a + 256] for a in range(0, count, 256)]
    parts = [_tensors(xs, ys, space, first.dtype, dtype) for xs, ys in source.fetch(batches, 0, LOOKING)]
    for x, y in parts:
        border.check_rows(x, y, "x", "y")
        if x.shape[1:] != first.shape[1:]:
            raise ValueError(
                f"the Dataset has items of shape {tuple(x.shape[1:])} and {tuple(first.shape[1:])}; pad or crop them "
                "to one shape"
            )
    return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
