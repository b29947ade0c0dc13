"""Networks for a table of given widths, and a start from the networks of the fit before."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

from torch import Tensor, nn

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import TrainingData
from cbdl.bayes.learned import Learned
from cbdl.bayes.likelihoods import Factory
from cbdl.bayes.methods import Method, Posterior
from cbdl.bayes.train import Run
from cbdl.nets import mlp

Architecture: TypeAlias = Sequence[int] | Callable[[int, int], nn.Module]
"""The widths of the hidden layers, or a function (inputs, outputs) -> network."""


def factories(given: Any, inputs: int, outputs: int, activation: str) -> list[Factory]:
    """One factory for each architecture."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not len(given):
        raise ValueError(
            f"architectures is {given!r}; give one or more networks, each by the widths of its hidden layers: "
            "[(32,), (16, 16)]"
        )
    return [_factory(one, s, inputs, outputs, activation) for s, one in enumerate(given)]


def _factory(given: Any, s: int, inputs: int, outputs: int, activation: str) -> Factory:
    if callable(given):
        return functools.partial(given, inputs, outputs)
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ValueError(
            f"architectures[{s}] is {given!r}; give the widths of the hidden layers, as in (16, 16), or a "
            "function (inputs, outputs) -> network"
        )
    return cast(Factory, mlp(inputs, outputs, tuple(given), activation))


@dataclass(frozen=True)
class WarmStart(Method):
    """`method`, with every member starting at the network that `before` learned for the same (k, s)."""

    method: Method
    before: Learned = field(repr=False)

    def fit(self, cohort: Cohort, data: TrainingData, run: Run) -> Posterior:
        """The posteriors of all members of the cohort, trained together."""
        return self.method.fit(self._begun(cohort), data, run)

    def from_state(self, cohort: Cohort, state: Mapping[str, Tensor]) -> Posterior:
        """The posterior that `state()` of another one describes."""
        return self.method.from_state(cohort, state)

    def apart(self) -> tuple[Method, int]:
        """As the method does; the first chain of every member starts where the fit before ended."""
        single, chains = self.method.apart()
        return replace(self, method=single), chains

    @property
    def temperature(self) -> float:
        """That of the method."""
        return self.method.temperature

    def _begun(self, cohort: Cohort) -> Cohort:
        initial, noise = cohort.initial.clone(), cohort.initial_noise.clone()
        buffers = {name: b.clone() for name, b in cohort.initial_buffers.items()}
        part = self.before.parts.get(cohort.members[0].s)
        if part is None:
            return cohort
        centre = part.posterior.centre()
        before = {member.k: i for i, member in enumerate(part.cohort.members)}
        for j, member in enumerate(cohort.members):
            if member.k in before and member.fold is None and member.chain == 0:
                i = before[member.k]
                _copy(initial[j], centre[i], str(member))
                _copy(noise[j], part.posterior.noise[i], str(member))
                for name, b in part.posterior.buffers.items():
                    _copy(buffers[name][j], b[i], str(member))
        return replace(cohort, initial=initial, initial_noise=noise, initial_buffers=buffers)


def _copy(to: Tensor, value: Tensor, who: str) -> None:
    if to.shape != value.shape:
        raise ValueError(
            f"warm_start: the network of {who} had {value.numel()} parameters in the fit before, now it has "
            f"{to.numel()}; set warm_start=False to start again"
        )
    to.copy_(value)
