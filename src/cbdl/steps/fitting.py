"""Step 3 of Algorithm 1: from priors, likelihoods and data to what was learned.

Where it must be known who is plausible, every pair is first trained without each of a few folds of the rows; those
that the rows left out refute are not trained any further, and their chains may go to those that stay.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cbdl.bayes.cohort import Member
from cbdl.bayes.learned import Learned, Part, in_order
from cbdl.bayes.methods import Method
from cbdl.bayes.plausible import GridWarning, Plausibility, judge
from cbdl.bayes.priors import Laplace, Normal, PriorLike, StudentT
from cbdl.bayes.rows import Data, TrainingData
from cbdl.bayes.train import Run
from cbdl.engines import Engine, Task, crew_kept, train, without_folds
from cbdl.steps.left_out import (
    LeftOut,
    by_folds,
    check_extra,
    check_folds,
    contaminated_by_folds,
    sharpened_by_folds,
)

HONED = {"classes": sharpened_by_folds, "real": contaminated_by_folds}
"""How rows that are left out decide how sure members may be, for each space that has such a way."""


@dataclass(frozen=True)
class Fitted:
    """What a fit leaves: what was learned, from which data, and, if folds were left out, what that told."""

    learned: Learned
    data: TrainingData
    left_out: LeftOut | None = None
    plausibility: Plausibility | None = None


@dataclass(frozen=True)
class Fitting:
    """Who trains, by which method, and where checkpoints go."""

    engine: Engine
    method: Method
    run: Run
    checkpoint_dir: str | Path | None = None
    sharpen: bool = False
    """Whether rows that are left out by folds decide how sure members may be."""

    def whole(self, todo: Sequence[Task], data: TrainingData) -> Fitted:
        """All tasks on all rows."""
        parts = train(self.engine, todo, data, self.method, self.run, checkpoint_dir=self.checkpoint_dir)
        return Fitted(Learned.of(parts, data, self.run.seed), data)

    def by_folds(
        self, todo: Sequence[Task], data: TrainingData, folds: int, alpha: float, least: int, extra: int = 1
    ) -> Fitted:
        """First without each fold, to see who is plausible (at an `alpha` of 0 all are); then those with all rows, and
        with up to `extra` times as many chains, as far as others leave theirs."""
        if not isinstance(data, Data):
            raise ValueError(f"folds is {folds}, but a stream has none: fit with arrays, or folds=0")
        data = data.in_folds(check_folds(folds), self.run.seed)
        with crew_kept():
            without = without_folds(
                self.engine,
                todo,
                data,
                self.method,
                self.run,
                folds=folds,
                checkpoint_dir=self.checkpoint_dir,
            )
            judgement, members = None, in_order(m for task in todo for m in task.members)
            space = todo[0].likelihood.space
            if self.sharpen and space in HONED:
                left = HONED[space](without, data, self.run.seed, members)
            else:
                left = by_folds(without, data, self.run.seed)
            if alpha > 0:
                judgement = verdict(left, members, todo[0].priors, alpha, least, verbose=self.run.verbose)
                fallen = judgement.dropped
                fewer = (task.only(m for m in task.members if m not in fallen) for task in todo)
                todo = [task for task in fewer if task.members]
                left = left.only([i for i, m in enumerate(members) if m not in fallen])
            times = min(check_extra(extra), len(members) // sum(len(task.members) for task in todo))
            whole = replace(self, method=self.method.spread(times)).whole(todo, data)
            stayed = {(m.k, m.s) for m in whole.learned.members}
            learned = replace(
                whole.learned,
                sharpness={pair: own for pair, own in left.sharpness.items() if pair in stayed},
                tails={pair: own for pair, own in left.tails.items() if pair in stayed},
            )
            return replace(whole, learned=learned, left_out=left, plausibility=judgement)


def _scales(priors: Sequence[PriorLike]) -> list[float] | None:
    """The standard deviations of priors that differ in nothing else: a grid of them."""
    known = [prior for prior in priors if isinstance(prior, Normal | Laplace | StudentT)]
    alike = len({replace(prior, scale=1.0) for prior in known}) == 1
    return [prior.scale for prior in known] if alike and len(known) == len(priors) else None


def verdict(
    left: LeftOut,
    members: tuple[Member, ...],
    priors: Sequence[PriorLike],
    alpha: float,
    least: int,
    *,
    verbose: bool,
) -> Plausibility:
    """Who is plausible, said to whoever reads along."""
    judgement = judge(members, left.score, left.counts, alpha, left.how, _scales(priors), least, left.failed)
    if judgement.edge:
        warnings.warn(judgement.edge, GridWarning, stacklevel=4)
    if verbose:
        print(replace(judgement, edge=""), file=sys.stderr)  # of which the warning tells
    return judgement


def continued(task: Task, part: Part) -> Task:
    """`task` with the prior of every member of `part` replaced by its posterior."""
    posteriors = part.posterior.priors(part.cohort)
    if posteriors is None:
        raise ValueError(
            f"update needs a posterior that is a Normal for every parameter, as MeanField gives; this model has a "
            f"{type(part.posterior).__name__}: fit it again on all data"
        )
    priors = list(task.priors)
    for member, posterior in zip(part.cohort.members, posteriors, strict=True):
        priors[member.k] = posterior
    return replace(task, priors=tuple(priors), members=part.cohort.members)
