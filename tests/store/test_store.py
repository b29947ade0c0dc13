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
from cbdl.store.schema import FORMAT, OLDEST, SINCE
from rounding import assert_same

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
    assert_same(back.predict(X).loc, model.predict(X).loc)
    assert back.priors == model.priors
    assert back.method == model.method
    assert [(m.k, m.s) for m in back.predict(X).members] == [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize(
    "method",
    [
        cbdl.MeanField(epochs=3),
        cbdl.LowRank(epochs=3),
        cbdl.Laplace(epochs=3),
        cbdl.Dropout(epochs=3),
        cbdl.SGHMC(epochs=8, draws=4),
        cbdl.HMC(warmup=20, draws=5),
        cbdl.Ensemble(epochs=3),
        cbdl.LastLayer(epochs=3),
    ],
    ids=lambda method: type(method).__name__,
)
@pytest.mark.filterwarnings("ignore::cbdl.bayes.train.TrainingWarning")  # so short a run has not converged
def test_every_method_survives(method, tmp_path):
    model = fitted(method=method, priors=[cbdl.priors.Normal(0, 1), cbdl.priors.Normal(0, 2)])
    model.save(tmp_path / "m")
    assert_same(cbdl.load(tmp_path / "m").predict(X).loc, model.predict(X).loc)


def test_a_network_of_ones_own_is_asked_for_and_keeps_its_statistics(tmp_path):
    model = fitted([make_net])
    model.save(tmp_path / "m")
    with pytest.raises(ModelError, match=r"make_net.*nets="):
        cbdl.load(tmp_path / "m")
    back = cbdl.load(tmp_path / "m", nets=[make_net])
    assert_same(back.predict(X).loc, model.predict(X).loc)
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


def twice(m):
    m["parts"][0]["members"] = [0] * 1_000_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(format=99), "format 99.*newer cbdl"),
        (lambda m: m.update(format=1), "format 1.*train the model again"),
        (lambda m: m.pop("format"), "no format number"),
        (lambda m: m.pop("files"), "'files' is missing"),
        (lambda m: m.pop("seed"), "'seed' is missing"),
        (lambda m: m.pop("plausible"), "'plausible' is missing"),
        (lambda m: m.update(plausible=1.5), "'plausible' is 1.5, not a share from 0 to 1"),
        (lambda m: m.update(seed="x"), "'seed' is 'x', not a whole number"),
        (lambda m: m.update(rows=float("nan")), "NaN"),
        (lambda m: m.update(more=1), "an entry 'more'"),
        (lambda m: m["method"].update(type="os.system"), "os.system"),
        (lambda m: m["method"].update(epochs=-1), "epochs is -1"),
        (lambda m: m["method"].update(epochs="many"), "epochs is 'many'"),
        (lambda m: m["method"].update(command="rm"), "command"),
        (lambda m: m["likelihoods"][0]["net"].update(name="gpt"), "no network named"),
        (
            lambda m: m["likelihoods"][0]["net"]["settings"].update(hidden=[20_000, 20_000]),
            "parameters per member",
        ),
        (lambda m: m["likelihoods"][0]["net"]["settings"].update(hidden=["a"]), "does not describe"),
        (lambda m: m["likelihoods"][0]["net"]["settings"].update(hidden=[1] * 100_000), "hidden"),
        (lambda m: m.update(row=[10**12]), "shape"),
        (lambda m: m.update(row=[10**30]), "'row' is"),
        (lambda m: m["priors"][0].update(scale=-1), "scale is -1"),
        (lambda m: m["priors"][0].update(scale=[1]), "scale is"),
        (lambda m: m.update(dtype="load"), "'dtype' is 'load'"),
        (lambda m: m["parts"][0].update(members=[0]), "there are 1 members"),
        (lambda m: m["parts"][0].update(members=[1, 0]), "in order"),
        (lambda m: m["parts"][1].update(likelihood=0), "in order"),
        (twice, "each once"),
    ],
)
def test_a_tampered_manifest_is_refused(copy, change, message):
    edit(copy, change)
    with pytest.raises(ModelError, match=message):
        cbdl.load(copy)


def places(node, path=()):
    """Every place of a JSON value."""
    yield path
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inside:
        yield from places(value, (*path, key))


ODD = [None, True, -1, 0, 10**12, 10**400, 0.5, "", "x", [], {}, [[]], {"tensor": "nothing"}, {"type": "net"}]


