"""The racing study by its command: it runs on any track, is kept and resumed, and refuses bad tracks."""

import json

import numpy as np
import pytest
from racing_cases import wavy_points

from calls import called
from cbdl import plots
from cbdl.studies import study as studies
from cbdl.studies.racing import STUDY, members, runs
from cbdl.studies.racing.plans import PLANS
from cbdl.studies.racing.worlds import find_track, open_world
from cbdl.tables.files import UsageError
from protocols import check_report


def track_file(folder, points, name="mine_centerline.csv"):
    rows = ["# x_m, y_m, w_tr_right_m, w_tr_left_m", *(f"{x:.6f}, {y:.6f}, 1.1, 1.1" for x, y in points)]
    (folder / name).write_text("\n".join(rows) + "\n")
    return folder / name


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """One run on a track file by the command line: exit code, numbers, what was noted, the folder."""
    folder = tmp_path_factory.mktemp("racing")
    track = track_file(folder, wavy_points(length=80.0))
    arguments = (
        "study",
        "racing",
        "--profile",
        "smoke",
        "--track",
        track,
        "--out",
        folder / "report",
        "--json",
    )
    code, out, err = called(*arguments)
    assert code == 0, err
    return json.loads(out), err, folder / "report", arguments


def test_the_command_writes_tables_figures_and_numbers(smoke):
    numbers, err, folder, _ = smoke
    assert "mine; the other track is embedded" in err
    tests = ["in-distribution", "faster", "slippery", "other-track", "race-line"]
    assert {f"coverage-blocked-{test}" for test in tests} <= set(numbers)
    assert {"track", "scores-blocked", "samples-race-line", "claims", "goals"} <= set(numbers)
    check_report(numbers, folder)
    for name in ("track", "samples-in-distribution", "widths-blocked"):
        assert (folder / f"{name}.png").stat().st_size > 10_000
    assert "* CBDL" in (folder / "RESULTS.md").read_text()
    own = numbers["coverage-blocked-in-distribution"]
    assert {"MF EBNN", "MF CBDL", "MF4 CBDL", "MF EBNN @ CBDL", "our calibrated", "CTRV HDR"} <= set(own)
    assert {"one", "multi", "width", "area"} <= set(own["our calibrated"])


def test_a_second_run_reads_what_is_kept_and_says_the_same(smoke, monkeypatch):
    numbers, _, _, arguments = smoke
    monkeypatch.setattr(runs, "train", None)  # nothing can be trained now
    monkeypatch.setattr(plots, "available", lambda: False)  # figures take a while
    code, out, err = called(*arguments)
    assert code == 0
    assert json.loads(out) == numbers
    assert err.count("(kept)") == 2 * (len(members.LINE_UPS) + 1)


def test_what_is_lost_is_run_again_and_says_the_same(smoke):
    numbers, _, folder, arguments = smoke
    # Training of both kinds, and all that is simulated.
    lost = ("blocked-out-0-mf-", "blocked-out-0-ours-", "blocked-in-0-ctrv-")
    files = [file for file in (folder / "runs").iterdir() if any(name in file.name for name in lost)]
    assert len(files) == len(lost)
    before = [file.read_text() for file in files]
    for file in files:
        file.unlink()
    heard: list[str] = []
    track = str(arguments[arguments.index("--track") + 1])
    assert dict(_numbers(folder, track, heard)) == numbers
    assert [file.read_text() for file in files] == before
    assert sum("(kept)" in text for text in heard) == 2 * (len(members.LINE_UPS) + 1) - len(lost)


def _numbers(folder, track, heard):
    """The study's numbers from what is kept in the folder; nothing is drawn."""
    for part in STUDY.parts(studies.Context("smoke", 0, folder, heard.append, track=track)):
        yield part.name, part.numbers


def eight(points):
    """A figure of eight in place of the points."""
    angle = np.linspace(0.0, 2.0 * np.pi, 300, endpoint=False)
    return np.stack([20.0 * np.sin(angle), 12.0 * np.sin(2.0 * angle)], axis=1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: np.vstack([p[:40], p[60:]]), ("line", "gap")),
        (lambda p: p[:8], ("different points",)),
        (lambda p: np.where(np.arange(len(p))[:, None] == 5, np.nan, p), ("line 7", "nan")),
        (eight, ("crosses itself",)),
    ],
)
def test_bad_tracks_are_refused_before_anything_is_trained(tmp_path, change, words):
    track = track_file(tmp_path, change(wavy_points(length=120.0)))
    code, _, err = called(
        "study", "racing", "--profile", "smoke", "--track", track, "--out", tmp_path / "out"
    )
    assert code == 2
    assert str(track) in err.replace("\n", "")
    assert all(word in err for word in words)
    assert not (tmp_path / "out").exists()


def test_tracks_that_are_not_there_and_studies_without_one(tmp_path):
    code, _, err = called(
        "study", "racing", "--profile", "smoke", "--track", "nowhere", "--out", tmp_path / "a"
    )
    assert code == 2
    assert "there is no track 'nowhere'" in err
    code, _, err = called(
        "study", "demo", "--profile", "smoke", "--track", "embedded", "--out", tmp_path / "b"
    )
    assert code == 2
    assert "demo is not run on a race track" in err


def test_public_tracks_go_by_their_names(tmp_path, monkeypatch):
    folder = tmp_path / "tracks" / "Spielberg"
    folder.mkdir(parents=True)
    track_file(folder, wavy_points(length=60.0), "Spielberg_centerline.csv")
    monkeypatch.setenv("CBDL_DATA", str(tmp_path))
    assert find_track(None).name == find_track("Spielberg").name == "Spielberg"
    assert find_track("embedded").name == "embedded"
    assert open_world(None, PLANS["smoke"].length).other_track.name == "embedded"
    assert open_world("embedded", PLANS["smoke"].length).other_track.name == "embedded-2"
    monkeypatch.delenv("CBDL_DATA")
    assert find_track(None).name == "embedded"
    with pytest.raises(UsageError, match="CBDL_DATA/tracks"):
        find_track("Spielberg")
