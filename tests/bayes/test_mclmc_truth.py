"""MCLMC against long runs of HMC, and simulation-based calibration: minutes, hence slow."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import Data, prepare
from cbdl.bayes.methods.hmc import HMC
from cbdl.bayes.methods.mclmc import MCLMC
from cbdl.bayes.train import Run

pytestmark = pytest.mark.slow


def net(inputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 10), nn.Tanh(), nn.Linear(10, 1))


def sine() -> tuple[Data, Tensor]:
    source = torch.Generator().manual_seed(0)
    x = torch.rand(60, 1, generator=source, dtype=torch.float64) * 2 + 1
    x[::2] *= -1
    y = torch.sin(2 * x[:, 0]) + 0.1 * torch.randn(60, generator=source, dtype=torch.float64)
    data = prepare(x, y, space="real", dtype=torch.float64)
    assert isinstance(data, Data)
    return data, torch.linspace(-3.5, 3.5, 40, dtype=torch.float64).unsqueeze(1)


def table() -> tuple[Data, Tensor]:
    source = torch.Generator().manual_seed(1)
    x = torch.randn(50, 4, generator=source, dtype=torch.float64)
    y = x[:, 0] * x[:, 1] + x[:, 2] + 0.3 * torch.randn(50, generator=source, dtype=torch.float64)
    data = prepare(x, y, space="real", dtype=torch.float64)
    assert isinstance(data, Data)
    return data, torch.randn(40, 4, generator=source, dtype=torch.float64)


@pytest.mark.parametrize("problem", [sine, table])
def test_predictions_are_those_of_long_hmc(problem: object) -> None:
    """Mean and standard deviation of the predictive: on average over inputs within a tenth of HMC's."""
    data, x = problem()  # type: ignore[operator]
    inputs = data.x.shape[1]
    likelihood = likelihoods.Normal(lambda: net(inputs), scale=0.15 * float(data.targets.scale))
    cohort = Cohort.of([priors.Normal(0, 2, fan_in=True)], likelihood, data)
    long = HMC(warmup=1000, draws=1500, chains=6, thin=2).fit(cohort, data, Run())
    ours = MCLMC(chains=12, draws=100, thin=20, warmup=3000, optimise=1000, double=True).fit(
        cohort, data, Run()
    )
    at = data.inputs(x)
    truth, seen = (cohort.forward(posterior.sample(1200), at, {})[0, ..., 0] for posterior in (long, ours))
    spread = (truth.var(0) + 0.15**2).sqrt()
    assert float(((seen.mean(0) - truth.mean(0)).abs() / spread).mean()) < 0.1
    ratio = (seen.var(0) + 0.15**2).sqrt() / spread
    assert float((ratio - 1).abs().mean()) < 0.1


def test_ranks_of_predictions_are_uniform() -> None:
    """Simulation-based calibration (Talts et al. 2018): 200 data sets drawn from the prior."""
    source = torch.Generator().manual_seed(2)
    prior = priors.Normal(0, 1)
    x = torch.rand(25, 2, generator=source, dtype=torch.float64) * 4 - 2
    at = torch.tensor([[0.5, -0.5]], dtype=torch.float64)
    ranks, draws = [], 19
    for number in range(200):
        blank = prepare(x, torch.zeros(25), space="real", standardize=False, dtype=torch.float64)
        likelihood = likelihoods.Normal(lambda: net(2), scale=0.5)
        cohort = Cohort.of([prior], likelihood, blank, seed=number)
        theta = cohort.prior.draw([1000 + number], 1)
        y = cohort.forward(theta, x, {})[0, 0, :, 0]
        y = y + 0.5 * torch.randn(25, generator=source, dtype=torch.float64)
        data = prepare(x, y, space="real", standardize=False, dtype=torch.float64)
        settings = MCLMC(chains=draws, draws=1, thin=1, warmup=500, optimise=100, double=True)
        posterior = settings.fit(cohort, data, Run())
        seen = cohort.forward(posterior.points[:, :, 0], at, {}).flatten()
        ranks.append(int((seen < cohort.forward(theta, at, {}).flatten()).sum()))
    counts = np.bincount(np.array(ranks) // 2, minlength=10)
    statistic = ((counts - 20) ** 2 / 20).sum()
    assert statistic < stats.chi2(9).ppf(1 - 1e-3), counts
