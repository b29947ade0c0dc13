"""What a person should know about the posteriors before trusting their credal set (the remark after Step 3).

The projected posteriors may coincide, with each other or with their priors; the credal set is then too small. One row
a member, distances between members, and warnings with advice.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from cbdl.ground.shown import html_table

from .cohort import Cohort, Member
from .methods._chains import ChainsRecord
from .methods.protocol import Posterior
from .mixing import mixing, summary
from .plausible import Plausibility
from .rows import TrainingData
from .train import TrainingWarning

COLLAPSED = 0.02
"""Members whose predictions differ by less than this (a probability, or standard deviations of the noise) coincide."""
LEFT = 0.9
"""A member with more than this share of its parameters left at the prior has learned next to nothing."""
MIXED = 1.5
"""An R-hat of predictions above this tells of chains that do not agree."""
COLUMNS = (
    "member",
    "train nll",
    "validation nll",
    "KL / N",
    "at prior",
    "R-hat",
    "ESS",
    "epochs",
    "nearest",
    "failed",
)
"""What is said of every member."""
ROWS = 2048
"""Distances between predictions are taken on at most so many training rows."""


class CollapseWarning(TrainingWarning):
    """Members that coincide with each other or with their priors."""


@dataclass(frozen=True)
class Row:
    """One member: figures a row of the data, in the user's units (nats)."""

    member: Member
    """Which prior and which likelihood."""
    train_nll: float
    """Mean over rows and draws of -log p(y | x, theta)."""
    validation_nll: float
    """The same on the validation data; nan without."""
    kl: float
    """KL(q || prior) / N; nan where the method has no density."""
    at_prior: float
    """Share of parameters whose mean is within a tenth of the prior's scale of its centre, and whose standard
    deviation is at least nine tenths of that scale. After an update the prior is the posterior of before."""
    noise: float
    """Mean predictive standard deviation of the noise (regression); nan for classes."""
    rhat: float
    """Split R-hat that a tenth of the predictions on training rows exceed; 1: chains agree, nan: there are none."""
    ess: float
    """Effective number of draws of the predictions, median over training rows; nan without chains."""
    lost: int
    """Chains that failed and gave way to others."""
    epochs: int
    """Passes over the data."""
    failed: str
    """What went wrong in training; empty if nothing did."""


@dataclass(frozen=True, repr=False)
class Diagnostics:
    """All members of a model, and how far they are from each other."""

    rows: tuple[Row, ...]
    """One per member."""
    parameter_distance: Tensor
    """(m, m): root mean square over parameters of the 2-Wasserstein distance of the marginals, in units of the
    prior's scale; nan between members of different architectures."""
    predictive_distance: Tensor
    """(m, m): between mean predictions on training rows: total variation for classes, else the absolute difference in
    standard deviations of the noise; mean over rows."""
    warnings: tuple[str, ...]
    """What is wrong, and what to do; each was given as a warning too."""
    plausibility: Plausibility | None = None
    """Which members the data refuted and why; None if nobody asked."""

    def drop(self, margin: float, on: str = "validation_nll") -> tuple[list[Row], list[Row]]:
        """Members to keep and to drop: those that failed or are more than `margin` nats worse than the best.

        Says so by a warning; never silent. `on` is the figure of a row that is compared.
        """
        value = [getattr(row, on) for row in self.rows]
        finite = [v for v, row in zip(value, self.rows, strict=True) if v == v and not row.failed]
        if not finite:
            raise ValueError(f"no member has a {on}; give validation data")
        bad = [
            bool(row.failed) or not v <= min(finite) + margin for v, row in zip(value, self.rows, strict=True)
        ]
        dropped = [row for row, b in zip(self.rows, bad, strict=True) if b]
        for row in dropped:
            why = (
                row.failed
                or f"its {on} {getattr(row, on):.4f} is over {margin:g} above the best ({min(finite):.4f})"
            )
            warnings.warn(f"({row.member}) is dropped: {why}", TrainingWarning, stacklevel=2)
        return [row for row, b in zip(self.rows, bad, strict=True) if not b], dropped

    def nearest(self) -> list[float]:
        """Of every member the distance of its predictions to those of the nearest other one; nan if it is alone."""
        far = self.predictive_distance.clone().fill_diagonal_(torch.inf)
        return [float("nan")] * len(self.rows) if len(self.rows) < 2 else far.amin(1).tolist()

    def table(self) -> list[list[object]]:
        """A row per member under `COLUMNS`."""
        return [
            [
                str(r.member),
                r.train_nll,
                r.validation_nll,
                r.kl,
                f"{r.at_prior:.0%}",
                r.rhat,
                r.ess,
                r.epochs,
                near,
                r.failed,
            ]
            for r, near in zip(self.rows, self.nearest(), strict=True)
        ]

    def __repr__(self) -> str:
        return str(self)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> Row:
        return self.rows[index]

    def _repr_html_(self) -> str:
        plausibility = [] if self.plausibility is None else [self.plausibility.summary]
        return html_table(
            f"Diagnostics of {len(self.rows)} members", COLUMNS, self.table(), [*plausibility, *self.warnings]
        )

    def __str__(self) -> str:
        head = (
            f"{'member':<26}{'train nll':>11}{'valid nll':>11}{'KL/N':>9}{'at prior':>10}{'R-hat':>7}{'ESS':>7}"
            f"{'epochs':>8}  nearest"
        )
        lines = [head]
        for r, distance in zip(self.rows, self.nearest(), strict=True):
            near = f"{distance:.3f}" if distance == distance else "-"
            lines.append(
                f"{r.member!s:<26}{r.train_nll:>11.4f}{r.validation_nll:>11.4f}{r.kl:>9.4f}{r.at_prior:>10.1%}"
                f"{r.rhat:>7.2f}{r.ess:>7.0f}{r.epochs:>8}  {near}{'  FAILED' if r.failed else ''}"
                f"{f'  {r.lost} chains lost' if r.lost else ''}"
            )
        verdict = [] if self.plausibility is None else [str(self.plausibility)]
        return "\n".join([*lines, *verdict, *self.warnings])


