"""What numba keeps of compiled loops is used again only while all loops are written as they were."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("numba")

LOOP = """
from cbdl.ground.compiling import SUMS, compiled

@compiled(SUMS)
def twice(x):
    return x + x
"""


def misses(path: Path) -> int:
    """How often a fresh import of the loop has to compile when it is called."""
    spec = importlib.util.spec_from_file_location("kept_loop", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.twice(2.0) == 4.0
    return sum(module.twice.stats.cache_misses.values())


def test_loops_are_compiled_anew_when_another_file_of_loops_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kept_loop.py"
    path.write_text(LOOP)
    assert [misses(path), misses(path)] == [1, 0]
    monkeypatch.setattr("cbdl.ground.compiling.sources", lambda: "something else")
    assert [misses(path), misses(path)] == [1, 0]
