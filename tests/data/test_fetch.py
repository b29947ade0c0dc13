"""Downloads against a server on this machine: broken transfers, wrong sums, resumption, archives."""

import hashlib
import io
import json
import sys
import tarfile

import numpy as np
import pytest
from server import running

from calls import called
from cbdl.bayes import progress
from cbdl.cli.bytes_shown import shown_bytes
from cbdl.data import catalogue, fetch
from cbdl.data.catalogue import DataSet, Source
from cbdl.data.fetch import ATTEMPTS, FetchError, digest, folder, is_there

CONTENT = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8).tobytes()


def md5(content):
    return f"md5:{hashlib.md5(content).hexdigest()}"


@pytest.fixture
def server():
    with running() as state:
        state.files["data.bin"] = CONTENT
        yield state


def one(server, name="data.bin", own=None, members=()):
    source = Source(f"{server.address}/{name}", name, own or md5(server.files[name]), members)
    return DataSet("set", "about", "licence", (source,))


def test_a_file_arrives_whole(server, tmp_path):
    place = fetch(one(server), tmp_path)
    assert place == tmp_path / "set"
    assert (place / "data.bin").read_bytes() == CONTENT
    assert [p.name for p in place.iterdir()] == ["data.bin"]
    assert is_there(one(server), tmp_path)
    fetch(one(server), tmp_path)
    assert server.asked == [None]  # what is there is not fetched again


def test_a_transfer_that_breaks_off_goes_on_where_it_stopped(server, tmp_path):
    server.cut = [100_000, 50_000]
    notes = []
    fetch(one(server), tmp_path, notes.append, pause=0)
    assert (tmp_path / "set" / "data.bin").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-", "bytes=150000-"]
    assert any("100000 of 300000" in note for note in notes)


def test_the_next_call_goes_on_where_the_last_one_stopped(server, tmp_path):
    server.cut = [10_000] * ATTEMPTS
    with pytest.raises(FetchError, match="could not be fetched"):
        fetch(one(server), tmp_path, pause=0)
    part = tmp_path / "set" / "data.bin.part"
    assert part.read_bytes() == CONTENT[: 10_000 * ATTEMPTS]
    assert not (tmp_path / "set" / "data.bin").exists()
    assert not is_there(one(server), tmp_path)
    server.asked.clear()
    fetch(one(server), tmp_path, pause=0)
    assert server.asked == [f"bytes={10_000 * ATTEMPTS}-"]
    assert (tmp_path / "set" / "data.bin").read_bytes() == CONTENT
    assert not part.exists()


def test_a_server_without_ranges_sends_everything_again(server, tmp_path):
    server.cut, server.ranges = [100_000], False
    fetch(one(server), tmp_path, pause=0)
    assert (tmp_path / "set" / "data.bin").read_bytes() == CONTENT


def test_a_wrong_sum_is_never_shown_as_the_file(server, tmp_path):
    with pytest.raises(FetchError, match="its sum is not md5:00"):
        fetch(one(server, own="md5:00"), tmp_path, pause=0)
    assert list((tmp_path / "set").iterdir()) == []
    assert len(server.asked) == 2  # once more from the start, not for ever


def test_a_part_of_something_else_is_thrown_away(server, tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "data.bin.part").write_bytes(b"x" * 1000)
    fetch(one(server), tmp_path, pause=0)
    assert (tmp_path / "set" / "data.bin").read_bytes() == CONTENT
    assert server.asked == ["bytes=1000-", None]


def test_a_part_that_was_whole_needs_no_bytes(server, tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "data.bin.part").write_bytes(CONTENT)
    fetch(one(server), tmp_path, pause=0)
    assert (tmp_path / "set" / "data.bin").read_bytes() == CONTENT


def test_a_server_that_fails_is_asked_again_but_not_for_ever(server, tmp_path):
    server.fail = 2
    fetch(one(server), tmp_path, pause=0)
    server.fail = 100
    with pytest.raises(FetchError, match="503"):
        fetch(one(server), tmp_path / "other", pause=0)
    assert server.fail == 100 - ATTEMPTS


def test_archives_are_unpacked_to_the_files_that_are_wanted(server, tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in (("in/a.bin", b"a"), ("../evil.bin", b"e"), ("in/b.bin", b"b")):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    server.files["all.tar.gz"] = buffer.getvalue()
    place = fetch(one(server, "all.tar.gz", members=("in/a.bin", "in/b.bin")), tmp_path)
    assert {p.name: p.read_bytes() for p in place.iterdir()} == {"a.bin": b"a", "b.bin": b"b"}
    assert not (tmp_path / "evil.bin").exists()
    with pytest.raises(ValueError, match=r"has no in/c\.bin"):
        fetch(one(server, "all.tar.gz", members=("in/c.bin",)), tmp_path / "other")


def test_what_is_there_uncompressed_is_not_fetched_again(server, tmp_path):
    server.files |= {"a.gz": CONTENT, "b.gz": CONTENT}
    sources = [Source(f"{server.address}/{name}", name, md5(CONTENT)) for name in ("a.gz", "b.gz")]
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a").write_bytes(b"as it was unpacked")
    place = fetch(DataSet("set", "about", "licence", tuple(sources)), tmp_path)
    assert sorted(path.name for path in place.iterdir()) == ["a", "b.gz"]
    assert len(server.asked) == 1


def test_what_is_there_is_compared_with_its_sum_and_stays_whatever_it_is(server, tmp_path):
    place, notes = fetch(one(server), tmp_path), []
    fetch(one(server), tmp_path, notes.append)
    assert notes == [f"set is in {place}"]
    (place / "data.bin").write_bytes(b"another version")
    fetch(one(server), tmp_path, notes.append)
    assert (
        f"{place / 'data.bin'} is there and stays, but its sum is {md5(b'another version')}, not" in notes[1]
    )
    assert (place / "data.bin").read_bytes() == b"another version"
    assert len(server.asked) == 1


def test_progress_is_told_byte_by_byte_and_goes_on_where_it_stopped(server, tmp_path):
    server.cut, told = [100_000], []
    fetch(one(server), tmp_path, pause=0, seen=lambda *state: told.append(state))
    assert told == [("data.bin", 100_000, 300_000), ("data.bin", 300_000, 300_000)]


def test_an_archive_that_is_there_but_damaged_is_fetched_again(server, tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        info = tarfile.TarInfo("in/a.bin")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"a"))
    server.files["all.tar.gz"] = buffer.getvalue()
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "all.tar.gz").write_bytes(buffer.getvalue()[:50])
    place = fetch(one(server, "all.tar.gz", members=("in/a.bin",)), tmp_path)
    assert [path.name for path in place.iterdir()] == ["a.bin"]


