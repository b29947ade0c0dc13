"""Datasets whose labels are words: numbers in their place, before anything else sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, Dataset, IterableDataset

from cbdl.ground.labels import listed, words_of

from . import border

Rows = Dataset[Any] | DataLoader[Any]


def by_number(
    X: Any, y: Any, labels: Sequence[str] | None, stream: bool | None = None
) -> tuple[Any, Any, tuple[str, ...] | None]:
    """(X, y, labels), where a Dataset or DataLoader of words has become one of numbers; arrays stay as they are.

    Without `labels` the words of a Dataset are found by reading it, which a stream must not be: there they are needed.
    """
    known = None if labels is None else tuple(labels)
    if y is not None or not isinstance(X, Dataset | DataLoader):
        return X, y, known or words_of(y)
    if not _has_words(X):
        return X, None, known
    if known is not None:
        return _numbered(X, _Numbers(known)), None, known
    if isinstance(X, DataLoader) if stream is None else stream:
        raise ValueError(
            "the labels of the Dataset are words, and a stream is not read before training: name them in the order "
            "of the networks' outputs, CBDL(..., labels=[...])"
        )
    numbers = _Numbers(None)
    xs, ys = border.pair(_numbered(X, numbers, alone=True), None, "")
    words = tuple(sorted(numbers.place))
    order = np.array([words.index(word) for word in numbers.place])
    return xs, order[np.asarray(ys)], words


def _has_words(rows: Rows) -> bool:
    """Whether the first label is a word."""
    dataset = rows.dataset if isinstance(rows, DataLoader) else rows
    if isinstance(dataset, IterableDataset) or not len(dataset):  # type: ignore[arg-type]
        return False
    first = dataset[0]
    return isinstance(first, tuple | list) and len(first) == 2 and isinstance(first[1], str)


def _numbered(rows: Rows, numbers: _Numbers, alone: bool = False) -> Rows:
    """The same rows with numbers; `alone`: fetched in this process, which then knows all words."""
    if not isinstance(rows, DataLoader):
        return Numbered(rows, numbers)
    border.check_sampler(rows, "")
    return DataLoader(
        Numbered(rows.dataset, numbers),
        batch_size=rows.batch_size,
        num_workers=0 if alone else rows.num_workers,
        collate_fn=rows.collate_fn,
        multiprocessing_context=None if alone else rows.multiprocessing_context,
    )


class _Numbers:
    """The number of every word; without labels, in the order in which words come."""

    def __init__(self, labels: Sequence[str] | None) -> None:
        self.open = labels is None
        self.place = {word: j for j, word in enumerate(labels or ())}

    def __call__(self, word: Any, item: int) -> int:
        if self.open:
            return self.place.setdefault(word, len(self.place))
        if word not in self.place:
            raise ValueError(
                f"item {item} of the Dataset is {word!r}; the classes are {listed([*self.place])}"
            )
        return self.place[word]


class Numbered(Dataset[Any]):
    """A Dataset of pairs (x, word) as one of pairs (x, number)."""

    def __init__(self, inner: Dataset[Any], numbers: _Numbers) -> None:
        self.inner, self.numbers = inner, numbers

    def __len__(self) -> int:
        return len(self.inner)  # type: ignore[arg-type]

    def __getitem__(self, i: int) -> tuple[Any, int]:
        x, word = self.inner[i]
        return x, self.numbers(word, i)