def test_whatever_is_altered_the_model_loads_or_a_model_error_says_why(copy):
    """300 random alterations: another value in a random place, or a place that is gone."""
    text = (copy / "manifest.json").read_text()
    source = np.random.default_rng(0)
    spots = [p for p in places(json.loads(text)) if p and p[0] != "files"]
    refused = 0
    for _ in range(300):
        manifest = json.loads(text)
        *way, last = spots[source.integers(len(spots))]
        node = manifest
        for key in way:
            node = node[key]
        if source.random() < 0.3:
            del node[last]
        else:
            node[last] = ODD[source.integers(len(ODD))]
        (copy / "manifest.json").write_text(json.dumps(manifest))
        try:
            cbdl.load(copy).predict(X[:1])
        except ModelError:
            refused += 1
    assert refused > 180


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
    assert_same(back.predict(X).loc, model.predict(X).loc)


def test_a_model_without_a_whole_likelihood_survives(tmp_path):
    model = fitted().drop([(0, 0), (1, 0)])
    model.save(tmp_path / "m")
    back = cbdl.load(tmp_path / "m")
    assert [(m.k, m.s) for m in back.predict(X).members] == [(0, 1), (1, 1)]
    assert_same(back.predict(X).loc, model.predict(X).loc)
    back.drop([(0, 1)]).save(tmp_path / "m")
    assert [(m.k, m.s) for m in cbdl.load(tmp_path / "m").predict(X).members] == [(1, 1)]


@pytest.mark.filterwarnings("ignore::cbdl.bayes.diagnostics.CollapseWarning")  # priors that are posteriors
def test_the_priors_of_an_updated_model_are_those_it_learned_from(tmp_path):
    model = fitted(method=cbdl.MeanField(epochs=20, lr=1e-2), priors=[cbdl.priors.Normal(0, 1)])
    model.update(X[::2], Y[::2])
    model.save(tmp_path / "m")
    back = cbdl.load(tmp_path / "m")
    assert back.priors == model.priors
    kl = [[row.kl for row in m.diagnostics(X[::2], Y[::2]).rows] for m in (model, back)]
    assert_same(kl[1], kl[0], terms=1000)
    first = [[row.kl for row in m.update(X, Y).diagnostics(X, Y).rows] for m in (model, back)]
    np.testing.assert_allclose(first[1], first[0], rtol=0.05)


def test_a_loaded_model_that_is_fitted_again_leaves_out_who_the_data_refute(tmp_path):
    priors = [cbdl.priors.Normal(0, 1), cbdl.priors.Normal(50, 0.01)]  # the second cannot follow the data
    method = cbdl.MeanField(epochs=20, lr=1e-2)
    model = fitted([cbdl.nets.mlp(1, 1, (4,))], priors=priors, method=method, plausible=0.1)
    model.save(tmp_path / "m")
    back = cbdl.load(tmp_path / "m")
    back.verbose = False
    back.fit(X, Y)
    assert model.plausibility.dropped
    assert back.plausibility.dropped == model.plausibility.dropped


@pytest.mark.parametrize("number", range(OLDEST, FORMAT))
def test_a_model_of_a_format_before_is_read_and_keeps_every_member(copy, number):
    later = [name for name, since in SINCE.items() if since > number]
    edit(copy, lambda m: (m.update(format=number), [m.pop(name) for name in later]))
    assert len(cbdl.load(copy).predict(X).members) == 4


def test_every_class_that_a_model_may_hold_can_be_saved():
    """The codec's list is complete: a class that is added and forgotten there is found here."""
    from cbdl.bayes import likelihoods, priors
    from cbdl.bayes.methods import METHODS
    from cbdl.store.codec import CLASSES

    def subclasses(kind):
        return {c for s in kind.__subclasses__() for c in {s, *subclasses(s)}}

    wanted = {c for base in (priors.Prior, likelihoods.Likelihood) for c in subclasses(base)} | set(METHODS)
    wanted = {c for c in wanted if c.__module__.startswith("cbdl.") and not c.__name__.startswith("_")}
    assert wanted <= set(CLASSES.values()), wanted - set(CLASSES.values())


def test_a_network_of_a_table_is_tried_with_real_numbers(saved, monkeypatch):
    """Without them torch would import its compiler, which takes longer than all the rest; images may be too large."""
    from cbdl.store import saved as module

    devices = []
    count = module.activations
    monkeypatch.setattr(
        module, "activations", lambda net, x: devices.append((x.device.type, len(x.shape))) or count(net, x)
    )
    before = torch.random.get_rng_state()
    cbdl.load(saved[1])
    assert devices == [("cpu", 2), ("cpu", 2)]
    assert torch.equal(before, torch.random.get_rng_state())
