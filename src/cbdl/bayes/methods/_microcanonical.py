"""Motion at constant energy: one step of microcanonical Langevin dynamics for many chains, and how its size is set.

A chain has a place x (d,) and a direction u on the unit sphere. The exact flow of the direction under a constant
gradient has a closed form; places and directions move in turn, in the order of McLachlan's minimal-norm scheme (two
new gradients a step). The flow keeps kinetic energy minus log density; what a step of finite size changes it by, the
energy error, tells how large steps may be: the step size aims at a given variance of the error per coordinate.
Coordinates in which the density is steep would keep steps short for all others, so that each is moved in units of its
own. All tensors lead with the chains.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

OUTER = 0.1931833275037836
"""Share of a step's turn before its first and after its last move (McLachlan 1995)."""
VARIANCE = 0.01
"""Energy variance per coordinate that the step size aims at. Public recipes for networks begin with 0.5 and end with
0.1; chains then sit visibly above the posterior's temperature."""
MEMORY = 99 / 101
"""What an average over the last steps forgets in a step: it looks about 100 steps back."""
FIRST = 5e-3
"""The first step size."""
KNOWN = 0.3
"""Share of the warm-up after which coordinates get scales, by the slopes that were met until then."""
ENOUGH = 50
"""Slopes of fewer steps tell too little: a warm-up that has no more of them leaves all scales at 1."""
POWER = 0.5
"""Scales are root mean square slopes to the power -POWER. With 1 every coordinate by itself is as steep as any other,
but they are not by themselves: half of the way was better for networks."""
RANGE = 1e4
"""Slopes count as at least the steepest one over this: a coordinate that does nothing is not moved without bounds."""
ORDINARY = 0.999
"""Quantile of the energy errors above which a step with a minibatch is taken back."""


@dataclass(frozen=True)
class Motion:
    """Where chains are (chains, d), where they go, and the potential (chains,) with its gradient there."""

    place: Tensor
    direction: Tensor
    potential: Tensor
    slope: Tensor

    def where(self, keep: Tensor, other: Motion) -> Motion:
        """The chains `keep` of this motion, the others of `other`."""
        one = keep.unsqueeze(1)
        return Motion(
            torch.where(one, self.place, other.place),
            torch.where(one, self.direction, other.direction),
            torch.where(keep, self.potential, other.potential),
            torch.where(one, self.slope, other.slope),
        )


def turn(direction: Tensor, slope: Tensor, time: Tensor) -> tuple[Tensor, Tensor]:
    """The direction after `time` (chains,) under a constant gradient, and the kinetic energy gained."""
    d = direction.shape[1]
    norm = torch.linalg.vector_norm(slope, dim=1).clamp_min(1e-30)
    delta = time * norm / (d - 1)
    down = torch.linalg.vecdot(direction, slope) / -norm  # the cosine between the direction and the way down
    zeta = torch.exp(-delta)
    length = 1 + down + (1 - down) * zeta.square()
    along = (1 - zeta) * (1 + zeta + down * (1 - zeta)) / (-norm * length)
    after = slope * along.unsqueeze(1) + direction * (2 * zeta / length).unsqueeze(1)
    return after, (d - 1) * (delta + torch.log(0.5 * length))


def _unit(x: Tensor) -> Tensor:
    return torch.nn.functional.normalize(x, dim=1, eps=0.0)


def move(
    start: Motion,
    size: Tensor,
    potential: Callable[[Tensor], tuple[Tensor, Tensor]],
    turn: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]] = turn,
    *,
    scales: Tensor,
) -> tuple[Motion, Tensor]:
    """One step of `size` (chains,) from `start`, and its energy error. `turn`: how directions turn, as `turn` does.

    Directions and sizes are in units of `scales` (chains, d): the motion is that of place / scales.
    """
    half = (0.5 * size).unsqueeze(1) * scales
    direction, gain = turn(start.direction, start.slope * scales, OUTER * size)
    place = torch.addcmul(start.place, half, direction)
    _, slope = potential(place)
    direction, more = turn(direction, slope * scales, (1 - 2 * OUTER) * size)
    place = torch.addcmul(place, half, direction)
    value, slope = potential(place)
    direction, last = turn(direction, slope * scales, OUTER * size)
    return Motion(place, direction, value, slope), gain + more + last + value - start.potential


