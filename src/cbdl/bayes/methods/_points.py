"""Points in the space of parameters: their loss mean NLL - T log prior / N, and a posterior that is a set of
them.

What Ensemble, Laplace, LastLayer, SGHMC and HMC share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.bayes._random import generator, mix
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.forward import Buffers
from cbdl.bayes.rows import Batch, TrainingData

from .protocol import Posterior, common, prefixed


def starts(cohort: Cohort, copies: int) -> Tensor:
    """Where `copies` points of every member start (members, copies, P).

    The first is the member's own initialisation; the others are further networks from the factory, seeded by
    (the member's seed, the number of the copy).
    """
    further = [
        torch.stack([cohort.start(mix(own, "copy", copy)) for own in cohort.seeds])
        for copy in range(1, copies)
    ]
    return torch.stack([cohort.initial, *further], 1)


class PointObjective:
    """mean NLL - T log prior / N at `copies` points of every member, with its gradient: a trainee.

    `variables` (members, copies * P + Q): the points, then the noise parameters, which the copies share.
    Every copy has the whole gradient of its own loss; the loss that is shown is the mean over copies.
    """

    def __init__(
        self,
        cohort: Cohort,
        data: TrainingData,
        start: Tensor,
        *,
        temperature: float = 1.0,
        noise: Tensor | None = None,
    ) -> None:
        self.cohort, self.temperature, self.total = cohort, temperature, data.size
        self.copies, self.size = start.shape[1], start.shape[2]
        own = cohort.initial_noise if noise is None else noise
        self.variables = torch.cat([start.flatten(1), own], 1)
        self.buffers = {n: b.clone() for n, b in cohort.initial_buffers.items()}
        if self.copies > 1:
            refuse_statistics(cohort)

    @property
    def theta(self) -> Tensor:
        """The points (members, copies, P): a view."""
        return self.variables[:, : self.copies * self.size].view(-1, self.copies, self.size)

    @property
    def noise(self) -> Tensor:
        """(members, Q): a view."""
        return self.variables[:, self.copies * self.size :]

    def gradient(self, batch: Batch, step: int, steps: int) -> tuple[Tensor, Tensor]:
        cohort, theta = self.cohort, self.theta
        nll, by_theta, by_noise = cohort.gradient(theta, self.noise, batch, self.buffers, 1.0, step)
        density, by_prior = cohort.prior.log_density_and_slope(theta)
        weight = self.temperature / self.total
        by_theta = by_theta.sub(by_prior, alpha=weight)
        loss = (nll - weight * density).mean(1)
        return loss, torch.cat([by_theta.flatten(1), by_noise / self.copies], 1)

    def validate(self, data: TrainingData) -> Tensor:
        """The validation NLL, mean over copies."""
        return self.cohort.mean_nll(self.theta, self.noise, self.buffers, data).mean(1)


def refuse_statistics(cohort: Cohort) -> None:
    """A ValueError if the network keeps running statistics: they are kept per member, not per point."""
    for name, module in cohort.forward.network.named_modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.track_running_stats:
            raise ValueError(
                f"{name or 'the network'} is a {type(module).__name__}: its running statistics are kept per member, "
                "so that several restarts or chains cannot share them; use one, or GroupNorm or LayerNorm"
            )


@dataclass(frozen=True)
class PointsPosterior(Posterior):
    """Finitely many equally likely parameter vectors of every member: points (members, D, P)."""

    points: Tensor

    @property
    def distinct(self) -> int:
        return self.points.shape[1]

    def sample(self, draws: int, seed: int = 0, start: int = 0) -> Tensor:
        """theta (members, draws, P): draws number start, start + 1, ... of the points in a random order, again and
        again if there are too few.
        """
        number = self.points.shape[1]
        rounds = -(-(start + draws) // number)

        def order(own: int) -> Tensor:
            source = generator("cpu", own, "sample", seed)
            return torch.cat([torch.randperm(number, generator=source) for _ in range(rounds)])[
                start : start + draws
            ]

        index = torch.stack([order(own) for own in self.seeds]).to(self.points.device)
        return self.points.take_along_dim(index.unsqueeze(-1), 1)

    def state(self) -> dict[str, Tensor]:
        return {"points": self.points, "noise": self.noise, **prefixed(self.buffers, "buffer")}

    def moments(self) -> tuple[Tensor, Tensor]:
        return self.points.mean(1), self.points.std(1, correction=0)

    @classmethod
    def from_state(cls, cohort: Cohort, state: Mapping[str, Tensor]) -> PointsPosterior:
        return cls(state["points"], **common(cohort, state))


def normal_draws(seeds: tuple[int, ...], draws: int, size: int, like: Tensor, *keys: int | str) -> Tensor:
    """Standard Normal numbers (members, draws, size), each member from its own stream."""

    def one(own: int) -> Tensor:
        source = generator(like.device, own, *keys)
        return torch.randn((draws, size), generator=source, device=like.device, dtype=like.dtype)

    return torch.stack([one(own) for own in seeds])


class Potential:
    """U(theta) = N mean NLL - log prior on all rows, in evaluation mode, with its gradient.

    exp(-U) is the posterior density up to a constant. Rows are summed in parts of `batch_size`, always the
    same.
    """

    def __init__(self, cohort: Cohort, data: TrainingData, buffers: Buffers, batch_size: int = 4096) -> None:
        self.cohort, self.data, self.buffers, self.batch_size = cohort, data, buffers, batch_size

    def __call__(self, theta: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """U (members, copies), its gradient by theta (members, copies, P), and by noise (members, Q), the
        mean over copies.
        """
        cohort, total = self.cohort, self.data.size
        value, by_theta = theta.new_zeros(theta.shape[:2]), torch.zeros_like(theta)
        by_noise = torch.zeros_like(noise)
        for batch in self.data.parts(self.batch_size):
            nll, more, own = cohort.gradient(theta, noise, batch, self.buffers, total, training=False)
            value += total * nll
            by_theta += more
            by_noise += own / theta.shape[1]
        density, by_prior = cohort.prior.log_density_and_slope(theta)
        return value - density, by_theta - by_prior, by_noise
