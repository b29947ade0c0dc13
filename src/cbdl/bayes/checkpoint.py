"""Checkpoints that survive a kill at any moment: a temporary file, fsync, rename; safetensors, never pickle.

A file holds tensors, and in its header a JSON text and the sha256 of both. The file before the last is kept
beside it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

FORMAT = "cbdl-checkpoint-1"


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be written, read or used; the message says why and what to do."""


def bytes_of(x: Tensor) -> memoryview:
    """The bytes of a tensor, on the CPU and without a copy where that is possible."""
    flat = x.detach().cpu().contiguous().reshape(-1)
    # one element may have a stride of 0 (a clone of an expanded number), which `view` refuses
    plain: Any = flat.as_strided(flat.shape, (1,)).view(torch.uint8).numpy()
    return memoryview(plain)


def digest(tensors: dict[str, Tensor], text: str) -> str:
    """sha256 over names, types, shapes, bytes and the JSON text."""
    sha = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        x = tensors[name]
        sha.update(f"{name}|{x.dtype}|{tuple(x.shape)}|".encode())
        sha.update(bytes_of(x))
    return sha.hexdigest()


def write(path: Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    """Write `path` so that at every moment it is either the old file, whole, or the new one."""
    ready = {name: x.detach().cpu().contiguous() for name, x in tensors.items()}
    text = json.dumps(meta, sort_keys=True)
    blob = save_tensors(ready, {"format": FORMAT, "meta": text, "sha256": digest(ready, text)})
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    previous = path.with_name(f"{path.name}.previous")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(blob)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            # the old file gets a second name first: there is no moment without a whole checkpoint
            with contextlib.suppress(FileNotFoundError):
                previous.unlink()
            try:
                os.link(path, previous)
            except OSError:  # a file system without links
                previous.write_bytes(path.read_bytes())
        os.replace(temporary, path)
        _sync_directory(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise CheckpointError(
            f"cannot write the checkpoint {path}: {error.strerror or error}. The last good one is kept; "
            "make room or choose another directory, then make the same call again to go on from it"
        ) from error


def _sync_directory(directory: Path) -> None:
    """Make the rename itself durable, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and JSON of a checkpoint; a CheckpointError if one bit of it changed."""
    try:
        blob = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read the checkpoint {path}: {error.strerror or error}") from error
    try:
        header = _header(blob)
        tensors = load_tensors(blob)
    except (SafetensorError, ValueError, KeyError, struct.error, RuntimeError) as error:
        raise CheckpointError(f"{path} is truncated or no checkpoint ({error}){_advice(path)}") from error
    if header.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint of this version ({header.get('format')!r})")
    if digest(tensors, header.get("meta", "")) != header.get("sha256"):
        raise CheckpointError(f"{path} was altered: its content does not match its sha256{_advice(path)}")
    return tensors, json.loads(header["meta"])


def _header(blob: bytes) -> dict[str, str]:
    (length,) = struct.unpack("<Q", blob[:8])
    if length > len(blob) - 8:
        raise ValueError("its header is cut short")
    metadata: dict[str, str] = json.loads(blob[8 : 8 + length]).get("__metadata__", {})
    return metadata


def _advice(path: Path) -> str:
    previous = path.with_name(f"{path.name}.previous")
    if previous.exists():
        return (
            f". The checkpoint before it is kept: rename {previous.name} to {path.name} to go on from there"
        )
    return ". Delete it to start again"


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

    def save(self, tensors: dict[str, Tensor], meta: dict[str, Any], fingerprint: dict[str, str]) -> None:
        write(self.path, tensors, {**meta, "fingerprint": fingerprint})
        self._last = time.monotonic()

    def load(self, fingerprint: dict[str, str]) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The saved state, or None if there is none; a CheckpointError if it belongs to another run."""
        path = self.path
        if not path.exists():
            previous = path.with_name(f"{path.name}.previous")
            if not previous.exists():
                return None
            path = previous
        tensors, meta = read(path)
        theirs = meta.get("fingerprint", {})
        differ = [name for name in fingerprint if fingerprint[name] != theirs.get(name)]
        if differ:
            raise CheckpointError(
                f"{path} belongs to another run: {', '.join(differ)} differ. "
                "Use another directory, or delete it to start again; it was left as it is"
            )
        return tensors, meta
