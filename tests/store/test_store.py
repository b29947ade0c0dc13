"""Saved models: the same answers after loading, whole or not at all, and nothing from the folder is trusted."""

import json
import os
import pickle
import struct
from hashlib import sha256

import numpy as np
import pytest
import torch
from torch import nn

import cbdl
from cbdl.store import ModelError

X = np.linspace(-1, 1, 40)[:, None]
Y = X[:, 0] ** 2


def make_net():
    return nn.Sequential(nn.Linear(1, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))


def fitted(nets=None, **changes):
    nets = nets or [cbdl.nets.mlp(1, 1, (6,)), cbdl.nets.mlp(1, 1, (4,))]
    settings = {
        "priors": [
            cbdl.priors.Normal(0, 1),
            {"*.bias": cbdl.priors.Normal(0, 10), "*": cbdl.priors.Laplace(0, 1)},
        ],
        "likelihoods": [cbdl.likelihoods.Normal(net, scale="learned") for net in nets],
        "method": cbdl.MeanField(epochs=3, divergence=cbdl.bayes.methods.divergences.Renyi(0.5)),
        "verbose": False,
    }
    return cbdl.CBDL(**{**settings, **changes}).fit(X, Y)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model"
    model = fitted()
    model.save(path)
    return model, path


@pytest.fixture
def copy(saved, tmp_path):
    import shutil

    return shutil.copytree(saved[1], tmp_path / "copy")


def edit(folder, change):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def replace_file(folder, name, blob):
    """A file exchanged by somebody who also knows how to change the sums in the manifest."""
    (folder / name).write_bytes(blob)
    entry = {"bytes": len(blob), "sha256": sha256(blob).hexdigest()}
    edit(folder, lambda m: m["files"].update({name: entry}))


def test_a_loaded_model_answers_alike(saved):
    model, path = saved
    back = cbdl.load(path)
    np.testing.assert_array_equal(back.predict(X).loc, model.predict(X).loc)
    assert back.priors == model.priors
    assert back.method == model.method
    assert [(m.k, m.s) for m in back.predict(X).members] == [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize(
    "method", [cbdl.Ensemble(epochs=3), cbdl.LastLayer(epochs=3), cbdl.Laplace(epochs=3)]
)
def test_every_method_survives(method, tmp_path):
    model = fitted(method=method, priors=[cbdl.priors.Normal(0, 1), cbdl.priors.Normal(0, 2)])
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(cbdl.load(tmp_path / "m").predict(X).loc, model.predict(X).loc)


def test_a_network_of_ones_own_is_asked_for_and_keeps_its_statistics(tmp_path):
    model = fitted([make_net])
    model.save(tmp_path / "m")
    with pytest.raises(ModelError, match=r"make_net.*nets="):
        cbdl.load(tmp_path / "m")
    back = cbdl.load(tmp_path / "m", nets=[make_net])
    np.testing.assert_array_equal(back.predict(X).loc, model.predict(X).loc)
    with pytest.raises(ModelError, match="holds 2 factories"):
        cbdl.load(tmp_path / "m", nets=[make_net, make_net])
    with pytest.raises((ModelError, ValueError), match=r"fit|parameters"):
        cbdl.load(tmp_path / "m", nets=[lambda: nn.Linear(1, 1)])


def test_saving_again_replaces_the_model_and_only_a_model(saved, tmp_path):
    model, _ = saved
    model.save(tmp_path / "m")
    model.save(tmp_path / "m")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ModelError, match="not a saved model"):
        model.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_a_save_that_fails_leaves_the_old_model_whole(saved, tmp_path, monkeypatch):
    model, _ = saved
    model.save(tmp_path / "m")
    before = (tmp_path / "m" / "manifest.json").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelError, match="No space left"):
        model.save(tmp_path / "m")
    monkeypatch.undo()
    assert (tmp_path / "m" / "manifest.json").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m"]
    cbdl.load(tmp_path / "m")


