"""Chains and folds: trained as members of one batch, then put together again.

A posterior that is made of chains is trained chain by chain, so that an engine can split them over its workers. The
members that leave out a fold of the data, which judge how good the others are, are fewer and shorter chains.
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

CHAINS = 2
"""Chains of a member without a fold: one alone makes wide priors look worse than they are, because it is their chains
together that do not overfit."""
FOLDER = "folds"
"""Where in the directory of checkpoints those of the members without a fold are."""


def train(
    engine: Engine,
    todo: Sequence[Task],
    data: TrainingData,
    method: Method,
    run: Run,
    *,
    checkpoint_dir: str | Path | None = None,
) -> list[Part]:
    """What every task learned from all rows."""
    return _trained(engine, todo, data, method, run, method.apart()[1], checkpoint_dir)


def without_folds(
    engine: Engine,
    todo: Sequence[Task],
    data: TrainingData,
    method: Method,
    run: Run,
    *,
    folds: int,
    checkpoint_dir: str | Path | None = None,
) -> list[Part]:
    """What the members of every task learned without each of the folds (`data.folds` names them)."""
    method = method.brief()
    less = [task.only(m.without(f) for f in range(folds) for m in task.members) for task in todo]
    place = None if checkpoint_dir is None else Path(checkpoint_dir) / FOLDER
    return _trained(engine, less, data, method, run, min(CHAINS, method.apart()[1]), place)


def _trained(
    engine: Engine,
    todo: Sequence[Task],
    data: TrainingData,
    method: Method,
    run: Run,
    chains: int,
    checkpoint_dir: str | Path | None,
) -> list[Part]:
    """What every task learned, every member by so many chains."""
    work = [task.only(m.another(c) for m in task.members for c in range(chains)) for task in todo]
    trained = engine.train(work, data, method.apart()[0], run, checkpoint_dir=checkpoint_dir)
    parts = []
    for task, (cohort, posterior) in zip(todo, trained, strict=True):
        groups = [list(range(i * chains, (i + 1) * chains)) for i in range(len(task.members))]
        own = replace(cohort.only([group[0] for group in groups]), members=task.members)
        parts.append(Part(task.priors, own, posterior.gather(groups)))
    return parts
