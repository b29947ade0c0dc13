"""Running the contestants: which tables, splits and contestants a profile has, and what came of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from cbdl.studies.methods.tables import Table
from cbdl.studies.study import Context, Profile
from cbdl.studies.tables import bde, credal, peers, regions, sine
from cbdl.studies.tables.contestant import MEASURES, Contestant, Stopped, Task, code
from cbdl.studies.tables.kept import Rows, Shelf, content
from cbdl.studies.tables.scores import Numbers, means
from cbdl.studies.tables.sources import CLASSES, MANY, OWN, UCI, Source, sources

CONTESTANTS: tuple[Contestant, ...] = (
    *credal.CONTESTANTS,
    *peers.CONTESTANTS,
    *bde.CONTESTANTS,
    *regions.CONTESTANTS,
)
SPLITS = {"energy": 2, "concrete": 2, "wine": 2, "airfoil": 5}
"""Splits (or repetitions) in the profile "cpu" of the tables that have more than one."""
SMOKE = ("diabetes", "iris")
"""The tables of the profile "smoke", cut short."""
SMOKE_ROWS = (120, 16)
CACHE = "runs"
"""The folder of kept results, in that of the report."""


@dataclass(frozen=True)
class Missing:
    """Why there are no numbers of a contestant: in a word or two, and in a sentence."""

    brief: str
    whole: str


NOT_INSTALLED = Missing("not installed", "not installed")


@dataclass(frozen=True)
class Runs:
    """What came of one table: rows of numbers by name and split, and why others are missing."""

    source: Source
    first: Table
    splits: int
    rows: dict[str, dict[int, Numbers]] = field(default_factory=dict)
    missing: dict[str, Missing] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def kind(self) -> str:
        return self.source.kind

    def mean(self, row: str) -> Numbers:
        """The means over splits of one row; empty if it was not run."""
        return means(list(self.rows[row].values())) if row in self.rows else {}

    def pair(self, row: str, other: str, name: str) -> tuple[float, float] | None:
        """The means of one number of two rows over the splits that both were run on; None without such."""
        own, theirs = self.rows.get(row, {}), self.rows.get(other, {})
        both = [k for k in own if k in theirs and name in own[k] and name in theirs[k]]
        if not both:
            return None
        return means([own[k] for k in both])[name], means([theirs[k] for k in both])[name]


def chosen(context: Context) -> tuple[list[Source], str]:
    """The tables of this run, and a sentence about those that are not there."""
    known = sources()
    if context.profile == "smoke":
        wanted = [known[name] for name in SMOKE]
        text = "A moment's run on scikit-learn's tables, cut short, cannot reach them."
        return [s for s in wanted if context.wants(s.name)], text
    given = [known[name] for name in (*UCI, "airfoil", *CLASSES)]
    there = [source for source in given if source.there]
    absent = [source.name for source in given if not source.there]
    own = [known[name] for name in (OWN if not there else ("digits",))]
    text = ""
    if not there:
        text = "There is no folder of data sets (CBDL_DATA names it), so the tables are scikit-learn's own."
    elif absent:
        text = f"Not in the folder of data sets: {', '.join(absent)}."
    return [s for s in (*there, *own, known[MANY]) if context.wants(s.name)], text


def measured(context: Context, source: Source) -> Runs:
    """All contestants on all splits that the profile has of one table."""
    count = splits(context.profile, source)
    runs = Runs(source, _table(context, source, 0), count)
    context.note(f"\n{source.name}: {runs.first.source}")
    for split in range(count):
        table = runs.first if split == 0 else _table(context, source, split)
        task = Task(table, context.seed + split, context.profile == "smoke", source.pixels)
        for contestant in taking_part(context.profile, source, split):
            if context.profile == "cpu" and contestant.most is not None and len(table.X) > contestant.most:
                why = f"left out above {contestant.most:,} rows in the profile cpu; paper has it"
                runs.missing[contestant.name] = Missing("left out", why)
            else:
                _add(context, runs, contestant, task, split)
    return runs


def splits(profile: Profile, source: Source) -> int:
    """How many splits of a table a profile has."""
    if profile == "paper":
        return source.splits
    return min(SPLITS.get(source.name, 1), source.splits) if profile == "cpu" else 1


def _table(context: Context, source: Source, split: int) -> Table:
    table = source.load(split)
    if context.profile != "smoke":
        return table
    rows, asked = SMOKE_ROWS
    return replace(table.first(rows), X_test=table.X_test[:asked], y_test=table.y_test[:asked])


def taking_part(profile: Profile, source: Source, split: int) -> Iterator[Contestant]:
    """The contestants of a split of a table in a profile."""
    for one in CONTESTANTS:
        named = not one.tables or source.name in one.tables
        alone = not source.alone or one.name == credal.NAME
        enough = profile == "cpu" and one.splits is not None and split >= one.splits
        if source.kind in one.kinds and profile in one.profiles and named and alone and not enough:
            yield one


def _add(context: Context, runs: Runs, contestant: Contestant, task: Task, split: int) -> None:
    """One contestant on one split, from what is kept or run now."""
    version = contestant.version()
    if version is None:
        runs.missing[contestant.name] = NOT_INSTALLED
        return
    key = {
        "table": task.table.name,
        "split": split,
        "contestant": contestant.name,
        "seed": task.seed,
        "short": task.short,
        "data": content(task),
        "version": version,
    }
    try:
        rows, there = _shelf(context).rows(key, lambda: untimed(contestant.run(task), task.short))
    except Stopped as error:
        runs.missing[contestant.name] = Missing("stopped", str(error))
        context.note(f"  split {split}, {contestant.name}: {error}")
        return
    for row, numbers in rows.items():
        runs.rows.setdefault(row, {})[split] = numbers
        shown = ", ".join(f"{name} {value:.4g}" for name, value in numbers.items())
        context.note(f"  split {split}, {row}{' (kept)' if there else ''}: {shown}")


def untimed(rows: Rows, short: bool) -> Rows:
    """A moment's run has no time worth telling."""
    if not short:
        return rows
    return {
        row: {name: value for name, value in numbers.items() if not name.endswith("seconds")}
        for row, numbers in rows.items()
    }


def _shelf(context: Context) -> Shelf:
    return Shelf(None if context.folder is None else context.folder / CACHE)


def of_sine(context: Context) -> Rows:
    """The sine example, from what is kept or run now."""
    context.note("\nsine: y = sin 2x + 0.1 noise")
    task = sine.task(context.seed, context.profile == "smoke")
    key = {
        "table": sine.NAME,
        "contestant": credal.NAME,
        "seed": task.seed,
        "short": task.short,
        "data": content(task),
        "version": code(*credal.ROOMS, "studies/tables/sine.py", *MEASURES),
    }
    return _shelf(context).rows(key, lambda: untimed(sine.run(task), task.short))[0]
