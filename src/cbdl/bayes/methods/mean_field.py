"""Mean-field variational inference: an independent Normal for every parameter (Section 3, Step 3).

The objective of every member is exactly mean NLL + T KL(q || prior) / N, with N the number of training rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from cbdl.bayes._densities import HALF_LOG_2PI
from cbdl.bayes._random import NormalStream
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.draws import common_normal
from cbdl.bayes.priors import Coordinates, PriorLike
from cbdl.bayes.rows import Batch, TrainingData
from cbdl.bayes.train import Plan, Record, Run, train

from .divergences import KL, Divergence
from .protocol import Method, Posterior, common, prefixed


@dataclass(frozen=True)
class MeanField(Plan, Method):
    """Settings of mean-field variational inference.

    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> likelihoods = [cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, (4,)), scale=0.1)]
    >>> method = cbdl.MeanField(epochs=2)
    >>> cbdl.CBDL([cbdl.priors.Normal(0, 1)], likelihoods, method, verbose=False).fit(X, X[:, 0])
    CBDL(1 prior x 1 likelihood, MeanField, trained on 20 rows)
    """

    draws: int | None = None
    """Draws of the parameters per step; None: 1 for KL, 8 for the other divergences."""
    antithetic: bool = False
    """Draws in pairs mu + sigma eps, mu - sigma eps."""
    temperature: float = 1.0
    """T: the weight of the KL; 1 is Bayes' rule, less lets the data speak louder."""
    warmup: float = 0.0
    """Share of the steps in which the weight of the KL rises from 0 to its value."""
    divergence: Divergence = field(default_factory=KL)
    """What is minimised: `KL()`, `Renyi(alpha)` or `ChiSquared()`."""
    settle: float = 0.25
    """Share of the steps for which another divergence than KL lets KL go first. From a start far away, bounds that
    cover all mass first spread q very wide, and take long to come back."""
    _: KW_ONLY
    patience: int | None = 10
    """With validation data: epochs without a better validation ELBO before a member stops, at its best epoch."""
    start: Literal["network", "prior"] = "network"
    """Where the means start: at the network's own initialisation, or at the centres of the priors."""
    initial_scale: float = 0.01
    """Standard deviation that every parameter starts with."""
    validation_draws: int = 8
    """Draws behind a validation score."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"temperature is {self.temperature}; it must be positive (1: Bayes' rule)")
        if not 0 <= self.warmup <= 1:
            raise ValueError(f"warmup is {self.warmup}; it is a share of the steps, between 0 and 1")
        if not 0 <= self.settle < 1:
            raise ValueError(f"settle is {self.settle}; it is a share of the steps, from 0 to below 1")
        if not (math.isfinite(self.initial_scale) and self.initial_scale > 0):
            raise ValueError(f"initial_scale is {self.initial_scale}; it must be positive")
        least = self.divergence.least_draws
        if self.draws is not None and (self.draws < least or int(self.draws) != self.draws):
            raise ValueError(f"draws is {self.draws}; {self.divergence} needs at least {least}")
        if self.antithetic and self.number % 2:
            raise ValueError(f"draws is {self.number}; antithetic draws come in pairs, give an even number")

    @property
    def number(self) -> int:
        """Draws per step."""
        if self.draws is not None:
            return self.draws
        return (2 if self.antithetic else 1) if isinstance(self.divergence, KL) else 8

    def fit(self, cohort: Cohort, data: TrainingData, run: Run) -> MeanFieldPosterior:
        """The posteriors of all members of the cohort, trained together."""
        trainee = _Objective(self, cohort, data)
        record = train(
            trainee, data, self.plan_for(cohort.layout), run, {**cohort.fingerprint(), "method": repr(self)}
        )
        return trainee.posterior(record)

    def from_state(self, cohort: Cohort, state: Mapping[str, Tensor]) -> MeanFieldPosterior:
        """The posterior that `state()` of another one describes."""
        return MeanFieldPosterior(state["mu"], state["rho"], **common(cohort, state))

    def continuing(self) -> MeanField:
        """The same, with means that start where the priors, yesterday's posteriors, have their centres."""
        return replace(self, start="prior")