class Tuning:
    """Scales of the coordinates, step size and length of every chain, learned during the warm-up.

    `length` is the way after which a chain forgets its direction: the spread of the posterior, seen in the last fifth
    of the warm-up. Both are in units of the scales.
    """

    def __init__(self, place: Tensor, steps: int) -> None:
        chains, d = place.shape
        self.steps, self.d = steps, d
        one = place.new_ones(chains)
        self.state = {
            "size": FIRST * one,
            "length": max(math.sqrt(d), 15.0) * one,
            "cap": math.inf * one,
            "sum": 0 * one,
            "weight": 0 * one,
            "way": 0 * one,
            "mean": torch.zeros_like(place),
            "squares": torch.zeros_like(place),
            "scales": torch.ones_like(place),
            "slopes": torch.zeros_like(place),
        }

    @property
    def size(self) -> Tensor:
        return self.state["size"]

    @property
    def length(self) -> Tensor:
        return self.state["length"]

    @property
    def scales(self) -> Tensor:
        return self.state["scales"]

    def shrink(self, lost: Tensor) -> None:
        """Chains whose step was undone never again take one as large."""
        s = self.state
        s["cap"].copy_(torch.where(lost, torch.minimum(s["cap"], 0.8 * s["size"]), s["cap"]))
        s["size"].copy_(torch.minimum(s["size"], s["cap"]))

    def learn(self, number: int, place: Tensor, slope: Tensor, error: Tensor) -> None:
        """What step `number` of the warm-up tells, from where it led, the slope there, and its energy error."""
        s, share = self.state, number / self.steps
        xi = error.square() / (self.d * VARIANCE) + 1e-8
        weight = torch.exp(-0.5 * (xi.log() / 9).square())
        s["sum"].mul_(MEMORY).add_(weight * xi / s["size"] ** 6)
        s["weight"].mul_(MEMORY).add_(weight)
        s["size"].copy_(torch.minimum((s["sum"] / s["weight"]) ** (-1 / 6), s["cap"]))
        if share < KNOWN and self.steps * KNOWN >= ENOUGH:
            s["slopes"].addcmul_(slope, slope)
            if (number + 1) / self.steps >= KNOWN:
                self._scale()
        if share >= 0.8:
            # Welford's update, weighted by the size of the step
            s["way"] += s["size"]
            scaled = place / s["scales"]
            away = scaled - s["mean"]
            ratio = s["size"].unsqueeze(1)
            s["mean"] += away * ratio / s["way"].unsqueeze(1)
            s["squares"] += ratio * away * (scaled - s["mean"])
        if number == self.steps - 1:
            spread = (s["squares"] / s["way"].unsqueeze(1)).sum(1).sqrt()
            s["length"].copy_(torch.maximum(spread, s["size"]))

    def _scale(self) -> None:
        """Set the scales, 1 in the geometric mean, and begin anew with the step size."""
        s = self.state
        slopes = s["slopes"].sqrt()
        logs = slopes.maximum(slopes.amax(1, keepdim=True) / RANGE).clamp_min(1e-30).log()
        s["scales"].copy_(torch.exp(POWER * (logs.mean(1, keepdim=True) - logs)))
        s["size"].fill_(FIRST)
        s["cap"].fill_(math.inf)
        s["sum"].zero_()
        s["weight"].zero_()

    def refreshed(self, direction: Tensor, noise: Tensor, lost: Tensor) -> Tensor:
        """Directions with a little noise, so that each is forgotten after its length; new ones for the lost."""
        strength = (torch.expm1(2 * self.size / self.length) / self.d).sqrt().unsqueeze(1)
        after = torch.where(lost.unsqueeze(1), noise, direction + strength * noise)
        return _unit(after)


class Guard:
    """For minibatches: takes back steps whose energy error is out of the ordinary.

    The absolute errors of a chain have a running mean and variance, to which a Gamma distribution is fitted (Sommer et
    al. 2025, who take back every fiftieth step; one in a thousand is enough here).
    """

    def __init__(self, place: Tensor) -> None:
        one = place.new_zeros(place.shape[0])
        self.state = {"mean": one.clone(), "square": one.clone(), "weight": one.clone()}

    def refuses(self, error: Tensor) -> Tensor:
        """(chains,) bool: whose step must be undone."""
        s, size = self.state, error.abs().nan_to_num(0.0, 0.0, 0.0)
        mean, square = (s[name] / s["weight"].clamp_min(1e-30) for name in ("mean", "square"))
        variance = (square - mean.square()).clamp_min(1e-30)
        known = s["weight"] > 20
        shape = (mean.square() / variance).clamp(1e-3, 1e3)
        odd = torch.special.gammainc(shape, size * mean / variance) > ORDINARY
        lost: Tensor = known & odd & (size > 3 * mean)
        # what is taken back counts no more than an ordinary error
        s["mean"].mul_(MEMORY).add_(torch.where(lost, mean, size))
        s["square"].mul_(MEMORY).add_(torch.where(lost, square, size.square()))
        s["weight"].mul_(MEMORY).add_(1.0)
        return lost
