"""Downloads: a file appears under its name only when it is whole and its checksum is right.

Until then it is NAME.part. A transfer that broke off goes on where it stopped, in this run or the next; a part that
turns out to be wrong is thrown away and fetched once more from the start. What is there already stays, whatever it is:
where its sum is known and another, that is said.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from cbdl.data.catalogue import DataSet, Source
from cbdl.data.formats import DataError
from cbdl.ground import files

BLOCK = 1 << 20
ATTEMPTS = 4
"""Connections for one file."""
PATIENCE = 30.0
"""Seconds without a byte after which a connection is given up."""

Note = Callable[[str], None]
Seen = Callable[[str, int, int | None], None]
"""Is told of a file how many bytes of how many are here; None: nobody knows."""


class FetchError(OSError):
    """A download that did not succeed; what is there can be continued by calling again."""


def folder(given: str | Path | None = None) -> Path:
    """Where data sets are: the folder given, the environment's CBDL_DATA, or cbdl/ in the user's cache.

    - `given`: a folder that goes before the others

    >>> folder("downloads")
    PosixPath('downloads')
    """
    if given is not None:
        return Path(given)
    if os.environ.get("CBDL_DATA"):
        return Path(os.environ["CBDL_DATA"])
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "cbdl"


def is_there(one: DataSet, where: str | Path | None = None) -> bool:
    """Whether all files of a data set are in its folder, compressed or not."""
    return len(files_there(one, where)) == len(one.files)


def files_there(one: DataSet, where: str | Path | None = None) -> tuple[str, ...]:
    """Those files of a data set that are in its folder, compressed or not, by their names without .gz."""
    place = folder(where) / one.name
    return tuple(name for name in one.files if (place / name).exists() or (place / f"{name}.gz").exists())


def fetch(
    one: DataSet,
    where: str | Path | None = None,
    note: Note = lambda text: None,
    pause: float = 1.0,
    seen: Seen = lambda name, here, whole: None,
) -> Path:
    """Every file of the data set in its folder, which is returned; those that are there already stay.

    `note` is told what happens, and `seen` how far it is; `pause` seconds, twice as many every time, between
    connections.

    - `one`: the data set, from `data_set(name)`
    - `where`: the folder of data sets; None: that of `folder()`
    """
    place = folder(where) / one.name
    for source in one.sources:
        _compare(source, place, note)
    if is_there(one, where):
        note(f"{one.name} is in {place}")
        return place
    place.mkdir(parents=True, exist_ok=True)
    for source in one.sources:
        target = place / source.name
        if not _has(source, place):
            note(f"{source.address} -> {target}")
            _fetch_file(source, target, note, pause, seen)
        if source.members:
            _unpack(target, source.members)
    return place


def _has(source: Source, place: Path) -> bool:
    """Whether a file is there, compressed or not; an archive, which is to be unpacked, with the right sum."""
    target = place / source.name
    if source.members:
        return target.exists() and digest(target, source.sum) == source.sum
    return target.exists() or (place / source.name.removesuffix(".gz")).exists()


def _compare(source: Source, place: Path, note: Note) -> None:
    """A note of a file that is there and is not the published one. What was unpacked has no sum to be compared with."""
    target = place / source.name
    if source.members or not target.exists():
        return
    own = digest(target, source.sum)
    if own != source.sum:
        note(
            f"{target} is there and stays, but its sum is {own}, not the published {source.sum}: it was packed "
            "otherwise, is another version, or is damaged; to fetch it, move it away and call again"
        )


def _fetch_file(source: Source, target: Path, note: Note, pause: float, seen: Seen) -> None:
    if urlsplit(source.address).scheme not in ("http", "https"):
        raise ValueError(f"{source.address} is no http or https address")
    part = target.with_name(target.name + ".part")
    failure: object = "no connection was tried"
    fresh_starts = 0
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(pause * 2 ** (attempt - 1))
        try:
            _continue(source.address, part, partial(seen, source.name))
        except (urllib.error.URLError, HTTPException, OSError) as error:
            failure = error
            if attempt < ATTEMPTS - 1:
                note(f"{source.name}: {error}; trying again")
            continue
        if digest(part, source.sum) == source.sum:
            os.replace(part, target)
            return
        part.unlink()
        failure = f"its sum is not {source.sum}"
        fresh_starts += 1
        if fresh_starts > 1:
            break
        note(f"{source.name}: {failure}; fetching it from the start")
    raise FetchError(f"{source.address} could not be fetched: {failure}")


def _continue(address: str, part: Path, seen: Callable[[int, int | None], None]) -> None:
    """The bytes that `part` lacks, appended to it; all of them if the server cannot begin in the middle."""
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(address, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        answer = urllib.request.urlopen(request, timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and start:  # nothing is missing: the sum will tell
            return
        raise FetchError(f"the server answers {error.code} {error.reason}") from None
    with answer:
        resumed = start > 0 and answer.status == 206
        length = answer.headers.get("Content-Length")
        wanted = None if length is None else int(length) + (start if resumed else 0)
        with open(part, "ab" if resumed else "wb") as file:
            while block := answer.read(BLOCK):
                file.write(block)
                seen(file.tell(), wanted)
            files.sync(file)
    size = part.stat().st_size
    if wanted is not None and size != wanted:
        raise FetchError(f"the connection ended after {size} of {wanted} bytes")


def digest(path: Path, like: str) -> str:
    """The sum of a file, by the algorithm that `like` ("md5:...") names, in the same form."""
    name = like.split(":")[0]
    sha = hashlib.new(name, usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            sha.update(block)
    return f"{name}:{sha.hexdigest()}"


def _unpack(archive: Path, members: tuple[str, ...]) -> None:
    """The wanted members of an archive beside it, under their last name, then the archive goes."""
    with tarfile.open(archive) as tar:
        for member in members:
            try:
                stored = tar.extractfile(member)
            except KeyError:
                stored = None
            if stored is None:
                raise DataError(f"{archive} has no {member}")
            files.write(archive.with_name(member.rsplit("/", 1)[-1]), stored.read())
    archive.unlink()