@dataclass(frozen=True)
class MeanFieldPosterior(Posterior):
    """Normal(mu, softplus(rho)) for every parameter of every member: mu, rho (members, P)."""

    mu: Tensor
    rho: Tensor

    @property
    def sigma(self) -> Tensor:
        """Standard deviations (members, P)."""
        return F.softplus(self.rho)

    def sample(self, draws: int, seed: int = 0, start: int = 0) -> Tensor:
        """theta (members, draws, P) from the common base draws number start, start + 1, ... of stream `seed`."""
        eps = common_normal(seed, draws, self.mu.shape[1], like=self.mu, start=start)
        return self.mu.unsqueeze(1) + self.sigma.unsqueeze(1) * eps

    def moments(self) -> tuple[Tensor, Tensor]:
        return self.mu, self.sigma

    def centre(self) -> Tensor:
        return self.mu

    def priors(self, cohort: Cohort) -> list[PriorLike]:
        """A Normal for every coordinate of every member."""
        named = [
            {name: value.clone() for name, value in cohort.layout.view(x).items()}
            for pair in zip(self.mu, self.sigma, strict=True)
            for x in pair
        ]
        return [Coordinates(loc, scale) for loc, scale in zip(named[::2], named[1::2], strict=True)]

    def kl(self, cohort: Cohort, draws: int = 32) -> Tensor:
        """KL(q || prior) of every member (members,), by draws where no closed form exists."""
        theta = None if cohort.prior.closed else self.sample(draws, seed=-1)
        return cohort.prior.kl(self.mu, self.sigma, theta)

    def state(self) -> dict[str, Tensor]:
        return {
            "mu": self.mu,
            "rho": self.rho,
            "noise": self.noise,
            **prefixed(self.buffers, "buffer"),
        }


