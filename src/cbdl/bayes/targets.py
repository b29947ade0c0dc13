"""What targets, outputs and settings a likelihood can be given: checks with an error that names the place."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor


def check_labels(y: Tensor, classes: int | None = None) -> None:
    """Labels are the integers 0, ..., classes - 1."""
    if y.ndim != 1:
        raise ValueError(f"y has shape {tuple(y.shape)}; class labels are one integer per row: (rows,)")
    if y.is_floating_point() and (y != y.round()).any():
        at = int((y != y.round()).nonzero()[0])
        raise ValueError(f"y[{at}] is {y[at].item():g}; class labels are the integers 0, 1, ..., J - 1")
    if (y < 0).any():
        at = int((y < 0).nonzero()[0])
        raise ValueError(f"y[{at}] is {int(y[at])}; class labels start at 0")
    if classes is not None and (y >= classes).any():
        at = int((y >= classes).nonzero()[0])
        raise ValueError(
            f"y[{at}] is {int(y[at])}, but the network has outputs for {classes} classes (labels 0 "
            f"to {classes - 1}); "
            "give it more outputs or number the classes from 0"
        )


def check_variety(y: Tensor) -> None:
    """There are at least two different labels."""
    if bool((y == y[0]).all()):
        raise ValueError(f"y holds one class only ({int(y[0])}); a classifier needs at least two")


def check_scale(scale: object, name: str = "scale") -> None:
    """A ValueError unless `scale` is one, which the user knows as the argument `name`."""
    if isinstance(scale, str):
        if scale not in ("learned", "heteroscedastic"):
            raise ValueError(
                f'{name} is {scale!r}; give a standard deviation, "learned" or "heteroscedastic"'
            )
    elif isinstance(scale, bool) or not isinstance(scale, int | float | np.floating | np.integer):
        raise ValueError(
            f'{name} is {scale!r}; give a number (a standard deviation), "learned" or "heteroscedastic"'
        )
    elif not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"{name} is {scale}; a standard deviation is positive and finite")


def check_resolution(resolution: object) -> None:
    """A ValueError unless `resolution` is one, or a tuple of them."""
    for own in resolution if isinstance(resolution, tuple) else (resolution,):
        if isinstance(own, bool) or not isinstance(own, int | float) or not 0 <= own < math.inf:
            raise ValueError(
                f"resolution is {resolution!r}; give what targets were rounded to, a finite number, "
                "or 0 if they were not"
            )


def dims(out: tuple[int, ...]) -> str:
    """A shape as it is written in a message."""
    return ", ".join(map(str, out))


def check_size(name: str, out: tuple[int, ...], y: Tensor, times: int) -> None:
    """A network gives as many numbers as the targets need, or `times` as many."""
    event = tuple(y.shape[1:])
    if math.prod(out) != times * math.prod(event):
        wanted = f"{math.prod(event)}" if times == 1 else f"2 x {math.prod(event)}"
        raise ValueError(
            f"{name}: the network gives {math.prod(out)} numbers a row (output (batch, "
            f"{dims(out)})); targets of shape "
            f"(rows{''.join(f', {n}' for n in event)}) need {wanted}"
        )
