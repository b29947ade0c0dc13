"""Curvature of the log likelihood at a point: Jacobians of the networks and generalised Gauss-Newton
matrices.

For every likelihood there is a map r of the network's outputs f whose Jacobian is a root of the Fisher
information, (dr/df)^T (dr/df) = E_y[-d^2 log p(y | f) / df^2]. So the Gauss-Newton matrix of a data set is
sum_n w_n J_n^T J_n with J_n = d r(f(x_n; theta)) / d theta: positive semi-definite whatever the noise model,
and equal to the Hessian where the network is linear and the noise Normal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call, jacrev, vmap

from cbdl.bayes import likelihoods
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.counts import HIGH
from cbdl.bayes.flat import Layout, matches, shorten
from cbdl.bayes.forward import Buffers
from cbdl.bayes.rows import TrainingData
from cbdl.ground import memory


def budget() -> int:
    """Numbers that the Jacobians of one chunk of rows may hold."""
    return memory.limit() // 128


def fisher_root(
    likelihood: likelihoods.Likelihood, out: Tensor, noise: Tensor, event: torch.Size, unit: Tensor
) -> Tensor:
    """r(out) of the module's docstring: out (members, draws, batch, *out) -> (members, draws, batch, R)."""
    if isinstance(likelihood, likelihoods.Categorical):
        return 2 * torch.exp(0.5 * out.log_softmax(-1))
    if isinstance(likelihood, likelihoods.Bernoulli):
        # beyond 60 the information is below 1e-26, and the exponential would overflow
        return 2 * torch.atan(torch.exp(0.5 * out.flatten(3).clamp(-60, 60)))
    if isinstance(likelihood, likelihoods.Poisson):
        return 2 * torch.exp(0.5 * out.flatten(3).clamp(max=HIGH))
    if isinstance(likelihood, likelihoods.Normal | likelihoods.Laplace | likelihoods.StudentT):
        loc, scale = likelihood.split(out, noise, event, unit)
        by_loc, by_scale = _information(likelihood)
        r = math.sqrt(by_loc) * loc / scale.detach()
        lead = out.shape[:3]
        if likelihood.scale != "heteroscedastic":
            return r.reshape(*lead, -1)
        return torch.cat([r.reshape(*lead, -1), math.sqrt(by_scale) * scale.log().reshape(*lead, -1)], -1)
    raise ValueError(f"the curvature of {type(likelihood).__name__} is not known; use another method")


def _information(
    likelihood: likelihoods.Normal | likelihoods.Laplace | likelihoods.StudentT,
) -> tuple[float, float]:
    """Fisher information of the location (times scale^2) and of the log scale, standard deviation 1."""
    if isinstance(likelihood, likelihoods.Laplace):
        return 2.0, 1.0
    if isinstance(likelihood, likelihoods.StudentT):
        df = likelihood.df
        return (df + 1) / (df + 3) * df / (df - 2), 2 * df / (df + 3)
    return 1.0, 2.0


# --------------------------------------------------------------------------------- which coordinates


@dataclass(frozen=True)
class Part:
    """Some parameters of a layout: a layout of their own, and where they sit in the whole one."""

    layout: Layout
    index: Tensor
    """(p,): coordinates of the whole layout."""

    @classmethod
    def of(cls, layout: Layout, part: str, device: torch.device) -> Part:
        """`part`: "all", "last" (the module that owns the last parameter), or a pattern of names."""
        owner = layout.entries[-1].name.rpartition(".")[0]
        chosen = [
            e
            for e in layout.entries
            if part == "all"
            or (part == "last" and e.name.rpartition(".")[0] == owner)
            or (part not in ("all", "last") and matches(e.name, part))
        ]
        if not chosen:
            raise ValueError(f"part: no parameter matches {part!r}; there are {shorten(layout.names)}")
        index = torch.cat([torch.arange(e.start, e.stop, device=device) for e in chosen])
        moved, start = [], 0
        for e in chosen:
            moved.append(type(e)(e.name, e.shape, start, e.fan_in))
            start += e.size
        return cls(Layout(tuple(moved)), index)

    @property
    def size(self) -> int:
        return len(self.index)


# ---------------------------------------------------------------------------------------- Jacobians


def jacobians(
    cohort: Cohort, theta: Tensor, noise: Tensor, buffers: Buffers, data: TrainingData, part: Part
) -> Iterator[tuple[Tensor, Tensor]]:
    """Chunks of (weights of rows (B,) that sum to N, Jacobians of r by the part (members, B, R, p)).

    theta (members, P): where. Networks are in evaluation mode. All rows come once.
    """
    network = cohort.forward.network
    network.eval()
    rows = _rows_of_a_chunk(cohort, theta, noise, buffers, data, part)
    for batch in data.parts(rows):
        weight = (batch.weight * data.size).expand(batch.x.shape[0])
        yield weight, _chunk(cohort, theta, noise, buffers, batch.x, data.held.y.shape[1:], part)


