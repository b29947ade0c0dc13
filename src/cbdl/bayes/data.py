"""The front door of training data: arrays, tensors, Datasets and DataLoaders, checked and standardised.

What comes out is `Data` in memory, or a `Stream` that fetches its rows anew in every epoch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from . import border
from .rows import Batch, Data, Standard, TrainingData
from .stream import Source, Stream, look

__all__ = ["Batch", "Data", "Standard", "Stream", "TrainingData", "as_input", "new_inputs", "prepare"]


def prepare(
    x: Any,
    y: Any = None,
    *,
    space: Literal["classes", "real", "counts"],
    standardize: bool = True,
    weights: Any = None,
    validation: Any = None,
    stream: bool | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    tokens: bool = True,
) -> Data | Stream:
    """Arrays, tensors, a torch Dataset or DataLoader as training data; a ValueError says what is wrong and where.

    Inputs: floating numbers are standardised per column (rows, columns), per last axis (rows, time,
    features), per channel (rows, channels, height, width...); integers (tokens) stay as they are. Targets
    "real" are standardised per coordinate.

    `tokens`: False for more rows of inputs that are numbers, of which these may all be whole.
    `stream`: True fetches a Dataset's or DataLoader's rows anew in every epoch (`cbdl.bayes.stream.Source` says what
    of a DataLoader is used), False reads them once into memory. None: a DataLoader is streamed, a Dataset is read.
    The standardisation of a stream comes from at most 4096 of its rows, picked at random once for all.
    """
    streamed = isinstance(x, DataLoader) if stream is None else stream
    if streamed and not isinstance(x, Dataset | DataLoader):
        raise ValueError("stream is True, but X is no Dataset or DataLoader; arrays are in memory already")
    if streamed and y is not None:
        raise ValueError(f"X is a {type(x).__name__} of pairs (x, y); do not give y as well")
    source = Source.of(x) if streamed else None
    if source is not None:
        a, b = look(source, space, dtype)
    else:
        given = border.pair(x, y, "")
        a = border.inputs(given[0], "X", dtype, tokens=tokens)
        b = border.targets(given[1], "y", space, dtype)
    border.check_rows(a, b, "X", "y")
    if a.shape[0] == 0:
        raise ValueError(f"X has shape {tuple(a.shape)}: 0 rows; there is nothing to learn from")
    rows = a.shape[0] if source is None else source.rows
    w = None if weights is None else border.row_weights(weights, rows, dtype)
    held = _standardised(a, b, w if source is None else None, space, standardize, dtype)
    inner = None if validation is None else _validation(validation, held, space, dtype)
    place = torch.device(device)
    if source is None:
        return replace(held, weights=w, validation=inner).to(place)
    return Stream(source, space, held, w, inner).to(place)


def _standardised(
    a: Tensor, b: Tensor, w: Tensor | None, space: str, standardize: bool, dtype: torch.dtype
) -> Data:
    inputs = _standard_inputs(a, w) if standardize and a.is_floating_point() else _identity(dtype)
    targets = _standard_targets(b, w, space, standardize, dtype)
    return Data(inputs(a), targets(b), inputs, targets)


def _validation(validation: Any, data: Data, space: str, dtype: torch.dtype) -> Data:
    if isinstance(validation, Dataset | DataLoader):
        validation = (validation, None)
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise ValueError("validation must be a pair (X, y), a Dataset or a DataLoader")
    inputs, targets = border.pair(validation[0], validation[1], "validation ")
    a = border.inputs(inputs, "validation X", dtype, tokens=not data.x.is_floating_point())
    b = border.targets(targets, "validation y", space, dtype)
    border.check_rows(a, b, "validation X", "validation y")
    if a.shape[0] == 0:
        raise ValueError("validation X has 0 rows; leave validation out or give rows")
    for ours, theirs, name in ((data.x, a, "X"), (data.y, b, "y")):
        if ours.shape[1:] != theirs.shape[1:]:
            raise ValueError(
                f"validation {name} has rows of shape {tuple(theirs.shape[1:])}, training {name} of "
                f"{tuple(ours.shape[1:])}"
            )
    return Data(data.inputs(a), data.targets(b), data.inputs, data.targets)


def as_input(x: Any, dtype: torch.dtype, tokens: bool = False) -> Tensor:
    """Inputs to predict for, checked as the training inputs were; not yet standardised.

    Of a Dataset or DataLoader the inputs, in the order of the dataset, whether its items are inputs or pairs.
    `tokens`: whether the training inputs were.
    """
    a = border.inputs(border.inputs_alone(x), "X", dtype, tokens=tokens)
    if tokens and a.is_floating_point():
        raise ValueError("X holds real numbers; the model was trained on whole ones: give X.astype(int)")
    return a


def new_inputs(x: Any, data: TrainingData, dtype: torch.dtype) -> Tensor:
    """Inputs to predict for, checked and standardised as the training inputs were."""
    held = data.held
    a = as_input(x, dtype, not held.x.is_floating_point()).to(held.x.device)
    if a.shape[1:] != held.x.shape[1:]:
        raise ValueError(
            f"X has rows of shape {tuple(a.shape[1:])}; the model was trained on {tuple(held.x.shape[1:])}"
        )
    return data.inputs(a)


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
