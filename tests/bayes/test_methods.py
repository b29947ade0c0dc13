"""One bad member costs no other, whatever the method. What else methods promise is in `test_protocol.py`."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from test_protocol import SHORT
from torch import nn

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import Data, prepare
from cbdl.bayes.methods import LastLayer
from cbdl.bayes.train import Run, TrainingWarning

CHOSEN: list[priors.PriorLike] = [
    priors.Normal(0.0, 1.0),
    {"*.bias": priors.Normal(0.0, 3.0), "*": priors.Laplace(0.0, 1.0)},
    priors.Normal(0.5, 0.3, fan_in=True),
]


def problem() -> tuple[likelihoods.Likelihood, Data]:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(40, 3, generator=source, dtype=torch.float64)
    net = lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))  # noqa: E731
    return likelihoods.Normal(net), prepare(x, 10 * x[:, :2], space="real", dtype=torch.float64)  # type: ignore[return-value]


def fit(method: Any, cohort: Cohort, data: Data) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)  # a few iterations of HMC do not mix
        return method.fit(cohort, data, Run())


@pytest.mark.parametrize("method", [m for m in SHORT if not isinstance(m, LastLayer)], ids=repr)
def test_a_member_that_fails_costs_no_other(method: Any) -> None:
    likelihood, data = problem()
    good = Cohort.of(CHOSEN, likelihood, data)
    start = good.initial.clone()
    start[1, 0] = 1e308  # its first loss is not finite
    start[1, -1] = 1e308
    posterior = fit(method, replace(good, initial=start), data)
    fine = fit(method, good, data)
    assert list(posterior.record.failures) == [1]
    rows = [0, 2]
    assert torch.allclose(posterior.sample(4)[rows], fine.sample(4)[rows], rtol=0, atol=1e-9)
