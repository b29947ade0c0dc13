"""Stochastic-gradient Hamiltonian Monte Carlo: draws along a noisy trajectory (Chen, Fox and Guestrin 2014).

With U = N mean NLL - log prior, h = sqrt(lr / N) and friction, one step with the minibatch's gradient is

    v <- v - h grad U;   theta <- theta + h/2 v;   v <- c v + sqrt((1 - c^2) T) z;   theta <- theta + h/2 v

which is the splitting BAOAB of Langevin dynamics (Leimkuhler and Matthews 2013) with the two half kicks of
neighbouring steps taken at once: as cheap as the Euler steps of the paper, but with full batches the draws of
a Normal posterior are exact for every stable step (lr times the largest curvature of the mean loss below 4),
not only for small ones. Minibatches make the draws hotter. With V the variance between batches of the mean
loss's gradient and l its curvature, both along one axis, the temperature is not T but

    T + lr N V (1 + c) / (4 (1 - c) (1 - lr l / 4)):

lower lr or momentum, or enlarge the batches, until the second term is small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cbdl.bayes._random import NormalStream
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.rows import TrainingData
from cbdl.bayes.train import Plan, Run, train

from ._chains import ChainsRecord, ess, rhat
from ._points import PointObjective, PointsPosterior, starts
from .protocol import Method

STEPS, EPOCHS = 4_000, 20
"""Steps, and epochs at the least, of a chain whose length was not given."""


@dataclass(frozen=True)
class SGHMC(Method):
    """Settings of stochastic-gradient Hamiltonian Monte Carlo.

    `burn_in` steps are thrown away; the draws are then taken at equal distances. With `cycles` the steps
    after the burn-in are that many cycles, in each of which the rate falls from lr to 0 as a cosine (Zhang et
    al. 2020): without noise in the share `exploration`, to find another mode; then with noise, and the
    cycle's draws are taken. The parameters of a learned noise scale follow their gradient during the burn-in,
    at a falling rate, and then stay.

    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> likelihoods = [cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, (4,)), scale=0.1)]
    >>> method = cbdl.SGHMC(epochs=8, draws=4)
    >>> cbdl.CBDL([cbdl.priors.Normal(0, 1)], likelihoods, method, verbose=False).fit(X, X[:, 0])
    CBDL(1 prior x 1 likelihood, SGHMC, trained on 20 rows)
    """

    epochs: int | None = None
    """None: enough for 4,000 steps, at least 20."""
    batch_size: int = 128
    """Rows of a step."""
    lr: float = 3e-3
    """The rate: N times the square of the dynamics' step size."""
    momentum: float = 0.9
    """c: the share of the velocity that a step leaves."""
    temperature: float = 1.0
    """T: the target is the posterior density to the power 1 / T."""
    burn_in: float = 0.5
    """Share of the steps."""
    draws: int = 20
    """Draws kept of every chain."""
    chains: int = 1
    """Chains of every member, each from its own start."""
    cycles: int | None = None
    """None: a constant rate."""
    exploration: float = 0.5
    """Share of a cycle without noise."""
    clip: float | None = None
    """Largest norm of a member's gradient; a norm that is often clipped changes the target."""

    def __post_init__(self) -> None:
        for name in ("draws", "chains"):
            value = getattr(self, name)
            if int(value) != value or value < 1:
                raise ValueError(f"{name} is {value}; it must be a whole number of at least 1")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum is {self.momentum}; it must be at least 0 and below 1")
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature is {self.temperature}; it must be at least 0 (1: Bayes' rule)")
        for name in ("burn_in", "exploration"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it is a share, at least 0 and below 1")
        if self.cycles is not None and (self.cycles < 1 or self.draws % self.cycles):
            raise ValueError(f"cycles is {self.cycles}; it must divide draws ({self.draws})")
        self.plan  # noqa: B018  its own checks

    @property
    def plan(self) -> Plan:
        return Plan(self.epochs, self.batch_size, self.lr, schedule="constant", clip=self.clip)

    def length(self, data: TrainingData) -> int:
        """Epochs of a training on these rows."""
        return self.epochs or max(EPOCHS, -(-STEPS // data.steps(self.batch_size)))

    def fit(self, cohort: Cohort, data: TrainingData, run: Run) -> PointsPosterior:
        """Draws from the posteriors of all members; `record` is a `ChainsRecord`."""
        trainee = PointObjective(cohort, data, starts(cohort, self.chains))
        epochs = self.length(data)
        dynamics = _Dynamics(self, trainee, epochs * data.steps(self.batch_size))
        marks = {**cohort.fingerprint(), "method": repr(self)}
        record = train(trainee, data, replace(self.plan, epochs=epochs), run, marks, optimiser=dynamics)
        kept = dynamics.state["kept"]
        full = ChainsRecord(**vars(record), rhat=rhat(kept), ess=ess(kept))
        return PointsPosterior(
            kept.flatten(1, 2).clone(),
            seeds=cohort.seeds,
            noise=trainee.noise.clone(),
            buffers=trainee.buffers,
            record=full,
        )

    def from_state(self, cohort: Cohort, state: Mapping[str, Tensor]) -> PointsPosterior:
        """The posterior that `state()` of another one describes."""
        return PointsPosterior.from_state(cohort, state)

    # ------------------------------------------------------------------------------------- the schedule

    def start(self, steps: int) -> int:
        """The first step after the burn-in."""
        return round(self.burn_in * steps)

    def schedule(self, step: int, steps: int) -> tuple[float, bool]:
        """The factor of the rate at `step`, and whether there is noise."""
        start = self.start(steps)
        if self.cycles is None or step < start:
            return 1.0, True
        place = (step - start) * self.cycles / (steps - start) % 1.0
        return 0.5 * (math.cos(math.pi * place) + 1), place >= self.exploration

    def moments(self, steps: int) -> dict[int, int]:
        """After which steps a draw is kept -> its number."""
        start, cycles = self.start(steps), self.cycles or 1
        each = self.draws // cycles
        first = self.exploration if self.cycles else 0.0
        moments: dict[int, int] = {}
        for number in range(self.draws):
            cycle, j = divmod(number, each)
            place = cycle + first + (1 - first) * (j + 1) / each
            moments[start + math.floor(place * (steps - start) / cycles + 1e-9) - 1] = number
        if len(moments) < self.draws or min(moments) < start:
            raise ValueError(
                f"draws is {self.draws}, but only {steps - start} steps come after the burn-in; train for more epochs, "
                "or keep fewer draws"
            )
        return moments


class _Dynamics:
    """The optimiser: moves `variables` (members, chains * P + Q) by the module's step, and keeps draws."""

    def __init__(self, settings: SGHMC, trainee: PointObjective, steps: int) -> None:
        self.settings, self.steps, self.total = settings, steps, trainee.total
        theta, q = trainee.theta, trainee.noise.shape[1]
        members, chains, size = theta.shape
        self.shape, self.moments = (members, chains, size), settings.moments(steps)
        if q and settings.start(steps) == 0:
            raise ValueError(
                "burn_in is 0, but the noise scale is learned during the burn-in; give it a share"
            )
        self.stream = NormalStream(
            trainee.cohort.seeds,
            chains,
            size,
            antithetic=False,
            device=theta.device,
            dtype=theta.dtype,
            stream="sghmc",
        )
        self.state = {
            "velocity": torch.zeros_like(theta).flatten(1),
            "kept": theta.new_zeros(members, chains, settings.draws, size),
        }

    def step(self, variables: Tensor, gradient: Tensor, rate: float, step: int) -> None:
        settings, v = self.settings, self.state["velocity"]
        width = v.shape[1]
        theta = variables[:, :width]
        factor, hot = settings.schedule(step, self.steps)
        h, c = math.sqrt(rate * factor / self.total), settings.momentum
        v.sub_(gradient[:, :width], alpha=h * self.total)
        theta.add_(v, alpha=0.5 * h)
        v.mul_(c)
        if hot and settings.temperature > 0:
            v.add_(self.stream(step).flatten(1), alpha=math.sqrt((1 - c * c) * settings.temperature))
        theta.add_(v, alpha=0.5 * h)
        start = settings.start(self.steps)
        if width < variables.shape[1] and step < start:
            fall = 0.1 * (1 - step / start)
            variables[:, width:].sub_(gradient[:, width:].clamp(-1, 1), alpha=fall)
        number = self.moments.get(step)
        if number is not None:
            self.state["kept"][:, :, number] = theta.view(self.shape)
