"""Groups of members: what any split keeps, and what a checkpoint directory remembers of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from engine_cases import METHOD, assert_same, images, reference, todo
from hypothesis import given
from hypothesis import strategies as st

from cbdl.bayes.checkpoint import CheckpointError
from cbdl.bayes.train import Interrupted, Run
from cbdl.engines import Local, processes, worker
from cbdl.engines.job import pack
from cbdl.engines.split import FILE, groups, split
from trials import trials


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), st.integers(1, 40))
@trials(60)
def test_every_member_is_in_one_group_and_groups_are_even(sizes: list[int], workers: int) -> None:
    made = groups(sizes, workers)
    for cohort, size in enumerate(sizes):
        own = [g for g in made if g.cohort == cohort]
        assert [i for g in own for i in range(g.start, g.stop)] == list(range(size))
        lengths = [g.stop - g.start for g in own]
        assert max(lengths) - min(lengths) <= 1
        assert min(lengths) >= 1
    assert len(made) == max(len(sizes), min(workers, sum(sizes)))


def test_few_workers_do_not_split_a_cohort() -> None:
    assert len(groups([4, 4, 4], 3)) == 3
    assert len(groups([4, 4, 4], 1)) == 3


def test_split_changes_nothing_but_rounding() -> None:
    tasks, data = todo(3), images()
    whole = Local().train(tasks, data, METHOD, Run())
    for workers in (3, 6):
        assert_same(reference(tasks, data, workers), whole, 1e-8)


def test_directory_remembers_the_split(tmp_path: Path) -> None:
    tasks = todo(4)
    first = split(tasks, 5, tmp_path)
    assert len(first) == 5
    assert split(tasks, 2, tmp_path) == first
    assert split(tasks, 2) != first


@pytest.mark.parametrize("members", [3, 5])
def test_directory_of_another_run_is_refused_and_left(tmp_path: Path, members: int) -> None:
    split(todo(4), 5, tmp_path)
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(CheckpointError, match="belongs to another run"):
        split(todo(members), 5, tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


@pytest.mark.parametrize(
    "content", ["", "{}", '{"format": 1, "groups": 3}', '{"groups": [[]], "format": "x"}']
)
def test_damaged_memory_of_the_split_is_a_clear_error(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(CheckpointError, match="another"):
        split(todo(2), 1, tmp_path)


def test_local_finishes_a_run_in_the_groups_it_was_begun_with(tmp_path: Path) -> None:
    tasks, data = todo(3), images()
    split(tasks, 4, tmp_path)
    count = iter(range(1000))
    with pytest.raises(Interrupted, match="make the same call again"):
        Local().train(
            tasks, data, METHOD, Run(stop=lambda: next(count) == 30), checkpoint_dir=tmp_path, every_seconds=0
        )
    made = Local().train(tasks, data, METHOD, Run(), checkpoint_dir=tmp_path)
    assert_same(made, reference(tasks, data, 4))


def test_data_travels_whole_and_each_tensor_once() -> None:
    data = images()
    packed, arrays = pack(data)
    back = packed.unpack(arrays)
    assert len(packed.skeleton) < 2000
    assert sum(a.nbytes for a in arrays) < 1.01 * sum(
        x.nbytes for x in (data.x, data.y, data.validation.x, data.validation.y)
    )  # type: ignore[union-attr]
    assert "digest" in vars(back)
    assert back.digest == data.digest
    assert back.validation is not None
    assert torch.equal(back.validation.x, data.validation.x)  # type: ignore[union-attr]


def test_workers_map_the_data_with_the_alignment_of_memory(tmp_path: Path) -> None:
    data = images()
    folder, packed = processes.share(data, tmp_path)
    there = worker.shared(folder, packed)
    for x in (there.held.x, there.held.y, there.inputs.loc, there.validation.x):  # type: ignore[union-attr]
        assert x.data_ptr() % 64 == 0
    assert there.digest == data.digest
