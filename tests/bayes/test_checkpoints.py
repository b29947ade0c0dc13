"""A checkpoint that was damaged or tampered with: always a `CheckpointError` that says what to do, never another error.

The tamperer knows the format: the sha256 is computed anew after most alterations.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from cbdl.bayes import checkpoint as checkpoints
from cbdl.bayes import data, likelihoods, priors
from cbdl.bayes.checkpoint import FORMAT, Checkpoint, CheckpointError, digest
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.methods import HMC, SGHMC, MeanField
from cbdl.bayes.train import Interrupted, Run, TrainingWarning

X = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))
DATA = data.prepare(X, X.sum(1), space="real", validation=(X[:5], X[:5, 0]))


@cache
def cohort() -> Cohort:
    net = lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))  # noqa: E731
    return Cohort.of([priors.Normal(), priors.Normal(0.0, 3.0)], likelihoods.Normal(net), DATA)


METHODS: list[Any] = [
    MeanField(epochs=3, batch_size=16),
    SGHMC(epochs=6, batch_size=16, draws=2),
    HMC(warmup=20, draws=2, chains=1, leapfrogs=2),
]


@pytest.fixture(scope="module", params=METHODS, ids=lambda m: type(m).__name__)
def saved(request: Any, tmp_path_factory: Any) -> tuple[Any, bytes]:
    """A method and the checkpoint of its run that was stopped on its way."""
    path, left = tmp_path_factory.mktemp("run") / "point", [4]

    def stop() -> bool:
        left[0] -= 1
        return left[0] <= 0

    with pytest.raises(Interrupted):
        request.param.fit(cohort(), DATA, Run(checkpoint=Checkpoint(path), stop=stop))
    return request.param, path.read_bytes()


def parts(blob: bytes) -> tuple[dict[str, Tensor], dict[str, Any]]:
    length = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8 : 8 + length])
    return load(blob), json.loads(header["__metadata__"]["meta"])


def sealed(tensors: dict[str, Tensor], text: str) -> bytes:
    return save(tensors, {"format": FORMAT, "meta": text, "sha256": digest(tensors, text)})


STRANGE: list[Any] = [
    None, True, -1, 0, 1.5, 10**30, float("nan"), float("inf"), "x", "", [], {}, [1], {"0": 1}, {"99": "?"}, {"x": ""}
]  # fmt: skip


def alter_json(pick: random.Random, tensors: dict[str, Tensor], meta: dict[str, Any]) -> bytes:
    """One value of the JSON is something else, or gone."""
    key = pick.choice(["step", "failures", "fingerprint", "fingerprint.plan", "everything"])
    value = pick.choice(STRANGE)
    if key == "everything":
        return sealed(
            tensors, pick.choice([json.dumps(value), "", "{", "[" * 5000, '{"step": ' + "1" * 5000 + "}"])
        )
    place = meta
    *outer, last = key.split(".")
    for name in outer:
        place = place[name]
    if pick.random() < 0.3:
        del place[last]
    else:
        place[last] = value
    return sealed(tensors, json.dumps(meta))


def alter_tensor(pick: random.Random, tensors: dict[str, Tensor], meta: dict[str, Any]) -> bytes:
    """One tensor has another name, shape, type or is gone; or there is one more."""
    name = pick.choice(sorted(tensors))
    x = tensors[name]
    kind = pick.randrange(7)
    if kind == 0:
        del tensors[name]
    elif kind == 1:
        tensors[name + "x"] = tensors.pop(name)
    elif kind == 2:
        tensors[name] = torch.zeros(pick.choice([(), (0,), (1,), (*x.shape, 2), (3, 1 << 16)]))
    elif kind == 3:
        tensors[name] = x.to(pick.choice([torch.float16, torch.bool, torch.int8, torch.complex64]))
    elif kind == 4:
        tensors["more"] = torch.zeros(3)
    elif kind == 5:
        tensors[name] = x.reshape(-1) if x.ndim > 1 else x.reshape(1, -1)
    else:
        tensors.clear()
    return sealed(tensors, json.dumps(meta))


def alter_header(pick: random.Random, tensors: dict[str, Tensor], meta: dict[str, Any]) -> bytes:
    """The header of the safetensors file says something else; the bytes behind it are the old ones."""
    blob = sealed(tensors, json.dumps(meta))
    length = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8 : 8 + length])
    name = pick.choice(sorted(header))
    if name == "__metadata__":
        field = pick.choice(sorted(header[name]))
        header[name][field] = pick.choice(["", "x", "cbdl-checkpoint-99"])
        if pick.random() < 0.5:
            header[name] = pick.choice([None, 3, [], "x", {"format": 1}])
    else:
        what = pick.choice(["shape", "dtype", "data_offsets"])
        absurd = {
            "shape": [[10**12], [-1], [2**63], [2**32, 2**32], "x", [], [0, 10**18], None],
            "dtype": ["F64", "I64", "BOOL", "F8_E4M3", "x", 3, None],
            "data_offsets": [[0, 10**15], [-8, 8], [8, 0], [0], "x", None],
        }
        header[name][what] = pick.choice(absurd[what])
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + blob[8 + length :]


def alter_bytes(pick: random.Random, tensors: dict[str, Tensor], meta: dict[str, Any]) -> bytes:
    """Bytes are flipped, left out or repeated."""
    blob = bytearray(sealed(tensors, json.dumps(meta)))
    for _ in range(pick.choice([1, 1, 3, 50])):
        at = pick.randrange(len(blob) + 1)
        kind = pick.randrange(3)
        if kind == 0 and at < len(blob):
            blob[at] ^= 1 << pick.randrange(8)
        elif kind == 1:
            del blob[at : at + pick.choice([1, 8, 1000])]
        else:
            blob[at:at] = bytes(pick.randrange(256) for _ in range(pick.choice([1, 8])))
    return bytes(blob)


def resume(method: Any, path: Path) -> str | None:
    """Go on from a checkpoint: None if that worked, or what the refusal says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)  # members that fail, chains that have not mixed
        try:
            method.fit(cohort(), DATA, Run(checkpoint=Checkpoint(path, every_seconds=1e9)))
        except CheckpointError as error:
            return str(error)
    return None


