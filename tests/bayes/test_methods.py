"""What every method promises: the same draws however members are split, states that lead with the members, one bad
member that costs no other.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from predictions import predict
from torch import nn

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.cohort import Cohort, Member
from cbdl.bayes.data import Data, prepare
from cbdl.bayes.methods import (
    HMC,
    METHODS,
    SGHMC,
    Dropout,
    Ensemble,
    Laplace,
    LastLayer,
    LowRank,
    MeanField,
)
from cbdl.bayes.train import Run, TrainingWarning
from cbdl.engines.split import bring, together

SHORT: list[Any] = [
    MeanField(epochs=3),
    LowRank(epochs=3, rank=2),
    Laplace(epochs=3, part="all"),
    Laplace(epochs=3, part="all", hessian="kronecker"),
    Laplace(epochs=3, hessian="diagonal"),
    Dropout(epochs=3),
    SGHMC(epochs=8, draws=4, chains=2),
    HMC(warmup=20, draws=4, chains=2, leapfrogs=4),
    Ensemble(epochs=3, restarts=2),
    LastLayer(epochs=3),
]
CHOSEN: list[priors.PriorLike] = [
    priors.Normal(0.0, 1.0),
    {"*.bias": priors.Normal(0.0, 3.0), "*": priors.Laplace(0.0, 1.0)},
    priors.Normal(0.5, 0.3, fan_in=True),
]
NORMAL: list[priors.PriorLike] = [
    priors.Normal(0.0, 1.0),
    *priors.seeded({"*.bias": priors.Normal(0.0, 3.0), "*": priors.Normal(0.0, 1.0)}, 1),
    priors.Normal(0.5, 0.3, fan_in=True),
]
PROBLEMS = ("classes", "real", "counts")


def problem(space: str) -> tuple[likelihoods.Likelihood, Data]:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(40, 3, generator=source, dtype=torch.float64)
    net = lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))  # noqa: E731
    if space == "classes":
        data = prepare(x, (x[:, 0] > 0).long(), space="classes", dtype=torch.float64)
        return likelihoods.Categorical(net), data
    if space == "counts":
        data = prepare(x, x[:, :2].exp().round(), space="counts", dtype=torch.float64)
        return likelihoods.Poisson(net), data
    return likelihoods.Normal(net), prepare(x, 10 * x[:, :2], space="real", dtype=torch.float64)


def fit(method: Any, cohort: Cohort, data: Data) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)  # a few iterations of HMC do not mix
        return method.fit(cohort, data, Run())


def test_no_method_is_left_out() -> None:
    assert {type(method) for method in SHORT} == set(METHODS)


@pytest.mark.parametrize("space", PROBLEMS)
@pytest.mark.parametrize("method", SHORT, ids=repr)
def test_groups_of_members_joined_are_the_whole_cohort(method: Any, space: str) -> None:
    likelihood, data = problem(space)
    chosen = NORMAL if isinstance(method, LastLayer) and space == "real" else CHOSEN
    whole = Cohort.of(chosen, likelihood, data)
    posterior = fit(method, whole, data)
    assert all(tensor.shape[0] == 3 for tensor in posterior.state().values())
    parts = []
    for ks in ((0, 1), (2,)):
        group = Cohort.of(chosen, likelihood, data, members=[Member.of(0, k, 0) for k in ks])
        parts.append(bring(fit(method, group, data)))
    joined: Any = together(method, whole, parts)
    theta = posterior.sample(5, seed=1)
    assert theta.shape == (3, 5, whole.layout.size)
    assert torch.isfinite(theta).all()
    assert torch.allclose(joined.sample(5, seed=1), theta, rtol=0, atol=1e-6)
    assert torch.equal(posterior.sample(5, seed=1), theta)
    assert torch.allclose(posterior.sample(3, seed=1, start=2), theta[:, 2:], rtol=0, atol=1e-12)
    assert type(joined.record) is type(posterior.record)
    assert joined.record.loss.shape == posterior.record.loss.shape
    numbers = predict(whole, posterior, data, data.x, draws=2)
    assert all(torch.isfinite(value).all() for value in numbers.values())


@pytest.mark.parametrize("method", [m for m in SHORT if not isinstance(m, LastLayer)], ids=repr)
def test_a_member_that_fails_costs_no_other(method: Any) -> None:
    likelihood, data = problem("real")
    good = Cohort.of(CHOSEN, likelihood, data)
    start = good.initial.clone()
    start[1, 0] = 1e308  # its first loss is not finite
    start[1, -1] = 1e308
    posterior = fit(method, replace(good, initial=start), data)
    fine = fit(method, good, data)
    assert list(posterior.record.failures) == [1]
    rows = [0, 2]
    assert torch.allclose(posterior.sample(4)[rows], fine.sample(4)[rows], rtol=0, atol=1e-9)
