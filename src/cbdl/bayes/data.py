"""Training data: checked before any training, standardised, and served in an order that (seed, epoch) fixes.

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
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from ._random import generator
from .checkpoint import bytes_of

GATHER_BYTES = 1 << 28
"""Data below this size is brought into an epoch's order at once; larger data is gathered batch by batch."""


@dataclass(frozen=True)
class Standard:
    """x -> (x - loc) / scale, and back. Both are scalars or broadcast against one row."""

    loc: Tensor
    scale: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale if x.is_floating_point() else x

    def to(self, device: torch.device, dtype: torch.dtype) -> Standard:
        return Standard(self.loc.to(device, dtype), self.scale.to(device, dtype))


@dataclass(frozen=True)
class Batch:
    """Rows of one step. `weight` makes (weight * nll).sum() average to the mean NLL over the steps of an
    epoch.
    """

    x: Tensor
    y: Tensor
    weight: Tensor


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
        for x in (self.x, self.y, self.weights):
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
        source = generator("cpu", seed, "order", epoch)
        order = torch.randperm(rows, generator=source).to(self.x.device)
        weight = self._weight(steps)
        small = self.x.numel() * self.x.element_size() < GATHER_BYTES
        x, y = (self.x[order], self.y[order]) if small else (self.x, self.y)
        w = weight if self.weights is None else weight[order]
        bounds = [rows * i // steps for i in range(steps + 1)]
        for a, b in list(pairwise(bounds))[start:]:
            part = w if self.weights is None else w[a:b]
            if small:
                yield Batch(x[a:b], y[a:b], part)
            else:
                yield Batch(x[order[a:b]], y[order[a:b]], part)

    def parts(self, batch_size: int) -> Iterator[Batch]:
        """All rows once, in order, weighted so that the sums over parts add up to the mean."""
        weight = self._weight(1)
        for a in range(0, self.rows, batch_size):
            part = weight if self.weights is None else weight[a : a + batch_size]
            yield Batch(self.x[a : a + batch_size], self.y[a : a + batch_size], part)

    def _weight(self, steps: int) -> Tensor:
        if self.weights is None:
            dtype = self.inputs.loc.dtype
            return torch.tensor(steps / self.rows, device=self.x.device, dtype=dtype)
        return self.weights * (steps / self.size)

    def to(self, device: torch.device) -> Data:
        """The same data on `device`."""
        dtype = self.inputs.loc.dtype
        return replace(
            self,
            x=self.x.to(device),
            y=self.y.to(device),
            inputs=self.inputs.to(device, dtype),
            targets=self.targets.to(device, dtype),
            weights=None if self.weights is None else self.weights.to(device),
            validation=None if self.validation is None else self.validation.to(device),
        )


def prepare(
    x: Any,
    y: Any = None,
    *,
    space: Literal["classes", "real", "counts"],
    standardize: bool = True,
    weights: Any = None,
    validation: Any = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Data:
    """Arrays, tensors or a torch Dataset as `Data`; a ValueError that says what is wrong and where.

    Inputs: floating numbers are standardised per column (rows, columns), per last axis (rows, time,
    features), per channel (rows, channels, height, width...); integers (tokens) stay as they are. Targets
    "real" are standardised per coordinate.
    """
    device = torch.device(device)
    inputs, targets = _pair(x, y, "")
    a = _input(inputs, "X", dtype)
    b = _target(targets, "y", space, dtype)
    _check_rows(a, b, "X", "y")
    if a.shape[0] == 0:
        raise ValueError(f"X has shape {tuple(a.shape)}: 0 rows; there is nothing to learn from")
    w = None if weights is None else _weights(weights, a.shape[0], dtype)
    standard = _standard_inputs(a, w) if standardize and a.is_floating_point() else _identity(dtype)
    unit = _standard_targets(b, w, space, standardize, dtype)
    made = Data(standard(a), unit(b), standard, unit, w)
    if validation is not None:
        made = replace(made, validation=_validation(validation, made, space, dtype))
    return made.to(device)


def _validation(validation: Any, data: Data, space: str, dtype: torch.dtype) -> Data:
    if isinstance(validation, Dataset):
        validation = (validation, None)
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise ValueError("validation must be a pair (X, y) or a Dataset")
    inputs, targets = _pair(validation[0], validation[1], "validation ")
    a, b = _input(inputs, "validation X", dtype), _target(targets, "validation y", space, dtype)
    _check_rows(a, b, "validation X", "validation y")
    if a.shape[0] == 0:
        raise ValueError("validation X has 0 rows; leave validation out or give rows")
    for ours, theirs, name in ((data.x, a, "X"), (data.y, b, "y")):
        if ours.shape[1:] != theirs.shape[1:]:
            raise ValueError(
                f"validation {name} has rows of shape {tuple(theirs.shape[1:])}, training {name} of "
                f"{tuple(ours.shape[1:])}"
            )
    return Data(data.inputs(a), data.targets(b), data.inputs, data.targets)


def as_input(x: Any, dtype: torch.dtype) -> Tensor:
    """Inputs to predict for, checked as the training inputs were; not yet standardised."""
    if isinstance(x, Dataset):
        raise ValueError("X is a Dataset; give the inputs alone, as an array or a tensor")
    return _input(x, "X", dtype)


def new_inputs(x: Any, data: Data, dtype: torch.dtype) -> Tensor:
    """Inputs to predict for, checked and standardised as the training inputs were."""
    a = _input(x, "X", dtype).to(data.x.device)
    if a.shape[1:] != data.x.shape[1:]:
        raise ValueError(
            f"X has rows of shape {tuple(a.shape[1:])}; the model was trained on {tuple(data.x.shape[1:])}"
        )
    return data.inputs(a)


def _pair(x: Any, y: Any, name: str) -> tuple[Any, Any]:
    """(X, y) from two arrays, or from a Dataset whose items are pairs."""
    if not isinstance(x, Dataset):
        if y is None:
            raise ValueError(f"{name}y is missing; give targets, or a torch Dataset of pairs (x, y)")
        return x, y
    if y is not None:
        raise ValueError(f"{name}X is a Dataset of pairs (x, y); do not give y as well")
    if isinstance(x, TensorDataset):
        if len(x.tensors) != 2:
            raise ValueError(
                f"{name}the Dataset has items of {len(x.tensors)} tensors; they must be pairs (x, y)"
            )
        return x.tensors[0], x.tensors[1]
    if not hasattr(x, "__len__"):
        raise ValueError(f"{name}the Dataset has no length; give a map-style Dataset")
    return _read(x, name)


def _read(dataset: Any, name: str) -> tuple[Tensor, Tensor]:
    """Every item of a map-style Dataset once, stacked."""
    xs: list[Tensor] = []
    ys: list[Tensor] = []
    for i in range(len(dataset)):
        item = dataset[i]
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise ValueError(f"{name}item {i} of the Dataset is not a pair (x, y)")
        for kept, value, part in ((xs, item[0], "x"), (ys, item[1], "y")):
            value = torch.as_tensor(np.asarray(value) if not isinstance(value, Tensor) else value)
            if kept and value.shape != kept[0].shape:
                raise ValueError(
                    f"{name}item {i} of the Dataset has {part} of shape {tuple(value.shape)}, item 0 "
                    f"{tuple(kept[0].shape)}; pad or crop them to one shape"
                )
            kept.append(value)
    if not xs:
        raise ValueError(f"{name}the Dataset has 0 rows; there is nothing to learn from")
    return torch.stack(xs), torch.stack(ys)


def _tensor(x: Any, name: str) -> Tensor:
    if isinstance(x, Tensor):
        return x.detach()
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise ValueError(f"{name} is not a rectangular array: {error}") from None
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} holds {array.dtype}, not numbers; encode it as numbers first")
    # a copy: the caller's array may be read-only or change later
    return torch.from_numpy(np.ascontiguousarray(array).copy())


def _check_finite(x: Tensor, name: str) -> None:
    if x.is_floating_point() and not bool(torch.isfinite(x).all()):
        at = tuple((~torch.isfinite(x)).nonzero()[0].tolist())
        raise ValueError(f"{name}{list(at)} is {x[at].item()}; remove the row or impute the value")


def _input(x: Any, name: str, dtype: torch.dtype) -> Tensor:
    a = _tensor(x, name)
    if a.ndim < 1:
        raise ValueError(f"{name} is a single number; it must have one row per example")
    if a.ndim == 1:
        raise ValueError(f"{name} has shape {tuple(a.shape)}; one feature is a column: use X.reshape(-1, 1)")
    if a.is_complex():
        raise ValueError(f"{name} is complex; give real numbers")
    if a.is_floating_point():
        _check_finite(a, name)
        a = a.to(dtype)
        _check_overflow(a, name, dtype)
        return a
    return a.to(torch.int64)


def _check_overflow(a: Tensor, name: str, dtype: torch.dtype) -> None:
    if not bool(torch.isfinite(a).all()):
        at = tuple((~torch.isfinite(a)).nonzero()[0].tolist())
        raise ValueError(f"{name}{list(at)} is too large for {dtype}; rescale it or use float64")


def _target(y: Any, name: str, space: str, dtype: torch.dtype) -> Tensor:
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


def _check_rows(a: Tensor, b: Tensor, left: str, right: str) -> None:
    if a.shape[0] != b.shape[0]:
        raise ValueError(
            f"{left} has {a.shape[0]} rows and {right} has {b.shape[0]}; they must have the same number"
        )


def _weights(weights: Any, rows: int, dtype: torch.dtype) -> Tensor:
    w = _tensor(weights, "weights").to(dtype)
    _check_finite(w, "weights")
    if w.shape != (rows,):
        raise ValueError(f"weights has shape {tuple(w.shape)}; it must be one number a row: ({rows},)")
    if (w < 0).any() or not bool(w.sum() > 0):
        raise ValueError("weights must be at least 0, and not all 0")
    return w


def _identity(dtype: torch.dtype) -> Standard:
    return Standard(torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype))


