"""The model M of the paper: (G_l, G_m, G_u) of glucose five steps ahead, from the Normals of members.

CBDL: the ends of the IHDR, the union of the members' highest density regions, and the mean of the centre of gravity.
EBNN: those of the one Normal that the members are averaged into. A single BNN is either of a single member.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import norm
from torch import Tensor

from cbdl.credal import check_alpha
from cbdl.studies.pancreas.checks import checked_count
from cbdl.studies.pancreas.data import LEAD, WINDOW
from cbdl.studies.pancreas.networks import Networks
from cbdl.studies.pancreas.patients import Array

Rule = Literal["CBDL", "EBNN"]
"""How members become one triplet."""
RULES: tuple[Rule, ...] = ("CBDL", "EBNN")
HORIZON = LEAD
"""k: doses of a plan."""
LOOKS = 4
"""How often the model looks k steps further; 1 is the paper's sum. Within its 45 minutes a dose does next to nothing
(one more basal dose: 0.01 to 0.2 mg/dL), so that plans could not be told apart; within 2 hours it does."""
BASAL = 1.0
"""The dose when a plan is over. With its last dose held instead, what happens depends on that one most, and the first,
which is the one that is given, is left to chance."""
HISTORY = WINDOW + LEAD - 1
"""Readings up to now that a decision needs: the first window ends four steps ago."""


class Triplet(NamedTuple):
    """G_l, G_m, G_u in mg/dL, arrays of one shape."""

    low: Array
    middle: Array
    high: Array


def halfwidth(alpha: float) -> float:
    """Standard deviations from the middle to the ends of the 1 - alpha region of a Normal.

    >>> round(halfwidth(0.05), 3)
    1.96
    """
    check_alpha(alpha)
    return float(norm.isf(alpha / 2))


def halfwidth_at(log_survival: float) -> float:
    """The same for a level that is given as log(1 - level), as calibration does; a level of 1 has no end."""
    return math.inf if log_survival == -math.inf else float(norm.isf(math.exp(log_survival) / 2))


def triplet(
    mean: Tensor, deviation: Tensor, z: Tensor, rule: Rule, kept: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """G_l, G_m, G_u (N, ...) of Normals (N, m, ...).

    `z`: half widths in standard deviations, broadcast to (N, ...). `kept` (N, m): which members count, all if None.
    """
    if kept is None:
        kept = torch.ones(mean.shape[:2], dtype=torch.bool)
    counts = kept.view(*kept.shape, *[1] * (mean.ndim - 2))
    size = counts.sum(1)
    middle = (mean * counts).sum(1) / size
    if rule == "CBDL":
        reach = z.unsqueeze(1) * deviation
        low = torch.where(counts, mean - reach, math.inf).amin(1)
        return low, middle, torch.where(counts, mean + reach, -math.inf).amax(1)
    within = (deviation.square() * counts).sum(1) / size
    between = ((mean - middle.unsqueeze(1)).square() * counts).sum(1) / (size - 1).clamp_min(1)
    reach = z * (within + between).sqrt()
    return middle - reach, middle, middle + reach


class Forecaster:
    """M for N patients with B lanes each, in the order (patient, lane): networks, a rule, and half widths (N, B).

    `kept` (N, m): which members count, all if None.
    """

    def __init__(
        self,
        networks: Networks,
        rule: Rule,
        z: Array,
        *,
        kept: npt.NDArray[np.bool_] | None = None,
        looks: int = LOOKS,
    ) -> None:
        if z.ndim != 2 or z.shape[0] != networks.sets:
            raise ValueError(
                f"z has shape {z.shape}; give (patients, lanes of each), for {networks.sets} sets of networks"
            )
        if networks.inputs != 2 * WINDOW:
            raise ValueError(f"the networks have {networks.inputs} inputs; windows have {2 * WINDOW} numbers")
        every = np.ones((networks.sets, networks.members), dtype=bool)
        self.networks, self.rule, self._looks = (
            networks,
            rule,
            checked_count(looks, "looks", "1 is the paper's"),
        )
        self.shape: tuple[int, int] = (z.shape[0], z.shape[1])
        self._z = torch.from_numpy(np.ascontiguousarray(z)).float()
        self._kept = torch.from_numpy(every if kept is None else kept)

    @property
    def lanes(self) -> int:
        sets, each = self.shape
        return sets * each

    def now(self, readings: Array, doses: Array) -> Outlook:
        """What is known at a decision: `readings` (lanes, HISTORY) up to now, `doses` (lanes, HISTORY - 1) before."""
        g, d = (
            torch.from_numpy(np.ascontiguousarray(a)).float().view(*self.shape, -1) for a in (readings, doses)
        )
        return Outlook(self, *self._known(g, d))

    def _known(self, g: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        """Glucose (N, B, H + k - 1) of the last H and the next k - 1 steps, and the last H - 1 doses.

        Glucose of the next k - 1 steps is G_m of the windows that ended k - 1, ..., 1 steps ago: the networks say
        what comes five steps after a window, and these need nothing but what has been measured.
        """
        past = torch.cat([g.unfold(-1, WINDOW, 1)[..., : LEAD - 1, :], d.unfold(-1, WINDOW, 1)], -1)
        mean, _ = self.networks.moments(past.flatten(1, 2))
        ahead = self._middle(mean).view(*self.shape, LEAD - 1)
        return torch.cat([g[..., LEAD - 1 :], ahead], -1), d[..., LEAD - 1 :]

    def _middle(self, mean: Tensor) -> Tensor:
        return triplet(mean, mean, torch.zeros(()), "EBNN", self._kept)[1]

    def triplets(self, glucose: Tensor, before: Tensor, plans: Array) -> Triplet:
        """Each (lanes, P, k looks): from five steps ahead on, under plans (lanes, P, k) in multiples of basal, with
        basal insulin when they are over."""
        doses = torch.from_numpy(plans).float().view(*self.shape, *plans.shape[1:])
        planned = torch.nn.functional.pad(before, (0, HORIZON))
        windows = torch.cat([t.unfold(-1, WINDOW, 1) for t in (glucose, planned)], -1)
        looks = [self._ends(*self.networks.plans(windows, doses))]
        if self._looks > 1:
            many = (*self.shape, plans.shape[1], -1)
            path = glucose[..., HORIZON:].unsqueeze(2).expand(many)
            given = torch.cat([before.unsqueeze(2).expand(many), doses], -1)
            for _ in range(1, self._looks):
                path = torch.cat([path, looks[-1][1]], -1)[..., -(WINDOW + HORIZON - 1) :]
                given = torch.nn.functional.pad(given, (0, HORIZON), value=BASAL)[..., HORIZON:]
                windows = torch.cat([t.unfold(-1, WINDOW, 1) for t in (path, given)], -1)
                moments = self.networks.moments(windows.flatten(1, 3))
                looks.append(self._ends(*(t.view(*t.shape[:2], *windows.shape[1:4]) for t in moments)))
        ends = (torch.cat(parts, -1) for parts in zip(*looks, strict=True))
        return Triplet(*(t.double().numpy().reshape(self.lanes, plans.shape[1], -1) for t in ends))

    def _ends(self, mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return triplet(mean, deviation, self._z[..., None, None], self.rule, self._kept)


class Outlook:
    """The forecasts of one decision, for any plans."""

    def __init__(self, forecaster: Forecaster, glucose: Tensor, before: Tensor) -> None:
        self._forecaster, self._glucose, self._before = forecaster, glucose, before

    def triplets(self, plans: Array) -> Triplet:
        """Each (lanes, P, k looks) for plans (lanes, P, k)."""
        return self._forecaster.triplets(self._glucose, self._before, plans)
