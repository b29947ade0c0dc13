"""The border of the kernel: arrays of the user are checked and converted here, once.

Inside `cbdl.credal` everything is a float64 torch tensor that can be trusted. A `Border` remembers what
the user gave (numpy or torch, on which device), so that answers leave as the same kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array: TypeAlias = Any
"""What users hold: a numpy array or a torch tensor, the kind that they gave. A checker cannot know which, and a
union would make it refuse every `np.mean(answer)`."""

ArrayLike: TypeAlias = npt.ArrayLike | Tensor


EPS = torch.finfo(torch.float64).eps
"""The spacing of float64 numbers at 1."""


@dataclass(frozen=True)
class Border:
    """Where answers go: back to numpy, or to torch on the user's device."""

    numpy: bool
    device: torch.device

    def out(self, x: Tensor) -> Array:
        """The tensor `x` as the kind of array the user gave."""
        return x.detach().cpu().numpy() if self.numpy else x.detach().to(self.device)


def border_of(*arrays: ArrayLike) -> Border:
    """Torch if any of `arrays` is a tensor, numpy otherwise."""
    for x in arrays:
        if isinstance(x, Tensor):
            return Border(numpy=False, device=x.device)
    return Border(numpy=True, device=torch.device("cpu"))


def float64(x: ArrayLike, name: str) -> Tensor:
    """`x` as a detached float64 tensor, finite or not. mps has no float64: such tensors go to the CPU."""
    if isinstance(x, Tensor):
        if x.is_complex():
            raise ValueError(f"{name} is complex; give real numbers")
        x = x.detach()
        return (x.cpu() if x.device.type == "mps" else x).to(torch.float64)
    if isinstance(x, np.ma.MaskedArray):  # what is behind a mask is not known
        x = np.ma.filled(x.astype(np.float64), np.nan)
    try:
        array = np.array(x, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is not a rectangular array of real numbers: {error}") from None
    return torch.from_numpy(array)


def is_single_precision(x: ArrayLike) -> bool:
    """Whether `x` came in fewer than 64 bits, so that looser tolerances are fair."""
    if isinstance(x, Tensor):
        return x.is_floating_point() and x.dtype != torch.float64
    dtype = np.asarray(x).dtype
    return dtype.kind == "f" and dtype.itemsize < 8


def first(mask: Tensor) -> tuple[int, ...]:
    """The index of the first true element of `mask`."""
    return tuple(int(i) for i in mask.nonzero()[0])


def place(name: str, at: tuple[int, ...]) -> str:
    """`name` with the index `at`, as a user would write it."""
    return f"{name}{list(at)}" if at else name


def check_finite(x: Tensor, name: str) -> None:
    # One sum is much faster than a look at every number, and finite only if all of them are.
    if torch.isfinite(x.sum()):
        return
    bad = ~torch.isfinite(x)
    if bad.any():
        at = first(bad)
        raise ValueError(f"{place(name, at)} is {x[at].item()}; remove or impute it before building the set")


def check_shape(x: Tensor, name: str, dims: str) -> None:
    """At least as many dimensions as `dims` names, none of them of length 0."""
    wanted = len(dims.split())
    if x.ndim < wanted:
        raise ValueError(f"{name} has shape {tuple(x.shape)}; it must be (..., {dims.replace(' ', ', ')})")
    if 0 in x.shape:
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}, which holds nothing; give at least one set with one element"
        )


def broadcast(form: str, **given: Tensor) -> tuple[Tensor, ...]:
    """All of them in one shape; a ValueError with their names if there is none that fits them."""
    try:
        shape = np.broadcast_shapes(*(tuple(x.shape) for x in given.values()))
    except ValueError:
        shapes = ", ".join(f"{name} has shape {tuple(x.shape)}" for name, x in given.items())
        raise ValueError(f"{shapes}, which do not broadcast; give {form}") from None
    return tuple(x.expand(shape) for x in given.values())