class _Objective:
    """mean NLL + T KL / N (or the loss of another divergence) of every member, with its gradient."""

    def __init__(self, settings: MeanField, cohort: Cohort, data: TrainingData) -> None:
        self.settings, self.cohort = settings, cohort
        self._known: tuple[float, Tensor, Tensor] | None = None
        self.size = cohort.layout.size
        self.total = data.size
        start = cohort.initial if settings.start == "network" else cohort.prior.location()
        rho = torch.full_like(start, math.log(math.expm1(settings.initial_scale)))
        self.variables = torch.cat([start, rho, cohort.initial_noise], 1)
        self.buffers = {n: b.clone() for n, b in cohort.initial_buffers.items()}
        self.stream = NormalStream(
            cohort.seeds,
            settings.number,
            self.size,
            antithetic=settings.antithetic,
            device=start.device,
            dtype=start.dtype,
        )

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """mu, rho (members, P) and noise (members, Q): views of the variables."""
        p = self.size
        return self.variables[:, :p], self.variables[:, p : 2 * p], self.variables[:, 2 * p :]

    def gradient(self, batch: Batch, step: int, steps: int) -> tuple[Tensor, Tensor]:
        mu, rho, noise = self.parts
        eps = self.stream(step)
        sigma = F.softplus(rho)
        theta = torch.addcmul(mu.unsqueeze(1), sigma.unsqueeze(1), eps)
        weight = self._kl_weight(step, steps)
        if isinstance(self.settings.divergence, KL) or step < self.settings.settle * steps:
            loss, by_mu, by_sigma, by_noise = self._kl(batch, theta, eps, mu, sigma, noise, weight, step)
        else:
            loss, by_mu, by_sigma, by_noise = self._other(batch, theta, eps, sigma, noise, weight, step)
        by_rho = by_sigma * torch.expm1(-sigma).neg_()  # d sigma / d rho = 1 - exp(-sigma)
        return loss, torch.cat([by_mu, by_rho, by_noise], 1)

    def _kl_weight(self, step: int, steps: int) -> float:
        """T / N, smaller during the warm-up."""
        full = self.settings.temperature / self.total
        rising = self.settings.warmup * steps
        return full * min(1.0, (step + 1) / rising) if rising > 0 else full

    def _kl(
        self,
        batch: Batch,
        theta: Tensor,
        eps: Tensor,
        mu: Tensor,
        sigma: Tensor,
        noise: Tensor,
        weight: float,
        step: int,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        cohort, draws = self.cohort, theta.shape[1]
        nll, by_theta, by_noise = cohort.gradient(theta, noise, batch, self.buffers, 1 / draws, step)
        if draws == 1:
            by_mu, by_sigma = by_theta[:, 0], by_theta[:, 0] * eps[:, 0]
        else:
            by_mu, by_sigma = by_theta.sum(1), (by_theta * eps).sum(1)
        normal = cohort.prior.normal
        if normal is not None:
            loc, scale = normal
            # the derivatives of the closed KL, without a graph
            precision, constant = self._precision(scale, weight)
            away = mu - loc
            by_mu = torch.addcmul(by_mu, away, precision)
            by_sigma = torch.addcmul(by_sigma, sigma, precision).sub_(sigma.reciprocal(), alpha=weight)
            squares = away.square().addcmul_(sigma, sigma).mul_(precision).sum(1)
            kl = 0.5 * squares - weight * sigma.log().sum(1) + constant
            return nll.mean(1) + kl, by_mu, by_sigma, by_noise
        kl, more_mu, more_sigma = self._kl_by_graph(mu, sigma, eps)
        return nll.mean(1) + weight * kl, by_mu + weight * more_mu, by_sigma + weight * more_sigma, by_noise

    def _precision(self, scale: Tensor, weight: float) -> tuple[Tensor, Tensor]:
        """weight / scale^2 (members, P) and the KL's constant (members,), anew only when the weight changes."""
        if self._known is None or self._known[0] != weight:
            constant = weight * (scale.log() - 0.5).sum(1)
            self._known = weight, weight / scale.square(), constant
        return self._known[1], self._known[2]

    def _kl_by_graph(self, mu: Tensor, sigma: Tensor, eps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.enable_grad():
            m, s = mu.detach().requires_grad_(), sigma.detach().requires_grad_()
            theta = None if self.cohort.prior.closed else m.unsqueeze(1) + s.unsqueeze(1) * eps
            kl = self.cohort.prior.kl(m, s, theta)
            by_mu, by_sigma = torch.autograd.grad(kl.sum(), (m, s))
        return kl.detach(), by_mu, by_sigma

    def _other(
        self, batch: Batch, theta: Tensor, eps: Tensor, sigma: Tensor, noise: Tensor, weight: float, step: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The loss T / N * bound of another divergence, and its doubly reparameterised gradient."""
        cohort, divergence = self.cohort, self.settings.divergence
        log_prior, by_prior = cohort.prior.log_density_and_slope(theta.detach())
        entropy = (sigma.log().unsqueeze(1) + 0.5 * eps.square()).sum(-1) + HALF_LOG_2PI * self.size
        inner = log_prior + entropy  # log p(theta) - log q(theta)

        def ratio(nll: Tensor, rows: slice) -> Tensor:
            return inner[rows] - nll / weight

        nll, by_theta, by_noise = cohort.gradient(
            theta,
            noise,
            batch,
            self.buffers,
            lambda seen, rows: divergence.coefficients(ratio(seen, rows)),
            step,
        )
        ratios = ratio(nll, slice(None))
        c = weight * divergence.coefficients(ratios).unsqueeze(-1)
        # log q(theta) has the derivative -eps / sigma by theta
        total = by_theta - c * (by_prior + eps / sigma.unsqueeze(1))
        return weight * divergence.loss(ratios), total.sum(1), (total * eps).sum(1), by_noise

    def validate(self, data: TrainingData) -> Tensor:
        """Minus the validation ELBO per row: mean NLL + T KL / N, with fixed draws so that epochs compare."""
        posterior = self.posterior(None)
        theta = posterior.sample(self.settings.validation_draws, seed=-2)
        nll = self.cohort.mean_nll(theta, posterior.noise, self.buffers, data).mean(1)
        return nll + self.settings.temperature / self.total * posterior.kl(self.cohort)

    def posterior(self, record: Record | None) -> MeanFieldPosterior:
        mu, rho, noise = (x.clone() for x in self.parts)
        buffers = {n: b.clone() for n, b in self.buffers.items()}
        return MeanFieldPosterior(
            mu, rho, seeds=self.cohort.seeds, noise=noise, buffers=buffers, record=record
        )
