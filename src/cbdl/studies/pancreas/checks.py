"""The border of the study: numbers that come from outside are checked here, once, with errors that say what to do."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cbdl.studies.pancreas.patients import Array


def checked(
    values: npt.ArrayLike, name: str, shape: tuple[int, ...], low: float, high: float, remedy: str
) -> Array:
    """`values` broadcast to `shape`, float64, every one finite and in [`low`, `high`]."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is not an array of numbers: {error}") from None
    check_bounds(array, name, low, high, remedy)
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(f"{name} has shape {array.shape}; give a number or the shape {shape}") from None


def check_bounds(array: Array, name: str, low: float, high: float, remedy: str) -> None:
    bad = ~((array >= low) & (array <= high))  # true for NaN
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        place = f"{name}[{', '.join(map(str, at))}]" if at else name
        bounds = f"at least {low:g}" if np.isinf(high) else f"between {low:g} and {high:g}"
        raise ValueError(f"{place} is {float(array[at]):g}; it must be {bounds}: {remedy}")


def checked_range(ends: tuple[float, float], name: str, low: float, high: float, unit: str) -> Array:
    """`ends` as (lowest, highest), both in [`low`, `high`]."""
    array = checked(ends, name, (2,), low, high, f"give (lowest, highest) in {unit}")
    if array[0] > array[1]:
        raise ValueError(f"{name} is {tuple(ends)}; give (lowest, highest) in this order")
    return array


def checked_count(value: int, name: str, remedy: str, least: int = 1) -> int:
    """`value` as a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} is {value!r}; it must be a whole number of at least {least}: {remedy}")
    return int(value)
