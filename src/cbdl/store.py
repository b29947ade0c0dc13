"""Saved models: a folder with `manifest.json` and safetensors files. Never pickle, never code.

The manifest says what the model is; the files hold numbers. Loading checks the name, size and sha256 of every file
before it is read, builds only classes that cbdl itself defines, and compares shapes with the networks. The folder
appears whole or not at all: it is written under another name, synced, and renamed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import Data, Standard
from cbdl.bayes.methods.protocol import Posterior
from cbdl.codec import CodecError, decode, encode
from cbdl.engines import tasks
from cbdl.prediction import DRAWS, Learned

if TYPE_CHECKING:
    from cbdl.model import CBDL

FORMAT = 1
MANIFEST = "manifest.json"
LIMIT = 1 << 26
"""Bytes of the largest manifest that is read."""


class ModelError(ValueError):
    """A folder that is no model, or not a whole and unaltered one; the message says what is wrong with it."""


# --- writing ------------------------------------------------------------------------------------------------


def save(model: CBDL, path: str | Path, extra: Mapping[str, Any] | None = None) -> None:
    """Write `model` as the folder `path`, replacing a model that is there, and nothing else."""
    target = Path(path)
    if target.exists() and not (target / MANIFEST).is_file():
        raise ModelError(f"{target} exists and is not a saved model; choose another name")
    files, manifest = describe(model, extra)
    fresh = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        fresh.mkdir(parents=True)
        for name, blob in files.items():
            _write(fresh / name, blob)
        _write(fresh / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True).encode())
        _swap(fresh, target)
    except OSError as error:
        raise ModelError(f"cannot write {target}: {error.strerror or error}; nothing was changed") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def describe(model: CBDL, extra: Mapping[str, Any] | None = None) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files of a model, as bytes, and its manifest."""
    from cbdl import __version__

    learned = model._fitted()
    shared: dict[str, Tensor] = {}
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "cbdl": __version__,
        "torch": torch.__version__,
        "priors": [encode(p, shared, f"priors.{k}") for k, p in enumerate(model.priors)],
        "likelihoods": [encode(q, shared, f"likelihoods.{s}") for s, q in enumerate(model.likelihoods)],
        "method": encode(model.method, shared, "method"),
        "temperature": model.method.temperature,
        "rows": learned.size,
        "draws": DRAWS,
        "seed": model.seed,
        "standardize": model.standardize,
        "trainable": list(model.trainable) if model.trainable is not None else None,
        "dtype": str(model.dtype).removeprefix("torch."),
        "space": learned.space,
        "row": list(learned.row),
        "integers": learned.integers,
        "members": [[[m.k, m.s] for m in cohort.members] for cohort, _ in learned.parts],
        "extra": dict(extra or {}),
    }
    for name, standard in (("inputs", learned.inputs), ("targets", learned.targets)):
        shared[f"{name}.loc"], shared[f"{name}.scale"] = standard.loc, standard.scale
    files = {"shared.safetensors": _pack(shared)}
    for s, (cohort, posterior) in enumerate(learned.parts):
        constants = {f"constant.{n}": c for n, c in cohort.forward.constants.items()}
        files[f"likelihood-{s}.safetensors"] = _pack({**posterior.state(), **constants})
    manifest["files"] = {
        name: {"bytes": len(blob), "sha256": hashlib.sha256(blob).hexdigest()} for name, blob in files.items()
    }
    return files, manifest


def _pack(tensors: Mapping[str, Tensor]) -> bytes:
    return bytes(save_tensors({n: t.detach().cpu().contiguous().clone() for n, t in tensors.items()}))


def _write(path: Path, blob: bytes) -> None:
    with open(path, "wb") as file:
        file.write(blob)
        file.flush()
        os.fsync(file.fileno())


def _swap(fresh: Path, target: Path) -> None:
    """`fresh` becomes `target`; what was there goes away only afterwards."""
    if not target.exists():
        os.replace(fresh, target)
        return
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    os.replace(target, old)
    try:
        os.replace(fresh, target)
    except OSError:
        os.replace(old, target)
        raise
    with contextlib.suppress(OSError):
        shutil.rmtree(old)


# --- reading ------------------------------------------------------------------------------------------------


