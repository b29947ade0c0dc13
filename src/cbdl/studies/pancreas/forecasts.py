"""The model M of the paper: (G_l, G_m, G_u) of glucose five steps ahead, from the Normals of members.

CBDL: the ends of the IHDR, the union of the members' highest density regions, and the mean of the centre of gravity.
EBNN: those of the one Normal that the members are averaged into. A single BNN is either of a single member.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import norm
from torch import Tensor

from cbdl.credal import check_alpha
from cbdl.studies.pancreas.checks import checked_count
from cbdl.studies.pancreas.data import BASAL, LEAD, WINDOW, dose_values
from cbdl.studies.pancreas.disturbances import HALVES, Course, shares
from cbdl.studies.pancreas.networks import Networks
from cbdl.studies.pancreas.patients import Array

Rule = Literal["CBDL", "EBNN"]
"""How members become one triplet."""
RULES: tuple[Rule, ...] = ("CBDL", "EBNN")
HORIZON = LEAD
"""k: doses of a plan."""
LOOKS = 6
"""How often the model looks k steps further, to one step each time; 1 is the paper's sum. Within its 45 minutes a dose
does next to nothing (one more basal dose: 0.01 to 0.2 mg/dL), so that plans could not be told apart; within 3 hours it
does. When a plan is over, doses are basal: with its last dose held instead, what happens depends on that one most, and
the first, which is the one that is given, is left to chance."""
HISTORY = WINDOW + LEAD
"""Readings up to now that a decision needs: the first window ended five steps ago."""
LEARNED = (85.0, 175.0)
"""mg/dL: where nearly all training windows are. Networks are asked about a window that is moved there, and what they
say is moved back: far away they may say that insulin raises glucose."""


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

    `kept` (N, m): which members count, all if None. `courses`: what may become of a forecast error; with S of them,
    there are m S forecasts. `block`: steps that a dose of a window stands for, as in training.
    """

    def __init__(
        self,
        networks: Networks,
        rule: Rule,
        z: Array,
        *,
        kept: npt.NDArray[np.bool_] | None = None,
        courses: Sequence[Course] = (HALVES,),
        block: int = 1,
        looks: int = LOOKS,
    ) -> None:
        if z.ndim != 2 or z.shape[0] != networks.sets:
            raise ValueError(
                f"z has shape {z.shape}; give (patients, lanes of each), for {networks.sets} sets of networks"
            )
        if networks.inputs != 2 * WINDOW:
            raise ValueError(f"the networks have {networks.inputs} inputs; windows have {2 * WINDOW} numbers")
        if not courses:
            raise ValueError("courses is empty; give at least one, such as disturbances.STAYS")
        every = np.ones((networks.sets, networks.members), dtype=bool)
        self.networks, self.rule = networks, rule
        self._looks = checked_count(looks, "looks", "1 is the paper's")
        self._block = checked_count(block, "block", "the steps of a dose in a window")
        self.shape: tuple[int, int] = (z.shape[0], z.shape[1])
        self._z = torch.from_numpy(np.ascontiguousarray(z)).float()
        self._kept = torch.from_numpy(every if kept is None else kept)
        self._shares = shares(courses, self._looks)

    @property
    def lanes(self) -> int:
        sets, each = self.shape
        return sets * each

    @property
    def doses(self) -> int:
        """How many of the last doses a decision needs."""
        return WINDOW * self._block + LEAD - 1

    def now(self, readings: Array, doses: Array) -> Outlook:
        """What is known at a decision: `readings` (lanes, HISTORY) up to now, the last `doses` (lanes, ...) before.

        Glucose of the next k - 1 steps is G_m of the windows that ended k - 1, ..., 1 steps ago: the networks say
        what comes five steps after a window, and these need nothing but what has been measured. The window before
        them tells the forecast for now, and so the disturbance.
        """
        g, d = (
            torch.from_numpy(np.ascontiguousarray(a)).float().view(*self.shape, -1)
            for a in (readings, doses[:, -self.doses :])
        )
        windows = g.unfold(-1, WINDOW, 1)[..., :LEAD, :]
        mean, _ = self._after_windows(
            windows.flatten(1, 2), dose_values(d, self._block).flatten(1, 2)[:, :, None]
        )
        middle = self._middle(mean.view(*mean.shape[:2], -1, LEAD))
        disturbance = g[..., -1] - middle[..., 0]
        ahead = middle[:, :, None, 1:] + disturbance[..., None, None] * self._shares[:, :1]
        measured = g[:, :, None, LEAD:].expand(*ahead.shape[:3], -1)
        return Outlook(self, torch.cat([measured, ahead], -1), disturbance, d)

    def triplets(self, glucose: Tensor, disturbance: Tensor, before: Tensor, plans: Array) -> Triplet:
        """Each (lanes, P, k + looks - 1): from five steps ahead on, then every fifth, under plans (lanes, P, k) in
        multiples of basal.

        `glucose` (N, B, S, H + k - 1) of the last H and the next k - 1 steps, `disturbance` (N, B), doses `before`.
        """
        sets, lanes, courses = glucose.shape[:3]
        count = plans.shape[1]
        doses = self._doses(before, plans).repeat_interleave(courses, 1)  # (N, B S, k + looks - 1, P, H)
        added = (disturbance[..., None, None] * self._shares).flatten(1, 2)
        windows = glucose.flatten(1, 2).unfold(-1, WINDOW, 1)
        mean, deviation = self._after_windows(windows.flatten(1, 2), doses[:, :, :HORIZON].flatten(1, 2))
        shape = (sets, -1, lanes * courses, HORIZON, count)
        looks = [(mean.view(shape) + added[:, None, :, :1, None], deviation.view(shape))]
        shape = (sets, -1, lanes * courses, 1, count)
        for look in range(1, self._looks):
            level = looks[-1][0][:, :, :, -1].flatten(2)
            mean, deviation = self._after_levels(level, doses[:, :, HORIZON + look - 1].flatten(1, 2))
            looks.append((mean.view(shape) + added[:, None, :, look, None, None], deviation.view(shape)))
        parts = (torch.cat(part, 3) for part in zip(*looks, strict=True))
        means, deviations = (self._by_lane(part, courses) for part in parts)
        kept = self._kept.repeat_interleave(courses, 1)
        ends = triplet(means, deviations, self._z[..., None, None], self.rule, kept)
        return Triplet(*(t.double().numpy().reshape(self.lanes, count, -1) for t in ends))

    def _by_lane(self, values: Tensor, courses: int) -> Tensor:
        """(N, m S, B, P, steps) of values (N, m, B S, steps, P)."""
        own = values.view(*values.shape[:2], -1, courses, *values.shape[3:])
        return own.transpose(2, 3).flatten(1, 2).transpose(-1, -2)

    def _doses(self, before: Tensor, plans: Array) -> Tensor:
        """The doses (N, B, k + looks - 1, P, H) of all windows that are asked about."""
        own = torch.from_numpy(plans).float().view(*self.shape, *plans.shape[1:])
        past = before[..., 1 - WINDOW * self._block :].unsqueeze(2).expand(*own.shape[:3], -1)
        after = own.new_full((*own.shape[:3], HORIZON * (self._looks - 1)), BASAL)
        values = dose_values(torch.cat([past, own, after], -1), self._block).transpose(2, 3)
        return torch.cat([values[:, :, :HORIZON], values[:, :, 2 * HORIZON - 1 :: HORIZON]], 2)

    def _after_windows(self, readings: Tensor, doses: Tensor) -> tuple[Tensor, Tensor]:
        """`Networks.after_windows` of windows that are moved to where networks have learned, and back."""
        level = readings[..., -3:].mean(-1)
        away = level - level.clamp(*LEARNED)
        mean, deviation = self.networks.after_windows(readings - away.unsqueeze(-1), doses)
        return mean + away[:, None, :, None], deviation

    def _after_levels(self, levels: Tensor, doses: Tensor) -> tuple[Tensor, Tensor]:
        """The same of `Networks.after_levels`. Every member goes on from its own forecast, and without its slope: in
        readings a slope is mostly noise, which networks expect to turn round, so that forecasts would swing."""
        near = levels.clamp(*LEARNED)
        mean, deviation = self.networks.after_levels(near, doses)
        return mean + (levels - near), deviation

    def _middle(self, mean: Tensor) -> Tensor:
        return triplet(mean, mean, torch.zeros(()), "EBNN", self._kept)[1]


class Outlook:
    """The forecasts of one decision, for any plans."""

    def __init__(self, forecaster: Forecaster, glucose: Tensor, disturbance: Tensor, before: Tensor) -> None:
        self.disturbance = disturbance
        self._forecaster, self._glucose, self._before = forecaster, glucose, before

    def triplets(self, plans: Array) -> Triplet:
        """Each (lanes, P, k + looks - 1) for plans (lanes, P, k)."""
        return self._forecaster.triplets(self._glucose, self.disturbance, self._before, plans)
