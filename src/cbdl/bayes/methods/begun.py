"""A method whose members start where those of the fit before ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from torch import Tensor

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.forward import Buffers
from cbdl.bayes.learned import Learned
from cbdl.bayes.rows import TrainingData
from cbdl.bayes.train import Run

from .protocol import Method, Posterior

Key: TypeAlias = tuple[int, int, int]
"""(prior k, likelihood s, chain)"""


@dataclass(frozen=True)
class Start:
    """Where one chain begins: parameters (P,), noise parameters (Q,) and buffers."""

    theta: Tensor
    noise: Tensor
    buffers: Buffers


@dataclass(frozen=True)
class Begun(Method):
    """`method`, with chains that begin at `starts`; those without one, and members that leave out folds, as ever."""

    method: Method
    starts: Mapping[Key, Start] = field(repr=False)

    def fit(self, cohort: Cohort, data: TrainingData, run: Run) -> Posterior:
        """The posteriors of all members of the cohort, trained together."""
        return self.method.fit(self._placed(cohort), data, run)

    def from_state(self, cohort: Cohort, state: Mapping[str, Tensor]) -> Posterior:
        """The posterior that `state()` of another one describes."""
        return self.method.from_state(cohort, state)

    def apart(self) -> tuple[Method, int]:
        """As the method does."""
        single, chains = self.method.apart()
        return replace(self, method=single), chains

    def effort(self, data: TrainingData) -> tuple[int, float]:
        """That of the method."""
        return self.method.effort(data)

    def brief(self) -> Method:
        """As the method does."""
        return replace(self, method=self.method.brief())

    def spread(self, times: int) -> Method:
        """As the method does."""
        return replace(self, method=self.method.spread(times))

    @property
    def temperature(self) -> float:
        """That of the method."""
        return self.method.temperature

    def _placed(self, cohort: Cohort) -> Cohort:
        initial, noise = cohort.initial.clone(), cohort.initial_noise.clone()
        buffers = {name: b.clone() for name, b in cohort.initial_buffers.items()}
        for i, member in enumerate(cohort.members):
            start = self.starts.get((member.k, member.s, member.chain))
            if start is None or member.fold is not None:
                continue
            _copy(initial[i], start.theta, str(member))
            _copy(noise[i], start.noise, str(member))
            for name, b in start.buffers.items():
                _copy(buffers[name][i], b, str(member))
        return replace(cohort, initial=initial, initial_noise=noise, initial_buffers=buffers)


def _copy(to: Tensor, value: Tensor, who: str) -> None:
    if to.shape != value.shape:
        raise ValueError(
            f"warm_start: the network of {who} had {value.numel()} parameters in the fit before, now it has "
            f"{to.numel()}; set warm_start=False to start again"
        )
    to.copy_(value)


def after(method: Method, before: Learned) -> Begun:
    """`method`, with the first chain of every member at the network that `before` learned for the same pair."""
    starts: dict[Key, Start] = {}
    for s, part in before.parts.items():
        posterior, centre = part.posterior, part.posterior.centre()
        for i, m in enumerate(part.cohort.members):
            own = {name: b[i] for name, b in posterior.buffers.items()}
            starts[m.k, s, 0] = Start(centre[i], posterior.noise[i], own)
    return Begun(method, starts)
