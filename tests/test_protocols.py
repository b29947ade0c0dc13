"""Everything of the package that a newcomer could have added passes the checks that newcomers' pieces pass."""

import pytest
import torch

from cbdl.bayes import likelihoods, priors
from cbdl.credal.classes import distance, regions
from cbdl.nets import mlp
from cbdl.studies.study import NAMES, find
from protocols import check_class_distance, check_class_region, check_likelihood, check_prior, check_study

NET = mlp(2, 1, (4,))
REAL, COUNTS = torch.tensor([0.5, -1.0, 3.0]).double(), torch.tensor([0.0, 2.0, 7.0]).double()
ONE, TWO = torch.tensor([[0.3], [-1.0], [1.2]]), torch.tensor([[0.3, -0.5], [-1.0, 0.1], [1.2, 0.4]])


def subclasses(kind):
    """All classes of the package below `kind` that users see."""
    below = {c for s in kind.__subclasses__() for c in {s, *subclasses(s)}}
    return {c for c in below if c.__module__.startswith("cbdl.") and not c.__name__.startswith("_")}


PRIORS = [
    priors.Normal(0.5, 2.0),
    priors.Laplace(0.5, 2.0),
    priors.StudentT(5.0, 0.5, 2.0),
    priors.Cauchy(0.5, 2.0),
    priors.ScaleMixture(),
    priors.Horseshoe(0.5),
    priors.RegularisedHorseshoe(0.5, 2.0),
]
ELSEWHERE = {priors.Centred, priors.Pretrained, priors.Coordinates}
"""Priors that take another prior, a network or tensors: they have tests of their own."""


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
def test_priors(prior):
    check_prior(prior)


def test_no_prior_is_forgotten():
    assert subclasses(priors.Prior) == {type(p) for p in PRIORS} | ELSEWHERE


LIKELIHOODS = [
    (likelihoods.Categorical(NET), TWO, torch.tensor([0, 1, 1])),
    (likelihoods.Bernoulli(NET), ONE, torch.tensor([0, 1, 1])),
    (likelihoods.Poisson(NET), ONE, COUNTS),
    (likelihoods.Normal(NET, scale=0.5), ONE, REAL),
    (likelihoods.Normal(NET, scale="learned"), ONE, REAL),
    (likelihoods.Normal(NET, scale="heteroscedastic"), TWO, REAL),
    (likelihoods.Laplace(NET, scale=0.5), ONE, REAL),
    (likelihoods.StudentT(NET, df=6.0, scale=0.5), ONE, REAL),
]


@pytest.mark.parametrize(("likelihood", "outputs", "targets"), LIKELIHOODS)
def test_likelihoods(likelihood, outputs, targets):
    check_likelihood(likelihood, outputs, targets)


def test_no_likelihood_is_forgotten():
    assert subclasses(likelihoods.Likelihood) == {type(one[0]) for one in LIKELIHOODS}


@pytest.mark.parametrize("method", sorted(regions.REGIONS))
def test_regions_of_classes(method):
    check_class_region(method)


@pytest.mark.parametrize("kind", sorted(distance.kinds()))
def test_distances_of_classes(kind):
    check_class_distance(kind, **({"order": 2.0} if kind == "renyi" else {}))


LONG = {"images", "pancreas", "racing", "tables"}
"""Studies that take seconds even so: their own tests run them, and check the report in the same way."""


@pytest.mark.parametrize("name", sorted(set(NAMES) - LONG))
def test_studies(name, tmp_path):
    check_study(find(name), tmp_path / "report")
