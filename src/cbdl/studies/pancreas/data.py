"""The training data of the study: episodes without meals, cut into windows.

Paper: "Artificial Pancreas Control" and its appendix. An episode starts at a random glucose in [120, 190] and lasts 720
minutes; insulin changes at random times to a random multiple of basal that is safe for the patient. A window holds the
last H readings and doses up to time t; the target is the reading 5 steps later. Networks learn from readings; true
glucose is kept beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cbdl.studies.pancreas.checks import checked_count, checked_range
from cbdl.studies.pancreas.patients import Array, Patients, patient_names, virtual_patients
from cbdl.studies.pancreas.sensor import SAMPLE_MINUTES, Sensor
from cbdl.studies.pancreas.simulation import LEAST_GLUCOSE, MOST_GLUCOSE, Simulation

WINDOW = 10
"""H: readings and doses in a window."""
LEAD = 5
"""Steps from a window's end to its target."""
MINUTES = 720
SAMPLES = 28_400
BASAL = 1.0
"""The dose that a patient has had before an episode begins, in multiples of basal."""
INITIAL_GLUCOSE = (120.0, 190.0)
SAFE_GLUCOSE = 70.0
MEAN_HOLD = 6
"""A dose is held for so many steps on average."""


@dataclass(frozen=True, eq=False)
class Episodes:
    """Simulated episodes, one per lane, at 5-minute steps 0, 1, ..., T."""

    patients: Patients
    glucose: Array
    """True glucose, mg/dL: (lanes, T + 1)."""
    readings: Array
    """What the sensor says of it, mg/dL: (lanes, T + 1)."""
    doses: Array
    """Insulin in multiples of basal, held from step t to t + 1: (lanes, T)."""


