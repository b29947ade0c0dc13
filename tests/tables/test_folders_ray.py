"""Many tables on a real Ray of this machine: the answers of one process, whoever dies, each of them once."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from folder_cases import assert_same, model, write

from calls import called
from cbdl.engines import Ray, WorkerError
from cbdl.engines.pools import Actors, Here
from cbdl.tables import folders
from cbdl.tables.answering import Request
from cbdl.tables.folder_log import LOG
from clusters import local_ray

pytest.importorskip("ray")
NAMES = ("a.csv", "b.parquet", "c.csv")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with local_ray() as ray:
        yield ray


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, tables, and their answers by one process."""
    place = tmp_path_factory.mktemp("place")
    model(place, "line")
    for i, name in enumerate(NAMES):
        write(place / "in" / name, 1500, i)
    todo = folders.jobs(folders.tables([str(place / "in")]), place / "here", None)
    assert all(o.counts for o in folders.answer(place / "model", todo, place / "here", Request(), Here()))
    return place


def killer(out: Path, times: dict[str, int]) -> threading.Thread:
    """Kills workers that are writing, so many of each table; the files that are not whole bear their numbers."""

    def kill() -> None:
        left, seen = dict(times), set[tuple[str, int]]()
        while any(left.values()):
            for path in out.glob(".*.tmp"):
                name, worker = path.name[1:].rsplit(".", 2)[0], int(path.name.split(".")[-2])
                if left.get(name) and (name, worker) not in seen and worker != os.getpid():
                    seen.add((name, worker))
                    left[name] -= 1
                    os.kill(worker, signal.SIGKILL)
            time.sleep(0.002)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_answers_are_those_of_one_process_and_a_bad_table_is_named(
    cluster: Any, place: Path, tmp_path: Path
) -> None:
    shutil.copytree(place / "in", tmp_path / "in")
    bad = tmp_path / "in" / "bad.csv"
    bad.write_text("x,z\n1,2\n3,oops\n")
    out = tmp_path / "out"
    arguments = ("predict", place / "model", tmp_path / "in", "--out", out, "--engine", "ray", "--quiet")
    code, said, err = called(*arguments)
    assert (code, said) == (1, f"{out}: 3 files, 4500 rows\n")
    assert f"{bad}: column 'z', row 2: 'oops' is not a finite number" in err
    assert cluster.is_initialized()
    for name in NAMES:
        assert_same(out / name, place / "here" / name)
    bad.unlink()
    assert "(3 of them there already)" in called(*arguments)[1]


def test_workers_that_die_lose_and_double_nothing_and_a_table_that_kills_them_all_is_named(
    cluster: Any, place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "out"
    todo = folders.jobs(folders.tables([str(place / "in")]), out, None)
    thread = killer(out, {"a.csv": 1, "c.csv": 2})
    with caplog.at_level(logging.WARNING, "cbdl"):
        outcomes = list(folders.answer(place / "model", todo, out, Request(), Actors(Ray(retries=1))))
    thread.join(60)
    assert "a.csv: its worker died" in caplog.text
    assert sorted(o.job.table.name for o in outcomes) == sorted(NAMES)
    lost = {o.job.table.name: o.error for o in outcomes if o.counts is None}
    assert list(lost) == ["c.csv"]
    assert "its worker died 2 times" in lost["c.csv"]
    assert all(o.counts.rows == 1500 for o in outcomes if o.counts is not None)
    for name in NAMES[:2]:
        assert_same(out / name, place / "here" / name)
    assert (out / LOG).read_text().count("\n") == len(NAMES)
    # the next run sweeps up what the killed ones had begun, and answers what is missing
    again = list(folders.answer(place / "model", todo, out, Request(), Here()))
    assert [o.before for o in sorted(again, key=lambda o: str(o.job))] == [True, True, False]
    assert names(out) == [LOG, *NAMES]
    assert_same(out / "c.csv", place / "here" / "c.csv")
    assert (out / LOG).read_text().count("\n") == 1 + len(NAMES)


def double(value: int) -> int:
    return 2 * value


def tool() -> Any:
    return double


def broken() -> Any:
    raise ZeroDivisionError("the flux")


def test_jobs_come_back_with_their_results_and_a_tool_that_cannot_be_made_is_an_error(cluster: Any) -> None:
    # by value: the workers do not see this file
    cluster.cloudpickle.register_pickle_by_value(__import__(__name__))
    alone = Actors(Ray(workers=1))  # a worker is a process that imports torch
    assert sorted(alone.each(tool, range(7))) == [(i, 2 * i) for i in range(7)]
    assert list(Here().each(tool, range(7))) == [(i, 2 * i) for i in range(7)]
    assert list(alone.each(tool, [])) == []
    with pytest.raises(WorkerError, match="the flux"):
        list(alone.each(broken, range(3)))
