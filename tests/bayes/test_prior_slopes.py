"""How strongly a prior pulls: the precision that Laplace adds, the slope that MCLMC follows, by scipy's densities."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.optimize import approx_fprime
from torch import Tensor, nn

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import prepare
from cbdl.bayes.methods._curvature import prior_precision
from cbdl.bayes.methods.mclmc import _Prior

NORMALS = [priors.Normal(0.5, 0.3), priors.Normal(-1.0, 2.0)]
OTHERS = [priors.Laplace(0.5, 2.0), priors.Normal(-1.0, 2.0)]


def cohort(chosen: list[priors.Normal] | list[priors.Prior], dtype: torch.dtype = torch.float64) -> Cohort:
    """Networks of three parameters, with noise that is learned."""
    x = torch.randn(9, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    data = prepare(x, 5 * x[:, 0], space="real", dtype=dtype)
    return Cohort.of(chosen, likelihoods.Normal(lambda: nn.Linear(2, 1)), data)


# --- precision ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_precision_of_a_normal_is_one_over_its_variance_wherever_it_is_asked(dtype: torch.dtype) -> None:
    own = cohort(NORMALS, dtype)
    for theta in (own.initial, own.initial + 100):
        precision = prior_precision(own, theta)
        assert precision.dtype == torch.float64
        wanted = 1 / torch.tensor([[0.3], [2.0]], dtype=dtype).double().square().expand(2, 3)
        torch.testing.assert_close(precision, wanted, rtol=1e-15, atol=0)


@pytest.mark.parametrize("away", [-3.0, -0.03, 0.021, 1.0, 40.0])
def test_the_precision_of_others_is_their_slope_over_the_distance_from_their_centre(away: float) -> None:
    own = cohort(OTHERS)
    centre = torch.tensor([[0.5], [-1.0]], dtype=torch.float64)
    precision = prior_precision(own, (centre + away).expand(2, 3).clone())
    # Laplace with standard deviation 2 has the slope sqrt 2 / 2 everywhere; away is at least a hundredth of that scale
    wanted = torch.tensor([[math.sqrt(2) / 2 / abs(away)], [1 / 4]], dtype=torch.float64).expand(2, 3)
    # theta - loc has lost the digits of away beside the centre
    torch.testing.assert_close(precision, wanted, rtol=4 * 2.3e-16 / min(abs(away), 1.0), atol=0)


@pytest.mark.parametrize("away", [-0.019, -1e-9, 0.0, 1e-3, 0.019])
def test_next_to_a_peak_with_an_edge_the_precision_is_that_at_a_hundredth_of_the_scale(away: float) -> None:
    own = cohort(OTHERS)
    centre = torch.tensor([[0.5], [-1.0]], dtype=torch.float64)
    precision = prior_precision(own, (centre + away).expand(2, 3).clone())
    wanted = torch.tensor([[math.sqrt(2) / 2 / 0.02], [1 / 4]], dtype=torch.float64).expand(2, 3)
    torch.testing.assert_close(precision, wanted, rtol=1e-13, atol=0)


def test_the_precision_is_in_double_whatever_the_networks_are() -> None:
    own = cohort(OTHERS, torch.float32)
    assert prior_precision(own, own.initial).dtype == torch.float64


def test_far_out_in_heavy_tails_the_precision_stays_positive() -> None:
    own = cohort([priors.Cauchy(0.0, 1.0), priors.Laplace(0.0, 1.0)])
    far = torch.full_like(own.initial, 1e5)
    # 2 x / (1 + x^2) / x
    assert float(prior_precision(own, far)[0, 0]) == pytest.approx(2 / (1 + 1e10), rel=1e-9)
    assert (prior_precision(own, 1e3 * far)[0] == 1e-12).all()


# --- slope ----------------------------------------------------------------------------------------------------


def negative_log_prior(own: Cohort, k: int, place: np.ndarray) -> float:
    """Three parameters and a log scale of the noise, which lies around a tenth of the targets' spread."""
    prior = own_priors(own)[k]
    family = stats.laplace if isinstance(prior, priors.Laplace) else stats.norm
    scale = prior.scale / math.sqrt(2) if family is stats.laplace else prior.scale
    density = family.logpdf(place[:3], prior.loc, scale).sum()
    return -float(density + stats.norm.logpdf(place[3], math.log(0.1), 1.5))


def own_priors(own: Cohort) -> list[priors.Normal] | list[priors.Prior]:
    return NORMALS if own.prior.normal is not None else OTHERS


@pytest.mark.parametrize("chosen", [NORMALS, OTHERS], ids=["all normal", "mixed"])
def test_mclmc_follows_the_prior_of_parameters_and_of_noise(chosen: list[priors.Normal]) -> None:
    own = cohort(chosen)
    prior = _Prior(own, own.layout.size)
    source = torch.Generator().manual_seed(1)
    places = [torch.randn(2, 4, generator=source, dtype=torch.float64) for _ in range(3)]
    values, slopes = zip(*(prior(place) for place in places), strict=True)
    for k in range(2):
        exact = [negative_log_prior(own, k, place[k].numpy()) for place in places]
        # up to a constant of the member
        for value, wanted in zip(values[1:], exact[1:], strict=True):
            assert float(value[k] - values[0][k]) == pytest.approx(wanted - exact[0], rel=1e-12, abs=1e-12)
        for place, slope in zip(places, slopes, strict=True):
            numeric = approx_fprime(place[k].numpy(), lambda at, k=k: negative_log_prior(own, k, at), 1e-7)
            np.testing.assert_allclose(slope[k].numpy(), numeric, rtol=1e-5, atol=1e-5)


def test_the_slope_of_the_prior_of_many_normals_is_each_members_own() -> None:
    """Exactly: (theta - loc) / scale^2, coordinate by coordinate."""
    own = cohort(NORMALS)
    place = torch.randn(2, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    value, slope = _Prior(own, own.layout.size)(place)
    loc: Tensor = torch.tensor([[0.5], [-1.0]], dtype=torch.float64).expand(2, 3)
    scale = torch.tensor([[0.3], [2.0]], dtype=torch.float64).expand(2, 3)
    away = torch.cat([place[:, :3] - loc, place[:, 3:] - math.log(0.1)], 1)
    spread = torch.cat([scale, torch.full((2, 1), 1.5, dtype=torch.float64)], 1)
    torch.testing.assert_close(slope, away / spread.square(), rtol=1e-14, atol=1e-14)
    torch.testing.assert_close(value, 0.5 * (away / spread).square().sum(1), rtol=1e-14, atol=1e-14)
