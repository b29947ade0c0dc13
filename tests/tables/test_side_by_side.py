"""Pieces of work in threads: in order, an error in its place, only a few ahead, the same answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from folder_cases import assert_same, model, read, write

from cbdl.tables import answering
from cbdl.tables.answering import Request
from cbdl.tables.answers import PIECE, Options, Trained
from cbdl.tables.side_by_side import in_order


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_results_come_in_order_however_long_each_takes(threads: int) -> None:
    later = threading.Event()

    def slow_first(i: int) -> int:
        # the first waits for the second, where both are at work
        if threads > 1 and i == 0:
            assert later.wait(60)
        if i == 1:
            later.set()
        return i

    assert list(in_order(slow_first, range(20))) == list(range(20))
    assert torch.get_num_threads() == threads


def test_an_error_of_the_work_or_of_its_source_comes_after_what_is_before_it(threads: int) -> None:
    def odd(i: int) -> float:
        return 1 / (i - 5)

    def cut() -> Iterator[int]:
        yield from range(4)
        raise OSError("the end")

    for function, items, error, count in ((odd, range(20), ZeroDivisionError, 5), (odd, cut(), OSError, 4)):
        seen = []
        with pytest.raises(error):
            seen.extend(_collected(in_order(function, items), seen))
        assert len(seen) == count
    assert torch.get_num_threads() == threads


def _collected(results: Iterator[float], seen: list[float]) -> list[float]:
    for result in results:
        seen.append(result)
    return []


def test_only_a_few_are_read_ahead_and_whoever_stops_early_leaves_nothing_behind(threads: int) -> None:
    read = []

    def source() -> Iterator[int]:
        for i in range(1000):
            read.append(i)
            yield i

    results = in_order(abs, source())
    assert [next(results) for _ in range(10)] == list(range(10))
    assert len(read) <= 10 + threads + 1
    results.close()
    assert torch.get_num_threads() == threads
    assert not [t for t in threading.enumerate() if t.name.startswith("ThreadPool")]


@pytest.mark.parametrize("task", ["classes", "line"])
def test_answers_do_not_depend_on_the_number_of_threads(tmp_path: Path, task: str) -> None:
    table = write(tmp_path / "in" / "t.csv", 8300 if task == "classes" else 2100, 1)
    trained, request = Trained.load(model(tmp_path, task)), Request(Options(samples=3))
    assert len(read(table)) > PIECE[trained.target.task]
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            answering.answer_file(trained, table, tmp_path / f"{threads}.csv", request)
    finally:
        torch.set_num_threads(before)
    assert_same(tmp_path / "1.csv", tmp_path / "2.csv")
