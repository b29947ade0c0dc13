"""Chains and folds beside the members: trained as members of one batch, then put together again.

A posterior that is made of chains is trained chain by chain, so that an engine can split them over its workers; and the
members that leave out a fold of the data, which judge how good the others are, are trained in the same batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cbdl.bayes.learned import Part
from cbdl.bayes.methods.protocol import Method
from cbdl.bayes.rows import TrainingData
from cbdl.bayes.train import Run

from .engine import Engine
from .local import Task


def spread(task: Task, chains: int, folds: int) -> Task:
    """The task with every member as so many chains, and as one chain without each of the folds."""
    members = [m.another(c) for m in task.members for c in range(chains)]
    members += [m.without(f) for f in range(folds) for m in task.members]
    return replace(task, members=tuple(members))


def train(
    engine: Engine,
    todo: Sequence[Task],
    data: TrainingData,
    method: Method,
    run: Run,
    *,
    folds: int = 0,
    checkpoint_dir: str | Path | None = None,
) -> tuple[list[Part], list[Part]]:
    """What every task learned, and what the members learned that leave out folds (`data.folds` names them)."""
    single, chains = method.apart()
    work = [spread(task, chains, folds) for task in todo]
    trained = engine.train(work, data, single, run, checkpoint_dir=checkpoint_dir)
    whole, without = [], []
    for task, (cohort, posterior) in zip(todo, trained, strict=True):
        count = len(task.members)
        groups = [list(range(i * chains, (i + 1) * chains)) for i in range(count)]
        own = replace(cohort.only([group[0] for group in groups]), members=task.members)
        whole.append(Part(task.priors, own, posterior.gather(groups)))
        rest = list(range(count * chains, cohort.size))
        if rest:
            without.append(Part(task.priors, cohort.only(rest), posterior.only(rest)))
    return whole, without