def _standard(x: Tensor, axes: list[int], weights: Tensor | None) -> Standard:
    """Mean and standard deviation over `axes` (two passes, in float64), a row of weight 2 counted twice.
    Constant coordinates keep their scale.
    """
    wide = x.to(torch.float64)

    def mean(t: Tensor) -> Tensor:
        if weights is not None:
            t = t * (weights / weights.mean(dtype=torch.float64)).reshape(-1, *[1] * (x.ndim - 1))
        return t.mean(axes, keepdim=True)

    loc = mean(wide)
    scale = mean((wide - loc).square()).sqrt()
    constant = scale <= 1e-12 * loc.abs().clamp_min(1e-300)
    scale = torch.where(constant, torch.ones_like(scale), scale)
    return Standard(loc[0].to(x.dtype), scale[0].to(x.dtype))


def _standard_inputs(x: Tensor, weights: Tensor | None) -> Standard:
    keep = 1 if x.ndim == 2 or x.ndim > 3 else 2
    return _standard(x, [axis for axis in range(x.ndim) if axis != keep], weights)


def _standard_targets(
    y: Tensor, weights: Tensor | None, space: str, standardize: bool, dtype: torch.dtype
) -> Standard:
    if space == "classes":
        return _identity(dtype)
    if space == "real" and standardize:
        return _standard(y, [0], weights)
    zero = torch.zeros(y.shape[1:], dtype=dtype)
    return Standard(zero, torch.ones_like(zero))
