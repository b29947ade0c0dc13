"""Hamiltonian Monte Carlo: draws from the exact posterior, for small networks; what other methods are
measured by.

All members and all chains move as one batch: full-batch gradients, leapfrog steps, a Metropolis test. In the
warm-up the step size of each member is set by dual averaging (Hoffman and Gelman 2014) and the masses by the
variances seen so far; both depend on the member alone. The shared training loop counts one iteration as one
step, so that a run can be stopped, killed and resumed like any other.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cbdl.bayes._random import NormalStream
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.forward import cast
from cbdl.bayes.rows import Batch, Data, TrainingData
from cbdl.bayes.train import Plan, Record, Run, TrainingWarning, train

from ._chains import ChainsRecord, ess, rhat
from ._points import PointsPosterior, Potential, starts
from .protocol import Method

WINDOWS = (0.15, 0.3, 0.5, 0.9)
"""Shares of the warm-up between which the variances are gathered; at each end the masses are set."""


@dataclass(frozen=True)
class HMC(Method):
    """Settings of Hamiltonian Monte Carlo.

    The target is prior x likelihood^1, networks in evaluation mode (running statistics stay as they are). The
    parameters of a learned noise scale are no part of it: during the warm-up they follow the mean gradient
    over the chains with a falling rate (stochastic approximation of type-II maximum likelihood), then stay.

    >>> HMC(draws=100)
    HMC(warmup=500, draws=100, chains=4, thin=1, accept=0.8, length=1.5707963267948966, leapfrogs=64, double=False)
    """

    warmup: int = 500
    """Iterations in which step sizes and masses are set."""
    draws: int = 250
    """Iterations kept of every chain."""
    chains: int = 4
    """Chains of every member, each from its own start."""
    thin: int = 1
    """Iterations for one kept draw."""
    accept: float = 0.8
    """The share of accepted proposals that the step size aims at."""
    length: float = math.pi / 2
    """Time of a trajectory; the unit is a posterior standard deviation, as the masses know it."""
    leapfrogs: int = 64
    """The most steps of a trajectory."""
    double: bool = False
    """Sample in float64 whatever the type of the data; the draws that are kept have the data's type."""

    def __post_init__(self) -> None:
        for name, least in (("warmup", 20), ("draws", 1), ("chains", 1), ("thin", 1), ("leapfrogs", 1)):
            value = getattr(self, name)
            if int(value) != value or value < least:
                raise ValueError(f"{name} is {value}; it must be a whole number of at least {least}")
        if not 0 < self.accept < 1:
            raise ValueError(f"accept is {self.accept}; it is a share, between 0 and 1")
        if not (math.isfinite(self.length) and self.length > 0):
            raise ValueError(f"length is {self.length}; it must be positive")

    @property
    def iterations(self) -> int:
        return self.warmup + self.draws * self.thin

    def fit(self, cohort: Cohort, data: TrainingData, run: Run) -> PointsPosterior:
        """Draws from the posteriors of all members; `record` is an `HMCRecord`."""
        if not isinstance(data, Data):
            raise ValueError(
                "HMC visits all rows at every leapfrog step, so that they must be in memory: fit with stream=False, "
                "or use a method that takes minibatches, such as SGHMC"
            )
        dtype = cohort.initial.dtype
        if self.double:
            cohort, data = cohort.to(torch.float64), data.to(data.x.device, torch.float64)
        sampler = _Sampler(self, cohort, data)
        plan = Plan(epochs=self.iterations, batch_size=data.rows, lr=1.0, schedule="constant")
        marks = {**cohort.fingerprint(), "method": repr(self)}
        record = sampler.report(train(sampler, data, plan, run, marks, optimiser=sampler))
        points = sampler.state["kept"].flatten(1, 2).to(dtype)
        buffers = cast(sampler.buffers, dtype)
        return PointsPosterior(
            points, seeds=cohort.seeds, noise=sampler.noise.to(dtype), buffers=buffers, record=record
        )

    def from_state(self, cohort: Cohort, state: Mapping[str, Tensor]) -> PointsPosterior:
        """The posterior that `state()` of another one describes."""
        return PointsPosterior.from_state(cohort, state)


