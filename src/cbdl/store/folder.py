"""The folder of a saved model: it appears whole or not at all, and every file is checked before it is read.

A folder is written under another name, synced, and renamed. Reading checks the name, size and sha256 of every file that
the manifest lists.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from cbdl.ground import files
from cbdl.store.schema import ModelError, check_manifest

MANIFEST = "manifest.json"
LIMIT = 1 << 26
"""Bytes of the largest manifest that is read."""

Tensors = dict[str, Tensor]


# --- writing ------------------------------------------------------------------------------------------------


def write_folder(target: Path, manifest: Mapping[str, Any], parts: Mapping[str, Tensors]) -> None:
    """Write the files and the manifest, with their sums, as the folder `target`, in place of a model that is there."""
    if target.exists() and not (target / MANIFEST).is_file():
        raise ModelError(f"{target} exists and is not a saved model; choose another name")
    blobs = {name: _pack(tensors) for name, tensors in parts.items()}
    sums = {n: {"bytes": len(b), "sha256": hashlib.sha256(b).hexdigest()} for n, b in blobs.items()}
    text = json.dumps({**manifest, "files": sums}, indent=1, sort_keys=True, allow_nan=False)
    try:
        with files.whole_folder(target) as fresh:
            for name, blob in {**blobs, MANIFEST: text.encode()}.items():
                files.put(fresh / name, blob)
    except OSError as error:
        raise ModelError(f"cannot write {target}: {error.strerror or error}; nothing was changed") from error


def _pack(tensors: Tensors) -> bytes:
    return bytes(save_tensors({n: t.detach().cpu().contiguous().clone() for n, t in tensors.items()}))


# --- reading ------------------------------------------------------------------------------------------------


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """The manifest of a saved model, checked as far as that goes without reading the other files."""
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise ModelError(f"{folder} is not a saved model: it has no {MANIFEST}")
    if path.stat().st_size > LIMIT:
        raise ModelError(f"{path} is larger than any manifest ({path.stat().st_size} bytes)")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not JSON: {error}") from None
    try:
        check_manifest(manifest)
    except ModelError as error:
        raise ModelError(f"{path} does not describe a model: {error}") from None
    return dict(manifest)


def fingerprint(folder: str | Path) -> str:
    """The sha256 of the manifest, which holds those of all other files: another model has another one."""
    read_manifest(folder)
    return hashlib.sha256((Path(folder) / MANIFEST).read_bytes()).hexdigest()


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a number that JSON has")


def read_tensors(folder: Path, name: str, entry: Mapping[str, Any]) -> Tensors:
    """The tensors of one file, after its name, size and sum were checked, each in memory of its own."""
    path = folder / name
    if path.is_symlink() or not path.is_file():
        raise ModelError(f"{path} is missing, or not a plain file")
    if path.stat().st_size != entry["bytes"]:
        raise ModelError(f"{path} has {path.stat().st_size} bytes, the manifest says {entry['bytes']}")
    blob = path.read_bytes()
    if hashlib.sha256(blob).hexdigest() != entry["sha256"]:
        raise ModelError(f"{path} was altered: its sha256 is not the one in the manifest")
    try:
        # views into the file sit at any address, and kernels round by alignment: copies are aligned as in training
        return {key: tensor.clone() for key, tensor in load_tensors(blob).items()}
    except (SafetensorError, ValueError, RuntimeError) as error:
        raise ModelError(f"{path} is not a safetensors file: {error}") from None
