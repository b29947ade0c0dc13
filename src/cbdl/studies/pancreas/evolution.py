"""CMA-ES, the covariance matrix adaptation evolution strategy, for many small problems at once.

Hansen (2016), "The CMA Evolution Strategy: A Tutorial", with weights of both signs. The packages `cma` and `cmaes`
solve one problem at a time: with some hundred problems of five variables nearly all of their time is Python's (and the
first reseeds numpy's global generator). Here every step is a few operations on arrays that lead with the problems. A
test follows `cmaes` through whole runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cbdl.studies.pancreas.patients import Array

TINY = 1e-8


@dataclass(frozen=True)
class Strategy:
    """The constants for n variables; names are those of the tutorial."""

    variables: int
    population: int

    @staticmethod
    def of(variables: int, population: int | None = None) -> Strategy:
        """The tutorial's population is 4 + 3 log n."""
        default = 4 + int(3 * np.log(variables))
        return Strategy(variables, default if population is None else population)

    @property
    def parents(self) -> int:
        return self.population // 2

    @cached_property
    def _raw(self) -> Array:
        return np.asarray(np.log((self.population + 1) / 2) - np.log(np.arange(1, self.population + 1)))

    @cached_property
    def mu_eff(self) -> float:
        return _effective(self._raw[: self.parents])

    @cached_property
    def c_1(self) -> float:
        return 2.0 / ((self.variables + 1.3) ** 2 + self.mu_eff)

    @cached_property
    def c_mu(self) -> float:
        wanted = 2.0 * (self.mu_eff - 2 + 1 / self.mu_eff) / ((self.variables + 2) ** 2 + self.mu_eff)
        return min(1 - self.c_1 - TINY, wanted)

    @cached_property
    def weights(self) -> Array:
        """Of the candidates from best to worst; the worse half counts negatively."""
        raw = self._raw
        bound = min(
            1 + self.c_1 / self.c_mu,
            1 + 2 * _effective(raw[self.parents :]) / (self.mu_eff + 2),
            (1 - self.c_1 - self.c_mu) / (self.variables * self.c_mu),
        )
        up, down = raw[raw > 0].sum(), -raw[raw < 0].sum()
        return np.asarray(np.where(raw >= 0, raw / up, bound * raw / down))

    @cached_property
    def c_sigma(self) -> float:
        return (self.mu_eff + 2) / (self.variables + self.mu_eff + 5)

    @cached_property
    def d_sigma(self) -> float:
        excess = np.sqrt((self.mu_eff - 1) / (self.variables + 1)) - 1
        return float(1 + 2 * max(0.0, excess) + self.c_sigma)

    @cached_property
    def c_c(self) -> float:
        share = self.mu_eff / self.variables
        return (4 + share) / (self.variables + 4 + 2 * share)

    @property
    def chi(self) -> float:
        """The expected length of a standard Normal vector."""
        n = self.variables
        return float(np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2)))


def _effective(weights: Array) -> float:
    return float(weights.sum() ** 2 / (weights**2).sum())