@pytest.mark.parametrize("alter", [alter_json, alter_tensor, alter_header, alter_bytes])
def test_every_alteration_ends_in_a_checkpoint_error_or_in_a_training(
    saved: tuple[Any, bytes], tmp_path: Path, alter: Callable[..., bytes]
) -> None:
    method, original = saved
    path, refused = tmp_path / "point", 0
    for number in range(40):
        blob = alter(random.Random(f"{alter.__name__} {number}"), *parts(original))
        path.write_bytes(blob)
        answer = resume(method, path)
        if answer is not None:
            refused += 1
            assert str(path) in answer
            assert any(word in answer for word in ("Delete it", "delete it", "rename")), answer
            assert path.read_bytes() == blob
    # some alterations are none: step 0 is a step, the type a tensor had is a type
    assert refused >= 25


def test_numbers_that_make_no_sense_are_trained_on_but_never_crash(
    saved: tuple[Any, bytes], tmp_path: Path
) -> None:
    method, original = saved
    path = tmp_path / "point"
    for number, value in enumerate([float("nan"), float("inf"), -1e30, 0.0, 3e38]):
        tensors, meta = parts(original)
        for x in tensors.values():
            if x.is_floating_point():
                x.view(-1)[number:] = value
            else:
                x.fill_(-(2**62))
        path.write_bytes(sealed(tensors, json.dumps(meta)))
        assert resume(method, path) is None


def test_a_file_far_larger_than_the_run_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "point"
    with open(path, "wb") as file:
        file.truncate(1 << 34)  # a hole: 16 GiB on no disk
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail("it was read"))
    with pytest.raises(CheckpointError, match=r"has 17179869184 bytes.*Delete it"):
        METHODS[0].fit(cohort(), DATA, Run(checkpoint=Checkpoint(path)))


def test_what_does_not_fit_is_named(saved: tuple[Any, bytes], tmp_path: Path) -> None:
    method, original = saved
    tensors, meta = parts(original)
    tensors["variables"] = tensors["variables"][:1].double()
    path = tmp_path / "point"
    path.write_bytes(sealed(tensors, json.dumps(meta)))
    with pytest.raises(CheckpointError, match=r"variables is \(1, .*float64, not \(2, .*float32"):
        method.fit(cohort(), DATA, Run(checkpoint=Checkpoint(path)))
    assert checkpoints.read(path)[1]["step"] == meta["step"]
