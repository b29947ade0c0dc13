"""Running the study: networks are trained, then every contestant controls all episodes; each result is kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cbdl.studies import workers
from cbdl.studies.pancreas.controllers import Basal, BasalBolus, Controller, Oracle, Predictive, highest_dose
from cbdl.studies.pancreas.cost import Weights
from cbdl.studies.pancreas.episodes import Cases, Lanes, run
from cbdl.studies.pancreas.forecasts import LOOKS, RULES, Forecaster, Rule
from cbdl.studies.pancreas.members import ALPHAS, LINE_UPS, OURS, SEEDS, LineUp, Trained, train
from cbdl.studies.pancreas.networks import Networks
from cbdl.studies.pancreas.plans import Plan
from cbdl.studies.shelf import Arrays, Key, Shelf
from cbdl.studies.study import Context
from cbdl.studies.tables.contestant import code

CACHE = "runs"
"""The folder of kept results, in that of the report."""
_HERE = "studies/pancreas"
LEARNING = (
    "bayes",
    "credal/line",
    "evaluate/conformal.py",
    "model.py",
    "nets",
    *(
        f"{_HERE}/{name}.py"
        for name in ("data", "disturbances", "dynamics", "gut", "members", "networks", "patients", "sensor")
    ),
    f"{_HERE}/simulation.py",
)
"""The code that decides what networks learn."""
CONTROL = (
    *LEARNING,
    *(
        f"{_HERE}/{name}.py"
        for name in ("controllers", "cost", "episodes", "evolution", "forecasts", "history")
    ),
)
"""The code that decides what controllers do."""
BASAL, BOLUS, ORACLE, SINGLE = "basal only", "basal-bolus", "oracle", "single BNN"
SHOWN = ("glucose", "doses", "readings", "low", "middle", "high")


@dataclass(frozen=True)
class Contestant:
    """A controller of the comparison: with networks of a line-up and a rule, or without."""

    name: str
    line_up: LineUp | None = None
    rule: Rule | None = None
    single: bool = False
    """Whether only the first member counts."""

    @property
    def alphas(self) -> tuple[float, ...]:
        return () if self.line_up is None else ALPHAS


CONTESTANTS = (
    Contestant(BASAL),
    Contestant(BOLUS),
    Contestant(ORACLE),
    Contestant(SINGLE, SEEDS, "CBDL", single=True),
    *(Contestant(f"{own.name} {rule}", own, rule) for own in LINE_UPS for rule in RULES),
)


# --- work that may be done in another process ---------------------------------------------------------------


@dataclass(frozen=True)
class Training:
    """Networks of one patient."""

    line_up: str
    patient: str
    samples: int
    epochs: int
    seed: int

    @property
    def key(self) -> Key:
        return {"name": f"{self.line_up} {self.patient}", **asdict(self), "version": code(*LEARNING)}

    def do(self) -> Arrays:
        own = {line_up.name: line_up for line_up in LINE_UPS}[self.line_up]
        begin = time.perf_counter()
        trained = train(own, self.patient, self.samples, self.epochs, self.seed)
        seconds = np.array(time.perf_counter() - begin)
        return {**trained.arrays(), "seconds": seconds}


@dataclass(frozen=True, eq=False)
class Control:
    """All episodes of one contestant, in lock-step."""

    contestant: str
    cases: Cases
    generations: int
    seed: int
    trained: tuple[Arrays, ...]
    """One per patient; none without networks."""

    @property
    def key(self) -> Key:
        return {
            "name": self.contestant,
            "cases": asdict(self.cases),
            "generations": self.generations,
            "seed": self.seed,
            "version": code(*CONTROL),
            "trained": [_digest(own) for own in self.trained],
        }

    def do(self) -> Arrays:
        own = {one.name: one for one in CONTESTANTS}[self.contestant]
        lanes = self.cases.repeated(max(1, len(own.alphas)))
        days = run(self._controller(own, lanes), lanes)
        shape = (len(self.cases.names), max(1, len(own.alphas)), self.cases.each, -1)
        arrays = (days.glucose, days.doses, days.readings, *days.forecast)
        return {
            name: array.reshape(shape).astype(np.float32) for name, array in zip(SHOWN, arrays, strict=True)
        }

    def _controller(self, own: Contestant, lanes: Lanes) -> Controller:
        if own.name == BASAL:
            return Basal()
        if own.name == BOLUS:
            return BasalBolus(lanes.patients)
        line_up = own.line_up
        highest = highest_dose(lanes.patients, OURS.reach if line_up is None else line_up.reach)
        if line_up is None or own.rule is None:
            return Oracle(highest, len(highest), seed=self.seed, generations=self.generations)
        trained = [Trained.from_arrays(arrays) for arrays in self.trained]
        networks = Networks.stack([one.networks for one in trained])
        kept = np.stack([one.kept for one in trained])
        if own.single:
            networks, kept = networks.only(0), kept[:, :1]
        z = np.repeat(np.stack([one.halfwidths for one in trained]), self.cases.each, axis=1)
        forecaster = Forecaster(
            networks, own.rule, z, kept=kept, courses=line_up.courses, block=line_up.block
        )
        return Predictive(forecaster, highest, seed=self.seed, generations=self.generations)


def _digest(arrays: Arrays) -> str:
    """Of what was learned: the same code on another machine may learn other bits."""
    weights = [own for name, own in sorted(arrays.items()) if name.startswith("networks/")]
    return f"{sum(float(np.abs(own).sum(dtype=np.float64)) for own in weights):.9g}"


# --- all of it ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Results:
    """What came of a run of the study."""

    plan: Plan
    cases: Cases
    days: dict[str, Arrays]
    """By contestant; every array (patients, alphas, episodes, T), one alpha for those without."""
    trained: dict[str, list[Arrays]]
    """By line-up with networks of its own: what validation windows said, for every patient (and seed)."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.cases.names


