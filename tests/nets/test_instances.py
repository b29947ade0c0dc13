"""A module instance as a network: a template that is initialised anew, or a pretrained network as it is."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cbdl
from cbdl.bayes import likelihoods, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import prepare
from cbdl.bayes.methods import Ensemble, MeanField
from cbdl.bayes.train import Run
from cbdl.nets.instances import Template


class CNN(nn.Module):
    def __init__(self, outputs: int = 3) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(32, outputs)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(x))
        return out


class Scaled(nn.Module):
    """Its own parameter cannot be drawn anew."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 1)
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.gain * self.inner(x)
        return out


class Rescaled(Scaled):
    def reset_parameters(self) -> None:
        nn.init.normal_(self.gain)


def images() -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(30, 1, 6, 6, generator=source)
    return x, torch.arange(30) % 3


PRIORS: list[priors.PriorLike] = [priors.Normal(0.0, 1.0), priors.Normal(0.0, 3.0)]


def test_an_instance_is_a_template_of_which_every_member_gets_its_own_start() -> None:
    torch.manual_seed(3)
    net = CNN()
    before = {n: p.clone() for n, p in net.state_dict().items()}
    data = prepare(*images(), space="classes")
    cohort = Cohort.of(PRIORS, likelihoods.Categorical(net), data, seed=1)
    again = Cohort.of(PRIORS, likelihoods.Categorical(CNN()), data, seed=1)
    weights = cohort.layout.view(cohort.initial)["head.weight"]
    assert not torch.equal(weights[0], weights[1])
    # what it was initialised to does not matter, and the bounds are those of a Linear layer of 32 inputs
    torch.testing.assert_close(again.initial, cohort.initial, rtol=0, atol=0)
    assert float(weights.abs().max()) <= 1 / math.sqrt(32)
    MeanField(epochs=1).fit(cohort, data, Run())
    assert all(torch.equal(before[n], p) for n, p in net.state_dict().items())


@pytest.mark.parametrize(
    "make",
    [
        likelihoods.Categorical,
        likelihoods.Bernoulli,
        likelihoods.Poisson,
        likelihoods.Normal,
        likelihoods.Laplace,
        likelihoods.StudentT,
    ],
)
def test_every_likelihood_takes_an_instance(make: Any) -> None:
    outputs = 2 if make is likelihoods.Categorical else 1
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    space = make.space
    y = (x[:, 0] > 0).long() if space == "classes" else x[:, 0].abs().round() + 0.0
    likelihood = pickle.loads(pickle.dumps(make(nn.Linear(3, outputs))))
    cohort = Cohort.of(PRIORS, likelihood, prepare(x, y, space=space))
    assert not torch.equal(cohort.initial[0], cohort.initial[1])


def test_the_whole_model_trains_and_predicts_with_an_instance() -> None:
    x, y = images()
    model = cbdl.CBDL(PRIORS, [likelihoods.Categorical(CNN())], MeanField(epochs=1), verbose=False).fit(x, y)
    assert model.predict(x[:2], samples=2).probs.shape == (2, 2, 3)  # type: ignore[attr-defined]


def test_copies_of_a_member_start_apart() -> None:
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    data = prepare(x, x[:, 0], space="real")
    cohort = Cohort.of(PRIORS, likelihoods.Normal(nn.Linear(3, 1)), data)
    points = Ensemble(epochs=1, restarts=2).fit(cohort, data, Run()).points
    assert not torch.allclose(points[:, 0], points[:, 1], atol=1e-2)


def test_attention_of_torch_is_drawn_anew() -> None:
    Template(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True))
    Template(nn.LSTM(3, 4))


def test_a_module_without_a_way_to_start_anew_is_refused_by_name() -> None:
    inside = nn.Sequential(nn.Linear(3, 3), Scaled())
    with pytest.raises(
        ValueError, match=r"its submodule '1', a Scaled, has no reset_parameters.*'1.gain'.*as_is"
    ):
        likelihoods.Normal(inside)
    with pytest.raises(ValueError, match="but it, a Scaled, has no"):
        likelihoods.Normal(Scaled())
    likelihoods.Normal(Rescaled())
    likelihoods.Normal(cbdl.nets.as_is(Scaled()))


def test_what_is_frozen_stays_as_it_is_whether_by_flag_or_by_trainable() -> None:
    data = prepare(*images(), space="classes")
    net = CNN()
    net.body[1].running_mean += 5.0  # type: ignore[operator, union-attr]
    by_name = Cohort.of(PRIORS, likelihoods.Categorical(net), data, trainable="head.*")
    for parameter in net.body.parameters():
        parameter.requires_grad_(False)
    by_flag = Cohort.of(PRIORS, likelihoods.Categorical(net), data)
    for cohort in (by_name, by_flag):
        assert cohort.layout.names == ("head.weight", "head.bias")
        for name, value in cohort.forward.constants.items():
            torch.testing.assert_close(value, net.get_parameter(name).detach(), rtol=0, atol=0)
        assert (cohort.initial_buffers["body.1.running_mean"] == 5.0).all()
        assert not torch.equal(cohort.initial[0], cohort.initial[1])


def test_a_pretrained_network_is_used_as_it_is() -> None:
    data = prepare(*images(), space="classes")
    net = CNN()
    chosen: list[priors.PriorLike] = [priors.Pretrained(dict(net.state_dict()), delta=d) for d in (0.1, 0.5)]
    cohort = Cohort.of(chosen, likelihoods.Categorical(cbdl.nets.as_is(net)), data)
    flat = cohort.layout.flatten(dict(net.named_parameters()))
    torch.testing.assert_close(cohort.initial, flat.expand(2, -1), rtol=0, atol=0)
    torch.testing.assert_close(cohort.prior.location(), flat.expand(2, -1))
    MeanField(epochs=1).fit(cohort, data, Run())
    with pytest.raises(ValueError, match="as_is takes a module"):
        cbdl.nets.as_is(CNN)  # type: ignore[arg-type]


def test_a_saved_model_asks_for_its_instance(tmp_path: Any) -> None:
    x = torch.linspace(-1, 1, 20).reshape(-1, 1)
    net = nn.Linear(1, 1)
    model = cbdl.CBDL(
        [priors.Normal(0.0, 1.0)], [likelihoods.Normal(net, scale=0.1)], MeanField(epochs=1), verbose=False
    )
    model.fit(x, x[:, 0]).save(tmp_path / "model")
    with pytest.raises(ValueError, match="a network of your own"):
        cbdl.load(tmp_path / "model")
    loaded = cbdl.load(tmp_path / "model", nets=[nn.Linear(1, 1)])
    ours, theirs = model.predict(x[:3], samples=4), loaded.predict(x[:3], samples=4)
    torch.testing.assert_close(ours.loc, theirs.loc)  # type: ignore[attr-defined]
