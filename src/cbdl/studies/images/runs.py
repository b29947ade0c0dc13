"""Running the study: every member of every source is trained and asked, then all lines are measured; all is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cbdl.studies import workers
from cbdl.studies.images import lines, measures
from cbdl.studies.images.answers import ASKING, OF_POINTS, Asking
from cbdl.studies.images.lines import Answers, Said
from cbdl.studies.images.members import LINE_UPS, LineUp
from cbdl.studies.images.plans import Plan
from cbdl.studies.images.sources import (
    CLEAN,
    DIGITS,
    SEVERITIES,
    SOURCES,
    Rows,
    Source,
    available,
    corrupted,
    rows,
)
from cbdl.studies.kept import Shelf
from cbdl.studies.shelf import Arrays
from cbdl.studies.shelf import Shelf as ArrayShelf
from cbdl.studies.study import Context
from cbdl.studies.tables.contestant import code

MEASURING = (
    *ASKING,
    *OF_POINTS,
    *(f"studies/images/{name}.py" for name in ("lines", "measures", "rejector", "runs")),
    *("credal", "evaluate", "baselines.py", "constructions"),
)
"""The code that decides what is measured."""
STAND_IN_NOTE = (
    "runs on scikit-learn's digits; `cbdl data fetch` downloads MNIST, Fashion-MNIST, CIFAR-10 and SVHN"
)


@dataclass(frozen=True)
class Result:
    """What was measured with one source and seed."""

    source: Source
    seed: int
    numbers: dict[str, Any]

    @property
    def foreign(self) -> list[str]:
        return list(self.numbers["auroc"])


def line_ups(context: Context) -> list[LineUp]:
    """The line-ups that are asked for by name; all of them if none is."""
    named = [own for own in LINE_UPS if choice(own) in context.only]
    return named or list(LINE_UPS)


def choice(line_up: LineUp) -> str:
    """What a line-up is called on the command line.

    >>> choice("mean field")
    'mean-field'
    """
    return line_up.replace(" ", "-")


def chosen(context: Context) -> tuple[list[Source], str]:
    """The sources that are asked for and there, and what to say of them."""
    if context.profile == "smoke":
        return [DIGITS], f"The profile smoke {STAND_IN_NOTE}."
    there = available()
    asked = [name for name in SOURCES if name in context.only] or list(SOURCES)
    wanted = [SOURCES[name] for name in asked if name in there]
    if not wanted:
        return [DIGITS], f"Without the files of {', '.join(asked)} the study {STAND_IN_NOTE}."
    absent = [name for name in SOURCES if name not in there]
    return wanted, f"Not there, and so left out: {', '.join(absent)}." if absent else ""


def results(context: Context, plan: Plan, sources: Sequence[Source]) -> Iterator[Result]:
    """Source by source, from what is kept or run now."""
    for source in sources:
        for seed in context.repetitions(plan.seeds):
            yield _result(context, plan, source, seed)


def _result(context: Context, plan: Plan, source: Source, seed: int) -> Result:
    """Members are trained and asked, then all lines are measured."""
    home, asked = context.folder, line_ups(context)
    runs = None if home is None else home / "runs"
    members = None if home is None else home / "members"
    how, sizes = plan.trainings[source.name], plan.sizes[source.name]
    tasks = [
        Asking(source.name, line_up, place, seed, plan.training(source.name, line_up), sizes, members)
        for line_up in asked
        for place in range(LINE_UPS[line_up])
    ]
    answers = workers.done(context, ArrayShelf(runs), plan.workers, tasks, lambda task: task.name)
    own = {(task.line_up, task.place): given for task, given in answers.items()}
    words = {"table": source.name, "split": seed, "contestant": "lines"}
    settings = {"sizes": asdict(sizes), "how": asdict(how), "line_ups": asked, "code": code(*MEASURING)}
    numbers, there = Shelf(runs).rows({**words, **settings}, lambda: measured(rows(source, sizes, seed), own))
    context.note(f"  {source.title}, seed {seed}: measured{' (kept)' if there else ''}")
    return Result(source, seed, numbers)


def measured(own: Rows, members: dict[Any, Arrays]) -> dict[str, Any]:
    """All numbers of one source."""
    answers = Answers(members, own.validation.y.numpy().astype(np.float64))
    plain = [CLEAN, *own.foreign]
    sizes = [len(own.tests), *(len(images) for images in own.foreign.values())]
    by_set = dict(zip(plain, measures.joined(lines.said(answers, plain, thorough=True), sizes), strict=True))
    y = own.tests.y.numpy().astype(np.float64)
    clean = by_set[CLEAN]
    return {
        "rows": {"train": len(own.train), "tests": len(own.tests), "corrupted": len(own.corrupted)},
        "scores": {line: measures.scores(said, y) for line, said in clean.items()},
        "members": _members(answers, y),
        "seconds": _seconds(members),
        "rejector": asdict(answers.rejectors.whole) if answers.has("ordinary") else None,
        "means": {
            name: {line: measures.means(s) for line, s in sets.items()} for name, sets in by_set.items()
        },
        "auroc": {
            name: {line: measures.detection(clean[line], said) for line, said in by_set[name].items()}
            for name in own.foreign
        },
        "corrupted": _corrupted(own, answers),
    }


def _corrupted(own: Rows, answers: Answers) -> dict[str, Any]:
    """By noise, severity and line: mean uncertainties, areas and curves."""
    names = [(noise, s) for noise in own.source.corruptions for s in SEVERITIES]
    sets = [corrupted(noise, severity) for noise, severity in names]
    whole = lines.said(answers, sets, thorough=False)
    y = own.corrupted.y.numpy().astype(np.float64)
    answer: dict[str, Any] = {noise: {} for noise in own.source.corruptions}
    for (noise, severity), said in zip(names, measures.joined(whole, [len(y)] * len(sets)), strict=True):
        answer[noise][str(severity)] = {line: _numbers(one, y) for line, one in said.items()}
    return answer


def _numbers(said: Said, y: Any) -> dict[str, Any]:
    return {
        **measures.means(said),
        "accuracy": float((said.point.argmax(-1) == y).mean()),
        "area": measures.area(said, y, "doubt"),
        "area_error": measures.area(said, y, "error"),
        "area_total": measures.area(said, y, "total"),
        "area_epistemic": measures.area(said, y, "epistemic"),
        "curve": measures.curve(said, y),
    }


def _members(answers: Answers, y: Any) -> dict[str, list[float]]:
    """Accuracies of clean test rows by line-up."""
    own: dict[str, list[float]] = {}
    for line_up in filter(answers.has, LINE_UPS):
        points = line_up in ("ordinary", "robust")
        given = answers.stacked(line_up, [CLEAN], "log_probs" if points else "averages")
        own[line_up] = measures.spread_of_members(given if points else given[:, :, 0], y)
    return own


def _seconds(members: dict[Any, Arrays]) -> dict[str, float]:
    """Processor seconds of training, by line-up."""
    own: dict[str, float] = {}
    for (line_up, _), arrays in members.items():
        own[line_up] = own.get(line_up, 0.0) + float(arrays["seconds"])
    return own
