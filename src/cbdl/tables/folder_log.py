"""The log of a folder of answers: of what they are, one line per file, written as the files appear.

The first line names the model and the request, every other line a file of answers and the table that it is of. A line
that was cut short by a crash is no line: its file is answered anew.
"""

from __future__ import annotations

import contextlib
import glob
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from cbdl.ground import files
from cbdl.tables.answering import Counts
from cbdl.tables.errors import TableError, UsageError

LOG = "_cbdl.jsonl"
"""Its name; readers of folders of Parquet files leave out what begins with "_"."""
FORMAT = 1


@dataclass(frozen=True)
class Head:
    """Of what the answers are: the model, by the sum of its manifest, and the request."""

    model: str
    request: Mapping[str, Any]
    cbdl: str

    @classmethod
    def of(cls, model: str, request: Mapping[str, Any], kind: str | None) -> Head:
        return cls(model, {**request, "format": kind}, version("cbdl"))

    def differs(self, other: Head) -> str | None:
        """In words, in what; None: in nothing."""
        if self.model != other.model:
            return "of another model, or of this one before it was trained again"
        for name in sorted({*self.request, *other.request}):
            ours, theirs = (own.request.get(name) for own in (self, other))
            if ours != theirs:
                return f"with --{name} {_spelled(theirs)}, not {_spelled(ours)}"
        return f"by cbdl {other.cbdl}, not {self.cbdl}" if self.cbdl != other.cbdl else None


def _spelled(value: Any) -> str:
    return "as by default" if value is None or value == [] else json.dumps(value)


@dataclass(frozen=True)
class Version:
    """A table as it was at some time: where it is, its size, and when it was written last."""

    path: str
    bytes: int
    time: int

    @classmethod
    def of(cls, table: Path) -> Version:
        state = table.stat()
        return cls(str(table.resolve()), state.st_size, state.st_mtime_ns)


@dataclass(frozen=True)
class Entry:
    """A file of answers: the table that it is of, its own size, and its counts."""

    table: Version
    bytes: int
    counts: Counts

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> Entry:
        return cls(Version(**described["table"]), described["bytes"], Counts(**described["counts"]))

    def holds(self, table: Version, out: Path) -> bool:
        """Whether the answers are there as they were written, and of the table as it is now."""
        return self.table == table and out.is_file() and out.stat().st_size == self.bytes


class Log:
    """The log of a run that is at work."""

    def __init__(self, entries: dict[str, Entry], file: IO[bytes]) -> None:
        self.entries, self._file = entries, file

    def add(self, name: str, entry: Entry) -> None:
        self.entries[name] = entry
        self._file.write(json.dumps({"name": name, **asdict(entry)}).encode() + b"\n")
        files.sync(self._file)


@contextlib.contextmanager
def opened(out: Path, head: Head, answers: Sequence[Path]) -> Iterator[Log]:
    """The log of the folder `out`, a new one if it has none; this run's alone while it is open.

    A UsageError if the folder holds answers to something else, or `answers` that are of no run.
    """
    path = out / LOG
    if not path.exists():
        strange = next((p for p in answers if p.exists()), None)
        if strange is not None:
            raise UsageError(
                f"{strange} is there already, and nothing says what it is of; choose another --out"
            )
        files.write(path, _first(head))
    with open(path, "r+b") as file:
        _lock(file, out)
        content = file.read()
        own, entries = _read(content, path)
        difference = head.differs(own)
        if difference is not None:
            if any(p.exists() for p in (*answers, *(out / name for name in entries))):
                raise UsageError(f"{out} holds answers made {difference}; choose another --out, or remove it")
            # a request that came to nothing is in nobody's way
            content, entries = _first(head).encode(), {}
            file.seek(0)
            file.write(content)
            file.truncate()
            files.sync(file)
        if not content.endswith(b"\n"):  # cut short
            file.write(b"\n")
        for answer in answers:  # what a run that was killed had begun
            for begun in out.glob(f".{glob.escape(answer.name)}.*.tmp"):
                begun.unlink(missing_ok=True)
        yield Log(entries, file)


def _lock(file: IO[bytes], out: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not every system has it
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(
            f"another cbdl predict is writing to {out}; wait for it, or choose another --out"
        ) from None


def _first(head: Head) -> str:
    """The line that a log begins with."""
    return json.dumps({"format": FORMAT, **asdict(head)}) + "\n"


def _read(content: bytes, path: Path) -> tuple[Head, dict[str, Entry]]:
    """Of what the answers are, and the files in the log; lines that were cut short are left out."""
    first, *lines = content.split(b"\n")
    try:
        described = json.loads(first)
        if described.pop("format") != FORMAT:
            raise ValueError("its format is another one")
        head = Head(**described)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TableError(f"{path} is no log of answers: {error}; choose another --out") from None
    entries = {}
    for line in lines:
        with contextlib.suppress(ValueError, TypeError, KeyError):
            own = json.loads(line)
            entries[own["name"]] = Entry.from_json(own)
    return head, entries
