"""What a prediction is: a credal set that knows its members and its Monte Carlo floor (Step 4 of Algorithm 1).

Monte Carlo noise must not pass for ignorance: upper minus lower entropy takes a maximum and a minimum, so noise in
the members always widens it. Members share their base draws (`bayes.draws`), and every prediction carries its *floor*:
the epistemic uncertainty that identical members with independent draws would show.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from cbdl.bayes.cohort import Member
from cbdl.bayes.learned import Learned
from cbdl.bayes.pooling import pooled, signal
from cbdl.bayes.predictive import averages, descriptions, moments, normals
from cbdl.bayes.sharpness import sharpened_averages
from cbdl.bayes.tails import Tail, contaminated, normal_entropy
from cbdl.bayes.tails import moments as mixture_moments
from cbdl.credal import (
    CategoricalCredalSet,
    CredalSet,
    DiagonalNormalCredalSet,
    MixtureCredalSet,
    NormalCredalSet,
)
from cbdl.credal.floor import class_floor, line_floor, normal_floor, weightings
from cbdl.ground import memory

Form = Literal["mixture", "normal"]
"""How a member predicts one real number: the mixture of its draws' Normals, or the Normal of the same moments."""
FORMS: tuple[Form, ...] = ("mixture", "normal")
DRAWS = 20
"""Draws of the parameters behind a prediction, unless the user asks for another number."""
FIRST = 16
"""Draws with which `samples="auto"` begins."""


@dataclass(frozen=True)
class Predictive:
    """The predictive distributions of m members for a batch of rows.

    numbers: what the credal set is made of, each (rows, m, ...)
    draws:   (rows,) behind every row
    noise:   (rows, m): the entropy of the outcome given the parameters, mean over draws
    floor:   (rows,), or None for mixtures, whose numbers tell it when it is asked for
    normals: how many components of a mixture make up one draw
    paired:  whether draws come in antithetic pairs
    chains:  if not, how many they are taken from in turn
    """

    kind: type[CredalSet]
    numbers: tuple[Tensor, ...]
    draws: Tensor
    noise: Tensor
    floor: Tensor | None = None
    normals: int = 1
    paired: bool = True
    chains: int = 1

    def credal_set(self, members: tuple[Member, ...], device: torch.device | None) -> CredalSet:
        """The convex hull of the members: tensors on `device`, or numpy arrays if that is None."""
        arrays = (t.numpy() if device is None else t.to(device) for t in self.numbers)
        return self.kind(*arrays).with_origin(
            Draws(members, self.draws, self.noise, self.floor, self.normals, self.paired, self.chains)
        )

    @classmethod
    def join(cls, parts: Sequence[Predictive]) -> Predictive:
        """The rows of several predictions of one kind, one after the other; their floor is not asked for."""
        numbers = tuple(torch.cat(own) for own in zip(*(part.numbers for part in parts), strict=True))
        draws, noise = (torch.cat([getattr(part, name) for part in parts]) for name in ("draws", "noise"))
        return replace(parts[0], numbers=numbers, draws=draws, noise=noise, floor=None)

    def only(self, places: Sequence[int]) -> Predictive:
        """Some of the members; the floor depends on their number and is not asked for."""
        own = list(places)
        return replace(
            self, numbers=tuple(t[:, own] for t in self.numbers), noise=self.noise[:, own], floor=None
        )

    def in_form(self, form: Form) -> Predictive:
        """Mixtures as the Normals of their moments, if that is the form; their floor is not asked for."""
        if form == "mixture" or self.kind is not MixtureCredalSet:
            return self
        return replace(self, kind=NormalCredalSet, numbers=_moments(*self.numbers), floor=None, normals=1)

    def with_tails(self, members: Sequence[Member], known: Mapping[tuple[int, int], Tail]) -> Predictive:
        """Members as far off as they may be (`bayes.tails`): one more component of their mixtures, after those that
        tell the floor; Normals are as much wider as such mixtures are."""
        if not known:
            return self
        tails = [known.get((m.k, m.s), Tail(0.0, 1.0)) for m in members]
        shares, widths = torch.tensor([(t.share, t.width) for t in tails], dtype=torch.float64).T
        if self.kind is MixtureCredalSet:
            loc, scale, weights = self.numbers
            numbers: tuple[Tensor, ...] = contaminated(loc, scale, weights, shares, widths)
            wide = numbers[1][..., -1]
        else:
            mean, deviation = self.numbers
            numbers = (mean, deviation * (1 - shares + shares * widths.square()).sqrt())
            wide = widths * deviation
        return replace(self, numbers=numbers, noise=(1 - shares) * self.noise + shares * normal_entropy(wide))

    def at(self, rows: Tensor) -> Predictive:
        """Some of the rows."""
        floor = None if self.floor is None else self.floor[rows]
        numbers = tuple(t[rows] for t in self.numbers)
        return replace(self, numbers=numbers, draws=self.draws[rows], noise=self.noise[rows], floor=floor)


