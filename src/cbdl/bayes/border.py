"""What users bring becomes tensors: arrays, tensors, Datasets, each checked once, with an error that says where.

Inside the package tensors are trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
)


def pair(x: Any, y: Any, name: str) -> tuple[Any, Any]:
    """(X, y) from two arrays, or from a Dataset or DataLoader whose items are pairs, read once and in order."""
    if not isinstance(x, Dataset | DataLoader):
        if y is None:
            raise ValueError(
                f"{name}y is missing; give targets, or a torch Dataset or DataLoader of pairs (x, y)"
            )
        return x, y
    if y is not None:
        raise ValueError(f"{name}X is a {type(x).__name__} of pairs (x, y); do not give y as well")
    if isinstance(x, TensorDataset):
        if len(x.tensors) != 2:
            raise ValueError(
                f"{name}the Dataset has items of {len(x.tensors)} tensors; they must be pairs (x, y)"
            )
        return x.tensors[0], x.tensors[1]
    xs, ys = _Stack(name, "x"), _Stack(name, "y")
    for i, item in enumerate(items(x, name)):
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise ValueError(f"{name}item {i} of the Dataset is not a pair (x, y)")
        xs.add(item[0])
        ys.add(item[1])
    return xs.stacked(), ys.stacked()


def inputs_alone(x: Any) -> Any:
    """The inputs of a Dataset or DataLoader, in order, whether its items are inputs or pairs (x, y); else x itself."""
    if not isinstance(x, Dataset | DataLoader):
        return x
    if isinstance(x, TensorDataset):
        return x.tensors[0]
    xs = _Stack("", "x")
    for item in items(x, ""):
        xs.add(item[0] if isinstance(item, tuple | list) else item)
    return xs.stacked()


def items(source: Dataset[Any] | DataLoader[Any], name: str) -> Iterator[Any]:
    """The items of a Dataset in its order; those of a DataLoader's dataset, as its collate_fn makes them."""
    if isinstance(source, DataLoader):
        check_sampler(source, name)
        for batch in DataLoader(
            source.dataset,
            batch_size=source.batch_size,
            num_workers=source.num_workers,
            collate_fn=source.collate_fn,
        ):
            yield from _rows_of(batch)
    elif isinstance(source, IterableDataset):
        yield from source
    else:
        check_length(source, name)
        for i in range(len(source)):  # type: ignore[arg-type]
            yield source[i]


def _rows_of(batch: Any) -> Iterator[Any]:
    """The items of a collated batch: of (xs, ys) the pairs, of xs the rows."""
    if isinstance(batch, tuple | list):
        return zip(*batch, strict=True)
    return iter(batch)


def check_length(dataset: Dataset[Any], name: str) -> None:
    """A ValueError unless the Dataset is map-style."""
    if isinstance(dataset, IterableDataset) or not isinstance(dataset, Sized):
        raise ValueError(f"{name}the {type(dataset).__name__} has no length; give a map-style Dataset")


def check_sampler(loader: DataLoader[Any], name: str) -> None:
    """A ValueError if the loader leaves rows out, repeats them, or batches them in a way of its own."""
    sampler = loader.sampler
    plain = isinstance(loader.dataset, IterableDataset) or isinstance(
        sampler, SequentialSampler | RandomSampler
    )
    again = isinstance(sampler, RandomSampler) and (
        sampler.replacement or sampler.num_samples != len(loader.dataset)  # type: ignore[arg-type]
    )
    if loader.batch_size is None or not plain or again:
        what = type(loader.batch_sampler if loader.batch_size is None else loader.sampler).__name__
        raise ValueError(
            f"{name}the DataLoader draws its rows by a {what}; here every row counts once an epoch, in an order that "
            "the seed fixes. Give a DataLoader with batch_size and the default sampler; pick rows by "
            "torch.utils.data.Subset, and weigh them by sample_weight"
        )


class _Stack:
    """Rows of one shape, gathered one after the other."""

    def __init__(self, name: str, part: str) -> None:
        self.name, self.part, self.rows = name, part, list[Tensor]()

    def add(self, value: Any) -> None:
        row = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
        if self.rows and row.shape != self.rows[0].shape:
            raise ValueError(
                f"{self.name}item {len(self.rows)} of the Dataset has {self.part} of shape {tuple(row.shape)}, "
                f"item 0 {tuple(self.rows[0].shape)}; pad or crop them to one shape"
            )
        self.rows.append(row)

    def stacked(self) -> Tensor:
        if not self.rows:
            raise ValueError(f"{self.name}the Dataset has 0 rows; there is nothing to learn from")
        return torch.stack(self.rows)


