"""Networks by name: shapes, sizes of the published architectures, rebuilding from JSON."""

import json

import pytest
import torch

from cbdl import nets


@pytest.mark.parametrize(
    ("factory", "shape", "outputs"),
    [
        (nets.mlp(4, 3), (2, 4), 3),
        (nets.lenet(), (2, 1, 28, 28), 10),
        (nets.lenet(channels=3, side=32), (2, 3, 32, 32), 10),
        (nets.resnet8(outputs=7), (2, 3, 32, 32), 7),
        (nets.resnet20(), (2, 3, 32, 32), 10),
        (nets.lstm(3, 2, hidden=8, layers=2), (2, 5, 3), 2),
    ],
)
def test_outputs_have_the_promised_shape(factory, shape, outputs):
    assert factory()(torch.zeros(shape)).shape == (2, outputs)


def parameters(factory):
    return sum(p.numel() for p in factory().parameters())


def test_sizes_are_those_of_the_literature():
    # LeNet-5 with full connections has 61,706; ResNet-20 has 0.27 M (He et al., 2016, table 6).
    assert parameters(nets.lenet()) == 61_706
    assert parameters(nets.resnet20()) == pytest.approx(272_474, rel=0.02)


def test_a_net_survives_json_and_is_equal_to_itself():
    net = nets.mlp(4, 3, hidden=(8, 8), activation="tanh")
    text = json.dumps({"name": net.name, "settings": dict(net.settings)})
    back = json.loads(text)
    assert nets.Net.of(back["name"], back["settings"]) == net


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: nets.Net.of("gpt", {}), "no network named 'gpt'"),
        (lambda: nets.mlp(4, 0)(), "at least 1"),
        (lambda: nets.mlp(4, 2, activation="sine")(), "activation is 'sine'"),
        (lambda: nets.lenet(side=8)(), "too small"),
        (lambda: nets.Net.of("resnet", {"depth": 9})(), "8, 14, 20"),
    ],
)
def test_what_cannot_be_built_is_said(build, message):
    with pytest.raises(ValueError, match=message):
        build()