def results(context: Context, plan: Plan, names: tuple[str, ...]) -> Results:
    """Everything, from what is kept or run now."""
    shelf = Shelf(None if context.folder is None else context.folder / CACHE)
    whole = plan.cases(names, context.seed)
    seeds = whole.seeds if plan.per_seed else (context.seed,)
    trainings = [
        Training(own.name, name, plan.samples, plan.epochs, seed)
        for seed in seeds
        for own in LINE_UPS
        if own.like is None
        for name in names
    ]
    learned = workers.done(
        context, shelf, plan.workers, trainings, lambda task: f"trained {task.line_up}, {task.patient}"
    )
    by_seed = {
        (seed, own.name): tuple(
            learned[Training(own.trained_as, n, plan.samples, plan.epochs, seed)] for n in names
        )
        for seed in seeds
        for own in LINE_UPS
    }
    loops = [
        Control(
            own.name,
            Cases(names, (seed,), whole.initial, whole.minutes) if plan.per_seed else whole,
            plan.generations,
            context.seed,
            () if own.line_up is None else by_seed[seed, own.line_up.name],
        )
        for own in CONTESTANTS
        for seed in seeds
    ]
    ran = workers.done(context, shelf, plan.workers, loops, lambda task: f"controlled by {task.contestant}")
    days = {
        own.name: _joined([ran[one] for one in loops if one.contestant == own.name]) for own in CONTESTANTS
    }
    trained = {
        own.name: [one for seed in seeds for one in by_seed[seed, own.name]]
        for own in LINE_UPS
        if own.like is None
    }
    return Results(plan, whole, days, trained)


def _joined(parts: Sequence[Arrays]) -> Arrays:
    return {name: np.concatenate([own[name] for own in parts], axis=2) for name in SHOWN}


def settings() -> dict[str, Any]:
    """What all planning controllers share, and how far the doses of each line-up may reach."""
    return {**asdict(Weights()), "looks": LOOKS, "reach": {own.name: own.reach for own in LINE_UPS}}
