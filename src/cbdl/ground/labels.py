"""Classes by name: what the labels of a target are called, and their numbers 0, ..., J - 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor


def are_words(y: Any) -> bool:
    """Whether `y` is text, or an array of text."""
    if isinstance(y, Tensor) or y is None:
        return False
    try:
        array = np.asarray(y)
    except ValueError:
        return False
    return array.dtype.kind == "U" or (
        array.dtype.kind in "OT"
        and array.size > 0
        and all(isinstance(v, str) for v in array.ravel().tolist())
    )


def words_of(y: Any) -> tuple[str, ...] | None:
    """The classes of a target that is text, in alphabetical order; None of one that is numbers.

    >>> words_of(["dog", "cat", "dog"]), words_of([1, 0])
    (('cat', 'dog'), None)
    """
    return tuple(sorted(set(np.asarray(y).ravel().tolist()))) if are_words(y) else None


def numbers_of(y: Any, labels: Sequence[str] | None, name: str = "y") -> Any:
    """`y` with words replaced by their numbers; numbers come back as they are. A ValueError names an unknown word.

    >>> numbers_of(["dog", "cat"], ("cat", "dog"))
    array([1, 0])
    """
    if not are_words(y):
        return y
    array = np.asarray(y)
    if labels is None:
        raise ValueError(
            f"{name} holds words such as {array.ravel().tolist()[0]!r}; classes here are numbers, 0, 1, ..."
        )
    place = {word: j for j, word in enumerate(labels)}
    known = [place.get(word, -1) for word in array.ravel().tolist()]
    if -1 in known:
        at = known.index(-1)
        raise ValueError(f"{name}[{at}] is {array.ravel().tolist()[at]!r}; the classes are {listed(labels)}")
    codes: npt.NDArray[np.int64] = np.array(known, dtype=np.int64).reshape(array.shape)
    return codes


def check_labels(labels: Sequence[Any], name: str = "labels") -> tuple[str, ...]:
    """`labels` as a tuple of different words; a ValueError if they are not."""
    given = tuple(labels) if not isinstance(labels, str) else ()
    if not given or not all(isinstance(word, str) for word in given) or len(set(given)) < len(given):
        raise ValueError(f"{name} is {labels!r:.80}; give different words, one per class")
    return given


def listed(labels: Sequence[str]) -> str:
    """The first of them, for a message."""
    return ", ".join(map(repr, labels[:8])) + (", ..." if len(labels) > 8 else "")
