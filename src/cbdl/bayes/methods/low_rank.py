"""Variational inference with a low-rank plus diagonal covariance: theta ~ Normal(mu, F F^T + diag(sigma^2)).

F has `rank` columns for each member, so that the strongest correlations between parameters are kept at the
cost of rank + 1 mean fields. The objective is mean NLL + T KL(q || prior) / N. Entropy, log density and the
KL to Normal priors are closed: with A = F / sigma and C = I + A^T A (rank x rank),

    log det = 2 sum log sigma + log det C,      inverse = diag(sigma^-2) - (A / sigma) C^-1 (A / sigma)^T

(the matrix determinant lemma and Woodbury's identity). What is optimised is sqrt(P) A. Adam moves every number by about
its rate, also where the gradient is all noise: so it moves a column of A by its rate times the length of one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from cbdl.bayes._densities import HALF_LOG_2PI
from cbdl.bayes._random import NormalStream
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.draws import common_normal
from cbdl.bayes.rows import Batch, TrainingData
from cbdl.bayes.train import Plan, Record, Run, train

from ._points import normal_draws
from .protocol import Method, Posterior, common, prefixed


@dataclass(frozen=True)
class LowRank(Plan, Method):
    """Settings of variational inference with a low-rank plus diagonal Normal.

    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> likelihoods = [cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, (4,)), scale=0.1)]
    >>> method = cbdl.LowRank(epochs=2, rank=2)
    >>> cbdl.CBDL([cbdl.priors.Normal(0, 1)], likelihoods, method, verbose=False).fit(X, X[:, 0])
    CBDL(1 prior x 1 likelihood, LowRank, trained on 20 rows)
    """

    rank: int = 4
    """Columns of the factor; with P of them every Normal is reached."""
    draws: int = 1
    """Draws of the parameters per step."""
    antithetic: bool = False
    """Draws in pairs on either side of the mean."""
    temperature: float = 1.0
    """T: the weight of the KL; 1 is Bayes' rule, less lets the data speak louder."""
    warmup: float = 0.0
    """Share of the steps in which the weight of the KL rises from 0 to its value."""
    _: KW_ONLY
    initial_scale: float = 0.01
    """Standard deviation that every parameter starts with; a hundredth of its variance is the factor's."""
    validation_draws: int = 8
    """Draws behind a validation score."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rank", "draws", "validation_draws"):
            value = getattr(self, name)
            if int(value) != value or value < 1:
                raise ValueError(f"{name} is {value}; it must be a whole number of at least 1")
        if self.antithetic and self.draws % 2:
            raise ValueError(f"draws is {self.draws}; antithetic draws come in pairs, give an even number")
        for name in ("temperature", "initial_scale"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value}; it must be positive")
        if not 0 <= self.warmup <= 1:
            raise ValueError(f"warmup is {self.warmup}; it is a share of the steps, between 0 and 1")

    def fit(self, cohort: Cohort, data: TrainingData, run: Run) -> LowRankPosterior:
        """The posteriors of all members of the cohort, trained together."""
        trainee = _Objective(self, cohort, data)
        record = train(
            trainee, data, self.plan_for(cohort.layout), run, {**cohort.fingerprint(), "method": repr(self)}
        )
        return trainee.posterior(record)

    def from_state(self, cohort: Cohort, state: Mapping[str, Tensor]) -> LowRankPosterior:
        """The posterior that `state()` of another one describes."""
        return LowRankPosterior(state["mu"], state["rho"], state["factor"], **common(cohort, state))


@dataclass(frozen=True)
class LowRankPosterior(Posterior):
    """Normal(mu, factor factor^T + diag(softplus(rho)^2)): mu, rho (members, P), factor (members, P, rank)."""

    mu: Tensor
    rho: Tensor
    factor: Tensor

    @property
    def diagonal(self) -> Tensor:
        """Standard deviations of the diagonal part alone (members, P)."""
        return F.softplus(self.rho)

    @property
    def sigma(self) -> Tensor:
        """Standard deviations of the parameters (members, P)."""
        return (self.diagonal.square() + self.factor.square().sum(2)).sqrt()

    def sample(self, draws: int, seed: int = 0, start: int = 0) -> Tensor:
        """theta (members, draws, P) from the common base draws number start, start + 1, ... of stream `seed`."""
        size = self.mu.shape[1]
        eps = common_normal(seed, draws, size + self.factor.shape[2], like=self.mu, start=start)
        return (
            self.mu.unsqueeze(1)
            + self.diagonal.unsqueeze(1) * eps[..., :size]
            + eps[..., size:] @ self.factor.mT
        )

    def moments(self) -> tuple[Tensor, Tensor]:
        return self.mu, self.sigma

    def centre(self) -> Tensor:
        return self.mu

    def entropy(self) -> Tensor:
        """(members,)"""
        return entropy(self.diagonal, self.factor)

    def log_density(self, theta: Tensor) -> Tensor:
        """log q(theta): (members, draws, P) -> (members, draws)."""
        sigma = self.diagonal.unsqueeze(1)
        z = (theta - self.mu.unsqueeze(1)) / sigma
        a = self.factor / self.diagonal.unsqueeze(2)
        inner: Tensor = torch.linalg.cholesky(_inner(a))
        seen: Tensor = torch.linalg.solve_triangular(inner, (z @ a).mT, upper=False)
        half_log_det = self.diagonal.log().sum(1) + inner.diagonal(dim1=1, dim2=2).log().sum(1)
        square = z.square().sum(2) - seen.square().sum(1)
        return -0.5 * square - half_log_det.unsqueeze(1) - HALF_LOG_2PI * theta.shape[2]

    def kl(self, cohort: Cohort, draws: int = 32) -> Tensor:
        """KL(q || prior) (members,): closed for Normal priors, by draws otherwise."""
        parts = _Prior(cohort)
        total = parts.closed(self.mu, self.sigma.square()) - self.entropy()
        if parts.other is None:
            return total
        return total - parts.other.log_density_and_slope(self.sample(draws, seed=-1))[0].mean(1)

    def state(self) -> dict[str, Tensor]:
        return {
            "mu": self.mu,
            "rho": self.rho,
            "factor": self.factor,
            "noise": self.noise,
            **prefixed(self.buffers, "buffer"),
        }


def _inner(a: Tensor) -> Tensor:
    """I + A^T A (members, rank, rank)."""
    inner = a.mT @ a
    inner.diagonal(dim1=1, dim2=2).add_(1.0)
    return inner


def entropy(sigma: Tensor, factor: Tensor) -> Tensor:
    """Entropy of Normal(., factor factor^T + diag(sigma^2)): (members, P), (members, P, rank) -> (members,)."""
    inner: Tensor = torch.linalg.cholesky(_inner(factor / sigma.unsqueeze(2)))
    half = inner.diagonal(dim1=1, dim2=2).log().sum(1)
    return sigma.log().sum(1) + half + (HALF_LOG_2PI + 0.5) * sigma.shape[1]


def entropy_gradient(sigma: Tensor, factor: Tensor) -> tuple[Tensor, Tensor]:
    """Its derivatives: sigma diag(S^-1) (members, P) and S^-1 factor (members, P, rank)."""
    a = factor / sigma.unsqueeze(2)
    whitened = torch.cholesky_solve(a.mT, torch.linalg.cholesky(_inner(a))).mT
    return (1 - (whitened * a).sum(2)) / sigma, whitened / sigma.unsqueeze(2)


class _Prior:
    """The priors in two parts: Normal coordinates in closed form, the others (None: there are none) by draws."""

    def __init__(self, cohort: Cohort) -> None:
        whole = cohort.prior
        self.loc, self.precision = torch.zeros_like(cohort.initial), torch.zeros_like(cohort.initial)
        constant = torch.zeros_like(cohort.initial)
        rest = [term for term in whole.terms if term.family.name != "normal"]
        for term in whole.terms:
            if term.family.name == "normal":
                places = slice(None) if term.places is None else term.places
                loc, scale = term.values
                self.loc[places, term.columns] = loc
                self.precision[places, term.columns] = scale.square().reciprocal()
                constant[places, term.columns] = scale.log() + HALF_LOG_2PI
        self.constant = constant.sum(1)
        self.other = replace(whole, terms=tuple(rest)) if rest else None

    def closed(self, mu: Tensor, variance: Tensor) -> Tensor:
        """-E_q[log prior] of the Normal coordinates (members,)."""
        return 0.5 * (((mu - self.loc).square() + variance) * self.precision).sum(1) + self.constant


class _Objective:
    """mean NLL + T KL / N of every member, and its gradient by mu, rho, sqrt(P) factor / sigma and noise: a trainee."""

    def __init__(self, settings: LowRank, cohort: Cohort, data: TrainingData) -> None:
        self.settings, self.cohort, self.total, self.prior = settings, cohort, data.size, _Prior(cohort)
        start, rank = cohort.initial, settings.rank
        self.size = start.shape[1]
        rho = torch.full_like(start, math.log(math.expm1(settings.initial_scale * math.sqrt(0.99))))
        # at zero the factor would have no gradient; every member starts from its own random one
        column = normal_draws(cohort.seeds, 1, self.size * rank, start, "factor")[:, 0]
        column *= 0.1 * math.sqrt(self.size / rank)
        self.variables = torch.cat([start, rho, column, cohort.initial_noise], 1)
        self.buffers = {n: b.clone() for n, b in cohort.initial_buffers.items()}
        self.stream = NormalStream(
            cohort.seeds,
            settings.draws,
            self.size + rank,
            antithetic=settings.antithetic,
            device=start.device,
            dtype=start.dtype,
        )

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """mu, rho (members, P), sqrt(P) factor / sigma (members, P, rank), noise (members, Q): views."""
        p, v, rank = self.size, self.variables, self.settings.rank
        columns = v[:, 2 * p : (2 + rank) * p].view(-1, p, rank)
        return v[:, :p], v[:, p : 2 * p], columns, v[:, (2 + rank) * p :]

    def gradient(self, batch: Batch, step: int, steps: int) -> tuple[Tensor, Tensor]:
        cohort, draws = self.cohort, self.settings.draws
        mu, rho, columns, noise = self.parts
        sigma, numbers, unit = F.softplus(rho), self.stream(step), 1 / math.sqrt(self.size)
        ratio = columns * unit
        factor = ratio * sigma.unsqueeze(2)
        eps, small = numbers[..., : self.size], numbers[..., self.size :]
        theta = mu.unsqueeze(1) + sigma.unsqueeze(1) * eps + small @ factor.mT
        nll, by_theta, by_noise = cohort.gradient(theta, noise, batch, self.buffers, 1 / draws, step)
        weight = self._weight(step, steps)
        closed = self.prior.closed(mu, sigma.square() + factor.square().sum(2))
        loss = nll.mean(1) + weight * (closed - entropy(sigma, factor))
        if self.prior.other is not None:
            density, by_prior = self.prior.other.log_density_and_slope(theta)
            by_theta = by_theta - weight / draws * by_prior
            loss = loss - weight * density.mean(1)
        precision = weight * self.prior.precision
        by_mu = by_theta.sum(1) + (mu - self.prior.loc) * precision
        by_sigma = (by_theta * eps).sum(1) + sigma * precision
        by_factor = by_theta.mT @ small + factor * precision.unsqueeze(2)
        more_sigma, more_factor = entropy_gradient(sigma, factor)
        by_factor = by_factor - weight * more_factor
        by_sigma = by_sigma - weight * more_sigma + (by_factor * ratio).sum(2)
        by_rho = by_sigma * -torch.expm1(-sigma)  # d sigma / d rho = 1 - exp(-sigma)
        by_column = by_factor * sigma.unsqueeze(2) * unit
        return loss, torch.cat([by_mu, by_rho, by_column.flatten(1), by_noise], 1)

    def _weight(self, step: int, steps: int) -> float:
        """T / N, smaller during the warm-up."""
        full, rising = self.settings.temperature / self.total, self.settings.warmup * steps
        return full * min(1.0, (step + 1) / rising) if rising > 0 else full

    def validate(self, data: TrainingData) -> Tensor:
        """Minus the validation ELBO per row, with fixed draws so that epochs compare."""
        posterior = self.posterior(None)
        theta = posterior.sample(self.settings.validation_draws, seed=-2)
        nll = self.cohort.mean_nll(theta, posterior.noise, self.buffers, data).mean(1)
        return nll + self.settings.temperature / self.total * posterior.kl(self.cohort)

    def posterior(self, record: Record | None) -> LowRankPosterior:
        mu, rho, columns, noise = (x.clone() for x in self.parts)
        factor = columns * F.softplus(rho).unsqueeze(2) / math.sqrt(self.size)
        buffers = {n: b.clone() for n, b in self.buffers.items()}
        return LowRankPosterior(
            mu, rho, factor, seeds=self.cohort.seeds, noise=noise, buffers=buffers, record=record
        )
