"""Microcanonical Langevin Monte Carlo: draws from the posterior of networks for tables, in seconds (Robnik et al. 2023;
for networks: Sommer et al. 2025).

Every chain is first optimised on few rows a step, then shaken by the noise of Langevin's equation while its rate falls
(Li et al. 2016), so that it ends where networks of the posterior are and not at a mode, which may have learned single
rows by heart. Then it moves on a sphere of momenta without a Metropolis test (`cbdl.bayes.methods._microcanonical`).
All chains of all members are one batch of flat parameters, to which the parameters of the noise model belong: they are
sampled too. The shared training loop counts one move as one step, so that a run can be stopped, killed and resumed like
any other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from cbdl.bayes import compiled
from cbdl.bayes._random import NormalStream
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.forward import cast
from cbdl.bayes.rows import Batch, Data, TrainingData
from cbdl.bayes.train import Adam, Plan, Record, Run, train
from cbdl.bayes.wide import Space
from cbdl.ground import memory

from ._chains import ChainsPosterior, ChainsRecord, ess, rhat
from ._microcanonical import Guard, Motion, Tuning, move, turn
from ._points import refuse_statistics, starts
from .protocol import Method

FULL = 4096
"""Tables of at most so many rows are used whole at every step, unless the user says otherwise."""
MINIBATCH = 512
SMALL = 128
"""Rows of a step of the optimisation, at most: their noise finds better modes than all rows at once do, and sooner."""
PATIENT = 0.5
"""The share of the optimisation in which rows that are not fitted yet are not taken for noise."""
CALM = 0.5
"""The share of the optimisation that adds no noise of Langevin's equation."""
FLAT = 1e-3
"""What is added to the root mean square of the slopes of U / N before they divide the noise of Langevin's equation."""