def _rows_of_a_chunk(
    cohort: Cohort, theta: Tensor, noise: Tensor, buffers: Buffers, data: TrainingData, part: Part
) -> int:
    out = cohort.forward(theta.unsqueeze(1), data.held.x[:1], buffers)
    r = fisher_root(cohort.likelihood, out, noise, data.held.y.shape[1:], cohort.unit).shape[-1]
    return max(1, min(1024, budget() // (theta.shape[0] * r * part.size)))


def _chunk(
    cohort: Cohort, theta: Tensor, noise: Tensor, buffers: Buffers, x: Tensor, event: torch.Size, part: Part
) -> Tensor:
    network, constants = cohort.forward.network, cohort.forward.constants

    def root(own: Tensor, rest: Tensor, q: Tensor, kept: Buffers, row: Tensor) -> Tensor:
        parameters = {**cohort.layout.view(rest), **part.layout.view(own)}
        out = functional_call(network, {**constants, **parameters, **kept}, (row.unsqueeze(0),))
        return fisher_root(cohort.likelihood, out[None, None], q[None], event, cohort.unit)[0, 0, 0]

    own = theta[:, part.index]
    by_row = vmap(jacrev(root), in_dims=(None, None, None, None, 0))
    try:
        if cohort.forward.way == "loop":
            members = [
                by_row(own[i], theta[i], noise[i], {n: b[i] for n, b in buffers.items()}, x)
                for i in range(theta.shape[0])
            ]
            return torch.stack(members)
        rows: Tensor = vmap(by_row, in_dims=(0, 0, 0, 0, None))(own, theta, noise, buffers, x)
        return rows
    except RuntimeError:  # a network that vmap cannot batch: row after row
        return _slow(root, own, theta, noise, buffers, x)


def _slow(root: object, own: Tensor, theta: Tensor, noise: Tensor, buffers: Buffers, x: Tensor) -> Tensor:
    assert callable(root)
    gradients = []
    for i in range(theta.shape[0]):
        kept = {n: b[i] for n, b in buffers.items()}
        for row in x:
            with torch.enable_grad():
                leaf = own[i].detach().requires_grad_()
                r = root(leaf, theta[i], noise[i], kept, row)
                gradients += [torch.autograd.grad(v, leaf, retain_graph=True)[0] for v in r]
    return torch.stack(gradients).reshape(theta.shape[0], x.shape[0], -1, own.shape[1])


def gauss_newton(
    cohort: Cohort, theta: Tensor, noise: Tensor, buffers: Buffers, data: TrainingData, part: Part
) -> Tensor:
    """sum_n w_n J_n^T J_n (members, p, p), in float64."""
    total = theta.new_zeros((theta.shape[0], part.size, part.size), dtype=torch.float64)
    for weight, j in jacobians(cohort, theta, noise, buffers, data, part):
        wide = (j * weight.sqrt()[:, None, None]).flatten(1, 2).double()
        total.baddbmm_(wide.mT, wide)
    return total


def gauss_newton_diagonal(
    cohort: Cohort, theta: Tensor, noise: Tensor, buffers: Buffers, data: TrainingData, part: Part
) -> Tensor:
    """The diagonal of it (members, p), in float64."""
    total = theta.new_zeros((theta.shape[0], part.size), dtype=torch.float64)
    for weight, j in jacobians(cohort, theta, noise, buffers, data, part):
        total += torch.einsum("b,mbrp->mp", weight, j.square()).double()
    return total


def prior_precision(cohort: Cohort, theta: Tensor) -> Tensor:
    """The precision of every prior at theta (members, P) -> (members, P), in float64.

    For a Normal prior 1 / scale^2, coordinate by coordinate. For the others the precision of the Normal that
    has the prior's centre and its slope at theta, -(d log p / d theta) / (theta - loc): positive for every
    symmetric density with one peak (the second derivative is not: a Laplace prior has none). Within a
    hundredth of a scale from the centre the slope is taken at that distance, so that a peak with an edge
    gives a finite number.
    """
    normal = cohort.prior.normal
    if normal is not None:
        return normal[1].double().square().reciprocal()
    loc = cohort.prior.location()
    away = theta - loc
    least = 0.01 * cohort.prior.spread()
    away = torch.where(away.abs() < least, torch.where(away < 0, -least, least), away)
    with torch.enable_grad():
        leaf = (loc + away).unsqueeze(1).requires_grad_()
        (slope,) = torch.autograd.grad(cohort.prior.log_density(leaf).sum(), leaf)
    return (-slope[:, 0] / away).double().clamp_min(1e-12)
