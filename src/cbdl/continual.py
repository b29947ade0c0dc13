"""Continual learning: yesterday's posterior is today's prior (the paper's plan, its conclusion)."""

from __future__ import annotations

from dataclasses import replace

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.methods.protocol import Posterior
from cbdl.engines import Task


def continued(task: Task, cohort: Cohort, posterior: Posterior) -> Task:
    """`task` with the prior of every member replaced by its posterior."""
    own = posterior.priors(cohort)
    if own is None:
        raise ValueError(
            f"update needs a posterior that is a Normal for every parameter, as MeanField gives; this model has a "
            f"{type(posterior).__name__}: fit it again on all data"
        )
    priors = list(task.priors)
    for member, prior in zip(cohort.members, own, strict=True):
        priors[member.k] = prior
    return replace(task, priors=tuple(priors), members=cohort.members)
