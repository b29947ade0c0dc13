"""Running the line-ups: which splits, settings and seeds a profile has, and what came of each, kept as it comes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cbdl.studies.kept import Shelf
from cbdl.studies.racing import measures, samples, shapes
from cbdl.studies.racing.calibration import OutOfFold, out_of_fold
from cbdl.studies.racing.curves import FloatArray
from cbdl.studies.racing.folds import Fold, random_folds, track_folds
from cbdl.studies.racing.forecasts import Forecast
from cbdl.studies.racing.members import LineUp, Trained, train
from cbdl.studies.racing.physics import constant_turn
from cbdl.studies.racing.plans import SPLITS, Plan, SplitName
from cbdl.studies.racing.scores import spread_rows
from cbdl.studies.racing.splits import held_out_stretches, line_held_out, random_split
from cbdl.studies.racing.windows import Windows
from cbdl.studies.racing.worlds import World, content
from cbdl.studies.study import Context
from cbdl.studies.tables.contestant import code

Setting = Literal["in", "out"]
IN, RACE, FASTER, SLIPPERY, OTHER = "in distribution", "race line", "faster", "slippery", "other track"
SHIFTS = (RACE, FASTER, SLIPPERY, OTHER)
PHYSICS = "CTRV"
MEASURES = tuple(
    f"studies/racing/{name}.py"
    for name in (
        "areas", "calibration", "controllers", "curves", "folds", "forecasts", "lines", "measures", "members",
        "offsets", "physics", "quadratic", "regions", "runs", "samples", "scores", "shapes", "speeds", "splits",
        "traces", "track_files", "tracks", "vehicle", "views", "windows", "worlds",
    )
)  # fmt: skip
"""The code that decides what is measured."""


@dataclass(frozen=True)
class Case:
    """What is trained on: a split by some seed, of all lines ("in") or of all but the race line ("out")."""

    split: SplitName
    setting: Setting
    seed: int


@dataclass(frozen=True)
class Result:
    """What came of one line-up in one case: numbers by the kind of test windows, and samples to draw."""

    case: Case
    line_up: str
    tests: dict[str, dict[str, Any]]
    samples: dict[str, Any]


@dataclass(frozen=True)
class Cut:
    """The windows of a case."""

    train: Windows
    validation: Windows
    tests: dict[str, Windows]
    folds: list[Fold]


def cases(context: Context, plan: Plan) -> Iterator[tuple[Case, LineUp | None]]:
    """All that is to be run, in the order of the tables; None stands for the physics baseline."""
    for split in SPLITS:
        if not context.wants(split) or not plan.line_ups[split]:
            continue
        for seed in context.repetitions(plan.seeds):
            for setting in ("in", "out"):
                case = Case(split, setting, seed)
                yield from ((case, line_up) for line_up in (*plan.line_ups[split], None))


def results(context: Context, world: World, plan: Plan) -> list[Result]:
    """Every line-up in every case, from what is kept or run now."""
    shelf = Shelf(None if context.folder is None else context.folder / "runs")
    done, cut = [], _Cuts(world, plan)
    for case, line_up in cases(context, plan):
        name = PHYSICS if line_up is None else line_up.name

        def run(case: Case = case, line_up: LineUp | None = line_up) -> dict[str, Any]:
            return _run(case, line_up, cut(case), plan)

        rows, there = shelf.rows(_key(world, plan, case, name), run)
        result = Result(case, name, rows["tests"], rows["samples"])
        done.append(result)
        context.note(_said(result, there))
    return done


def _key(world: World, plan: Plan, case: Case, name: str) -> dict[str, Any]:
    words = {
        "table": world.track.name,
        "split": f"{case.split}-{case.setting}-{case.seed}",
        "contestant": name,
    }
    settings = [plan.epochs, plan.most, plan.tests, plan.draws, *vars(plan.length).values()]
    tracks = [content(world.track), content(world.other_track)]
    return {**words, "settings": [list(x) if isinstance(x, tuple) else x for x in settings], "tracks": tracks,
            "code": code(*MEASURES)}  # fmt: skip


def _said(result: Result, there: bool) -> str:
    """What a person hears of a result."""
    case = result.case
    parts = []
    for test, own in result.tests.items():
        region = own["regions"].get(measures.CALIBRATED) or own["regions"].get(measures.CBDL)
        held = "" if region is None else f", trajectories held at 0.9 {region['0.9']['multi']:.3f}"
        parts.append(f"{test}: ADE {own['scores'][measures.PLAIN]['ade']:.3f} m{held}")
    what = f"{case.split} split, {'all lines' if case.setting == 'in' else 'without race line'}, seed {case.seed}"
    return f"  {what}, {result.line_up}{' (kept)' if there else ''}: {'; '.join(parts)}"


class _Cuts:
    """The windows of the case that is asked for; those of the last one are remembered."""

    def __init__(self, world: World, plan: Plan) -> None:
        self.world, self.plan = world, plan
        self.last: tuple[Case, Cut] | None = None

    def __call__(self, case: Case) -> Cut:
        if self.last is None or self.last[0] != case:
            self.last = case, cut(self.world, self.plan, case)
        return self.last[1]


def cut(world: World, plan: Plan, case: Case) -> Cut:
    """Training, validation and test windows; test windows of other kinds stand on the held-out stretches, too."""
    windows = world.windows
    kinds: dict[str, Windows] = {}
    if case.split == "blocked":
        stretches = held_out_stretches(windows, case.seed)
        split = stretches.split(windows)
        if case.setting == "in":
            for name, others in ((FASTER, world.faster), (SLIPPERY, world.slippery)):
                kinds[name] = others[stretches.split(others).test]
            kinds[OTHER] = world.elsewhere
    else:
        split = random_split(windows, case.seed)
    if case.setting == "out":
        split = line_held_out(split, windows)
    kinds = {IN if case.setting == "in" else RACE: windows[split.test], **kinds}
    train_windows = few(windows[split.train], plan.most)
    folds = track_folds(train_windows) if case.split == "blocked" else random_folds(train_windows, case.seed)
    return Cut(
        train_windows,
        few(windows[split.validation], plan.tests),
        {name: few(own, plan.tests) for name, own in kinds.items() if len(own)},
        folds,
    )


def few(windows: Windows, most: int | None) -> Windows:
    """At most so many of the windows, evenly spread."""
    return windows if most is None else windows[spread_rows(len(windows), most)]


def _run(case: Case, line_up: LineUp | None, own: Cut, plan: Plan) -> dict[str, Any]:
    if line_up is None:
        return {"tests": _physics(own), "samples": {}}
    epochs = max(1, round(line_up.epochs * plan.epochs))
    trained = train(line_up, own.train, own.folds, case.seed, epochs)
    calibration = _calibrated(trained, own) if line_up.by_fold else None
    seen = trained.forecast(own.validation, plan.draws), own.validation.future[..., :2]
    tests, drawn = {}, {}
    for name, windows in own.tests.items():
        forecast, y = trained.forecast(windows, plan.draws), windows.future[..., :2]
        tests[name] = measures.measured(forecast, y, seen, calibration, case.seed)
        if name in (IN, RACE):
            drawn[name] = samples.samples(windows, forecast, calibration)
            tests[name]["shapes"] = shapes.shapes(forecast, y)
    return {"tests": tests, "samples": drawn}


def _calibrated(trained: Trained, own: Cut) -> OutOfFold:
    """Every member's forecast of what it has not seen."""
    parts = []
    for place, fold in enumerate(own.folds):
        windows = own.train[fold.left_out]
        parts.append((trained.forecast_by(place, windows), windows.future[..., :2]))
    return out_of_fold(parts)


def _physics(own: Cut) -> dict[str, Any]:
    """Constant turn rate and velocity, with the errors of training windows as its scales."""
    horizon = own.train.future.shape[1]

    def forecast(windows: Windows, scale: FloatArray) -> Forecast:
        loc = constant_turn(windows.history, horizon)[:, None]
        return Forecast(loc, np.broadcast_to(scale, loc.shape))

    error = own.train.future[..., :2] - constant_turn(own.train.history, horizon)
    scale = np.maximum(np.sqrt(np.square(error).mean(axis=0)), 1e-6)
    seen = forecast(own.validation, scale), own.validation.future[..., :2]
    return {
        name: measures.measured_alone(forecast(windows, scale), windows.future[..., :2], seen)
        for name, windows in own.tests.items()
    }