def diagnose(
    fitted: Sequence[tuple[Cohort, Posterior]],
    data: TrainingData,
    *,
    draws: int = 16,
    seed: int = 0,
    warn: bool = True,
    continued: bool = False,
) -> Diagnostics:
    """The diagnostics of all members of all cohorts, from `draws` draws of each posterior.

    continued: the priors are the posteriors of before, near which a member that learned well may stay.
    """
    rows: list[Row] = []
    moments: list[tuple[int, Tensor, Tensor]] = []
    means: list[Tensor] = []
    halves: list[Tensor] = []
    for number, (cohort, posterior) in enumerate(fitted):
        drawn = _Drawn(cohort, posterior, posterior.sample(draws, seed), posterior.noises(draws, seed))
        mean, deviation = posterior.moments()
        rows += _rows(drawn, data, mean, deviation)
        scale = cohort.prior.spread()
        moments += [(number, mean[i] / scale[i], deviation[i] / scale[i]) for i in range(cohort.size)]
        mean_prediction, half = _predictions(drawn, data)
        means += list(mean_prediction)
        halves += list(half)
    near = _between(moments)
    far = torch.tensor(
        [[_gap(a, b, rows[i], rows[j]) for j, b in enumerate(means)] for i, a in enumerate(means)],
        dtype=torch.float64,
    )
    # what two halves of one member's draws differ by, brought to the number of draws in `far`
    chance = torch.tensor([_gap(h[0], h[1], rows[i], rows[i]) / 2**0.5 for i, h in enumerate(halves)])
    messages = tuple(_advice(rows, far, chance.double(), continued))
    if warn:
        for message in messages:
            warnings.warn(message, CollapseWarning, stacklevel=2)
    return Diagnostics(tuple(rows), near, far, messages)


