"""Monte Carlo dropout: masks by unit, and the closed optimum of a linear model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conjugate import FEATURES, NOISE, PRIORS, design, problem
from predictions import predict
from resuming import assert_resumes
from torch import Tensor, nn

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.cohort import Cohort, Member
from cbdl.bayes.data import prepare
from cbdl.bayes.methods.dropout import Dropout, Units
from cbdl.bayes.train import Run


def test_the_weights_are_the_closed_optimum_of_a_linear_model() -> None:
    """E over masks: squares + p / (1 - p) sum_j w_j^2 sum_n x_nj^2, and w^2 / (1 - p) - 2 w loc of the prior."""
    cohort, data, _ = problem()
    p = 0.3
    settings = Dropout(epochs=1500, batch_size=64, lr=0.03, p=p, inputs=p, draws=64)
    posterior = settings.fit(cohort, data, Run())
    phi = design(data.x)
    squares = phi.square().sum(0)
    squares[FEATURES:] = 0  # the bias stays
    keep = torch.tensor([1 - p] * FEATURES + [1.0], dtype=torch.float64)
    for k, prior in enumerate(PRIORS):
        matrix = (phi.T @ phi + torch.diag(p / (1 - p) * squares)) / NOISE**2
        matrix += torch.diag(1 / (keep * prior.scale**2))
        exact = torch.linalg.solve(matrix, phi.T @ data.y / NOISE**2 + prior.loc / prior.scale**2)
        assert torch.allclose(posterior.weights[k], exact, atol=0.03)


def test_draws_keep_the_mean_and_drop_whole_units() -> None:
    net = lambda: nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))  # noqa: E731
    data = prepare(torch.randn(9, 3), torch.randn(9, 2), space="real", dtype=torch.float64)
    cohort = Cohort.of([priors.Normal(), priors.Normal()], likelihoods.Normal(net), data)
    posterior = Dropout(epochs=1, p=0.25).fit(cohort, data, Run())
    drawn = posterior.sample(8000)
    named, weights = cohort.layout.view(drawn), cohort.layout.view(posterior.weights)
    for kept in ("0.weight", "0.bias", "2.bias"):  # inputs = 0: the first layer stays
        assert (named[kept] == weights[kept].unsqueeze(1)).all()
    head = named["2.weight"]
    gone = head == 0
    assert (gone == gone[..., :1, :]).all()  # both outputs lose the unit together
    rate = gone[..., 0, :].double().mean(1)
    assert ((rate - 0.25).abs() < 4 * (0.25 * 0.75 / 8000) ** 0.5).all()
    error = weights["2.weight"].abs() * (0.25 / 0.75 / 8000) ** 0.5
    assert ((head.mean(1) - weights["2.weight"]).abs() < 4 * error).all()
    assert torch.allclose(head[~gone], (weights["2.weight"] / 0.75).unsqueeze(1).expand_as(head)[~gone])
    none = Dropout(epochs=1, p=0.0).fit(cohort, data, Run())
    assert (none.sample(3) == none.weights.unsqueeze(1)).all()


class Mixed(nn.Module):
    """An embedding, convolutions (plain, grouped, transposed), a norm and a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(6, 4)
        self.plain = nn.Conv1d(4, 4, 3, padding=1)
        self.group = nn.Conv1d(4, 4, 1, groups=2)
        self.back = nn.ConvTranspose1d(4, 3, 1)
        self.norm = nn.LayerNorm(3)
        self.cell = nn.GRU(3, 2, batch_first=True)
        self.head = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.back(torch.relu(self.group(self.plain(self.embed(x).mT))))
        out: Tensor = self.head(self.cell(self.norm(h.mT))[0][:, -1])
        return out


def test_units_of_every_kind_of_layer() -> None:
    x = torch.randint(0, 6, (12, 5), generator=torch.Generator().manual_seed(0))
    data = prepare(x, torch.arange(12) % 2, space="classes")
    cohort = Cohort.of([priors.Normal()], likelihoods.Categorical(Mixed), data)
    units = Units.of(cohort, 0.5, 0.5)
    where = {e.name: units.unit[e.start : e.stop].reshape(e.shape) for e in cohort.layout.entries}
    none = len(units.below)
    assert (where["embed.weight"] == where["embed.weight"][:, :1]).all()
    assert (where["plain.weight"] == where["plain.weight"][:1, :, :1]).all()
    assert where["plain.weight"][0, :, 0].unique().numel() == 4
    assert (where["back.weight"] == where["back.weight"][:, :1, :1]).all()
    assert (where["cell.weight_hh_l0"] == where["cell.weight_hh_l0"][:1]).all()
    for still in ("group.weight", "norm.weight", "head.bias", "cell.bias_ih_l0"):
        assert (where[still] == none).all()
    posterior = Dropout(epochs=2, p=0.2).fit(cohort, data, Run())
    assert predict(cohort, posterior, data, data.x, draws=4)["probs"].shape == (1, 4, 12, 2)


def test_dropped_networks_disagree_where_they_have_not_seen_data() -> None:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(200, 1, generator=source)
    data = prepare(x, torch.sin(x[:, 0]), space="real")
    net = lambda: nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))  # noqa: E731
    cohort = Cohort.of([priors.Normal(0.0, 1.0)], likelihoods.Normal(net), data)
    posterior = Dropout(epochs=150, lr=1e-2, p=0.1, draws=4).fit(cohort, data, Run())
    numbers = predict(cohort, posterior, data, torch.tensor([[0.0], [8.0]]), draws=200)
    spread = numbers["loc"].std(1)[0]
    assert spread[1] > 2 * spread[0]


def test_a_member_alone_is_the_member_in_its_cohort_and_resumes(tmp_path: Path) -> None:
    cohort, data, _ = problem()
    settings = Dropout(epochs=10, batch_size=8, inputs=0.2, draws=2)
    together = settings.fit(cohort, data, Run())
    alone = [
        settings.fit(
            Cohort.of(PRIORS, cohort.likelihood, data, seed=3, members=[Member.of(3, k, 0)]), data, Run()
        ).weights
        for k in range(3)
    ]
    assert torch.allclose(torch.cat(alone), together.weights, rtol=0, atol=1e-11)
    assert_resumes(settings, cohort, data, tmp_path, 14)
    again = settings.from_state(cohort, together.state())
    torch.testing.assert_close(again.sample(3, 2), together.sample(3, 2))


def test_bad_settings_are_named() -> None:
    for bad in ({"p": 1.0}, {"inputs": -0.1}, {"draws": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(bad))} is"):
            Dropout(**bad)  # type: ignore[arg-type]

    class Shift(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift = nn.Parameter(torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            return x[:, :1] + self.shift

    data = prepare(torch.randn(9, 3), torch.randn(9), space="real")
    cohort = Cohort.of([priors.Normal()], likelihoods.Normal(Shift), data)
    with pytest.raises(ValueError, match="no weight matrix"):
        Dropout().fit(cohort, data, Run())
