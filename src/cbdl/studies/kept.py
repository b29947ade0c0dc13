"""Results that are there already: one small file for each, so that a stopped run goes on.

A file says what its numbers are of: the data, the seed, the profile's length and the versions of what was run. If any
of this is different, it is another file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cbdl.ground import files


@dataclass(frozen=True)
class Shelf:
    """The folder of results; None: nothing is kept."""

    folder: Path | None

    def rows(self, key: Mapping[str, Any], make: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], bool]:
        """What is kept under `key`, or else what `make` makes, which is then kept; and whether it was there."""
        if self.folder is None:
            return make(), False
        path = self.folder / name(key)
        there = _read(path, key)
        if there is not None:
            return there, True
        rows = make()
        files.write(path, json.dumps({"key": dict(key), "rows": rows}, indent=1, allow_nan=False))
        return rows, False


def name(key: Mapping[str, Any]) -> str:
    """A file name that a person can read, with a digest of the whole key."""
    digest = hashlib.sha256(json.dumps(dict(key), sort_keys=True).encode()).hexdigest()[:12]
    words = "-".join(str(key[part]) for part in ("table", "split", "contestant") if part in key)
    return f"{re.sub(r'[^a-z0-9]+', '-', words.lower())}-{digest}.json"


def _read(path: Path, key: Mapping[str, Any]) -> dict[str, Any] | None:
    """The rows of a file that is whole and has this key; None otherwise."""
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if (
        not isinstance(given, dict)
        or given.get("key") != dict(key)
        or not isinstance(given.get("rows"), dict)
    ):
        return None
    rows: dict[str, Any] = given["rows"]
    return rows
