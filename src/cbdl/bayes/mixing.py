"""How well the chains of a member have mixed: split R-hat and effective draws of their *predictions*.

Parameters of networks have many equal modes, between which no chain moves and none needs to. What must agree is what
the chains predict.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from .cohort import Cohort, Member
from .data import Standard
from .learned import Learned
from .methods._chains import ess, rhat
from .methods.protocol import Posterior
from .rows import TrainingData

ROWS = 64
"""Training rows whose predictions are compared."""


@dataclass(frozen=True)
class Mixing:
    """Of every member, over rows: R-hat (members, n) and the effective number of draws (members, n) of its mean."""

    rhat: Tensor
    ess: Tensor


def mixing(cohort: Cohort, posterior: Posterior, data: TrainingData) -> Mixing | None:
    """What the chains say about some of the training rows; None for a posterior that is not made of chains."""
    chains = posterior.chains()
    if chains is None:
        return None
    held = data.held
    x = held.x[:: max(1, held.rows // ROWS)][:ROWS]
    value = _predictions(cohort, posterior, chains, x, data.targets)
    return Mixing(rhat(value), ess(value))


def _predictions(
    cohort: Cohort, posterior: Posterior, chains: tuple[Tensor, Tensor], x: Tensor, targets: Standard
) -> Tensor:
    """(members, chains, draws, rows * numbers): what every draw of every chain expects at standardised inputs x."""
    theta, noise = chains
    lead = theta.shape[:3]
    numbers = cohort.describe(theta.flatten(1, 2), noise.flatten(1, 2), posterior.buffers, x, targets)
    value = next(numbers[name] for name in ("probs", "loc", "rate") if name in numbers)
    return value.reshape(*lead, -1).double()


def traces(learned: Learned, x: Tensor) -> dict[Member, Tensor]:
    """Of every member (chains, draws, numbers): the predictions along its chains for one input x (1, ...), in the
    user's units: class probabilities, or the expected outcome."""
    drawn: dict[Member, Tensor] = {}
    for part in learned.parts.values():
        chains = part.posterior.chains()
        if chains is None:
            raise ValueError(
                f"the posterior is a {type(part.posterior).__name__}, which is not made of chains; cbdl.MCLMC is"
            )
        own = learned.inputs(x).to(part.cohort.initial.dtype) if x.is_floating_point() else x
        values = _predictions(part.cohort, part.posterior, chains, own, learned.targets)
        drawn |= dict(zip(part.cohort.members, values, strict=True))
    return {member: drawn[member] for member in learned.members}


def summary(known: Mixing | None, members: int) -> tuple[list[float], list[float]]:
    """One number per member: the R-hat that a tenth of the predictions exceed, and the median of effective draws."""
    if known is None:
        nothing = [float("nan")] * members
        return nothing, nothing
    high = known.rhat.quantile(0.9, dim=1)
    return high.tolist(), known.ess.median(dim=1).values.tolist()
