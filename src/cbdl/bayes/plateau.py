"""When a training is done: a plateau lowers a member's learning rate, the last plateau ends its training.

The losses (or validation scores) of a member since its rate was last lowered are cut into thirds. When the last
third is not better than the one before by more than `GAIN` nats per row, or not beyond chance, half as much training
again has bought nothing: the rate falls. For a loss that falls as a power of the steps the gain of the last third is a
bound, up to a factor, on all that is still to come; so the rule needs no number of steps, only this accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

LOOK = 25
"""Steps whose mean loss is one look."""
LEAST = 40
"""Looks at the first rate before it may be lowered."""
LATER = 12
"""The same for the other rates: thirds of four looks."""
GAIN = 0.03
"""Nats per row that half as much training again must be worth."""
SIGMAS = 1.0
"""Standard errors below which a gain is chance."""
STAGES = 4
"""Rates before a member is done."""
FALL = 0.3
"""The factor between two rates."""
CAP = 10_000
"""Steps after which a training ends in any case."""
LEAST_EPOCHS = 10
"""Epochs that every training may have, however many steps that takes."""
WORTH = 0.05
"""Nats per row; a training that still gains more than this when its length is over is worth a warning."""


class Plateau:
    """The state of the rule for all members of a training; a checkpoint holds its tensors."""

    def __init__(self, members: int, looks: int, like: Tensor) -> None:
        self.state = {
            "curve": torch.full((looks, members), torch.nan, dtype=torch.float64),
            "begin": torch.zeros(members, dtype=torch.int64),
            "stage": torch.zeros(members, dtype=torch.int64),
        }
        self.factors = like.new_ones(members, 1)
        """What the learning rate of every member is multiplied by (members, 1); 0 for those that are done."""

    @property
    def done(self) -> Tensor:
        """Members (bool) whose last rate has brought all that it can."""
        return self.state["stage"] >= STAGES

    def look(self, number: int, values: Tensor, going: Tensor) -> Tensor:
        """Take in the mean losses (members,) of look `number`; which of the members `going` are now done (bool)."""
        state = self.state
        state["curve"][number] = values.double().cpu()
        length = number + 1 - state["begin"]
        ready = going & ~self.done & (length >= torch.where(state["stage"] == 0, LEAST, LATER))
        if not bool(ready.any()):
            return torch.zeros_like(ready)
        gain, error = gains(state["curve"][: number + 1], state["begin"])
        flat = ready & ~(gain > torch.maximum(SIGMAS * error, torch.full_like(error, GAIN)))
        state["stage"] += flat.long()
        state["begin"] = torch.where(flat, number + 1, state["begin"])
        self.refresh()
        return flat & self.done

    def improving(self, looks: int) -> Tensor:
        """Members (bool) that are not done and, at the last of so many looks, still gained what is worth a warning."""
        if looks < 3:
            return torch.zeros_like(self.done)
        gain, _ = gains(self.state["curve"][:looks], self.state["begin"])
        return ~self.done & (gain > WORTH)

    def refresh(self) -> None:
        """Bring the factors up to date with the state."""
        factors = torch.where(self.done, 0.0, FALL ** self.state["stage"].double())
        self.factors.copy_(factors.unsqueeze(1))


def gains(curve: Tensor, begin: Tensor) -> tuple[Tensor, Tensor]:
    """By how much the last third of each column of `curve` (looks, members) from row `begin` (members,) on is lower
    than the third before, and the standard error of that, each (members,).
    """
    end = curve.shape[0]
    third = (end - begin) // 3
    age = end - 1 - torch.arange(end).unsqueeze(1)  # 0: the newest
    newest, before = age < third, (age >= third) & (age < 2 * third)
    mean, error = zip(*(_mean(curve, rows) for rows in (before, newest)), strict=True)
    return mean[0] - mean[1], (error[0] + error[1]).sqrt()


def _mean(curve: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The mean over `rows` (looks, members), and its squared standard error."""
    count = rows.sum(0)
    values = torch.where(rows, curve, 0.0)
    mean = values.sum(0) / count
    square = torch.where(rows, (curve - mean).square(), 0.0).sum(0) / (count - 1)
    return mean, square / count


def still_improving(losses: Tensor, rates: Sequence[float]) -> Tensor:
    """Members (bool) whose losses (epochs, members) still fell at the end of a training with these rates (epochs,).

    Thirds are of the way that the rates allow, not of the epochs: under a rate that falls to 0 nothing moves at the
    end, however far away the goal is.
    """
    way = torch.tensor(rates, dtype=torch.float64).cumsum(0)
    share = (way - 0.5 * torch.tensor(rates, dtype=torch.float64)) / way[-1]
    newest, before = share >= 2 / 3, (share >= 1 / 3) & (share < 2 / 3)
    if int(newest.sum()) < 3 or int(before.sum()) < 3:
        return torch.zeros(losses.shape[1], dtype=torch.bool)
    mean, error = zip(
        *(_mean(losses, rows.unsqueeze(1).expand_as(losses)) for rows in (before, newest)), strict=True
    )
    gain: Tensor = mean[0] - mean[1]
    worth: Tensor = (gain > WORTH) & (gain > 4 * SIGMAS * (error[0] + error[1]).sqrt())
    return worth
