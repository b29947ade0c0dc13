"""One example of every kind of credal set, and of one that a newcomer might write, for the tests of the contract."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import cbdl
from cbdl.credal._border import ArrayLike, border_of, float64
from cbdl.credal._optimum import Optimum
from cbdl.credal.base import CredalSet
from cbdl.credal.classes.regions import labels_of, log_survival, region, region_from_mask


class BernoulliCredalSet(CredalSet):
    """Biased coins: the hull of m probabilities of heads (..., m). Nothing but the primitives."""

    _classes = 2

    def __init__(self, p: ArrayLike) -> None:
        heads = float64(p, "p")
        self._hold(border_of(p), heads[..., None])

    @property
    def _heads(self) -> Tensor:
        return self._parameters[0][..., 0]

    def _both(self) -> Tensor:
        return torch.stack([1 - self._heads, self._heads], -1)

    def _probabilities(self, event: Any) -> Tensor:
        return self._both()[..., int(event)]

    def _expectations(self, gamble: Any) -> Tensor:
        tails, heads = (float(gamble(y)) for y in (0, 1))
        return tails + (heads - tails) * self._heads

    def _means(self) -> Tensor:
        return self._heads

    def _entropies(self) -> tuple[Tensor, Tensor]:
        entropy = torch.special.entr(self._both()).sum(-1)
        return entropy, torch.zeros_like(entropy)

    def _upper_entropy(self) -> Optimum:
        """At the probability of the interval that is nearest to 1/2."""
        (low, i), (high, j) = self._heads.min(-1), self._heads.max(-1)
        best = torch.clamp(torch.full_like(low, 0.5), low, high)
        share = torch.where(high > low, (best - low) / (high - low).clamp_min(1e-300), 0.0)
        weights = torch.zeros_like(self._heads).scatter_(-1, i[..., None], (1 - share)[..., None])
        weights = weights.scatter_add(-1, j[..., None], share[..., None])
        value = torch.special.entr(best) + torch.special.entr(1 - best)
        return Optimum(value, torch.zeros_like(value), weights, torch.zeros_like(value))

    def _extreme_mask(self) -> Tensor:
        lowest, highest = (f(-1, keepdim=True) for f in (self._heads.argmin, self._heads.argmax))
        order = torch.arange(self._extremes)
        # of equal probabilities, the first
        highest = torch.where(
            self._heads.gather(-1, lowest) < self._heads.gather(-1, highest), highest, lowest
        )
        return (order == lowest) | (order == highest)

    def _log_survival(self, y: ArrayLike) -> Tensor:
        labels, several = labels_of(y, 2, self._batch)
        logs = log_survival(self._both()).gather(-1, labels)
        return logs if several else logs[..., 0]

    def _region_at(self, log_survival_: Tensor) -> Any:
        mask = log_survival(self._both()) >= log_survival_[..., None] - 1e-12
        return region_from_mask(self._both(), mask, self._border)

    def _safest(self, rule: str, single: bool, seed: int) -> Tensor:
        least = self._both().amin(-2)
        return least >= least.amax(-1, keepdim=True)

    def region(self, alpha: float, method: str = "union") -> Any:
        return region(self._both(), alpha, method, border=self._border)

    def contains(self, p: Any) -> Any:
        q = p._heads[..., 0] if isinstance(p, BernoulliCredalSet) else float64(p, "p")
        return self._border.out((q >= self._heads.amin(-1)) & (q <= self._heads.amax(-1)))

    def _distance(self, p: Any, kind: str, order: float | None, cost: Any) -> Optimum:
        q = p._heads[..., 0] if isinstance(p, BernoulliCredalSet) else float64(p, "p")
        near = torch.clamp(q, self._heads.amin(-1), self._heads.amax(-1))
        weights = torch.zeros_like(self._heads)
        return Optimum((near - q).abs(), torch.zeros_like(near), weights, torch.zeros_like(near))

    def entropy_bounds(self, base: Any = None) -> Any:
        low, high = self._both().amin(-2), self._both().amax(-2)
        bounds = -torch.special.xlogy(low, high).sum(-1), -torch.special.xlogy(high, low).sum(-1)
        return tuple(self._border.out(b / self._unit(base)) for b in bounds)

    def point(self, weights: Any = None) -> BernoulliCredalSet:
        return self._like((self._weights(weights) * self._heads).sum(-1)[..., None, None])

    def average(self, weights: Any) -> Any:
        return self.point(weights)

    def center(self) -> Any:
        return self.point()


@dataclass(frozen=True, eq=False)
class Kind:
    """How to make sets of one kind, and arguments that fit them.

    make:    (batch shape, kind of array, m) -> set; its last extreme repeats the first, if the kind `repeats` any
    outcome: (batch shape) -> one outcome per set
    event_shape: of the mean of one extreme; hull_shape: of the ends of a region
    """

    name: str
    make: Callable[..., CredalSet]
    outcome: Callable[[tuple[int, ...]], np.ndarray]
    event: Any
    gamble: Callable[[Any], Any]
    event_shape: tuple[int, ...] = ()
    hull_shape: tuple[int, ...] = ()
    finite: bool = False
    repeats: bool = True

    def __repr__(self) -> str:
        return self.name


def _given(kind: str, *arrays: np.ndarray) -> list[Any]:
    return [torch.tensor(a) if kind == "torch" else a for a in arrays]


def _normal_parameters(shape: tuple[int, ...], axis: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=shape), np.exp(0.3 * rng.normal(size=shape))
    for x in (loc, scale):
        np.moveaxis(x, axis, 0)[-1] = np.moveaxis(x, axis, 0)[0]
    return loc, scale


def _classes(batch: tuple[int, ...] = (), kind: str = "numpy", m: int = 3) -> CredalSet:
    probs = np.random.default_rng(0).dirichlet(np.ones(4), size=(*batch, m))
    probs[..., -1, :] = probs[..., 0, :]
    return cbdl.CategoricalCredalSet(*_given(kind, probs))


def _intervals(batch: tuple[int, ...] = (), kind: str = "numpy", m: int = 3) -> CredalSet:
    """(1 - e) p + e (any distribution): a box with one extreme per class."""
    free = 0.3 if m == 3 else 0.0
    lower = (1 - free) * np.random.default_rng(0).dirichlet(np.ones(3), size=batch)
    return cbdl.IntervalCredalSet(*_given(kind, lower, lower + free))


def _normals(batch: tuple[int, ...] = (), kind: str = "numpy", m: int = 3) -> CredalSet:
    return cbdl.NormalCredalSet(*_given(kind, *_normal_parameters((*batch, m), -1)))


def _mixtures(batch: tuple[int, ...] = (), kind: str = "numpy", m: int = 3) -> CredalSet:
    return cbdl.MixtureCredalSet(*_given(kind, *_normal_parameters((*batch, m, 2), -2)))


def _diagonal(batch: tuple[int, ...] = (), kind: str = "numpy", m: int = 3) -> CredalSet:
    loc, scale = _given(kind, *_normal_parameters((*batch, m, 2), -2))
    return cbdl.DiagonalNormalCredalSet(loc, scale, samples=256)


def _coins(batch: tuple[int, ...] = (), kind: str = "numpy", m: int = 3) -> CredalSet:
    heads = np.random.default_rng(0).uniform(0.2, 0.9, size=(*batch, m))
    heads[..., -1] = heads[..., 0]
    return BernoulliCredalSet(*_given(kind, heads))


def _labels(batch: tuple[int, ...]) -> np.ndarray:
    return np.arange(math.prod(batch)).reshape(batch) % 2


def _reals(batch: tuple[int, ...]) -> np.ndarray:
    return np.linspace(-2, 2, math.prod(batch)).reshape(batch)


def _points(batch: tuple[int, ...]) -> np.ndarray:
    return np.linspace(-2, 2, 2 * math.prod(batch)).reshape(*batch, 2)


KINDS = [
    Kind("classes", _classes, _labels, [0, 1], lambda y: 1.0 * y, (4,), (), True),
    Kind("intervals", _intervals, _labels, [0, 1], lambda y: 1.0 * y, (3,), (), True, False),
    Kind("normals", _normals, _reals, (-1.0, 1.0), lambda y: y * y),
    Kind("mixtures", _mixtures, _reals, (-1.0, 1.0), lambda y: y * y),
    Kind("diagonal", _diagonal, _points, [[-1.0, 1.0], [-1.0, 1.0]], lambda y: y[..., 0], (2,), (2,)),
    Kind("newcomer", _coins, _labels, 1, lambda y: 1.0 * y, (), (), True),
]