@dataclass(frozen=True)
class _Drawn:
    """Networks (members, draws, P) with their noise parameters (members, draws, Q)."""

    cohort: Cohort
    posterior: Posterior
    theta: Tensor
    noise: Tensor

    def nll(self, data: TrainingData) -> Tensor:
        """(members,): the mean over rows and draws, in the user's units."""
        # densities of standardised targets become those of the user's by the size of a unit
        real = self.cohort.likelihood.space == "real"
        unit = float(self.cohort.unit.double().log().sum()) if real else 0.0
        outputs = partial(self.posterior.outputs, self.cohort)
        nll = self.cohort.mean_nll(self.theta, self.noise, self.posterior.buffers, data, outputs=outputs)
        return nll.mean(1) + unit

    def describe(self, data: TrainingData, draws: int | None = None) -> dict[str, Tensor]:
        """The predictive distributions on at most `ROWS` rows, of some draws or of all."""
        held = data.held
        x = held.x[:: max(1, held.rows // ROWS)][:ROWS]
        theta, noise = self.theta[:, :draws], self.noise[:, :draws]
        outputs = partial(self.posterior.outputs, self.cohort)
        return self.cohort.describe(theta, noise, self.posterior.buffers, x, data.targets, outputs)


def _rows(drawn: _Drawn, data: TrainingData, mean: Tensor, deviation: Tensor) -> list[Row]:
    cohort, posterior = drawn.cohort, drawn.posterior
    train = drawn.nll(data)
    nothing = torch.full_like(train, torch.nan)
    valid = nothing if data.validation is None else drawn.nll(data.validation)
    total = posterior.kl(cohort)
    kl = nothing if total is None else total / data.size
    loc, scale = cohort.prior.location(), cohort.prior.spread()
    left = ((mean - loc).abs() < 0.1 * scale) & (deviation > 0.9 * scale) & (deviation < 1.1 * scale)
    share = left.float().mean(1)
    noise = _noise(drawn, data)
    rhat, ess = summary(mixing(cohort, posterior, data), cohort.size)
    record = posterior.record
    lost = record.lost.tolist() if isinstance(record, ChainsRecord) and record.lost.numel() else []
    failures = record.failures if record is not None else {}
    return [
        Row(
            member=member,
            train_nll=float(train[i]),
            validation_nll=float(valid[i]),
            kl=float(kl[i]),
            at_prior=float(share[i]),
            noise=float(noise[i]),
            rhat=rhat[i],
            ess=ess[i],
            lost=int(lost[i]) if lost else 0,
            epochs=int(record.stopped[i]) if record is not None and record.stopped.numel() > i else 0,
            failed=failures.get(i, ""),
        )
        for i, member in enumerate(cohort.members)
    ]


def _noise(drawn: _Drawn, data: TrainingData) -> Tensor:
    numbers = drawn.describe(data, draws=2)
    if "scale" not in numbers:
        return drawn.theta.new_full((drawn.cohort.size,), torch.nan)
    return numbers["scale"].flatten(1).mean(1)


def _predictions(drawn: _Drawn, data: TrainingData) -> tuple[Tensor, Tensor]:
    """Mean predictions of every member (members, rows, numbers), and those of two halves of its draws."""
    numbers = drawn.describe(data)
    value = next(numbers[name] for name in ("probs", "loc", "rate") if name in numbers)
    value = value.flatten(3) if value.ndim > 3 else value.unsqueeze(-1)
    half = max(1, value.shape[1] // 2)
    return value.mean(1), torch.stack([value[:, :half].mean(1), value[:, -half:].mean(1)], 1)


def _between(moments: list[tuple[int, Tensor, Tensor]]) -> Tensor:
    count = len(moments)
    out = torch.full((count, count), torch.nan, dtype=torch.float64)
    for i, (a, mean, deviation) in enumerate(moments):
        for j, (b, other, spread) in enumerate(moments):
            if a == b:
                square = (mean - other).square() + (deviation - spread).square()
                out[i, j] = float(square.mean().sqrt())
    return out


def _gap(one: Tensor, other: Tensor, row: Row, other_row: Row) -> float:
    """The distance between two members' mean predictions (rows, numbers)."""
    gap = (one - other).abs()
    if row.noise == row.noise:  # regression: in units of the noise
        return float(gap.mean()) / (0.5 * (row.noise + other_row.noise))
    return float(0.5 * gap.sum(-1).mean())


def _advice(rows: list[Row], far: Tensor, chance: Tensor, continued: bool) -> list[str]:
    """One sentence for each thing that is wrong; distances that `chance` explains count as none."""
    messages = []
    least = (0.6 * (chance.unsqueeze(0) + chance.unsqueeze(1))).clamp_min(COLLAPSED)
    same = [(i, j) for i in range(len(rows)) for j in range(i) if float(far[i, j]) < float(least[i, j])]
    if same:
        names = "; ".join(f"({rows[j].member}) and ({rows[i].member})" for i, j in same[:4])
        more = f" and {len(same) - 4} more pairs" if len(same) > 4 else ""
        messages.append(
            f"members predict the same, or differ by Monte Carlo noise only: {names}{more}. "
            "The credal set is smaller than the priors ask for. Use priors "
            "that differ more (cbdl.priors.grid), another divergence (MeanField(divergence=Renyi(0.5))), or "
            "another method (Laplace)"
        )
    apart = [row for row in rows if row.rhat > MIXED]
    if apart:
        names = "; ".join(f"({row.member}) {row.rhat:.2f}" for row in apart[:4])
        messages.append(
            f"the chains of some members do not agree about predictions (R-hat): {names}. Each has found its own way "
            "to explain the data; predictions hold them all. Raise warmup and draws (steps of an estimator), or chains"
        )
    lost = [] if continued else [row.member for row in rows if row.at_prior > LEFT]
    if lost:
        messages.append(
            f"members stayed at their priors: {'; '.join(f'({m})' for m in lost[:4])}. The KL outweighs the data: use "
            "a smaller network, a narrower prior (fan_in=True), KL warm-up, or more epochs"
        )
    return messages