def numbers(x: Any, name: str) -> npt.NDArray[Any]:
    """An array of numbers that torch knows, nan where one is missing or masked."""
    if isinstance(x, np.ma.MaskedArray):
        x = np.ma.filled(x.astype(np.float64), np.nan) if np.ma.is_masked(x) else x.data
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise ValueError(f"{name} is not a rectangular array: {error}") from None
    if array.dtype.kind == "O" and array.ndim:
        return _of_objects(array, name)
    if array.dtype.kind not in "fiub":
        what = f"is a {type(x).__name__}" if array.ndim == 0 else f"holds {array.dtype}"
        dense = f"give {name}.toarray()" if hasattr(x, "toarray") else "encode it as numbers first"
        raise ValueError(f"{name} {what}, not numbers; {dense}")
    # neither longer numbers nor bytes in another order
    return array.astype(np.float64 if array.dtype.itemsize > 8 else array.dtype.newbyteorder("="), copy=False)


def _of_objects(array: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Numbers that came as objects, as of data frames with columns of several types."""
    plain = np.empty(array.shape)
    for at, value in np.ndenumerate(array):
        missing = (
            value is None or str(value) == "<NA>"
        )  # that of pandas is not equal to itself, nor different
        if not missing and not isinstance(value, Real | Decimal | np.bool_):
            raise ValueError(f"{name}{list(at)} is {value!r:.80}, not a number; encode it as numbers first")
        plain[at] = np.nan if missing else float(value)
    return plain


def _tensor(x: Any, name: str) -> Tensor:
    if isinstance(x, Tensor):
        return x.detach()
    # a copy: the caller's array may be read-only or change later
    return torch.from_numpy(np.ascontiguousarray(numbers(x, name)).copy())


def _check_finite(x: Tensor, name: str) -> None:
    if x.is_floating_point() and not bool(torch.isfinite(x).all()):
        at = tuple((~torch.isfinite(x)).nonzero()[0].tolist())
        raise ValueError(f"{name}{list(at)} is {x[at].item()}; remove the row or impute the value")


def inputs(x: Any, name: str, dtype: torch.dtype, *, tokens: bool = True) -> Tensor:
    """Inputs (rows, ...): floating numbers as `dtype`; integers as int64, or as the others if they are no tokens."""
    a = _tensor(x, name)
    if a.ndim < 1:
        raise ValueError(f"{name} is a single number; it must have one row per example")
    if a.ndim == 1:
        raise ValueError(
            f"{name} has shape {tuple(a.shape)}; one feature is a column: use X.reshape(-1, 1), of one row "
            "X.reshape(1, -1)"
        )
    if a.is_complex():
        raise ValueError(f"{name} is complex; give real numbers")
    if a.is_floating_point() or not tokens:
        _check_finite(a, name)
        a = a.to(dtype)
        _check_overflow(a, name, dtype)
        return a
    return a.to(torch.int64)


def _check_overflow(a: Tensor, name: str, dtype: torch.dtype) -> None:
    if not bool(torch.isfinite(a).all()):
        at = tuple((~torch.isfinite(a)).nonzero()[0].tolist())
        raise ValueError(f"{name}{list(at)} is too large for {dtype}; rescale it or use float64")


def targets(y: Any, name: str, space: str, dtype: torch.dtype) -> Tensor:
    """Targets (rows, *event): labels as int64, numbers and counts as `dtype`."""
    b = _tensor(y, name)
    _check_finite(b, name)
    if b.ndim < 1:
        raise ValueError(f"{name} is a single number; it must have one target per row")
    if space == "classes":
        if b.ndim == 2 and b.shape[1] == 1:
            b = b[:, 0]
        if b.is_floating_point() and bool((b != b.round()).any()):
            at = tuple((b != b.round()).nonzero()[0].tolist())
            raise ValueError(
                f"{name}{list(at)} is {b[at].item():g}; class labels are the integers 0, ..., J - 1"
            )
        return b.to(torch.int64)
    b = b.to(dtype)
    _check_overflow(b, name, dtype)
    return b


def check_rows(a: Tensor, b: Tensor, left: str, right: str) -> None:
    """A ValueError unless both have as many rows."""
    if a.shape[0] != b.shape[0]:
        raise ValueError(
            f"{left} has {a.shape[0]} rows and {right} has {b.shape[0]}; they must have the same number"
        )


def row_weights(weights: Any, rows: int, dtype: torch.dtype) -> Tensor:
    """Weights (rows,) that are not negative and not all 0."""
    w = _tensor(weights, "weights").to(dtype)
    _check_finite(w, "weights")
    if w.shape != (rows,):
        raise ValueError(f"weights has shape {tuple(w.shape)}; it must be one number per row: ({rows},)")
    if (w < 0).any() or not bool(w.sum() > 0):
        raise ValueError("weights must be at least 0, and not all 0")
    return w
