"""Ensembles: every member is the network that its prior and the data make most likely (MAP), or a few of
them.

The cheapest posterior there is: a point, or one point for each of `restarts` initialisations. What differs
between the members are their priors, their seeds and their initialisations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.rows import TrainingData
from cbdl.bayes.train import Plan, Run, train

from ._modes import ModeObjective
from ._points import PointsPosterior, starts
from .protocol import Method


@dataclass(frozen=True)
class Ensemble(Plan, Method):
    """Settings of MAP members: argmin over theta of mean NLL - log prior(theta) / N.

    With `restarts` > 1 a member has that many points, each from its own initialisation; they are its draws.
    A learned noise scale is then shared by the points of a member, and so is the norm that `clip` bounds.

    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> likelihoods = [cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, (4,)), scale=0.1)]
    >>> method = cbdl.Ensemble(epochs=2, restarts=2)
    >>> cbdl.CBDL([cbdl.priors.Normal(0, 1)], likelihoods, method, verbose=False).fit(X, X[:, 0])
    CBDL(1 prior x 1 likelihood, Ensemble, trained on 20 rows)
    """

    restarts: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if int(self.restarts) != self.restarts or self.restarts < 1:
            raise ValueError(f"restarts is {self.restarts}; it must be a whole number of at least 1")

    def fit(self, cohort: Cohort, data: TrainingData, run: Run) -> PointsPosterior:
        """The points of all members of the cohort, trained together."""
        trainee = ModeObjective(cohort, data, starts(cohort, self.restarts))
        record = train(
            trainee, data, self.plan_for(cohort.layout), run, {**cohort.fingerprint(), "method": repr(self)}
        )
        return PointsPosterior(
            trainee.theta.clone(),
            seeds=cohort.seeds,
            noise=trainee.noise.clone(),
            buffers=trainee.buffers,
            record=record,
        )

    def from_state(self, cohort: Cohort, state: Mapping[str, Tensor]) -> PointsPosterior:
        """The posterior that `state()` of another one describes."""
        return PointsPosterior.from_state(cohort, state)
