"""Numbers over episodes: metrics of every contestant, and paired differences with bootstrap intervals."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from cbdl.studies.pancreas.data import LEAD
from cbdl.studies.pancreas.episodes import Cases
from cbdl.studies.pancreas.members import DOUBTFUL, LINE_UPS, OURS, SEEDS
from cbdl.studies.pancreas.metrics import GlucoseMetrics, Zones, time_below, time_unsafe
from cbdl.studies.pancreas.patients import Array, virtual_patients
from cbdl.studies.pancreas.sensor import SAMPLE_MINUTES
from cbdl.studies.shelf import Arrays

LEVEL = 0.95
"""Of intervals."""


@dataclass(frozen=True)
class Pair:
    """CBDL of one line-up beside EBNN of the same or of another."""

    ours: str
    theirs: str

    @property
    def name(self) -> str:
        return self.ours if self.ours == self.theirs else f"{self.ours} - {self.theirs}"


PAIRS = (
    *(Pair(own.name, own.name) for own in LINE_UPS),
    *(Pair(own.name, SEEDS.name) for own in (OURS, DOUBTFUL)),
)


@dataclass(frozen=True)
class Interval:
    """A number and the bootstrap interval around it."""

    value: float
    low: float
    high: float

    def plain(self) -> dict[str, float | None]:
        """For JSON, which knows no infinity."""
        return {name: own if np.isfinite(own) else None for name, own in vars(self).items()}


def improvement(theirs: Array, ours: Array) -> Array:
    """Perf_diff = (theirs - ours) / theirs. Where both are 0 there is no difference: 0; where only theirs is: -inf.

    >>> improvement(np.array([0.2, 0.0, 0.0]), np.array([0.1, 0.0, 0.1])).tolist()
    [0.5, 0.0, -inf]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (theirs - ours) / theirs
    return np.where((theirs == 0) & (ours == 0), 0.0, share)


def paired(theirs: Array, ours: Array, resamples: int, seed: int) -> Interval:
    """Perf_diff of times (patients, episodes), pooled over both before it is divided; patients are drawn with
    replacement, and of each its episodes, in pairs."""
    rng = np.random.default_rng(seed)
    patients, episodes = theirs.shape
    who = rng.integers(patients, size=(resamples, patients, 1))
    when = rng.integers(episodes, size=(resamples, patients, episodes))
    drawn = improvement(*(times[who, when].mean((1, 2)) for times in (theirs, ours)))
    tail = 0.5 * (1 - LEVEL)
    low, high = np.quantile(drawn, [tail, 1 - tail], method="inverted_cdf")
    return Interval(float(improvement(theirs.mean(), ours.mean())), float(low), float(high))


@dataclass(frozen=True)
class Summary:
    """Means over patients and episodes."""

    numbers: dict[str, float]
    zones: dict[str, int]


def summary(days: Arrays, cases: Cases, alpha: int) -> Summary:
    """Of one contestant at one of its alphas."""
    metrics = GlucoseMetrics.of(days["glucose"][:, alpha])
    basal = virtual_patients(cases.names).basal[:, None]
    units = days["doses"][:, alpha].sum(-1) * basal * SAMPLE_MINUTES
    names = [field.name for field in fields(GlucoseMetrics) if field.name != "zone"]
    numbers = {name: float(getattr(metrics, name).mean()) for name in names}
    return Summary({**numbers, "insulin": float(units.mean())}, count_zones(metrics.zone))


def count_zones(zones: Zones) -> dict[str, int]:
    """How many traces are in each zone."""
    names, counts = np.unique(zones, return_counts=True)
    return {str(name): int(count) for name, count in zip(names, counts, strict=True)}


def unsafe(days: Arrays, alpha: int | None = None) -> Array:
    """t_unsafe (patients, episodes); of all alphas side by side if that is None."""
    return _flat(time_unsafe(days["glucose"]), alpha)


def below(days: Arrays, limit: float, alpha: int | None = None) -> Array:
    """Time below `limit` (patients, episodes)."""
    return _flat(time_below(days["glucose"], limit), alpha)


@dataclass(frozen=True)
class Regions:
    """[G_l, G_u] in closed loop, with the glucose that came: shares and mg/dL."""

    coverage: float
    width: float
    below: float
    """How often true glucose was below G_l."""
    after_meals: float
    """The mean width in the two hours after a meal began."""
    covered_after_meals: float
    otherwise: float


def regions(days: Arrays, alpha: int, after: npt.NDArray[np.bool_]) -> Regions:
    """Of one contestant at one of its alphas; `after` (T,): the steps that are soon after a meal."""
    low, high = (days[end][:, alpha, :, : 1 - LEAD].astype(np.float64) for end in ("low", "high"))
    glucose = days["glucose"][:, alpha, :, LEAD - 1 :]
    known = ~np.isnan(low)
    soon = np.broadcast_to(after[: 1 - LEAD], known.shape) & known
    width, inside = high - low, (glucose >= low) & (glucose <= high)
    return Regions(
        coverage=float(inside[known].mean()),
        width=float(width[known].mean()),
        below=float((glucose < low)[known].mean()),
        after_meals=float(width[soon].mean()) if soon.any() else float("nan"),
        covered_after_meals=float(inside[soon].mean()) if soon.any() else float("nan"),
        otherwise=float(width[known & ~soon].mean()),
    )


def _flat(times: Array, alpha: int | None) -> Array:
    return times[:, alpha] if alpha is not None else times.reshape(len(times), -1)
