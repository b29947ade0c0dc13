"""Arguments that cannot be meant: the message names the argument, the place and the remedy."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cbdl
from cbdl.bayes.devices import check_device
from cbdl.bayes.likelihoods import Categorical, Normal, check_scale
from cbdl.bayes.priors import Normal as Prior


def test_a_device_that_is_not_there_is_refused_with_those_that_are() -> None:
    assert check_device("cpu") == torch.device("cpu")
    for wrong in ("cuda", "cuda:7", "gpu", "quantum", "meta"):
        if torch.cuda.is_available() and wrong == "cuda":
            continue
        with pytest.raises(
            ValueError, match=f"device is '{wrong}', which cannot be used here .*there is cpu"
        ):
            check_device(wrong)
    with pytest.raises(ValueError, match="place is 'gpu'"):
        check_device("gpu", "place")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="device is 'cuda'"):
            cbdl.CBDL([Prior()], [Categorical(lambda: nn.Linear(1, 2))], device="cuda")


@pytest.mark.parametrize("wrong", ["foo", -1, 0.0, math.nan, None, True, [1.0]])
def test_a_scale_is_refused_under_the_name_that_the_user_gave_it(wrong: Any) -> None:
    with pytest.raises(ValueError, match="noise is"):
        check_scale(wrong, "noise")
    with pytest.raises(ValueError, match="scale is"):
        Normal(lambda: nn.Linear(1, 1), wrong)


@pytest.mark.parametrize("good", ["learned", "heteroscedastic", 1, 0.5, 1e-9])
def test_scales_that_are_fine(good: Any) -> None:
    check_scale(good)


def test_a_name_instead_of_a_method_is_refused_with_the_method() -> None:
    with pytest.raises(TypeError, match=r"method is 'laplace'; give cbdl\.Laplace\(\)"):
        cbdl.CBDL([Prior()], [Categorical(lambda: nn.Linear(1, 2))], method="laplace")  # type: ignore[arg-type]


NET = nn.Linear(1, 2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"priors": Prior()}, r"priors is Normal\(.*give a list: priors=\["),
        ({"priors": {"*": Prior()}}, "give a list: priors="),
        ({"priors": []}, "priors is empty"),
        ({"priors": [Prior(), 1.0]}, r"priors\[1\] is 1.0; give a prior such as"),
        ({"likelihoods": Categorical(NET)}, r"give a list: likelihoods=\["),
        ({"likelihoods": NET}, "likelihoods is a Linear; give a list"),
        ({"likelihoods": []}, "likelihoods is empty"),
        ({"likelihoods": [NET]}, r"likelihoods\[0\] is a Linear; a network alone does not say"),
        ({"likelihoods": [Categorical(None)]}, r"likelihoods\[0\] has the net None; give a function"),  # type: ignore[arg-type]
        ({"likelihoods": [Categorical(3)]}, r"likelihoods\[0\] has the net 3; give a function"),  # type: ignore[arg-type]
        ({"seed": "x"}, "seed is 'x'; give a whole number"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"seed": 1 << 63}, "seed is 9223372036854775808; give a whole number below"),
        ({"dtype": "float32"}, "dtype is 'float32'; give torch.float32"),
        ({"dtype": torch.int64}, "dtype is torch.int64"),
        ({"standardize": "no"}, "standardize is 'no'; give True or False"),
        ({"plausible": "0.05"}, "plausible is '0.05'; give a share"),
        ({"engine": "local"}, r"engine is 'local'; give cbdl.engines.Local\(\)"),
        ({"engine": cbdl.engines.Local}, r"engine is <class .*; give cbdl.engines.Local\(\)"),
    ],
)
def test_what_a_model_cannot_be_made_of_is_named_at_once(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        cbdl.CBDL(**{"priors": [Prior()], "likelihoods": [Categorical(NET)], **wrong})


def test_a_width_instead_of_widths_is_told() -> None:
    with pytest.raises(ValueError, match=r"hidden is 5; give the width of each hidden layer, as in \(5,\)"):
        cbdl.nets.mlp(3, 1, 5)()  # type: ignore[arg-type]


def test_a_model_is_loaded_to_a_device_that_there_is(tmp_path: Path) -> None:
    X = np.linspace(-1, 1, 20)[:, None]
    model = cbdl.CBDL([Prior()], [Categorical(NET)], cbdl.MeanField(epochs=1), verbose=False)
    model.fit(X, (X[:, 0] > 0).astype(int)).save(tmp_path / "model")
    with pytest.raises(ValueError, match="device is 'foo', which cannot be used here"):
        cbdl.load(tmp_path / "model", nets=[lambda: nn.Linear(1, 2)], device="foo")


@pytest.mark.parametrize("settings", [{"loc": "0"}, {"scale": "1"}, {"scale": [1.0]}])
def test_a_prior_of_words_is_named(settings: dict[str, Any]) -> None:
    ((name, value),) = settings.items()
    with pytest.raises(ValueError, match=f"Normal: {name} is {re.escape(repr(value))}; "):
        Prior(**settings)


def test_a_seed_of_numpy_is_the_same_seed() -> None:
    made = cbdl.CBDL([Prior()], [Categorical(NET)], seed=np.int64(3))  # type: ignore[arg-type]
    assert type(made.seed) is int
    assert made.seed == 3