@dataclass
class HMCRecord(ChainsRecord):
    """What the chains, and the trajectories that made them, say about themselves."""

    rhat_energy: Tensor = field(default_factory=lambda: torch.empty(0))
    """Split R-hat of the potential energy (members,): it does not see which of equal modes a chain is in."""
    acceptance: Tensor = field(default_factory=lambda: torch.empty(0))
    """Mean acceptance after the warm-up (members,)."""
    step_size: Tensor = field(default_factory=lambda: torch.empty(0))
    divergences: Tensor = field(default_factory=lambda: torch.empty(0))
    """Trajectories after the warm-up whose energy left all bounds (members,)."""


class _Sampler:
    """All chains: `variables` (members, chains * P + Q), and in `state` everything else that must survive."""

    def __init__(self, settings: HMC, cohort: Cohort, data: Data) -> None:
        self.settings, self.cohort, self.total = settings, cohort, data.size
        start = starts(cohort, settings.chains)
        members, chains, size = start.shape
        self.size = size
        self.variables = torch.cat([start.flatten(1), cohort.initial_noise], 1)
        self.buffers = {n: b.clone() for n, b in cohort.initial_buffers.items()}
        self.potential = Potential(cohort, data, self.buffers)
        self.stream = NormalStream(
            cohort.seeds,
            chains,
            size + 2,
            antithetic=False,
            device=start.device,
            dtype=start.dtype,
            stream="hmc",
        )
        first = math.log(0.5 / size**0.25)
        one = start.new_zeros(members)
        self.state = {
            "kept": start.new_zeros(members, chains, settings.draws, size),
            "energy": start.new_zeros(members, chains, settings.draws),
            "inverse_mass": cohort.prior.spread().square(),
            # dual averaging: log step size, its average, the sum of errors, the anchor, the count
            "log_step": one + first,
            "log_average": one + first,
            "error": one.clone(),
            "anchor": one + first + math.log(10.0),
            "count": one.clone(),
            # variances of the window
            "seen": one.clone(),
            "mean": start.new_zeros(members, size),
            "squares": start.new_zeros(members, size),
            "acceptance": one.clone(),
            "divergences": one.clone(),
        }
        self._here: tuple[Tensor, Tensor] | None = None

    @property
    def theta(self) -> Tensor:
        chains = self.settings.chains
        return self.variables[:, : chains * self.size].view(-1, chains, self.size)

    @property
    def noise(self) -> Tensor:
        return self.variables[:, self.settings.chains * self.size :]

    # ------------------------------------------------------------------------------- the training loop's

    def gradient(self, batch: Batch, step: int, steps: int) -> tuple[Tensor, Tensor]:
        """U / N, mean over chains, and its gradient; of all rows, whatever the batch."""
        value, by_theta, by_noise = self.potential(self.theta, self.noise)
        self._here = value, by_theta
        return value.mean(1) / self.total, torch.cat([by_theta.flatten(1), by_noise], 1) / self.total

    def validate(self, data: TrainingData) -> Tensor:
        return self.cohort.mean_nll(self.theta, self.noise, self.buffers, data).mean(1)

    def step(self, variables: Tensor, gradient: Tensor, rate: float, step: int) -> None:
        """One iteration: a trajectory, a test, and what the warm-up learns from it."""
        settings = self.settings
        theta, noise = self.theta, self.noise
        numbers = self.stream(step)
        log_step = self.state["log_step" if step < settings.warmup else "log_average"]
        # until the masses are known a trajectory of full length would have far too many steps
        most = settings.leapfrogs if step >= WINDOWS[1] * settings.warmup else min(8, settings.leapfrogs)
        end, energy, gain = self._trajectory(theta, noise, numbers, log_step.exp(), most)
        uniform = torch.special.ndtr(numbers[..., -1])
        # exp(min(0, gain)) is at most 1; a gain that is no number loses against every uniform
        probability = gain.nan_to_num(-math.inf, math.inf, -math.inf).clamp(max=0).exp()
        taken = uniform < probability
        assert self._here is not None
        theta.copy_(torch.where(taken.unsqueeze(-1), end, theta))
        energy = torch.where(taken, energy, self._here[0])
        if step < settings.warmup:
            self._adapt(step, probability.mean(1))
            if noise.numel():
                noise.sub_(gradient[:, -noise.shape[1] :].clamp(-1, 1), alpha=0.5 * (step + 1) ** -0.6)
        else:
            self._keep(step - settings.warmup, energy, probability.mean(1), gain)

    # ------------------------------------------------------------------------------------- one trajectory

    def _trajectory(
        self, theta: Tensor, noise: Tensor, numbers: Tensor, size: Tensor, most: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The end of each chain's trajectory, its potential (members, chains), and minus the gain in energy.

        Every member has its own number of steps; those that are through wait. The chains of a member have
        step sizes within a fifth of its own, so that no trajectory is periodic.
        """
        assert self._here is not None
        value, slope = self._here
        inverse = self.state["inverse_mass"].unsqueeze(1)
        momentum = numbers[..., :-2] / inverse.sqrt()
        jitter = 0.8 + 0.4 * torch.special.ndtr(numbers[..., -2])
        step = (size.unsqueeze(1) * jitter).unsqueeze(-1)
        count = (self.settings.length / size).ceil().nan_to_num(most).clamp(1, most)
        before = value + 0.5 * (momentum.square() * inverse).sum(-1)
        theta, energy = theta.clone(), value
        for i in range(int(count.max())):
            going = (i < count)[:, None, None]
            pushed = momentum - 0.5 * step * slope
            moved = theta + step * inverse * pushed
            potential, by_theta, _ = self.potential(moved, noise)
            pushed = pushed - 0.5 * step * by_theta
            theta, momentum = torch.where(going, moved, theta), torch.where(going, pushed, momentum)
            energy, slope = torch.where(going[..., 0], potential, energy), torch.where(going, by_theta, slope)
        return theta, energy, before - energy - 0.5 * (momentum.square() * inverse).sum(-1)

    # ---------------------------------------------------------------------------------------- the warm-up

    def _adapt(self, step: int, probability: Tensor) -> None:
        """Dual averaging of log step sizes; masses at the ends of the windows."""
        s, share = self.state, (step + 1) / self.settings.warmup
        s["count"] += 1
        t = s["count"]
        s["error"] += (self.settings.accept - probability - s["error"]) / (t + 10)
        s["log_step"].copy_((s["anchor"] - t.sqrt() / 0.05 * s["error"]).clamp(math.log(1e-8), math.log(2.0)))
        weight = t**-0.75
        s["log_average"].copy_(weight * s["log_step"] + (1 - weight) * s["log_average"])
        if not WINDOWS[0] <= share <= WINDOWS[-1]:
            return
        for chain in self.theta.unbind(1):
            s["seen"] += 1
            away = chain - s["mean"]
            s["mean"] += away / s["seen"].unsqueeze(1)
            s["squares"] += away * (chain - s["mean"])
        # the last iteration within a window
        after = (step + 2) / self.settings.warmup
        if any(share <= w < after for w in WINDOWS[1:]):
            self._set_masses()

    def _set_masses(self) -> None:
        s = self.state
        n = s["seen"].unsqueeze(1)
        variance = s["squares"] / (n - 1).clamp_min(1)
        # a little of the prior's variance, so that a coordinate that has not moved yet gets no mass without end
        s["inverse_mass"].copy_((n * variance + 5e-3 * self.cohort.prior.spread().square()) / (n + 5))
        for name in ("seen", "mean", "squares", "error", "count"):
            s[name].zero_()
        s["anchor"].copy_(s["log_average"].clamp(max=0.0) + math.log(10.0))

    def _keep(self, number: int, energy: Tensor, probability: Tensor, gain: Tensor) -> None:
        s, settings = self.state, self.settings
        s["acceptance"] += probability / (settings.draws * settings.thin)
        s["divergences"] += (~(gain > -1000)).sum(1)
        if (number + 1) % settings.thin == 0:
            s["kept"][:, :, number // settings.thin] = self.theta
            s["energy"][:, :, number // settings.thin] = energy

    def report(self, record: Record) -> HMCRecord:
        """The record, with what the chains say; a warning if they disagree about the energy."""
        s = self.state
        energy = rhat(s["energy"].unsqueeze(-1))[..., 0]
        for i in (energy > 1.2).nonzero().flatten().tolist():
            warnings.warn(
                f"HMC: the chains of member {i} have not mixed (R-hat of the energy {float(energy[i]):.2f}); "
                "raise warmup and draws",
                TrainingWarning,
                stacklevel=3,
            )
        return HMCRecord(
            **vars(record),
            rhat=rhat(s["kept"]),
            ess=ess(s["kept"]),
            rhat_energy=energy,
            acceptance=s["acceptance"].clone(),
            step_size=s["log_average"].exp(),
            divergences=s["divergences"].long(),
        )
