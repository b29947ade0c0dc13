"""Monte Carlo dropout as a posterior over parameters (Gal and Ghahramani 2016).

A draw is theta = weights * mask / (1 - p): every input unit of every weight matrix is dropped with
probability p, all its outgoing weights at once. The masks act on the flat parameters, not through nn.Dropout
layers of the network, because a posterior here is a distribution of parameters: one draw is one function,
the same for all inputs; any nn.Module serves, with dropout layers or without; and masked networks are
evaluated by the fast ways of `forward`. The price: in training one mask serves a whole minibatch, which makes
gradients noisier than a mask for every row; `draws` > 1 masks per step make up for it. Dropout layers that the
network has are active in training, as in any training, and silent afterwards: leave them out.

The objective is E_q[mean NLL] - E_q[log prior] / N, for any prior; it is the ELBO of the masks' distribution
up to their entropy, which is constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor, nn

from cbdl.bayes._random import NormalStream
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.draws import common_normal
from cbdl.bayes.flat import TRANSPOSED
from cbdl.bayes.rows import Batch, TrainingData
from cbdl.bayes.train import Plan, Record, Run, train

from .protocol import Method, Posterior, common, prefixed


@dataclass(frozen=True)
class Dropout(Plan, Method):
    """Settings of Monte Carlo dropout.

    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> likelihoods = [cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, (4,)), scale=0.1)]
    >>> method = cbdl.Dropout(epochs=2, p=0.2)
    >>> cbdl.CBDL([cbdl.priors.Normal(0, 1)], likelihoods, method, verbose=False).fit(X, X[:, 0])
    CBDL(1 prior x 1 likelihood, Dropout, trained on 20 rows)
    """

    p: float = 0.1
    """Probability that a unit is dropped."""
    inputs: float = 0.0
    """The same for the units that enter the first layer: the features of the data themselves."""
    draws: int = 1
    """Masks per step."""
    _: KW_ONLY
    validation_draws: int = 8
    """Draws behind a validation score."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("p", "inputs"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; a probability of dropping is below 1")
        for name in ("draws", "validation_draws"):
            value = getattr(self, name)
            if int(value) != value or value < 1:
                raise ValueError(f"{name} is {value}; it must be a whole number of at least 1")

    def fit(self, cohort: Cohort, data: TrainingData, run: Run) -> DropoutPosterior:
        """The weights of all members of the cohort, trained together."""
        trainee = _Objective(self, cohort, data)
        record = train(
            trainee, data, self.plan_for(cohort.layout), run, {**cohort.fingerprint(), "method": repr(self)}
        )
        return trainee.posterior(record)

    def from_state(self, cohort: Cohort, state: Mapping[str, Tensor]) -> DropoutPosterior:
        """The posterior that `state()` of another one describes."""
        units = Units.of(cohort, self.p, self.inputs)
        return DropoutPosterior(state["weights"], units, **common(cohort, state))


@dataclass(frozen=True)
class Units:
    """Which coordinates are dropped together.

    unit (P,): the number of each coordinate's unit; the last number is that of coordinates that stay. below
    (units,): a standard Normal number below it drops the unit; gain (units + 1,): 1 / (1 - p), and 1.
    """

    unit: Tensor
    below: Tensor
    gain: Tensor

    @classmethod
    def of(cls, cohort: Cohort, p: float, inputs: float) -> Units:
        """Input units of Linear, convolution and recurrent weights; rows of embeddings; no vectors (biases,
        norms) and no weights of grouped convolutions, whose columns belong to several units.
        """
        like, network, count = cohort.initial, cohort.forward.network, 0
        numbers: list[Tensor] = []
        chances: list[Tensor] = []
        for entry in cohort.layout.entries:
            owner = network.get_submodule(entry.name.rpartition(".")[0])
            if len(entry.shape) < 2 or getattr(owner, "groups", 1) > 1:
                numbers.append(torch.full((entry.size,), -1))
                continue
            axis = 0 if isinstance(owner, (nn.Embedding, nn.EmbeddingBag, *TRANSPOSED)) else 1
            width = entry.shape[axis]
            shape = [width if a == axis else 1 for a in range(len(entry.shape))]
            numbers.append((count + torch.arange(width)).reshape(shape).expand(entry.shape).reshape(-1))
            chances.append(torch.full((width,), p if chances else inputs, dtype=torch.float64))
            count += width
        if not chances:
            raise ValueError("Dropout: the network has no weight matrix, so that there is no unit to drop")
        chance = torch.cat(chances)
        unit = torch.cat(numbers)
        below = torch.special.ndtri(chance).to(like)
        gain = torch.cat([1 / (1 - chance), torch.ones(1, dtype=torch.float64)]).to(like)
        return cls(torch.where(unit < 0, count, unit).to(like.device), below, gain)

    def mask(self, numbers: Tensor) -> Tensor:
        """Standard Normal numbers (members, draws, units) -> factors of the weights (members, draws, P)."""
        stays = torch.cat(
            [numbers > self.below, numbers.new_ones((*numbers.shape[:2], 1), dtype=torch.bool)], 2
        )
        return (stays * self.gain)[..., self.unit]


