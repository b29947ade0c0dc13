"""Continual learning: yesterday's posterior is today's prior (the paper's plan, its conclusion)."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from cbdl.bayes.cohort import Cohort, Posterior
from cbdl.bayes.flat import Layout
from cbdl.bayes.methods.mean_field import MeanFieldPosterior
from cbdl.bayes.priors import Coordinates
from cbdl.engines import Task


def continued(task: Task, cohort: Cohort, posterior: Posterior) -> Task:
    """`task` with the prior of every member replaced by its posterior."""
    if not isinstance(posterior, MeanFieldPosterior):
        raise ValueError(
            f"update needs a posterior that is a Normal for every parameter, as MeanField gives; this model has a "
            f"{type(posterior).__name__}: fit it again on all data"
        )
    priors = list(task.priors)
    for i, member in enumerate(cohort.members):
        loc, scale = (_named(cohort.layout, x[i]) for x in (posterior.mu, posterior.sigma))
        priors[member.k] = Coordinates(loc, scale)
    return replace(task, priors=tuple(priors), members=cohort.members)


def _named(layout: Layout, flat: Tensor) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in layout.view(flat).items()}