def test_an_altered_tensor_is_noticed(copy):
    path = copy / "likelihood-0.safetensors"
    blob = bytearray(path.read_bytes())
    blob[-1] ^= 1
    path.write_bytes(blob)
    with pytest.raises(ModelError, match=r"likelihood-0.safetensors was altered"):
        cbdl.load(copy)


def test_a_truncated_or_missing_file_is_named(copy):
    path = copy / "likelihood-1.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ModelError, match="bytes, the manifest says"):
        cbdl.load(copy)
    path.unlink()
    with pytest.raises(ModelError, match=r"likelihood-1\.safetensors is missing"):
        cbdl.load(copy)


def test_a_swapped_tensor_file_does_not_fit(copy):
    replace_file(copy, "likelihood-0.safetensors", (copy / "likelihood-1.safetensors").read_bytes())
    with pytest.raises(ModelError, match="do not fit"):
        cbdl.load(copy)


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/hostname", "a/../../b", ".."])
def test_a_path_out_of_the_folder_is_refused(copy, name):
    edit(copy, lambda m: m["files"].update({name: {"bytes": 1, "sha256": "0"}}))
    with pytest.raises(ModelError, match="not inside the folder"):
        cbdl.load(copy)


def test_a_link_out_of_the_folder_is_refused(copy, tmp_path):
    path = copy / "likelihood-0.safetensors"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match="not a plain file"):
        cbdl.load(copy)


def test_a_pickle_in_disguise_is_not_opened(copy):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(copy / "exploded"),)

    replace_file(copy, "likelihood-0.safetensors", pickle.dumps(Bomb()))
    with pytest.raises(ModelError, match="not a safetensors file"):
        cbdl.load(copy)
    assert not (copy / "exploded").exists()


def test_a_shape_of_ten_gigabytes_in_a_header_allocates_nothing(copy):
    header = {"mu": {"dtype": "F32", "shape": [50_000, 50_000], "data_offsets": [0, 10_000_000_000]}}
    text = json.dumps(header).encode()
    replace_file(copy, "likelihood-0.safetensors", struct.pack("<Q", len(text)) + text)
    with pytest.raises(ModelError, match="not a safetensors file"):
        cbdl.load(copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(format=99), "format 99.*newer cbdl"),
        (lambda m: m.pop("format"), "no format number"),
        (lambda m: m.pop("files"), "does not list its files"),
        (lambda m: m.pop("seed"), "seed"),
        (lambda m: m["method"].update(type="os.system"), "os.system"),
        (lambda m: m["method"].update(epochs=-1), "epochs is -1"),
        (lambda m: m["method"].update(command="rm"), "command"),
        (lambda m: m["likelihoods"][0]["net"].update(name="gpt"), "no network named"),
        (lambda m: m["priors"][0].update(scale=-1), "scale is -1"),
        (lambda m: m.update(dtype="load"), "does not describe"),
        (lambda m: m.update(members=[[[0, 0]], [[0, 1]]]), "members"),
    ],
)
def test_a_tampered_manifest_is_refused(copy, change, message):
    edit(copy, change)
    with pytest.raises(ModelError, match=message):
        cbdl.load(copy)


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '"text"', "[" * 100_000])
def test_what_is_not_a_manifest_is_refused(copy, text):
    (copy / "manifest.json").write_text(text)
    with pytest.raises(ModelError):
        cbdl.load(copy)


def test_a_folder_without_a_manifest_is_refused(tmp_path):
    with pytest.raises(ModelError, match="not a saved model"):
        cbdl.load(tmp_path)


def test_frozen_parameters_come_from_the_folder(tmp_path):
    def backbone():
        net = nn.Sequential(nn.Linear(1, 6), nn.ReLU(), nn.Linear(6, 1))
        net[0].requires_grad_(False)
        return net

    model = fitted([backbone])
    model.save(tmp_path / "m")
    torch.manual_seed(5)
    back = cbdl.load(tmp_path / "m", nets=[backbone])
    np.testing.assert_array_equal(back.predict(X).loc, model.predict(X).loc)