@dataclass(frozen=True)
class DropoutPosterior(Posterior):
    """weights (members, P) with the units of a draw dropped at random."""

    weights: Tensor
    units: Units

    def sample(self, draws: int, seed: int = 0, start: int = 0) -> Tensor:
        """theta (members, draws, P) from the common masks number start, start + 1, ... of stream `seed`."""
        numbers = common_normal(seed, draws, len(self.units.below), like=self.weights, start=start)
        return self.weights.unsqueeze(1) * self.units.mask(numbers.unsqueeze(0))

    def moments(self) -> tuple[Tensor, Tensor]:
        # a factor is 1 / (1 - p) with probability 1 - p and else 0: mean 1, variance p / (1 - p)
        return self.weights, self.weights.abs() * (self.units.gain - 1).sqrt()[self.units.unit]

    def centre(self) -> Tensor:
        return self.weights

    def state(self) -> dict[str, Tensor]:
        return {"weights": self.weights, "noise": self.noise, **prefixed(self.buffers, "buffer")}


class _Objective:
    """mean NLL - log prior / N at masked weights, with its gradient by the weights: a trainee."""

    def __init__(self, settings: Dropout, cohort: Cohort, data: TrainingData) -> None:
        self.settings, self.cohort, self.total = settings, cohort, data.size
        self.size = cohort.layout.size
        self.units = Units.of(cohort, settings.p, settings.inputs)
        self.variables = torch.cat([cohort.initial, cohort.initial_noise], 1)
        self.buffers = {n: b.clone() for n, b in cohort.initial_buffers.items()}
        self.stream = NormalStream(
            cohort.seeds,
            settings.draws,
            len(self.units.below),
            antithetic=False,
            device=cohort.initial.device,
            dtype=cohort.initial.dtype,
            stream="mask",
        )

    def gradient(self, batch: Batch, step: int, steps: int) -> tuple[Tensor, Tensor]:
        cohort, draws = self.cohort, self.settings.draws
        weights, noise = self.variables[:, : self.size], self.variables[:, self.size :]
        mask = self.units.mask(self.stream(step))
        theta = weights.unsqueeze(1) * mask
        nll, by_theta, by_noise = cohort.gradient(theta, noise, batch, self.buffers, 1 / draws, step)
        density, by_prior = cohort.prior.log_density_and_slope(theta)
        by_theta = by_theta.sub(by_prior, alpha=1 / (draws * self.total))
        loss = nll.mean(1) - density.mean(1) / self.total
        return loss, torch.cat([(by_theta * mask).sum(1), by_noise], 1)

    def validate(self, data: TrainingData) -> Tensor:
        """The mean validation NLL of fixed draws."""
        posterior = self.posterior(None)
        theta = posterior.sample(self.settings.validation_draws, seed=-2)
        return self.cohort.mean_nll(theta, posterior.noise, self.buffers, data).mean(1)

    def posterior(self, record: Record | None) -> DropoutPosterior:
        weights, noise = self.variables[:, : self.size].clone(), self.variables[:, self.size :].clone()
        buffers = {n: b.clone() for n, b in self.buffers.items()}
        return DropoutPosterior(
            weights, self.units, seeds=self.cohort.seeds, noise=noise, buffers=buffers, record=record
        )