def test_notes_do_not_promise_what_is_not_tried(server, tmp_path):
    server.fail, notes = 100, []
    with pytest.raises(FetchError):
        fetch(one(server), tmp_path, notes.append, pause=0)
    assert sum("trying again" in note for note in notes) == ATTEMPTS - 1


def test_only_web_addresses_are_fetched(tmp_path):
    (tmp_path / "secret").write_text("x")
    source = Source(f"file://{tmp_path}/secret", "secret", "md5:00")
    with pytest.raises(ValueError, match="no http"):
        fetch(DataSet("set", "", "", (source,)), tmp_path / "out")


def test_the_folder_is_the_one_given_then_the_environments_then_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("CBDL_DATA", str(tmp_path))
    assert folder("here").name == "here"
    assert folder() == tmp_path
    monkeypatch.delenv("CBDL_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert folder() == tmp_path / "cache" / "cbdl"


def test_sums_are_those_of_hashlib(tmp_path):
    (tmp_path / "a").write_bytes(CONTENT)
    assert digest(tmp_path / "a", "sha256:") == f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


def test_the_catalogue_is_complete():
    for name, found in catalogue.CATALOGUE.items():
        assert found.name == name
        for source in found.sources:
            assert len(source.sum) == len("md5:") + 32
            assert source.address.startswith("http")
    assert catalogue.data_set("cifar-10").files == (
        *(f"data_batch_{i}.bin" for i in range(1, 6)),
        "test_batch.bin",
    )
    with pytest.raises(ValueError, match="no data set here"):
        catalogue.data_set("imagenet")


# --- the command -------------------------------------------------------------------------------------------


def test_the_command_fetches_lists_and_fails_with_its_code(server, tmp_path, monkeypatch):
    monkeypatch.setitem(catalogue.CATALOGUE, "set", one(server))
    code, out, err = called("data", "list", "--folder", tmp_path, "--json")
    assert code == 0
    assert {row["name"]: row["here"] for row in json.loads(out)["data"]}["set"] is False
    code, out, err = called("data", "fetch", "set", "--folder", tmp_path)
    assert (code, out.strip()) == (0, str(tmp_path / "set"))
    assert server.address in err
    code, out, _ = called("data", "fetch", "set", "--folder", tmp_path, "--json")
    assert json.loads(out)["files"] == ["data.bin"]
    code, out, _ = called("data", "list", "--folder", tmp_path)
    assert "set            here" in out
    code, _, err = called("data", "fetch", "nothing", "--folder", tmp_path)
    assert (code, "no data set here" in err) == (2, True)
    monkeypatch.setattr(fetch.__globals__["time"], "sleep", lambda seconds: None)
    monkeypatch.setitem(catalogue.CATALOGUE, "set", one(server, own="md5:00"))
    code, _, err = called("data", "fetch", "set", "--folder", tmp_path / "other")
    assert (code, "could not be fetched" in err) == (1, True)


def test_the_command_shows_how_far_large_files_are(server, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(catalogue.CATALOGUE, "set", one(server))
    assert "MB" not in called("data", "fetch", "set", "--folder", tmp_path)[2], "not of small files"
    monkeypatch.setattr(progress, "EVERY", 0.0)
    server.files["data.bin"] = bytes(3 << 20)
    monkeypatch.setitem(catalogue.CATALOGUE, "set", one(server))
    _, out, err = called("data", "fetch", "set", "--folder", tmp_path / "other")
    assert out == f"{tmp_path / 'other' / 'set'}\n"
    assert "data.bin: 3 of 3 MB" in err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with shown_bytes() as seen:
        seen("data.bin", 1 << 20, 3 << 20)
        seen("other.bin", 1 << 20, None)
    assert "data.bin" in (shown := capsys.readouterr().err)
    assert "1/3" in shown


def test_the_command_says_of_which_data_sets_a_part_is_there(tmp_path):
    (tmp_path / "cifar-10").mkdir()
    (tmp_path / "cifar-10" / "test_batch.bin.gz").touch()
    _, out, _ = called("data", "list", "--folder", tmp_path)
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [
        ["mnist", "-"],
        ["fashion-mnist", "-"],
        ["cifar-10", "part"],
        ["svhn", "-"],
    ]
    _, out, _ = called("data", "list", "--folder", tmp_path, "--json")
    [row] = [row for row in json.loads(out)["data"] if row["name"] == "cifar-10"]
    assert (row["here"], row["files"]) == (False, ["test_batch.bin"])
