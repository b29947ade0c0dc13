"""Rows of the image study: nothing is trained on twice, foreign rows are foreign, layers are those of the network."""

import numpy as np
import pytest
import torch

import cbdl
from cbdl import data
from cbdl.studies.images import foreign, layers, sources
from cbdl.studies.images.members import Scale, Training, trained
from cbdl.studies.images.sources import DIGITS, Sizes, rows, split


def test_training_and_validation_rows_share_no_image_and_seeds_differ():
    whole = data.load("digits")
    numbered = data.Images(whole.x, torch.arange(len(whole)), len(whole), "digits")
    train, validation = split(numbered, 300, None, 0)
    assert sorted([*train.y.tolist(), *validation.y.tolist()]) == list(range(len(whole)))
    fewer, same = split(numbered, 300, 500, 0)
    assert len(fewer) == 500
    assert same.y.tolist() == validation.y.tolist()
    assert split(numbered, 300, None, 1)[1].y.tolist() != validation.y.tolist()


def test_scrambled_images_have_the_same_pixels_in_other_places():
    images = data.load("digits", "test")
    moved = foreign.scrambled(images, 0)
    assert (moved.x.flatten(1).sort().values == images.x.flatten(1).sort().values).all()
    assert (moved.x != images.x).flatten(1).any(1).float().mean() > 0.95
    assert (foreign.inverted(images, 0).x.int() + images.x.int() == 255).all()
    assert foreign.textures(images, 0).x.shape == images.x.shape


def test_sets_are_named_once_and_corruptions_are_those_of_the_source():
    own = rows(DIGITS, Sizes(100, 50, 20, 15, 10), 0)
    sets = own.sets(0)
    assert len(sets) == 2 + len(foreign.MADE) + (5 + 3) * len(DIGITS.corruptions)
    assert [len(sets[name]()) for name in ("clean", "inverted", "rotate 3")] == [20, 15, 10]
    assert not torch.equal(sets["rotate 3"]().x, sets["rotate 5"]().x)


def test_data_sets_that_are_damaged_are_not_taken_for_absent(monkeypatch, tmp_path):
    monkeypatch.setenv("CBDL_DATA", str(tmp_path))
    assert sources.available() == ()
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "t10k-images-idx3-ubyte").write_bytes(b"cut short")
    with pytest.raises(data.DataError, match="no IDX file"):
        sources.available()


@pytest.mark.skipif(not sources.available(), reason="needs CBDL_DATA")
def test_foreign_rows_have_the_shape_of_ones_own():
    name = sources.available()[0]
    own = rows(sources.SOURCES[name], Sizes(100, 50, 20, 15, 10), 0)
    assert [name, *own.foreign] == list(sources.available())
    for images in own.foreign.values():
        assert images.x.shape == (15, *own.tests.x.shape[1:])


@pytest.mark.parametrize("net", ["lenet", "resnet8"])
def test_a_walk_through_the_layers_ends_where_the_model_does(net):
    own = rows(DIGITS, Sizes(200, 50, 30, 30, 10), 0)
    model = trained("ordinary", 0, Training(net, 1, 1e-3), own.train, 0)
    x = Scale.of(own.train)(own.tests)
    logits, features = layers.seen_by(layers.network_of(model), x)
    assert np.allclose(model.predict(x, samples=1).probs[:, 0], logits.softmax(-1), atol=1e-5)
    first = torch.cat([x.mean((2, 3)), x.std((2, 3), correction=0)], 1)
    assert torch.allclose(features[0], first.double(), atol=1e-5)
    assert isinstance(model, cbdl.CBDL)
