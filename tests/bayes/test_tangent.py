"""Networks made linear in their parameters: against Jacobians of autograd and the closed predictive distribution."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from zoo import ZOO

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import Data, prepare
from cbdl.bayes.learned import Learned, Part
from cbdl.bayes.methods._curvature import Part as Parameters
from cbdl.bayes.methods.laplace import Laplace, LaplacePosterior
from cbdl.bayes.predictive import normals
from cbdl.bayes.tangent import linearised, refusal
from cbdl.bayes.train import Run

SCALE = 0.2


def jacobian(cohort: Cohort, k: int, theta: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The network's outputs (numbers,) and their Jacobian (numbers, P), by reverse mode."""
    kept = {n: b[k] for n, b in cohort.initial_buffers.items()}

    def outputs(own: Tensor) -> Tensor:
        state = {**cohort.forward.constants, **cohort.layout.view(own), **kept}
        out: Tensor = torch.func.functional_call(cohort.forward.network, state, (x,))
        return out.flatten()

    cohort.forward.network.eval()
    return outputs(theta).detach(), torch.autograd.functional.jacobian(outputs, theta)


@pytest.mark.parametrize(
    "name", ["mlp", "conv2d", "attention", "layer norm", "batch norm", "tied", "branching"]
)
def test_the_linearised_network_is_its_first_order_expansion(name: str) -> None:
    factory, x = ZOO[name]
    size = factory().double()(x).shape[1]
    y = torch.randn(len(x), size, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    data = prepare(x, y, space="real", standardize=False, dtype=torch.float64)
    cohort = Cohort.of(
        [priors.Normal(), priors.Normal(0.0, 2.0)], likelihoods.Normal(factory, scale=1.0), data
    )
    source = torch.Generator().manual_seed(3)
    mode = cohort.initial
    theta = mode.unsqueeze(1) + torch.randn(2, 3, mode.shape[1], generator=source, dtype=torch.float64)
    ours = linearised(cohort.forward, mode, theta, data.x, cohort.initial_buffers)
    for k in range(2):
        value, j = jacobian(cohort, k, mode[k], data.x)
        truth = value + (theta[k] - mode[k]) @ j.T
        # rounding of P products, each of a derivative and a step of order 1
        assert torch.allclose(ours[k].flatten(1), truth, rtol=1e-9, atol=1e-10)


def bent() -> tuple[Cohort, Data]:
    source = torch.Generator().manual_seed(0)
    x = torch.rand(30, 1, generator=source, dtype=torch.float64) * 4 - 2
    y = torch.sin(2 * x[:, 0]) + SCALE * torch.randn(30, generator=source, dtype=torch.float64)
    data = prepare(x, y, space="real", standardize=False, dtype=torch.float64)
    net = lambda: nn.Sequential(nn.Linear(1, 5), nn.Tanh(), nn.Linear(5, 1))  # noqa: E731
    likelihood = likelihoods.Normal(net, scale=SCALE)
    return Cohort.of([priors.Normal(0.0, 1.0), priors.Normal(0.0, 3.0)], likelihood, data), data


def fitted(**settings: object) -> tuple[Cohort, Data, LaplacePosterior]:
    cohort, data = bent()
    method = Laplace(epochs=400, batch_size=64, lr=0.02, **settings)  # type: ignore[arg-type]
    return cohort, data, method.fit(cohort, data, Run())


def test_the_predictive_distribution_is_the_closed_one_of_the_linear_model() -> None:
    """Mean f(x, mode) and variance J S J^T with S = (sum J^T J / noise^2 + I / scale^2)^-1, Jacobians by autograd."""
    cohort, data, posterior = fitted()
    grid = torch.linspace(-3, 3, 9, dtype=torch.float64).unsqueeze(1)
    learned = Learned.of([Part((), cohort, posterior)], data, 0)
    draws = 4000
    loc, scale, _ = normals(learned, grid, draws)
    for k, prior in enumerate((1.0, 3.0)):
        mode = posterior.mode[k]
        _, seen = jacobian(cohort, k, mode, data.x)
        value, j = jacobian(cohort, k, mode, grid)
        spread = torch.linalg.inv(seen.T @ seen / SCALE**2 + torch.eye(len(mode)) / prior**2)
        variance = ((j @ spread) * j).sum(1)
        # base draws come in antithetic pairs: the mean of a linear map is exact, squares are half as many
        assert torch.allclose(loc[:, k].mean(1), value, atol=1e-8)
        error = 4 * variance * (2 / (draws / 2)) ** 0.5
        assert ((loc[:, k].var(1, correction=0) - variance).abs() < error).all()
        assert torch.allclose(scale[:, k], torch.full_like(scale[:, k], SCALE))


def test_classes_get_the_probabilities_of_linearised_logits() -> None:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(40, 2, generator=source, dtype=torch.float64)
    data = prepare(x, (x[:, 0] * x[:, 1] > 0).long(), space="classes", dtype=torch.float64)
    net = lambda: nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))  # noqa: E731
    cohort = Cohort.of([priors.Normal(0.0, 2.0)], likelihoods.Categorical(net), data)
    posterior = Laplace(epochs=50, lr=0.05).fit(cohort, data, Run())
    theta = posterior.sample(5)
    value, j = jacobian(cohort, 0, posterior.mode[0], data.x)
    truth = (value + (theta[0] - posterior.mode[0]) @ j.T).view(5, 40, 2)
    ours = posterior.outputs(cohort, theta, data.x)[0]
    assert torch.allclose(ours.softmax(-1), truth.softmax(-1), atol=1e-9)


def test_without_linearisation_the_networks_of_the_draws_speak() -> None:
    cohort, data, posterior = fitted(linearised=False)
    theta = posterior.sample(3)
    plain = cohort.forward(theta, data.x, posterior.buffers)
    assert torch.equal(posterior.outputs(cohort, theta, data.x), plain)
    again = Laplace(linearised=True).from_state(cohort, posterior.state())
    assert not torch.allclose(again.outputs(cohort, theta, data.x), plain)


def test_of_a_linear_layer_nothing_changes() -> None:
    cohort, data, posterior = fitted(part="last")
    assert isinstance(posterior.part, Parameters)
    theta = posterior.sample(3)
    plain = cohort.forward(theta, data.x, posterior.buffers)
    assert torch.allclose(posterior.outputs(cohort, theta, data.x), plain, atol=1e-9)


class Opaque(torch.autograd.Function):
    """A function without a derivative along a direction."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, *gradients: Tensor) -> Tensor:
        return gradients[0]


class Blind(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = Opaque.apply(self.one(x))
        return out


def test_a_network_without_such_derivatives_is_refused_before_it_is_trained() -> None:
    _, data = bent()
    cohort = Cohort.of([priors.Normal()], likelihoods.Normal(Blind, scale=SCALE), data)
    assert refusal(cohort.forward, cohort.initial, data.x, {}) is not None
    with pytest.raises(ValueError, match="linearised=False"):
        Laplace(epochs=1).fit(cohort, data, Run())
