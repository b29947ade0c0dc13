"""Arrays that are there already: one file for each training and each closed loop, so that a stopped run goes on."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cbdl.ground import files

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
Key: TypeAlias = Mapping[str, Any]
"""What numbers are of: their name first, then the settings and the versions of what was run."""


@dataclass(frozen=True)
class Shelf:
    """The folder of arrays; None: nothing is kept."""

    folder: Path | None

    def get(self, key: Key) -> Arrays | None:
        """What is kept under `key`; None if that is nothing, or no whole file."""
        if self.folder is None:
            return None
        try:
            with (
                open(self.folder / file_name(key), "rb") as whole,
                np.load(whole, allow_pickle=False) as file,
            ):
                own = {name: file[name] for name in file.files}
        except (OSError, ValueError, zipfile.BadZipFile):
            return None
        return own if str(own.pop("key", "")) == _text(key) else None

    def put(self, key: Key, arrays: Arrays) -> None:
        """Keep `arrays` under `key`."""
        if self.folder is None:
            return
        with files.whole_binary(self.folder / file_name(key)) as file:
            whole: Arrays = {"key": np.array(_text(key)), **arrays}
            np.savez_compressed(file, allow_pickle=False, **whole)


def _text(key: Key) -> str:
    return json.dumps(dict(key), sort_keys=True)


def file_name(key: Key) -> str:
    """A name that a person can read, with a digest of the whole key."""
    words = re.sub(r"[^a-z0-9]+", "-", str(key["name"]).lower()).strip("-")
    return f"{words}-{hashlib.sha256(_text(key).encode()).hexdigest()[:12]}.npz"
