"""What surrounds a training: its plan (how long, how fast), its run (seed, output, checkpoints), its record."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal, Self

import torch
from torch import Tensor

from .checkpoint import Checkpoint


@dataclass(frozen=True)
class Plan:
    """How long and how fast: settings of the optimiser, which methods that use it have first among their own."""

    epochs: int = 50
    batch_size: int = 128
    lr: float = 1e-3
    schedule: Literal["constant", "cosine"] = field(default="cosine", kw_only=True)
    clip: float | None = field(default=None, kw_only=True)
    """Largest norm of a member's gradient; None: no clipping."""
    patience: int | None = field(default=None, kw_only=True)
    """Epochs without a better validation score before a member stops; None: train all epochs, keep the last.
    """

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            value = getattr(self, name)
            if int(value) != value or value < 1:
                raise ValueError(f"{name} is {value}; it must be a whole number of at least 1")
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise ValueError(f"lr is {self.lr}; it must be positive")
        if self.schedule not in ("constant", "cosine"):
            raise ValueError(f'schedule is {self.schedule!r}; give "constant" or "cosine"')
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

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of `step`."""
        if self.schedule == "constant":
            return self.lr
        return self.lr * 0.5 * (1 + math.cos(math.pi * step / steps))


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
            name: torch.cat([cut(getattr(r, name), axis) for r in records], axis)
            for name, axis in axes.items()
            if all(getattr(r, name).ndim > 0 and getattr(r, name).numel() for r in records)
        }
        return type(self)(**{"loss": self.loss, "score": self.score, **joined}, failures=failures)