@dataclass(frozen=True)
class Draws:
    """The origin of a prediction: its members, and how many draws are behind each row."""

    members: tuple[Member, ...]
    draws: Tensor
    noise: Tensor
    """(..., m): the entropy of the outcome given the parameters, mean over draws (nats)."""
    known: Tensor | None
    normals: int
    paired: bool = True
    chains: int = 1

    def floor(self, credal: CredalSet) -> Tensor:
        """(...,): the epistemic uncertainty (nats) that Monte Carlo noise alone would show; nan: unknown."""
        if self.known is not None:
            return self.known
        numbers = (torch.as_tensor(t).cpu() for t in (credal.loc, credal.scale, credal.weights))
        loc, scale, weights = (t.reshape(-1, *t.shape[-2:]) for t in numbers)
        draws = self.draws.reshape(-1)
        floor = line_floor(
            loc, scale, weights, draws, normals=self.normals, paired=self.paired, chains=self.chains
        )
        return floor.view(self.draws.shape)

    def at(self, index: tuple[Tensor, ...]) -> Draws:
        """The origin of the sets at `index` of the batch."""
        known = None if self.known is None else self.known[index]
        return replace(self, draws=self.draws[index], noise=self.noise[index], known=known)


def averaged(credal: CredalSet) -> CredalSet:
    """A prediction for classes whose extremes are chains, with the chains of every member averaged."""
    origin = credal.origin
    if not isinstance(origin, Draws) or not isinstance(credal, CategoricalCredalSet):
        return credal
    count = 1 + max(m.chain for m in origin.members)
    if count == 1:
        return credal
    whole = torch.as_tensor(credal.probs)
    probs = whole.reshape(*whole.shape[:-2], -1, count, whole.shape[-1]).mean(-2)
    noise = origin.noise.reshape(*origin.noise.shape[:-1], -1, count).mean(-1)
    members = tuple(replace(m, chain=0) for m in origin.members[::count])
    floor = torch.full_like(origin.draws, math.nan, dtype=torch.float64)
    fewer = replace(origin, members=members, draws=origin.draws * count, noise=noise, known=floor)
    own = CategoricalCredalSet(probs if isinstance(credal.probs, Tensor) else probs.numpy())
    return own.with_origin(fewer).with_labels(credal.labels)


# --- from posteriors to numbers -----------------------------------------------------------------------------


def predict(
    learned: Learned,
    x: Tensor,
    samples: int | str = DRAWS,
    form: Form = "mixture",
    tolerance: float = 0.01,
    max_samples: int = 1280,
    max_memory: int | None = None,
    floor: bool = True,
) -> Predictive:
    """The predictive distributions of all members for standardised inputs x (rows, ...).

    From draws 0, ..., samples - 1 of the model's stream, or as many as are distinct; with "auto" each row has twice as
    many every time until its floor is below `tolerance` or they are `max_samples`. Without `floor` that of classes and
    of several outputs is nan.
    """
    check_form(form)
    limit = memory.limit(max_memory)
    if samples == "auto":
        return _adaptive(learned, x, form, tolerance, max_samples, limit).with_tails(
            learned.members, learned.tails
        )
    if isinstance(samples, str) or int(samples) != samples or samples < 1:
        raise ValueError(f'samples is {samples!r}; give a whole number of at least 1, or "auto"')
    return _fixed(learned, x, form, int(samples), limit, floor).with_tails(learned.members, learned.tails)


def check_form(form: str) -> None:
    """A ValueError unless `form` is one of the forms."""
    if form not in FORMS:
        raise ValueError(f'predictive is {form!r}; give "mixture" or "normal"')


def _fixed(learned: Learned, x: Tensor, form: Form, draws: int, limit: int, floor: bool = True) -> Predictive:
    """All rows from the same number of draws; of finitely many points each at most once."""
    draws = min(draws, learned.distinct or draws)
    count = torch.full((x.shape[0],), draws)
    how = _taken(learned)
    if learned.space != "real":
        return _classes(learned, x, count, limit, floor)
    if not floor and learned.targets.loc.ndim > 0:
        return _spread(learned, x, count, limit)
    loc, scale, entropy = normals(learned, x, draws, limit)
    noise = entropy.mean(2)
    if form == "mixture" and loc.ndim == 3:
        return _mixture(loc, scale, count, noise, learned.noises, **how)
    mean, deviation = _moments(loc, scale)
    kind = DiagonalNormalCredalSet if loc.ndim > 3 else NormalCredalSet
    known = normal_floor(loc, scale, count, **how)
    return Predictive(kind, (mean, deviation), count, noise, known, **how)


