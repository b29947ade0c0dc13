"""Ensembles: every member is the network that its prior and the data make most likely (MAP), or a few of
them.

The cheapest posterior there is: a point, or one point for each of `restarts` initialisations. What differs
between the members are their priors, their seeds and their initialisations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import Data
from cbdl.bayes.train import Plan, Run, train

from ._points import PointObjective, PointsPosterior, starts


@dataclass(frozen=True)
class Ensemble:
    """Settings of MAP members: argmin over theta of mean NLL - log prior(theta) / N.

    With `restarts` > 1 a member has that many points, each from its own initialisation; they are its draws.
    A learned noise scale is then shared by the points of a member, and so is the norm that `clip` bounds.
    """

    epochs: int = 50
    batch_size: int = 128
    lr: float = 1e-3
    restarts: int = 1
    schedule: Literal["constant", "cosine"] = "cosine"
    clip: float | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        if int(self.restarts) != self.restarts or self.restarts < 1:
            raise ValueError(f"restarts is {self.restarts}; it must be a whole number of at least 1")
        self.plan  # noqa: B018  its own checks

    @property
    def plan(self) -> Plan:
        return Plan(self.epochs, self.batch_size, self.lr, self.schedule, self.clip, self.patience)

    def fit(self, cohort: Cohort, data: Data, run: Run) -> PointsPosterior:
        """The points of all members of the cohort, trained together."""
        trainee = PointObjective(cohort, data, starts(cohort, self.restarts))
        record = train(trainee, data, self.plan, run, {**cohort.fingerprint(), "method": repr(self)})
        points, noise = trainee.theta.clone(), trainee.noise.clone()
        return PointsPosterior(cohort.seeds, points, noise, trainee.buffers, record)

    def from_state(self, cohort: Cohort, state: dict[str, Tensor]) -> PointsPosterior:
        """The posterior that `state()` of another one describes."""
        return PointsPosterior.from_state(cohort, state)
