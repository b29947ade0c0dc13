"""The guide for newcomers is followed to the letter: its pieces go where it says and keep the contracts."""

import gc
import importlib
import re
import sys
import types
from pathlib import Path

import pytest
import torch

import cbdl
from cbdl.bayes.methods.checks import check_method
from protocols import check_class_distance, check_class_region, check_likelihood, check_prior, check_study

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PIECES = dict(re.findall(r"^```python\n# src/(\S+)\.py\n(.*?)^```", TEXT, re.S | re.M))


def put(path):
    """The names of the module `path` after the guide's piece for it was added."""
    name = path.replace("/", ".")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError:
        module = types.ModuleType(name)
        sys.modules[name] = module
    before = dict(vars(module))
    exec(compile(PIECES[path], path, "exec"), vars(module))
    return module, before


NEW = ("cbdl.bayes.methods.snapshots", "cbdl.bayes.priors.logistic", "cbdl.studies.coins")
"""Modules that the guide makes; the other pieces go into files that are there."""


@pytest.fixture
def added():
    """Adds pieces, and takes them away again."""
    undo = []

    def add(path):
        tables = {
            n: dict(v)
            for n, v in vars(sys.modules.get(path.replace("/", "."), types)).items()
            if isinstance(v, dict) and n.isupper()
        }
        module, before = put(path)
        undo.append((module, before, tables))
        return module

    yield add
    for module, before, tables in undo:
        for name in set(vars(module)) - set(before):
            delattr(module, name)
        for name, content in tables.items():
            table = vars(module)[name]
            table.clear()
            table.update(content)
        if module.__name__ in NEW:
            del sys.modules[module.__name__]
    gc.collect()  # classes refer to themselves; those that ask a base for its subclasses would still find them


def test_there_is_a_piece_for_everything_that_can_be_added():
    headings = re.findall(r"^### an? (.+)$", TEXT, re.M)
    assert headings == [
        "prior",
        "likelihood",
        "inference method",
        "region",
        "distance",
        "kind of credal set",
        "study",
        "benchmark",
    ]
    assert len(PIECES) == 6


def test_a_new_prior(added):
    Logistic = added("cbdl/bayes/priors/logistic").Logistic
    check_prior(Logistic(0.5, 2.0))
    with pytest.raises(ValueError, match="scale is -1"):
        Logistic(0.0, -1.0)


def test_a_new_likelihood(added):
    Ordinal = added("cbdl/bayes/likelihoods/classes").Ordinal
    net = cbdl.nets.mlp(2, 1, (4,))
    check_likelihood(Ordinal(net, 4), torch.tensor([[0.3], [-2.0], [5.0]]), torch.tensor([0, 3, 1]))
    X = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0] > 0).long() + (X[:, 0] > 1).long()
    model = cbdl.CBDL(
        [cbdl.priors.Normal(0, 1)] * 2, [Ordinal(net)], cbdl.MeanField(epochs=5), verbose=False
    ).fit(X, y)
    assert model.predict(X).probs.shape == (60, 2, 3)


def test_a_new_method(added):
    check_method(added("cbdl/bayes/methods/snapshots").Snapshots(epochs=3))


def test_a_new_region(added):
    added("cbdl/credal/classes/regions")
    check_class_region("upper-density")


def test_a_new_distance(added):
    added("cbdl/credal/classes/divergence")
    check_class_distance("triangular")


def test_a_new_study(added, tmp_path):
    check_study(added("cbdl/studies/coins").STUDY, tmp_path / "report")


def test_every_method_region_distance_and_study_of_the_package_is_checked_alike():
    """The same checks run on all of the package's own; here the lists are compared, so that none is forgotten."""
    text = (ROOT / "tests" / "test_protocols.py").read_text()
    for check in (
        "check_prior",
        "check_likelihood",
        "check_class_region",
        "check_class_distance",
        "check_study",
    ):
        assert check in text
