"""Laplace's approximation of several members against laplace-torch, one network after the other.

laplace-torch is no dependency: install it by hand (`pip install laplace-torch`); without it there are no rows. Both
sides get the same networks, rows and priors: the curvature of the whole network and its factors, then predictions by
the network made linear. With a full matrix and real outcomes these are the same but for rounding: the note says how far
they differ.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks._table import Row, best_of
from cbdl.bayes import data, likelihoods, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.methods._modes import ModeObjective
from cbdl.bayes.methods.laplace import Laplace, LaplacePosterior

MEMBERS, NOISE, DRAWS = 4, 0.1, 20
PEER = f"laplace-torch, {MEMBERS} times"


def rows() -> list[Row]:
    return [] if find_spec("laplace") is None else [*_real(), *_classes()]


def _real() -> list[Row]:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(300, 8, generator=source)
    y = x[:, 0].sin() + NOISE * torch.randn(300, generator=source)
    made, network = data.prepare(x, y, space="real", standardize=False), lambda: _network(8, 20, 1)
    cohort = _cohort(made, likelihoods.Normal(network, NOISE))
    ours = _ours(cohort, made, Laplace(hessian="full", newton=0))
    theirs = _theirs(cohort, network, (x, y[:, None]), "regression", "full", sigma_noise=NOISE)
    posterior, peers = ours(), theirs()
    jacobian = torch.stack([_jacobian(network, mode, x[:20]) for mode in posterior.mode])
    own = (jacobian @ posterior.spread["root"].to(jacobian)).square().sum(-1).sqrt()
    other = torch.stack([peer(x[:20])[1].flatten().sqrt() for peer in peers])
    off = float((own / other - 1).abs().max())
    note = f"standard deviations differ by {off:.1e}"
    return [
        Row(
            f"full, {MEMBERS} members of 201 parameters, 300 rows",
            best_of(ours),
            PEER,
            best_of(theirs, 2),
            1,
            note,
        )
    ]


def _classes() -> list[Row]:
    digits = load_digits()
    x, y = torch.tensor(digits.data[:500] / 16, dtype=torch.float32), torch.tensor(digits.target[:500])
    made, network = data.prepare(x, y, space="classes", standardize=False), lambda: _network(64, 20, 10)
    cohort = _cohort(made, likelihoods.Categorical(network))
    ours = _ours(cohort, made, Laplace(hessian="kronecker"))
    theirs = _theirs(cohort, network, (x, y), "classification", "kron")
    posterior, peers = ours(), theirs()

    def ask() -> Tensor:
        theta = posterior.sample(DRAWS)
        return posterior.outputs(cohort, theta, x).softmax(-1).mean(1)

    def ask_peers() -> list[Tensor]:
        return [peer(x, link_approx="mc", n_samples=DRAWS) for peer in peers]

    size = f"{MEMBERS} members of 1,510 parameters, 500 rows"
    return [
        Row(f"Kronecker, {size}", best_of(ours), PEER, best_of(theirs, 2), 1),
        Row(f"{DRAWS} draws, {size}", best_of(ask), PEER, best_of(ask_peers, 2), 1),
    ]


def _network(before: int, hidden: int, after: int) -> nn.Module:
    return nn.Sequential(nn.Linear(before, hidden), nn.Tanh(), nn.Linear(hidden, after))


def _cohort(made: Any, likelihood: Any) -> Cohort:
    return Cohort.of([priors.Normal(0.0, 1.0)] * MEMBERS, likelihood, made)


def _ours(cohort: Cohort, made: Any, method: Laplace) -> Callable[[], LaplacePosterior]:
    """The posteriors around the networks as they begin, all at once."""
    begun, part = ModeObjective(cohort, made, cohort.initial.unsqueeze(1)), method._part(cohort)

    @torch.no_grad()
    def fitted() -> LaplacePosterior:
        return method.around(cohort, made, cohort.initial, begun.noise.clone(), begun.buffers, part)

    return fitted


def _theirs(
    cohort: Cohort,
    network: Callable[[], nn.Module],
    given: tuple[Tensor, Tensor],
    kind: str,
    matrix: str,
    **more: Any,
) -> Callable[[], list[Any]]:
    """The same networks, one after the other."""
    from laplace import Laplace as Peer

    made = []
    for mode in cohort.initial:
        made.append(network())
        nn.utils.vector_to_parameters(mode, made[-1].parameters())
    loader = DataLoader(TensorDataset(*given), batch_size=len(given[0]))

    def fitted() -> list[Any]:
        all_ = [Peer(one, kind, "all", matrix, prior_precision=1.0, **more) for one in made]
        for one in all_:
            one.fit(loader)
        return all_

    return fitted


def _jacobian(network: Callable[[], nn.Module], mode: Tensor, x: Tensor) -> Tensor:
    """(rows, P): of the output by all parameters, by automatic differentiation."""
    own = network()
    nn.utils.vector_to_parameters(mode, own.parameters())
    out = []
    for row in own(x).flatten():
        slopes = torch.autograd.grad(row, list(own.parameters()), retain_graph=True)
        out.append(torch.cat([slope.flatten() for slope in slopes]))
    return torch.stack(out)