def check_probabilities(x: Tensor, name: str, tolerance: float, of: str = "row", own: bool = False) -> Tensor:
    """`x` (..., J) with every row non-negative and summing to 1 within `tolerance`, renormalised.

    In its place if it is our `own`, a copy of what the user gave.
    """
    total = x.sum(-1, keepdim=True)
    if not torch.isfinite(total.sum()):
        check_finite(x, name)
    if x.numel() and x.amin() < 0:
        at = first(x < 0)
        raise ValueError(
            f"{place(name, at)} is {x[at].item():g}; probabilities are at least 0 (were logits given? "
            "apply softmax first)"
        )
    off = (total - 1).abs() > tolerance
    if off.any():
        at = first(off.squeeze(-1))
        raise ValueError(
            f"{place(name, at)} sums to {total[(*at, 0)].item():.9g}, not to 1 (tolerance {tolerance:g}); "
            f"divide each {of} by its sum"
        )
    return x.div_(total) if own else x / total


def probability_tolerance(x: ArrayLike) -> float:
    return 1e-4 if is_single_precision(x) else 1e-6


def extreme_weights(weights: ArrayLike | None, m: int, batch: torch.Size) -> Tensor:
    """(..., m): weights of the m extremes of every set, given as (m,) or (..., m); equal ones for None."""
    shape = (*batch, m)
    if weights is None:
        return torch.full(shape, 1 / m, dtype=torch.float64)
    given = float64(weights, "weights")
    try:
        fits = np.broadcast_shapes(given.shape, shape) == shape and given.shape[-1:] == (m,)
    except ValueError:
        fits = False
    if not fits:
        wanted = f"({m},)" + (f" or broadcast to {shape}" if batch else "")
        raise ValueError(
            f"weights has shape {tuple(given.shape)}; it must be {wanted}, one for each of the {m} extremes"
        )
    return check_probabilities(given, "weights", probability_tolerance(weights)).expand(shape)


def check_positive(x: Tensor, name: str, remedy: str) -> None:
    check_finite(x, name)
    if (x <= 0).any():
        at = first(x <= 0)
        raise ValueError(f"{place(name, at)} is {x[at].item():g}; it must be positive: {remedy}")


def check_alpha(alpha: float) -> float:
    """`alpha` as a number; a ValueError unless it lies strictly between 0 and 1.

    - `alpha`: 1 - alpha is the probability to cover, between 0 and 1

    >>> check_alpha(0.05)
    0.05
    """
    try:
        share = float(alpha)
    except (TypeError, ValueError):
        raise ValueError(
            f"alpha is {alpha!r:.80}; give one number between 0 and 1 (0.05: a 95 % region)"
        ) from None
    if not 0 < share < 1:
        raise ValueError(f"alpha is {share:g}; it must lie strictly between 0 and 1 (0.05: a 95 % region)")
    return share


def log_survival_of(level: ArrayLike | None, log_survival: ArrayLike | None, batch: torch.Size) -> Tensor:
    """(...,): log(1 - level) for every set of the batch, from either of the two; -inf for a level of 1 or more."""
    if (level is None) == (log_survival is None):
        raise ValueError("give either level or log_survival, the logarithm of 1 - level")
    if level is not None:
        name, given = "level", float64(level, "level")
        bad, remedy = ~(given >= 0), "it is a share, at least 0; from 1 on, the region is the whole space"
        # A level is known to a few units of 1e-16, and no outcome that has it may be left out.
        values = (1 - 4 * EPS - given).clamp_min(0).log()
    else:
        assert log_survival is not None
        name, given = "log_survival", float64(log_survival, "log_survival")
        bad, remedy, values = ~(given <= 0), "it is the logarithm of a share, at most 0", given
    if bad.any():
        at = first(bad)
        raise ValueError(f"{place(name, at)} is {given[at].item():g}; {remedy}")
    try:
        return values.expand(batch)
    except RuntimeError:
        raise ValueError(
            f"{name} has shape {tuple(given.shape)}; give one number, or one per set {tuple(batch)}"
        ) from None


def log_of_base(base: float | str | None, classes: int | None) -> float:
    """The divisor that turns nats into units of `base`: None (nats), a number above 1, or "classes"."""
    if base is None:
        return 1.0
    if base == "classes":
        if classes is None:
            raise ValueError('base="classes" needs a finite space; give a number, or None for nats')
        return float(np.log(classes)) if classes > 1 else 1.0
    if isinstance(base, str) or not base > 1 or not np.isfinite(base):
        raise ValueError(f'base is {base!r}; give None (nats), a number above 1, or "classes"')
    return float(np.log(base))
