"""Windows: cut where they should be, seen from the car, and back on the map."""

import numpy as np
import pytest
from racing_cases import circle_track, circling, wavy_track

from cbdl.studies.racing import cut_windows, on_map
from cbdl.studies.racing.windows import CURVATURES_AT


@pytest.fixture(scope="module")
def cut():
    track = wavy_track(length=50.0)
    traces = [circling(track, speed, steps) for speed, steps in ((4.0, 400), (7.0, 1503), (6.0, 70))]
    return track, traces, cut_windows(track, traces)


def test_there_are_as_many_windows_as_fit(cut):
    _, traces, windows = cut
    counts = [(len(trace.s) - 70) // 10 + 1 for trace in traces]
    assert np.bincount(windows.trace).tolist() == counts
    assert windows.history.shape == (sum(counts), 10, 4)
    assert windows.future.shape == (sum(counts), 60, 4)
    assert windows.context.shape == (sum(counts), 13)
    assert len(windows) == sum(counts)


@pytest.mark.parametrize(("history", "horizon", "stride"), [(1, 1, 1), (5, 20, 7), (30, 40, 100)])
def test_other_shapes(cut, history, horizon, stride):
    track, traces, _ = cut
    windows = cut_windows(track, traces, history, horizon, stride)
    assert len(windows) == sum((len(t.s) - history - horizon) // stride + 1 for t in traces)
    assert windows.history.shape[1:] == (history, 4)
    assert windows.future.shape[1:] == (horizon, 4)
    assert windows.step.min() == history - 1


def test_the_present_is_the_origin_and_looks_along_x(cut):
    _, _, windows = cut
    np.testing.assert_allclose(windows.history[:, -1, :3], 0.0, atol=1e-12)
    assert (windows.future[:, :, 0] > 0.0).all()
    assert (windows.history[:, :-1, 0] < 0.0).all()


def test_the_ego_frame_goes_back_to_the_states(cut):
    _, traces, windows = cut
    past, future = (
        on_map(windows.history[..., :2], windows.pose),
        on_map(windows.future[..., :2], windows.pose),
    )
    for w in range(0, len(windows), 7):
        trace, now = traces[windows.trace[w]], windows.step[w]
        np.testing.assert_allclose(past[w], trace.states[now - 9 : now + 1, :2], atol=1e-9)
        np.testing.assert_allclose(future[w], trace.states[now + 1 : now + 61, :2], atol=1e-9)
        np.testing.assert_allclose(windows.pose[w], trace.states[now, [0, 1, 4]])
        np.testing.assert_allclose(windows.future[w, :, 3], trace.states[now + 1 : now + 61, 3])
        turned = trace.states[now + 1 : now + 61, 4] - trace.states[now, 4]
        np.testing.assert_allclose(windows.future[w, :, 2], turned, atol=1e-12)


def test_windows_do_not_depend_on_where_the_track_lies_or_which_lap_it_is():
    track = circle_track(8.0)
    first, later = (cut_windows(track, [circling(track, laps=laps)]) for laps in (0.0, 3.0))
    np.testing.assert_allclose(first.future, later.future, atol=1e-8)
    np.testing.assert_allclose(first.context, later.context, atol=1e-6)


def test_on_the_map_headings_are_continuous_and_the_present_is_in_one_turn(cut):
    track, traces, ego = cut
    windows = cut_windows(track, traces, frame="map")
    heading = np.concatenate([windows.history, windows.future], axis=1)[..., 2]
    assert (np.abs(windows.history[:, -1, 2]) <= np.pi).all()
    assert np.abs(np.diff(heading, axis=1)).max() < 0.3
    np.testing.assert_allclose(windows.future[..., :2], on_map(ego.future[..., :2], ego.pose), atol=1e-9)


def test_the_context_is_the_track_around_the_car(cut):
    track, traces, windows = cut
    for w in range(0, len(windows), 11):
        trace, now = traces[windows.trace[w]], windows.step[w]
        assert windows.context[w, 0] == trace.left[now]
        ahead = (trace.s[now] + np.array(CURVATURES_AT)) % track.length
        bend = np.interp(ahead, track.centre.s, track.centre.curvature, period=track.length)
        np.testing.assert_allclose(windows.context[w, 1:], bend, atol=1e-9)
    ring = circle_track(8.0)
    np.testing.assert_allclose(cut_windows(ring, [circling(ring)]).context[:, 1:], 1.0 / 8.0, rtol=1e-3)


def test_the_stretch_holds_the_whole_window(cut):
    _, traces, windows = cut
    for w in range(0, len(windows), 9):
        trace, now = traces[windows.trace[w]], windows.step[w]
        assert windows.stretch[w].tolist() == [trace.s[now - 9], trace.s[now + 60]]


def test_some_of_the_windows_keep_their_labels(cut):
    track, _, windows = cut
    some = windows[windows.trace == 1]
    assert len(some) == (windows.trace == 1).sum() == len(some.future) == len(some.line)
    assert some.track == track.name
    assert len(windows[5:9]) == 4


def test_traces_that_ended_early_give_what_they_have():
    track = circle_track(8.0)
    early = circling(track, steps=30, on_track=False)
    windows = cut_windows(track, [early, circling(track, steps=100)])
    assert set(windows.trace.tolist()) == {1}
    with pytest.raises(ValueError, match="none of the 1 traces is as long as a window"):
        cut_windows(track, [early])


def test_a_horizon_longer_than_a_trace_is_refused_with_the_trace():
    track = circle_track(8.0)
    with pytest.raises(
        ValueError, match=r"horizon=500 .* \(stanley, centre line, gain 1\) has 400 .*shorten"
    ):
        cut_windows(track, [circling(track)], horizon=500)


@pytest.mark.parametrize(
    "wrong", [{"history": 0}, {"horizon": -3}, {"stride": 0}, {"stride": 2.5}, {"frame": "car"}]
)
def test_wrong_shapes_are_refused(cut, wrong):
    track, traces, _ = cut
    with pytest.raises(ValueError, match=next(iter(wrong))):
        cut_windows(track, traces, **wrong)
