"""Many tables answered into a folder, file by file; a run that was stopped goes on with the files that are missing.

Every answer file appears whole. Beside them a log says of which model and of which request they are, and which tables
they are of: a file that is not in it, or whose table has changed since, is answered anew, and a folder with answers to
something else is refused. Where the files are answered, here or on a Ray cluster, is the business of a pool.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from cbdl import store
from cbdl.engines.pools import Lost, Pool
from cbdl.tables import answering, writing
from cbdl.tables.answering import Counts, Request
from cbdl.tables.answers import Trained, of_table
from cbdl.tables.errors import UsageError
from cbdl.tables.files import PARQUET
from cbdl.tables.folder_log import Entry, Head, Log, Version, opened

SUFFIXES = (".csv", *PARQUET)
"""Of the tables in a folder."""


@dataclass(frozen=True)
class Job:
    """A table as it is now, and where its answers go."""

    table: Path
    version: Version
    out: Path

    def __str__(self) -> str:
        return str(self.table)


@dataclass(frozen=True)
class Answered:
    """What became of a table: its counts, or why it has no answers."""

    job: Job
    counts: Counts | None
    error: str = ""
    before: bool = False
    """Whether its answers were there already."""


# --- which tables, and where their answers go -----------------------------------------------------------------


def is_many(given: Sequence[str]) -> bool:
    """Whether several tables are meant: more than one name, a folder or a pattern; their answers go to a folder."""
    return len(given) > 1 or Path(given[0]).is_dir() or _is_pattern(given[0])


def _is_pattern(name: str) -> bool:
    return glob.has_magic(name) and not Path(name).exists()


def tables(given: Sequence[str]) -> list[Path]:
    """The tables that names, folders and patterns stand for, each once and in order."""
    found: dict[Path, Path] = {}
    for name in given:
        for path in _matches(name):
            found.setdefault(path.resolve(), path)
    return list(found.values())


def _matches(name: str) -> list[Path]:
    path = Path(name)
    if _is_pattern(name):
        files = sorted(p for p in map(Path, glob.glob(name, recursive=True)) if p.is_file())
        if not files:
            raise UsageError(f"no file matches {name}")
        return files
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix.lower() in SUFFIXES and p.name[0] not in "._")
        if not files:
            raise UsageError(f"{path} has no tables: no file in it ends in {', '.join(SUFFIXES)}")
        return files
    if not path.is_file():
        raise UsageError(f"{path} {'is not a file' if path.exists() else 'does not exist'}")
    return [path]


def jobs(paths: Sequence[Path], out: Path, kind: writing.Kind | None) -> list[Job]:
    """A job per table: its answers have its name, in the form `kind`, or in that of the table if it is None."""
    owners: dict[Path, Path] = {}
    for path in paths:
        if out.resolve() in path.resolve().parents:
            raise UsageError(f"{path} is in --out itself; choose another folder for the answers")
        answer = out / f"{path.stem}{_suffix(path, kind)}"
        if answer in owners:
            raise UsageError(
                f"the answers for {owners[answer]} and for {path} would both be {answer}; rename one, or answer them "
                "into different folders"
            )
        owners[answer] = path
    return [Job(path, Version.of(path), answer) for answer, path in owners.items()]


def _suffix(path: Path, kind: writing.Kind | None) -> str:
    own = path.suffix if path.suffix.lower() in SUFFIXES else ".csv"
    return own if kind is None else f".{kind}"


def check_folder(out: Path) -> None:
    """A UsageError unless `out` is a folder, or can become one."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out is {out}, which is a file; give a folder for the answers of several tables")
    if not out.parent.is_dir():
        raise UsageError(f"--out is {out}, but there is no folder {out.parent}")
    writing.check_place(out, out if out.exists() else out.parent)


# --- answering them --------------------------------------------------------------------------------------------


class Answering:
    """A loaded model that answers jobs; what is wrong with one table does not stop the others."""

    def __init__(self, model: Path, request: Request) -> None:
        self.trained, self.request = Trained.load(model), request

    def __call__(self, job: Job) -> Answered:
        try:
            return Answered(job, answering.answer_file(self.trained, job.table, job.out, self.request))
        except (ValueError, OSError) as error:
            return Answered(job, None, _named(job.table, str(error)))


def _named(table: Path, message: str) -> str:
    return message if str(table) in message else f"{table}: {message}"


def answer(
    model: Path,
    todo: Sequence[Job],
    out: Path,
    request: Request,
    pool: Pool,
    *,
    kind: writing.Kind | None = None,
) -> Iterator[Answered]:
    """Every table with what became of it, first those that were answered before; its log is kept in `out`."""
    of_table(model)
    head = Head.of(store.fingerprint(model), answering.described(request), kind)
    out.mkdir(exist_ok=True)
    with opened(out, head, [job.out for job in todo]) as log:
        here = {job: entry for job in todo if (entry := _before(log, job)) is not None}
        for job, entry in here.items():
            yield Answered(job, entry.counts, before=True)
        rest = [_absolute(job) for job in todo if job not in here]
        shown = {_absolute(job): job for job in todo}
        for job, outcome in pool.each(partial(Answering, model.absolute(), request), rest):
            yield _recorded(log, shown[job], outcome)


def _absolute(job: Job) -> Job:
    """A worker may be in another folder."""
    return replace(job, table=job.table.absolute(), out=job.out.absolute())


def _before(log: Log, job: Job) -> Entry | None:
    """What the log says of the answers, if they are there and of the table as it is now."""
    entry = log.entries.get(job.out.name)
    return entry if entry is not None and entry.holds(job.version, job.out) else None


def _recorded(log: Log, job: Job, outcome: Answered | Lost) -> Answered:
    if isinstance(outcome, Lost):
        return Answered(
            job,
            None,
            f"{job.table}: {outcome.how}; a common cause is too little memory, or a node that does not see the files",
        )
    if outcome.counts is None:  # as the user has named the table
        return Answered(job, None, outcome.error.replace(str(outcome.job.table), str(job.table)))
    log.add(job.out.name, Entry(job.version, job.out.stat().st_size, outcome.counts))
    return Answered(job, outcome.counts)
