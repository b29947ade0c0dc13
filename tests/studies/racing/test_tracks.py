"""Tracks: what the files say, how noise goes, and that bad files are refused with file, line and remedy."""

import re

import numpy as np
import pytest
from racing_cases import TRACKS, circle, needs_public_tracks, stadium_points, wavy_points, wavy_track

from cbdl.studies.racing import embedded_track, load_race_line, load_track, make_track
from cbdl.studies.racing.curves import chords, crossing

HEADER = ["# x_m, y_m, w_tr_right_m, w_tr_left_m"]


def rows(points, right=1.1, left=0.9):
    return HEADER + [f"{x!r}, {y!r}, {right}, {left}" for x, y in points.tolist()]


def written(tmp_path, lines, name="Loop_centerline.csv"):
    file = tmp_path / name
    file.write_text("\n".join(lines) + "\n")
    return file


def test_a_file_is_the_track_that_was_written(tmp_path):
    track = load_track(written(tmp_path, rows(circle(6.0))))
    assert track.name == "Loop"
    assert track.length == pytest.approx(12.0 * np.pi, rel=1e-4)
    np.testing.assert_allclose(np.hypot(*track.centre.xy.T), 6.0, atol=1e-3)
    np.testing.assert_allclose(track.right, 1.1, atol=2e-3)
    np.testing.assert_allclose(track.left, 0.9, atol=2e-3)


def test_folders_comments_blank_lines_and_a_closing_point_are_fine(tmp_path):
    points = wavy_points()
    plain = load_track(written(tmp_path, rows(points)))
    lines = rows(np.concatenate([points, points[:1]]))
    lines[5:5] = ["", "# a comment"]
    other = tmp_path / "other"
    other.mkdir()
    written(other, lines)
    track = load_track(other)
    np.testing.assert_allclose(track.centre.xy, plain.centre.xy, atol=1e-9)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(", ", ";"),
        lambda text: text.replace(", ", "\t"),
        lambda text: text.replace(", ", "   "),
        lambda text: text.replace("# ", ""),  # names in a line of their own
        lambda text: text.replace(HEADER[0] + "\n", ""),  # no names
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
    ],
    ids=["semicolons", "tabs", "blanks", "header", "no header", "Windows", "byte order mark"],
)
def test_files_as_they_are_found_are_the_same_track(tmp_path, change):
    text = "\n".join(rows(wavy_points())) + "\n"
    plain, other = tmp_path / "plain.csv", tmp_path / "other.csv"
    plain.write_text(text)
    other.write_bytes(change(text).encode())
    for own in ("centre", "left", "right"):
        here, there = (getattr(load_track(file), own) for file in (plain, other))
        np.testing.assert_array_equal(getattr(here, "xy", here), getattr(there, "xy", there))


def test_numbers_follow_the_names_of_their_columns(tmp_path):
    points = circle(6.0).tolist()
    lines = ["# w_tr_left_m; w_tr_right_m; x_m; y_m", *(f"0.9; 1.1; {x!r}; {y!r}" for x, y in points)]
    track = load_track(written(tmp_path, lines))
    np.testing.assert_allclose(track.right, 1.1, atol=2e-3)
    np.testing.assert_allclose(track.left, 0.9, atol=2e-3)


def test_noise_goes_and_bends_stay():
    points = wavy_points(length=200.0)
    noise = np.random.default_rng(0).normal(size=points.shape) * 0.05
    ones = np.ones(len(points))
    clean, noisy = make_track("clean", points, ones, ones), make_track("noisy", points + noise, ones, ones)
    _, off = clean.centre.project(noisy.centre.xy, noisy.centre.s * (clean.length / noisy.length), reach=2.0)
    assert off.std() < 0.6 * 0.05  # most of the noise is gone
    apart = np.abs(noisy.centre.curvature).max() - np.abs(clean.centre.curvature).max()
    assert abs(apart) < 0.15
    _, moved = clean.centre.project(points, clean.length * np.arange(len(points)) / len(points), reach=2.0)
    assert np.abs(moved).max() < 5e-3  # and a clean file is hardly touched


def test_edges_stay_where_they_are_when_the_centre_line_is_smoothed():
    square = [[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]]
    sides = [
        np.linspace(a, b, 25, endpoint=False) for a, b in zip(square, square[1:] + square[:1], strict=True)
    ]
    points = np.concatenate(sides)
    track = make_track("square", points, np.full(100, 1.1), np.full(100, 1.1))
    moved = track.centre.offset(-track.right)[np.argmin(np.abs(track.centre.xy - [5.0, 0.0]).sum(axis=1))]
    assert moved[1] == pytest.approx(-1.1, abs=0.01)
    corner = np.argmin(np.abs(track.centre.xy - [10.0, 0.0]).sum(axis=1))
    assert track.right[corner] > 1.15  # the smooth line cuts the corner, the outer edge is farther from it


def test_turning_and_moving_a_track_changes_nothing_else():
    points, ones = wavy_points(1), np.ones(150)
    turn = np.array([[np.cos(1.0), np.sin(1.0)], [-np.sin(1.0), np.cos(1.0)]])
    here, there = (
        make_track("a", points, ones, ones),
        make_track("b", points @ turn + [1e3, -500.0], ones, ones),
    )
    np.testing.assert_allclose(there.centre.xy, here.centre.xy @ turn + [1e3, -500.0], atol=1e-8)
    np.testing.assert_allclose(there.centre.curvature, here.centre.curvature, atol=1e-7)


