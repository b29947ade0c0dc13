"""A cohort from data to predictions, by the smallest path."""

from __future__ import annotations

import torch
from predictions import predict
from torch import nn

from cbdl.bayes import data, likelihoods, priors
from cbdl.bayes.methods.mean_field import MeanField
from cbdl.bayes.train import Run
from cbdl.engines import local


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))


def test_three_normal_priors_learn_and_predict_in_the_users_units() -> None:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(400, 3, generator=source)
    y = 1000 + 50 * (2 * x[:, 0] - x[:, 1]) + 5 * torch.randn(400, generator=source)
    made = data.prepare(x, y, space="real")
    todo = local.tasks(priors.grid(loc=[0.0], scale=[0.5, 1.0, 3.0]), [likelihoods.Normal(net)])
    ((cohort, posterior),) = local.fit(todo, made, MeanField(epochs=60, lr=1e-2), Run())
    numbers = predict(cohort, posterior, made, data.new_inputs(x, made, torch.float32), draws=8)
    assert numbers["loc"].shape == numbers["scale"].shape == (3, 8, 400)
    error = (numbers["loc"].mean(1) - y).square().mean(1).sqrt()
    assert (error < 0.35 * y.std()).all(), error
    again = MeanField().from_state(cohort, posterior.state())
    torch.testing.assert_close(again.sample(3, seed=5), posterior.sample(3, seed=5))
