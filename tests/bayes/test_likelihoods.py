"""Noise models against torch.distributions, in standardised and in the user's units."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch import distributions as td

from cbdl.bayes import data, likelihoods
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.priors import Normal


def nothing() -> nn.Module:
    return nn.Linear(1, 1)


NONE, ONE = torch.zeros(2, 0).double(), torch.tensor(1.0).double()


def outputs(*shape: int) -> Tensor:
    return torch.randn(2, 3, 5, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3


def test_categorical_is_torchs() -> None:
    out, y = outputs(4), torch.tensor([0, 3, 1, 2, 0])
    got = likelihoods.Categorical(nothing).log_density(out, y, NONE, ONE)
    torch.testing.assert_close(got, td.Categorical(logits=out).log_prob(y))


def test_bernoulli_is_torchs_and_agrees_with_two_classes() -> None:
    out, y = outputs(1), torch.tensor([0, 1, 1, 0, 1])
    ours = likelihoods.Bernoulli(nothing)
    truth = td.Bernoulli(logits=out[..., 0]).log_prob(y.double())
    torch.testing.assert_close(ours.log_density(out, y, NONE, ONE), truth)
    far = torch.tensor([800.0, -800.0]).double().reshape(1, 1, 2, 1)
    got = ours.log_density(far, torch.tensor([0, 1]), NONE, ONE)
    torch.testing.assert_close(got.flatten(), torch.tensor([-800.0, -800.0]).double())
    probs = ours.describe(out, NONE, ONE, ONE)["probs"]
    torch.testing.assert_close(probs.sum(-1), torch.ones(2, 3, 5).double())
    torch.testing.assert_close(probs[..., 1], out[..., 0].sigmoid())


def test_poisson_is_torchs() -> None:
    out, y = outputs(2), torch.tensor([[0, 3], [1, 1], [100, 0], [2, 2], [7, 0]]).double()
    got = likelihoods.Poisson(nothing).log_density(out, y, NONE, ONE)
    torch.testing.assert_close(got, td.Poisson(out.exp()).log_prob(y).sum(-1))


@pytest.mark.parametrize("event", [(), (3,), (4, 2)])
@pytest.mark.parametrize("kind", ["normal", "laplace", "student"])
@pytest.mark.parametrize("scale", [0.7, "learned", "heteroscedastic"])
def test_real_noise_is_torchs(event: tuple[int, ...], kind: str, scale: float | str) -> None:
    made = {
        "normal": likelihoods.Normal(nothing, scale),  # type: ignore[arg-type]
        "laplace": likelihoods.Laplace(nothing, scale),  # type: ignore[arg-type]
        "student": likelihoods.StudentT(nothing, 5.0, scale),  # type: ignore[arg-type]
    }[kind]
    source = torch.Generator().manual_seed(1)
    y = torch.randn(5, *event, generator=source, dtype=torch.float64)
    unit = torch.rand(event, generator=source, dtype=torch.float64) + 0.5
    noise = torch.randn(2, unit.numel(), generator=source, dtype=torch.float64)
    twice = scale == "heteroscedastic"
    out = (
        outputs(*(event or (1,)))
        if not twice
        else outputs(*(event[:-1] if event else ()), 2 * (event or (1,))[-1])
    )
    loc = out.reshape(2, 3, 5, *event) if not twice else out.chunk(2, -1)[0].reshape(2, 3, 5, *event)
    if twice:
        deviation = 1e-3 + nn.functional.softplus(out.chunk(2, -1)[1]).reshape(2, 3, 5, *event)
    elif scale == "learned":
        deviation = (1e-3 + noise.exp()).reshape(2, 1, 1, *event).expand_as(loc)
    else:
        deviation = (0.7 / unit).expand_as(loc)
    peer = {
        "normal": td.Normal(loc, deviation),
        "laplace": td.Laplace(loc, deviation / math.sqrt(2)),
        "student": td.StudentT(5.0, loc, deviation * math.sqrt(3 / 5)),
    }[kind]
    truth = peer.log_prob(y)
    truth = truth.flatten(3).sum(-1) if event else truth
    torch.testing.assert_close(made.log_density(out, y, noise, unit), truth)
    described = made.describe(out, noise, torch.full(event, 7.0).double(), unit)
    torch.testing.assert_close(described["scale"], peer.stddev * unit)
    torch.testing.assert_close(described["loc"], 7 + unit * loc)


def test_a_fixed_scale_is_in_the_users_units_whether_or_not_targets_are_standardised() -> None:
    x = torch.randn(50, 1, generator=torch.Generator().manual_seed(0))
    y = 300 + 40 * x[:, 0]
    for standardize in (True, False):
        made = data.prepare(x, y, space="real", standardize=standardize)
        cohort = Cohort.of([Normal()], likelihoods.Normal(nothing, 2.5), made)
        out = torch.zeros(1, 1, 50, 1)
        got = cohort.likelihood.describe(out, cohort.initial_noise, made.targets.loc, made.targets.scale)
        assert torch.allclose(got["scale"], torch.tensor(2.5))


def test_the_noise_of_a_flattened_event_is_understood() -> None:
    made = likelihoods.Normal(nothing, "heteroscedastic")
    y = torch.randn(5, 4, 2, generator=torch.Generator().manual_seed(0)).double()
    out = outputs(16)
    got = made.log_density(out, y, NONE, torch.ones(4, 2).double())
    loc, raw = out[..., :8].reshape(2, 3, 5, 4, 2), out[..., 8:].reshape(2, 3, 5, 4, 2)
    truth = td.Normal(loc, 1e-3 + nn.functional.softplus(raw)).log_prob(y).sum((-1, -2))
    torch.testing.assert_close(got, truth)


def test_likelihoods_must_agree_on_the_space() -> None:
    a, b = likelihoods.Categorical(nothing), likelihoods.Normal(nothing)
    likelihoods.agree((a, likelihoods.Bernoulli(nothing)))
    with pytest.raises(
        ValueError, match=r"likelihoods\[1\] predicts real, likelihoods\[0\] predicts classes"
    ):
        likelihoods.agree((a, b))


@pytest.mark.parametrize("scale", [0, -1.0, math.nan, math.inf, "leaned"])
def test_bad_scales_are_refused(scale: object) -> None:
    with pytest.raises(ValueError, match="scale is"):
        likelihoods.Normal(nothing, scale)  # type: ignore[arg-type]


def test_a_network_with_the_wrong_number_of_outputs_is_refused_before_training() -> None:
    x, y = torch.randn(20, 1), torch.randn(20)
    made = data.prepare(x, y, space="real")
    with pytest.raises(ValueError, match=r"gives 1 numbers a row .* need 2 x 1"):
        Cohort.of([Normal()], likelihoods.Normal(nothing, "heteroscedastic"), made)
    with pytest.raises(ValueError, match="gives 1 numbers a row"):
        Cohort.of([Normal()], likelihoods.Normal(nothing), data.prepare(x, torch.randn(20, 3), space="real"))


@pytest.mark.parametrize("event", [(), (3,), (2, 2)])
@pytest.mark.parametrize("kind", ["fixed", "learned", "heteroscedastic", "classes"])
@pytest.mark.parametrize("resolution", [0.0, 0.8])
def test_written_slopes_are_the_derivatives(event: tuple[int, ...], kind: str, resolution: float) -> None:
    size = math.prod(event)
    source = torch.Generator().manual_seed(1)
    numbers = {"classes": 4, "heteroscedastic": 2 * size}.get(kind, size)
    out = outputs(numbers).requires_grad_()
    if kind == "classes":
        made: likelihoods.Likelihood = likelihoods.Categorical(nothing)
        y = torch.tensor([0, 3, 1, 2, 0])
        noise = NONE
    else:
        made = likelihoods.Normal(nothing, 0.7 if kind == "fixed" else kind, resolution)  # type: ignore[arg-type]
        y = torch.randn(5, *event, generator=source, dtype=torch.float64)
        noise = NONE if kind != "learned" else torch.randn(2, size, generator=source, dtype=torch.float64)
    unit = torch.rand(event, generator=source, dtype=torch.float64) + 0.5
    total = made.log_density(
        out, y, each := noise.unsqueeze(1).expand(-1, 3, -1).clone()[:, 0].requires_grad_(), unit
    )
    found = made.slope(out.detach(), y, noise, unit)
    assert found is not None
    torch.testing.assert_close(found[0], total.detach())
    by_out, *by_noise = torch.autograd.grad(total.sum(), [out, each] if noise.numel() else [out])
    torch.testing.assert_close(found[1], by_out)
    if noise.numel():
        torch.testing.assert_close(found[2].sum((1, 2)), by_noise[0])


@pytest.mark.parametrize("noise", ["learned", "heteroscedastic"])
def test_scales_are_at_least_those_of_rounding(noise: likelihoods.Scale) -> None:
    unit = torch.tensor([2.0, 0.5]).double()
    made = likelihoods.Normal(nothing, noise, resolution=(6.0, 0.0))
    tiny = torch.full((1, 2), -50.0).double()
    numbers = made.describe(
        -50 * torch.ones(1, 1, 3, 4 if noise == "heteroscedastic" else 2).double(), tiny, 0 * unit, unit
    )
    expected = torch.tensor([6 / math.sqrt(12) + 2e-3, 0.5e-3]).double()  # and a thousandth of the spread
    torch.testing.assert_close(numbers["scale"], expected.expand(1, 1, 3, 2))
    with pytest.raises(ValueError, match=r"resolution has 2 numbers, but y has shape \(5, 3\)"):
        made.check(torch.zeros(5, 3))
    with pytest.raises(ValueError, match=r"resolution is -1.0; give what targets were rounded to"):
        likelihoods.Normal(nothing, noise, -1.0)


@pytest.mark.parametrize("event", [(), (2,)])
def test_with_patience_locations_learn_by_least_squares(event: tuple[int, ...]) -> None:
    """Weighted by its variance, a row's pull on its location is its error, whatever scale it was given."""
    likelihood = likelihoods.Normal(nothing, scale="heteroscedastic")
    size = math.prod(event)
    out, y = torch.randn(1, 1, 5, 2 * size, dtype=torch.float64), torch.randn(5, *event, dtype=torch.float64)
    unit, noise = torch.ones((), dtype=torch.float64), torch.zeros(1, 0, dtype=torch.float64)
    if event:
        out[..., size:] = out[..., size:].mean(-1, keepdim=True)  # one scale for both coordinates
    weight = likelihood.patience(out, y, noise, unit)
    slope = likelihood.slope(out, y, noise, unit)
    assert weight is not None
    assert slope is not None
    torch.testing.assert_close(weight.mean(-1), torch.ones(1, 1, dtype=torch.float64))
    loc, scale = likelihood.split(out, noise, y.shape[1:], unit)
    pull = (weight.unsqueeze(-1) * slope[1])[..., :size].reshape_as(loc)
    torch.testing.assert_close(pull * scale.square().mean(), y - loc)


def test_a_noise_that_does_not_vary_needs_no_patience() -> None:
    likelihood = likelihoods.Normal(nothing, scale="learned")
    out = torch.zeros(1, 1, 5, 1)
    assert likelihood.patience(out, torch.zeros(5), torch.zeros(1, 1), torch.ones(())) is None


@pytest.mark.parametrize("side", ["classes", "rows"])
def test_probabilities_and_entropies_are_torchs_whatever_lies_side_by_side_in_memory(side: str) -> None:
    """Also where a probability is 0 in the type: it adds nothing to an entropy."""
    out = outputs(4).float()
    out[0, 0, 0] = torch.tensor([0.0, -90.0, -110.0, -1e4])
    own = out if side == "classes" else out.mT.contiguous().mT
    ours = likelihoods.Categorical(nothing)
    numbers = ours.describe(own, NONE, ONE, ONE)
    truth = td.Categorical(logits=out.double())
    torch.testing.assert_close(numbers["probs"].double(), truth.probs, rtol=0, atol=4 * 6e-8)
    # each of four terms is off by an eps or two of at most 1/e, and by that of its logarithm times p
    torch.testing.assert_close(ours.entropy(numbers).double(), truth.entropy(), rtol=1e-6, atol=1e-6)