def test_the_embedded_track_is_a_track():
    track = embedded_track()
    assert 300.0 < track.length < 400.0
    assert crossing(track.centre.xy) is None
    assert min(track.left.min(), track.right.min()) > 1.0
    assert np.abs(track.centre.curvature).max() > 0.5  # it has a hairpin
    assert np.hypot(*track.centre.xy[0]) < 0.3


def figure_of_eight():
    angle = 2.0 * np.pi * np.arange(200) / 200
    return np.stack([np.sin(angle), 0.5 * np.sin(2.0 * angle)], axis=1) * 12.0


def replaced(line, text):
    lines = rows(wavy_points())
    lines[line - 1] = text
    return lines


def without(first, last):
    lines = rows(wavy_points())
    return lines[: first - 1] + lines[last:]


BAD = {
    "words": (replaced(7, "1.0, two, 1.1, 1.1"), "line 7: y_m is 'two', not a number; mend"),
    "nan": (replaced(9, "nan, 2.0, 1.1, 1.1"), "line 9: x_m is nan; mend or remove"),
    "inf": (replaced(9, "1.0, 2.0, inf, 1.1"), "line 9: w_tr_right_m is inf; mend"),
    "empty cell": (replaced(4, "1.0,, 1.1, 1.1"), "line 4: y_m is '', not a number"),
    "three columns": (
        replaced(3, "1.0, 2.0, 1.1"),
        "line 3: 3 columns, separated by ','; a centre-line file has 4: x_m",
    ),
    "a race line": (
        replaced(2, "0.0;1;2;3;4;5;6"),
        "line 2: 7 columns, separated by ';'.*x_m, y_m.*another kind of file",
    ),
    "no width": (
        replaced(5, HEADER[0][:0] + "{}, {}, 1.1, 0".format(*wavy_points()[3])),
        "line 5: the width to the left",
    ),
    "gap": (
        without(40, 60),
        "line 39: a gap of .* m between this point and the next .*; fill in the missing",
    ),
    "open": (without(120, 151), "line 119: a gap of .* between the last point and the first"),
    "too few": (rows(circle(0.5, 6)), "6 different points; a closed track needs at least 10"),
    "sparse": (rows(circle(40.0, 20)), "points are 12.5 m apart.*add points, or scale"),
    "crossing": (
        rows(figure_of_eight()),
        r"line \d+: the track crosses itself, with the stretch at .*line \d+; bridges",
    ),
    "one point": (rows(np.ones((30, 2))), "0 different points"),
    "nothing": (HEADER, "no rows of numbers; a centre-line file has the columns x_m"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_files_are_refused_with_file_line_and_remedy(tmp_path, case):
    lines, message = BAD[case]
    file = written(tmp_path, lines)
    with pytest.raises(ValueError, match=message) as error:
        load_track(file)
    assert str(error.value).startswith(str(file))


def test_missing_and_ambiguous_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path / "no.csv")) + ": no such file; give"):
        load_track(tmp_path / "no.csv")
    with pytest.raises(FileNotFoundError, match="0 files match"):
        load_track(tmp_path)
    binary = tmp_path / "map_centerline.csv"
    binary.write_bytes(bytes(range(128, 256)))
    with pytest.raises(ValueError, match="not a text file"):
        load_track(binary)


def test_arrays_of_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r"points \(50, 3\).*give points \(N, 2\)"):
        make_track("x", np.zeros((50, 3)), np.ones(50), np.ones(50))
    with pytest.raises(ValueError, match=r"left \(49,\)"):
        make_track("x", stadium_points()[:50], np.ones(50), np.ones(49))
    points = stadium_points()
    points[3, 1] = np.nan
    with pytest.raises(ValueError, match="x, point 3: a coordinate is not a finite number"):
        make_track("x", points, np.ones(len(points)), np.ones(len(points)))


def test_race_lines_are_read_by_column(tmp_path):
    points = wavy_points()
    s = np.concatenate([[0.0], np.cumsum(chords(points))[:-1]])
    lines = ["# id", "# other", "# s_m; x_m; y_m; psi_rad; kappa_radpm; vx_mps; ax_mps2"]
    lines += [f"{a};{x};{y};1;2;3;4" for a, (x, y) in zip(s.tolist(), points.tolist(), strict=True)]
    line = load_race_line(written(tmp_path, lines, "Loop_raceline.csv"))
    np.testing.assert_array_equal(line.xy, points)
    np.testing.assert_array_equal(line.s, s)
    assert (line.heading[0], line.curvature[0], line.speed[0], line.acceleration[0]) == (1.0, 2.0, 3.0, 4.0)
    lines[6] = "1;2"
    with pytest.raises(ValueError, match="line 7: 2 columns, separated by ';'; a race-line file has 7"):
        load_race_line(written(tmp_path, lines, "Loop_raceline.csv"))


def test_places_say_where_a_point_comes_from():
    track = wavy_track()
    number = [int(place.removeprefix("wavy, point ")) for place in track.places]
    assert number == sorted(number)
    assert number[len(number) // 2] == pytest.approx(75, abs=3)


@needs_public_tracks
@pytest.mark.parametrize(("name", "length"), [("Spielberg", 343.3), ("Silverstone", 457.9)])
def test_public_tracks_are_read(name, length):
    track, line = load_track(TRACKS / name), load_race_line(TRACKS / name)
    assert track.name == line.name == name
    assert track.length == pytest.approx(length, abs=0.2)
    assert np.abs(np.concatenate([track.left, track.right]) - 1.1).max() < 0.05
    assert line.speed.max() == pytest.approx(8.0)
