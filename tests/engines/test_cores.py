"""How many cores there are: the machine's, the affinity's, the container's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cbdl.engines import cores


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.max": "250000 100000\n"}, 3),
        ({"cpu.max": "1000 100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        ({"cpu.max": "nonsense"}, 8),
        ({}, 8),
    ],
)
def test_the_quota_of_a_container_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: dict[str, str], expected: int
) -> None:
    (tmp_path / "cpu").mkdir()
    for name, text in content.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(cores, "CGROUP", tmp_path)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    assert cores.cores() == expected


def test_there_is_at_least_one() -> None:
    assert cores.cores() >= 1