@dataclass(frozen=True)
class MCLMC(Method):
    """Settings of microcanonical Langevin Monte Carlo.

    The target is prior x likelihood^(1/T), networks in evaluation mode. Noise scales that are learned have a Normal
    prior on their logarithm (`cbdl.likelihoods.Likelihood.noise_prior`).

    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> likelihoods = [cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, (4,)), scale=0.1)]
    >>> method = cbdl.MCLMC(chains=2, optimise=20, warmup=20, draws=4)
    >>> cbdl.CBDL([cbdl.priors.Normal(0, 1)], likelihoods, method, verbose=False).fit(X, X[:, 0])
    CBDL(1 prior x 1 likelihood, MCLMC, trained on 20 rows)
    """

    chains: int = 4
    """Chains of every member, each from its own start."""
    draws: int = 50
    """Draws kept of every chain."""
    thin: int = 15
    """Steps for one kept draw."""
    warmup: int = 1250
    """Steps in which step sizes are set; two gradients each."""
    optimise: int = 3000
    """Steps of Adam before the warm-up, half of them with noise; one gradient of at most 128 rows each."""
    lr: float = 3e-2
    """Of Adam's first step; it falls along a cosine."""
    batch_size: int | None = None
    """Rows of a step; None: all of a table of up to 4,096 rows, else 512 with guards against their noise."""
    temperature: float = 1.0
    """T: the likelihood counts to the power 1 / T; 1 is Bayes' rule."""
    double: bool = False
    """Sample in float64; otherwise in float32, whatever the type of the data."""

    def __post_init__(self) -> None:
        least = {"chains": 1, "draws": 1, "thin": 1, "warmup": 20, "optimise": 0}
        for name, bound in least.items():
            value = getattr(self, name)
            if int(value) != value or value < bound:
                raise ValueError(f"{name} is {value}; it must be a whole number of at least {bound}")
        for name in ("lr", "temperature"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value}; it must be positive")
        if self.batch_size is not None and (int(self.batch_size) != self.batch_size or self.batch_size < 1):
            raise ValueError(f"batch_size is {self.batch_size}; give a whole number of at least 1, or None")

    @property
    def steps(self) -> int:
        return self.optimise + self.warmup + self.draws * self.thin

    def apart(self) -> tuple[Method, int]:
        """Chains do not meet."""
        return replace(self, chains=1), self.chains

    def effort(self, data: TrainingData) -> tuple[int, float]:
        """One gradient of few rows for a step of the optimisation, two of all for any other."""
        rows, moves = self.rows(data), 2 * (self.steps - self.optimise)
        return moves + self.optimise, float(moves * rows + min(rows, SMALL) * self.optimise)

    def brief(self) -> Method:
        """With a quarter of the optimisation and of the warm-up, and an eighth of the sampling: less optimised, chains
        have less to forget."""
        return replace(
            self,
            optimise=self.optimise // 4,
            warmup=max(20, self.warmup // 4),
            thin=max(1, self.thin // 8),
        )

    def spread(self, times: int) -> Method:
        """Draws of a chain that lie further apart."""
        draws = max(1, self.draws // times)
        return replace(
            self, chains=self.chains * times, draws=draws, thin=max(1, self.draws * self.thin // draws)
        )

    def rows(self, data: TrainingData) -> int:
        """Rows of one step on this data."""
        if self.batch_size is not None:
            return min(self.batch_size, data.rows)
        return data.rows if data.rows <= FULL and isinstance(data, Data) else MINIBATCH

    def fit(self, cohort: Cohort, data: TrainingData, run: Run) -> ChainsPosterior:
        """Draws from the posteriors of all members; `record` is an `MCLMCRecord`."""
        if self.chains > 1:
            refuse_statistics(cohort)
        dtype = cohort.initial.dtype
        inner = torch.float64 if self.double else torch.float32
        cohort, data = cohort.to(inner), data.to(cohort.initial.device, inner)
        sampler = Sampler(self, cohort, data, run.seed)
        batch = self.rows(data)
        plan = Plan(math.ceil(self.steps / data.steps(batch)), batch, self.lr, schedule="constant")
        marks = {**cohort.fingerprint(), "method": repr(self)}
        return sampler.posterior(train(sampler, data, plan, run, marks, optimiser=sampler), dtype)

    def from_state(self, cohort: Cohort, state: Mapping[str, Tensor]) -> ChainsPosterior:
        """The posterior that `state()` of another one describes."""
        return ChainsPosterior.from_state(cohort, state)


@dataclass
class MCLMCRecord(ChainsRecord):
    """What the chains say about themselves."""

    step_size: Tensor = field(default_factory=lambda: torch.empty(0))
    """(members, chains)"""
    length: Tensor = field(default_factory=lambda: torch.empty(0))
    """Way after which a chain has forgotten its direction (members, chains)."""
    energy_variance: Tensor = field(default_factory=lambda: torch.empty(0))
    """Variance of the energy error per parameter after the warm-up (members, chains)."""
    undone: Tensor = field(default_factory=lambda: torch.empty(0))
    """Steps after the warm-up that were taken back, because the energy left all bounds (members, chains)."""


class Sampler:
    """All chains: `variables` (members, chains * (P + Q)), and in `state` everything else that must survive.

    For what moves them all chains are equal: `place` (members * chains, P + Q), a view.
    """

    def __init__(self, settings: MCLMC, cohort: Cohort, data: TrainingData, seed: int = 0) -> None:
        self.settings, self.total, self.seed = settings, data.size, seed
        self.members, self.layout = cohort.size, (cohort.size, settings.chains)
        self.whole = settings.rows(data) >= data.rows
        self.data = data
        start = starts(cohort, settings.chains)
        noise = cohort.initial_noise.unsqueeze(1).expand(-1, settings.chains, -1)
        self.variables = torch.cat([start, noise], 2).flatten(1).contiguous()
        self.parameters = start.shape[2]
        # every chain a member of its own, with its own noise parameters and buffers
        self.cohort = cohort.only([i for i in range(cohort.size) for _ in range(settings.chains)])
        self.buffers = {n: b.clone() for n, b in cohort.initial_buffers.items()}
        self.prior = _Prior(self.cohort, self.parameters)
        self.stream = NormalStream(
            cohort.seeds,
            settings.chains,
            self.place.shape[1],
            antithetic=False,
            device=start.device,
            dtype=start.dtype,
            stream="mclmc",
        )
        self.adam = Adam(self.variables)
        self.tuning = Tuning(self.place, settings.warmup)
        self.guard = Guard(self.place)
        self.state = {
            **{f"adam.{n}": v for n, v in self.adam.state.items()},
            **{f"tuning.{n}": v for n, v in self.tuning.state.items()},
            **{f"guard.{n}": v for n, v in self.guard.state.items()},
            "direction": torch.zeros_like(self.place),
            "kept": start.new_zeros(len(self.place), settings.draws, self.place.shape[1]),
            "errors": start.new_zeros(2, len(self.place), dtype=torch.float64),
            "undone": start.new_zeros(len(self.place), dtype=torch.float64),
            "potential": start.new_zeros(len(self.place), dtype=torch.float64),
        }
        self.space = Space()
        long = settings.effort(data)[0] >= compiled.LONG
        self.kernel = compiled.Kernel.of(self.cohort, self.space) if long else None
        self._here: tuple[Tensor, Tensor] | None = None
        self._batch: Batch | None = None
        self._few: tuple[int, Iterator[Batch]] | None = None

    @property
    def place(self) -> Tensor:
        return self.variables.view(self.members * self.settings.chains, -1)

    # ------------------------------------------------------------------------------------ the target density

    def potential(
        self, place: Tensor, batch: Batch | None, *, patient: bool = False
    ) -> tuple[Tensor, Tensor]:
        """U = N mean NLL / T - log prior at every chain's place (chains, P + Q), and its gradient."""
        theta, noise = place[:, : self.parameters].unsqueeze(1), place[:, self.parameters :]
        scale = self.total / self.settings.temperature
        value, slope = self.prior(place)
        for part in self.parts if batch is None else (batch,):
            if self.kernel is not None:
                self.kernel.add(place, part, scale, value, slope, patient=patient)
                continue
            nll, by_theta, by_noise = self.cohort.gradient(
                theta,
                noise,
                part,
                self.buffers_of_chains,
                scale,
                training=False,
                patient=patient,
                space=self.space,
            )
            value += scale * nll[:, 0]
            slope[:, : self.parameters] += by_theta[:, 0]
            slope[:, self.parameters :] += by_noise
        return value, slope

    @cached_property
    def parts(self) -> list[Batch]:
        """All rows, in parts of bounded memory that are always the same, weighted for each chain."""
        width = max((e.shape[0] for e in self.cohort.layout.entries if len(e.shape) > 1), default=1)
        rows = max(256, memory.limit() // 64 // (self.cohort.size * width))
        return [replace(part, weight=self.cohort.weights(part), folds=None) for part in self.data.parts(rows)]

    @cached_property
    def buffers_of_chains(self) -> dict[str, Tensor]:
        chains = self.settings.chains
        return {n: b.repeat_interleave(chains, 0) for n, b in self.buffers.items()}

    # ------------------------------------------------------------------------------------- the training loop's

    def gradient(self, batch: Batch, step: int, steps: int) -> tuple[Tensor, Tensor]:
        """U / N, mean over chains, and its gradient."""
        patient = step < PATIENT * self.settings.optimise
        if self.whole and step < self.settings.optimise:
            value, slope = self.potential(self.place, self._some(step), patient=patient)
        elif not self.whole:
            value, slope = self.potential(self.place, batch, patient=patient)
            self._batch = batch
        elif self._here is not None:
            value, slope = self._here
        else:
            value, slope = self.potential(self.place, None)
        self._here = value, slope
        loss = value.view(self.layout).mean(1) / self.total
        return loss, (slope / self.total).view(self.members, -1)

    def _some(self, step: int) -> Batch | None:
        """The rows of one step of the optimisation; None: all, if they are few."""
        steps = self.data.steps(SMALL)
        if steps == 1:
            return None
        if self._few is None or self._few[0] != step or step % steps == 0:
            self._few = step, iter(self.data.epoch(self.seed, step // steps, SMALL, step % steps))
        few = self._few[1]
        self._few = step + 1, few
        return next(few)

    def validate(self, data: TrainingData) -> Tensor:
        place = self.place
        theta, noise = place[:, : self.parameters].unsqueeze(1), place[:, self.parameters :]
        return self.cohort.mean_nll(theta, noise, self.buffers_of_chains, data).view(self.layout).mean(1)

    def step(self, variables: Tensor, gradient: Tensor, rate: float, step: int) -> None:
        """One step of Adam, or one move of the chains and what is learned from it."""
        optimise = self.settings.optimise
        if step >= optimise:
            self._move(step - optimise, self.stream(step).flatten(0, 1))
            return
        rate *= 0.5 * (1 + math.cos(math.pi * step / optimise))
        self.adam.step(variables, gradient, rate, step)
        if step >= CALM * optimise:
            self._shake(rate, step)
        self._here = None

    def _shake(self, rate: float, step: int) -> None:
        """The noise that makes a step of Adam, without its momentum, one of Langevin's equation with Adam's scales."""
        spread = self.adam.scales(step).add_(FLAT).reciprocal_().mul_(2 * rate / self.total).sqrt_()
        self.variables.addcmul_(spread, self.stream(step).view_as(spread))

    def _move(self, number: int, noise: Tensor) -> None:
        settings, direction = self.settings, self.state["direction"]
        if number == 0:
            direction.copy_(torch.nn.functional.normalize(noise, dim=1))
        assert self._here is not None
        here = Motion(self.place, direction, *self._here)
        batch = None if self.whole else self._batch
        turns = turn if self.kernel is None else compiled.turn
        there, error = move(
            here,
            self.tuning.size,
            lambda place: self.potential(place, batch),
            turns,
            scales=self.tuning.scales,
        )
        lost = ~torch.isfinite(error)
        if bool(lost.any()):
            self.tuning.shrink(lost)
        if not self.whole:
            lost |= self.guard.refuses(error)
        if bool(lost.any()):
            there = there.where(~lost, here)
        if number < settings.warmup:
            self.tuning.learn(number, there.place, there.slope, torch.where(lost, 0.0, error))
        self.place.copy_(there.place)
        direction.copy_(self.tuning.refreshed(there.direction, noise, lost))
        self._here = (there.potential, there.slope) if self.whole else None
        if number >= settings.warmup:
            self._keep(number - settings.warmup, error, lost)
            self.state["potential"] += there.potential - self.prior(there.place)[0]

    def _keep(self, number: int, error: Tensor, lost: Tensor) -> None:
        s, thin = self.state, self.settings.thin
        taken = torch.where(lost, 0.0, error).double()
        s["errors"] += torch.stack([taken, taken.square()])
        s["undone"] += lost
        place = number // thin
        if (number + 1) % thin == 0 and place < self.settings.draws:
            s["kept"][:, place] = self.place

    # -------------------------------------------------------------------------------------------- the result

    def posterior(self, record: Record, dtype: torch.dtype) -> ChainsPosterior:
        """What the chains have seen."""
        s, settings = self.state, self.settings
        kept = s["kept"].view(*self.layout, settings.draws, -1)
        points, noises = kept[..., : self.parameters].clone(), kept[..., self.parameters :].clone()
        first, second = (e / (settings.draws * settings.thin) for e in s["errors"])
        full = MCLMCRecord(
            **vars(record),
            rhat=rhat(points),
            ess=ess(points),
            step_size=self.tuning.size.view(self.layout).clone(),
            length=self.tuning.length.view(self.layout).clone(),
            energy_variance=((second - first.square()) / self.place.shape[1]).view(self.layout),
            undone=s["undone"].view(self.layout).clone(),
            nll=s["potential"].view(self.layout)
            * (settings.temperature / self.total / (settings.draws * settings.thin)),
        )
        seeds = tuple(m.seed for m in self.cohort.members[:: settings.chains])
        buffers = cast(self.buffers, dtype)
        return ChainsPosterior(
            points,
            noises,
            seeds=seeds,
            noise=noises.mean((1, 2)).to(dtype),
            buffers=buffers,
            record=full,
        )


class _Prior:
    """-log prior of networks and noise parameters (chains, P + Q) up to a constant, and its gradient."""

    def __init__(self, cohort: Cohort, parameters: int) -> None:
        self.joint, self.parameters = cohort.prior, parameters
        noise = cohort.likelihood.noise_prior(cohort.unit)
        loc, scale = (v.to(cohort.initial.dtype).expand(cohort.size, -1) for v in noise)
        self.normal: tuple[Tensor, Tensor] | None = None
        if self.joint.normal is not None:
            whole = [torch.cat(pair, 1) for pair in zip(self.joint.normal, (loc, scale), strict=True)]
            self.normal = whole[0], whole[1].square().reciprocal()
        self.noise = loc, scale.square().reciprocal()

    def __call__(self, place: Tensor) -> tuple[Tensor, Tensor]:
        loc, precision = self.noise if self.normal is None else self.normal
        away = (place if self.normal is not None else place[:, self.parameters :]) - loc
        slope = away * precision
        value = 0.5 * torch.linalg.vecdot(away, slope)
        if self.normal is not None:
            return value, slope
        density, by_prior = self.joint.log_density_and_slope(place[:, : self.parameters].unsqueeze(1))
        return value - density[:, 0], torch.cat([-by_prior[:, 0], slope], 1)
