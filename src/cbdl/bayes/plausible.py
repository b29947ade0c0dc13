"""Which members the data refute: between keeping every prior and keeping the likeliest alone (an alpha-cut).

Full Bayesian updating, as in the paper, keeps every member; maximum-likelihood updating (Gilboa and Schmeidler 1993)
keeps the likeliest. In between, a member stays if its plausibility is at least alpha. Likelihoods of whole data sets
are no measure of that: they differ by many nats between members that predict new rows about equally well, so that any
cut leaves one. What counts is whether the rows tell the members apart, and whether it matters. With d the differences
of the log predictive densities of left-out rows under the best member and under another, n of them, and
z = mean(d) / (sd(d) / sqrt(min(n, 500))),

    plausibility = min(exp(-z^2 / 2), exp(-20 mean(d))),

the relative likelihood of "it predicts as well as the best one", as so many rows would tell, and that of twenty fresh
rows: for a member that fails rarely, but then badly, z is small because the error is large.

A set of one member knows no ignorance. Where more are to stay at least, the next best stay with it, and it is told that
the data refute them.

A member whose training failed has learned nothing that data could refute: where it falls, it is told that it failed,
and it does not stay for the sake of numbers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor

from cbdl.ground.shown import html_table

from .cohort import Member

TELLING = 500
"""Rows that tell members apart, at most: with more of them the smallest difference would refute."""
FRESH = 20
"""Fresh rows whose relative likelihood is asked for."""
REFUTED = 0.05
"""Plausibility below which the neighbour of the last prior of a grid says that the grid ends too soon."""


class GridWarning(UserWarning):
    """The data ask for priors beyond the end of the grid that was given."""


@dataclass(frozen=True)
class Verdict:
    """One member: how well it predicts rows that it has not seen, and whether it stays."""

    member: Member
    """Which prior and which likelihood."""
    score: float
    """Mean log predictive density of a row that was left out (nats)."""
    behind: float
    """How far that is behind the best member (nats a row)."""
    error: float
    """The standard error of `behind`."""
    plausibility: float
    """1 for the best member, near 0 for the refuted."""
    kept: bool
    """Whether it stays."""
    failed: bool = False
    """Whether its training came to nothing, so that the score says nothing about its prior."""


@dataclass(frozen=True, repr=False)
class Plausibility:
    """The verdict on every member, at a cut of `alpha`; `how` the rows were left out."""

    alpha: float
    how: str
    verdicts: tuple[Verdict, ...]
    """One per member."""
    edge: str = ""
    """Which end of the grid of priors the data ask to go beyond, and what to do; empty: none."""

    @property
    def dropped(self) -> tuple[Member, ...]:
        """The members that fell."""
        return tuple(v.member for v in self.verdicts if not v.kept)

    @property
    def failed(self) -> tuple[Member, ...]:
        """Those of them whose training failed; the data refute the others."""
        return tuple(v.member for v in self.verdicts if v.failed and not v.kept)

    @property
    def spared(self) -> tuple[Member, ...]:
        """The members that stay although the data refute them: there would be too few."""
        return tuple(v.member for v in self.verdicts if self._spared(v))

    def _spared(self, v: Verdict) -> bool:
        return v.kept and v.plausibility < self.alpha

    @property
    def summary(self) -> str:
        """Who fell, in a sentence."""
        refuted = [m for m in self.dropped if m not in self.failed]
        out, spared, failed = (
            "; ".join(f"({m})" for m in own) for own in (refuted, self.spared, self.failed)
        )
        said = f"refuted by the data (plausibility below {self.alpha:g}, {self.how}): {out or 'nobody'}"
        if spared:
            said += f"; refuted, but kept because one member alone knows no ignorance: {spared}"
        return f"{said}; left out because their training failed: {failed}" if failed else said

    def __repr__(self) -> str:
        return f"Plausibility({self.summary})"

    def _repr_html_(self) -> str:
        rows = [
            [str(v.member), v.score, v.behind, v.error, v.plausibility, self._fate(v) or "kept"]
            for v in self.verdicts
        ]
        return html_table(
            "Plausibility of the members",
            ["member", "left-out score", "behind", "+-", "plausibility", "verdict"],
            rows,
            [self.summary, *([self.edge] if self.edge else [])],
        )

    def __str__(self) -> str:
        head = f"{'member':<26}{'left-out score':>15}{'behind':>10}{'+-':>8}{'plausible':>11}"
        lines = [f"members that the data do not refute (cut at {self.alpha:g}, {self.how}):", head]
        lines += [
            f"{v.member!s:<26}{v.score:>15.4f}{v.behind:>10.4f}{v.error:>8.4f}{v.plausibility:>11.3g}"
            f"  {self._fate(v)}".rstrip()
            for v in self.verdicts
        ]
        return "\n".join([*lines, self.edge] if self.edge else lines)

    def _fate(self, v: Verdict) -> str:
        if v.failed:
            return "failed, kept" if v.kept else "failed"
        return "dropped" if not v.kept else "refuted, kept" if self._spared(v) else ""


def judge(
    members: tuple[Member, ...],
    score: Tensor,
    counts: Tensor,
    alpha: float,
    how: str = "",
    scales: Sequence[float] | None = None,
    least: int = 1,
    failed: Collection[tuple[int, int]] = (),
) -> Plausibility:
    """The verdicts from log predictive densities of left-out rows (n, m), each of which counts `counts` (n,) times.

    `scales` of the priors, where they are a grid of them: a plausible end of it is told. `least`: so many members stay
    whatever the data say, those that predict best, unless alpha is 1. `failed`: the pairs (k, s) whose training failed;
    nobody is compared with them, unless all did.
    """
    check_cut(alpha)
    check_least(least)
    total = counts.sum()
    mean = (counts.unsqueeze(1) * score).sum(0) / total
    lost = torch.tensor([(m.k, m.s) in failed for m in members], device=mean.device)
    well = ~lost if not bool(lost.all()) else torch.ones_like(lost)
    rank = mean.nan_to_num(-math.inf).masked_fill(~well, -math.inf)
    order = rank.argsort(descending=True, stable=True)
    best = int(order[0])
    away = score[:, best : best + 1] - score
    behind = mean[best] - mean
    variance = (counts.unsqueeze(1) * (away - behind).square()).sum(0) / (total - 1).clamp_min(1)
    error = (variance / total).sqrt()
    coarse = (variance / total.clamp_max(TELLING)).sqrt()
    z = torch.where(behind > 0, behind / coarse.clamp_min(1e-300), 0.0).nan_to_num(math.inf)
    plausibility = torch.exp(-torch.maximum(0.5 * z.square(), FRESH * behind).nan_to_num(math.inf))
    kept = (plausibility >= alpha) if alpha > 0 else torch.ones_like(z, dtype=torch.bool)
    kept[best] = True
    if alpha < 1:
        kept[order[:least]] |= (mean.isfinite() & well)[order[:least]]
    numbers = torch.stack([mean, behind, error, plausibility], 1).tolist()
    verdicts = (
        Verdict(m, own[0], own[1], own[2], own[3], bool(stays), bool(fell))
        for m, own, stays, fell in zip(members, numbers, kept, lost, strict=True)
    )
    judged = tuple(verdicts)
    return Plausibility(alpha, how, judged, "" if scales is None else _edge(judged, scales))


def _edge(verdicts: Sequence[Verdict], scales: Sequence[float]) -> str:
    """What to say if the best prior is the narrowest or widest of at least three, and the next one is refuted."""
    level: dict[float, float] = {}
    for v in verdicts:
        if not v.failed:
            level[scales[v.member.k]] = max(level.get(scales[v.member.k], 0.0), v.plausibility)
    if len(level) < 3:
        return ""
    order = sorted(level)
    for name, end, next_one in (("narrowest", order[0], order[1]), ("widest", order[-1], order[-2])):
        if level[end] == 1 and level[next_one] < REFUTED:
            return (
                f"the {name} prior (scale {end:g}) is the best and the next (scale {next_one:g}) is refuted: "
                f"give priors that are {'narrower' if name == 'narrowest' else 'wider'} still"
            )
    return ""


def check_cut(alpha: object) -> None:
    """A ValueError unless alpha is a share."""
    if not isinstance(alpha, Real) or not 0 <= float(alpha) <= 1:
        raise ValueError(
            f"plausible is {alpha!r}; give a share from 0 (every member stays) to 1 (only the likeliest)"
        )


def check_least(least: int) -> None:
    """A ValueError unless `least` is a number of members."""
    if int(least) != least or least < 1:
        raise ValueError(f"least is {least}; give how many members stay at least, 1 or more")
