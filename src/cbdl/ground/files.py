"""Files and folders that appear whole or not at all: written under another name, synced, renamed.

At every moment, also if the power fails, the old content is there or the new one is. An `OSError` leaves what was
there as it was, and nothing beside it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TextIO


def write(path: Path, content: bytes | str, previous: Path | None = None) -> None:
    """`content` as the file `path`; text is UTF-8. What was there before is kept as `previous`, if that is given."""
    with _fresh(path) as fresh:
        put(fresh, content)
        if previous is not None and path.exists():
            # a second name first: there is no moment without a whole file
            _second_name(path, previous)


@contextlib.contextmanager
def whole(path: Path) -> Iterator[TextIO]:
    """A text file to write that becomes `path` when the block ends without an error."""
    with _fresh(path) as fresh, open(fresh, "w", newline="", encoding="utf-8") as file:
        yield file
        sync(file)


@contextlib.contextmanager
def whole_binary(path: Path) -> Iterator[IO[bytes]]:
    """A binary file to write that becomes `path` when the block ends without an error."""
    with _fresh(path) as fresh, open(fresh, "wb") as file:
        yield file
        sync(file)


def check_writable(folder: Path) -> None:
    """An OSError unless a file can be written in `folder`; nothing is left there."""
    with tempfile.TemporaryFile(dir=folder):
        pass


def put(path: Path, content: bytes | str) -> None:
    """Write a new file and wait until it is on the disk; for files that a rename will reveal later."""
    with open(path, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        sync(file)


def sync(file: IO[bytes] | IO[str]) -> None:
    """Wait until what was written is on the disk."""
    file.flush()
    os.fsync(file.fileno())


@contextlib.contextmanager
def _fresh(path: Path) -> Iterator[Path]:
    """A name beside `path` that replaces it when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield fresh
        os.replace(fresh, path)
        sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()


def _second_name(path: Path, name: Path) -> None:
    """The file `path` under the name `name` as well, which then outlives a replacement of `path`."""
    with contextlib.suppress(FileNotFoundError):
        name.unlink()
    try:
        os.link(path, name)
    except OSError:  # a file system without links
        put(name, path.read_bytes())


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to fill (with `put`) that becomes `path` when the block ends without an error.

    What was there goes away only afterwards.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    try:
        fresh.mkdir(parents=True)
        yield fresh
        sync_folder(fresh)
        if path.exists():
            os.replace(path, old)
        try:
            os.replace(fresh, path)
        except OSError:
            if old.exists():
                os.replace(old, path)
            raise
        sync_folder(path.parent)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
