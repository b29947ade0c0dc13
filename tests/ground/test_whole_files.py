"""Files and folders appear whole or not at all; the memory limit is one number."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from cbdl.ground import files, memory


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)


def test_a_file_is_written_and_replaced_and_its_predecessor_kept(tmp_path: Path) -> None:
    path, before = tmp_path / "deep" / "a", tmp_path / "deep" / "a.previous"
    files.write(path, b"one", previous=before)
    assert names(path.parent) == ["a"]
    files.write(path, "zwei: ü", previous=before)
    assert (path.read_text("utf-8"), before.read_bytes()) == ("zwei: ü", b"one")
    with files.whole(path) as file:
        file.write("three")
        assert path.read_text("utf-8") == "zwei: ü"
    assert path.read_text() == "three"
    assert names(path.parent) == ["a", "a.previous"]


@pytest.mark.usefixtures("full")
def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "x").write_bytes(b"old")
    with pytest.raises(OSError, match="No space"):
        files.write(tmp_path / "a", b"new", previous=tmp_path / "b")
    with pytest.raises(OSError, match="No space"), files.whole(tmp_path / "a") as file:
        file.write("new")
    with pytest.raises(OSError, match="No space"), files.whole_folder(tmp_path / "m") as fresh:
        files.put(fresh / "x", b"new")
    assert names(tmp_path) == ["a", "m"]
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "m" / "x").read_bytes()) == (b"old", b"old")


def test_an_error_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(TypeError), files.whole(tmp_path / "a") as file:
        file.write(3)  # type: ignore[arg-type]
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_a_folder_is_replaced_whole_and_a_rename_that_fails_brings_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "m"
    with files.whole_folder(target) as fresh:
        files.put(fresh / "x", "1")
    with files.whole_folder(target) as fresh:
        files.put(fresh / "y", "2")
    assert names(target) == ["y"]
    rename = os.replace

    def fails(a: Any, b: Any) -> None:
        if str(a).endswith(".tmp"):
            raise OSError(errno.EIO, "broken")
        rename(a, b)

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="broken"), files.whole_folder(target) as fresh:
        files.put(fresh / "z", "3")
    assert names(target) == ["y"]
    assert names(tmp_path) == ["m"]


def test_the_limit_comes_from_the_argument_the_setting_the_environment_or_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(memory.VARIABLE, raising=False)
    assert memory.limit() == 1 << 30
    monkeypatch.setenv(memory.VARIABLE, str(1 << 25))
    assert memory.limit() == 1 << 25
    with memory.limited(1 << 22):
        assert memory.limit() == 1 << 22
        assert memory.limit(5) == 5
    assert memory.limit() == 1 << 25
    monkeypatch.setenv(memory.VARIABLE, "2 GB")
    with pytest.raises(ValueError, match="CBDL_MAX_MEMORY is '2 GB'; give a number of bytes"):
        memory.limit()
    with pytest.raises(ValueError, match="max_memory is 7"):
        memory.set_limit(7)
