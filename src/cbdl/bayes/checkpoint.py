"""Checkpoints that survive a kill at any moment: a temporary file, fsync, rename; safetensors, never pickle.

A file holds tensors, and in its header a JSON text and the sha256 of both. The file before the last is kept
beside it.
"""

from __future__ import annotations

import hashlib
import json
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from cbdl.ground import files

from .flat import shorten

FORMAT = "cbdl-checkpoint-2"
TEXT = 1 << 24
"""Bytes that a checkpoint may have beside its tensors: names, settings, messages of members that failed."""


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be written, read or used; the message says why and what to do."""


def bytes_of(x: Tensor) -> memoryview:
    """The bytes of a tensor, on the CPU and without a copy where that is possible."""
    flat = x.detach().cpu().contiguous().reshape(-1)
    # one element may have a stride of 0 (a clone of an expanded number), which `view` refuses
    plain: Any = flat.as_strided(flat.shape, (1,)).view(torch.uint8).numpy()
    return memoryview(plain)


def digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """sha256 over names, types, shapes, bytes and the JSON text."""
    sha = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        x = tensors[name]
        sha.update(f"{name}|{x.dtype}|{tuple(x.shape)}|".encode())
        sha.update(bytes_of(x))
    return sha.hexdigest()


def write(path: Path, tensors: Mapping[str, Tensor], meta: dict[str, Any]) -> None:
    """Write `path` so that at every moment it is either the old file, whole, or the new one."""
    ready = {name: x.detach().cpu().contiguous() for name, x in tensors.items()}
    text = json.dumps(meta, sort_keys=True)
    blob = save_tensors(ready, {"format": FORMAT, "meta": text, "sha256": digest(ready, text)})
    try:
        files.write(path, blob, previous=_previous(path))
    except OSError as error:
        raise CheckpointError(
            f"cannot write the checkpoint {path}: {error.strerror or error}. The last good one is kept; "
            "make room or choose another directory, then make the same call again to go on from it"
        ) from error


def read(path: Path, most: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and JSON of a checkpoint; a CheckpointError if one bit of it changed, or it has over `most` bytes."""
    try:
        size = path.stat().st_size
        if most is not None and size > most:
            raise CheckpointError(
                f"{path} has {size} bytes, a checkpoint of this run has at most {most}: it belongs to another run, or "
                f"was altered{_advice(path)}"
            )
        blob = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read the checkpoint {path}: {error.strerror or error}") from error
    try:
        header = _header(blob)
        tensors = load_tensors(blob)
    except Exception as error:  # whatever parsers make of damaged bytes
        raise CheckpointError(f"{path} is truncated or no checkpoint ({error}){_advice(path)}") from error
    if header.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} is not a checkpoint of this version ({header.get('format')!r}){_advice(path)}"
        )
    text = header.get("meta", "")
    if digest(tensors, text) != header.get("sha256"):
        raise CheckpointError(f"{path} was altered: its content does not match its sha256{_advice(path)}")
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} was altered: its text is no JSON ({error}){_advice(path)}") from error
    if not isinstance(meta, dict):
        raise CheckpointError(f"{path} was altered: its text describes no run{_advice(path)}")
    return tensors, meta


def _header(blob: bytes) -> dict[str, str]:
    (length,) = struct.unpack("<Q", blob[:8])
    if length > len(blob) - 8:
        raise ValueError("its header is cut short")
    metadata = json.loads(blob[8 : 8 + length]).get("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ValueError("its header holds no text")
    return metadata


def _previous(path: Path) -> Path:
    return path.with_name(f"{path.name}.previous")


def _advice(path: Path) -> str:
    previous = _previous(path)
    if previous != path and previous.exists():
        return (
            f". The checkpoint before it is kept: rename {previous.name} to {path.name} to go on from there"
        )
    return ". Delete it to start again"


def _check_fit(path: Path, tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> None:
    """A CheckpointError unless names, types and shapes are those of the run."""
    missing, extra = sorted(like.keys() - tensors.keys()), sorted(tensors.keys() - like.keys())
    if missing or extra:
        what = f"it lacks {shorten(missing)}" if missing else f"it holds {shorten(extra)}"
        raise CheckpointError(f"{path} does not fit this run: {what}{_advice(path)}")
    for name, wanted in like.items():
        x = tensors[name]
        if x.shape != wanted.shape or x.dtype != wanted.dtype:
            raise CheckpointError(
                f"{path} does not fit this run: {name} is {tuple(x.shape)} {x.dtype}, not {tuple(wanted.shape)} "
                f"{wanted.dtype}{_advice(path)}"
            )


@dataclass
class Checkpoint:
    """Where and how often a run is saved: after `every_seconds` or `every_steps`, whichever comes first."""

    path: Path
    every_seconds: float = 60.0
    every_steps: int | None = None
    _last: float = 0.0

    def __post_init__(self) -> None:
        self.path = Path(self.path)
        self._last = time.monotonic()

    def due(self, step: int) -> bool:
        if self.every_steps is not None and step % self.every_steps == 0:
            return True
        return time.monotonic() - self._last >= self.every_seconds

    def save(self, tensors: Mapping[str, Tensor], meta: dict[str, Any], fingerprint: dict[str, str]) -> None:
        write(self.path, tensors, {**meta, "fingerprint": fingerprint})
        self._last = time.monotonic()

    def load(
        self, fingerprint: dict[str, str], like: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The saved state, or None if there is none; a CheckpointError if it belongs to another run.

        `like`: the tensors of this run. The saved ones have their names, types and shapes.
        """
        path = self.path
        if not path.exists():
            path = _previous(path)
            if not path.exists():
                return None
        tensors, meta = read(path, sum(x.numel() * x.element_size() for x in like.values()) + TEXT)
        theirs = meta.get("fingerprint")
        theirs = theirs if isinstance(theirs, dict) else {}
        differ = [name for name in fingerprint if fingerprint[name] != theirs.get(name)]
        if differ:
            raise CheckpointError(
                f"{path} belongs to another run: {', '.join(differ)} differ. "
                "Use another directory, or delete it to start again; it was left as it is"
            )
        _check_fit(path, tensors, like)
        return tensors, meta

    def refuse(self, what: str) -> CheckpointError:
        """The error for a saved state whose numbers make no sense."""
        return CheckpointError(f"{self.path} was altered: {what}{_advice(self.path)}")
