"""What a training says of members that failed or were not done: what happened, the likely cause and the remedy."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from .plan import Run

SHOWN = 4
"""Most members that a message names."""


def member_name(run: Run, i: int) -> str:
    """Member i as its run calls it."""
    return f"({run.names[i]})" if run.names else f"{i} ({run.label})"


def failure(
    who: str, when: str, loss: float, x: Tensor, rate: float, clip: float | None, *, first: bool = False
) -> str:
    """Why a member was stopped whose loss, or whose gradient on inputs x at this learning rate, is not finite; `first`:
    before any step was taken."""
    what = "an infinite gradient" if math.isfinite(loss) else f"loss {loss:g}"
    largest = float(x.abs().max()) if x.is_floating_point() else 0.0
    if largest > 1e3:
        cause = f"inputs as large as {largest:.3g}: standardise them"
    elif first:
        cause = "a prior that is far too wide or far off, or a network that gives no number for these inputs"
    elif rate > 0.05:
        cause = f"a learning rate of {rate:.3g}: lower it"
    elif clip is None:
        cause = "exploding gradients: lower the learning rate or set clip=1.0"
    else:
        cause = "a network that gives no number for these inputs, or a prior that is far too wide"
    return (
        f"member {who} was stopped at {when}: {what}. "
        f"Likely cause: {cause}. Its last finite state is kept; the other members go on"
    )


def not_done(run: Run, who: Sequence[int], epochs: int, steps: int, *, fixed: bool) -> str:
    """That members still improved when their training was over, of so many epochs that were given (`fixed`) or the
    most that it may take."""
    names = "; ".join(f"({run.names[i]})" if run.names else str(i) for i in who[:SHOWN])
    more = f" and {len(who) - SHOWN} more" if len(who) > SHOWN else ""
    length = f"the {epochs} epochs" if fixed else f"the {steps} steps that a training may take"
    remedy = (
        "leave epochs out to train until it is done, or give more epochs or a higher lr"
        if fixed
        else f"give epochs={2 * epochs} or more, or a higher lr"
    )
    return f"{run.label}: still improving when {length} were over: member {names}{more}. To go on: {remedy}"
