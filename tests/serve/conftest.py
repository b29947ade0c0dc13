"""Models of a moment, as `cbdl fit` writes them."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import cbdl
from cbdl.bayes.priors import Normal
from cbdl.serve.images import load_served
from cbdl.tables import learning
from cbdl.tables.answers import Trained
from cbdl.tables.columns import Wishes

PRIORS = (Normal(0.0, 1.0, fan_in=True), Normal(0.0, 3.0, fan_in=True))


def trained(folder: Path, lines: list[str], **settings: object) -> Path:
    """The folder of a model of the table."""
    (folder / "train.csv").write_text("\n".join(lines) + "\n")
    own = learning.Settings(
        "y",
        **{"steps": 60, "plausible": 0, "calibration": None, "priors": PRIORS, "nets": ((8,),), **settings},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pixels that are always white
        learning.fit(folder / "train.csv", folder / "model", own, verbose=False)
    return folder / "model"


@pytest.fixture(scope="session")
def classes(tmp_path_factory) -> Path:
    """Two classes, of two numbers and a word."""
    source = np.random.default_rng(0)
    x, z = source.normal(size=(2, 60))
    colour = np.array(["red", "green", "blue"])[source.integers(0, 3, 60)]
    lines = [f"{a},{b},{c},{'yes' if a + b > 0 else 'no'}" for a, b, c in zip(x, z, colour, strict=True)]
    return trained(tmp_path_factory.mktemp("classes"), ["x,z,colour,y", *lines])


@pytest.fixture(scope="session")
def line(tmp_path_factory) -> Path:
    """A number, of a number and a date."""
    source = np.random.default_rng(0)
    x = source.normal(size=60)
    days = source.integers(1, 29, 60)
    lines = [f"{a},2024-0{1 + d % 9}-{d:02d},{a + 0.1 * d}" for a, d in zip(x, days, strict=True)]
    return trained(
        tmp_path_factory.mktemp("line"), ["x,day,y", *lines], wishes=Wishes(dates=("day",)), task="regression"
    )


@pytest.fixture(scope="session")
def digits(tmp_path_factory) -> Path:
    """Scikit-learn's digits."""
    from sklearn.datasets import load_digits

    frame = load_digits(as_frame=True).frame[:900].rename(columns={"target": "y"})
    lines = frame.to_csv(index=False).splitlines()
    return trained(tmp_path_factory.mktemp("digits"), lines, steps=100, nets=((24,),))


@pytest.fixture(scope="session")
def of_classes(classes) -> Trained:
    return Trained.load(classes)


@pytest.fixture(scope="session")
def of_numbers(line) -> Trained:
    return Trained.load(line)


@pytest.fixture(scope="session")
def pixels() -> np.ndarray:
    """Thirty pictures of 16 x 16 bytes."""
    return np.random.default_rng(0).integers(0, 256, (30, 16, 16))


@pytest.fixture(scope="session")
def pictures(pixels, tmp_path_factory) -> Path:
    """Three classes, of grey pictures with values from 0 to 255."""
    model = cbdl.CBDL(
        [cbdl.priors.Normal(0, s, fan_in=True) for s in (1, 3)],
        [cbdl.likelihoods.Categorical(cbdl.nets.lenet(3, 1, 16))],
        cbdl.MeanField(epochs=2),
        verbose=False,
    )
    model.fit(pixels[:, None].astype(np.float32), np.array(["cat", "dog", "elk"])[pixels[:, 0, 0] % 3])
    folder = tmp_path_factory.mktemp("pictures") / "model"
    model.save(folder, extra={"white": 255})
    return folder


@pytest.fixture(scope="session")
def of_pictures(pictures) -> Trained:
    return load_served(pictures)
