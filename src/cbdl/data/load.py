"""A data set by name, from the folder of data sets; scikit-learn's digits need none."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import torch

from cbdl.data.catalogue import CATALOGUE
from cbdl.data.fetch import folder
from cbdl.data.formats import AbsentError, DataError, read_cifar, read_idx, read_svhn
from cbdl.data.images import Images

Split = Literal["train", "test"]

NAMES = (*CATALOGUE, "digits")
"""All names that `load` knows."""

DIGITS = 1437
"""Training images of scikit-learn's digits: the first four fifths."""


def load(name: str, split: Split = "train", where: str | Path | None = None) -> Images:
    """The images and labels of "mnist", "fashion-mnist", "cifar-10", "svhn" or "digits" (8 x 8, from scikit-learn).

    `where` is the folder of data sets: by default the environment's CBDL_DATA, or the user's cache, to which
    `cbdl data fetch` downloads.

    - `name`: which data set
    - `split`: "train" or "test"

    >>> load("digits", "test")
    Images(digits, test: 360 of 1 x 8 x 8, 10 classes)
    """
    if name not in NAMES:
        raise ValueError(f"name is {name!r}; give one of {', '.join(NAMES)}")
    if split not in ("train", "test"):
        raise ValueError(f'split is {split!r}; give "train" or "test"')
    if name == "digits":
        return _digits(split)
    place = folder(where) / name
    try:
        return {"cifar-10": _cifar, "svhn": _svhn}.get(name, _idx)(name, place, split)
    except DataError as error:
        first = "" if isinstance(error, AbsentError) else "remove what is damaged; "
        raise type(error)(
            f"{error} ({first}cbdl data fetch {name} downloads what is not there; CBDL_DATA names the folder)"
        ) from None


def _idx(name: str, place: Path, split: str) -> Images:
    prefix = "train" if split == "train" else "t10k"
    x = read_idx(place / f"{prefix}-images-idx3-ubyte")
    y = read_idx(place / f"{prefix}-labels-idx1-ubyte")
    if x.ndim != 3 or y.ndim != 1 or len(x) != len(y):
        raise DataError(f"{place} has {tuple(x.shape)} images and {tuple(y.shape)} labels for {split}")
    if len(y) and int(y.max()) > 9:
        raise DataError(f"{place} has the label {int(y.max())} for {split}; {name} has 0 to 9")
    return Images(x.unsqueeze(1), y.long(), 10, name, split=split)


def _cifar(name: str, place: Path, split: str) -> Images:
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] if split == "train" else ["test_batch.bin"]
    here = [n for n in names if (place / n).exists() or (place / f"{n}.gz").exists()]
    if not here:
        raise AbsentError(f"{place / names[0]} is not there")
    parts = [read_cifar(place / n) for n in here]
    x, y = (torch.cat(column) for column in zip(*parts, strict=True))
    note = "" if len(here) == len(names) else f"only {', '.join(here)} of {len(names)} files are there"
    return Images(x, y, 10, name, split=split, note=note)


def _svhn(name: str, place: Path, split: str) -> Images:
    return Images(*read_svhn(place / f"{split}_32x32.mat"), 10, name, split=split)


def _digits(split: str) -> Images:
    from sklearn.datasets import load_digits

    stored = load_digits()
    rows = slice(None, DIGITS) if split == "train" else slice(DIGITS, None)
    # sixteen levels of grey become bytes
    x = np.round(stored.images[rows] * (255 / 16)).astype(np.uint8)
    return Images(
        torch.from_numpy(x).unsqueeze(1), torch.from_numpy(stored.target[rows]).long(), 10, "digits", split
    )