@dataclass(frozen=True, eq=False)
class Windows:
    """A supervised data set of n windows."""

    inputs: Array
    """Readings t - H + 1, ..., t (mg/dL), then doses up to t (multiples of basal): (n, 2 H). The doses are those of the
    same steps, or means of `block` steps each."""
    targets: Array
    """The reading at t + 5, mg/dL: (n,)."""
    truths: Array
    """True glucose at t + 5, mg/dL: (n,)."""
    names: npt.NDArray[np.str_]
    """The patient of each window: (n,)."""
    lanes: npt.NDArray[np.intp]
    """The episode of each window: (n,). Split by it: windows of one episode overlap."""
    times: npt.NDArray[np.intp]
    """The step t at which each window ends: (n,)."""

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, rows: npt.NDArray[np.intp]) -> Windows:
        """The windows `rows`, in that order."""
        return Windows(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


def dose_range(patients: Patients) -> tuple[Array, Array]:
    """The lowest and the highest dose in training, in multiples of basal: two arrays (lanes,).

    Patients differ: five times basal leaves one unharmed, a tenth more than basal is too much for another. Let m be the
    largest multiple, up to 3, that keeps glucose above 70 when given for 720 minutes from 120 mg/dL. Doses lie in
    [1 - 2 (m - 1), 1 + 2 (m - 1)], cut at 0: their mean is at most m, and every patient's glucose varies about as much.
    """
    multiples = 1.0 + 0.05 * np.arange(1, 41)
    lanes = np.repeat(np.arange(len(patients)), len(multiples))
    simulation = Simulation(patients.take(lanes), INITIAL_GLUCOSE[0], steps_per_minute=1)
    lowest = simulation.glucose
    for _ in range(MINUTES // 15):
        insulin = np.tile(multiples, len(patients)) * simulation.patients.basal
        lowest = np.minimum(lowest, simulation.step(insulin, minutes=15))
    safe = (lowest >= SAFE_GLUCOSE).reshape(len(patients), -1).sum(1)
    spread = 2 * 0.05 * np.maximum(safe, 1)
    return np.maximum(1.0 - spread, 0.0), 1.0 + spread


@cache
def known_dose_range(name: str) -> tuple[float, float]:
    """`dose_range` of one virtual patient, computed once."""
    low, high = dose_range(virtual_patients([name]))
    return float(low[0]), float(high[0])


def random_levels(generator: np.random.Generator, steps: int) -> Array:
    """Levels (steps,), uniform on [0, 1], each held for a geometric time of mean `MEAN_HOLD` steps."""
    levels = generator.random(steps)
    changes = generator.random(steps) < 1.0 / MEAN_HOLD
    changes[0] = True
    latest = np.maximum.accumulate(np.where(changes, np.arange(steps), 0))
    return levels[latest]


def simulate_episodes(
    names: str | Sequence[str],
    episodes: int,
    *,
    seed: int = 0,
    minutes: int = MINUTES,
    glucose: tuple[float, float] = INITIAL_GLUCOSE,
    doses: tuple[float, float] | None = None,
) -> Episodes:
    """`episodes` episodes of each patient in `names`, without meals; lanes in the order (patient, episode).

    `glucose` is the range of initial values in mg/dL, `doses` that of insulin in multiples of basal (None: `dose_range`
    of each patient). An episode depends on `seed`, its patient and its number alone, not on what else is simulated.
    """
    names = _different(names)
    steps = _count_steps(minutes)
    patients = virtual_patients(names)
    checked_count(episodes, "episodes", "the number of episodes per patient")
    low, high = checked_range(glucose, "glucose", LEAST_GLUCOSE, MOST_GLUCOSE, "mg/dL")
    safe = (
        np.array([known_dose_range(name) for name in names]).T
        if doses is None
        else checked_range(doses, "doses", 0.0, 100.0, "basal")
    )

    streams = _streams(seed, names, episodes)
    initial = np.array([scenario.uniform(low, high) for scenario, _ in streams])
    levels = np.stack([random_levels(scenario, steps) for scenario, _ in streams])
    lanes = np.repeat(np.arange(len(names)), episodes)
    least, most = (np.broadcast_to(end, len(names))[lanes, None] for end in safe)
    schedule = least + (most - least) * levels
    trace = _traces(Simulation(patients.take(lanes), initial), schedule)
    readings = Sensor([noise for _, noise in streams]).read_trace(trace)
    return Episodes(patients.take(lanes), trace, readings, schedule)


def _different(names: str | Sequence[str]) -> list[str]:
    names = [names] if isinstance(names, str) else list(names)
    if len(set(names)) < len(names):
        raise ValueError("names holds a patient twice; name each once and raise episodes instead")
    return names


def _count_steps(minutes: int) -> int:
    steps, rest = divmod(checked_count(minutes, "minutes", "the length of an episode"), SAMPLE_MINUTES)
    if rest:
        raise ValueError(f"minutes is {minutes}; it must be a multiple of {SAMPLE_MINUTES}, the control step")
    return steps


def _streams(seed: int, names: list[str], episodes: int) -> list[list[np.random.Generator]]:
    """Two generators per lane, for the scenario and for the sensor: a lane of its own, whatever else is simulated."""
    checked_count(seed, "seed", "it makes the episodes reproducible", least=0)
    return [
        [np.random.default_rng(s) for s in np.random.SeedSequence((seed, number, episode)).spawn(2)]
        for number in map(patient_names().index, names)
        for episode in range(episodes)
    ]


def _traces(simulation: Simulation, doses: Array) -> Array:
    """True glucose (lanes, T + 1) under `doses` (lanes, T)."""
    trace = [simulation.glucose]
    for dose in doses.T:
        trace.append(simulation.step(dose * simulation.patients.basal, minutes=SAMPLE_MINUTES))
    return np.stack(trace, axis=1)


def dose_values(doses: Tensor, block: int = 1, window: int = WINDOW) -> Tensor:
    """The doses of windows (..., T + 1 - window block, window): means of `block` successive ones of `doses` (..., T),
    the latest last. Insulin acts for hours: ten means of 20 minutes tell more of it than ten doses of 5.

    >>> dose_values(torch.arange(6.0), block=2, window=2).tolist()
    [[0.5, 2.5], [1.5, 3.5], [2.5, 4.5]]
    """
    means = doses.unfold(-1, block, 1).mean(-1)
    return means.unfold(-1, (window - 1) * block + 1, 1)[..., ::block]


def windows(episodes: Episodes, window: int = WINDOW, lead: int = LEAD, block: int = 1) -> Windows:
    """All windows of `episodes`: T + 2 - window - lead per episode; `block`: steps of each of their doses."""
    _check_window(window, lead, block)
    lanes, steps = episodes.doses.shape
    per_episode = steps + 2 - window - lead
    if per_episode < 1:
        raise ValueError(
            f"an episode of {steps} steps holds no window of {window} with a target {lead} steps ahead: "
            "simulate longer episodes or shorten window or lead"
        )

    ends = np.arange(window - 1, window - 1 + per_episode)
    readings = np.lib.stride_tricks.sliding_window_view(episodes.readings, window, axis=1)[:, :per_episode]
    before = np.full((lanes, window * block - 1), BASAL)
    doses = dose_values(torch.from_numpy(np.concatenate((before, episodes.doses), axis=1)), block, window)
    inputs = np.concatenate((readings, doses.numpy()[:, ends]), axis=-1)
    return Windows(
        inputs=inputs.reshape(-1, 2 * window),
        targets=episodes.readings[:, ends + lead].ravel(),
        truths=episodes.glucose[:, ends + lead].ravel(),
        names=np.repeat(np.array(episodes.patients.names), per_episode),
        lanes=np.repeat(np.arange(lanes), per_episode),
        times=np.tile(ends, lanes),
    )


def _check_window(window: int, lead: int, block: int) -> None:
    checked_count(window, "window", "the readings and doses that a network sees")
    checked_count(lead, "lead", "the steps from a window's end to its target")
    checked_count(block, "block", "the steps of a dose in a window")


def training_windows(
    names: str | Sequence[str],
    samples: int = SAMPLES,
    *,
    seed: int = 0,
    window: int = WINDOW,
    lead: int = LEAD,
    block: int = 1,
    minutes: int = MINUTES,
) -> Windows:
    """Exactly `samples` windows, of as many episodes per patient as that needs; the surplus is left out at random.

    >>> len(training_windows("adult#001", samples=500))
    500
    """
    checked_count(samples, "samples", "the number of windows")
    _check_window(window, lead, block)
    names = _different(names)
    per_episode = max(1, _count_steps(minutes) + 2 - window - lead)
    episodes = -(-samples // (per_episode * max(1, len(names))))
    full = windows(simulate_episodes(names, episodes, seed=seed, minutes=minutes), window, lead, block)
    rows = np.random.default_rng(seed).permutation(len(full))[:samples]
    return full.take(np.sort(rows))
