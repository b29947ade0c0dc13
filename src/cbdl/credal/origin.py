"""Where a credal set comes from: the members of a model that are its extremes, and their Monte Carlo noise.

An `Origin` is what a model supplies. A `Source` is how a credal set carries it: it is sliced, reduced and pickled
together with the set, and the floor is computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from cbdl.credal.base import CredalSet


class Origin(Protocol):
    """Where a credal set comes from: who its extremes are, and how noisy they are."""

    @property
    def members(self) -> tuple[Any, ...]:
        """Who the m extremes are, in order."""

    @property
    def noise(self) -> Tensor:
        """(..., m): the entropy of the outcome given the parameters, expected by each member (nats)."""

    def floor(self, credal: CredalSet) -> Tensor:
        """(...,): the epistemic uncertainty (nats) that Monte Carlo noise alone would show; nan: unknown.

        `credal` is the set that has this origin, with all its extremes."""

    def at(self, index: tuple[Tensor, ...]) -> Origin:
        """The origin of the sets at `index`, one integer tensor per batch dimension: an x whose first dimensions are
        the batch becomes `x[index]`."""


@dataclass
class Source:
    """The origin of one credal set.

    floor:  (...,) once it was asked for
    places: after a reduction, (..., m) the places of the extremes among the origin's members
    whole:  after a reduction, the set with all members, whose noise is still meant; not needed once the floor is known
    """

    origin: Origin
    floor: Tensor | None = None
    places: Tensor | None = None
    whole: CredalSet | None = None

    @property
    def members(self) -> tuple[Any, ...]:
        everyone = self.origin.members
        return everyone if self.places is None else _picked(everyone, self.places.tolist())

    def floor_of(self, credal: CredalSet) -> Tensor:
        """(...,): the floor of `credal`, the set that has this source."""
        if self.floor is None:
            value = self.origin.floor(credal if self.whole is None else self.whole)
            self.floor, self.whole = value.to(torch.float64).expand(credal.batch_shape), None
        return self.floor

    @property
    def noise(self) -> Tensor:
        """(..., m): the expected conditional entropy of every extreme."""
        whole = self.origin.noise
        return whole if self.places is None else whole.gather(-1, self.places)

    def at(self, index: tuple[Tensor, ...]) -> Source:
        """The source of the sets at `index` of the batch."""
        floor = None if self.floor is None else self.floor[index]
        places = None if self.places is None else self.places[index]
        whole = None if self.whole is None else self.whole[index]
        return Source(self.origin.at(index), floor, places, whole)

    def only(self, keep: Tensor, credal: CredalSet) -> Source:
        """The source of `credal`, which has this one, after only the extremes `keep` (..., m) of it stayed."""
        places = keep.cpu() if self.places is None else self.places.gather(-1, keep.cpu())
        whole = None if self.floor is not None else credal if self.whole is None else self.whole
        return Source(self.origin, self.floor, places, whole)


def _picked(members: tuple[Any, ...], places: list[Any]) -> tuple[Any, ...]:
    """The members at nested places, nested in the same way."""
    return tuple(members[i] if isinstance(i, int) else _picked(members, i) for i in places)
