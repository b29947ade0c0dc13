"""Splits: the paper's sizes, and held-out stretches that no other part touches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from racing_cases import circle_track, circling, wavy_track

from cbdl.studies.racing import blocked_split, cut_windows, held_out_stretches, line_held_out, random_split
from cbdl.studies.racing.splits import PARTS
from trials import trials


def laps(length=300.0, lines=("centre", "race"), speeds=(4.0, 7.5), steps=9000):
    track = wavy_track(length=length)
    traces = [circling(track, v, steps, line=line, laps=0.3) for line in lines for v in speeds]
    return cut_windows(track, traces)


WINDOWS = laps()


def parts(split):
    return {"train": split.train, "validation": split.validation, "test": split.test}


def touched(windows, rows, bins=100_000):
    """Which of many small pieces of the lap the windows cover, by their ends alone."""
    begin, end = np.floor(windows.stretch[rows] / windows.track_length * bins).astype(int).T
    count = np.zeros(3 * bins, dtype=int)
    lap = begin // bins * bins
    np.add.at(count, begin - lap, 1)
    np.add.at(count, end - lap + 1, -1)
    covered = np.cumsum(count) > 0
    return covered[:bins] | covered[bins : 2 * bins] | covered[2 * bins :]


@trials(25)
@given(seed=st.integers(0, 10_000), stretches=st.integers(1, 5))
def test_no_place_of_the_track_is_in_two_parts(seed, stretches):
    split = blocked_split(WINDOWS, seed, stretches)
    covered = [touched(WINDOWS, rows) for rows in parts(split).values()]
    both = sum(np.roll(c, k).astype(int) for c in covered for k in (0,))
    # A piece of 3 mm that holds the edge between two parts may be touched from both sides.
    assert (both > 1).sum() <= 4 * stretches
    rows = np.concatenate(list(parts(split).values()))
    assert len(np.unique(rows)) == len(rows)


@trials(25)
@given(seed=st.integers(0, 10_000))
def test_pairs_of_windows_of_two_parts_do_not_overlap(seed):
    """Interval against interval, on the circle."""
    split = blocked_split(WINDOWS, seed)
    rng = np.random.default_rng(seed)
    for a, b in (("train", "validation"), ("train", "test"), ("validation", "test")):
        one, two = (WINDOWS.stretch[rng.choice(parts(split)[part], 300)] for part in (a, b))
        shift = np.floor(one[:, None, 0] / WINDOWS.track_length) - np.floor(
            two[None, :, 0] / WINDOWS.track_length
        )
        for turn in (-1, 0, 1):
            other = two[None] + ((shift + turn) * WINDOWS.track_length)[..., None]
            overlap = np.minimum(one[:, None, 1], other[..., 1]) - np.maximum(one[:, None, 0], other[..., 0])
            assert (overlap <= 0.0).all()


@pytest.mark.parametrize("seed", range(5))
def test_a_fifth_of_what_remains_is_held_out_and_most_windows_remain(seed):
    sizes = {name: len(rows) for name, rows in parts(blocked_split(WINDOWS, seed)).items()}
    total = sum(sizes.values())
    assert sizes["train"] / total == pytest.approx(0.8, abs=0.01)
    assert sizes["validation"] / total == pytest.approx(0.1, abs=0.03)
    assert sizes["test"] / total == pytest.approx(0.1, abs=0.03)
    assert total > 0.8 * len(WINDOWS)


def test_only_windows_across_an_edge_are_dropped():
    stretches = held_out_stretches(WINDOWS, seed=1)
    kept = np.concatenate(list(parts(stretches.split(WINDOWS)).values()))
    dropped = np.setdiff1d(np.arange(len(WINDOWS)), kept)
    edges = np.concatenate([stretches.edges + k * stretches.length for k in range(12)])
    crosses = ((WINDOWS.stretch[:, :1] < edges) & (edges <= WINDOWS.stretch[:, 1:])).any(axis=1)
    np.testing.assert_array_equal(np.flatnonzero(crosses), dropped)


def test_seeds_choose_and_repeat():
    a, b, c = (blocked_split(WINDOWS, seed) for seed in (1, 1, 2))
    for part in PARTS:
        np.testing.assert_array_equal(parts(a)[part], parts(b)[part])
    assert not np.array_equal(a.test, c.test)
    assert np.array_equal(random_split(WINDOWS, 3).test, random_split(WINDOWS, 3).test)


def test_the_random_split_has_the_papers_sizes():
    track = circle_track(8.0)
    windows = cut_windows(track, [circling(track, steps=43_359, speed=1.0)], history=1, horizon=1, stride=1)
    split = random_split(windows)
    assert len(windows) == 43_358
    assert [len(rows) for rows in parts(split).values()] == [34_686, 4_336, 4_336]
    rows = np.sort(np.concatenate(list(parts(split).values())))
    np.testing.assert_array_equal(rows, np.arange(43_358))


def test_the_random_split_leaks_and_the_blocked_one_does_not():
    for split, leaks in ((random_split(WINDOWS), True), (blocked_split(WINDOWS), False)):
        both = touched(WINDOWS, split.train) & touched(WINDOWS, split.test)
        assert (both.mean() > 0.5) == leaks


def test_stretches_hold_for_other_windows_of_the_same_track():
    """A shift is tested on the stretches that training has not seen."""
    stretches = held_out_stretches(WINDOWS, seed=4)
    shifted = laps(speeds=(9.0,), lines=("race",), steps=4000)
    test = stretches.split(shifted).test
    assert len(test) > 0
    assert not (touched(shifted, test) & touched(WINDOWS, stretches.split(WINDOWS).train)).sum() > 4 * 3
    with pytest.raises(ValueError, match="make stretches for that track"):
        stretches.split(laps(length=200.0))


def test_a_line_can_be_held_out():
    split = line_held_out(blocked_split(WINDOWS), WINDOWS)
    assert set(WINDOWS.line[split.test]) == {"race"}
    assert set(WINDOWS.line[split.train]) == set(WINDOWS.line[split.validation]) == {"centre"}
    with pytest.raises(ValueError, match="no window is of the line 'left'; the lines are centre, race"):
        line_held_out(split, WINDOWS, "left")


def test_short_tracks_have_fewer_stretches():
    many, few = (held_out_stretches(laps(length=length)) for length in (200.0, 40.0))
    assert (many.parts.count("test"), few.parts.count("test")) == (3, 1)


def test_too_few_windows_are_refused():
    with pytest.raises(ValueError, match="stretches=0"):
        blocked_split(WINDOWS, stretches=0)
    begin = WINDOWS.stretch[:, 0] % WINDOWS.track_length
    with pytest.raises(ValueError, match=r"too short to hold out stretches.* give a longer track"):
        blocked_split(WINDOWS[begin < 0.01 * WINDOWS.track_length])
    with pytest.raises(ValueError, match="too few windows for three parts"):
        random_split(WINDOWS[:4])
