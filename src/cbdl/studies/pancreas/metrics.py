"""How well glucose was controlled: fractions of time, risk, variability; functions of glucose traces alone.

Paper: "Artificial Pancreas Control". A trace is (..., T): samples at equal steps in mg/dL, time last; every metric is
over time, (...). Score true glucose, not a sensor's readings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cbdl.studies.pancreas.checks import check_bounds
from cbdl.studies.pancreas.patients import Array

UNSAFE_LOW, UNSAFE_HIGH = 70.0, 300.0
"""The paper's unsafe regions: below the one, above the other."""
TARGET_LOW, TARGET_HIGH = 70.0, 180.0
"""The euglycaemic range."""
VERY_LOW, VERY_HIGH = 54.0, 250.0

Zones: TypeAlias = npt.NDArray[np.str_]


def _trace(glucose: npt.ArrayLike) -> Array:
    trace = np.asarray(glucose, dtype=np.float64)
    if trace.ndim == 0 or trace.shape[-1] == 0:
        raise ValueError(f"glucose has shape {trace.shape}; give a trace (..., T) with at least one sample")
    remedy = "true glucose in mg/dL has no gaps; drop or interpolate missing samples before scoring"
    check_bounds(trace, "glucose", 0.0, np.finfo(np.float64).max, remedy)
    return trace


def time_below(glucose: npt.ArrayLike, limit: float) -> Array:
    """The fraction of samples below `limit`."""
    return np.asarray((_trace(glucose) < limit).mean(-1))


def time_above(glucose: npt.ArrayLike, limit: float) -> Array:
    """The fraction of samples above `limit`."""
    return np.asarray((_trace(glucose) > limit).mean(-1))


def time_unsafe(glucose: npt.ArrayLike) -> Array:
    """t_unsafe = 1/T sum_t 1{G(t) < 70 or G(t) > 300}, the paper's measure.

    >>> time_unsafe([65.0, 70.0, 120.0, 310.0]).item()
    0.5
    """
    return time_below(glucose, UNSAFE_LOW) + time_above(glucose, UNSAFE_HIGH)


def time_in_range(glucose: npt.ArrayLike, low: float = TARGET_LOW, high: float = TARGET_HIGH) -> Array:
    """The fraction of samples in [low, high]."""
    trace = _trace(glucose)
    return np.asarray(((trace >= low) & (trace <= high)).mean(-1))


def mean_glucose(glucose: npt.ArrayLike) -> Array:
    """The mean, mg/dL."""
    return np.asarray(_trace(glucose).mean(-1))


def coefficient_of_variation(glucose: npt.ArrayLike) -> Array:
    """Standard deviation over mean; the deviation has T - 1 in the denominator (0 for one sample)."""
    trace = _trace(glucose)
    spread = trace.std(-1, ddof=1) if trace.shape[-1] > 1 else np.zeros(trace.shape[:-1])
    mean = trace.mean(-1)
    return np.asarray(np.divide(spread, mean, out=np.zeros_like(spread), where=mean > 0))


def blood_glucose_risk(glucose: npt.ArrayLike) -> tuple[Array, Array]:
    """Kovatchev's risk of each sample, of low and of high glucose: two arrays (..., T).

    f(G) = 1.509 (log(G)^1.084 - 5.381);  low = 10 f^2 where f < 0, high = 10 f^2 where f > 0.
    The logarithm's power needs G >= 1 mg/dL; anything below counts as 1.
    """
    f = 1.509 * (np.log(np.maximum(_trace(glucose), 1.0)) ** 1.084 - 5.381)
    risk = 10.0 * f**2
    return np.where(f < 0, risk, 0.0), np.where(f > 0, risk, 0.0)


def low_blood_glucose_index(glucose: npt.ArrayLike) -> Array:
    """LBGI: the mean of the low risk over all samples."""
    return np.asarray(blood_glucose_risk(glucose)[0].mean(-1))


def high_blood_glucose_index(glucose: npt.ArrayLike) -> Array:
    """HBGI: the mean of the high risk over all samples."""
    return np.asarray(blood_glucose_risk(glucose)[1].mean(-1))


def risk_index(glucose: npt.ArrayLike) -> Array:
    """LBGI + HBGI."""
    low, high = blood_glucose_risk(glucose)
    return np.asarray((low + high).mean(-1))


def control_variability(glucose: npt.ArrayLike) -> tuple[Array, Array]:
    """A trace's point in the control-variability grid: its 2.5th and its 97.5th percentile, mg/dL."""
    low, high = np.percentile(_trace(glucose), [2.5, 97.5], axis=-1)
    return np.asarray(low), np.asarray(high)


_ZONES = np.array(
    [["E", "upper D", "upper C"], ["lower D", "B", "upper B"], ["lower C", "lower B", "A"]],
)
"""Rows: high point above 300, in [180, 300), below 180. Columns: low point at most 70, in (70, 90], above 90."""


def control_variability_zone(glucose: npt.ArrayLike) -> Zones:
    """The zone of the control-variability grid (Magni et al. 2008), a name per trace: "A" is best, "E" worst.

    The grid ends at 110 on its inner sides; traces beyond (always above 110, or never above it) belong to the zone next
    to them, so that every trace has one.
    """
    low, high = control_variability(glucose)
    row = np.where(high >= 300.0, 0, np.where(high >= 180.0, 1, 2))
    column = np.where(low <= 70.0, 0, np.where(low <= 90.0, 1, 2))
    return np.asarray(_ZONES[row, column])


@dataclass(frozen=True)
class GlucoseMetrics:
    """All metrics of traces (..., T), each (...)."""

    unsafe: Array
    below_70: Array
    above_300: Array
    in_range: Array
    """70 to 180."""
    below_54: Array
    above_250: Array
    mean: Array
    variation: Array
    lbgi: Array
    hbgi: Array
    risk: Array
    zone: Zones

    @staticmethod
    def of(glucose: npt.ArrayLike) -> GlucoseMetrics:
        """Score the traces `glucose` (..., T)."""
        trace = _trace(glucose)
        lbgi, hbgi = low_blood_glucose_index(trace), high_blood_glucose_index(trace)
        return GlucoseMetrics(
            unsafe=time_unsafe(trace),
            below_70=time_below(trace, UNSAFE_LOW),
            above_300=time_above(trace, UNSAFE_HIGH),
            in_range=time_in_range(trace),
            below_54=time_below(trace, VERY_LOW),
            above_250=time_above(trace, VERY_HIGH),
            mean=mean_glucose(trace),
            variation=coefficient_of_variation(trace),
            lbgi=lbgi,
            hbgi=hbgi,
            risk=lbgi + hbgi,
            zone=control_variability_zone(trace),
        )