def _taken(learned: Learned) -> dict[str, Any]:
    """How the draws of a prediction are taken: in antithetic pairs, or from chains in turn."""
    return {"paired": learned.distinct is None, "chains": learned.chains}


def _spread(learned: Learned, x: Tensor, draws: Tensor, limit: int) -> Predictive:
    """Diagonal Normals of all draws together, without a floor."""
    mean, variance, noise = moments(learned, x, int(draws[0]), limit)
    numbers = (mean.flatten(2), variance.sqrt().flatten(2))
    unknown = torch.full((x.shape[0],), math.nan, dtype=torch.float64)
    return Predictive(DiagonalNormalCredalSet, numbers, draws, noise, unknown, **_taken(learned))


def _classes(learned: Learned, x: Tensor, draws: Tensor, limit: int, wanted: bool) -> Predictive:
    """Averages over all draws, and over groups of them for the floor, a bounded number of rows at a time."""
    whole = learned
    if learned.sharpness:  # chains are sharpened one by one
        learned = learned.by_chain()
    how = _taken(learned)
    chains = len(learned.members) // len(whole.members)
    each = -(-draws // chains)
    count = int(each[0])
    apart = 1 + max(m.chain for m in whole.members)  # chains that are extremes
    weights = weightings(count, **how)[: None if wanted else 1]
    rows = x.shape[0]
    if learned.space == "classes":
        *_, numbers = next(descriptions(learned, x[:1], 1, limit))
        rows = max(1, limit // (32 * len(learned.members) * len(weights) * numbers["probs"].shape[-1]))
    probs, noise, floor = [], [], []
    for a in range(0, x.shape[0], rows):
        part, entropy, spread = averages(learned, x[a : a + rows], weights, limit)
        share = (
            signal(part[:, :, 0], spread, count, apart) if apart > 1 and learned.space == "classes" else None
        )
        if learned.sharpness:
            part, entropy = _sharp(part, entropy, learned.powers, chains)
        probs.append(part[:, :, 0].clone() if share is None else pooled(part[:, :, 0], share))
        noise.append(entropy if share is None else pooled(entropy, share))
        unknown = torch.full((len(part),), math.nan, dtype=torch.float64)
        pooling = 1 if share is None else apart
        floor.append(class_floor(part, each[a : a + rows], pooled=pooling, **how) if wanted else unknown)
    draws = each * chains
    return Predictive(
        CategoricalCredalSet, (torch.cat(probs),), draws, torch.cat(noise), torch.cat(floor), **how
    )


def _sharp(probs: Tensor, noise: Tensor, powers: Tensor, chains: int) -> tuple[Tensor, Tensor]:
    """Probabilities (rows, m * chains, W, J) to the powers of their members, and their noise (rows, m * chains), which
    keeps its share of the entropy; then both averaged over chains."""
    sharp = sharpened_averages(probs, powers)
    before, after = (torch.special.entr(p[:, :, 0]).sum(-1) for p in (probs, sharp))
    noise = noise * (after / before.clamp_min(torch.finfo(before.dtype).tiny)).clamp_max(1e300)
    rows, _, *rest = sharp.shape
    return sharp.view(rows, -1, chains, *rest).mean(2), noise.view(rows, -1, chains).mean(2)


def _mixture(
    loc: Tensor,
    scale: Tensor,
    draws: Tensor,
    noise: Tensor,
    noises: Sequence[tuple[Tensor, Tensor]],
    weights: Tensor | None = None,
    *,
    paired: bool = False,
    chains: int = 1,
) -> Predictive:
    """Mixtures of all draws (rows, m, draws), each draw's noise as the Normals that make it up; equal weights, or
    those that are given."""
    most = max(len(w) for w, _ in noises)
    share = torch.zeros(len(noises), 1, most, dtype=torch.float64)
    width = torch.ones_like(share)
    for i, (own, scales) in enumerate(noises):
        share[i, 0, : len(own)], width[i, 0, : len(own)] = own, scales
    shape = (*loc.shape, most)
    own_share = 1 / loc.shape[2] if weights is None else weights.unsqueeze(-1)
    parts = (loc.unsqueeze(-1), scale.unsqueeze(-1) * width, share * own_share)
    numbers = tuple(t.expand(shape).flatten(2) for t in parts)
    return Predictive(MixtureCredalSet, numbers, draws, noise, normals=most, paired=paired, chains=chains)


def _moments(loc: Tensor, scale: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (rows, m) or (rows, m, d) of mixtures over draws (rows, m, draws, *event), which are
    equally likely unless they have weights (rows, m, draws)."""
    share = loc.new_full((1, 1, loc.shape[2]), 1 / loc.shape[2]) if weights is None else weights
    if loc.ndim > 3:
        loc, scale = loc.flatten(3), scale.flatten(3)
    return mixture_moments(loc, scale, share)


# --- training rows, each as if it had not been seen ---------------------------------------------------------


def forgotten(learned: Learned, x: Tensor, weights: Tensor, limit: int | None = None) -> Predictive:
    """The predictive distributions for rows x with draws weighted for each row and member (rows, m, draws).

    With the weights of `cbdl.bayes.loo` every row is predicted as if it had not been among the training data.
    """
    draws = weights.shape[2]
    count = torch.full((x.shape[0],), draws)
    if learned.space == "classes":
        probs: Tensor | None = None
        noise = torch.zeros(weights.shape[:2], dtype=torch.float64)
        for members, some, rows, numbers in descriptions(learned, x, draws, limit):
            own, share = numbers["probs"].double().cpu(), weights[rows][:, members, some]
            noise[rows, members] += torch.einsum("rmd,mdr->rm", share, numbers["entropy"].double().cpu())
            part = torch.einsum("rmd,mdrj->rmj", share, own)
            probs = own.new_zeros(*weights.shape[:2], own.shape[-1]) if probs is None else probs
            probs[rows.start : rows.stop, members] += part
        assert probs is not None
        return Predictive(CategoricalCredalSet, (probs / probs.sum(-1, keepdim=True),), count, noise)
    if learned.space == "counts":
        raise ValueError("leave-one-out predictions of counts are not there yet; give rows for calibration")
    loc, scale, entropy = normals(learned, x, draws, limit)
    noise = (weights * entropy).sum(2)
    if loc.ndim == 3:
        return _mixture(loc, scale, count, noise, learned.noises, weights)
    mean, deviation = _moments(loc, scale, weights)
    return Predictive(DiagonalNormalCredalSet, (mean, deviation), count, noise)


# --- as many draws as each row needs ------------------------------------------------------------------------


def _adaptive(learned: Learned, x: Tensor, form: Form, tolerance: float, most: int, limit: int) -> Predictive:
    if not tolerance > 0:
        raise ValueError(f"tolerance is {tolerance}; it must be positive (nats)")
    most = min(most, learned.distinct or most)
    rows, draws = torch.arange(x.shape[0]), min(FIRST, most)
    parts: list[tuple[Tensor, Predictive]] = []
    while len(rows):
        part = _fixed(learned, x[rows.to(x.device)], form, draws, limit)
        floor = part.floor
        if floor is None:
            loc, scale, weights = part.numbers
            floor = line_floor(
                loc, scale, weights, part.draws, normals=part.normals, paired=part.paired, chains=part.chains
            )
        done = (floor < tolerance) | (draws >= most)
        parts.append((rows[done], replace(part, floor=floor).at(done)))
        rows, draws = rows[~done], min(2 * draws, most)
    return _joined(parts, x.shape[0])


def _joined(parts: Sequence[tuple[Tensor, Predictive]], rows: int) -> Predictive:
    """One prediction from rows with different numbers of draws; components that a row lacks have weight 0."""
    last = parts[-1][1]
    longest = max((part.numbers[0].shape[2:] for _, part in parts), default=())
    blank = (0.0, 1.0, 0.0) if last.kind is MixtureCredalSet else (0.0,) * len(last.numbers)
    numbers = tuple(
        own.new_full((rows, own.shape[1], *longest), value)
        for own, value in zip(last.numbers, blank, strict=True)
    )
    floor, draws = torch.zeros(rows, dtype=torch.float64), torch.zeros(rows, dtype=torch.int64)
    noise = floor.new_zeros(rows, last.noise.shape[1])
    for at, part in parts:
        assert part.floor is not None
        floor[at], draws[at], noise[at] = part.floor, part.draws, part.noise
        for whole, own in zip(numbers, part.numbers, strict=True):
            if own.ndim > 2:
                whole[at, :, : own.shape[2]] = own
            else:
                whole[at] = own
    return replace(last, numbers=numbers, draws=draws, noise=noise, floor=floor)