class Evolution:
    """The state of B problems: `mean` (B, n), `sigma` (B,), `covariance` (B, n, n)."""

    def __init__(self, mean: Array, sigma: Array, strategy: Strategy) -> None:
        problems, n = mean.shape
        self.strategy, self.generation = strategy, 0
        self.mean, self.sigma = mean.copy(), np.broadcast_to(sigma, (problems,)).copy()
        self.covariance = np.broadcast_to(np.eye(n), (problems, n, n)).copy()
        self._sigma_path, self._path = np.zeros((problems, n)), np.zeros((problems, n))
        self._decompose()

    def _decompose(self) -> None:
        values, vectors = np.linalg.eigh(0.5 * (self.covariance + self.covariance.mT))
        deviations = np.sqrt(np.where(values < 0, TINY, values))
        self._root = (vectors * deviations[:, None]) @ vectors.mT
        self._inverse_root = (vectors / deviations[:, None]) @ vectors.mT

    def candidates(self, normals: Array) -> Array:
        """(B, population, n) from standard Normals (population, n), or (B, population, n)."""
        steps = normals @ self._root  # the root is symmetric
        return np.asarray(self.mean[:, None] + self.sigma[:, None, None] * steps)

    def learn(self, candidates: Array, costs: Array) -> None:
        """The next generation, from candidates (B, population, n) with costs (B, population)."""
        s, n = self.strategy, self.strategy.variables
        self.generation += 1
        order = np.argsort(costs, axis=1, kind="stable")
        ranked = np.take_along_axis(candidates, order[..., None], axis=1)
        steps = (ranked - self.mean[:, None]) / self.sigma[:, None, None]
        whole = np.einsum("p,bpn->bn", s.weights[: s.parents], steps[:, : s.parents])
        self.mean = self.mean + self.sigma[:, None] * whole
        length = self._lengthen(whole)
        limit = (1.4 + 2 / (n + 1)) * s.chi
        grown = np.sqrt(1 - (1 - s.c_sigma) ** (2 * (self.generation + 1)))
        going = (length / grown < limit).astype(np.float64)
        rate = np.sqrt(s.c_c * (2 - s.c_c) * s.mu_eff)
        self._path = (1 - s.c_c) * self._path + (going * rate)[:, None] * whole
        self._reshape(steps, (1 - going) * s.c_c * (2 - s.c_c))
        self._decompose()

    def _lengthen(self, whole: Array) -> Array:
        """Step sizes grow while steps go the same way; the length of the path that tells it: (B,)."""
        s = self.strategy
        white = np.einsum("bij,bj->bi", self._inverse_root, whole)
        rate = np.sqrt(s.c_sigma * (2 - s.c_sigma) * s.mu_eff)
        self._sigma_path = (1 - s.c_sigma) * self._sigma_path + rate * white
        length: Array = np.linalg.norm(self._sigma_path, axis=1)
        self.sigma = self.sigma * np.exp(s.c_sigma / s.d_sigma * (length / s.chi - 1))
        return length

    def _reshape(self, steps: Array, stalled: Array) -> None:
        """The covariance, from the ranked steps (B, population, n) and the path."""
        s = self.strategy
        white = np.einsum("bij,bpj->bpi", self._inverse_root, steps)
        lengths = (white**2).sum(-1) + TINY
        weights = s.weights * np.where(s.weights >= 0, 1.0, s.variables / lengths)
        kept = 1 + s.c_1 * stalled - s.c_1 - s.c_mu * s.weights.sum()
        one = self._path[:, :, None] * self._path[:, None]
        many = np.einsum("bp,bpi,bpj->bij", weights, steps, steps)
        self.covariance = kept[:, None, None] * self.covariance + s.c_1 * one + s.c_mu * many


@dataclass(frozen=True)
class Solver:
    """CMA-ES with a fixed seed in the box [0, 1]^n: every problem sees the same random numbers, so that what is found
    for one depends neither on the others nor on when it is asked."""

    variables: int
    generations: int
    seed: int
    spread: float = 0.25
    """The first step size."""
    population: int | None = None

    @cached_property
    def strategy(self) -> Strategy:
        return Strategy.of(self.variables, self.population)

    @cached_property
    def _normals(self) -> Array:
        shape = (self.generations, self.strategy.population, self.variables)
        return np.random.default_rng(self.seed).standard_normal(shape)

    def solve(
        self,
        cost: Callable[[Array], Array],
        start: Array,
        low: Array | float = 0.0,
        high: Array | float = 1.0,
    ) -> Array:
        """The best candidate (B, n) that was seen; `cost` of candidates (B, P, n) is (B, P). `start` (B, n) is the
        first mean, and in the race itself. Candidates outside the box are moved to its border, or to that of the
        smaller box from `low` to `high`, each (B,) or one for all."""
        ends = [np.broadcast_to(end, len(start))[:, None, None] for end in (low, high)]
        start = np.clip(start, *(end[:, 0] for end in ends))
        evolution = Evolution(start, np.full(len(start), self.spread), self.strategy)
        best, least = start.copy(), np.full(len(start), np.inf)
        for generation, normals in enumerate(self._normals):
            candidates = np.clip(evolution.candidates(normals), *ends)
            if generation == 0:
                candidates[:, 0] = start
            costs = cost(candidates)
            place = np.argmin(costs, axis=1)[:, None]
            own = np.take_along_axis(costs, place, axis=1)[:, 0]
            better = own < least
            chosen = np.take_along_axis(candidates, place[..., None], axis=1)[:, 0]
            best[better], least[better] = chosen[better], own[better]
            evolution.learn(candidates, costs)
        return best
