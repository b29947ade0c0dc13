"""A method whose members start where others ended: those of the fit before, or those that have not seen a fold.

Chains that have learned all rows but a fold are near what all rows say. Chains of the whole data that start there need
no optimisation and little warm-up, so that what it costs to judge members is not paid twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from torch import Tensor

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.forward import Buffers
from cbdl.bayes.learned import Learned, Part
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

    def effort(self, data: TrainingData) -> float:
        """That of the method."""
        return self.method.effort(data)

    def brief(self) -> Method:
        """As the method does."""
        return replace(self, method=self.method.brief())

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


def beyond_folds(method: Method, without: Sequence[Part]) -> Method:
    """`method` for all rows, with chain c of every member where that without fold c ended; as it is if it has more
    chains than there are folds, or none.
    """
    onward, chains = method.onward(), method.apart()[1]
    ends = [part.posterior.chains() for part in without]
    folds = min((1 + max(m.fold or 0 for m in part.cohort.members) for part in without), default=0)
    if onward is None or chains > folds or any(end is None for end in ends):
        return method
    starts: dict[Key, Start] = {}
    for part, end in zip(without, ends, strict=True):
        assert end is not None
        points, noises = (x[:, 0, -1] for x in end)
        for i, m in enumerate(part.cohort.members):
            own = {name: b[i] for name, b in part.posterior.buffers.items()}
            starts[m.k, m.s, m.fold or 0] = Start(points[i], noises[i], own)
    return Begun(onward, starts)