def load(
    path: str | Path,
    nets: Sequence[Callable[[], nn.Module]] | None = None,
    *,
    device: torch.device | str = "cpu",
) -> CBDL:
    """The model in the folder `path`.

    Networks from `cbdl.nets` are rebuilt by name. A network of the user's own is not in the folder: give its
    factories as `nets`, one a likelihood, in order.
    """
    from cbdl.model import CBDL

    folder = Path(path)
    manifest = read_manifest(folder)
    tensors = {name: _read(folder, name, entry) for name, entry in manifest["files"].items()}
    try:
        shared = tensors["shared.safetensors"]
        likelihoods = _likelihoods(manifest, shared, nets)
        model = CBDL(
            priors=decode(manifest["priors"], shared, "priors"),
            likelihoods=likelihoods,
            method=decode(manifest["method"], shared, "method"),
            seed=int(manifest["seed"]),
            standardize=bool(manifest["standardize"]),
            trainable=manifest["trainable"],
            device=device,
            dtype=getattr(torch, str(manifest["dtype"])),
        )
        model._learned = _learned(model, manifest, tensors)
    except (CodecError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{folder / MANIFEST} does not describe a model: {error}") from error
    return model


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a saved model, checked as far as that goes without reading the other files."""
    path = folder / MANIFEST
    if not path.is_file():
        raise ModelError(f"{folder} is not a saved model: it has no {MANIFEST}")
    if path.stat().st_size > LIMIT:
        raise ModelError(f"{path} is larger than any manifest ({path.stat().st_size} bytes)")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not JSON: {error}") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise ModelError(f"{path} has no format number; it is not a manifest of cbdl")
    if manifest["format"] > FORMAT:
        raise ModelError(
            f"{path} has format {manifest['format']}, this version of cbdl reads up to {FORMAT}; "
            "install a newer cbdl"
        )
    if not isinstance(manifest.get("files"), dict) or not all(
        isinstance(e, dict) for e in manifest["files"].values()
    ):
        raise ModelError(f"{path} does not list its files")
    return manifest


def _read(folder: Path, name: str, entry: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of one file, after its name, size and sum were checked."""
    path = folder / name
    if name != os.path.basename(name) or name in ("", ".", "..") or "\\" in name or "\0" in name:
        raise ModelError(f"{folder / MANIFEST} names the file {name!r}, which is not inside the folder")
    if path.is_symlink() or not path.is_file():
        raise ModelError(f"{path} is missing, or not a plain file")
    if path.stat().st_size != entry.get("bytes"):
        raise ModelError(f"{path} has {path.stat().st_size} bytes, the manifest says {entry.get('bytes')}")
    blob = path.read_bytes()
    if hashlib.sha256(blob).hexdigest() != entry.get("sha256"):
        raise ModelError(f"{path} was altered: its sha256 is not the one in the manifest")
    try:
        return dict(load_tensors(blob))
    except (SafetensorError, ValueError, RuntimeError) as error:
        raise ModelError(f"{path} is not a safetensors file: {error}") from None


def _likelihoods(
    manifest: Mapping[str, Any], shared: Mapping[str, Tensor], nets: Sequence[Callable[[], nn.Module]] | None
) -> list[Any]:
    """The likelihoods, with the user's factories where the networks are the user's own."""
    specs = manifest["likelihoods"]
    if nets is not None and len(nets) != len(specs):
        raise ModelError(f"nets holds {len(nets)} factories; the model has {len(specs)} likelihoods")
    found = []
    for s, spec in enumerate(specs):
        own = dict(spec)
        net = own["net"]
        if nets is not None:
            own["net"] = None
        elif net["type"] == "user-net":
            raise ModelError(
                f"likelihood {s} uses a network of your own ({net['name']}), which a model folder does not hold; "
                "pass the factories: load(path, nets=[...]), one a likelihood"
            )
        likelihood = decode(own, shared, f"likelihoods.{s}")
        found.append(likelihood if nets is None else replace(likelihood, net=nets[s]))
    return found


def _learned(model: CBDL, manifest: Mapping[str, Any], tensors: Mapping[str, dict[str, Tensor]]) -> Learned:
    shared = tensors["shared.safetensors"]
    inputs = Standard(shared["inputs.loc"], shared["inputs.scale"]).to(model.device, model.dtype)
    targets = Standard(shared["targets.loc"], shared["targets.scale"]).to(model.device, model.dtype)
    blank = _blank(model, manifest, inputs, targets)
    todo = tasks(model.priors, model.likelihoods, seed=model.seed, trainable=model.trainable)
    parts = []
    for s, task in enumerate(todo):
        keep = {(int(k), int(own)) for k, own in manifest["members"][s]}
        members = tuple(m for m in task.members if (m.k, m.s) in keep)
        cohort = replace(task, members=members).cohort(blank)
        state = tensors[f"likelihood-{s}.safetensors"]
        parts.append((cohort, _posterior(model, cohort, state, s)))
    row = tuple(int(n) for n in manifest["row"])
    rows, integers = float(manifest["rows"]), bool(manifest["integers"])
    return Learned(tuple(parts), inputs, targets, row, model.seed, rows, integers)


def _blank(model: CBDL, manifest: Mapping[str, Any], inputs: Standard, targets: Standard) -> Data:
    """Two rows of zeros in the shape of the training data: enough to build the networks and check their shapes."""
    dtype = torch.int64 if manifest["integers"] else model.dtype
    x = torch.zeros((2, *manifest["row"]), dtype=dtype, device=model.device)
    if manifest["space"] == "classes":
        y = torch.arange(2, device=model.device)
    else:
        y = torch.zeros((2, *targets.loc.shape), dtype=model.dtype, device=model.device)
    return Data(x, y, inputs, targets)


def _posterior(model: CBDL, cohort: Cohort, state: Mapping[str, Tensor], s: int) -> Posterior:
    """The posterior of one cohort; every tensor must fit the network."""
    numbers = {n: t.to(model.device) for n, t in state.items() if not n.startswith("constant.")}
    for name, tensor in numbers.items():
        if tensor.ndim < 1 or tensor.shape[0] != cohort.size:
            raise ModelError(
                f"likelihood {s}: {name} is for {tuple(tensor.shape)[:1]} members, not {cohort.size}"
            )
    for name, constant in cohort.forward.constants.items():
        saved = state.get(f"constant.{name}")
        if saved is None or saved.shape != constant.shape:
            raise ModelError(f"likelihood {s}: the frozen parameter {name!r} does not fit the network")
        constant.copy_(saved)
    try:
        posterior = model.method.from_state(cohort, numbers)
        theta = posterior.sample(1)
    except (KeyError, RuntimeError, ValueError) as error:
        raise ModelError(
            f"likelihood {s}: its tensors do not fit {type(model.method).__name__}: {error}"
        ) from error
    if (
        theta.shape != (cohort.size, 1, cohort.layout.size)
        or posterior.noise.shape != cohort.initial_noise.shape
    ):
        raise ModelError(
            f"likelihood {s}: the saved parameters {tuple(theta.shape[::2])} do not fit the network, which has "
            f"{cohort.layout.size} for each of {cohort.size} members; were other networks given?"
        )
    return posterior
