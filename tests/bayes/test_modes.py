"""How many weights the data determine, against Jacobians of autograd; the noise of an ensemble that could pass through
all points.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import Data, prepare
from cbdl.bayes.methods import _modes
from cbdl.bayes.methods._curvature import Part
from cbdl.bayes.methods._modes import determined_weights
from cbdl.bayes.methods.ensemble import Ensemble
from cbdl.bayes.methods.last_layer import LastLayer
from cbdl.bayes.train import Run

CHOSEN = [priors.Normal(0.0, 1.0), priors.Normal(0.0, 4.0)]


def problem(outputs: int = 2, rows: int = 20, hidden: int = 4) -> tuple[Cohort, Data]:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 2, generator=source, dtype=torch.float64)
    y = torch.randn(rows, outputs, generator=source, dtype=torch.float64)
    data = prepare(x, y if outputs > 1 else y[:, 0], space="real", standardize=False, dtype=torch.float64)
    net = lambda: nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, outputs))  # noqa: E731
    return Cohort.of(CHOSEN, likelihoods.Normal(net), data), data


@pytest.mark.parametrize("pattern", ["all", "last"])
def test_determined_weights_are_the_trace_of_each_output(pattern: str) -> None:
    cohort, data = problem()
    noise = cohort.initial_noise + torch.tensor([[0.0, 1.0], [-1.0, 0.5]], dtype=torch.float64)
    part = Part.of(cohort.layout, pattern, data.x.device)
    ours = determined_weights(cohort, cohort.initial, noise, {}, data, part)
    for k, prior in enumerate(CHOSEN):

        def outputs(own: Tensor, k: int = k) -> Tensor:
            whole = cohort.initial[k].index_copy(0, part.index, own)
            out: Tensor = torch.func.functional_call(
                cohort.forward.network, cohort.layout.view(whole), (data.x,)
            )
            return out

        j = torch.autograd.functional.jacobian(outputs, cohort.initial[k, part.index])
        grams = [j[:, q].T @ j[:, q] / (1e-3 + noise[k, q].exp()) ** 2 for q in range(2)]
        inverse = torch.linalg.inv(sum(grams) + torch.eye(part.size) / prior.scale**2)
        truth = torch.stack([torch.trace(g @ inverse) for g in grams])
        assert torch.allclose(ours[k], truth, rtol=1e-9)


def test_for_large_networks_each_weight_counts_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    cohort, data = problem()
    full = determined_weights(cohort, cohort.initial, cohort.initial_noise, {}, data)
    monkeypatch.setattr(_modes, "SMALL", 1)
    single = determined_weights(cohort, cohort.initial, cohort.initial_noise, {}, data)
    # without their correlations weights take more: the diagonal of an inverse is at least the inverse of the diagonal
    assert (single.sum(1) >= full.sum(1)).all()
    assert (single.sum(1) <= cohort.layout.size).all()


@pytest.mark.parametrize("kind", [Ensemble, LastLayer])
def test_a_network_that_could_pass_through_all_points_keeps_its_noise(
    kind: type[Ensemble | LastLayer],
) -> None:
    """Targets are pure noise of standard deviation 1, with twice as many weights as rows."""
    cohort, data = problem(outputs=1, rows=20, hidden=10)
    method = Ensemble(1200, 64, 0.01, restarts=1) if kind is Ensemble else LastLayer(1200, 64, 0.01)
    posterior = method.fit(cohort.only([0]), data, Run())
    assert (posterior.noise.exp() > 0.5).all()
