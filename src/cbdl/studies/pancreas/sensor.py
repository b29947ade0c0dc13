"""The continuous glucose sensor: GuardianRT, a reading every 5 minutes with noise that wanders.

Breton and Kovatchev (2008): every 15 minutes e <- 0.7 (e + w), w standard Normal; the noise there is Johnson's S_U
curve of e, xi + lambda sinh((e - gamma) / delta) mg/dL; between, a cubic spline through stretches of 150 minutes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.interpolate import make_interp_spline

from cbdl.studies.pancreas.checks import checked
from cbdl.studies.pancreas.patients import Array

SAMPLE_MINUTES = 5
"""Minutes between readings."""
LOW, HIGH = 39.0, 600.0
"""The range of readings, mg/dL."""
CORRELATION, GAMMA, LAMBDA, DELTA, XI = 0.7, -0.5444, 15.9574, 1.6898, -5.47
_KNOT_MINUTES = 15
_KNOTS = 10
_SAMPLES = _KNOTS * _KNOT_MINUTES // SAMPLE_MINUTES


def _spline() -> Array:
    """The cubic spline as a matrix (knots, samples): a stretch's samples are its 11 knots times it."""
    knots = np.arange(_KNOTS + 1) * float(_KNOT_MINUTES)
    samples = np.arange(1, _SAMPLES + 1) * float(SAMPLE_MINUTES)
    weights: Array = make_interp_spline(knots, np.eye(_KNOTS + 1), k=3)(samples).T
    return weights


_SPLINE = _spline()


def johnson(e: Array) -> Array:
    """Johnson's S_U curve, mg/dL."""
    return XI + LAMBDA * np.sinh((e - GAMMA) / DELTA)


class SensorNoise:
    """The noise of one sensor per lane, continued by every call.

    Each lane draws from a generator of its own, so that its noise does not depend on the other lanes, and two
    controllers can be compared under the same noise.
    """

    def __init__(self, generators: Sequence[np.random.Generator | np.random.RandomState]) -> None:
        if not generators:
            raise ValueError("generators is empty; give one per lane, such as np.random.default_rng(seed)")
        self._generators = tuple(generators)
        self._e = self._normals(1)[:, 0]
        self._rest = np.empty((len(self._generators), 0))

    def take(self, samples: int) -> Array:
        """The next `samples` values of the noise, mg/dL: (lanes, samples)."""
        stretches = [self._rest]
        missing = samples - self._rest.shape[1]
        while missing > 0:
            stretches.append(self._stretch())
            missing -= _SAMPLES
        noise = np.concatenate(stretches, axis=1)
        self._rest = noise[:, samples:]
        return noise[:, :samples]

    def _stretch(self) -> Array:
        """The next 150 minutes: (lanes, 30)."""
        normals = self._normals(_KNOTS)
        e = np.empty((len(self._generators), _KNOTS + 1))
        e[:, 0] = self._e
        for k in range(_KNOTS):
            e[:, k + 1] = CORRELATION * (e[:, k] + normals[:, k])
        self._e = e[:, -1]
        return johnson(e) @ _SPLINE

    def _normals(self, count: int) -> Array:
        # A generator per lane has no batched draw; this is one short call per lane in 150 simulated minutes.
        return np.stack([generator.standard_normal(count) for generator in self._generators])


class Sensor:
    """Readings of one sensor per lane: `read` is called every 5 minutes."""

    def __init__(self, generators: Sequence[np.random.Generator | np.random.RandomState]) -> None:
        self._noise = SensorNoise(generators)
        self._lanes = len(generators)

    def read(self, glucose: npt.ArrayLike) -> Array:
        """The readings (lanes,) of `glucose` (lanes,), mg/dL."""
        true = checked(glucose, "glucose", (self._lanes,), 0.0, np.inf, "true glucose is in mg/dL")
        return np.clip(true + self._noise.take(1)[:, 0], LOW, HIGH)

    def read_trace(self, glucose: npt.ArrayLike) -> Array:
        """The readings (lanes, samples) of a whole trace at 5-minute steps."""
        true = np.asarray(glucose, dtype=np.float64)
        if true.ndim != 2:
            raise ValueError(f"glucose has shape {true.shape}; give traces ({self._lanes}, samples)")
        true = checked(true, "glucose", (self._lanes, true.shape[1]), 0.0, np.inf, "true glucose is in mg/dL")
        return np.clip(true + self._noise.take(true.shape[1]), LOW, HIGH)
