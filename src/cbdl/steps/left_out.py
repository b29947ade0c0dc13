"""Training rows, each predicted as if it had not been seen: what plausibility and calibration are judged by.

Two ways. Draws are weighted so that they forget a row (`cbdl.bayes.loo`), which costs next to nothing and fails where
single rows hold much of what was learned (k-hat above 0.7). Or every member is trained anew without one of a few folds
of the rows, all of them in one batch, which costs about as much as the training itself and does not fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from cbdl.bayes import tails
from cbdl.bayes.cohort import Member
from cbdl.bayes.learned import Chains, Learned, Part
from cbdl.bayes.loo import TRUSTED, leave_one_out, scores
from cbdl.bayes.plausible import check_cut
from cbdl.bayes.rows import Data
from cbdl.bayes.sharpness import by_chains, fit
from cbdl.bayes.tails import Tail
from cbdl.credal import MixtureCredalSet, NormalCredalSet
from cbdl.evaluate.carried import carried
from cbdl.evaluate.conformal import Conformity, conformity
from cbdl.prediction import Form, Predictive, forgotten, predict

How = Literal["auto", "weights", "folds"]
ROWS = 2048
"""At most so many rows are predicted as if they had not been seen; of more, that many are picked at random."""
FOLDS = 5
FEW = 2048
"""Up to so many rows a model of any networks is trained by folds, if it must tell who is plausible and nobody says how:
training again is cheap there. Tables always are: weights find networks that have learned the noise far too good."""
DRAWS = 64
"""Draws of every member behind the prediction of a left-out row."""
COMPARED = 256
"""At most so many rows tell how regions of the whole model differ from those that set the level."""


@dataclass(frozen=True)
class LeftOut:
    """What m members say of n training rows that they have not seen.

    rows:       (n,) which rows of the training data
    counts:     (n,) how often each counts: its weight in the training
    score:      (n, m) log predictive densities of the outcomes, in the user's units
    predictive: their distributions
    doubtful:   the largest share, over members, of rows whose k-hat is above 0.7; 0 for folds
    way, how:   "weights" or "folds", and in words
    sharpness:  of the members (k, s), if these rows have decided it (`bayes.sharpness`)
    tails:      the same of real outcomes (`bayes.tails`)
    failed:     the members (k, s) whose training failed, without a fold or at all
    """

    rows: Tensor
    counts: Tensor
    score: Tensor
    predictive: Predictive
    doubtful: float
    way: Literal["weights", "folds"]
    how: str
    sharpness: Mapping[tuple[int, int], float] = field(default_factory=dict)
    tails: Mapping[tuple[int, int], Tail] = field(default_factory=dict)
    failed: frozenset[tuple[int, int]] = frozenset()

    def only(self, places: Sequence[int]) -> LeftOut:
        """What some of the members say."""
        return replace(self, score=self.score[:, list(places)], predictive=self.predictive.only(places))


def check_how(how: str) -> None:
    """A ValueError unless `how` is one of the ways."""
    if how not in ("auto", "weights", "folds"):
        raise ValueError(f'how is {how!r}; give "auto", "weights" or "folds"')


def check_folds(folds: int) -> int:
    """A ValueError unless there are at least two."""
    if int(folds) != folds or folds < 2:
        raise ValueError(f"folds is {folds}; give a whole number of at least 2, or 0 for none")
    return int(folds)


def check_extra(extra: int) -> int:
    """A ValueError unless it is a number of times."""
    if int(extra) != extra or extra < 1:
        raise ValueError(
            f"extra is {extra}; give up to how many times as many chains members that stay may have"
        )
    return int(extra)


def folds_for(calibration: str | None, plausible: float) -> int:
    """How many folds a table needs to calibrate, and to tell who is plausible."""
    if calibration is not None and calibration not in ("auto", "weights", "folds"):
        raise ValueError(f'calibration is {calibration!r}; give "auto", "weights", "folds" or None')
    check_cut(plausible)
    needed = calibration in ("auto", "folds") or (calibration is None and plausible > 0)
    return FOLDS if needed else 0


def by_weights(learned: Learned, data: Data, draws: int = DRAWS) -> LeftOut:
    """Every row left out by weighting the draws."""
    if learned.sharpness or learned.tails:
        raise ValueError(
            "rows that decided how sure members are were left out by folds; weights know none of it"
        )
    rows, draws = data.some(ROWS, learned.seed), min(draws, learned.distinct or draws)
    here = rows.to(data.x.device)
    counts = _counts(data)[rows]
    weighted = leave_one_out(learned, data.x[here], data.y[here], counts, draws)
    doubtful = float((weighted.khat > TRUSTED).double().mean(0).max())
    how = f"each row left out by weights, which cannot be trusted for up to {doubtful:.0%} of them"
    return LeftOut(
        rows,
        counts,
        weighted.score,
        forgotten(learned, data.x[here], weighted.weights),
        doubtful,
        "weights",
        how,
        failed=_failed(learned.parts.values()),
    )


def by_folds(
    parts: Sequence[Part], data: Data, seed: int, draws: int = DRAWS, *, chains: Chains = "averaged"
) -> LeftOut:
    """Every row predicted by the members of `parts` that were trained without its fold, or by their chains."""
    assert data.folds is not None
    folds = int(data.folds.max()) + 1
    asked = data.some(ROWS, seed).to(data.x.device)
    rows, score, predictives = [], [], []
    for f in range(folds):
        places = asked[data.folds[asked] == f]
        learned = Learned.of([_without(part, f) for part in parts], data, seed)
        if chains == "extremes":
            learned = learned.by_chain()
        draws = min(draws, learned.distinct or draws)
        rows.append(places.cpu())
        score.append(scores(learned, data.x[places], data.y[places], draws))
        predictives.append(predict(learned, data.x[places], draws))
    order = torch.cat(rows).argsort()
    joined = Predictive.join(predictives).at(order)
    return LeftOut(
        asked.cpu(),
        _counts(data)[asked.cpu()],
        torch.cat(score)[order],
        joined,
        0.0,
        "folds",
        f"{folds} folds",
        failed=_failed(parts),
    )


def sharpened_by_folds(parts: Sequence[Part], data: Data, seed: int, members: Sequence[Member]) -> LeftOut:
    """As `by_folds` for classes, with the members as sure as these rows say that they may be."""
    left = by_folds(parts, data, seed, chains="extremes")
    (probs,), noise = left.predictive.numbers, left.predictive.noise
    apart = probs.view(len(probs), len(members), -1, probs.shape[-1])
    y = data.y.cpu()[left.rows]
    powers = fit(apart, y, left.counts)
    own = by_chains(apart, powers)
    score = own.gather(2, y.view(-1, 1, 1).expand(-1, len(members), 1))[..., 0].log()
    predictive = replace(
        left.predictive, numbers=(own,), noise=noise.view(len(noise), len(members), -1).mean(2)
    )
    sharpness = {(m.k, m.s): float(power) for m, power in zip(members, powers, strict=True)}
    return replace(left, score=score, predictive=predictive, sharpness=sharpness)


def contaminated_by_folds(parts: Sequence[Part], data: Data, seed: int, members: Sequence[Member]) -> LeftOut:
    """As `by_folds` for one real outcome, with the members as far off as these rows say that they may be."""
    left = by_folds(parts, data, seed)
    if left.predictive.kind is not MixtureCredalSet:
        return left
    y = (data.y * data.targets.scale + data.targets.loc).double().cpu()[left.rows]
    loc, scale, weights = left.predictive.numbers
    own = tails.fit(y, left.counts, loc, scale, weights)
    known = {(m.k, m.s): tail for m, tail in zip(members, own, strict=True)}
    predictive = left.predictive.with_tails(members, known)
    score = tails.log_density(y, *predictive.numbers)
    return replace(left, score=score, predictive=predictive, tails=known)


def levels(left: LeftOut, learned: Learned, data: Data, form: Form) -> Conformity:
    """The levels that regions of the members `learned` need to hold outcomes that they have not seen."""
    own = left.counts.nonzero()[:, 0]  # rows of no weight have no say
    places, counts = left.rows[own].to(data.y.device), left.counts[own].numpy()
    y = data.y[places].cpu()
    if learned.space == "real":
        y = y * data.targets.scale.cpu() + data.targets.loc.cpu()
    sets = left.predictive.at(own).in_form(form).credal_set(learned.members, None)
    needed = conformity(sets, y.numpy(), counts, left.how)
    if left.way == "weights" or not isinstance(sets, MixtureCredalSet | NormalCredalSet):
        return needed
    some = slice(None, None, -(-len(places) // COMPARED))
    numbers = predict(learned, data.x[places[some]], DRAWS, form, floor=False)
    return carried(needed, sets[some], numbers.credal_set(learned.members, None), counts[some])


def _without(part: Part, fold: int) -> Part:
    """The members that have not seen `fold`, as the members they stand for."""
    places = [i for i, m in enumerate(part.cohort.members) if m.fold == fold]
    cohort = part.cohort.only(places)
    plain = replace(cohort, members=tuple(replace(m, fold=None) for m in cohort.members))
    return Part(part.priors, plain, part.posterior.only(places))


def _failed(parts: Iterable[Part]) -> frozenset[tuple[int, int]]:
    """The pairs of which a training failed, with all its chains."""
    return frozenset(
        (part.cohort.members[i].k, part.cohort.members[i].s)
        for part in parts
        if part.posterior.record is not None
        for i in part.posterior.record.failures
    )


def _counts(data: Data) -> Tensor:
    if data.weights is None:
        return torch.ones(data.rows, dtype=torch.float64)
    return data.weights.double().cpu()
