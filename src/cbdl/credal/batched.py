"""Credal sets in a batch: their parameters, their shape, some of them by index, and where they come from."""

from __future__ import annotations

import copy
from abc import ABC
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._border import Array, ArrayLike, Border, extreme_weights
from cbdl.credal.origin import Origin, Source
from cbdl.ground.labels import check_labels, numbers_of


class Batched(ABC):
    """What determines the extremes of every set of a batch, batch dimensions first, and the origin of the sets."""

    _border: Border
    _parameters: tuple[Tensor, ...]
    _batch: torch.Size
    _extremes: int
    _classes: int | None = None
    _source: Source | None = None
    _labels: tuple[str, ...] | None = None

    def _hold(self, border: Border, *parameters: Tensor) -> None:
        """Keep what determines the extremes, checked: float64 tensors (..., m, k) of one batch and one m."""
        self._border, self._parameters = border, parameters
        self._batch, self._extremes = parameters[0].shape[:-2], int(parameters[0].shape[-2])

    # --- parameters ------------------------------------------------------------------------------------

    if TYPE_CHECKING:
        # each kind has its own; a checker that only knows of a credal set lets all of them pass
        @property
        def probs(self) -> Array: ...
        @property
        def loc(self) -> Array: ...
        @property
        def scale(self) -> Array: ...
        @property
        def weights(self) -> Array: ...

    else:

        def __getattr__(self, name: str) -> NoReturn:
            known = ("probs", "loc", "scale", "weights", "lower", "upper")
            own = [n for n in known if hasattr(type(self), n)]
            hint = f"; its parameters are {', '.join(own)}" if name in known else ""
            article = "an" if type(self).__name__[0] in "AEIOU" else "a"
            raise AttributeError(f"{article} {type(self).__name__} has no {name!r}{hint}")

    # --- shape -----------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the batch of sets; () for a single one."""
        return tuple(self._batch)

    @property
    def num_extremes(self) -> int:
        """m, the number of distributions that generate the set."""
        return self._extremes

    def __len__(self) -> int:
        """The number of sets along the first batch dimension."""
        if not self._batch:
            raise TypeError("this is a single set, without a batch: it has no length (see num_extremes)")
        return self._batch[0]

    def __bool__(self) -> bool:
        return True  # a single set has no length to ask

    def __iter__(self) -> Iterator[Self]:
        """The sets along the first batch dimension."""
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Self:
        """The sets at `index` of the batch, with their origin: `cs[3]`, `cs[:10]`, `cs[mask]`."""
        if not self._batch:
            raise IndexError(
                "this is a single set, without a batch to index; see its parameters for the extremes"
            )
        index = tuple(_as_numpy(i) for i in index) if isinstance(index, tuple) else _as_numpy(index)
        flat = np.arange(self._batch.numel()).reshape(self._batch)[index]
        at = tuple(torch.from_numpy(np.asarray(i)) for i in np.unravel_index(flat, self._batch))
        new = self._like(*(t[at] for t in self._parameters))
        new._source = None if self._source is None else self._source.at(at)
        return new

    def _like(self, *parameters: Tensor) -> Self:
        """Another set of the same kind and settings, whose parameters are known to be good, of no origin."""
        new = copy.copy(self)
        new._hold(self._border, *parameters)
        new._source = None
        return new

    def _flattened(self) -> tuple[Tensor, ...]:
        """The parameters as (B, m, k): one batch dimension."""
        return tuple(t.reshape(-1, *t.shape[-2:]) for t in self._parameters)

    def _batched(self, x: Tensor) -> Tensor:
        """x (B, ...) in the shape of the batch."""
        return x.reshape((*self._batch, *x.shape[1:]))

    # --- names of the classes --------------------------------------------------------------------------

    @property
    def labels(self) -> tuple[str, ...] | None:
        """What the classes are called, where that is known."""
        return self._labels

    def with_labels(self, labels: Sequence[str] | None) -> Self:
        """The same set with `labels` for its classes, which questions may then use, as in P("cat"); None: without."""
        names = None if labels is None else check_labels(labels)
        if names is not None and len(names) != self._classes:
            what = "outcomes that are no classes" if self._classes is None else f"{self._classes} classes"
            raise ValueError(f"labels has {len(names)} names; this set is over {what}")
        new = copy.copy(self)
        new._labels = names
        return new

    def _numbered(self, event: Any) -> Any:
        """An event with classes by number, if it is given by names and they are known."""
        return event if self._labels is None else numbers_of(event, self._labels, "event")

    # --- origin ----------------------------------------------------------------------------------------

    @property
    def origin(self) -> Origin | None:
        """Where the set comes from, if a model made it."""
        return None if self._source is None else self._source.origin

    def with_origin(self, origin: Origin) -> Self:
        """The same set, coming from `origin`, whose members are its extremes in order."""
        if len(origin.members) != self.num_extremes:
            raise ValueError(f"origin has {len(origin.members)} members for {self.num_extremes} extremes")
        new = self._like(*self._parameters)
        new._source = Source(origin)
        return new

    @property
    def members(self) -> tuple[Any, ...] | None:
        """Who the extremes are, in order, where a model made the set: its (prior, likelihood) pairs.

        After `reduce` of a batch its sets may have kept different ones: a tuple per set, nested like the batch.
        """
        return None if self._source is None else self._source.members

    # --- arguments -------------------------------------------------------------------------------------

    def _weights(self, weights: ArrayLike | None) -> Tensor:
        """(..., m): weights of the extremes, checked; equal ones for None."""
        return extreme_weights(weights, self.num_extremes, self._batch).to(self._device)

    @property
    def _device(self) -> torch.device:
        return self._parameters[0].device


def _as_numpy(index: Any) -> Any:
    return index.detach().cpu().numpy() if isinstance(index, Tensor) else index
