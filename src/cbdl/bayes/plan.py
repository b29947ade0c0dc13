"""What surrounds a training: its plan (how long, how fast), its run (seed, output, checkpoints), its record."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Literal, Self

import torch
from torch import Tensor

from .checkpoint import Checkpoint
from .flat import Layout

LEARNING_RATE = 0.01
"""The first rate of Adam for small networks."""
REST = 0.2
"""The last share of the most steps that a training may take, in which the rate falls to 0."""
RISE = 0.2
"""The first share of the steps of one cycle, in which the rate rises."""
WIDE = 64
"""Inputs to a unit above which the rate is lowered."""


@dataclass(frozen=True)
class Plan:
    """How long and how fast: settings of the optimiser, which methods that use it have first among their own."""

    epochs: int | None = None
    """None: until each member is done (`cbdl.bayes.plateau`)."""
    batch_size: int = 128
    """Rows of a step."""
    lr: float | None = None
    """The rate of Adam that a training starts with; None: 0.01, less where a unit has over 64 inputs."""
    schedule: Literal["constant", "cosine", "one-cycle"] = field(default="cosine", kw_only=True)
    """How the rate falls over a given number of epochs; until a member is done it falls at plateaus instead.
    "one-cycle" rises from a tenth of the rate first, for a fifth of the steps, so that networks bear a higher one.
    """
    clip: float | None = field(default=None, kw_only=True)
    """Largest norm of a member's gradient; None: no clipping."""
    patience: int | None = field(default=None, kw_only=True)
    """Of a given number of epochs, those without a better validation score before a member stops, at its best epoch;
    None: train all epochs, keep the last. Without such a number the plateaus are those of the validation score, and
    the best state is kept.
    """

    def __post_init__(self) -> None:
        for name, value in (("epochs", self.epochs), ("batch_size", self.batch_size)):
            if value is not None and (int(value) != value or value < 1):
                raise ValueError(f"{name} is {value}; it must be a whole number of at least 1")
        if self.lr is not None and not (math.isfinite(self.lr) and self.lr > 0):
            raise ValueError(f"lr is {self.lr}; it must be positive")
        if self.schedule not in ("constant", "cosine", "one-cycle"):
            raise ValueError(f'schedule is {self.schedule!r}; give "constant", "cosine" or "one-cycle"')
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip is {self.clip}; it must be positive, or None")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience is {self.patience}; it must be at least 1, or None")

    @property
    def plan(self) -> Plan:
        """These settings without what a method adds to them."""
        return Plan(
            self.epochs,
            self.batch_size,
            self.lr,
            schedule=self.schedule,
            clip=self.clip,
            patience=self.patience,
        )

    def plan_for(self, layout: Layout) -> Plan:
        """The plan for a network: without a rate of its own it gets one that suits the network's width.

        Adam moves every weight by about its rate, so that a unit moves by up to the rate times its number of inputs.
        """
        if self.lr is not None:
            return self.plan
        widest = max((entry.fan_in for entry in layout.entries), default=1)
        return replace(self.plan, lr=LEARNING_RATE * min(1.0, WIDE / widest))

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of `step`, before plateaus."""
        first = LEARNING_RATE if self.lr is None else self.lr
        if self.epochs is None:  # a member that is not done by then comes to rest all the same
            return first * 0.5 * (1 + math.cos(math.pi * max(0.0, 1 - (1 - step / steps) / REST)))
        if self.schedule == "constant":
            return first
        rise = RISE * steps if self.schedule == "one-cycle" else 0.0
        if step < rise:
            return first * (0.1 + 0.9 * step / rise)
        return first * 0.5 * (1 + math.cos(math.pi * (step - rise) / (steps - rise)))


@dataclass(frozen=True)
class Run:
    """What surrounds a training: seed, output, checkpoints, and a way to ask it to stop."""

    seed: int = 0
    verbose: bool = False
    checkpoint: Checkpoint | None = None
    label: str = "training"
    names: tuple[str, ...] = ()
    """What the members are called in messages."""
    stop: Callable[[], bool] | None = None
    """Asked after every step; True stops as Ctrl-C does."""


@dataclass
class Record:
    """What happened: losses (epochs, members), validation scores, who failed and who stopped early."""

    loss: Tensor
    score: Tensor
    failures: dict[int, str] = field(default_factory=dict)
    """Member (its place in the cohort) -> what went wrong."""
    stopped: Tensor = field(default_factory=lambda: torch.empty(0))
    """Epochs each member was trained for (members,)."""

    # `loss` and `score` have the members on their second axis; what a method adds (R-hat, acceptance) leads with them

    def only(self, members: Sequence[int]) -> Self:
        """The record of some members, given by their places."""
        places = list(members)
        place = {old: new for new, old in enumerate(places)}
        failures = {place[i]: message for i, message in self.failures.items() if i in place}
        return self._with(
            [self], failures, lambda x, axis: x.index_select(axis, torch.tensor(places, device=x.device))
        )

    @classmethod
    def join(cls, records: Sequence[Self]) -> Self:
        """The record of all members from those of groups of them, in order."""
        failures: dict[int, str] = {}
        before = 0
        for record in records:
            failures |= {before + i: message for i, message in record.failures.items()}
            before += record.loss.shape[1]
        return records[0]._with(records, failures, lambda x, axis: x)

    def _with(
        self, records: Sequence[Self], failures: dict[int, str], cut: Callable[[Tensor, int], Tensor]
    ) -> Self:
        axes = {f.name: int(f.name in ("loss", "score")) for f in fields(self) if f.name != "failures"}
        joined = {
            name: torch.cat([cut(x, axis) for x in _even([getattr(r, name) for r in records], axis)], axis)
            for name, axis in axes.items()
            if all(getattr(r, name).ndim > 0 and getattr(r, name).numel() for r in records)
        }
        return type(self)(**{"loss": self.loss, "score": self.score, **joined}, failures=failures)


def _even(tensors: Sequence[Tensor], axis: int) -> Sequence[Tensor]:
    """Tables (epochs, members) filled up with nan to the same number of epochs; anything else as it is."""
    if axis == 0:
        return tensors
    most = max(x.shape[0] for x in tensors)
    return [torch.cat([x, x.new_full((most - x.shape[0], x.shape[1]), math.nan)]) for x in tensors]
