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


def killer(out: Path, times: int) -> threading.Thread:
    """Kills, so many times, a worker that is writing; the files that are not whole bear its number."""

    def kill() -> None:
        seen: set[int] = set()
        while len(seen) < times:
            for path in out.glob(".a.csv.*.tmp"):
                worker = int(path.name.split(".")[-2])
                if worker not in seen and worker != os.getpid():
                    seen.add(worker)
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


def test_worker_killed_in_the_middle_loses_and_doubles_nothing(
    cluster: Any, place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "out"
    todo = folders.jobs(folders.tables([str(place / "in")]), out, None)
    thread = killer(out, 1)
    with caplog.at_level(logging.WARNING, "cbdl"):
        outcomes = list(folders.answer(place / "model", todo, out, Request(), Actors()))
    thread.join(60)
    assert "a.csv: its worker died" in caplog.text
    assert sorted(o.job.table.name for o in outcomes) == sorted(NAMES)
    assert all(o.counts is not None and o.counts.rows == 1500 for o in outcomes)
    for name in NAMES:
        assert_same(out / name, place / "here" / name)
    assert (out / LOG).read_text().count("\n") == 1 + len(NAMES)


def test_table_whose_workers_always_die_is_named_and_the_others_are_answered(
    cluster: Any, place: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    todo = folders.jobs(folders.tables([str(place / "in")]), out, None)
    thread = killer(out, 2)
    outcomes = list(folders.answer(place / "model", todo, out, Request(), Actors(Ray(retries=1))))
    thread.join(60)
    lost = {o.job.table.name: o.error for o in outcomes if o.counts is None}
    assert list(lost) == ["a.csv"]
    assert "its worker died 2 times" in lost["a.csv"]
    # the next run sweeps up what the killed ones had begun, and answers what is missing
    again = list(folders.answer(place / "model", todo, out, Request(), Here()))
    assert [o.before for o in sorted(again, key=lambda o: str(o.job))] == [False, True, True]
    assert names(out) == [LOG, *NAMES]
    assert_same(out / "a.csv", place / "here" / "a.csv")


def double(value: int) -> int:
    return 2 * value


def tool() -> Any:
    return double


def broken() -> Any:
    raise ZeroDivisionError("the flux")


def test_jobs_come_back_with_their_results_and_a_tool_that_cannot_be_made_is_an_error(cluster: Any) -> None:
    # by value: the workers do not see this file
    cluster.cloudpickle.register_pickle_by_value(__import__(__name__))
    assert sorted(Actors().each(tool, range(7))) == [(i, 2 * i) for i in range(7)]
    assert list(Here().each(tool, range(7))) == [(i, 2 * i) for i in range(7)]
    assert list(Actors().each(tool, [])) == []
    with pytest.raises(WorkerError, match="the flux"):
        list(Actors().each(broken, range(3)))
