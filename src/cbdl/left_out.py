"""Training rows, each predicted as if it had not been seen: what plausibility and calibration are judged by.

Two ways. Draws are weighted so that they forget a row (`cbdl.bayes.loo`), which costs next to nothing and fails where
single rows hold much of what was learned (k-hat above 0.7). Or every member is trained anew without one of a few folds
of the rows, all of them in one batch, which costs about as much as the training itself and does not fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from cbdl.bayes._random import generator
from cbdl.bayes.learned import Learned, Part
from cbdl.bayes.loo import TRUSTED, leave_one_out, scores
from cbdl.bayes.methods.protocol import Method
from cbdl.bayes.rows import Data
from cbdl.bayes.train import Run
from cbdl.engines import Engine, Task
from cbdl.prediction import Predictive, forgotten, predict

How = Literal["auto", "weights", "folds"]
ROWS = 2048
"""At most so many rows are left out by weights; of more, that many are picked at random."""
FOLDS = 5
DRAWS = 64
"""Draws of every member behind the prediction of a left-out row."""
DOUBTFUL = 0.05
"""More than this share of rows with a k-hat above 0.7 under some member, and folds are used instead of weights."""


@dataclass(frozen=True)
class LeftOut:
    """What m members say of n training rows that they have not seen.

    rows:       (n,) which rows of the training data
    counts:     (n,) how often each counts: its weight in the training
    score:      (n, m) log predictive densities of the outcomes, in the user's units
    predictive: their distributions
    doubtful:   the largest share, over members, of rows whose k-hat is above 0.7; 0 for folds
    way, how:   "weights" or "folds", and in words
    """

    rows: Tensor
    counts: Tensor
    score: Tensor
    predictive: Predictive
    doubtful: float
    way: Literal["weights", "folds"]
    how: str

    def only(self, places: Sequence[int]) -> LeftOut:
        """What some of the members say."""
        return replace(self, score=self.score[:, list(places)], predictive=self.predictive.only(places))


def check_how(how: str) -> None:
    """A ValueError unless `how` is one of the ways."""
    if how not in ("auto", "weights", "folds"):
        raise ValueError(f'how is {how!r}; give "auto", "weights" or "folds"')


def by_weights(learned: Learned, data: Data, draws: int = DRAWS) -> LeftOut:
    """Every row left out by weighting the draws."""
    rows = torch.arange(data.rows)
    if data.rows > ROWS:
        rows = (
            torch.randperm(data.rows, generator=generator("cpu", learned.seed, "left out"))[:ROWS]
            .sort()
            .values
        )
    here = rows.to(data.x.device)
    counts = _counts(data)[rows]
    weighted = leave_one_out(learned, data.x[here], data.y[here], counts, draws)
    doubtful = float((weighted.khat > TRUSTED).double().mean(0).max())
    return LeftOut(
        rows,
        counts,
        weighted.score,
        forgotten(learned, data.x[here], weighted.weights),
        doubtful,
        "weights",
        "each row left out by weights",
    )


def by_folds(
    todo: Sequence[Task],
    data: Data,
    method: Method,
    engine: Engine,
    run: Run,
    *,
    folds: int = FOLDS,
    draws: int = DRAWS,
    checkpoint_dir: str | Path | None = None,
) -> LeftOut:
    """Every fold of the rows predicted by members that were trained without it."""
    folds = min(folds, data.rows)
    ids = torch.arange(data.rows) % folds
    ids = ids[torch.randperm(data.rows, generator=generator("cpu", run.seed, "folds"))].to(data.x.device)
    apart = replace(data, folds=ids, validation=None)
    work = [
        replace(task, members=tuple(m.without(f) for f in range(folds) for m in task.members))
        for task in todo
    ]
    directory = None if checkpoint_dir is None else Path(checkpoint_dir) / "folds"
    trained = engine.train(work, apart, method.for_folds(), run, checkpoint_dir=directory)
    parts = [Part(task.priors, *pair) for task, pair in zip(work, trained, strict=True)]
    rows, score, predictives = [], [], []
    for f in range(folds):
        places = (ids == f).nonzero().flatten()
        learned = Learned.of([_without(part, f) for part in parts], data, run.seed)
        rows.append(places.cpu())
        score.append(scores(learned, data.x[places], data.y[places], draws))
        predictives.append(predict(learned, data.x[places], draws))
    order = torch.cat(rows).argsort()
    joined = Predictive.join(predictives).at(order)
    return LeftOut(
        torch.arange(data.rows),
        _counts(data),
        torch.cat(score)[order],
        joined,
        0.0,
        "folds",
        f"{folds} folds",
    )


def _without(part: Part, fold: int) -> Part:
    """The members that have not seen `fold`, as the members they stand for."""
    places = [i for i, m in enumerate(part.cohort.members) if m.fold == fold]
    cohort = part.cohort.only(places)
    plain = replace(cohort, members=tuple(replace(m, fold=None) for m in cohort.members))
    return Part(part.priors, plain, part.posterior.only(places))


def _counts(data: Data) -> Tensor:
    if data.weights is None:
        return torch.ones(data.rows, dtype=torch.float64)
    return data.weights.double().cpu()
