"""What the results of the tables study are kept by: the rows of each contestant, and a digest of the data."""

from __future__ import annotations

import hashlib

from cbdl.studies.kept import Shelf
from cbdl.studies.tables.contestant import Task
from cbdl.studies.tables.scores import Numbers

__all__ = ["Rows", "Shelf", "content"]

Rows = dict[str, Numbers]


def content(task: Task) -> str:
    """A digest of the rows of a split."""
    digest = hashlib.sha256()
    for array in (task.table.X, task.table.y, task.table.X_test, task.table.y_test):
        digest.update(repr((array.shape, str(array.dtype))).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]
