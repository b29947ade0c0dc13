"""Figures a member against direct computation; collapse onto each other and onto priors is seen and told."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import nn

from cbdl.bayes import data, likelihoods, priors
from cbdl.bayes.cohort import Cohort, Member
from cbdl.bayes.diagnostics import CollapseWarning, diagnose
from cbdl.bayes.methods.mean_field import MeanField, MeanFieldPosterior
from cbdl.bayes.train import Run, TrainingWarning


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))


def wider() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 1))


def problem(unit: float = 1.0) -> data.Data:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(80, 2, generator=source)
    y = unit * (x.sum(1) + 0.3 * torch.randn(80, generator=source))
    return data.prepare(x[:60], y[:60], space="real", validation=(x[60:], y[60:]), dtype=torch.float64)


def fit(
    made: data.Data, some: list[priors.PriorLike], factory: object = net, **options: object
) -> tuple[Cohort, MeanFieldPosterior]:
    cohort = Cohort.of(some, likelihoods.Normal(factory), made)  # type: ignore[arg-type]
    settings = {"epochs": 150, "lr": 2e-2, "patience": None, **options}
    return cohort, MeanField(**settings).fit(cohort, made, Run())  # type: ignore[arg-type]


def test_figures_are_those_of_a_direct_computation_in_the_users_units() -> None:
    results = []
    for unit in (1.0, 1000.0):
        made = problem(unit)
        cohort, posterior = fit(made, [priors.Normal(0, 1), priors.Normal(0, 3)])
        report = diagnose([(cohort, posterior)], made, draws=4, warn=False)
        theta = posterior.sample(4)
        row = report.rows[1]
        total = 0.0
        assert made.validation is not None
        for d in range(4):
            named = cohort.layout.view(theta[1, d])
            h = torch.tanh(made.validation.x @ named["0.weight"].T + named["0.bias"])
            loc = made.targets.loc + made.targets.scale * (h @ named["2.weight"].T + named["2.bias"])[:, 0]
            scale = made.targets.scale * (1e-3 + posterior.noise[1].exp())
            y = made.validation.y * made.targets.scale + made.targets.loc
            total -= float(torch.distributions.Normal(loc, scale).log_prob(y).mean()) / 4
        assert row.validation_nll == pytest.approx(total, rel=1e-6)
        kl = (
            torch.distributions.kl_divergence(
                torch.distributions.Normal(posterior.mu[1], posterior.sigma[1]),
                torch.distributions.Normal(0.0, 3.0),
            ).sum()
            / 60
        )
        assert row.kl == pytest.approx(float(kl), rel=1e-6)
        assert row.epochs == 150
        results.append(row)
    assert results[1].validation_nll - results[0].validation_nll == pytest.approx(math.log(1000), abs=1e-3)


def test_members_that_coincide_are_told_with_advice() -> None:
    made = problem()
    members = [Member(0, 0, 5), Member(1, 0, 5), Member(2, 0, 6)]
    cohort = Cohort.of(
        [priors.Normal()] * 2 + [priors.Normal(0, 3)], likelihoods.Normal(net), made, members=members
    )
    posterior = MeanField(epochs=30, lr=2e-2).fit(cohort, made, Run())
    with pytest.warns(
        CollapseWarning, match=r"\(prior 0, likelihood 0\) and \(prior 1, likelihood 0\).*Renyi"
    ):
        report = diagnose([(cohort, posterior)], made)
    # the same network, though draws at prediction are the same too: seeds agree
    assert float(report.parameter_distance[0, 1]) == 0
    assert float(report.predictive_distance[0, 1]) == 0
    assert float(report.predictive_distance[0, 2]) > 0.02


def test_members_that_differ_by_monte_carlo_noise_only_are_told_too() -> None:
    """The same posterior under two seeds: predictions differ, but by no more than draws of one member do."""
    made = problem()
    cohort, posterior = fit(made, [priors.Normal(), priors.Normal()], epochs=60)
    twins = {n: b[:1].repeat_interleave(2, 0) for n, b in posterior.state().items()}
    with pytest.warns(CollapseWarning, match="Monte Carlo noise only"):
        diagnose([(cohort, MeanField().from_state(cohort, twins))], made)


def test_members_left_at_their_priors_are_told() -> None:
    made = problem()
    with pytest.warns(
        CollapseWarning, match=r"stayed at their priors: \(prior 0, likelihood 0\)\. The KL outweighs"
    ):
        diagnose([fit(made, [priors.Normal(0, 0.1)], temperature=1e4, epochs=500, start="prior")], made)


def test_healthy_members_warn_of_nothing_and_cohorts_are_listed_together() -> None:
    made = problem()
    fitted = [fit(made, [priors.Normal(0, 0.2), priors.Normal(0, 2)], f) for f in (net, wider)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = diagnose(fitted, made)
    assert [str(r.member) for r in report.rows][:2] == ["prior 0, likelihood 0", "prior 1, likelihood 0"]
    assert report.parameter_distance.shape == (4, 4)
    assert report.parameter_distance[0, 2].isnan()
    assert float(report.predictive_distance[0, 2]) > 0
    text = str(report)
    assert len(text.splitlines()) == 5
    assert "valid nll" in text


def test_members_are_dropped_by_validation_and_never_silently() -> None:
    made = problem()
    report = diagnose([fit(made, [priors.Normal(0, 1), priors.Normal(5, 0.05)])], made, warn=False)
    with pytest.warns(TrainingWarning, match=r"\(prior 1, likelihood 0\) is dropped: its validation_nll"):
        kept, dropped = report.drop(margin=0.5)
    assert [r.member.k for r in kept] == [0]
    assert [r.member.k for r in dropped] == [1]
    kept, dropped = report.drop(margin=1e6)
    assert not dropped
    assert len(kept) == 2


def test_classes_are_compared_by_total_variation() -> None:
    x = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    made = data.prepare(x, (x[:, 0] > 0).long(), space="classes")
    cohort = Cohort.of(
        [priors.Normal(0, 0.1), priors.Normal(0, 3)], likelihoods.Categorical(lambda: nn.Linear(2, 3)), made
    )
    posterior = MeanField(epochs=100, lr=2e-2).fit(cohort, made, Run())
    report = diagnose([(cohort, posterior)], made, draws=8, warn=False)
    out = cohort.forward(posterior.sample(8), made.x, {}).softmax(-1).mean(1)
    truth = 0.5 * (out[0] - out[1]).abs().sum(-1).mean()
    assert float(report.predictive_distance[0, 1]) == pytest.approx(float(truth), rel=1e-4)
    assert report.rows[0].noise != report.rows[0].noise
