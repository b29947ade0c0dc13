"""Readers of the original public files: IDX (MNIST, Fashion-MNIST), CIFAR-10's binary records, SVHN's .mat.

A file that is cut short or is something else is refused with its name, before anything is made of it. Names may end
in .gz.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

IMAGE = 3 * 32 * 32


class DataError(ValueError):
    """A file that is not what its name says, or is not there."""


class AbsentError(DataError):
    """A file that is not there."""


def contents(path: Path) -> bytes:
    """The bytes of a file, or of what it or its .gz neighbour compresses."""
    packed = path if path.suffix == ".gz" else path.with_name(path.name + ".gz")
    if path.suffix != ".gz" and path.exists():
        return path.read_bytes()
    if not packed.exists():
        raise AbsentError(f"{path} is not there, and neither is {packed.name}")
    try:
        return gzip.decompress(packed.read_bytes())
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{packed} is cut short or not gzip ({error})") from None


def read_idx(path: Path) -> Tensor:
    """The array of bytes in an IDX file: two zeros, the type (8: bytes), the number of dimensions, these, the data.

    - `path`: of the file

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "labels"
    >>> _ = file.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))     # three bytes in one dimension
    >>> read_idx(file)
    tensor([7, 2, 1], dtype=torch.uint8)
    """
    content = contents(path)
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise DataError(f"{path} is no IDX file of bytes: it begins with {content[:4]!r}")
    dims = content[3]
    head = 4 + 4 * dims
    shape = struct.unpack(f">{dims}I", content[4:head]) if len(content) >= head else ()
    if not dims or len(content) != head + math.prod(shape):
        raise DataError(
            f"{path} has {len(content)} bytes, but its header asks for {shape}: it is cut short or damaged"
        )
    return torch.from_numpy(np.frombuffer(content, dtype=np.uint8, offset=head).reshape(shape).copy())


def read_cifar(path: Path) -> tuple[Tensor, Tensor]:
    """Images (n, 3, 32, 32) and labels (n,) of CIFAR-10's binary version: a label byte, then red, green and blue.

    - `path`: of the file
    """
    content = contents(path)
    if not content or len(content) % (IMAGE + 1):
        raise DataError(
            f"{path} has {len(content)} bytes, no multiple of {IMAGE + 1}: it is cut short or damaged"
        )
    records = torch.from_numpy(np.frombuffer(content, dtype=np.uint8).reshape(-1, IMAGE + 1).copy())
    labels = records[:, 0].long()
    if int(labels.max()) > 9:
        raise DataError(f"{path} has the label {int(labels.max())}; CIFAR-10 has 0 to 9")
    return records[:, 1:].reshape(-1, 3, 32, 32).contiguous(), labels


def read_svhn(path: Path) -> tuple[Tensor, Tensor]:
    """Images (n, 3, 32, 32) and labels (n,) of SVHN's cropped digits: X (32, 32, 3, n), y (n, 1) with 10 for 0.

    - `path`: of the file
    """
    from scipy.io import loadmat  # slow to import
    from scipy.io.matlab import MatReadError

    # What scipy raises for files that are damaged or something else.
    damaged = (
        MatReadError,
        ValueError,
        TypeError,
        NotImplementedError,
        LookupError,
        EOFError,
        zlib.error,
        OSError,
        MemoryError,
    )
    if not path.exists():
        raise AbsentError(f"{path} is not there")
    try:
        stored = loadmat(path, variable_names=["X", "y"])
    except damaged as error:
        raise DataError(f"{path} is cut short or no .mat file ({error})") from None
    x, y = stored.get("X"), stored.get("y")
    if x is None or y is None or x.shape[:3] != (32, 32, 3) or x.dtype != np.uint8 or y.size != x.shape[-1]:
        raise DataError(f"{path} does not hold X (32, 32, 3, n) bytes and y (n, 1)")
    if not np.isin(y, range(11)).all():
        raise DataError(f"{path} has labels that are none of 0 to 10")
    images = torch.from_numpy(np.ascontiguousarray(x.transpose(3, 2, 0, 1)))
    return images, torch.from_numpy(y.reshape(-1).astype(np.int64) % 10)
